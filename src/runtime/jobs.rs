//! Commands that run on while the conversation does: background jobs, and the command that `bash` runs for
//! the user.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::catalogue::ErrorCode;
use crate::clock::rfc3339;
use crate::event::{Body, Event, Level};
use crate::facts::{JobFacts, JobStatus};
use crate::limits::{BASH_MAX_SECONDS, ENDED_JOBS, RUNNING_JOBS, TOOL_EXCERPT_BYTES};
use crate::message::TurnId;
use crate::runner::sandbox::Sandbox;
use crate::runtime::change::Change;
use crate::runtime::live::Live;
use crate::runtime::turn::Turn;
use crate::session::{ApiError, Reply};
use crate::tool::Outcome;
use crate::tool::output::{Kept, Outputs};
use crate::tool::process::{self, End};
use crate::value::{Map, Value};

/// The background jobs of a session.
#[derive(Default)]
pub struct Jobs(VecDeque<Job>);

/// A background job.
struct Job {
    facts: Arc<JobFacts>,
    stop: CancellationToken,
}

impl Job {
    fn is_running(&self) -> bool {
        self.facts.status == JobStatus::Running
    }
}

impl Jobs {
    /// Whether one runs.
    pub fn any_running(&self) -> bool {
        self.0.iter().any(Job::is_running)
    }

    /// Ends all.
    pub fn stop_all(&self) {
        for job in &self.0 {
            job.stop.cancel();
        }
    }

    /// Those with one of the statuses, or all; newest first.
    pub fn list(&self, statuses: Option<&[String]>) -> Vec<Arc<JobFacts>> {
        let named = |names: &[String], job: &Job| names.iter().any(|name| name == job.facts.status.as_str());
        let wanted = |job: &&Job| statuses.is_none_or(|names| named(names, job));
        self.0.iter().rev().filter(wanted).map(|job| job.facts.clone()).collect()
    }

    /// One of them.
    pub fn get(&self, id: &str) -> Option<Arc<JobFacts>> {
        self.0.iter().find(|job| &*job.facts.id == id).map(|job| job.facts.clone())
    }
}

/// Starts a command that outlives its call.
pub async fn start(turn: &Turn, command: String, cwd: PathBuf, sandbox: Option<Sandbox>) -> Outcome {
    let id: Arc<str> = turn.shared.clock.id("j-").into();
    let job = process::Job { command, cwd, timeout: None, sandbox, hidden: turn.manifest().hidden.to_vec() };
    let (name, turn_id, job) = (id.clone(), turn.id.clone(), Box::new(job));
    match turn.session.request(|ack| Change::StartJob { id: name, turn: turn_id, job, ack }).await {
        Ok(()) => {
            let mut outcome = Outcome::ok(format!("Started as background job {id}."));
            outcome.details.put("job-id", id.to_string());
            outcome
        }
        Err(error) => Outcome::failed(error.message),
    }
}

impl Live {
    pub(super) fn start_job(
        &mut self,
        id: Arc<str>,
        turn: TurnId,
        job: process::Job,
    ) -> Result<(), ApiError> {
        let running = self.jobs.0.iter().filter(|job| job.is_running()).count();
        if running >= RUNNING_JOBS {
            return Err(ApiError::failed(format!(
                "{RUNNING_JOBS} background jobs run already; end one first."
            )));
        }
        let stop = CancellationToken::new();
        let facts = JobFacts {
            id: id.clone(),
            command: job.command.as_str().into(),
            turn: Some(turn),
            started_at: rfc3339(self.shared.clock.now()),
            ended_at: None,
            status: JobStatus::Running,
            exit_code: None,
            output: Arc::default(),
            handle: None,
        };
        self.jobs.0.push_back(Job { facts: Arc::new(facts), stop: stop.clone() });
        if self.jobs.0.len() > ENDED_JOBS.saturating_add(RUNNING_JOBS)
            && let Some(oldest) = self.jobs.0.iter().position(|job| !job.is_running())
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
                    session.tell(Change::JobOutput { id: id.clone(), newest: newest.into() });
                }
            };
            let ended = Box::new(process::run(job, collector, &stop, &progress).await);
            let _ = session.ask(|ack| Change::JobEnded { id, ended, ack }).await;
        });
        Ok(())
    }

    /// A job has written something.
    pub(super) fn job_output(&mut self, id: &str, newest: Arc<str>) {
        self.change_job(id, |job| job.output = newest);
    }

    pub(super) fn job_ended(&mut self, id: &str, ended: std::io::Result<(End, Kept)>) {
        let now = rfc3339(self.shared.clock.now());
        self.change_job(id, |job| {
            job.ended_at = Some(now);
            match ended {
                Ok((end, kept)) => {
                    job.status = match end {
                        End::Exit(0) => JobStatus::Completed,
                        End::Stopped => JobStatus::Cancelled,
                        End::Exit(_) | End::Signal(_) | End::TimedOut => JobStatus::Failed,
                    };
                    if let End::Exit(code) = end {
                        job.exit_code = Some(code);
                    }
                    job.handle = kept.handle.map(Arc::from);
                    job.output = newest(kept.text).into();
                }
                Err(error) => {
                    job.status = JobStatus::Failed;
                    job.output = format!("The command cannot be started: {error}.").into();
                }
            }
        });
        if let Some(job) = self.jobs.get(id) {
            let level = if job.status == JobStatus::Failed { Level::Warning } else { Level::Info };
            let command = crate::tool::one_line(&job.command, 80);
            self.notify(level, &format!("Background job {}: {command}", job.status.as_str()));
        }
        self.check_idle();
    }

    fn change_job(&mut self, id: &str, change: impl FnOnce(&mut JobFacts)) {
        if let Some(job) = self.jobs.0.iter_mut().find(|job| &*job.facts.id == id) {
            change(Arc::make_mut(&mut job.facts));
            self.announce_job(id);
        }
    }

    fn announce_job(&self, id: &str) {
        let Some(job) = self.jobs.get(id) else { return };
        let event = Event {
            session: Some(self.id().clone()),
            offset: self.handle.snapshot().offset,
            turn: None,
            entry: None,
            cause: None,
            body: Body::JobUpdated(job),
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }

    /// Ends a job.
    pub fn cancel_job(&mut self, id: &str, reply: Reply<Arc<JobFacts>>) {
        match self.jobs.0.iter().find(|job| &*job.facts.id == id) {
            Some(job) => {
                job.stop.cancel();
                reply.ok(job.facts.clone());
            }
            None => reply.fail(ApiError::not_found("job", id)),
        }
    }

    /// Ends the command that runs for the user.
    pub fn abort_bash(&self) {
        if let Some(bash) = &self.bash {
            bash.cancel();
        }
    }

    /// Runs a command for the user. One at a time; a turn may run beside it.
    pub fn user_bash(&mut self, command: String, timeout_seconds: Option<u64>, reply: Reply<Map<'static>>) {
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
            let _ = session.ask(|ack| Change::BashEnded { ack }).await;
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
