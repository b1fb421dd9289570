//! `bash`: a command in the session's folder. Does not judge the command.

use std::time::Duration;

use super::error::CallError;
use super::permission::{Access, Run};
use super::process::{ProcessEnd, ProcessRequest, run};
use super::{BASH, CallFuture, Context, Outcome, Plan, Site, Tool, count, spec, text};
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
                ("timeout-seconds", "integer", "How long it may take; 120 without it, at most 3600.", false),
                ("background", "boolean", "Whether to go on without waiting for its end.", false),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        format!("$ {}", arguments.get("command").and_then(Value::as_str).unwrap_or("?"))
    }

    fn plan(&self, _: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        count(arguments, "timeout-seconds")?;
        let command = text(arguments, "command")?;
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
            let seconds = count(arguments, "timeout-seconds").ok().flatten();
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(BASH_SECONDS);
            let seconds = seconds.min(BASH_MAX_SECONDS);
            let job = ProcessRequest {
                command: wanted.line,
                cwd: context.cwd.to_path_buf(),
                timeout: Some(Duration::from_secs(seconds)),
                sandbox: context.sandbox.clone(),
                environment: context.environment.clone(),
                lifeline: context.lifeline.clone(),
            };
            let output = context.outputs.collect(context.handle.clone());
            let (end, kept) = match run(job, output, &context.stop, context.progress.as_ref()).await {
                Ok(ended) => ended,
                Err(error) => return Outcome::failed(format!("The command cannot be started: {error}.")),
            };
            let mut outcome = Outcome::kept(kept);
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
            match note {
                Some(note) => {
                    outcome.is_error = true;
                    if !outcome.text.is_empty() && !outcome.text.ends_with('\n') {
                        outcome.text.push('\n');
                    }
                    outcome.text.push_str(&note);
                }
                None if outcome.text.is_empty() => outcome.text.push_str("[no output]"),
                None => {}
            }
            outcome
        })
    }
}
