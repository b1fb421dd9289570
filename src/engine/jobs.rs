//! The background jobs of a session, as a list. Runs none of them.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::facts::{JobFacts, JobStatus};
use crate::limits::{ENDED_JOBS, RUNNING_JOBS};
use crate::session::{ApiError, Reply};

/// The background jobs of a session.
#[derive(Default)]
pub struct Jobs(VecDeque<Job>);

/// A background job.
struct Job {
    facts: Arc<JobFacts>,
    stop: CancellationToken,
    /// The handle of its output, all of which is in a file while it runs.
    output: Arc<str>,
    /// Bytes of the output that the model has been shown.
    seen: u64,
    /// Woken by each change.
    changes: watch::Sender<()>,
    /// The requests that wait for its end. A connection has only so many requests without an answer.
    waiting: Vec<Reply<Arc<JobFacts>>>,
}

/// A job as a call of the model finds it.
#[derive(Debug)]
pub struct JobLook {
    /// Its facts.
    pub facts: Arc<JobFacts>,
    /// Ends it.
    pub stop: CancellationToken,
    /// The handle of its output.
    pub output: Arc<str>,
    /// Bytes of the output that the model has been shown.
    pub seen: u64,
    /// Woken by each change.
    pub changes: watch::Receiver<()>,
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

    /// Adds a job that starts now. The oldest of those that have ended leaves.
    ///
    /// # Errors
    /// If too many run.
    pub fn add(
        &mut self,
        facts: JobFacts,
        output: Arc<str>,
        stop: CancellationToken,
    ) -> Result<(), ApiError> {
        if self.0.iter().filter(|job| job.is_running()).count() >= RUNNING_JOBS {
            return Err(ApiError::failed(format!(
                "{RUNNING_JOBS} background jobs run already; end one first."
            )));
        }
        let (facts, changes) = (Arc::new(facts), watch::Sender::new(()));
        self.0.push_back(Job { facts, stop, output, seen: 0, changes, waiting: Vec::new() });
        if self.0.len() > ENDED_JOBS.saturating_add(RUNNING_JOBS)
            && let Some(oldest) = self.0.iter().position(|job| !job.is_running())
        {
            self.0.remove(oldest);
        }
        Ok(())
    }

    /// Changes what is known of a job; returns whether there is one.
    pub fn change(&mut self, id: &str, change: impl FnOnce(&mut JobFacts)) -> bool {
        let Some(job) = self.0.iter_mut().find(|job| &*job.facts.id == id) else { return false };
        change(Arc::make_mut(&mut job.facts));
        job.changes.send_replace(());
        if !job.is_running() {
            job.waiting.drain(..).for_each(|reply| reply.ok(job.facts.clone()));
        }
        true
    }

    /// Replies once a job has ended.
    pub fn wait(&mut self, id: &str, reply: Reply<Arc<JobFacts>>) {
        match self.0.iter_mut().find(|job| &*job.facts.id == id) {
            Some(job) if job.is_running() => job.waiting.push(reply),
            Some(job) => reply.ok(job.facts.clone()),
            None => reply.fail(ApiError::not_found("job", id)),
        }
    }

    /// A job for a call of the model.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn look(&self, id: &str) -> Result<JobLook, ApiError> {
        let job = self.0.iter().find(|job| &*job.facts.id == id);
        let job = job.ok_or_else(|| ApiError::not_found("job", id))?;
        Ok(JobLook {
            facts: job.facts.clone(),
            stop: job.stop.clone(),
            output: job.output.clone(),
            seen: job.seen,
            changes: job.changes.subscribe(),
        })
    }

    /// Notes that the model has been shown a job's output up to that byte.
    pub fn shown(&mut self, id: &str, until: u64) {
        if let Some(job) = self.0.iter_mut().find(|job| &*job.facts.id == id) {
            job.seen = job.seen.max(until);
        }
    }

    /// Ends a job.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn cancel(&self, id: &str) -> Result<Arc<JobFacts>, ApiError> {
        let job = self.0.iter().find(|job| &*job.facts.id == id);
        let job = job.ok_or_else(|| ApiError::not_found("job", id))?;
        job.stop.cancel();
        Ok(job.facts.clone())
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

/// A job's state, as the rest of a sentence.
pub fn job_state(job: &JobFacts) -> String {
    match (job.status, job.exit_code) {
        (JobStatus::Running, _) => "is running".to_owned(),
        (JobStatus::Cancelled, _) => "was stopped".to_owned(),
        (_, Some(code)) => format!("ended with exit status {code}"),
        (JobStatus::Completed, None) => "has ended".to_owned(),
        (JobStatus::Failed, None) => "has failed".to_owned(),
    }
}
