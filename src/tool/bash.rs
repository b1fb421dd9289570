//! `bash`: a command in the session's folder. Does not judge the command.

use std::time::Duration;

use super::error::CallError;
use super::permission::{Access, Run};
use super::process::{ProcessEnd, ProcessRequest, run};
use super::{BASH, CallFuture, Context, Outcome, Plan, Site, Tool, spec, text};
use crate::limits::{BASH_MAX_SECONDS, BASH_SECONDS};
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Bash;

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        spec(
            BASH,
            "Runs a command with bash in the session's folder and returns its output. What it leaves in the \
             background ends with it; for what is to go on, set background.",
            &[
                ("command", "string", "The command.", true),
                (
                    "timeout-seconds",
                    "integer",
                    "How long it may take; 120 without it or with 0, at most 3600.",
                    false,
                ),
                ("background", "boolean", "Whether to go on without waiting for its end.", false),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        format!("$ {}", arguments.get("command").and_then(Value::as_str).unwrap_or("?"))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        TimeLimit::of(arguments)?;
        let command = text(arguments, "command")?;
        if command.trim().is_empty() {
            return Err(CallError::Unfit("The command is empty.".to_owned()));
        }
        if !site.cwd.is_dir() {
            return Err(CallError::Unfit(format!(
                "The session's folder {} is gone, so no command can run in it. Ask the user to bring it back.",
                site.cwd.display()
            )));
        }
        if command.contains('\0') {
            return Err(CallError::Unfit("The command has a NUL character.".to_owned()));
        }
        Ok(Plan { access: Access::Run(Run::line(command)), diff: None })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a> {
        Box::pin(async move {
            let Access::Run(wanted) = plan.access.clone() else {
                return Outcome::failed("Nothing to run.");
            };
            let Ok(TimeLimit { seconds, note: limit }) = TimeLimit::of(arguments) else {
                return Outcome::failed("Nothing to run.");
            };
            let job = ProcessRequest {
                command: wanted.line,
                cwd: context.cwd.to_path_buf(),
                timeout: Some(Duration::from_secs(seconds)),
                sandbox: context.sandbox.clone(),
                environment: context.environment.clone(),
                variables: context.variables.clone(),
                lifeline: context.lifeline.clone(),
            };
            let output = context.outputs.collect(context.handle.clone());
            let ended = match run(job, output, &context.stop, context.progress.as_ref()).await {
                Ok(ended) => ended,
                Err(error) => return Outcome::failed(format!("The command cannot be started: {error}.")),
            };
            let end = ended.end;
            let mut outcome = Outcome::kept(ended.output);
            let note = match end {
                ProcessEnd::Exit(0) => None,
                ProcessEnd::Exit(code) => Some(format!("[exit status {code}]")),
                ProcessEnd::Signal(signal) => Some(format!("[ended by signal {signal}]")),
                ProcessEnd::TimedOut => Some(format!("[ended after {seconds} seconds]")),
                ProcessEnd::Stopped => Some("[ended by the user]".to_owned()),
            };
            if let ProcessEnd::Exit(code) = end {
                outcome.details.put("exit-code", Value::from(code));
            }
            outcome.is_error = note.is_some();
            let left = "[what the command left in the background was ended with it; set background for what is to go on]";
            let left = ended.has_left.then(|| left.to_owned());
            let notes: Vec<String> = [note, left, limit].into_iter().flatten().collect();
            if notes.is_empty() && outcome.text.is_empty() {
                outcome.text.push_str("[no output]");
            }
            if !notes.is_empty() && !outcome.text.is_empty() && !outcome.text.ends_with('\n') {
                outcome.text.push('\n');
            }
            outcome.text.push_str(&notes.join("\n"));
            outcome
        })
    }
}

/// How long a command may take.
struct TimeLimit {
    seconds: u64,
    /// A line for the model, if it is another time than it wanted.
    note: Option<String>,
}

impl TimeLimit {
    fn of(arguments: &Value<'_>) -> Result<Self, CallError> {
        let key = "timeout-seconds";
        let wanted = match arguments.get(key) {
            None | Some(Value::Nil) => None,
            Some(value) => Some(value.as_i64().ok_or(CallError::Argument { key, expected: "an integer" })?),
        };
        let seconds = wanted.and_then(|wanted| u64::try_from(wanted).ok()).filter(|wanted| *wanted > 0);
        let seconds = seconds.unwrap_or(BASH_SECONDS).min(BASH_MAX_SECONDS);
        let is_other = wanted.is_some_and(|wanted| u64::try_from(wanted).ok() != Some(seconds));
        let note = wanted.filter(|_| is_other);
        Ok(Self {
            seconds,
            note: note.map(|wanted| format!("[timeout-seconds was {wanted}; the command had {seconds}]")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::NoneOpen;
    use crate::value::Map;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn time_limit_out_of_bounds_is_told() {
        let limit = |seconds: i64| {
            TimeLimit::of(&Value::from(Map::new().with("timeout-seconds", Value::int(seconds)))).unwrap()
        };
        for (wanted, seconds, is_told) in [(5, 5, false), (0, 120, true), (-5, 120, true), (5000, 3600, true)]
        {
            let found = limit(wanted);
            assert_eq!((found.seconds, found.note.is_some()), (seconds, is_told), "{wanted}");
        }
        assert_eq!(limit(0).note.as_deref(), Some("[timeout-seconds was 0; the command had 120]"));
    }

    #[test]
    fn empty_command_and_lost_folder_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let planned = |cwd: &std::path::Path, command: &str| {
            let (stop, arguments) =
                (CancellationToken::new(), Map::new().with("command", command.to_owned()));
            let site = Site { cwd, open: &NoneOpen, stop: &stop, judged: None };
            Bash.plan(site, &Value::from(arguments)).map_err(|error| error.to_string())
        };
        assert!(planned(dir.path(), "ls").is_ok());
        assert!(planned(dir.path(), " \n").unwrap_err().contains("empty"));
        assert!(planned(&dir.path().join("gone"), "ls").unwrap_err().contains("is gone"));
    }
}
