//! What a person sees, computed once for every frontend: the payloads of `session/updated`,
//! `footer/updated` and `context/updated`.
//!
//! Pure: facts in, plain data out. Knows neither who asks nor how a session lives.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::event::LiveSessions;
use crate::message::{Mode, SessionId, ThinkingLevel, Usage, count};
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
    /// Whether the kernel can keep commands from writing outside the workspace.
    pub sandboxed: bool,
    /// The prompt templates that were found, as frontends see them.
    pub prompt_templates: Arc<[Value<'static>]>,
    /// What the editor shows, if it said so.
    pub editor: Option<Arc<Value<'static>>>,
    /// The provider's name.
    pub model_provider: Arc<str>,
    /// The model's id there.
    pub model_id: Arc<str>,
    /// Whether the model can think.
    pub model_reasoning: bool,
    /// The thinking levels that the model has.
    pub thinking_levels: Arc<[ThinkingLevel]>,
    /// The model's window in tokens.
    pub context_window: u64,
    /// The chosen thinking level.
    pub thinking: ThinkingLevel,
    /// What tools may do without asking.
    pub mode: Mode,
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
        display_name(self.name.as_deref(), self.first_message.as_deref())
    }

    /// The thinking level that the model really has.
    pub fn effective_thinking(&self) -> ThinkingLevel {
        if self.model_reasoning { self.thinking.within(&self.thinking_levels) } else { ThinkingLevel::Off }
    }

    /// The thinking level after the chosen one, of those that the model has.
    pub fn next_thinking(&self) -> ThinkingLevel {
        if !self.model_reasoning {
            return self.thinking.next();
        }
        let mut after = self.effective_thinking();
        // At most once round: the model has at least one level.
        for _ in ThinkingLevel::ALL {
            after = after.next();
            if self.thinking_levels.contains(&after) {
                break;
            }
        }
        after
    }

    /// Whether commands are kept from writing outside the workspace: `enforced`, `unavailable`, or `off`.
    pub fn sandbox(&self) -> &'static str {
        match (self.mode, self.sandboxed) {
            (Mode::Yolo, _) => "off",
            (_, true) => "enforced",
            (_, false) => "unavailable",
        }
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

fn display_name<'f>(name: Option<&'f str>, first_message: Option<&'f str>) -> &'f str {
    name.or(first_message).unwrap_or("New session")
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
    map.put("mode", facts.mode.as_str());
    if !facts.prompt_templates.is_empty() {
        map.put("prompt-templates", Value::vector(facts.prompt_templates.iter().cloned()));
    }
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
    map.put("status-line", Value::from(format!("mode: {} · sandbox: {}", facts.mode, facts.sandbox())));
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

/// One session in a list: of its facts those that a list shows, whose text it shares.
#[derive(Debug)]
pub struct Slot {
    id: SessionId,
    name: Option<Arc<str>>,
    first_message: Option<Arc<str>>,
    cwd: Arc<str>,
    is_streaming: bool,
    parent: Option<SessionId>,
    created_at: Arc<str>,
    message_count: usize,
    file: Option<Arc<str>>,
}

impl Slot {
    /// Of a session.
    pub fn new(facts: &SessionFacts) -> Self {
        Self {
            id: facts.id.clone(),
            name: facts.name.clone(),
            first_message: facts.first_message.clone(),
            cwd: facts.cwd.clone(),
            is_streaming: facts.is_streaming(),
            parent: facts.parent.clone(),
            created_at: facts.created_at.clone(),
            message_count: facts.message_count,
            file: facts.file.clone(),
        }
    }

    /// As the wire shows it, without what differs between connections.
    pub fn to_map(&self) -> Map<'_> {
        let mut map = Map::new();
        map.put("id", self.id.as_str());
        map.put("name", self.name.as_deref());
        map.put("display-name", self.display_name());
        map.put("worktree-path", self.cwd.as_ref());
        map.put("is-streaming", self.is_streaming);
        map.put("parent-session-id", self.parent.as_ref().map(SessionId::as_str));
        map.put("created-at", self.created_at.as_ref());
        map.put("message-count", Value::from(self.message_count));
        map.put("session-file", self.file.as_deref());
        map
    }

    fn display_name(&self) -> &str {
        display_name(self.name.as_deref(), self.first_message.as_deref())
    }

    /// About how many bytes it keeps if it is the last to hold its texts.
    fn weight(&self) -> usize {
        let texts = [self.name.as_deref(), self.first_message.as_deref(), self.file.as_deref()];
        let text: usize = texts.into_iter().flatten().map(str::len).sum();
        text.saturating_add(self.cwd.len()).saturating_add(size_of::<Self>())
    }
}

/// The live sessions and the tree that they form, of which `context/updated` tells.
#[derive(Debug)]
pub struct SessionList {
    version: u64,
    slots: Vec<Slot>,
    tree: Lines,
}

impl SessionList {
    /// Of the live sessions, oldest first. A newer list has a greater version.
    pub fn new(version: u64, slots: Vec<Slot>) -> Self {
        Self { version, tree: tree_lines(&slots), slots }
    }
}

impl LiveSessions for SessionList {
    fn each(&self, show: &mut dyn FnMut(&SessionId, Map<'_>)) {
        for slot in &self.slots {
            show(&slot.id, slot.to_map());
        }
    }

    fn tree_widget(&self) -> Map<'_> {
        let mut widget = Map::new();
        widget.put("placement", "left");
        widget.put("extension-id", "psi-session");
        widget.put("widget-id", "session-tree");
        widget.put("content-lines", Value::vector(self.tree.iter()));
        widget
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn weight(&self) -> usize {
        self.slots.iter().map(Slot::weight).fold(self.tree.text.len(), usize::saturating_add)
    }
}

/// Lines one behind the other, without an allocation for each.
#[derive(Debug, Default)]
struct Lines {
    text: String,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Lines {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).filter_map(|(begin, end)| self.text.get(begin..*end))
    }
}

/// Each session a line, children below their parent and indented. A session whose parent is not live
/// stands at the margin. Linear in the number of sessions; the indentation has a bound for that.
fn tree_lines(slots: &[Slot]) -> Lines {
    const DEEPEST: usize = 16;
    let live: HashSet<&SessionId> = slots.iter().map(|slot| &slot.id).collect();
    let mut children: HashMap<&SessionId, Vec<&Slot>> = HashMap::new();
    let mut open: Vec<(&Slot, usize)> = Vec::new();
    // From the last to the first: what is put down last is taken up first.
    for slot in slots.iter().rev() {
        match slot.parent.as_ref().filter(|parent| live.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(slot),
            None => open.push((slot, 0)),
        }
    }
    let mut lines = Lines::default();
    while let Some((slot, depth)) = open.pop() {
        for _ in 0..depth.min(DEEPEST) {
            lines.text.push_str("  ");
        }
        lines.text.push_str(if slot.is_streaming { "● " } else { "○ " });
        lines.text.push_str(slot.display_name());
        lines.ends.push(lines.text.len());
        // Taken out, so that two sessions with one id in a damaged file do not both have them.
        let below = children.remove(&slot.id).unwrap_or_default();
        open.extend(below.into_iter().map(|child| (child, depth.saturating_add(1))));
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
impl SessionFacts {
    /// A session that nothing has happened to.
    pub(crate) fn empty(id: &str) -> Self {
        Self {
            id: SessionId::from(id),
            file: None,
            name: None,
            first_message: None,
            cwd: "/".into(),
            git_branch: None,
            parent: None,
            created_at: "".into(),
            phase: Phase::Idle,
            pending_messages: 0,
            retry_attempt: 0,
            retry_deadline_ms: None,
            interrupt_pending: false,
            model_provider: "".into(),
            model_id: "".into(),
            thinking_levels: Arc::from([]),
            model_reasoning: false,
            context_window: 0,
            thinking: ThinkingLevel::Off,
            mode: Mode::Ask,
            sandboxed: true,
            prompt_templates: Arc::default(),
            editor: None,
            auto_compaction: true,
            auto_retry: true,
            usage: Usage::default(),
            context_tokens: 0,
            message_count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(id: &str, parent: Option<&str>) -> Slot {
        let parent = parent.map(SessionId::from);
        Slot::new(&SessionFacts { name: Some(id.into()), parent, ..SessionFacts::empty(id) })
    }

    #[test]
    fn children_stand_below_their_parent_in_the_order_of_the_list() {
        let sessions = [
            ("a", None),
            ("b", Some("a")),
            ("c", None),
            ("d", Some("b")),
            ("e", Some("a")),
            ("f", Some("gone")),
        ];
        let lines = tree_lines(&sessions.map(|(id, parent)| slot(id, parent)));
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["○ a", "  ○ b", "    ○ d", "  ○ e", "○ c", "○ f"]);
        // Two that claim to be each other's parent are no root; nothing hangs on them.
        assert_eq!(tree_lines(&[slot("x", Some("y")), slot("y", Some("x"))]).iter().next(), None);
    }

    #[test]
    fn a_long_chain_of_sessions_costs_no_more_than_their_number() {
        let names: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let chain: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(at, name)| slot(name, at.checked_sub(1).map(|at| names[at].as_str())))
            .collect();
        let lines = tree_lines(&chain);
        assert_eq!(lines.iter().count(), chain.len());
        assert!(lines.text.len() < 60 * chain.len());
    }

    #[test]
    fn counts_are_short() {
        for (count, expected) in
            [(0, "0"), (999, "999"), (1000, "1.0k"), (1234, "1.2k"), (45_678, "45k"), (1_200_000, "1.2M")]
        {
            assert_eq!(short(count), expected);
        }
    }
}
