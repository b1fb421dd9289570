//! Jobs: commands that run for a person or in the background.

use std::sync::Arc;

use crate::facts::{BashOutput, JobFacts};
use crate::session::call::{Call, Reply};

/// The commands of a session, outside its turns. They end with the session.
pub trait Jobs: Send + Sync {
    /// Runs a command for the user.
    fn bash(&self, call: Call, command: String, timeout_seconds: Option<u64>, reply: Reply<BashOutput>);

    /// Ends that command.
    fn abort_bash(&self, call: Call, reply: Reply<()>);

    /// The background jobs with one of the statuses; all jobs for `None`.
    fn jobs(&self, call: Call, statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>>);

    /// One background job.
    fn job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);

    /// Ends a background job.
    fn cancel_job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);
}
