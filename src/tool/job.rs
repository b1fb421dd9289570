//! `job`: looks after the background jobs that `bash` has started. Reads the arguments; the engine, which has the jobs,
//! carries the calls out.

use std::time::Duration;

use regex_automata::meta::Regex;

use super::error::CallError;
use super::permission::Access;
use super::{CallFuture, Context, JOB, Outcome, Plan, Site, Tool, count, optional_text, spec, text};
use crate::limits::{JOB_PATTERN_BYTES, JOB_WAIT_MAX_SECONDS, JOB_WAIT_SECONDS, SEARCH_PATTERN_LENGTH};
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Job;

/// A call of the tool.
#[derive(Debug, Clone)]
pub enum JobCall {
    /// All jobs, with their states.
    List,
    /// The output since the last look.
    Read(String),
    /// The same once it has ended, or has written a line that matches.
    Wait(String, JobWait),
    /// Ends it.
    Stop(String),
}

/// How long a call waits.
#[derive(Debug, Clone)]
pub struct JobWait {
    /// At most so long.
    pub patience: Duration,
    /// Until a line matches.
    pub pattern: Option<Regex>,
}

impl JobCall {
    /// Reads the arguments.
    ///
    /// # Errors
    /// If one is missing, or the pattern is none.
    pub fn of(arguments: &Value<'_>) -> Result<Self, CallError> {
        let action = text(arguments, "action")?;
        if action == "list" {
            return Ok(Self::List);
        }
        let needed = || CallError::Unfit(format!("To {action} a job, give its id; list shows the ids."));
        let id = optional_text(arguments, "id")?.ok_or_else(needed)?.trim().to_owned();
        match action {
            "read" => Ok(Self::Read(id)),
            "wait" => Ok(Self::Wait(id, JobWait::of(arguments)?)),
            "stop" => Ok(Self::Stop(id)),
            _ => Err(CallError::Argument { key: "action", expected: "read, wait, stop or list" }),
        }
    }
}

impl JobWait {
    fn of(arguments: &Value<'_>) -> Result<Self, CallError> {
        let seconds = count(arguments, "timeout-seconds")?.filter(|seconds| *seconds > 0);
        let seconds = seconds.map_or(JOB_WAIT_SECONDS, |seconds| u64::try_from(seconds).unwrap_or(u64::MAX));
        let pattern = optional_text(arguments, "pattern")?.filter(|pattern| !pattern.is_empty());
        Ok(Self {
            patience: Duration::from_secs(seconds.min(JOB_WAIT_MAX_SECONDS)),
            pattern: pattern.map(compiled).transpose()?,
        })
    }
}

fn compiled(pattern: &str) -> Result<Regex, CallError> {
    if pattern.len() > SEARCH_PATTERN_LENGTH {
        return Err(CallError::LongPattern);
    }
    let config = Regex::config().nfa_size_limit(Some(JOB_PATTERN_BYTES));
    let built = Regex::builder().configure(config).build(pattern);
    built.map_err(|error| CallError::Unfit(format!("The pattern is no regular expression: {error}")))
}

impl Tool for Job {
    fn spec(&self) -> ToolSpec {
        spec(
            JOB,
            "Looks after commands that bash started in the background: reads what one has written since the last look, \
             waits for its end or for a line, stops it, or lists all. You are informed when one ends.",
            &[
                ("action", "read|wait|stop|list", "What to do.", true),
                ("id", "string", "The job, as bash or list named it.", false),
                ("pattern", "string", "For wait: a regular expression; a line that matches ends it.", false),
                (
                    "timeout-seconds",
                    "count",
                    "For wait: how long at most; 60 without it or with 0, at most 600.",
                    false,
                ),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        let part = |key| arguments.get(key).and_then(Value::as_str);
        let action = part("action").unwrap_or("?");
        part("id").map_or_else(|| format!("job {action}"), |id| format!("job {action} {id}"))
    }

    fn plan(&self, _: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        JobCall::of(arguments)?;
        // The call that started the job was allowed, and this one does no more.
        Ok(Plan { access: Access::Nothing, diff: None })
    }

    fn run<'a>(&'a self, _: &'a Context, _: &'a Plan, _: &'a Value<'static>) -> CallFuture<'a> {
        Box::pin(async { Outcome::failed("There are no jobs outside a session.") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    #[test]
    fn job_call_needs_id_and_sound_pattern() {
        let read = |text: &str| JobCall::of(&edn::read_one(text.as_bytes()).unwrap());
        assert!(matches!(read(r#"{:action "list"}"#), Ok(JobCall::List)));
        assert!(matches!(read(r#"{:action "read" :id " j-1 "}"#), Ok(JobCall::Read(id)) if id == "j-1"));
        let seconds = |given: &str| match read(&format!(r#"{{:action "wait" :id "j" {given}}}"#)) {
            Ok(JobCall::Wait(_, wait)) => wait.patience.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(["", ":timeout-seconds 0", ":timeout-seconds 5000"].map(seconds), [60, 60, 600]);
        for (text, words) in [
            (r#"{:action "stop"}"#, "give its id"),
            (r#"{:action "wait" :id "j" :pattern "("}"#, "no regular expression"),
            (r#"{:action "wait" :id "j" :pattern "(a{1000}){1000}"}"#, "no regular expression"),
            (r#"{:action "kill" :id "j"}"#, "action must be"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
