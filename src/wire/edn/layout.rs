//! Lays out an event as `:data` on the EDN wire.
//!
//! Gives events their topics and keys. [`encode`](super::encode) writes two itself, with the same keys: deltas and lists of
//! sessions. It also adds the parts that differ between connections.

use base64::Engine as _;

use crate::catalogue::Topic;
use crate::event::stage::{Point, Stage};
use crate::event::{
    About, Body, Choice, Diagnostic, Dialog, DialogShape, Event, FileAction, FileContent, Pick, Rehydration,
    RunEnd, StagePassed, Subagent, ToolCall, ToolOutput,
};
use crate::limits::EVENT_TEXT_BYTES;
use crate::message::{EntryId, Message, TurnId, count};
use crate::projection;
use crate::value::{Map, Value};

/// The payload of an event: the parts of its topic, then its position in its session.
pub fn payload(event: &Event) -> Map<'_> {
    let mut map = body(&event.body);
    if let Some(session) = &event.session {
        map.put("session-id", session.as_str());
        map.put("offset", count(event.offset));
    }
    if let Some(turn) = &event.turn {
        map.put("turn-id", turn.as_str());
    }
    if let Some(entry) = &event.entry {
        map.put("entry-id", entry.as_str());
    }
    if let Some(piece) = &event.piece {
        map.put("call", count(u64::from(piece.call)));
        map.put("at", count(piece.at));
    }
    map
}

/// The topic of an event.
pub const fn topic(body: &Body) -> Topic {
    match body {
        Body::SessionUpdated(_) => Topic::SessionUpdated,
        Body::SessionResumed { .. } => Topic::SessionResumed,
        Body::SessionRehydrated(_) => Topic::SessionRehydrated,
        Body::EntryWritten(_) => Topic::SessionEntry,
        Body::Synced => Topic::SessionSynced,
        Body::Stale { .. } => Topic::SessionStale,
        Body::ContextUpdated { .. } => Topic::ContextUpdated,
        Body::AssistantDelta(_) => Topic::AssistantDelta,
        Body::ThinkingDelta(_) => Topic::AssistantThinkingDelta,
        Body::AssistantMessage(_) => Topic::AssistantMessage,
        Body::UserMessage(_) => Topic::UserMessage,
        Body::FilesUndone(_) => Topic::FilesUndone,
        Body::MessagesReplaced(_) => Topic::MessagesReplaced,
        Body::QueueUpdated(_) => Topic::QueueUpdated,
        Body::TurnEnded(_) => Topic::TurnEnded,
        Body::RetryAwaited(_) => Topic::TurnRetry,
        Body::CompactionStarted { .. } => Topic::CompactionStarted,
        Body::CompactionEnded(_) => Topic::CompactionEnded,
        Body::ControlHandled(_) => Topic::ControlHandled,
        Body::ToolStart(_) => Topic::ToolStart,
        Body::ToolDelta { .. } => Topic::ToolDelta,
        Body::ToolExecuting(_) => Topic::ToolExecuting,
        Body::ToolUpdate(_) => Topic::ToolUpdate,
        Body::ToolResult(_) => Topic::ToolResult,
        Body::ToolRequested(_) => Topic::ToolRequested,
        Body::FileRequested(_) => Topic::FileRequested,
        Body::FileChanged(_) => Topic::FileChanged,
        Body::RequestCancelled { .. } => Topic::RequestCancelled,
        Body::FooterUpdated(_) => Topic::FooterUpdated,
        Body::StagePassed(_) => Topic::TurnStage,
        Body::JobUpdated(_) => Topic::JobUpdated,
        Body::McpUpdated(_) => Topic::McpUpdated,
        Body::CommandResult(_) => Topic::CommandResult,
        Body::ChoiceRequested(_) => Topic::FrontendActionRequested,
        Body::QuestionAsked(_) => Topic::InteractionRequested,
        Body::DialogRequested(_) => Topic::DialogRequested,
        Body::QuestionEnded(_) => Topic::InteractionAnswered,
        Body::WidgetsUpdated(_) => Topic::WidgetsUpdated,
        Body::WidgetSpecsUpdated(_) => Topic::WidgetSpecsUpdated,
        Body::StatusUpdated(_) => Topic::StatusUpdated,
        Body::Notification(_) => Topic::Notification,
        Body::Diagnostic(_) => Topic::Diagnostic,
        Body::Error { .. } => Topic::Error,
    }
}

fn body(body: &Body) -> Map<'_> {
    match body {
        Body::SessionUpdated(facts) => projection::session_state(facts),
        Body::FooterUpdated(facts) => projection::footer(facts),
        Body::ContextUpdated { sessions, .. } => {
            let slots = sessions.slots().iter().map(projection::slot);
            let mut map = Map::new().with("sessions", Value::vector(slots));
            map.put("session-tree-widget", projection::tree_widget(sessions));
            let live = sessions.live().and_then(|live| i64::try_from(live).ok());
            map.put_some("live-count", live.map(Value::int));
            map
        }
        Body::SessionResumed { location, message_count } => Map::new()
            .with("session-file", location.as_deref())
            .with("message-count", Value::from(*message_count)),
        Body::SessionRehydrated(history) => rehydration(history),
        Body::EntryWritten(entry) => Map::new().with("entry", entry.to_map()),
        Body::Synced => Map::new(),
        Body::Stale { reason } => Map::new().with("reason", *reason),
        Body::AssistantDelta(text) | Body::ThinkingDelta(text) => Map::new().with("text", text.as_ref()),
        Body::AssistantMessage(message) => assistant_message(message),
        Body::UserMessage(sent) => {
            let mut map = message_head(&sent.message);
            map.put("from", projection::sender(&sent.from));
            map.put_some("sender", sent.message.sender.as_deref());
            map
        }
        Body::FilesUndone(undone) => {
            let file = |(path, action): &(String, &'static str)| {
                Value::from(Map::new().with("path", path.clone()).with("action", *action))
            };
            let mut map = Map::new();
            map.put("undone", undone.undone);
            map.put("files", Value::vector(undone.files.iter().map(file)));
            map
        }
        Body::MessagesReplaced(replaced) => {
            let mut map = Map::new();
            map.put("entry-ids", Value::vector(replaced.entries.iter().map(EntryId::to_value)));
            map.put("reason", replaced.reason);
            map
        }
        Body::QueueUpdated(waiting) => projection::waiting(waiting),
        Body::TurnEnded(ended) => {
            let mut map = Map::new().with("outcome", ended.outcome.as_str());
            map.put_some("stop-reason", ended.stop.map(|reason| reason.as_str()));
            map.put_some("error-message", ended.error.as_deref());
            map.put_some("error-kind", ended.error_kind);
            map.put_some("usage", ended.usage.as_ref().map(|usage| usage.to_value()));
            map.put_some("run", ended.run.as_ref().map(run_end));
            map
        }
        Body::RetryAwaited(retry) => {
            let mut map = Map::new().with("attempt", retry.attempt).with("kind", retry.kind.to_string());
            map.put("pause-ms", u64::try_from(retry.pause.as_millis()).map_or(Value::Nil, count));
            map.put("error-message", retry.error.as_ref());
            map.put_some("discarded", retry.discarded.then_some(true));
            map
        }
        Body::CompactionStarted { asked } => {
            Map::new().with("reason", if *asked { "requested" } else { "window-full" })
        }
        Body::ControlHandled(handled) => {
            let mut map =
                Map::new().with("type", handled.kind).with("request-id", handled.request_id.as_ref());
            map.put("team", handled.team.as_ref());
            map.put("sender", handled.sender.as_ref());
            map.put("result", handled.result);
            map.put("duplicate", handled.duplicate);
            map.put_some("detail", handled.detail.as_deref());
            map
        }
        Body::CompactionEnded(ended) => {
            let mut map = Map::new().with("outcome", ended.outcome.as_str());
            map.put_some("error-message", ended.error.as_deref());
            map.put("tokens-before", count(ended.tokens_before));
            map.put("tokens", count(ended.tokens));
            map
        }
        Body::ToolStart(call) | Body::ToolExecuting(call) => tool_call(call),
        Body::ToolDelta { tool_id, arguments } => {
            Map::new().with("tool-id", tool_id.as_ref()).with("arguments", arguments.as_ref())
        }
        Body::ToolUpdate(output) | Body::ToolResult(output) => tool_output(output),
        Body::ToolRequested(asked) => {
            let mut map = Map::new().with("request-id", asked.request.as_ref());
            map.put("tool-id", asked.call.id.as_ref());
            map.put("tool-name", asked.call.name.as_ref());
            map.put("arguments", (*asked.call.parsed).clone());
            map.put("timeout-ms", u64::try_from(asked.timeout.as_millis()).map_or(Value::Nil, count));
            map
        }
        Body::FileRequested(asked) => {
            let mut map = Map::new().with("request-id", asked.request.as_ref());
            map.put("path", asked.path.as_str());
            match &asked.action {
                FileAction::Read => {
                    map.put("action", "read");
                }
                FileAction::Write { text, expected } => {
                    map.put("action", "write");
                    map.put("text", text.as_ref());
                    map.put("expected", expected.as_ref());
                }
                FileAction::Diagnostics => {
                    map.put("action", "diagnostics");
                }
            }
            map.put("timeout-ms", u64::try_from(asked.timeout.as_millis()).map_or(Value::Nil, count));
            map
        }
        Body::FileChanged(file) => {
            let mut map = Map::new().with("path", file.path.as_str());
            map.put_some("request-id", file.request.as_deref());
            map.put_some("sha256", file.digest.as_deref());
            map.put_some("visited", file.stamp.map(projection::stamp));
            match &file.content {
                Some(FileContent::Text(text)) => {
                    map.put("text", text.as_ref());
                }
                Some(FileContent::Bytes(bytes)) => {
                    map.put("bytes", base64::engine::general_purpose::STANDARD.encode(bytes));
                }
                None => {}
            }
            map.put_some("problem", file.problem.as_deref());
            map
        }
        Body::RequestCancelled { request, reason } => {
            Map::new().with("request-id", request.as_ref()).with("reason", *reason)
        }
        Body::StagePassed(passed) => stage(passed),
        Body::JobUpdated(job) => Map::new().with("job", projection::job(job)),
        Body::McpUpdated(states) => {
            Map::new().with("servers", Value::vector(states.servers.iter().map(projection::mcp::state)))
        }
        Body::CommandResult(outcome) => {
            Map::new().with("type", outcome.kind).with("message", outcome.message.as_str())
        }
        Body::ChoiceRequested(choice) => {
            Map::new().with("request-id", choice.request.as_ref()).with("ui/action", action(choice))
        }
        Body::QuestionAsked(asked) => {
            let mut map = Map::new();
            map.put("interaction-id", asked.id.as_ref());
            map.put("kind", asked.content.kind().as_str());
            map.put("correlation-id", asked.correlation.as_ref());
            map.put("payload", Value::from(projection::question(&asked.content, &asked.warnings)));
            put_subagent(&mut map, asked.subagent.as_ref());
            map
        }
        Body::DialogRequested(asked) => dialog(asked),
        Body::QuestionEnded(ended) => {
            let mut map = Map::new();
            map.put("interaction-id", ended.id.as_ref());
            map.put("correlation-id", ended.correlation.as_ref());
            map.put("status", if ended.accepted { "accepted" } else { "cancelled" });
            map.put("ext-id", ended.by.as_ref());
            map.put_some(
                "value",
                ended.answer.as_ref().map(|answer| Value::from(projection::answer(answer))),
            );
            map
        }
        Body::WidgetsUpdated(widgets) => Map::new().with("widgets", projection::widgets(widgets)),
        Body::WidgetSpecsUpdated(specs) => Map::new().with("widget-specs", projection::widget_specs(specs)),
        Body::StatusUpdated(statuses) => Map::new().with("statuses", projection::statuses(statuses)),
        Body::Notification(notification) => {
            let mut map = Map::new();
            map.put("id", notification.id.as_str());
            map.put("message", notification.message.as_str());
            map.put("level", notification.level.as_str());
            map.put_some("extension-id", notification.extension);
            map
        }
        Body::Diagnostic(diagnostic) => {
            let mut map = Map::new().with("code", diagnostic.code()).with("message", diagnostic.message());
            map.put_some("detail", detail(diagnostic));
            map
        }
        Body::Error { code, message } => {
            Map::new().with("error-code", code.as_str()).with("error-message", message.as_ref())
        }
    }
}

fn run_end(run: &RunEnd) -> Value<'_> {
    let mut map = Map::new().with("outcome", run.outcome.as_ref());
    map.put_some("reason", run.reason.as_deref());
    Value::from(map)
}

fn rehydration(history: &Rehydration) -> Map<'_> {
    let mut calls = Map::new();
    for past in &history.tool_calls {
        let mut call = tool_call(&past.call);
        if let Some(result) = &past.result {
            call.put("content", result.content_value());
            call.put("result-text", result.text());
            call.put("is-error", result.is_error.unwrap_or(false));
            call.put_some("details", result.details.clone());
            call.put_some("duration-ms", result.duration_ms.map(count));
        }
        calls.insert(past.call.id.as_ref(), call);
    }
    let mut map = Map::new();
    map.put("messages", Value::vector(history.messages.iter().map(|message| message.to_value())));
    map.put("tool-calls", calls);
    map.put("tool-order", Value::vector(history.tool_calls.iter().map(|past| past.call.id.as_ref())));
    map.put("more", history.more);
    if !history.interrupted.is_empty() {
        map.put("interrupted", Value::vector(history.interrupted.iter().map(TurnId::to_value)));
    }
    map
}

/// A long text stands in the content alone, so that the event is no longer than the message's line in the journal.
fn message_head(message: &Message) -> Map<'_> {
    let mut map = Map::new();
    map.put("role", message.role.as_str());
    map.put("content", message.content_value());
    map.put_some("text", Some(message.text()).filter(|text| text.len() <= EVENT_TEXT_BYTES));
    map
}

fn assistant_message(message: &Message) -> Map<'_> {
    let mut map = message_head(message);
    map.put_some("stop-reason", message.stop_reason.map(|reason| reason.as_str()));
    map.put_some("error-message", message.error_message.as_deref());
    map.put_some("usage", message.usage.as_ref().map(|usage| usage.to_value()));
    map
}

fn tool_call(call: &ToolCall) -> Map<'_> {
    let mut map = tool_head(call);
    if !call.arguments.is_empty() {
        map.put("arguments", call.arguments.as_ref());
        map.put("parsed-args", (*call.parsed).clone());
    }
    map
}

fn tool_head(call: &ToolCall) -> Map<'_> {
    Map::new()
        .with("tool-id", call.id.as_ref())
        .with("tool-name", call.name.as_ref())
        .with("call-summary", call.summary.as_ref())
}

fn tool_output(output: &ToolOutput) -> Map<'_> {
    let mut map = tool_head(&output.call);
    let text = output.text.as_ref();
    let block = Map::new().with("type", Value::keyword("text")).with("text", text);
    map.put("content", Value::vector([block]));
    map.put("result-text", text);
    map.put("is-error", output.is_error);
    if !output.details.is_nil() {
        map.put("details", output.details.clone());
    }
    map.put_some("duration-ms", output.duration_ms.map(count));
    map
}

/// `:stage` and `:point`: a boundary of a turn.
fn boundary(stage: Stage, point: Point) -> Map<'static> {
    Map::new().with("stage", stage.as_str()).with("point", point.as_str())
}

fn stage(passed: &StagePassed) -> Map<'_> {
    let mut map = boundary(passed.stage, passed.point);
    if let Some(hook) = &passed.hook {
        map.put("hook", hook.id.as_ref());
        map.put("outcome", hook.outcome.as_ref());
        map.put_some("reason", hook.reason.as_deref());
        map.put_some("tool-id", hook.tool_id.as_deref());
    }
    map
}

fn detail(diagnostic: &Diagnostic) -> Option<Map<'_>> {
    Some(match diagnostic {
        Diagnostic::Repaired { .. } | Diagnostic::RulesUnread { .. } => return None,
        Diagnostic::HookFailed { hook, kind, stage, point, .. } => {
            let mut detail = Map::new().with("hook", hook.as_ref()).with("kind", *kind);
            detail.put("stage", stage.as_str());
            detail.put("point", point.as_str());
            detail
        }
        Diagnostic::Behind { missed } => Map::new().with("missed", count(*missed)),
        Diagnostic::Coalesced { joined, replaced } => {
            Map::new().with("joined", count(*joined)).with("replaced", count(*replaced))
        }
    })
}

fn action(choice: &Choice) -> Map<'_> {
    let items = choice.items.iter().map(|item| {
        Map::new()
            .with("ui.item/id", item.id.as_str())
            .with("ui.item/label", item.label.as_str())
            .with("ui.item/value", pick(&item.pick))
            .with("ui.item/meta", about(&item.about))
    });
    let mut action = Map::new();
    action.put("ui/action-id", choice.request.as_ref());
    action.put("ui/action-kind", Value::keyword("select"));
    action.put("ui/action-name", Value::keyword(choice.kind.as_str()));
    action.put("ui/prompt", choice.prompt);
    action.put("ui/order", Value::keyword("preserve"));
    action.put("ui/items", Value::vector(items));
    action.put("ui/on-submit", Value::keyword("frontend-action-result"));
    action
}

fn pick(pick: &Pick) -> Value<'_> {
    match pick {
        Pick::Location(location) => Value::from(location.as_str()),
        Pick::Session(id) => Value::from(
            Map::new()
                .with("action/kind", Value::keyword("switch-session"))
                .with("action/session-id", id.as_str()),
        ),
        Pick::Entry(id) => Value::from(
            Map::new()
                .with("action/kind", Value::keyword("fork-session"))
                .with("action/entry-id", id.as_str()),
        ),
        Pick::Model { provider, id } => {
            Value::from(Map::new().with("provider", provider.as_str()).with("id", id.as_str()))
        }
        Pick::Thinking(level) => Value::from(level.as_str()),
    }
}

fn about(about: &About) -> Map<'_> {
    let mut map = Map::new();
    map.put_some("created-at", about.created_at.as_deref());
    map.put_some("worktree-path", about.worktree.as_deref());
    map.put_some("excerpt", about.excerpt.as_deref());
    map.put_some("is-active", about.is_active);
    map.put_some("is-streaming", about.is_streaming);
    map.put_some("fork-point", about.is_fork_point.then_some(true));
    map
}

/// Adds which subagent asks.
fn put_subagent<'m>(map: &mut Map<'m>, subagent: Option<&'m Subagent>) {
    if let Some(subagent) = subagent {
        map.put("parent-session-id", subagent.parent.as_str());
        map.put("root-session-id", subagent.root.as_str());
        map.put("subagent-id", subagent.id.as_ref());
        map.put("subagent-label", subagent.label.as_ref());
    }
}

fn dialog(dialog: &Dialog) -> Map<'_> {
    let mut map = Map::new().with("dialog-id", dialog.id.as_ref());
    map.put(
        "kind",
        match dialog.shape {
            DialogShape::Confirm { .. } => "confirm",
            DialogShape::Input => "input",
            DialogShape::Select(_) => "select",
        },
    );
    map.put("title", dialog.title.as_str());
    map.put_some("message", dialog.message.as_deref());
    put_subagent(&mut map, dialog.subagent.as_ref());
    if let DialogShape::Confirm { default } = dialog.shape {
        map.put_some("default", default);
    }
    if let DialogShape::Select(options) = &dialog.shape {
        let options = options.iter().map(|option| {
            Map::new().with("value", option.value.as_str()).with("label", option.label.as_str())
        });
        map.put("options", Value::vector(options));
    }
    map
}
