//! Commands and single calls of tools outside turns. Checks the call, and leaves the work to the session's task.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::change::Change;
use crate::engine::host::Engine;
use crate::engine::remote::{RemoteCall, owner_elsewhere};
use crate::engine::services::Services;
use crate::engine::user_shell_start::{self, NewShell};
use crate::facts::{BashOutput, JobFacts, ShellFacts};
use crate::session::{ApiError, Call, Jobs, Reply, ShellCommand, ToolOutcome, Waited};
use crate::tool::DELEGATE;
use crate::tool::path::within;
use crate::value::Value;

impl Jobs for Engine {
    fn bash(&self, call: Call, command: String, timeout_seconds: Option<u64>, reply: Reply<BashOutput>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Bash(command, timeout_seconds), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::Bash { command, timeout_seconds, reply });
        });
    }

    fn abort_bash(&self, call: Call, reply: Reply<()>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::AbortBash, reply);
        }
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::AbortBash { reply });
        });
    }

    fn jobs(&self, call: Call, statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Jobs(statuses), reply);
        }
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::ListJobs { statuses, reply });
        });
    }

    fn job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Job(id), reply);
        }
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::GetJob { id, reply });
        });
    }

    fn job_wait(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::JobWait(id), reply);
        }
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::WaitJob { id, reply });
        });
    }

    fn cancel_job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::CancelJob(id), reply);
        }
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::CancelJob { id, reply });
        });
    }

    fn shell_start(&self, call: Call, command: ShellCommand, reply: Reply<Arc<ShellFacts>>) {
        self.with_own(&call, reply, |handle, reply| {
            let facts = handle.snapshot().facts.clone();
            let cwd = match shell_folder(&facts.cwd, command.cwd.as_deref()) {
                Ok(cwd) => cwd,
                Err(error) => return reply.fail(error),
            };
            let new = NewShell {
                session: handle.id.clone(),
                command: command.command,
                cwd,
                timeout: command.timeout_seconds.map(Duration::from_secs),
                environment: handle.config().environment.clone(),
            };
            user_shell_start::start(&self.shared, new, reply);
        });
    }

    fn shells(&self) -> Vec<Arc<ShellFacts>> {
        self.shared.shells.list()
    }

    fn shell_wait(&self, id: &str, patience: Option<Duration>, reply: Reply<(Arc<ShellFacts>, Waited)>) {
        wait_for_shell(&self.shared, id, patience, true, reply);
    }

    fn shell_detach(&self, id: &str, reply: Reply<Arc<ShellFacts>>) {
        reply.send(self.shared.shells.detach(id));
    }

    fn shell_cancel(&self, id: &str, reply: Reply<Arc<ShellFacts>>) {
        if let Err(error) = self.shared.shells.stop(id) {
            return reply.fail(error);
        }
        let ended = |ended: Result<(Arc<ShellFacts>, Waited), _>| reply.send(ended.map(|(facts, _)| facts));
        wait_for_shell(&self.shared, id, None, false, Reply::new(ended));
    }

    fn call_tool(&self, call: Call, tool: String, arguments: Value<'static>, reply: Reply<ToolOutcome>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::CallTool(tool, arguments), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            if tool != DELEGATE && handle.tools.find(&tool).is_none() && !tool.starts_with("mcp__") {
                return reply.fail(ApiError::invalid_param("tool", "the name of a tool of the session"));
            }
            let asked = Box::new((tool, arguments));
            handle.tell(Change::CallTool { call, asked, reply });
        });
    }
}

/// Waits for a command of a person on a task of its own.
fn wait_for_shell(
    services: &Arc<Services>,
    id: &str,
    patience: Option<Duration>,
    detachable: bool,
    reply: Reply<(Arc<ShellFacts>, Waited)>,
) {
    let (shared, id) = (services.clone(), id.to_owned());
    // From now on, so that a request that follows at once is seen.
    let watch = match shared.shells.watch(&id, detachable) {
        Ok(watch) => watch,
        Err(error) => return reply.fail(error),
    };
    let wait = async move {
        let waited = watch.over(patience).await;
        reply.send(shared.shells.get(&id).map(|facts| (facts, waited)));
    };
    services.tasks.spawn_on(wait, &services.executor);
}

/// The folder of a person's command: the session's, or one inside it.
fn shell_folder(root: &str, asked: Option<&str>) -> Result<PathBuf, ApiError> {
    let Some(asked) = asked else { return Ok(PathBuf::from(root)) };
    let inside = || -> Option<PathBuf> {
        let root = Path::new(root).canonicalize().ok()?;
        let folder = root.join(asked).canonicalize().ok()?;
        (within(&folder, &root) && folder.is_dir()).then_some(folder)
    };
    inside().ok_or_else(|| ApiError::invalid_param("cwd", "a folder inside the session's"))
}
