//! A PostgreSQL of a test's own: a cluster in a temporary folder, on loopback, that ends with the test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::message::SessionId;
use edn_bridge::realm::init;
use edn_bridge::secret::Secret;
use rustix::process::{Pid, Signal, kill_process};

pub use crate::engines::Engine;
pub use crate::promises::PATIENCE;

/// A running server.
pub struct Server {
    folder: tempfile::TempDir,
    pub port: u16,
    process: Option<Child>,
}

/// The folder of PostgreSQL's programs; `None` if it is not installed.
pub fn programs() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|it| it.path().join("bin"))
        .collect();
    found.sort();
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    found
        .into_iter()
        .rev()
        .chain(on_path)
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// A program as the user that may run a server: PostgreSQL refuses root.
pub fn command(program: &Path) -> Command {
    let mut command;
    if rustix::process::getuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]).arg(program);
    } else {
        command = Command::new(program);
    }
    command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command
}

fn run(program: &Path, args: &[&str]) {
    let output = command(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{} {args:?}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

pub fn give(path: &Path) {
    if rustix::process::getuid().is_root() {
        let given = Command::new("chown").args(["-R", "nobody:nogroup"]).arg(path).status().unwrap();
        assert!(given.success());
    }
}

/// A cluster that was made once, to be copied: making one takes longer than most tests.
fn template(bin: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("postgres-template");
    let lock =
        std::fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("postgres-template.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    if !folder.join("ready").exists() {
        // Another user makes it, who may not go into every folder.
        let made = tempfile::Builder::new().prefix("edn-bridge-pg").tempdir_in("/tmp").unwrap();
        open_to_others(made.path());
        give(made.path());
        let data = made.path().join("data");
        run(
            &bin.join("initdb"),
            &[
                "-D",
                data.to_str().unwrap(),
                "-U",
                "edn",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
                "--locale=C.UTF-8",
            ],
        );
        let _ = std::fs::remove_dir_all(&folder);
        let copied = Command::new("cp").arg("-r").arg(made.path()).arg(&folder).status().unwrap();
        assert!(copied.success());
        std::fs::write(folder.join("ready"), "").unwrap();
    }
    folder.join("data")
}

pub fn open_to_others(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

impl Server {
    /// A server with settings and a realm; `None` if PostgreSQL is not installed, which is said.
    pub fn with(settings: &str) -> Option<Self> {
        let Some(bin) = programs() else {
            eprintln!("LEFT OUT: PostgreSQL (Debian: postgresql) is missing");
            return None;
        };
        let data = template(&bin);
        let server = Self::of(&data, settings);
        crate::promises::run(async { init(&server.url(), &[]).await }).ok();
        Some(server)
    }

    /// A server on a copy of a cluster's folder.
    pub fn of(data: &Path, settings: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("edn-bridge-pg").tempdir_in("/tmp").unwrap();
        open_to_others(folder.path());
        let copied = Command::new("cp").arg("-r").arg(data).arg(folder.path().join("data")).status().unwrap();
        assert!(copied.success());
        let mut server = Self { folder, port: free_port(), process: None };
        server.configure(settings);
        server.start_up();
        server
    }

    /// The folder of the cluster.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Writes settings, for the next start.
    pub fn configure(&self, settings: &str) {
        let own = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = 200\n\
             shared_buffers = 32MB\nwal_level = replica\nlog_min_messages = warning\n{settings}\n",
            self.port
        );
        std::fs::write(self.data().join("postgresql.auto.conf"), own).unwrap();
        // initdb lets replication in by name only.
        give(self.folder.path());
    }

    /// Starts it, and waits until it answers.
    fn start_up(&mut self) {
        let bin = programs().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.folder.path().join("log"))
                .unwrap();
            let mut command = command(&bin.join("postgres"));
            command.arg("-D").arg(self.data()).stdout(log.try_clone().unwrap()).stderr(log);
            let mut process = command.spawn().unwrap();
            let is_up = loop {
                assert!(Instant::now() < until, "{}", self.log());
                if process.try_wait().unwrap().is_some() {
                    // What a kill left of it is not all gone yet.
                    break false;
                }
                if self.answers() {
                    break true;
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            if is_up {
                self.process = Some(process);
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        let ready = Command::new(programs().unwrap().join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .status();
        ready.is_ok_and(|status| status.success())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            kill_process(Pid::from_child(process), signal).unwrap();
        }
    }

    /// Runs SQL as the owner of the tables, and returns the first column of the last statement's rows.
    pub fn sql(&self, sql: &str) -> Vec<String> {
        self.sql_as("edn", sql)
    }

    pub fn sql_as(&self, user: &str, sql: &str) -> Vec<String> {
        let output = Command::new(programs().unwrap().join("psql"))
            .args([
                "-X",
                "-A",
                "-t",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
                "-U",
                user,
                "-p",
                &self.port.to_string(),
                "-d",
                "postgres",
                "-c",
                sql,
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Engine for Server {
    fn start() -> Option<Self> {
        Self::with("")
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn url_at(&self, port: u16) -> Secret {
        Secret::new(format!("postgres://edn@127.0.0.1:{port}/postgres"))
    }

    fn begin(&mut self) {
        self.start_up();
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
        }
    }

    fn stop(&mut self) {
        self.signal(Signal::INT);
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
        }
    }

    fn process(&self) -> &Child {
        self.process.as_ref().unwrap()
    }

    fn is_gone(&self, session: &SessionId) -> bool {
        let left = format!(
            "SELECT tail, header, cwd, slot, owner, (SELECT count(*) FROM edn_bridge.entry WHERE session = '{session}') \
             FROM edn_bridge.session WHERE deleted AND id = '{session}'"
        );
        self.sql(&left) == ["0|||||0"]
    }

    fn put_request(&self, id: &str, host: &str) {
        self.sql(&format!(
            "DELETE FROM edn_bridge.request WHERE id = '{id}'; \
             INSERT INTO edn_bridge.request (id, session, host, asker, call, expires) VALUES \
               ('{id}', 's-1', '{host}', 'desk', ':x', clock_timestamp() + interval '1 minute')"
        ));
    }

    fn answer_of(&self, id: &str) -> String {
        self.sql(&format!("SELECT answer FROM edn_bridge.request WHERE id = '{id}'")).concat()
    }

    fn change(&self, session: &str) {
        self.sql(&format!(
            "UPDATE edn_bridge.session SET changed = clock_timestamp() WHERE id = '{session}'"
        ));
    }

    fn end_lease(&self, host: &str) {
        self.sql(&format!(
            "UPDATE edn_bridge.host SET until = until - interval '1 hour' WHERE name = '{host}'"
        ));
    }

    fn store(&self) -> PathBuf {
        self.data()
    }

    fn assert_whole(&self, session: &str) {
        let of = format!("FROM edn_bridge.entry WHERE session = '{session}'");
        let counts = self.sql(&format!("SELECT count(*), max(seq), count(DISTINCT id) {of}"));
        let all = self.sql(&format!("SELECT tail FROM edn_bridge.session WHERE id = '{session}'"));
        assert_eq!(counts, [format!("{0}|{0}|{0}", all[0])]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
