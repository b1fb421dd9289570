//! Replays the newest runs of a session as events, then answers. Moves no focus.

use std::sync::Arc;

use crate::limits::{MAX_PAGE_MESSAGES, UI_HISTORY_BYTES, UI_HISTORY_EVENTS, UI_HISTORY_RUNS};
use crate::message::{Block, Message, Role, SessionId, StopReason, count, sources_below};
use crate::session::{ApiError, Page, Reply};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::text;
use crate::wire::ui::codes::{Code, Fault};
use crate::wire::ui::encoder::{arguments_of, result_text};
use crate::wire::ui::frames;
use crate::wire::ui::link::Connection;
use crate::wire::ui::request::{Ask, limit, not_loaded};

/// Serves `session.history`.
pub fn serve(ask: &Ask<'_>) {
    let most_runs = limit(ask.params, "max_runs", UI_HISTORY_RUNS);
    let most_events = limit(ask.params, "max_events", UI_HISTORY_EVENTS);
    let session = SessionId::from(text(ask.params, "session_id").unwrap_or_default());
    let place = ask.place;
    let reply = ask.connection.begin(ask.id.clone(), move |connection: &Connection, id, result| {
        let page = result.map_err(Fault::from).and_then(|page: Result<Page, Fault>| page);
        match page {
            Ok(page) => replay(connection, id, place, &page, most_runs, most_events),
            // A session that is not known has no history.
            Err(fault) if fault.code == Code::NoSession => {
                let none = Map::new().with("runs", Value::int(0)).with("events_sent", Value::int(0));
                connection.wire().respond(connection, id, place, &none);
            }
            Err(fault) => connection.wire().refuse(connection, id, place, &fault),
        }
    });
    let (api, call) = (ask.ui.api.clone(), ask.call());
    let next = ask.call_to(session.clone());
    let opened = Reply::new(move |opened: Result<SessionId, ApiError>| match opened {
        Ok(_) => {
            let page = Reply::new(move |page: Result<Page, ApiError>| reply.ok(page.map_err(Fault::from)));
            api.messages(next, None, Some(MAX_PAGE_MESSAGES), page);
        }
        Err(error) => reply.ok(Err(not_loaded(error))),
    });
    ask.api().open_session(call, session, opened);
}

/// The end of a run that has no last answer.
const CUT_OFF: &str = "The run was cut off, because the process that ran it ended. /continue goes on.";

/// One run of the history.
struct OldRun<'p> {
    id: &'p str,
    messages: Vec<&'p Arc<Message>>,
}

/// The events and the answer, as one frame, so that no other event comes between.
fn replay(
    connection: &Connection,
    id: &str,
    place: usize,
    page: &Page,
    most_runs: usize,
    most_events: usize,
) {
    let mut runs: Vec<OldRun<'_>> = Vec::new();
    for message in &page.messages {
        let turn = message.turn_id.as_ref().map_or("history", |turn| turn.as_str());
        match runs.last_mut() {
            Some(run) if run.id == turn => run.messages.push(message),
            _ => runs.push(OldRun { id: turn, messages: vec![message] }),
        }
    }
    let mut truncated = page.more || runs.len() > most_runs;
    let skipped = runs.len().saturating_sub(most_runs);
    let (mut lines, mut sent, mut told) = (Vec::new(), 0usize, 0usize);
    // The newest runs are the ones that count: from the last back to the first, as long as there is room.
    for run in runs.iter().skip(skipped).rev() {
        let is_cut_off = page.interrupted.iter().any(|turn| turn.as_str() == run.id);
        let (mut text, events) = old_run(run, is_cut_off);
        let room = UI_HISTORY_BYTES.saturating_sub(lines.iter().map(Vec::len).sum());
        let mut kept = events.len();
        if kept > most_events.saturating_sub(sent) || text.len() > room {
            truncated = true;
            if !lines.is_empty() {
                break;
            }
            // Of the newest run its newest events, and one at least.
            let whole = text.len();
            let fits = |(at, start): &(usize, &usize)| {
                events.len().saturating_sub(*at) <= most_events && whole.saturating_sub(**start) <= room
            };
            let last = events.len().saturating_sub(1);
            let first = events.iter().enumerate().find(fits).map_or(last, |(at, _)| at);
            text.drain(..events.get(first).copied().unwrap_or(0));
            kept = events.len().saturating_sub(first);
        }
        sent = sent.saturating_add(kept);
        told = told.saturating_add(1);
        lines.push(text);
    }
    let sent = sent.saturating_add(page.faults.len());
    let mut result = Map::new().with("runs", Value::from(told)).with("events_sent", Value::from(sent));
    result.put_some("truncated", truncated.then_some(true));
    connection.wire().count_answer(place);
    connection.outbox().push_frame(|out, ()| {
        // First, because they say what is missing below. They count as events of no run.
        for fault in &page.faults {
            let event = Map::new().with("type", "text").with("content", fault.as_str());
            frames::event(out, "history", -1, &event.with("timestamp", Value::int(0)));
        }
        for run in lines.iter().rev() {
            out.extend_from_slice(run);
        }
        frames::answer(out, id, &result);
    });
}

/// The lines of a run, and where each begins.
fn old_run(run: &OldRun<'_>, is_cut_off: bool) -> (Vec<u8>, Vec<usize>) {
    let mut out = Vec::new();
    let mut events = Vec::new();
    let (mut seq, mut steps) = (0i64, 0i64);
    let mut tell = |out: &mut Vec<u8>, event: Map<'_>, is_counted: bool| {
        events.push(out.len());
        frames::event(out, run.id, if is_counted { seq } else { -1 }, &event);
        seq = seq.saturating_add(i64::from(is_counted));
    };
    let typed = |name: &'static str| Map::new().with("type", name);
    let mut calls: Vec<(&Arc<str>, &Value<'static>)> = Vec::new();
    let last_answer = run.messages.iter().rposition(|message| message.role == Role::Assistant);
    for (at, message) in run.messages.iter().enumerate() {
        let stamp = message.timestamp.parse::<jiff::Timestamp>().map_or(0, |at| at.as_millisecond());
        match message.role {
            Role::User => {
                tell(&mut out, typed("hidden_user_message").with("content", message.text()), false);
            }
            Role::Assistant => {
                for block in &message.content {
                    if let Block::Thinking { text, .. } = block {
                        let event = typed("reasoning").with("content", text.to_string());
                        tell(&mut out, event.with("timestamp", stamp), true);
                    }
                }
                let is_last = Some(at) == last_answer && message.stop_reason != Some(StopReason::ToolUse);
                let text = message.text() + &sources_below(&message.content);
                if is_last {
                    let text = match (&message.error_message, text.is_empty()) {
                        (Some(error), true) => error.to_string(),
                        _ => text,
                    };
                    tell(&mut out, typed("final").with("content", text), true);
                } else if !text.is_empty() {
                    tell(&mut out, typed("text").with("content", text).with("timestamp", stamp), true);
                }
                for block in &message.content {
                    if let Block::ToolCall { id, name, arguments } = block {
                        steps = steps.saturating_add(1);
                        calls.push((id, arguments));
                        let step = typed("step_start").with("step_id", id.to_string());
                        let step = step.with("title", name.to_string());
                        tell(&mut out, step.with("step_number", Value::int(steps)), true);
                        let (args, raw) = arguments_of(arguments);
                        let mut call = typed("tool_call").with("tool", name.to_string()).with("args", args);
                        call.put("tool_call_id", id.to_string());
                        call.put("raw_args", raw);
                        tell(&mut out, call, true);
                    }
                }
            }
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap_or_default();
                let name = message.tool_name.as_deref().unwrap_or_default();
                let arguments = calls.iter().find(|(call, _)| **call == id).map(|(_, arguments)| *arguments);
                let failed = message.is_error.unwrap_or(false);
                let mut result = typed("tool_result").with("tool", name.to_owned());
                let text = message.text();
                let details = message.details.as_ref().unwrap_or(&Value::Nil);
                result.put("result", result_text(name, arguments.unwrap_or(&Value::Nil), &text, details));
                result.put("tool_call_id", id.to_string());
                result.put_some("is_error", failed.then_some(true));
                tell(&mut out, result, true);
                let mut step = typed("step_complete").with("step_id", id.to_string());
                step.put("status", if failed { "error" } else { "completed" });
                step.put("duration_ms", count(message.duration_ms.unwrap_or(0)));
                tell(&mut out, step, true);
            }
            Role::System => {}
        }
    }
    if is_cut_off {
        tell(&mut out, typed("final").with("content", CUT_OFF), true);
    }
    (out, events)
}
