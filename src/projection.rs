//! Converts facts into EDN data, in one place for the EDN wire and the graph; [`control`] does so for messages of
//! control.
//!
//! Pure: facts in, plain data out. Knows neither who asks nor how a session lives.

pub mod agent;
pub mod control;
pub mod mcp;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::question::{Answer, ProposedText, QuestionContent};
use crate::event::{Sender, StatusText, WaitingMessage, WaitingMessages, Widget, WidgetSpec};
use crate::facts::activity::{Activity, Doing};
use crate::facts::agent::AgentOption;
use crate::facts::permissions::{ListedRule, RuleSource, TrustPreview};
use crate::facts::rule::Rule;
use crate::facts::{
    BashOutput, CommandFacts, JobFacts, ListedSession, LoginFacts, MODEL_OFFERS, ModelFacts, Note, Phase,
    Price, ProviderName, SessionFacts, SessionList, SessionStats, Slot, TemplateFacts,
};
use crate::files::FileStamp;
use crate::message::{SessionId, TurnId, count, short};
use crate::value::{Map, Value};

/// What a question asks, with the risks in its texts.
pub fn question<'q>(content: &'q QuestionContent, warnings: &'q [String]) -> Map<'q> {
    let mut map = Map::new();
    match content {
        QuestionContent::Ask { prompt } | QuestionContent::Password { prompt } => {
            map.put("prompt", prompt.as_str());
        }
        QuestionContent::Confirm { prompt, default } => {
            map.put("prompt", prompt.as_str());
            map.put("default", *default);
        }
        QuestionContent::Select { prompt, options } => {
            let option = |option: &'q String| {
                Value::from(Map::new().with("label", option.as_str()).with("value", option.as_str()))
            };
            map.put("prompt", prompt.as_str());
            map.put("options", Value::vector(options.iter().map(option)));
        }
        QuestionContent::DeviceCode { provider, url, code, expires_at } => {
            map.put("provider", provider.as_str());
            map.put("url", url.as_str());
            map.put("code", code.as_str());
            map.put("expires-at", expires_at.as_ref());
        }
        QuestionContent::Approve(approval) => {
            map.put("tool", approval.tool.as_ref());
            map.put("tool-id", approval.call.as_ref());
            map.put("call-summary", approval.summary.as_ref());
            map.put_some("command", approval.command.as_deref());
            map.put_some("paths", approval.path.as_deref().map(|path| Value::vector([Value::from(path)])));
            if let Some(diff) = &approval.diff {
                map.put("diff", diff.text.as_str());
                if let Some(cut) = &diff.cut {
                    map.put("diff-size", Value::from(cut.size));
                    map.put_some("diff-handle", cut.handle.as_deref());
                }
            }
            map.put_some(
                "proposal",
                approval.proposal.as_ref().map(|text| proposal(approval.path.as_deref(), text)),
            );
            map.put_some("suggested-rule", approval.suggested_rule.as_ref().map(Rule::to_value));
        }
        QuestionContent::GrantStageTool(request) => {
            map.put("stage-execution-id", request.stage_execution.as_str());
            map.put("attempt", i64::from(request.attempt));
            map.put("proposal-id", request.proposal.as_str());
            map.put("tool", request.tool.as_ref());
            map.put("args-digest", request.args_digest.as_str());
            map.put("args-summary", request.args_summary.as_str());
            map.put("reason", request.reason.as_str());
        }
        QuestionContent::ApproveSubagentEnvelope(request) => {
            let (provider, id) = &request.model;
            map.put("subagent-id", request.subagent.as_str());
            map.put("parent-session-id", request.parent.as_str());
            map.put("depth", i64::from(request.depth));
            map.put("requested-envelope", Value::vector(request.tools.iter().map(String::as_str)));
            map.put("prompt-summary", request.task_summary.as_str());
            map.put(
                "model",
                Value::from(Map::new().with("provider", provider.as_ref()).with("id", id.as_ref())),
            );
            map.put_some("agent", request.agent.as_deref());
        }
    }
    if !warnings.is_empty() {
        map.put("warnings", Value::vector(warnings.iter().map(String::as_str)));
    }
    map
}

/// The text that a call proposes for a file. A long one is a stored output.
fn proposal<'q>(path: Option<&'q str>, proposed: &'q ProposedText) -> Map<'q> {
    let mut map = Map::new();
    map.put_some("path", path);
    map.put_some("base-sha256", proposed.base.as_deref());
    match &proposed.handle {
        None => {
            map.put("content", &*proposed.text);
        }
        Some(handle) => {
            map.put("handle", handle.as_str());
            map.put("size", proposed.text.len());
        }
    }
    map
}

/// An answer that is no secret. A person's text for a file is not repeated: the tool's result tells of it.
pub fn answer(answer: &Answer) -> Map<'_> {
    let mut map = Map::new();
    match answer {
        Answer::Text(text) => {
            map.put("text", text.as_str());
        }
        Answer::Option(place) => {
            map.put("index", *place);
        }
        Answer::Confirm(ok) => {
            map.put("ok", *ok);
        }
        Answer::Approve { scope, rule, content } => {
            map.put("outcome", "approve");
            map.put_some("edited", content.is_some().then_some(true));
            map.put_some("scope", scope.map(|scope| scope.as_str()));
            map.put_some("rule", rule.as_ref().map(Rule::to_value));
        }
        Answer::Forbid { scope, rule } => {
            map.put("outcome", "deny");
            map.put("scope", scope.as_str());
            map.put_some("rule", rule.as_ref().map(Rule::to_value));
        }
        Answer::Deny | Answer::Defer => {
            map.put_some("outcome", answer.outcome());
        }
        Answer::Secret(_) | Answer::Done(_) => {}
    }
    map
}

/// The sender of a message.
pub fn sender(from: &Sender) -> Map<'_> {
    let mut map = Map::new().with("kind", from.as_str());
    if let Sender::Client { connection, name } = from {
        map.put("connection", count(*connection));
        map.put_some("client", name.as_deref());
    }
    map
}

/// The payload of `queue/updated`, and the `:data` of `list_pending`.
pub fn waiting(queue: &WaitingMessages) -> Map<'_> {
    let message = |waiting: &WaitingMessage| {
        let mut map = Map::new();
        map.put("entry-id", waiting.entry.to_value());
        map.put("text", waiting.text.clone());
        map.put_some("cut", waiting.is_cut.then_some(true));
        map.put("images", Value::from(waiting.images));
        map.put("until", waiting.until);
        map.put("from", sender(&waiting.from).into_owned());
        map.put_some("sender", waiting.sender.as_deref().map(str::to_owned));
        map.put_some("turn-id", waiting.turn.as_ref().map(TurnId::to_value));
        map.put_some("fixed", waiting.is_fixed.then_some(true));
        map.put("queued-at", waiting.queued_at.to_string());
        map
    };
    Map::new().with("held", queue.is_held).with("waiting", Value::vector(queue.messages.iter().map(message)))
}

/// The payload of `session/updated`, and the `:state` of `get_state`.
pub fn session_state(facts: &SessionFacts) -> Map<'_> {
    let mut map = Map::with_capacity(32);
    map.put("session-id", facts.id.as_str());
    map.put("phase", facts.phase.as_str());
    map.put("is-streaming", facts.is_streaming());
    map.put("is-compacting", facts.phase == Phase::Compacting);
    map.put("pending-message-count", Value::from(facts.pending_messages));
    map.put_some("queue-held", facts.queue_held.then_some(true));
    map.put_some("can-retry", facts.can_retry.then_some(true));
    map.put_some("interrupted", facts.interrupted.as_ref().map(TurnId::as_str));
    map.put_some("host", facts.host.as_deref());
    map.put_some("elsewhere", facts.is_elsewhere.then_some(true));
    map.put_some("owner-lost", facts.owner_lost.then_some(true));
    map.put("retry-attempt", Value::int(i64::from(facts.retry_attempt)));
    if let Some(deadline) = facts.retry_deadline_ms {
        map.put("retry-deadline-ms", Value::int(deadline));
        let mut retry = Map::new();
        retry.put("attempt", Value::int(i64::from(facts.retry_attempt)));
        retry.put("deadline-ms", Value::int(deadline));
        map.put("retry", Value::from(retry));
    }
    map.put_some("activity", facts.activity.as_deref().map(activity));
    map.put("interrupt-pending", facts.interrupt_pending);
    map.put("session-file", facts.location.as_deref());
    map.put("session-name", facts.name.as_deref());
    map.put("session-display-name", facts.display_name());
    map.put("model-provider", &*facts.model_provider);
    map.put("model-id", &*facts.model_id);
    map.put_some("setup", setup(facts));
    map.put("model-reasoning", facts.model_reasoning);
    map.put("thinking-level", facts.thinking.as_str());
    map.put("effective-reasoning-effort", facts.effective_thinking().as_str());
    map.put("header-model-label", Value::str(model_label(facts)));
    map.put("status-session-line", Value::from(status_line(facts)));
    map.put("mode", facts.mode.as_str());
    map.put_some("web-search", facts.web_search);
    map.put("context-tokens", count(facts.context_tokens));
    map.put("context-window", count(facts.context_window));
    if let Some(agent) = &facts.agent {
        map.put("agent", agent.to_value());
        map.put("options", Value::vector(agent.options.iter().map(AgentOption::to_value)));
    }
    if !facts.prompt_templates.is_empty() {
        map.put("prompt-templates", templates(&facts.prompt_templates));
    }
    map
}

/// The activity of a turn.
pub fn activity(activity: &Activity) -> Map<'_> {
    let mut map = Map::new().with("kind", activity.doing.as_str());
    map.put("since-ms", Value::int(activity.since_ms));
    match &activity.doing {
        Doing::Waiting | Doing::Thinking | Doing::Answering | Doing::Asking | Doing::Compacting => {}
        Doing::Calling { tool } => {
            map.put("tool-name", tool.as_ref());
        }
        Doing::Tool { call, tool, summary, running } => {
            map.put("tool-name", tool.as_ref());
            map.put("tool-id", call.as_ref());
            map.put("call-summary", summary.as_ref());
            map.put("running", *running);
        }
        Doing::Retry { attempt, deadline_ms, reason } => {
            map.put("attempt", Value::int(i64::from(*attempt)));
            map.put("deadline-ms", Value::int(*deadline_ms));
            map.put("reason", reason.as_ref());
        }
    }
    map
}

/// The need of a session without a model, and what a frontend can offer the person for it.
fn setup(facts: &SessionFacts) -> Option<Value<'static>> {
    let offers = Value::vector(MODEL_OFFERS.iter().map(|offer| Value::keyword(*offer)));
    let setup = Map::new().with("needs", Value::keyword("model")).with("offers", offers);
    (!facts.has_model()).then(|| Value::from(setup))
}

/// The model, with its thinking level if it can think; behind the agent that has it, where that is not this program.
fn model_label(facts: &SessionFacts) -> Cow<'_, str> {
    if let Some(agent) = &facts.agent {
        let parts = [Some(&agent.name), agent.current("model"), agent.current("thought_level")];
        let parts: Vec<&str> = parts.into_iter().flatten().map(|part| &**part).collect();
        return format!("agent {}", parts.join(" · ")).into();
    }
    if !facts.has_model() {
        return "no model yet".into();
    }
    if facts.model_reasoning {
        format!("{} · {}", facts.model_id, facts.effective_thinking().as_str()).into()
    } else {
        Cow::from(&*facts.model_id)
    }
}

fn status_line(facts: &SessionFacts) -> String {
    let state = match facts.phase {
        Phase::Idle if facts.interrupted.is_some() => "interrupted (/continue)",
        Phase::Idle => "idle",
        Phase::Streaming if facts.interrupt_pending => "stopping",
        Phase::Streaming => "running",
        Phase::Compacting => "compacting",
        Phase::Retrying => "waiting to retry",
    };
    match facts.pending_messages {
        0 => format!("{} · {state}", facts.display_name()),
        waiting if facts.queue_held => format!("{} · {state} · {waiting} held", facts.display_name()),
        waiting => format!("{} · {state} · {waiting} queued", facts.display_name()),
    }
}

/// Tokens, cost and the used part of the context window, each as a short text.
pub fn usage_parts(facts: &SessionFacts) -> Vec<String> {
    let mut parts = Vec::new();
    let usage = &facts.usage;
    if usage.input > 0 || usage.output > 0 {
        parts.push(format!("↑{}", short(usage.input)));
        parts.push(format!("↓{}", short(usage.output)));
    }
    if usage.cache_read > 0 {
        parts.push(format!("R{}", short(usage.cache_read)));
    }
    if usage.cache_write > 0 {
        parts.push(format!("W{}", short(usage.cache_write)));
    }
    if usage.cost > 0.0 {
        parts.push(format!("${:.3}", usage.cost));
    }
    parts.push(match facts.context_fraction() {
        Some(fraction) => format!("{:.1}%/{}", fraction * 100.0, short(facts.context_window)),
        None => format!("?/{}", short(facts.context_window)),
    });
    parts
}

/// The payload of `footer/updated`.
pub fn footer(facts: &SessionFacts) -> Map<'_> {
    let parts = usage_parts(facts);
    let branch = facts.git_branch.as_deref().map(|branch| format!(" ({branch})")).unwrap_or_default();
    let mut map = Map::new();
    map.put("session-id", facts.id.as_str());
    map.put("path-line", Value::from(format!("{}{branch}", home_relative(&facts.cwd))));
    map.put("stats-line", Value::from(parts.join(" ")));
    map.put("status-line", Value::from(format!("mode: {} · sandbox: {}", facts.mode, facts.sandbox())));
    map.put("usage-parts", Value::vector(parts.into_iter().map(Value::from)));
    map.put(
        "model-text",
        match facts.has_model() {
            true => Value::from(format!("({}) {}", facts.model_provider, model_label(facts))),
            false => Value::str(model_label(facts)),
        },
    );
    map.put("session-activity-line", Value::from(status_line(facts)));
    map
}

fn home_relative(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match path.strip_prefix(home.as_str()) {
        Some("") if !home.is_empty() => "~".to_owned(),
        Some(rest) if !home.is_empty() && rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// A session in a list, without the parts that differ between connections.
pub fn slot(slot: &Slot) -> Map<'_> {
    let mut map = Map::new();
    map.put("id", slot.id.as_str());
    map.put("name", slot.name.as_deref());
    map.put("display-name", slot.display_name());
    map.put("worktree-path", slot.cwd.as_ref());
    map.put("is-streaming", slot.is_streaming);
    map.put("parent-session-id", slot.parent.as_ref().map(SessionId::as_str));
    map.put("created-at", slot.created_at.as_ref());
    map.put_some("message-count", slot.message_count.map(count));
    map.put("session-file", slot.location.as_deref());
    map.put_some("archived", slot.archived.then_some(true));
    map.put_some("host", slot.host.as_deref());
    map.put_some("owner-lost", slot.owner_lost.then_some(true));
    map
}

/// A session in the response of `list_sessions`.
pub fn listed(session: &ListedSession) -> Map<'_> {
    let mut map = slot(&session.slot);
    map.put("is-active", session.is_active);
    map.put_some("modified", session.modified.as_deref());
    map.put_some("excerpt", session.excerpt.as_deref());
    map
}

/// A rule of a session.
pub fn rule(listed: &ListedRule) -> Map<'_> {
    let mut map = Map::new();
    map.put("rule-id", listed.id.as_str());
    map.put("text", listed.rule.text());
    map.put("rule", listed.rule.to_value());
    map.put("source", listed.source.as_str());
    map.put("removable", matches!(listed.source, RuleSource::Kept | RuleSource::Session));
    map.put("in-force", listed.idle.is_none());
    map.put_some("reason", listed.idle);
    map
}

/// What a project's configuration would do.
pub fn trust_preview(preview: &TrustPreview) -> Map<'_> {
    let mut map = Map::new();
    map.put("trust", preview.state);
    map.put(
        "runs",
        Value::vector(preview.runs.iter().map(|run| {
            let run = Map::new()
                .with("kind", run.kind)
                .with("name", run.name.as_str())
                .with("text", run.text.as_str());
            Value::from(run)
        })),
    );
    map.put("problems", Value::vector(preview.problems.iter().map(String::as_str)));
    let mut files = Map::new();
    for (path, digest) in &preview.files {
        files.insert(Value::from(path.as_str()), Value::from(digest.as_str()));
    }
    map.put("files", Value::from(files));
    map
}

/// The widget with the tree of the live sessions.
pub fn tree_widget(sessions: &SessionList) -> Map<'_> {
    let mut widget = Map::new();
    widget.put("placement", "left");
    widget.put("extension-id", "psi-session");
    widget.put("widget-id", "session-tree");
    widget.put("content-lines", Value::vector(sessions.tree()));
    widget
}

/// A state of a file.
pub fn stamp(stamp: FileStamp) -> Map<'static> {
    let number = |value: u64| Value::Int(value.cast_signed());
    Map::new()
        .with("device", number(stamp.device))
        .with("inode", number(stamp.inode))
        .with("time", Value::Int(stamp.time))
}

/// A background job.
pub fn job(job: &JobFacts) -> Map<'_> {
    let mut map = Map::new();
    map.put("id", job.id.as_ref());
    map.put("kind", "bash");
    map.put("command", job.command.as_ref());
    map.put("status", job.status.as_str());
    map.put("started-at", job.started_at.as_ref());
    map.put_some("ended-at", job.ended_at.as_deref());
    map.put_some("exit-code", job.exit_code);
    map.put_some("turn-id", job.turn.as_ref().map(TurnId::as_str));
    map.put("output", job.output.as_ref());
    map.put_some("handle", job.handle.as_deref());
    map
}

/// Widgets with their content.
pub fn widgets(widgets: &[Widget]) -> Value<'_> {
    Value::vector(widgets.iter().map(|widget| {
        let lines = Value::vector(widget.lines.iter().map(String::as_str));
        Value::from(place(&widget.spec).with("content-lines", lines))
    }))
}

/// The definitions of the widgets.
pub fn widget_specs(specs: &[WidgetSpec]) -> Value<'_> {
    Value::vector(specs.iter().map(|spec| Value::from(place(spec).with("title", spec.title))))
}

/// Status texts.
pub fn statuses(statuses: &[StatusText]) -> Value<'_> {
    Value::vector(statuses.iter().map(|status| {
        Value::from(Map::new().with("extension-id", status.extension).with("text", status.text.as_str()))
    }))
}

fn place(spec: &WidgetSpec) -> Map<'_> {
    Map::new()
        .with("placement", spec.placement)
        .with("extension-id", spec.extension)
        .with("widget-id", spec.id)
}

/// Prompt templates, for frontends.
pub fn templates(templates: &[TemplateFacts]) -> Value<'_> {
    Value::vector(templates.iter().map(|template| {
        let mut map = Map::new();
        map.put("name", template.name.as_str());
        map.put("usage", template.usage.as_str());
        map.put("description", template.description.as_str());
        map.put_some("argument-hint", template.hint.as_deref());
        map.put("scope", template.scope);
        map.put("path", template.path.as_str());
        Value::from(map)
    }))
}

/// `{:provider … :model-id … }` facts of the handshake's `:server-info`.
pub fn server_info(facts: &SessionFacts) -> Map<'static> {
    let mut map = Map::new();
    map.put("session-id", facts.id.to_value());
    map.put("model-id", facts.model_id.as_ref().to_owned());
    map.put("model-provider", facts.model_provider.as_ref().to_owned());
    map.put("thinking-level", facts.thinking.as_str());
    map
}

/// The response of `get_session_stats`.
pub fn stats(stats: &SessionStats) -> Map<'_> {
    fn counts<'m>(counts: impl Iterator<Item = (Value<'m>, u64)>) -> Value<'m> {
        Value::from(counts.map(|(key, n)| (key, count(n))).collect::<Map<'_>>())
    }
    let roles = || stats.roles.iter().map(|(role, n)| (Value::keyword(role.as_str()), *n));
    fn tools(tools: &BTreeMap<Arc<str>, u64>) -> Value<'_> {
        counts(tools.iter().map(|(tool, n)| (Value::from(&**tool), *n)))
    }
    let mut tokens = Map::new();
    tokens.put("input", count(stats.usage.input));
    tokens.put("output", count(stats.usage.output));
    tokens.put("cache-read", count(stats.usage.cache_read));
    tokens.put("cache-write", count(stats.usage.cache_write));
    tokens.put("total", count(stats.usage.total()));
    let mut map = Map::new();
    map.put("session-id", stats.session.as_str());
    map.put("created-at", &*stats.created_at);
    map.put("last-entry-at", stats.last_entry_at.as_deref());
    map.put("messages", counts(roles()));
    map.put("message-count", stats.message_count);
    map.put("entry-count", count(stats.entry_count));
    map.put("turns", stats.turns);
    map.put("turns-stopped", count(stats.turns_stopped));
    map.put("tool-calls", tools(&stats.tool_calls));
    map.put("tool-errors", tools(&stats.tool_errors));
    map.put("tokens", tokens);
    map.put("cost", stats.usage.cost);
    map.put("duration-ms", Value::int(stats.duration_ms));
    map.put("working-ms", Value::int(stats.working_ms));
    map.put("bytes", count(stats.bytes));
    map
}

/// A model, for `get_available_models`.
pub fn model(model: &ModelFacts) -> Map<'_> {
    let mut map = Map::new();
    map.put("provider", &*model.provider);
    map.put("id", &*model.id);
    map.put("name", &*model.name);
    map.put("context-window", Value::from(model.context_window));
    map.put_some("max-output", model.max_output);
    map.put("reasoning", !model.thinking.is_empty());
    if !model.thinking.is_empty() {
        map.put("thinking-levels", Value::vector(model.thinking.iter().map(|level| level.as_str())));
    }
    map.put("tools", model.tools);
    map.put("images", model.images);
    map.put_some("price", model.price.map(price));
    map.put("usable", model.usable);
    map
}

/// A slash command, for `get_commands`.
pub fn command(command: &CommandFacts) -> Map<'_> {
    let mut map = Map::new();
    map.put("name", command.name.as_str());
    map.put("usage", command.usage.as_str());
    map.put("description", command.description.as_str());
    map.put("source", command.source);
    map.put_some("server", command.server.as_deref());
    map
}

/// The response of `bash`.
pub fn bash(output: &BashOutput) -> Map<'_> {
    let mut map = Map::new();
    map.put("output", output.output.as_str());
    map.put("exit-code", output.exit_code);
    map.put("cancelled", output.cancelled);
    map.put("truncated", output.truncated);
    map.put_some("handle", output.handle.as_deref());
    map
}

/// A provider, as people know it.
pub fn provider(provider: &ProviderName) -> Map<'_> {
    Map::new().with("id", &*provider.id).with("name", &*provider.name)
}

/// The response of `login_begin`.
pub fn login(login: &LoginFacts) -> Map<'_> {
    let mut map = Map::new();
    map.put("provider", provider(&login.provider));
    map.put("url", login.url.as_str());
    map.put("uses-callback-server", login.uses_callback);
    map.put("pending-login", true);
    map.put_some("user-code", login.code.as_deref());
    map.put_some("expires-at", login.expires_at.as_deref());
    map
}

/// A note, as the mutation that keeps it answers.
pub fn note(note: &Note) -> Map<'_> {
    let mut map = Map::new();
    map.put("id", &*note.id);
    map.put("timestamp", &*note.ts);
    map.put("text", &*note.text);
    map.put_some("session-id", note.session.as_ref().map(SessionId::as_str));
    map
}

/// The price of a million tokens in US dollars, by kind.
pub fn price(price: Price) -> Map<'static> {
    let mut map = Map::new();
    map.put("input", price.input);
    map.put("output", price.output);
    map.put("cache-read", price.cache_read);
    map.put("cache-write", price.cache_write);
    map
}
