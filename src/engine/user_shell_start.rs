//! Starts a command that a person runs with its outputs apart, and notes its end. Knows no session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::rfc3339;
use crate::engine::services::Services;
use crate::environment::Environment;
use crate::facts::{JobStatus, ShellFacts, ShellOutput};
use crate::message::SessionId;
use crate::session::Reply;
use crate::tool::output::{KeptOutput, Outputs};
use crate::tool::process::{self, ProcessEnd, ProcessRequest};

/// A command to start.
pub struct NewShell {
    /// The session that it runs beside.
    pub session: SessionId,
    /// The command.
    pub command: String,
    /// Its folder.
    pub cwd: PathBuf,
    /// Its time limit.
    pub timeout: Option<Duration>,
    /// Its variables.
    pub environment: Environment,
}

/// Starts a command. Replies with its facts before it has ended.
pub fn start(shared: &Arc<Services>, new: NewShell, reply: Reply<Arc<ShellFacts>>) {
    let stop = CancellationToken::new();
    let id: Arc<str> = shared.clock.id("h-").into();
    let began = shared.clock.passed();
    let facts = ShellFacts {
        id: id.clone(),
        session: new.session.clone(),
        command: new.command.as_str().into(),
        cwd: new.cwd.to_string_lossy().into(),
        status: JobStatus::Running,
        started_at: rfc3339(shared.clock.now()),
        ended_at: None,
        duration_ms: None,
        exit_code: None,
        signal: None,
        timed_out: false,
        failure: None,
        outputs: Default::default(),
    };
    let facts = match shared.shells.add(facts, stop.clone()) {
        Ok(facts) => facts,
        Err(error) => return reply.fail(error),
    };
    let outputs = Outputs::new(&shared.settings.state_dir, new.session.as_str());
    let collectors = [outputs.collect(shared.clock.id("o-")), outputs.collect(shared.clock.id("o-"))];
    let (shared, tasks, executor) = (shared.clone(), shared.tasks.clone(), shared.executor.clone());
    tasks.spawn_on(
        async move {
            let NewShell { command, cwd, timeout, environment, .. } = new;
            let job = ProcessRequest {
                command,
                cwd,
                timeout,
                sandbox: None,
                environment,
                variables: Vec::new(),
                lifeline: None,
            };
            let ended = process::run_apart(job, collectors, &stop).await;
            let now = rfc3339(shared.clock.now());
            let lasted = shared.clock.passed().saturating_sub(began);
            shared.shells.end(&id, |facts| {
                facts.ended_at = Some(now);
                facts.duration_ms = u64::try_from(lasted.as_millis()).ok();
                match ended {
                    Ok((end, kept)) => {
                        match end {
                            ProcessEnd::Exit(code) => facts.exit_code = Some(code),
                            ProcessEnd::Signal(signal) => facts.signal = Some(signal),
                            ProcessEnd::TimedOut => facts.timed_out = true,
                            ProcessEnd::Stopped => {}
                        }
                        facts.status = match end {
                            ProcessEnd::Exit(0) => JobStatus::Completed,
                            ProcessEnd::Stopped => JobStatus::Cancelled,
                            ProcessEnd::Exit(_) | ProcessEnd::Signal(_) | ProcessEnd::TimedOut => {
                                JobStatus::Failed
                            }
                        };
                        facts.outputs = kept.map(output);
                    }
                    Err(error) => {
                        facts.status = JobStatus::Failed;
                        facts.failure = Some(format!("The command cannot be started: {error}.").into());
                    }
                }
            });
        },
        &executor,
    );
    reply.ok(facts);
}

fn output(kept: KeptOutput) -> ShellOutput {
    ShellOutput { text: kept.text.into(), cut: kept.cut, handle: kept.handle.map(Arc::from) }
}
