//! Commands that run on while the conversation does: background jobs, and the command that `bash` runs for
//! the user.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::catalogue::{ErrorCode, Topic};
use crate::clock::rfc3339;
use crate::event::{Body, Event};
use crate::limits::{BASH_MAX_SECONDS, ENDED_JOBS, RUNNING_JOBS, TOOL_EXCERPT_BYTES};
use crate::message::TurnId;
use crate::runtime::live::Live;
use crate::runtime::turn::Turn;
use crate::session::{ApiError, Call, Reply};
use crate::tool::Outcome;
use crate::tool::output::{Kept, Outputs};
use crate::tool::process::{self, End};
use crate::tool::sandbox::Sandbox;
use crate::value::{Map, Value};

/// The background jobs of a session.
#[derive(Default)]
pub struct Jobs(VecDeque<Job>);

/// A background job.
struct Job {
    id: Arc<str>,
    command: String,
    turn: Option<TurnId>,
    started_at: Arc<str>,
    ended_at: Option<Arc<str>>,
    status: Status,
    exit_code: Option<i32>,
    output: String,
    handle: Option<String>,
    stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Job {
    fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("id", self.id.to_string());
        map.put("kind", "bash");
        map.put("command", self.command.clone());
        map.put("status", self.status.as_str());
        map.put("started-at", self.started_at.to_string());
        map.put_some("ended-at", self.ended_at.as_deref().map(str::to_owned));
        map.put_some("exit-code", self.exit_code);
        map.put_some("turn-id", self.turn.as_ref().map(TurnId::to_value));
        map.put("output", self.output.clone());
        map.put_some("handle", self.handle.clone());
        Value::from(map)
    }
}

impl Jobs {
    /// Whether one runs.
    pub fn any_running(&self) -> bool {
        self.0.iter().any(|job| job.status == Status::Running)
    }

    /// Ends all.
    pub fn stop_all(&self) {
        for job in &self.0 {
            job.stop.cancel();
        }
    }

    /// Those with one of the statuses, or all; newest first.
    pub fn list(&self, statuses: Option<&[String]>) -> Vec<Value<'static>> {
        let wanted =
            |job: &&Job| statuses.is_none_or(|names| names.iter().any(|name| name == job.status.as_str()));
        self.0.iter().rev().filter(wanted).map(Job::to_value).collect()
    }

    /// One of them.
    pub fn get(&self, id: &str) -> Option<Value<'static>> {
        self.0.iter().find(|job| &*job.id == id).map(Job::to_value)
    }
}

/// Starts a command that outlives its call.
pub async fn start(turn: &Turn, command: String, cwd: PathBuf, sandbox: Option<Sandbox>) -> Outcome {
    let id: Arc<str> = turn.shared.clock.id("j-").into();
    let job = process::Job { command, cwd, timeout: None, sandbox, hidden: turn.manifest().hidden.to_vec() };
    let (name, from) = (id.clone(), turn.id.clone());
    let started =
        turn.session.ask(move |live| Box::pin(async move { live.start_job(name, from, job) })).await;
    match started.and_then(std::convert::identity) {
        Ok(()) => {
            let mut outcome = Outcome::ok(format!("Started as background job {id}."));
            outcome.details.put("job-id", id.to_string());
            outcome
        }
        Err(error) => Outcome::failed(error.message),
    }
}

impl Live {
    fn start_job(&mut self, id: Arc<str>, turn: TurnId, job: process::Job) -> Result<(), ApiError> {
        let running = self.jobs.0.iter().filter(|job| job.status == Status::Running).count();
        if running >= RUNNING_JOBS {
            return Err(ApiError::failed(format!(
                "{RUNNING_JOBS} background jobs run already; end one first."
            )));
        }
        let stop = CancellationToken::new();
        self.jobs.0.push_back(Job {
            id: id.clone(),
            command: job.command.clone(),
            turn: Some(turn),
            started_at: rfc3339(self.shared.clock.now()),
            ended_at: None,
            status: Status::Running,
            exit_code: None,
            output: String::new(),
            handle: None,
            stop: stop.clone(),
        });
        if self.jobs.0.len() > ENDED_JOBS.saturating_add(RUNNING_JOBS)
            && let Some(oldest) = self.jobs.0.iter().position(|job| job.status != Status::Running)
        {
            self.jobs.0.remove(oldest);
        }
        self.announce_job(&id);
        let outputs = Outputs::new(&self.shared.settings.state_dir, self.id().as_str());
        let collector = outputs.collect(self.shared.clock.id("o-"));
        let session = self.handle.clone();
        self.shared.tasks.spawn(async move {
            let progress = {
                let (session, id) = (session.clone(), id.clone());
                move |newest: &str| {
                    let (id, newest) = (id.clone(), newest.to_owned());
                    session.tell(move |live| {
                        Box::pin(async move {
                            live.change_job(&id, |job| job.output = newest);
                        })
                    });
                }
            };
            let ended = process::run(job, collector, &stop, &progress).await;
            let _ = session.ask(move |live| Box::pin(async move { live.job_ended(&id, ended) })).await;
        });
        Ok(())
    }

    fn job_ended(&mut self, id: &str, ended: std::io::Result<(End, Kept)>) {
        let now = rfc3339(self.shared.clock.now());
        self.change_job(id, |job| {
            job.ended_at = Some(now);
            match ended {
                Ok((end, kept)) => {
                    job.status = match end {
                        End::Exit(0) => Status::Completed,
                        End::Stopped => Status::Cancelled,
                        End::Exit(_) | End::Signal(_) | End::TimedOut => Status::Failed,
                    };
                    if let End::Exit(code) = end {
                        job.exit_code = Some(code);
                    }
                    job.handle = kept.handle;
                    job.output = newest(kept.text);
                }
                Err(error) => {
                    job.status = Status::Failed;
                    job.output = format!("The command cannot be started: {error}.");
                }
            }
        });
        if let Some(job) = self.jobs.0.iter().find(|job| &*job.id == id) {
            let level = if job.status == Status::Failed { "warning" } else { "info" };
            let command = crate::tool::one_line(&job.command, 80);
            self.notify(level, &format!("Background job {}: {command}", job.status.as_str()));
        }
        self.check_idle();
    }

    fn change_job(&mut self, id: &str, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.jobs.0.iter_mut().find(|job| &*job.id == id) {
            change(job);
            self.announce_job(id);
        }
    }

    fn announce_job(&self, id: &str) {
        let Some(job) = self.jobs.get(id) else { return };
        let payload = Map::new().with("job", job);
        let event = Event {
            session: Some(self.id().clone()),
            offset: self.handle.snapshot().offset,
            turn: None,
            entry: None,
            cause: None,
            body: Body::Payload(Topic::JobUpdated, Arc::new(payload)),
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }

    /// Ends a job.
    pub fn cancel_job(&mut self, id: &str, reply: Reply<Value<'static>>) {
        match self.jobs.0.iter().find(|job| &*job.id == id) {
            Some(job) => {
                job.stop.cancel();
                reply.ok(job.to_value());
            }
            None => reply.fail(ApiError::not_found("job", id)),
        }
    }

    /// Runs a command for the user. One at a time; a turn may run beside it.
    pub fn user_bash(
        &mut self,
        _: Call,
        command: String,
        timeout_seconds: Option<u64>,
        reply: Reply<Map<'static>>,
    ) {
        if self.bash.is_some() {
            return reply.fail(ApiError::new(
                ErrorCode::SessionNotIdle,
                "A command is running; wait for it, or end it with abort_bash.",
            ));
        }
        let stop = CancellationToken::new();
        self.bash = Some(stop.clone());
        let job = process::Job {
            command,
            cwd: PathBuf::from(&*self.facts().cwd),
            timeout: timeout_seconds.map(|seconds| Duration::from_secs(seconds.min(BASH_MAX_SECONDS))),
            sandbox: None,
            hidden: self.handle.manifest().hidden.to_vec(),
        };
        let outputs = Outputs::new(&self.shared.settings.state_dir, self.id().as_str());
        let collector = outputs.collect(self.shared.clock.id("o-"));
        let session = self.handle.clone();
        self.shared.tasks.spawn(async move {
            let ended = process::run(job, collector, &stop, &|_| {}).await;
            // The next one may start when the client has seen the end of this one.
            let done = session.ask(|live| {
                Box::pin(async move {
                    live.bash = None;
                    live.check_idle();
                })
            });
            let _ = done.await;
            match ended {
                Ok((end, kept)) => reply.ok(bash_data(end, kept)),
                Err(error) => {
                    reply.fail(ApiError::failed(format!("The command cannot be started: {error}.")))
                }
            }
        });
    }
}

fn bash_data(end: End, kept: Kept) -> Map<'static> {
    let mut data = Map::new();
    data.put("output", kept.text);
    data.put(
        "exit-code",
        match end {
            End::Exit(code) => Value::from(code),
            // The convention of shells.
            End::Signal(signal) => Value::from(signal.saturating_add(128)),
            End::TimedOut | End::Stopped => Value::Nil,
        },
    );
    data.put("cancelled", matches!(end, End::Stopped | End::TimedOut));
    data.put("truncated", kept.cut);
    data.put_some("handle", kept.handle);
    data
}

/// The end of a text, short enough for an event.
fn newest(text: String) -> String {
    let from = text.len().saturating_sub(TOOL_EXCERPT_BYTES);
    match (from..=text.len()).find(|from| text.is_char_boundary(*from)) {
        Some(from) if from > 0 => text.get(from..).unwrap_or_default().to_owned(),
        _ => text,
    }
}
