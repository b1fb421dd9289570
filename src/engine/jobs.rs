//! The background jobs of a session, as a list. Runs none of them.

use std::collections::VecDeque;
use std::sync::Arc;

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
    /// The requests that wait for its end. A connection has only so many requests without an answer.
    waiting: Vec<Reply<Arc<JobFacts>>>,
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
    pub fn add(&mut self, facts: JobFacts, stop: CancellationToken) -> Result<(), ApiError> {
        if self.0.iter().filter(|job| job.is_running()).count() >= RUNNING_JOBS {
            return Err(ApiError::failed(format!(
                "{RUNNING_JOBS} background jobs run already; end one first."
            )));
        }
        self.0.push_back(Job { facts: Arc::new(facts), stop, waiting: Vec::new() });
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
