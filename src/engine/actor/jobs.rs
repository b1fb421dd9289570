//! Runs the session's background jobs, and the command that `bash` runs for the user. Does not know how a program is
//! started or who is shown its output.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::durable::DurableState;
use crate::catalogue::ErrorCode;
use crate::clock::rfc3339;
use crate::context::delimiters;
use crate::engine::change::Change;
use crate::engine::jobs::{Jobs, job_state};
use crate::event::{Body, NoticeLevel};
use crate::facts::{BashOutput, JobFacts, JobStatus};
use crate::limits::{BASH_MAX_SECONDS, JOB_END_BYTES, JOB_END_LINES, TOOL_EXCERPT_BYTES};
use crate::message::TurnId;
use crate::session::{ApiError, Reply};
use crate::store::EntryBody;
use crate::store::record::{Update, UpdateKind};
use crate::tool::output::{KeptOutput, Outputs};
use crate::tool::process::{self, EndedProcess, ProcessEnd};

/// The programs of a session that run beside its turns.
#[derive(Default)]
pub struct Programs {
    pub jobs: Jobs,
    /// The command that runs for the user.
    bash: Option<CancellationToken>,
    /// The ends of jobs that the model has not been informed of.
    updates: Vec<Update>,
}

impl Programs {
    /// Whether one runs.
    pub(super) fn any_running(&self) -> bool {
        self.bash.is_some() || self.jobs.any_running()
    }

    /// Ends all.
    pub(super) fn stop_all(&self) {
        self.jobs.stop_all();
        self.abort_bash();
    }

    /// Starts a background job of a turn.
    ///
    /// # Errors
    /// If too many run.
    pub(super) fn start_job(
        &mut self,
        durable: &DurableState,
        id: Arc<str>,
        turn: TurnId,
        job: process::ProcessRequest,
    ) -> Result<(), ApiError> {
        let stop = CancellationToken::new();
        let facts = JobFacts {
            id: id.clone(),
            command: job.command.as_str().into(),
            turn: Some(turn),
            started_at: rfc3339(durable.shared.clock.now()),
            ended_at: None,
            status: JobStatus::Running,
            exit_code: None,
            output: Arc::default(),
            handle: None,
        };
        let handle = durable.shared.clock.id("o-");
        self.jobs.add(facts, handle.as_str().into(), stop.clone())?;
        self.announce_job(durable, &id);
        let outputs = Outputs::new(&durable.shared.settings.state_dir, durable.handle.id.as_str());
        let collector = outputs.collect_in_file(handle);
        let session = durable.handle.clone();
        durable.shared.tasks.spawn(async move {
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
    pub(super) fn job_output(&mut self, durable: &DurableState, id: &str, newest: Arc<str>) {
        self.change_job(durable, id, |job| job.output = newest);
    }

    /// A job has ended.
    pub(super) fn job_ended(
        &mut self,
        durable: &DurableState,
        id: &str,
        ended: std::io::Result<EndedProcess>,
    ) {
        let now = rfc3339(durable.shared.clock.now());
        self.change_job(durable, id, |job| {
            job.ended_at = Some(now);
            match ended {
                Ok(EndedProcess { end, output: kept, .. }) => {
                    job.status = match end {
                        ProcessEnd::Exit(0) => JobStatus::Completed,
                        ProcessEnd::Stopped => JobStatus::Cancelled,
                        ProcessEnd::Exit(_) | ProcessEnd::Signal(_) | ProcessEnd::TimedOut => {
                            JobStatus::Failed
                        }
                    };
                    if let ProcessEnd::Exit(code) = end {
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
            let level =
                if job.status == JobStatus::Failed { NoticeLevel::Warning } else { NoticeLevel::Info };
            let command = crate::tool::one_line(&job.command, 80);
            durable.notify(level, &format!("Background job {}: {command}", job.status.as_str()));
            self.updates.push(end_of(&job));
        }
    }

    /// The model has been shown a job's output, and perhaps its end.
    pub(super) fn job_shown(&mut self, id: &str, until: u64, ended: bool) {
        self.jobs.shown(id, until);
        if ended {
            self.updates.retain(|update| update.job_ids.iter().all(|known| **known != *id));
        }
    }

    /// Writes the updates for the model's next request: between two requests, so that no entry changes what was sent.
    pub(super) async fn write_updates(&mut self, durable: &mut DurableState) {
        let updates = self.take_updates();
        if !updates.is_empty()
            && let Err(error) = durable.append(updates).await
        {
            tracing::warn!(%error, "the model is not informed that a job has ended");
        }
    }

    /// Takes the entries of the updates out.
    pub(super) fn take_updates(&mut self) -> Vec<EntryBody> {
        self.updates.drain(..).map(|update| EntryBody::Update(Box::new(update))).collect()
    }

    fn change_job(&mut self, durable: &DurableState, id: &str, change: impl FnOnce(&mut JobFacts)) {
        if self.jobs.change(id, change) {
            self.announce_job(durable, id);
        }
    }

    fn announce_job(&self, durable: &DurableState, id: &str) {
        let Some(job) = self.jobs.get(id) else { return };
        durable.show(Body::JobUpdated(job), None);
    }

    /// Ends the command that runs for the user.
    pub(super) fn abort_bash(&self) {
        if let Some(bash) = &self.bash {
            bash.cancel();
        }
    }

    /// The command of the user has ended.
    pub(super) fn bash_ended(&mut self) {
        self.bash = None;
    }

    /// Runs a command for the user. One at a time; a turn may run beside it.
    pub(super) fn user_bash(
        &mut self,
        durable: &DurableState,
        command: String,
        timeout_seconds: Option<u64>,
        reply: Reply<BashOutput>,
    ) {
        if self.bash.is_some() {
            return reply.fail(ApiError::new(
                ErrorCode::SessionNotIdle,
                "A command is running; wait for it, or end it with abort_bash.",
            ));
        }
        let stop = CancellationToken::new();
        self.bash = Some(stop.clone());
        let job = process::ProcessRequest {
            command,
            cwd: PathBuf::from(&*durable.state.facts.cwd),
            timeout: timeout_seconds.map(|seconds| Duration::from_secs(seconds.min(BASH_MAX_SECONDS))),
            sandbox: None,
            environment: durable.handle.config().environment.clone(),
            variables: Vec::new(),
            lifeline: durable.shared.lifeline(&durable.state.facts),
        };
        let outputs = Outputs::new(&durable.shared.settings.state_dir, durable.handle.id.as_str());
        let collector = outputs.collect(durable.shared.clock.id("o-"));
        let session = durable.handle.clone();
        durable.shared.tasks.spawn(async move {
            let ended = process::run(job, collector, &stop, &|_| {}).await;
            // The next one may start when the client has seen the end of this one.
            let _ = session.ask(|ack| Change::BashEnded { ack }).await;
            match ended {
                Ok(ended) => reply.ok(bash_output(ended.end, ended.output)),
                Err(error) => {
                    reply.fail(ApiError::failed(format!("The command cannot be started: {error}.")))
                }
            }
        });
    }
}

/// The update that says that a job has ended, with its last lines.
fn end_of(job: &JobFacts) -> Update {
    let end = job_state(job);
    let lines: Vec<&str> = job.output.lines().collect();
    let from = lines.len().saturating_sub(JOB_END_LINES);
    let last = lines.get(from..).unwrap_or_default().join("\n");
    let last = shortened(last, JOB_END_BYTES);
    let output = if last.trim().is_empty() {
        "It wrote nothing.".to_owned()
    } else {
        format!("The end of its output:\n{last}")
    };
    let text =
        format!("Background job {} ({}) {end}. {output}", job.id, crate::tool::one_line(&job.command, 200));
    // The output of a command is no word of this program.
    let text = delimiters::body(&text).into_owned();
    Update { kind: UpdateKind::JobEnded, text, job_ids: vec![job.id.clone()] }
}

fn bash_output(end: ProcessEnd, kept: KeptOutput) -> BashOutput {
    BashOutput {
        output: kept.text,
        exit_code: match end {
            ProcessEnd::Exit(code) => Some(code),
            // The convention of shells.
            ProcessEnd::Signal(signal) => Some(signal.saturating_add(128)),
            ProcessEnd::TimedOut | ProcessEnd::Stopped => None,
        },
        cancelled: matches!(end, ProcessEnd::Stopped | ProcessEnd::TimedOut),
        truncated: kept.cut,
        handle: kept.handle,
    }
}

/// The end of a text, short enough for an event.
fn newest(text: String) -> String {
    shortened(text, TOOL_EXCERPT_BYTES)
}

/// The end of a text: at most so many bytes.
fn shortened(text: String, limit: usize) -> String {
    let from = text.len().saturating_sub(limit);
    match (from..=text.len()).find(|from| text.is_char_boundary(*from)) {
        Some(from) if from > 0 => text.get(from..).unwrap_or_default().to_owned(),
        _ => text,
    }
}
