//! What a person sees, computed once for every frontend: the payloads of `session/updated`,
//! `footer/updated` and `context/updated`.
//!
//! Pure: facts in, plain data out. Knows neither who asks nor how a session lives.

use std::sync::Arc;

use crate::message::{SessionId, ThinkingLevel, Usage, count};
use crate::value::{Map, Value};

/// What is known of a session at one moment.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The session.
    pub id: SessionId,
    /// Its journal's path, once it was written.
    pub file: Option<Arc<str>>,
    /// The name that the person gave it.
    pub name: Option<Arc<str>>,
    /// The start of the first message, for sessions without a name.
    pub first_message: Option<Arc<str>>,
    /// The folder it works in.
    pub cwd: Arc<str>,
    /// The branch of the repository there, if there is one.
    pub git_branch: Option<Arc<str>>,
    /// The session that it was forked from.
    pub parent: Option<SessionId>,
    /// When it was opened.
    pub created_at: Arc<str>,
    /// What it does.
    pub phase: Phase,
    /// Messages that wait for the running turn, or for after it.
    pub pending_messages: usize,
    /// Which try of a failed model call is waited for; 0 when none is.
    pub retry_attempt: u32,
    /// When that try begins, in milliseconds since the epoch.
    pub retry_deadline_ms: Option<i64>,
    /// Whether the turn ends after the tool call that runs.
    pub interrupt_pending: bool,
    /// The provider's name.
    pub model_provider: Arc<str>,
    /// The model's id there.
    pub model_id: Arc<str>,
    /// Whether the model can think.
    pub model_reasoning: bool,
    /// The model's window in tokens.
    pub context_window: u64,
    /// The chosen thinking level.
    pub thinking: ThinkingLevel,
    /// What tools may do without asking.
    pub mode: Arc<str>,
    /// Whether the conversation is compacted by itself.
    pub auto_compaction: bool,
    /// Whether failed model calls are tried again by themselves.
    pub auto_retry: bool,
    /// The sum over all model calls.
    pub usage: Usage,
    /// Tokens in the window at the last model call.
    pub context_tokens: u64,
    /// Messages on the current branch.
    pub message_count: usize,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: a prompt would start a turn.
    Idle,
    /// A turn runs.
    Streaming,
    /// The conversation is being compacted.
    Compacting,
    /// A failed model call waits to be tried again.
    Retrying,
}

impl Phase {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Streaming => "streaming",
            Self::Compacting => "compacting",
            Self::Retrying => "retrying",
        }
    }
}

impl SessionFacts {
    /// The name, else the start of the first message, else what a list shows for an empty session.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().or(self.first_message.as_deref()).unwrap_or("New session")
    }

    /// The thinking level that the model really has.
    pub fn effective_thinking(&self) -> ThinkingLevel {
        if self.model_reasoning { self.thinking } else { ThinkingLevel::Off }
    }

    /// Whether a turn runs.
    pub fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming | Phase::Retrying)
    }

    /// The part of the window that is used, 0 to 1; `None` before the first model call.
    pub fn context_fraction(&self) -> Option<f64> {
        if self.context_window == 0 || self.context_tokens == 0 {
            return None;
        }
        // Token counts are far below 2^52, where a float still tells all integers apart.
        Some(precise(self.context_tokens) / precise(self.context_window))
    }
}

fn precise(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

/// The payload of `session/updated`, and the `:state` of `get_state`.
pub fn session_state(facts: &SessionFacts) -> Map<'static> {
    let mut map = Map::new();
    let text = |text: &str| Value::from(text.to_owned());
    map.put("session-id", facts.id.to_value());
    map.put("phase", facts.phase.as_str());
    map.put("is-streaming", facts.is_streaming());
    map.put("is-compacting", facts.phase == Phase::Compacting);
    map.put("pending-message-count", Value::from(facts.pending_messages));
    map.put("retry-attempt", Value::int(i64::from(facts.retry_attempt)));
    if let Some(deadline) = facts.retry_deadline_ms {
        map.put("retry-deadline-ms", Value::int(deadline));
        let mut retry = Map::new();
        retry.put("attempt", Value::int(i64::from(facts.retry_attempt)));
        retry.put("deadline-ms", Value::int(deadline));
        map.put("retry", Value::from(retry));
    }
    map.put("interrupt-pending", facts.interrupt_pending);
    map.put("session-file", facts.file.as_deref().map(text));
    map.put("session-name", facts.name.as_deref().map(text));
    map.put("session-display-name", text(facts.display_name()));
    map.put("model-provider", text(&facts.model_provider));
    map.put("model-id", text(&facts.model_id));
    map.put("model-reasoning", facts.model_reasoning);
    map.put("thinking-level", facts.thinking.as_str());
    map.put("effective-reasoning-effort", facts.effective_thinking().as_str());
    map.put("header-model-label", Value::from(model_label(facts)));
    map.put("status-session-line", Value::from(status_line(facts)));
    map.put("mode", text(&facts.mode));
    map
}

/// The model, and how much it thinks where it can.
fn model_label(facts: &SessionFacts) -> String {
    if facts.model_reasoning {
        format!("{} · {}", facts.model_id, facts.effective_thinking().as_str())
    } else {
        facts.model_id.to_string()
    }
}

fn status_line(facts: &SessionFacts) -> String {
    let state = match facts.phase {
        Phase::Idle => "idle",
        Phase::Streaming if facts.interrupt_pending => "stopping",
        Phase::Streaming => "running",
        Phase::Compacting => "compacting",
        Phase::Retrying => "waiting to retry",
    };
    match facts.pending_messages {
        0 => format!("{} · {state}", facts.display_name()),
        waiting => format!("{} · {state} · {waiting} queued", facts.display_name()),
    }
}

/// The payload of `footer/updated`.
pub fn footer(facts: &SessionFacts) -> Map<'static> {
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
    let branch = facts.git_branch.as_deref().map(|branch| format!(" ({branch})")).unwrap_or_default();
    let mut map = Map::new();
    map.put("session-id", facts.id.to_value());
    map.put("path-line", Value::from(format!("{}{branch}", home_relative(&facts.cwd))));
    map.put("stats-line", Value::from(parts.join(" ")));
    map.put("status-line", Value::from(format!("mode: {}", facts.mode)));
    map.put("usage-parts", Value::vector(parts.into_iter().map(Value::from)));
    map.put("model-text", Value::from(format!("({}) {}", facts.model_provider, model_label(facts))));
    map.put("session-activity-line", Value::from(status_line(facts)));
    map
}

/// A count in at most five characters: 950, 1.2k, 45k, 1.2M.
fn short(count: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = count.saturating_mul(10) / unit;
        if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { (tenths / 10).to_string() }
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

fn home_relative(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match path.strip_prefix(home.as_str()) {
        Some("") if !home.is_empty() => "~".to_owned(),
        Some(rest) if !home.is_empty() && rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// One session in a list.
pub fn slot(facts: &SessionFacts) -> Map<'static> {
    let mut map = Map::new();
    map.put("id", facts.id.to_value());
    map.put("name", facts.name.as_deref().map(|name| Value::from(name.to_owned())));
    map.put("display-name", facts.display_name().to_owned());
    map.put("worktree-path", facts.cwd.as_ref().to_owned());
    map.put("is-streaming", facts.is_streaming());
    map.put("parent-session-id", facts.parent.as_ref().map(SessionId::to_value));
    map.put("created-at", facts.created_at.as_ref().to_owned());
    map.put("message-count", Value::from(facts.message_count));
    map.put("session-file", facts.file.as_deref().map(|file| Value::from(file.to_owned())));
    map
}

/// The payload of `context/updated`, without the connection's active session: the live sessions and the
/// tree that they form.
pub fn context(sessions: &[Arc<SessionFacts>]) -> Map<'static> {
    let mut map = Map::new();
    map.put("sessions", Value::vector(sessions.iter().map(|facts| Value::from(slot(facts)))));
    let mut widget = Map::new();
    widget.put("placement", "left");
    widget.put("extension-id", "psi-session");
    widget.put("widget-id", "session-tree");
    widget.put("content-lines", Value::vector(tree_lines(sessions).into_iter().map(Value::from)));
    map.put("session-tree-widget", Value::from(widget));
    map
}

/// Each session a line, children below their parent and indented. A session whose parent is not live
/// stands at the margin.
fn tree_lines(sessions: &[Arc<SessionFacts>]) -> Vec<String> {
    let live = |id: &SessionId| sessions.iter().any(|facts| facts.id == *id);
    let mut lines = Vec::with_capacity(sessions.len());
    let mut open: Vec<(&SessionFacts, usize)> = sessions
        .iter()
        .rev()
        .filter(|facts| !facts.parent.as_ref().is_some_and(live))
        .map(|facts| (facts.as_ref(), 0))
        .collect();
    while let Some((facts, depth)) = open.pop() {
        let mark = if facts.is_streaming() { "●" } else { "○" };
        lines.push(format!("{}{mark} {}", "  ".repeat(depth), facts.display_name()));
        let children = sessions.iter().rev().filter(|child| child.parent.as_ref() == Some(&facts.id));
        open.extend(children.map(|child| (child.as_ref(), depth.saturating_add(1))));
        // A cycle cannot come from forks, but a damaged file may claim one.
        if lines.len() > sessions.len() {
            break;
        }
    }
    lines
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

/// Figures of a session for `get_session_stats`.
pub fn usage(facts: &SessionFacts) -> Map<'static> {
    let mut map = Map::new();
    map.put("input", count(facts.usage.input));
    map.put("output", count(facts.usage.output));
    map.put("cache-read", count(facts.usage.cache_read));
    map.put("cache-write", count(facts.usage.cache_write));
    map.put("total", count(facts.usage.total()));
    map
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn counts_are_short() {
        for (count, expected) in
            [(0, "0"), (999, "999"), (1000, "1.0k"), (1234, "1.2k"), (45_678, "45k"), (1_200_000, "1.2M")]
        {
            assert_eq!(short(count), expected);
        }
    }
}
