//! Facts at one moment that more than one room reads: of sessions, jobs, models, logins, commands and notes. Those of the
//! graph alone are in `query::world`.
//!
//! Pure. Knows neither how a session lives nor how a wire lays its facts out.

pub mod activity;
pub mod agent;
pub mod editor;
pub mod mcp;
pub mod permissions;
pub mod rule;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Mode, Role, SessionId, ThinkingLevel, TurnId, Usage};
use activity::Activity;
use agent::AgentFacts;
use editor::Editor;

/// The facts about a session at one moment.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The session.
    pub id: SessionId,
    /// Where its journal is, for people, once there is an entry.
    pub location: Option<Arc<str>>,
    /// The name from the person.
    pub name: Option<Arc<str>>,
    /// The start of the first message, for sessions without a name.
    pub first_message: Option<Arc<str>>,
    /// Its working folder.
    pub cwd: Arc<str>,
    /// The branch of the repository in that folder, if there is one.
    pub git_branch: Option<Arc<str>>,
    /// The session from which it was forked.
    pub parent: Option<SessionId>,
    /// When it was opened.
    pub created_at: Arc<str>,
    /// Its activity.
    pub phase: Phase,
    /// The activity of its turn, while one runs.
    pub activity: Option<Arc<Activity>>,
    /// The queued messages.
    pub pending_messages: usize,
    /// Whether an abort holds them.
    pub queue_held: bool,
    /// Whether the last message has no whole answer, and the model can be asked again.
    pub can_retry: bool,
    /// The last turn, if it was cut off with its process.
    pub interrupted: Option<TurnId>,
    /// The number of the awaited retry of a failed model call; 0 without one.
    pub retry_attempt: u32,
    /// When that retry starts, in milliseconds since the epoch.
    pub retry_deadline_ms: Option<i64>,
    /// Whether the turn ends after the running tool call.
    pub interrupt_pending: bool,
    /// Whether the kernel can keep commands from writing outside the workspace.
    pub sandboxed: bool,
    /// Its prompt templates.
    pub prompt_templates: Arc<[TemplateFacts]>,
    /// What the editor shows, if it reported that.
    pub editor: Option<Arc<Editor>>,
    /// The provider's name.
    pub model_provider: Arc<str>,
    /// The model's id at the provider.
    pub model_id: Arc<str>,
    /// The notice about a model that was chosen by rule, before it is asked for the first time.
    pub model_notice: Option<Arc<str>>,
    /// Whether the model can think.
    pub model_reasoning: bool,
    /// The thinking levels of the model.
    pub thinking_levels: Arc<[ThinkingLevel]>,
    /// The model's window in tokens.
    pub context_window: u64,
    /// The chosen thinking level.
    pub thinking: ThinkingLevel,
    /// The permission mode.
    pub mode: Mode,
    /// Whether the conversation is compacted automatically.
    pub auto_compaction: bool,
    /// Whether failed model calls are retried automatically.
    pub auto_retry: bool,
    /// Whether the model's provider may search the web; `None` if nobody has decided it for this session.
    pub web_search: Option<bool>,
    /// The MCP servers, and single tools of them, that are switched off.
    pub mcp_off: Arc<BTreeSet<Arc<str>>>,
    /// The sum over all model calls.
    pub usage: Usage,
    /// Tokens in the window at the last model call.
    pub context_tokens: u64,
    /// Messages on the current branch.
    pub message_count: usize,
    /// Whether it is archived.
    pub archived: bool,
    /// The agent that answers its turns, if it is not this program itself.
    pub agent: Option<Arc<AgentFacts>>,
    /// The host that owns it, if it is of a realm.
    pub host: Option<Arc<str>>,
    /// Whether that is another host than this one, so that this one has a copy of its entries.
    pub is_elsewhere: bool,
    /// Whether that host is lost.
    pub owner_lost: bool,
}

/// The offers to a person while a session has no model, by the names of the wires.
pub const MODEL_OFFERS: &[&str] = match cfg!(feature = "embedded-model") {
    true => &["login", "choose-model", "fetch-model"],
    false => &["login", "choose-model"],
};

/// The activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// None: a prompt would start a turn.
    Idle,
    /// A turn runs.
    Streaming,
    /// The conversation is being compacted.
    Compacting,
    /// A failed model call waits for its retry.
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
    /// A session without entries.
    pub fn empty(id: SessionId) -> Self {
        Self {
            id,
            location: None,
            name: None,
            first_message: None,
            cwd: "/".into(),
            git_branch: None,
            parent: None,
            created_at: "".into(),
            phase: Phase::Idle,
            activity: None,
            pending_messages: 0,
            queue_held: false,
            can_retry: false,
            interrupted: None,
            retry_attempt: 0,
            retry_deadline_ms: None,
            interrupt_pending: false,
            model_provider: "".into(),
            model_id: "".into(),
            model_notice: None,
            thinking_levels: Arc::from([]),
            model_reasoning: false,
            context_window: 0,
            thinking: ThinkingLevel::Off,
            mode: Mode::Ask,
            sandboxed: false,
            prompt_templates: Arc::default(),
            editor: None,
            auto_compaction: true,
            auto_retry: true,
            web_search: None,
            mcp_off: Arc::default(),
            usage: Usage::default(),
            context_tokens: 0,
            message_count: 0,
            archived: false,
            agent: None,
            host: None,
            is_elsewhere: false,
            owner_lost: false,
        }
    }

    /// The name, or else the start of the first message, or else the title of an empty session.
    pub fn display_name(&self) -> &str {
        display_name(self.name.as_deref(), self.first_message.as_deref())
    }

    /// Takes in what is known of the agent that answers the turns: it stands where models of ours are shown.
    pub fn answered_by(&mut self, agent: AgentFacts) {
        self.model_provider = agent.name.clone();
        self.model_id = agent.current("model").cloned().unwrap_or_else(|| "".into());
        self.model_notice = None;
        self.model_reasoning = false;
        self.thinking_levels = Arc::from([]);
        self.context_window = agent.window.map_or(0, |(_, size)| size);
        self.context_tokens = agent.window.map_or(0, |(used, _)| used);
        self.agent = Some(Arc::new(agent));
    }

    /// Whether there is a model, or an agent that has its own.
    pub fn has_model(&self) -> bool {
        self.agent.is_some() || !self.model_provider.is_empty()
    }

    /// The thinking level that the model uses.
    pub fn effective_thinking(&self) -> ThinkingLevel {
        if self.model_reasoning { self.thinking.within(&self.thinking_levels) } else { ThinkingLevel::Off }
    }

    /// The next thinking level of the model after the chosen one.
    pub fn next_thinking(&self) -> ThinkingLevel {
        if !self.model_reasoning {
            return self.thinking.next();
        }
        let mut after = self.effective_thinking();
        // At most one round: the model has at least one level.
        for _ in ThinkingLevel::ALL {
            after = after.next();
            if self.thinking_levels.contains(&after) {
                break;
            }
        }
        after
    }

    /// The sandbox for commands: `enforced`, `unavailable` or `off`.
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

    /// The used part of the window, 0 to 1; `None` before the first model call.
    pub fn context_fraction(&self) -> Option<f64> {
        if self.context_window == 0 || self.context_tokens == 0 {
            return None;
        }
        Some(precise(self.context_tokens) / precise(self.context_window))
    }
}

fn display_name<'f>(name: Option<&'f str>, first_message: Option<&'f str>) -> &'f str {
    name.or(first_message).unwrap_or("New session")
}

/// A count as a float. Counts beyond 2^32 do not occur, and would only make a sum less exact.
fn precise(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

/// A host of a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// Its name.
    pub name: Arc<str>,
    /// The build of its program.
    pub build: Arc<str>,
    /// Whether it is this one.
    pub is_here: bool,
    /// Whether its lease holds.
    pub is_alive: bool,
    /// How long it is lost, in milliseconds; 0 if it is there.
    pub lost_ms: u64,
    /// The sessions that it owns.
    pub sessions: u64,
}

/// A session that works or waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtWork {
    /// The session.
    pub session: SessionId,
    /// Its name for people.
    pub name: Arc<str>,
    /// Its folder.
    pub cwd: Arc<str>,
    /// What it does. It is idle if a command runs beside its turns.
    pub phase: Phase,
    /// The activity of its turn, while one runs.
    pub activity: Option<Arc<Activity>>,
    /// The kind of the oldest question that waits in it, such as `approve`.
    pub asks: Option<&'static str>,
}

/// A running or ended background job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFacts {
    /// Its id.
    pub id: Arc<str>,
    /// The command.
    pub command: Arc<str>,
    /// Its status.
    pub status: JobStatus,
    /// When it started, RFC 3339.
    pub started_at: Arc<str>,
    /// When it ended, if it did.
    pub ended_at: Option<Arc<str>>,
    /// Its exit status, if it ended on its own.
    pub exit_code: Option<i32>,
    /// The turn that started it.
    pub turn: Option<TurnId>,
    /// The latest part of its output.
    pub output: Arc<str>,
    /// The handle of the whole output, if this is only a part.
    pub handle: Option<Arc<str>>,
}

/// The status of a background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStatus {
    /// It runs.
    Running,
    /// It ended with status 0.
    Completed,
    /// It could not be started, or ended with another status or by a signal.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl JobStatus {
    /// The name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A command that a person runs with its outputs apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellFacts {
    /// Its id.
    pub id: Arc<str>,
    /// The session that it runs beside.
    pub session: SessionId,
    /// The command.
    pub command: Arc<str>,
    /// The folder that it runs in.
    pub cwd: Arc<str>,
    /// Its status.
    pub status: JobStatus,
    /// When it started, RFC 3339.
    pub started_at: Arc<str>,
    /// When it ended, if it did.
    pub ended_at: Option<Arc<str>>,
    /// How long it ran, in milliseconds, if it ended.
    pub duration_ms: Option<u64>,
    /// Its exit status, if it ended on its own.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether its time-out ended it.
    pub timed_out: bool,
    /// Why it could not be started, if so.
    pub failure: Option<Arc<str>>,
    /// Its standard output and its standard error, once it has ended.
    pub outputs: [ShellOutput; 2],
}

/// One of the outputs of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellOutput {
    /// The output, or its start and its end.
    pub text: Arc<str>,
    /// Whether a part is missing.
    pub cut: bool,
    /// The handle of the whole, if a part is missing.
    pub handle: Option<Arc<str>>,
}

/// A prompt template, as in frontends' lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFacts {
    /// Its slash command's name.
    pub name: String,
    /// Its syntax, such as `/review [file]`.
    pub usage: String,
    /// Its purpose.
    pub description: String,
    /// A hint about its arguments, if it has one.
    pub hint: Option<String>,
    /// Its owner: `project` or `user`.
    pub scope: &'static str,
    /// Its file.
    pub path: String,
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model's id at the provider.
    pub id: Arc<str>,
    /// The name for people.
    pub name: Arc<str>,
    /// The window, in tokens.
    pub context_window: u64,
    /// The maximum answer, in tokens, if it is known.
    pub max_output: Option<u32>,
    /// Its thinking levels; empty for a model that cannot think.
    pub thinking: Arc<[ThinkingLevel]>,
    /// Whether it can call tools.
    pub tools: bool,
    /// Whether messages may contain images.
    pub images: bool,
    /// The price, if it is known.
    pub price: Option<Price>,
    /// Whether its provider needs no further login.
    pub usable: bool,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Price {
    /// For the prompt.
    pub input: f64,
    /// For the answer.
    pub output: f64,
    /// For the part of the prompt that was read from a cache.
    pub cache_read: f64,
    /// For the part of the prompt that was written to a cache.
    pub cache_write: f64,
}

impl Price {
    /// The cost of a call, in US dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let sum = precise(usage.input) * self.input
            + precise(usage.output) * self.output
            + precise(usage.cache_read) * self.cache_read
            + precise(usage.cache_write) * self.cache_write;
        sum / 1_000_000.0
    }
}

/// A provider of this process. Without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderFacts {
    /// Its protocol, if it is a server.
    pub api: Option<&'static str>,
    /// Its address, if it is a server.
    pub base_url: Option<String>,
    /// The source of its key, such as a variable's name.
    pub key_from: Option<String>,
}

/// The counts, tokens, cost, times and bytes of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStats {
    /// The session.
    pub session: SessionId,
    /// When it was opened, RFC 3339.
    pub created_at: Arc<str>,
    /// When its last entry was written, RFC 3339.
    pub last_entry_at: Option<Arc<str>>,
    /// Messages by role.
    pub roles: Vec<(Role, u64)>,
    /// Messages on the current branch.
    pub message_count: usize,
    /// Entries of its journal.
    pub entry_count: u64,
    /// Turns.
    pub turns: usize,
    /// Turns that were stopped.
    pub turns_stopped: u64,
    /// Tool calls by tool.
    pub tool_calls: BTreeMap<Arc<str>, u64>,
    /// Failed tool calls by tool.
    pub tool_errors: BTreeMap<Arc<str>, u64>,
    /// The sum over all model calls.
    pub usage: Usage,
    /// The time from its opening to the last entry, in milliseconds.
    pub duration_ms: i64,
    /// The time in turns, in milliseconds.
    pub working_ms: i64,
    /// The size of its journal, in bytes; 0 before it exists.
    pub bytes: u64,
}

/// A slash command in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFacts {
    /// Its name, without the slash.
    pub name: String,
    /// Its syntax.
    pub usage: String,
    /// Its purpose.
    pub description: String,
    /// Its source: `built-in`, `template`, `skill`, `mcp` or `agent`.
    pub source: &'static str,
    /// The MCP server that it comes from.
    pub server: Option<Arc<str>>,
}

/// The end of a command that ran for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashOutput {
    /// Its output, or the end of it.
    pub output: String,
    /// Its exit status, as a shell has it; `None` if it was ended.
    pub exit_code: Option<i32>,
    /// Whether it was ended, by a person or by its time-out.
    pub cancelled: bool,
    /// Whether `output` is only a part.
    pub truncated: bool,
    /// The handle of the whole output, if this is only a part.
    pub handle: Option<String>,
}

/// A provider, as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderName {
    /// Its name in the configuration.
    pub id: Arc<str>,
    /// Its name for people.
    pub name: Arc<str>,
}

/// A login that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFacts {
    /// The provider.
    pub provider: ProviderName,
    /// The page to open.
    pub url: String,
    /// Whether the page ends the login by itself, with a call to this process.
    pub uses_callback: bool,
    /// The code to enter there, if it needs one.
    pub code: Option<String>,
    /// When the code expires, RFC 3339.
    pub expires_at: Option<Arc<str>>,
}

/// A note that is kept for the project's later sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its id, for removing it.
    pub id: Arc<str>,
    /// When it was written, RFC 3339 in UTC.
    #[serde(rename = "timestamp")]
    pub ts: Arc<str>,
    /// The text of the note.
    pub text: Arc<str>,
    /// The session in which it was written.
    #[serde(rename = "session-id", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// A session in a list. Shares the texts of the session's facts.
#[derive(Debug)]
pub struct Slot {
    /// The session.
    pub id: SessionId,
    /// The name from the person.
    pub name: Option<Arc<str>>,
    /// The start of the first message.
    pub first_message: Option<Arc<str>>,
    /// Its working folder.
    pub cwd: Arc<str>,
    /// Whether a turn runs.
    pub is_streaming: bool,
    /// The session from which it was forked.
    pub parent: Option<SessionId>,
    /// When it was opened, RFC 3339.
    pub created_at: Arc<str>,
    /// Messages on the current branch; `None` if unknown.
    pub message_count: Option<u64>,
    /// Where its journal is, for people, once there is an entry.
    pub location: Option<Arc<str>>,
    /// Whether it is archived.
    pub archived: bool,
    /// The host that owns it, if it is of a realm.
    pub host: Option<Arc<str>>,
    /// Whether that host is lost.
    pub owner_lost: bool,
}

impl Slot {
    /// The slot of a session.
    pub fn new(facts: &SessionFacts) -> Self {
        Self {
            id: facts.id.clone(),
            name: facts.name.clone(),
            first_message: facts.first_message.clone(),
            cwd: facts.cwd.clone(),
            is_streaming: facts.is_streaming(),
            parent: facts.parent.clone(),
            created_at: facts.created_at.clone(),
            message_count: u64::try_from(facts.message_count).ok(),
            location: facts.location.clone(),
            archived: facts.archived,
            host: facts.host.clone(),
            owner_lost: facts.owner_lost,
        }
    }

    /// The name, or else the start of the first message, or else the title of an empty session.
    pub fn display_name(&self) -> &str {
        display_name(self.name.as_deref(), self.first_message.as_deref())
    }

    /// Its approximate size in bytes, if it is the last owner of its texts.
    fn weight(&self) -> usize {
        let texts = [self.name.as_deref(), self.first_message.as_deref(), self.location.as_deref()];
        let text: usize = texts.into_iter().flatten().map(str::len).sum();
        text.saturating_add(self.cwd.len()).saturating_add(size_of::<Self>())
    }
}

/// A session in a list of live and stored ones.
#[derive(Debug)]
pub struct ListedSession {
    /// The facts of any list.
    pub slot: Slot,
    /// Whether it is the asking session.
    pub is_active: bool,
    /// When its journal was last written, RFC 3339; `None` for a live one.
    pub modified: Option<Arc<str>>,
    /// The text that a search found.
    pub excerpt: Option<String>,
    /// What happened last in it, as far as that is known.
    pub recent: Recent,
}

/// A list of live and stored sessions.
#[derive(Debug, Default)]
pub struct ListedSessions {
    /// The sessions.
    pub sessions: Vec<ListedSession>,
    /// Why those of other hosts that a search would find are missing; `None` if they are not.
    pub missing: Option<Arc<str>>,
}

/// What happened last in a session.
#[derive(Debug, Default)]
pub struct Recent {
    /// When, RFC 3339.
    pub at: Option<Arc<str>>,
    /// The start of the user's last message, on one line.
    pub user_text: Option<Arc<str>>,
    /// The last turn.
    pub turn: Option<TurnId>,
}

/// A part of a tool's stored output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPart {
    /// The text from the offset.
    pub text: String,
    /// Its start, in bytes.
    pub offset: u64,
    /// The whole output's size in bytes.
    pub size: u64,
}

/// The live sessions and their tree, for `context/updated`.
#[derive(Debug)]
pub struct SessionList {
    version: u64,
    slots: Vec<Slot>,
    tree: Lines,
    /// How many are live.
    live: usize,
}

impl SessionList {
    /// A list of the live sessions, oldest first. A newer list has a greater version.
    pub fn new(version: u64, slots: Vec<Slot>) -> Self {
        Self { version, tree: tree_lines(&slots), live: slots.len(), slots }
    }

    /// Some of the live sessions, oldest first, and how many there are. The last line of the tree says how many are left
    /// out.
    pub fn part(version: u64, slots: Vec<Slot>, live: usize) -> Self {
        let left_out = live.saturating_sub(slots.len());
        let mut list = Self { live, ..Self::new(version, slots) };
        if left_out > 0 {
            list.tree.push(&format!("… and {left_out} older ones"));
        }
        list
    }
}

impl SessionList {
    /// The sessions, oldest first.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// How many sessions are live, if more than those.
    pub fn live(&self) -> Option<usize> {
        (self.live > self.slots.len()).then_some(self.live)
    }

    /// Their tree, one line each, without line ends.
    pub fn tree(&self) -> impl Iterator<Item = &str> {
        self.tree.iter()
    }

    /// The version; it grows with each list of the process.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its approximate size in bytes.
    pub fn weight(&self) -> usize {
        self.slots.iter().map(Slot::weight).fold(self.tree.text.len(), usize::saturating_add)
    }
}

/// Concatenated lines, without an allocation for each.
#[derive(Debug, Default)]
struct Lines {
    text: String,
    /// The end of each line.
    ends: Vec<usize>,
}

impl Lines {
    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.ends.push(self.text.len());
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).filter_map(|(begin, end)| self.text.get(begin..*end))
    }
}

/// One line per session; children are indented below their parent. A session without a live parent is not
/// indented. Linear in the number of sessions, because the indentation is bounded.
fn tree_lines(slots: &[Slot]) -> Lines {
    const DEEPEST: usize = 16;
    let live: HashSet<&SessionId> = slots.iter().map(|slot| &slot.id).collect();
    let mut children: HashMap<&SessionId, Vec<&Slot>> = HashMap::new();
    let mut open: Vec<(&Slot, usize)> = Vec::new();
    // From last to first: the stack returns them in reverse.
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
        lines.push(slot.display_name());
        // Removed, so that of two sessions with one id in a damaged file only one has children.
        let below = children.remove(&slot.id).unwrap_or_default();
        open.extend(below.into_iter().map(|child| (child, depth.saturating_add(1))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(id: &str, parent: Option<&str>) -> Slot {
        let parent = parent.map(SessionId::from);
        Slot::new(&SessionFacts { name: Some(id.into()), parent, ..SessionFacts::empty(id.into()) })
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
        // Two sessions that claim to be each other's parent are no root and do not appear.
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
}
