//! Running a hook's command: one EDN map on its standard input, one on its standard output.
//!
//! Bounded in time and output. The command ends with the call, with all that it has started (`runner`), and runs
//! in an environment that holds a few known variables and no other: keys and tokens stay outside.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Hook;
use crate::edn;
use crate::environment::Environment;
use crate::files::BrokenSeal;
use crate::limits::{HOOK_OUTPUT_BYTES, HOOK_STDERR_BYTES, PROCESS_GRACE};
use crate::runner::sandbox::Sandbox;
use crate::runner::{self, Program, RunningProgram};
use crate::telemetry::Work;
use crate::value::{Map, Value};

/// The variables that a hook inherits. Whatever else the process has in its environment may be a secret, by
/// whatever name.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "TMPDIR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Why a hook gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum HookFailure {
    /// Its command cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file of its command is not as it was: a command of a session may have changed it, and the hook runs outside the
    /// sandbox.
    #[error(transparent)]
    Changed(#[from] BrokenSeal),
    /// It took too long and was ended.
    #[error("it took longer than {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// It ended with a status other than 0.
    #[error("it ended with {status}{}", last_words(.stderr))]
    Status {
        /// The status.
        status: ExitStatus,
        /// What it wrote to standard output.
        stdout: Vec<u8>,
        /// The start of its standard error.
        stderr: String,
    },
    /// It wrote more than is taken.
    #[error("it wrote more than {HOOK_OUTPUT_BYTES} bytes")]
    TooLong,
    /// What it wrote is no EDN map.
    #[error("its answer is {0}")]
    Nonsense(String),
    /// The turn ended first.
    #[error("the turn was ended")]
    Stopped,
}

impl HookFailure {
    /// The end of a failed command's output, at most so many bytes.
    pub fn output(&self, limit: usize) -> String {
        let Self::Status { stdout, stderr, .. } = self else { return String::new() };
        let mut all = String::from_utf8_lossy(stdout).into_owned();
        all.push_str(stderr);
        let from = all.len().saturating_sub(limit);
        let from = (from..=all.len()).find(|from| all.is_char_boundary(*from)).unwrap_or(0);
        all.split_off(from)
    }
}

fn last_words(stderr: &str) -> String {
    let line = stderr.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(|line| format!(": {line}")).unwrap_or_default()
}

/// Gives the hook's command a map and returns the map that it answers with.
///
/// # Errors
/// See [`HookFailure`].
pub async fn call(
    hook: &Hook,
    cwd: &Path,
    environment: &Environment,
    input: &Map<'static>,
    stop: &CancellationToken,
) -> Result<Map<'static>, HookFailure> {
    let bytes = run(hook, cwd, environment, input, stop).await?;
    let value = edn::read_one(&bytes).map_err(|error| HookFailure::Nonsense(format!("not EDN: {error}")))?;
    match value.into_owned() {
        Value::Map(map) => Ok(map),
        other => Err(HookFailure::Nonsense(format!("no map but a {}", other.kind_name()))),
    }
}

/// The same for a hook whose answer nobody reads.
///
/// # Errors
/// See [`HookFailure`]; never [`HookFailure::Nonsense`].
pub async fn tell(
    hook: &Hook,
    cwd: &Path,
    environment: &Environment,
    input: &Map<'static>,
    stop: &CancellationToken,
) -> Result<(), HookFailure> {
    run(hook, cwd, environment, input, stop).await.map(drop)
}

async fn run(
    hook: &Hook,
    cwd: &Path,
    environment: &Environment,
    input: &Map<'static>,
    stop: &CancellationToken,
) -> Result<Vec<u8>, HookFailure> {
    let work = Work::hook(&hook.id, hook.stage.as_str(), hook.point.as_str());
    let ended = work.run(run_sealed(hook, cwd, environment, input, stop)).await;
    work.end(ended.is_err().then_some("hook_failure"));
    ended
}

async fn run_sealed(
    hook: &Hook,
    cwd: &Path,
    environment: &Environment,
    input: &Map<'static>,
    stop: &CancellationToken,
) -> Result<Vec<u8>, HookFailure> {
    hook.seal.verify().await?;
    execute(&hook.command, cwd, environment, None, hook.timeout, input, stop).await
}

/// Runs a command, the program first, with a map on its standard input; returns its standard output.
///
/// # Errors
/// See [`HookFailure`]; never [`HookFailure::Nonsense`].
pub async fn execute(
    command: &[String],
    cwd: &Path,
    environment: &Environment,
    sandbox: Option<Sandbox>,
    limit: Duration,
    input: &Map<'static>,
    stop: &CancellationToken,
) -> Result<Vec<u8>, HookFailure> {
    let mut line = Vec::new();
    edn::write_compact(&Value::from(input.clone()), &mut line);
    line.push(b'\n');
    // Given up, it is dropped and ended.
    let converse = async { converse(start(command, cwd, environment, sandbox, line).await?).await };
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(HookFailure::Stopped),
        ended = timeout(limit, converse) => ended.unwrap_or(Err(HookFailure::TimedOut(limit))),
    }
}

/// A running command and its output.
struct Started {
    running: RunningProgram,
    stdout: Receiver,
    stderr: Receiver,
}

/// Reads the output, waits for the end.
async fn converse(started: Started) -> Result<Vec<u8>, HookFailure> {
    let Started { mut running, stdout, mut stderr } = started;
    let (mut answer, mut complaint) = (Vec::new(), Vec::new());
    let limit = u64::try_from(HOOK_OUTPUT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let exited = {
        let read = async {
            let _ = stdout.take(limit).read_to_end(&mut answer).await;
        };
        let complain = async {
            let kept = u64::try_from(HOOK_STDERR_BYTES).unwrap_or(u64::MAX);
            let _ = (&mut stderr).take(kept).read_to_end(&mut complaint).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        };
        let talk = async { tokio::join!(read, complain) };
        tokio::pin!(talk);
        tokio::select! {
            _ = &mut talk => None,
            status = running.exited() => {
                // A background process may keep the output open; the hook does not wait for it.
                let _ = timeout(PROCESS_GRACE, &mut talk).await;
                Some(status)
            }
        }
    };
    if answer.len() > HOOK_OUTPUT_BYTES {
        return Err(HookFailure::TooLong);
    }
    let status = match exited {
        Some(status) => status,
        None => running.exited().await,
    };
    let status = status.map_err(|error| HookFailure::Nonsense(format!("lost: {error}")))?;
    running.end().await;
    match status.success() {
        true => Ok(answer),
        false => {
            let stderr = String::from_utf8_lossy(&complaint).into_owned();
            Err(HookFailure::Status { status, stdout: answer, stderr })
        }
    }
}

async fn start(
    command: &[String],
    cwd: &Path,
    environment: &Environment,
    sandbox: Option<Sandbox>,
    input: Vec<u8>,
) -> Result<Started, HookFailure> {
    let (program, arguments) =
        command.split_first().map_or(("", [].as_slice()), |(program, rest)| (program.as_str(), rest));
    // A program is a name on the PATH or a whole path; the session's folder, which may be anybody's, names none.
    let start = async {
        let ((stdout, out), (stderr, err)) = (runner::pipe()?, runner::pipe()?);
        let program = Program::new(program)
            .args(arguments)
            .cwd(cwd)
            .only(environment, INHERITED)
            .input(input)
            .sandbox(sandbox);
        let running = program.start(out.into(), err.into()).await?;
        Ok(Started { running, stdout, stderr })
    };
    start.await.map_err(|source| HookFailure::Start { program: program.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::super::{HookKind, Point, Stage};
    use super::*;
    use crate::files::Seal;

    fn hook(script: &str, millis: u64) -> Hook {
        Hook {
            id: "h".into(),
            stage: Stage::ToolCall,
            point: Point::Pre,
            kind: HookKind::Guard,
            command: ["bash", "-c", script].map(str::to_owned).to_vec(),
            seal: Seal::default(),
            timeout: Duration::from_millis(millis),
            tools: None,
        }
    }

    fn ask(script: &str, millis: u64, input: &Map<'static>) -> Result<Map<'static>, HookFailure> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stop = CancellationToken::new();
        executor.block_on(call(&hook(script, millis), Path::new("/"), &Environment::default(), input, &stop))
    }

    #[test]
    fn a_hook_answers_with_a_map() {
        let input = Map::new().with("n", 7).with("text", "a\n\"b\"");
        let answer = ask("read -r line; echo \"{:got $line}\"", 60_000, &input).unwrap();
        assert_eq!(answer.get_keyword("got"), Some(&Value::from(input)));
        // One that reads nothing, and leaves something behind that holds its output open.
        assert_eq!(ask("sleep 1000 & echo '{}'", 60_000, &Map::new()).unwrap(), Map::new());
    }

    #[test]
    fn a_hook_that_gives_no_answer_is_told_apart() {
        let big = Map::new().with("text", "x".repeat(1_000_000));
        for (script, millis, expected) in [
            ("echo no >&2; exit 3", 60_000, "exit status: 3: no"),
            ("kill -9 $$", 60_000, "signal: 9"),
            ("echo '{:a'", 60_000, "not EDN"),
            ("echo '[1]'", 60_000, "no map but a"),
            ("true", 60_000, "not EDN"),
            ("echo '{} {}'", 60_000, "not EDN"),
            ("sleep 1000", 50, "longer than 50 ms"),
            ("yes", 60_000, "wrote more than"),
            ("yes >&2", 50, "longer than 50 ms"),
        ] {
            let error = ask(script, millis, &big).unwrap_err().to_string();
            assert!(error.contains(expected), "{script}: {error}");
        }
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut missing = hook("", 1000);
        missing.command = vec!["/there-is-none".to_owned()];
        let stop = CancellationToken::new();
        let asked =
            executor.block_on(call(&missing, Path::new("/"), &Environment::default(), &Map::new(), &stop));
        assert!(asked.unwrap_err().to_string().starts_with("/there-is-none cannot be started"));
        stop.cancel();
        let asked = executor.block_on(call(
            &hook("sleep 1000", 60_000),
            Path::new("/"),
            &Environment::default(),
            &Map::new(),
            &stop,
        ));
        assert!(matches!(asked, Err(HookFailure::Stopped)));
    }
}
