//! Subagents that the person starts as tasks: a call of `delegate` without a run, and what is known of it. Decides
//! nothing; the question about the subagent and the rules are those of any call.

use crate::catalogue::tools::DELEGATE;
use crate::clock::rfc3339;
use crate::facts::JobStatus;
use crate::limits::UI_KEPT_RUNS;
use crate::session::{ApiError, Call, Client as _, Reply, ToolOutcome};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, flag, text};
use crate::wire::ui::codes::{Code, Fault};
use crate::wire::ui::connection_state::{Subtask, UiStateInner};
use crate::wire::ui::request::Ask;

/// Its record.
fn record(subtask: &Subtask) -> Map<'static> {
    let mut task = Map::new().with("task_id", subtask.id.to_string()).with("kind", "subagent");
    task.put("workspace_mode", "live_workspace");
    task.put("state", subtask.status.as_str());
    task.put("title", subtask.prompt.split_whitespace().collect::<Vec<_>>().join(" "));
    task.put("created_at", subtask.started_at.clone());
    task.put("updated_at", subtask.ended_at.clone().unwrap_or_else(|| subtask.started_at.clone()));
    task.put("started_at", subtask.started_at.clone());
    task.put_some("ended_at", subtask.ended_at.clone());
    task.put("exit_code", Value::Nil);
    task.put("duration_ms", Value::Nil);
    match subtask.status {
        JobStatus::Running => {}
        JobStatus::Completed => {
            task.put("stdout", subtask.text.clone());
        }
        JobStatus::Failed | JobStatus::Cancelled => {
            task.put("failure_message", subtask.text.clone());
        }
    }
    task
}

/// Serves `task.spawn` of a subagent.
pub fn spawn(ask: &Ask<'_>) {
    let Some(prompt) = ask.owned("prompt").filter(|prompt| !prompt.trim().is_empty()) else {
        return ask.fail(&Fault::param("prompt", "a text that is not empty"));
    };
    if ask.is_busy() {
        return;
    }
    let mut tools = Vec::new();
    for tool in at(ask.params, "tools").and_then(Value::as_slice).unwrap_or_default() {
        tools.extend(tool.as_str().map(|name| Value::from(name.to_owned())));
    }
    let arguments = Map::new().with("task", prompt.clone()).with("tools", Value::vector(tools));
    let session = ask.connection.focused();
    let (desk, clock) = (ask.ui.desk.clone(), ask.ui.clock.clone());
    let mut state = desk.lock();
    if state.subtasks.iter().any(|task| task.status == JobStatus::Running) {
        drop(state);
        return ask.fail(&Fault::new(Code::Busy, "A subagent is at work: wait for its end, or cancel it."));
    }
    while state.subtasks.len() >= UI_KEPT_RUNS {
        state.subtasks.pop_front();
    }
    // No request has this id, because it is no JSON.
    let id = state.own_id("subagent");
    state.quiet.insert(id.clone(), false);
    state.subtasks.push_back(Subtask {
        id: id.clone(),
        prompt,
        session: session.clone(),
        status: JobStatus::Running,
        started_at: rfc3339(clock.now()).to_string(),
        ended_at: None,
        text: String::new(),
        waiting: Vec::new(),
    });
    drop(state);
    let call = Call { connection: ask.connection.id(), request: id.clone(), session };
    let ending = (ask.ui.desk.clone(), id.clone());
    let ended = Reply::new(move |outcome: Result<ToolOutcome, ApiError>| {
        let (desk, id) = ending;
        let mut state = desk.lock();
        let declined = state.quiet.remove(&id).unwrap_or(false);
        let Some(task) = state.subtasks.iter_mut().find(|task| task.id == id) else { return };
        let (is_error, text) = match outcome {
            Ok(outcome) => (outcome.is_error, outcome.text),
            Err(error) => (true, error.message),
        };
        // A cancelled one stays that.
        if task.status == JobStatus::Running {
            task.status = match (is_error, declined) {
                (false, _) => JobStatus::Completed,
                (true, true) => JobStatus::Cancelled,
                (true, false) => JobStatus::Failed,
            };
        }
        task.text = text;
        task.ended_at = Some(rfc3339(clock.now()).to_string());
        let (record, waiting) = (record(task), std::mem::take(&mut task.waiting));
        drop(state);
        waiting.into_iter().for_each(|reply| reply.ok(record.clone()));
    });
    ask.api().call_tool(call, DELEGATE.to_owned(), Value::from(keyed(arguments)), ended);
    match flag(ask.params, "background") {
        Some(false) => wait(ask, &id),
        _ => status(ask, &id, false),
    }
}

/// A map with keywords as keys, as tools read it.
fn keyed(map: Map<'static>) -> Map<'static> {
    let key = |key: &Value<'static>| Value::keyword(key.as_str().unwrap_or_default().to_owned());
    map.iter()
        .map(|(name, value)| (if name.as_str().is_some() { key(name) } else { name.clone() }, value.clone()))
        .collect()
}

/// The records of those that `fits`, newest first.
pub fn records(state: &UiStateInner, fits: impl Fn(JobStatus) -> bool) -> Vec<Map<'static>> {
    state.subtasks.iter().rev().filter(|task| fits(task.status)).map(record).collect()
}

/// Whether the id is that of a subagent of the person.
pub fn is_one(ask: &Ask<'_>) -> bool {
    let id = text(ask.params, "task_id").unwrap_or_default();
    ask.ui.desk.lock().subtasks.iter().any(|task| *task.id == *id)
}

/// Answers with its record; refuses that of one that runs if only an ended one has a result.
pub fn status(ask: &Ask<'_>, id: &str, only_ended: bool) {
    let state = ask.ui.desk.lock();
    let task = state.subtasks.iter().find(|task| *task.id == *id);
    let found = task.map(|task| (task.ended_at.is_some(), record(task)));
    drop(state);
    match found {
        Some((false, _)) if only_ended => {
            ask.fail(&Fault::new(Code::Busy, "The task runs; its result is not kept yet."));
        }
        Some((_, record)) => ask.ok(&record),
        None => ask.fail(&Fault::param("task_id", "the id of a task")),
    }
}

/// Answers once it has ended.
pub fn wait(ask: &Ask<'_>, id: &str) {
    let reply = ask.reply(Ok);
    let mut state = ask.ui.desk.lock();
    match state.subtasks.iter_mut().find(|task| *task.id == *id) {
        Some(task) if task.ended_at.is_none() => task.waiting.push(reply),
        Some(task) => {
            let record = record(task);
            drop(state);
            reply.ok(record);
        }
        None => {
            drop(state);
            reply.fail(ApiError::invalid_param("task_id", "the id of a task"));
        }
    }
}

/// Ends it, and answers once it has ended.
pub fn cancel(ask: &Ask<'_>, id: &str) {
    let running = {
        let mut state = ask.ui.desk.lock();
        // With a run, the session is no longer the subagent's.
        let is_free = state.run.is_some();
        let task = state.subtasks.iter_mut().find(|task| *task.id == *id);
        task.filter(|task| task.ended_at.is_none() && !is_free).map(|task| {
            task.status = JobStatus::Cancelled;
            task.session.clone()
        })
    };
    if let Some(session) = running {
        ask.api().abort(ask.call_to(session), None, Reply::new(|_| {}));
    }
    wait(ask, id);
}
