//! Jobs: commands that run for a person or in the background, and single calls of tools. Those of `bash` and the jobs end
//! with their session; those of `shell_start` end with the process.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::facts::{BashOutput, JobFacts, ShellFacts};
use crate::session::call::{Call, Reply};
use crate::value::Value;

/// The commands and single calls of a session, outside its turns.
pub trait Jobs: Send + Sync {
    /// Runs a command for the user.
    fn bash(&self, call: Call, command: String, timeout_seconds: Option<u64>, reply: Reply<BashOutput>);

    /// Ends that command.
    fn abort_bash(&self, call: Call, reply: Reply<()>);

    /// The background jobs with one of the statuses; all jobs for `None`.
    fn jobs(&self, call: Call, statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>>);

    /// One background job.
    fn job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);

    /// Waits for the end of a background job.
    fn job_wait(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);

    /// Ends a background job.
    fn cancel_job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);

    /// Starts a command for the user, with its outputs apart, beside any others. Replies once it is known; its outputs
    /// are there once it has ended.
    fn shell_start(&self, call: Call, command: ShellCommand, reply: Reply<Arc<ShellFacts>>);

    /// Those commands of the process, newest first.
    fn shells(&self) -> Vec<Arc<ShellFacts>>;

    /// Waits for the end of one, at most `patience`, or until somebody detaches from it.
    fn shell_wait(&self, id: &str, patience: Option<Duration>, reply: Reply<(Arc<ShellFacts>, Waited)>);

    /// Ends the waits for one, which goes on.
    fn shell_detach(&self, id: &str, reply: Reply<Arc<ShellFacts>>);

    /// Ends one. Replies once it has ended.
    fn shell_cancel(&self, id: &str, reply: Reply<Arc<ShellFacts>>);

    /// Runs one tool without a turn, under the rules of every call. The session is occupied meanwhile.
    fn call_tool(&self, call: Call, tool: String, arguments: Value<'static>, reply: Reply<ToolOutcome>);
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The command has ended.
    Ended,
    /// Somebody has detached from it.
    Detached,
    /// It runs, and the patience is over.
    StillRunning,
}

/// A command of the user.
#[derive(Debug, Clone)]
pub struct ShellCommand {
    /// The command, for `bash -c`.
    pub command: String,
    /// The folder, inside the session's; `None` for that one.
    pub cwd: Option<String>,
    /// Its time limit in seconds, if it has one.
    pub timeout_seconds: Option<u64>,
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// The text for a model.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Further facts; nil if there are none.
    pub details: Value<'static>,
}
