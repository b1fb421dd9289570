//! A shell command: started, read, ended with all that it has started.
//!
//! Knows commands and their stored output. The `runner` starts and ends them.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::output::{Collector, KeptOutput};
use crate::environment::Environment;
use crate::limits::{PROCESS_GRACE, PROCESS_READ_BYTES, TOOL_UPDATE_PAUSE};
use crate::runner::sandbox::Sandbox;
use crate::runner::{self, Lifeline, Program};

/// What is to be run.
#[derive(Debug)]
pub struct ProcessRequest {
    /// The command, for `bash -c`.
    pub command: String,
    /// The folder that it runs in.
    pub cwd: PathBuf,
    /// Its time limit, if it has one.
    pub timeout: Option<Duration>,
    /// Where it may write; `None` for wherever the user may.
    pub sandbox: Option<Sandbox>,
    /// Its variables.
    pub environment: Environment,
    /// Further ones, which stand in place of those of the same name.
    pub variables: Vec<(String, String)>,
    /// When it must have ended, if it may not outlive something.
    pub lifeline: Option<Lifeline>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this exit status.
    Exit(i32),
    /// By a foreign signal.
    Signal(i32),
    /// It took too long.
    TimedOut,
    /// It was stopped.
    Stopped,
}

/// A command that has ended.
#[derive(Debug)]
pub struct EndedProcess {
    /// How.
    pub end: ProcessEnd,
    /// Its output.
    pub output: KeptOutput,
    /// Whether something that it left in the background still had the output open, and was ended.
    pub has_left: bool,
}

/// Runs a command to its end. `progress` is given the newest part of the output, at most ten times a
/// second.
///
/// # Errors
/// When it cannot be started.
pub async fn run(
    job: ProcessRequest,
    mut output: Collector,
    stop: &CancellationToken,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> io::Result<EndedProcess> {
    // Both of its outputs go into one pipe, in the order in which it writes.
    let (mut reader, writer) = runner::pipe()?;
    let program = Program::new("bash").args(["-c", &job.command]).cwd(&job.cwd);
    let mut program = program.environment(&job.environment).sandbox(job.sandbox).until(job.lifeline);
    for (name, value) in job.variables {
        program = program.env(name, value);
    }
    let mut running = program.start(writer.try_clone()?.into(), writer.into()).await?;
    let deadline = job.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut buffer = vec![0u8; PROCESS_READ_BYTES];
    let mut open = true;
    let mut exited: Option<(ExitStatus, Instant)> = None;
    // The first output is shown at once, the rest at a steady pace.
    let mut shown = (0u64, Instant::now().checked_sub(TOOL_UPDATE_PAUSE).unwrap_or_else(Instant::now));
    let ended = loop {
        let fresh = output.size() > shown.0;
        let next_look = shown.1 + TOOL_UPDATE_PAUSE;
        tokio::select! {
            biased;
            () = stop.cancelled() => break Some(ProcessEnd::Stopped),
            () = sleep_until(deadline.unwrap_or(next_look)), if deadline.is_some() => break Some(ProcessEnd::TimedOut),
            () = sleep_until(next_look), if fresh => {
                progress(output.excerpt());
                shown = (output.size(), Instant::now());
            }
            // What was left behind in the background keeps the pipe open: it is not waited for.
            () = sleep_until(exited.map_or(next_look, |(_, until)| until)), if exited.is_some() && open => break None,
            read = reader.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(count) => output.push(buffer.get(..count).unwrap_or_default()),
            },
            status = running.exited(), if exited.is_none() => exited = Some((status?, Instant::now() + PROCESS_GRACE)),
            () = std::future::ready(()), if exited.is_some() && !open => break None,
        }
    };
    let has_left = ended.is_none() && open;
    running.end().await;
    if ended.is_some() {
        // Reads the output that is already there, without waiting for more.
        while open {
            match reader.try_read(&mut buffer) {
                Ok(count @ 1..) => output.push(buffer.get(..count).unwrap_or_default()),
                _ => open = false,
            }
        }
    }
    let end = ended.unwrap_or_else(|| exited.map_or(ProcessEnd::Stopped, |(status, _)| of_status(status)));
    Ok(EndedProcess { end, output: output.finish(), has_left })
}

/// Runs a command to its end, with each of its outputs in a collector of its own.
///
/// # Errors
/// When it cannot be started.
pub async fn run_apart(
    job: ProcessRequest,
    mut outputs: [Collector; 2],
    stop: &CancellationToken,
) -> io::Result<(ProcessEnd, [KeptOutput; 2])> {
    let (mut reader, writer) = runner::pipe()?;
    let (mut error_reader, error_writer) = runner::pipe()?;
    let program = Program::new("bash").args(["-c", &job.command]).cwd(&job.cwd);
    let mut program = program.environment(&job.environment).sandbox(job.sandbox).until(job.lifeline);
    for (name, value) in job.variables {
        program = program.env(name, value);
    }
    let mut running = program.start(writer.into(), error_writer.into()).await?;
    let deadline = job.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let never = Instant::now();
    let (mut buffer, mut error_buffer) = (vec![0u8; PROCESS_READ_BYTES], vec![0u8; PROCESS_READ_BYTES]);
    let mut open = [true, true];
    let mut exited: Option<(ExitStatus, Instant)> = None;
    let [output, errors] = &mut outputs;
    let ended = loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break Some(ProcessEnd::Stopped),
            () = sleep_until(deadline.unwrap_or(never)), if deadline.is_some() => break Some(ProcessEnd::TimedOut),
            // What was left behind in the background keeps the pipes open: it is not waited for.
            () = sleep_until(exited.map_or(never, |(_, until)| until)), if exited.is_some() && open != [false; 2] => break None,
            read = reader.read(&mut buffer), if open[0] => match read {
                Ok(0) | Err(_) => open[0] = false,
                Ok(count) => output.push(buffer.get(..count).unwrap_or_default()),
            },
            read = error_reader.read(&mut error_buffer), if open[1] => match read {
                Ok(0) | Err(_) => open[1] = false,
                Ok(count) => errors.push(error_buffer.get(..count).unwrap_or_default()),
            },
            status = running.exited(), if exited.is_none() => exited = Some((status?, Instant::now() + PROCESS_GRACE)),
            () = std::future::ready(()), if exited.is_some() && open == [false; 2] => break None,
        }
    };
    running.end().await;
    if ended.is_some() {
        // Reads the output that is already there, without waiting for more.
        while let Ok(count @ 1..) = reader.try_read(&mut buffer) {
            output.push(buffer.get(..count).unwrap_or_default());
        }
        while let Ok(count @ 1..) = error_reader.try_read(&mut error_buffer) {
            errors.push(error_buffer.get(..count).unwrap_or_default());
        }
    }
    let end = ended.unwrap_or_else(|| exited.map_or(ProcessEnd::Stopped, |(status, _)| of_status(status)));
    Ok((end, outputs.map(Collector::finish)))
}

fn of_status(status: ExitStatus) -> ProcessEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEnd::Exit(code),
        (None, Some(signal)) => ProcessEnd::Signal(signal),
        (None, None) => ProcessEnd::Exit(-1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tool::output::Outputs;

    // The clock stands still while output is read, and jumps to the next look when all is read.
    #[tokio::test(start_paused = true)]
    async fn a_stream_of_output_is_shown_at_most_ten_times_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let job = ProcessRequest {
            command: "for i in $(seq 50); do echo $i; sleep 0.005; done".to_owned(),
            cwd: dir.path().to_owned(),
            timeout: None,
            sandbox: None,
            environment: Environment::default(),
            variables: Vec::new(),
            lifeline: None,
        };
        let looks = Mutex::new(Vec::new());
        let progress = |_: &str| looks.lock().unwrap().push(Instant::now());
        let output = Outputs::new(dir.path(), "s").collect("o".to_owned());
        let EndedProcess { end, .. } = run(job, output, &CancellationToken::new(), &progress).await.unwrap();
        assert_eq!(end, ProcessEnd::Exit(0));
        let looks = looks.into_inner().unwrap();
        assert!(looks.len() > 1, "it was shown {} times", looks.len());
        assert!(looks.windows(2).all(|two| two[1] - two[0] >= TOOL_UPDATE_PAUSE), "{looks:?}");
    }
}
