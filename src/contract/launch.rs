//! Starts a server and the pair of streams to it.
//!
//! Knows processes and its own files. Does not know what goes over the streams.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge_client::local;

/// Placeholders in the command line for choices of a check.
pub const SCRIPT_WORD: &str = "{script}";
/// See [`SCRIPT_WORD`]: the state folder.
pub const STATE_WORD: &str = "{state}";
/// See [`SCRIPT_WORD`]: the configuration file, next to a folder of workflows.
pub const CONFIG_WORD: &str = "{config}";

/// The choices of a check for one start.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The model's answers, in the scripted provider's format; `None` for any.
    pub script: Option<&'a str>,
    /// The name of the state folder: two starts of a check with the same name share the folder.
    pub state: &'a str,
    /// The user's configuration; `None` for any.
    pub config: Option<&'a Config>,
}

/// A user's configuration, as files.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The configuration itself: a map in EDN.
    pub text: String,
    /// Workflows, each with its name.
    pub workflows: Vec<(String, String)>,
}

/// The streams to a running server, and its process.
pub struct Link {
    /// The server's input.
    pub input: Box<dyn Write + Send>,
    /// The server's output.
    pub output: Box<dyn Read + Send>,
    /// The server's process.
    pub server: Box<dyn Server>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

/// A running server.
pub trait Server: Send {
    /// Waits for the end, at most until `deadline`. `None` if it still runs.
    ///
    /// # Errors
    /// If the server cannot be waited for.
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<i32>>;

    /// Ends it at once. Ending it twice is allowed.
    fn kill(&mut self);

    /// The end of its standard error.
    fn complaint(&self) -> String;

    /// Limits the size of the server's files, which has the same effect as a full disk. `false` if the limit
    /// cannot be set.
    fn limit_files(&mut self, _bytes: u64) -> bool {
        false
    }
}

/// Starts servers.
pub trait Launch {
    /// Starts one.
    ///
    /// # Errors
    /// If it cannot be started.
    fn launch(&self, wish: Wish<'_>) -> io::Result<Link>;

    /// Whether a check may set the model's answers.
    fn takes_script(&self) -> bool;

    /// Whether a check may set the state folder, and so start twice on the same one.
    fn takes_state(&self) -> bool;

    /// Whether a check may set the configuration.
    fn takes_config(&self) -> bool {
        false
    }

    /// Rewrites the configuration of the server with that state name.
    ///
    /// # Errors
    /// If it cannot be written.
    fn configure(&self, _state: &str, _config: &Config) -> io::Result<()> {
        Ok(())
    }

    /// Opens a further connection to the server with that state name; `None` if it accepts none before the
    /// deadline.
    ///
    /// # Errors
    /// If an open connection is unusable.
    fn join(&self, _state: &str, _deadline: Instant) -> io::Result<Option<Link>> {
        Ok(None)
    }
}

/// A command line that is started once per check. [`SCRIPT_WORD`], [`STATE_WORD`] and [`CONFIG_WORD`] in its
/// arguments are replaced by files and a folder in a temporary folder, which is removed with this value.
///
/// A server runs in that folder too: its working folder, `HOME` and the `XDG_*` folders are there, one for each check,
/// so that a run leaves nothing behind and reads nothing of this machine's user.
#[derive(Debug)]
pub struct CommandLine {
    words: Vec<OsString>,
    folder: PathBuf,
    scripts: AtomicU64,
}

impl CommandLine {
    /// Takes a program and its arguments. A relative path to the program is one from this process's working folder.
    ///
    /// # Errors
    /// If there is no program, or the temporary folder cannot be created.
    pub fn new(mut words: Vec<OsString>) -> io::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let Some(program) = words.first_mut() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no command to run"));
        };
        if Path::new(program).components().count() > 1 {
            *program = std::path::absolute(&program)?.into();
        }
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        // A socket's path must be short.
        let folder = std::env::temp_dir().join(format!("edn-bridge-contract-{}-{run}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self { words, folder, scripts: AtomicU64::new(0) })
    }

    /// The variables of a server, which lead to its own home, and to no daemon of the user.
    fn variables(&self, state: &str) -> io::Result<Vec<(&'static str, PathBuf)>> {
        let home = self.folder.join("home").join(state);
        let places = [
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_RUNTIME_DIR", ".run"),
        ];
        let mut variables: Vec<_> = places.iter().map(|(name, place)| (*name, home.join(place))).collect();
        for (_, place) in &variables {
            fs::create_dir_all(place)?;
            close(place)?;
        }
        variables.push(("HOME", home));
        variables.push(("EDN_BRIDGE_DAEMON", "never".into()));
        Ok(variables)
    }

    fn mentions(&self, word: &str) -> bool {
        self.words.iter().any(|text| text.to_str().is_some_and(|text| text.contains(word)))
    }

    fn script_file(&self, text: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(format!("script-{}.edn", self.scripts.fetch_add(1, Ordering::Relaxed)));
        fs::write(&path, text)?;
        Ok(path)
    }

    fn state_folder(&self, state: &str) -> PathBuf {
        self.folder.join("state").join(state)
    }

    fn config_file(&self, state: &str) -> PathBuf {
        self.folder.join("config").join(state).join("config.edn")
    }
}

impl Drop for CommandLine {
    fn drop(&mut self) {
        // A file that stays behind in a temporary folder is harmless.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The model's default answer.
const ANY_ANSWER: &str = "{:turns [{:steps [{:delta \"ok\"}]}] :then :repeat-last}";

impl Launch for CommandLine {
    fn launch(&self, wish: Wish<'_>) -> io::Result<Link> {
        let state = self.state_folder(wish.state);
        let script = if self.mentions(SCRIPT_WORD) {
            self.script_file(wish.script.unwrap_or(ANY_ANSWER))?
        } else {
            PathBuf::new()
        };
        if self.mentions(STATE_WORD) {
            fs::create_dir_all(&state)?;
        }
        let config = self.config_file(wish.state);
        if self.mentions(CONFIG_WORD) {
            // Without a choice, the configuration is empty: the configuration of this machine's user is not
            // read.
            self.configure(wish.state, wish.config.unwrap_or(&Config::default()))?;
        }
        let chosen = [(SCRIPT_WORD, &script), (STATE_WORD, &state), (CONFIG_WORD, &config)];
        let replace = |word: &OsString| match word.to_str() {
            Some(text) => {
                let replaced = chosen
                    .iter()
                    .fold(text.to_owned(), |text, (word, path)| text.replace(word, &lossy(path)));
                OsString::from(replaced)
            }
            None => word.clone(),
        };
        let mut words = self.words.iter().map(replace);
        let program = words.next().unwrap_or_default();
        let work = self.folder.join("work").join(wish.state);
        fs::create_dir_all(&work)?;
        let mut child = Command::new(program)
            .args(words)
            .current_dir(work)
            .envs(self.variables(wish.state)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or_else(|| io::Error::other("no standard input"))?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let complaint = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let kept = complaint.clone();
            std::thread::spawn(move || keep_end(stderr, &kept));
        }
        Ok(Link {
            input: Box::new(input),
            output: Box::new(output),
            server: Box::new(RunningServer { child, complaint }),
        })
    }

    fn takes_script(&self) -> bool {
        self.mentions(SCRIPT_WORD)
    }

    fn takes_state(&self) -> bool {
        self.mentions(STATE_WORD)
    }

    fn takes_config(&self) -> bool {
        self.mentions(CONFIG_WORD)
    }

    fn configure(&self, state: &str, config: &Config) -> io::Result<()> {
        let file = self.config_file(state);
        let workflows = file.with_file_name("workflows");
        fs::create_dir_all(&workflows)?;
        for (name, text) in &config.workflows {
            fs::write(workflows.join(name).with_extension("edn"), text)?;
        }
        // A server that reads it meanwhile sees the old or the new file.
        let beside = file.with_extension("new");
        fs::write(&beside, if config.text.is_empty() { "{}" } else { &config.text })?;
        fs::rename(beside, &file)
    }

    fn join(&self, state: &str, deadline: Instant) -> io::Result<Option<Link>> {
        if !self.mentions(STATE_WORD) {
            return Ok(None);
        }
        let folder = self.state_folder(state).join(SOCKETS);
        loop {
            // A server may start to listen shortly after it answers, and a dead one may have left a socket
            // behind.
            let mut places = fs::read_dir(&folder).into_iter().flatten().flatten();
            if let Some(stream) = places.find_map(|place| local::connect(&place.path()).ok()) {
                return Ok(Some(Link {
                    input: Box::new(stream.try_clone()?),
                    output: Box::new(stream.try_clone()?),
                    server: Box::new(Joined(stream)),
                }));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Keeps other users out of a folder. Elsewhere than on Unix, a temporary folder is its user's own.
fn close(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    let _ = folder;
    Ok(())
}

/// The server's sockets for further clients, in this folder of its state.
const SOCKETS: &str = "run";

/// A further connection. Its end does not end the server.
struct Joined(local::Stream);

impl Server for Joined {
    fn wait(&mut self, _: Instant) -> io::Result<Option<i32>> {
        Ok(None)
    }

    fn kill(&mut self) {
        // If it has ended already, there is nothing to do.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn complaint(&self) -> String {
        String::new()
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Bytes of standard error that are kept for a report.
const COMPLAINT_BYTES: usize = 4096;

/// Reads to the end, so that the server never blocks, and keeps the last part.
fn keep_end(mut stream: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let surplus = kept.len().saturating_sub(COMPLAINT_BYTES);
        kept.drain(..surplus);
    }
}

struct RunningServer {
    child: Child,
    complaint: Arc<Mutex<Vec<u8>>>,
}

/// The pause between two polls of a process that is about to end: a thousandth of a check's time limit, and
/// not part of any measurement.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Server for RunningServer {
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<i32>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status.code().unwrap_or(-1)));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn kill(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.complaint.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    #[cfg(target_os = "linux")]
    fn limit_files(&mut self, bytes: u64) -> bool {
        use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return false };
        let limit = Rlimit { current: Some(bytes), maximum: getrlimit(Resource::Fsize).maximum };
        prlimit(Some(pid), Resource::Fsize, limit).is_ok()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.kill();
    }
}
