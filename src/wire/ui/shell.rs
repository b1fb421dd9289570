//! The person's own commands as calls of the session API: run to their end, or as tasks. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::facts::{JobFacts, JobStatus, OutputPart, ShellFacts};
use crate::limits::{
    BASH_MAX_SECONDS, OUTPUT_PART_BYTES, UI_SESSIONS, UI_SHELL_MAX_SECONDS, UI_SHELL_SECONDS,
};
use crate::session::{ApiError, Reply, ShellCommand, Waited};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, flag, text};
use crate::wire::ui::codes::{Code, Fault};
use crate::wire::ui::request::{Ask, limit};
use crate::wire::ui::subtasks;

/// The command of the params. A time limit that is zero or below counts as the least, one second.
fn command(ask: &Ask<'_>, usual: Option<u64>, most: u64) -> ShellCommand {
    let asked = at(ask.params, "timeout_seconds").map(|seconds| seconds.as_i64().unwrap_or(i64::MAX));
    let asked = asked.map(|seconds| u64::try_from(seconds.max(1)).unwrap_or(1));
    ShellCommand {
        command: ask.owned("command").unwrap_or_default(),
        cwd: ask.owned("cwd"),
        timeout_seconds: asked.or(usual).map(|seconds| seconds.min(most)),
    }
}

/// Starts a command and waits for its end.
fn run_to_end(ask: &Ask<'_>, command: ShellCommand, reply: Reply<Arc<ShellFacts>>) {
    let api = ask.ui.api.clone();
    let started = Reply::new(move |started: Result<Arc<ShellFacts>, ApiError>| match started {
        Ok(facts) => {
            let ended = |ended: Result<(Arc<ShellFacts>, Waited), ApiError>| {
                reply.send(ended.map(|(facts, _)| facts));
            };
            api.shell_wait(&facts.id, None, Reply::new(ended));
        }
        Err(error) => reply.fail(error),
    });
    ask.api().shell_start(ask.call(), command, started);
}

/// Serves `shell.exec`.
pub fn exec(ask: &Ask<'_>) {
    let reply = ask.reply(|facts: Arc<ShellFacts>| match &facts.failure {
        Some(failure) => Err(Fault::new(Code::Internal, failure.to_string())),
        None => Ok(ended(&facts)),
    });
    run_to_end(ask, command(ask, Some(UI_SHELL_SECONDS), UI_SHELL_MAX_SECONDS), reply);
}

/// Serves `shell.start`.
pub fn start(ask: &Ask<'_>) {
    let reply = ask.reply(|facts: Arc<ShellFacts>| Ok(record(&facts)));
    ask.api().shell_start(ask.call(), command(ask, None, BASH_MAX_SECONDS), reply);
}

/// Serves `shell.list`.
pub fn list(ask: &Ask<'_>) {
    let most = limit(ask.params, "limit", UI_SESSIONS);
    let tasks = ask.api().shells().iter().take(most).map(|facts| record(facts)).collect::<Vec<_>>();
    ask.ok(&Map::new().with("tasks", Value::vector(tasks)));
}

/// The command that the params name; refuses an unknown one.
fn named(ask: &Ask<'_>) -> Option<Arc<ShellFacts>> {
    let id = text(ask.params, "task_id").unwrap_or_default();
    let found = ask.api().shells().into_iter().find(|facts| *facts.id == *id);
    if found.is_none() {
        ask.fail(&Fault::param("task_id", "the id of a task"));
    }
    found
}

/// Serves `shell.status`.
pub fn status(ask: &Ask<'_>) {
    if let Some(facts) = named(ask) {
        ask.ok(&record(&facts));
    }
}

/// Serves `shell.wait`.
pub fn wait(ask: &Ask<'_>) {
    let Some(facts) = named(ask) else { return };
    let patience = at(ask.params, "wait_timeout_seconds").and_then(Value::as_i64);
    let patience = patience.map(|seconds| Duration::from_secs(u64::try_from(seconds.max(0)).unwrap_or(0)));
    let reply = ask.reply(|(facts, waited): (Arc<ShellFacts>, Waited)| {
        let short = |key: &'static str| {
            let result = Map::new().with("task_id", facts.id.to_string()).with(key, true);
            result.with("state", facts.status.as_str())
        };
        Ok(match waited {
            Waited::Ended => record(&facts),
            Waited::Detached => short("detached"),
            Waited::StillRunning => short("still_running"),
        })
    });
    ask.api().shell_wait(&facts.id, patience, reply);
}

/// Serves `shell.detach`.
pub fn detach(ask: &Ask<'_>) {
    let Some(facts) = named(ask) else { return };
    let reply = ask.reply(|facts: Arc<ShellFacts>| {
        let result = Map::new().with("task_id", facts.id.to_string()).with("detached", true);
        Ok(result.with("state", facts.status.as_str()))
    });
    ask.api().shell_detach(&facts.id, reply);
}

/// Serves `shell.cancel`.
pub fn cancel(ask: &Ask<'_>) {
    let Some(facts) = named(ask) else { return };
    let reply = ask.reply(|facts: Arc<ShellFacts>| Ok(record(&facts)));
    ask.api().shell_cancel(&facts.id, reply);
}

/// Serves `shell.output`: lines from `offset`, at most `limit`.
pub fn output(ask: &Ask<'_>) {
    let Some(facts) = named(ask) else { return };
    if facts.status == JobStatus::Running {
        return ask.fail(&Fault::new(Code::Busy, "The command runs; its output is not kept yet."));
    }
    let is_error = text(ask.params, "stream") == Some("stderr");
    let [out, err] = &facts.outputs;
    let stream = if is_error { err } else { out };
    let cut = lines(ask.params);
    let mut result = Map::new().with("task_id", facts.id.to_string());
    result.put("stream", if is_error { "stderr" } else { "stdout" });
    result.put("cached", stream.handle.is_some());
    result.put_some("ref_id", stream.handle.as_deref().map(str::to_owned));
    match &stream.handle {
        None => ask.ok(&result.with("content", cut(&stream.text))),
        Some(handle) => {
            let reply = ask.reply(move |part: OutputPart| Ok(result.with("content", cut(&part.text))));
            let call = ask.call_to(facts.session.clone());
            ask.api().read_output(call, handle.to_string(), 0, OUTPUT_PART_BYTES, reply);
        }
    }
}

/// Takes the lines from `offset` of a text, at most `limit`.
fn lines(params: &Value<'_>) -> impl Fn(&str) -> String + Send + 'static {
    let from = at(params, "offset").and_then(Value::as_i64).and_then(|n| usize::try_from(n).ok());
    let most = limit(params, "limit", usize::MAX);
    move |text| text.split_inclusive('\n').skip(from.unwrap_or(0)).take(most).collect()
}

/// Serves `tool.call` of `tool_output_cache`: lines of a kept output of the session.
pub fn kept_output(ask: &Ask<'_>) {
    let nothing = Value::from(Map::new());
    let arguments = at(ask.params, "arguments").unwrap_or(&nothing);
    let Some(handle) = text(arguments, "ref_id") else {
        return ask.fail(&Fault::param("arguments.ref_id", "the id of a kept output"));
    };
    let cut = lines(arguments);
    let reply =
        ask.reply(move |part: OutputPart| Ok(Map::new().with("ok", true).with("result", cut(&part.text))));
    let read = Reply::new(move |part: Result<OutputPart, ApiError>| {
        let unknown = |_| ApiError::invalid_param("arguments.ref_id", "the id of a kept output");
        reply.send(part.map_err(unknown));
    });
    ask.api().read_output(ask.call(), handle.to_owned(), 0, OUTPUT_PART_BYTES, read);
}

/// Serves `task.spawn`.
pub fn spawn(ask: &Ask<'_>) {
    if text(ask.params, "kind") == Some("subagent") {
        return subtasks::spawn(ask);
    }
    if text(ask.params, "command").is_none_or(str::is_empty) {
        return ask.fail(&Fault::param("command", "a text that is not empty"));
    }
    let reply = ask.reply(|facts: Arc<ShellFacts>| Ok(task(&facts)));
    let command = command(ask, None, BASH_MAX_SECONDS);
    if flag(ask.params, "background") == Some(false) {
        return run_to_end(ask, command, reply);
    }
    ask.api().shell_start(ask.call(), command, reply);
}

/// Serves `task.list`: the person's subagents and commands, then the model's in the background.
pub fn tasks(ask: &Ask<'_>) {
    let most = limit(ask.params, "limit", UI_SESSIONS);
    let state = ask.owned("state");
    let kind = text(ask.params, "kind");
    let is_of_kind = kind.is_none_or(|kind| kind == "shell");
    let in_state = |status: JobStatus| state.as_deref().is_none_or(|name| name == status.as_str());
    let is_listed = kind.is_none_or(|kind| kind == "subagent");
    let subagents = subtasks::records(&ask.ui.desk.lock(), |status| is_listed && in_state(status));
    let shells = ask.api().shells();
    let reply = ask.reply(move |jobs: Vec<Arc<JobFacts>>| {
        let wanted =
            |status: JobStatus| is_of_kind && state.as_deref().is_none_or(|name| name == status.as_str());
        let shells = shells.iter().filter(|facts| wanted(facts.status)).map(|facts| task(facts));
        let jobs = jobs.iter().filter(|job| wanted(job.status)).map(|job| job_task(job));
        Ok(Map::new()
            .with("tasks", Value::vector(subagents.into_iter().chain(shells).chain(jobs).take(most))))
    });
    ask.api().jobs(ask.call(), None, reply);
}

/// Serves `task.status`, and `task.result` of one that has ended.
pub fn task_status(ask: &Ask<'_>, only_ended: bool) {
    let running = || Fault::new(Code::Busy, "The task runs; its result is not kept yet.");
    let id = ask.owned("task_id").unwrap_or_default();
    if subtasks::is_one(ask) {
        return subtasks::status(ask, &id, only_ended);
    }
    if let Some(facts) = ask.api().shells().into_iter().find(|facts| *facts.id == *id) {
        if only_ended && facts.status == JobStatus::Running {
            return ask.fail(&running());
        }
        return ask.ok(&task(&facts));
    }
    let reply = ask.reply(move |job: Arc<JobFacts>| match job.status {
        JobStatus::Running if only_ended => Err(running()),
        _ => Ok(job_task(&job)),
    });
    ask.api().job(ask.call(), id, unknown_as_param(reply));
}

/// Serves `task.wait`.
pub fn task_wait(ask: &Ask<'_>) {
    let id = ask.owned("task_id").unwrap_or_default();
    if subtasks::is_one(ask) {
        return subtasks::wait(ask, &id);
    }
    if ask.api().shells().iter().any(|facts| *facts.id == *id) {
        let reply = ask.reply(|(facts, _): (Arc<ShellFacts>, Waited)| Ok(task(&facts)));
        return ask.api().shell_wait(&id, None, reply);
    }
    let reply = ask.reply(|job: Arc<JobFacts>| Ok(job_task(&job)));
    ask.api().job_wait(ask.call(), id, unknown_as_param(reply));
}

/// Serves `task.cancel`.
pub fn task_cancel(ask: &Ask<'_>) {
    let id = ask.owned("task_id").unwrap_or_default();
    if subtasks::is_one(ask) {
        return subtasks::cancel(ask, &id);
    }
    if ask.api().shells().iter().any(|facts| *facts.id == *id) {
        let reply = ask.reply(|facts: Arc<ShellFacts>| Ok(task(&facts)));
        return ask.api().shell_cancel(&id, reply);
    }
    let reply = ask.reply(|job: Arc<JobFacts>| Ok(job_task(&job)));
    ask.api().cancel_job(ask.call(), id, unknown_as_param(reply));
}

/// An unknown id is a wrong param.
fn unknown_as_param<T: 'static>(reply: Reply<T>) -> Reply<T> {
    Reply::new(move |found: Result<T, ApiError>| {
        reply.send(found.map_err(|_| ApiError::invalid_param("task_id", "the id of a task")));
    })
}

/// The outputs and the end of a command.
fn ended(facts: &ShellFacts) -> Map<'static> {
    let [out, err] = &facts.outputs;
    let mut result = Map::new().with("command_preview", preview(&facts.command));
    result.put("exit_code", facts.exit_code.map(i64::from));
    result.put("signal", facts.signal.map(signal));
    result.put("stdout", out.text.to_string());
    // The result has no other place for the reason of an end that is no exit and no signal.
    let why = facts.timed_out.then(|| failure(facts)).flatten();
    let gap = if err.text.is_empty() || err.text.ends_with('\n') { "" } else { "\n" };
    result.put("stderr", format!("{}{}", err.text, why.map(|why| format!("{gap}{why}")).unwrap_or_default()));
    let truncated = Map::new().with("stdout", out.cut).with("stderr", err.cut);
    result.put("truncated", truncated.with("combined", out.cut || err.cut));
    result.put("duration_ms", facts.duration_ms.map(crate::message::count));
    result.put_some("stdout_cache_id", out.handle.as_deref().map(str::to_owned));
    result.put_some("stderr_cache_id", err.handle.as_deref().map(str::to_owned));
    result
}

/// The start of a command, on one line.
fn preview(command: &str) -> String {
    let line: String = command.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(200).collect()
}

/// The record of a command.
fn record(facts: &ShellFacts) -> Map<'static> {
    let mut record = Map::new().with("task_id", facts.id.to_string()).with("state", facts.status.as_str());
    record.put("cwd", facts.cwd.to_string());
    put_times(&mut record, &facts.started_at, facts.ended_at.as_deref());
    for (key, value) in ended(facts).iter() {
        record.insert(key.clone(), value.clone());
    }
    record.put_some("failure_message", failure(facts));
    record
}

fn failure(facts: &ShellFacts) -> Option<String> {
    match (&facts.failure, facts.timed_out) {
        (Some(failure), _) => Some(failure.to_string()),
        (None, true) => Some("The command took too long and was ended.".to_owned()),
        (None, false) => None,
    }
}

fn put_times(map: &mut Map<'static>, started: &str, ended: Option<&str>) {
    map.put("created_at", started.to_owned());
    map.put("updated_at", ended.unwrap_or(started).to_owned());
    map.put("started_at", started.to_owned());
    map.put_some("ended_at", ended.map(str::to_owned));
}

/// The head of a task's record.
fn task_head(id: &str, status: JobStatus, command: &str) -> Map<'static> {
    let mut task = Map::new().with("task_id", id.to_owned()).with("kind", "shell");
    task.put("workspace_mode", "live_workspace");
    task.put("state", status.as_str());
    task.put("title", preview(command));
    task
}

/// A command as a task.
fn task(facts: &ShellFacts) -> Map<'static> {
    let mut task = task_head(&facts.id, facts.status, &facts.command);
    task.put("working_directory", facts.cwd.to_string());
    for (key, value) in record(facts).iter() {
        task.insert(key.clone(), value.clone());
    }
    task
}

/// A background job of the model as a task.
fn job_task(job: &JobFacts) -> Map<'static> {
    let mut task = task_head(&job.id, job.status, &job.command);
    put_times(&mut task, &job.started_at, job.ended_at.as_deref());
    task.put("exit_code", job.exit_code.map(i64::from));
    task.put("duration_ms", Value::Nil);
    task.put("stdout", job.output.to_string());
    task.put_some("stdout_cache_id", job.handle.as_deref().map(str::to_owned));
    task
}

/// The name of a signal.
fn signal(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
