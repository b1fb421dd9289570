//! A program: started below the runner, with an environment by list, and ended politely.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::redacted_errors::{Redactor, cut};
use crate::environment::Environment;
use crate::limits::{
    PEER_END_WAIT, PEER_STDERR_BYTES, PEER_STDERR_LINE_BYTES, PEER_STDERR_LINES, PROCESS_READ_BYTES,
};
use crate::runner::sandbox::Sandbox;
use crate::runner::{self, Program};
use crate::secret::Secret;
use crate::visible;

/// The variables that every program gets, where they are set: what programs need to find themselves, and no key.
const GIVEN: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_COLLATE",
    "LC_TIME",
    "LC_NUMERIC",
    "TZ",
    "TERM",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_HOME",
    "XDG_DATA_DIRS",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// Folders in which the programs that fetch another one keep it, by their names.
const CACHES: &[(&str, &[&str])] = &[
    ("npx", &[".npm"]),
    ("npm", &[".npm"]),
    ("bunx", &[".bun"]),
    ("bun", &[".bun"]),
    ("uvx", &[".cache/uv", ".local/share/uv"]),
    ("uv", &[".cache/uv", ".local/share/uv"]),
    ("pipx", &[".cache/pipx", ".local/share/pipx", ".local/pipx"]),
];

/// A program that runs.
pub struct Child {
    /// Ends it.
    end: CancellationToken,
    /// It has ended, with all that it had started.
    ended: CancellationToken,
    stderr: Arc<Stderr>,
}

/// The last words of a program.
#[derive(Default)]
pub struct Stderr(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Whether something before them is no longer there.
    is_cut: bool,
}

impl Stderr {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend(bytes);
        let over = kept.bytes.len().saturating_sub(PEER_STDERR_BYTES);
        kept.bytes.drain(..over);
        kept.is_cut |= over > 0;
    }

    /// Whole lines: in a part of one, a part of a key would not be found.
    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = kept.bytes.iter().copied();
        if kept.is_cut {
            bytes.by_ref().find(|byte| *byte == b'\n');
        }
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}

/// A started program with the ends of its pipes.
pub struct Started {
    /// The program.
    pub child: Child,
    /// What it writes to its standard output.
    pub read: pipe::Receiver,
    /// Its standard input.
    pub write: pipe::Sender,
}

/// What the sandbox of programs is made of. A program's own folders are added.
#[derive(Debug, Clone, Default)]
pub struct Confine {
    /// Folders that may be written to: the project's and those of commands.
    pub writable: Vec<PathBuf>,
    /// Paths that are never written to.
    pub guarded: Vec<PathBuf>,
    /// Paths that are neither written to nor read.
    pub hidden: Vec<PathBuf>,
}

/// A program that is to be started.
pub struct PeerProgram<'p> {
    /// What it is, in the log: `server` or `agent`.
    pub what: &'static str,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The program and its arguments.
    pub command: &'p [String],
    /// The folder that it runs in.
    pub folder: PathBuf,
    /// Where the variables are read that every program gets.
    pub environment: &'p Environment,
    /// Its further variables.
    pub variables: &'p [(String, Secret)],
    /// Its sandbox; `None` for the rights of the user.
    pub confine: Option<&'p Confine>,
    /// Folders that it may write to beyond those of the sandbox.
    pub writable: &'p [PathBuf],
}

/// Starts a program. Its waiting runs on `tasks`; `noted` is told how it ended by itself.
///
/// # Errors
/// Why it cannot be started, as a sentence.
pub async fn start(
    peer: PeerProgram<'_>,
    noted: &Arc<Redactor>,
    stderr: Arc<Stderr>,
    tasks: &TaskTracker,
) -> Result<Started, String> {
    let [name, arguments @ ..] = peer.command else { return Err("its command is empty".to_owned()) };
    let folder = peer.folder;
    let mut program = Program::new(named(name, &folder)).args(arguments).cwd(&folder);
    program = with_variables(program, peer.environment, peer.variables);
    program = program.sandbox(peer.confine.map(|confine| sandbox(confine, peer.writable, name)));
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound if folder.is_dir() => format!("{name}: there is no such program"),
        std::io::ErrorKind::NotFound => format!("{}: there is no such folder", folder.display()),
        _ => format!("{name}: {error}"),
    };
    let (input, write) = runner::input_pipe().map_err(failed)?;
    let (read, output) = runner::pipe().map_err(failed)?;
    let (errors, error_output) = runner::pipe().map_err(failed)?;
    let started = program.live_input(input).start(output.into(), error_output.into()).await;
    let mut running = started.map_err(failed)?;
    let (end, ended) = (CancellationToken::new(), CancellationToken::new());
    let child = Child { end: end.clone(), ended: ended.clone(), stderr: stderr.clone() };
    let listening = listen(errors, stderr, (peer.what, peer.name), noted.clone());
    // What outlives the program, where nothing can end it, may hold its output open.
    let over = ended.clone();
    tasks.spawn(async move { over.run_until_cancelled(listening).await });
    let noted = noted.clone();
    tasks.spawn(async move {
        let _ended = ended.drop_guard();
        let status = tokio::select! {
            status = running.exited() => Some(status),
            () = end.cancelled() => None,
        };
        // Its input is closed by now. What has ended by itself is noted; of one that is ended here nobody asks why.
        let status = match status {
            None => timeout(PEER_END_WAIT, running.exited()).await.ok(),
            status => status,
        };
        match status {
            Some(Ok(status)) => noted.note(format!("its program has ended ({status})")),
            Some(Err(error)) => noted.note(format!("its program has ended ({error})")),
            None => {}
        }
        running.end().await;
    });
    Ok(Started { child, read, write })
}

/// A program with the variables that every such program gets, and further ones.
#[must_use]
pub fn with_variables(
    program: Program,
    environment: &Environment,
    variables: &[(String, Secret)],
) -> Program {
    let given = program.only(environment, GIVEN);
    variables.iter().fold(given, |program, (name, value)| program.env(name, value.expose()))
}

/// Why a program cannot be started, as far as that can be seen without starting it. Reads the disk.
pub fn missing(command: &[String], folder: &Path, environment: &Environment) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let name = command.first()?;
    let runs = |file: &Path| {
        std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if !folder.is_dir() {
        return Some(format!("{}: there is no such folder", folder.display()));
    }
    let is_there = match name.contains('/') {
        true => runs(&named(name, folder)),
        false => {
            let path = environment.get("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|at| runs(&folder.join(at).join(name)))
        }
    };
    (!is_there).then(|| format!("{name}: there is no such program"))
}

/// A program that is named by a path is looked for in the folder that it will run in.
fn named(name: &str, folder: &Path) -> PathBuf {
    if name.contains('/') { folder.join(name) } else { PathBuf::from(name) }
}

fn sandbox(confine: &Confine, writable: &[PathBuf], name: &str) -> Sandbox {
    let base = Path::new(name).file_name().unwrap_or_default();
    let caches =
        CACHES.iter().filter(|(program, _)| base == *program).flat_map(|(_, folders)| folders.iter());
    let home = dirs::home_dir();
    let caches = caches.filter_map(|folder| home.as_ref().map(|home| home.join(folder)));
    let folders = confine.writable.iter().chain(writable).cloned().chain(caches);
    Sandbox::new(folders).guarding(confine.guarded.iter().cloned()).hiding(confine.hidden.iter().cloned())
}

/// Keeps the last of what a program writes to its standard error, and logs it: without secrets, and not all of a flood.
async fn listen(
    mut errors: pipe::Receiver,
    stderr: Arc<Stderr>,
    (what, name): (&'static str, Arc<str>),
    noted: Arc<Redactor>,
) {
    let mut buffer = vec![0u8; PROCESS_READ_BYTES];
    let mut line: Vec<u8> = Vec::new();
    let (mut second, mut lines) = (Instant::now(), 0usize);
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        stderr.push(bytes);
        for byte in bytes {
            if *byte != b'\n' {
                if line.len() <= PEER_STDERR_BYTES {
                    line.push(*byte);
                }
                continue;
            }
            if second.elapsed() >= std::time::Duration::from_secs(1) {
                (second, lines) = (Instant::now(), 0);
            }
            lines = lines.saturating_add(1);
            if lines == PEER_STDERR_LINES {
                tracing::warn!(what, %name, "it writes much to its standard error: some is left out here");
            } else if lines < PEER_STDERR_LINES {
                tracing::info!(what, %name, stderr = %logged(&line, &noted));
            }
            line.clear();
        }
    }
}

/// A line as it stands in the log. It is cut without its keys: half of a key would not be found.
fn logged(line: &[u8], noted: &Redactor) -> String {
    if line.len() > PEER_STDERR_BYTES {
        return format!("[a line of more than {PEER_STDERR_BYTES} bytes]");
    }
    let text = noted.masked(&String::from_utf8_lossy(line));
    visible::line(&cut(&text, PEER_STDERR_LINE_BYTES)).into_owned()
}

impl Child {
    /// What it wrote last to its standard error.
    pub fn stderr(&self) -> &Arc<Stderr> {
        &self.stderr
    }

    /// Ends it: its input was closed, so it has a time to end by itself. Returns when nothing of it is left.
    pub async fn end(&self) {
        self.end.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_at_the_end_of_what_is_shown_is_left_out_whole() {
        let noted = Redactor::new((vec![Secret::new("canary-5ae1b7".to_owned())], Vec::new()));
        let line = format!("{}canary-5ae1b7", "x".repeat(PEER_STDERR_LINE_BYTES - 6));
        let text = logged(line.as_bytes(), &noted);
        assert!(text.len() <= PEER_STDERR_LINE_BYTES && !text.contains("canary"), "{text}");
        assert!(logged(&[b'x'; PEER_STDERR_BYTES + 1], &noted).starts_with("[a line of more than"));
        let stderr = Stderr::default();
        stderr.push(b"the key is canary-5ae1b7\n");
        assert!(noted.masked(&stderr.text()).contains("[secret]"));
        // The first half of the key falls out.
        stderr.push(&[b'y'; PEER_STDERR_BYTES - 7]);
        assert!(!noted.masked(&stderr.text()).contains("5ae1b7"), "{}", stderr.text().len());
    }
}
