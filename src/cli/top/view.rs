//! What is shown of the bridges' facts: processes, sessions and clients, sorted. Knows no terminal.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::ValueEnum;
use edn_bridge::value::{Owned, Value};

use super::bridges::BridgeState;

/// What sessions are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Sort {
    /// Those that ask first, then those that work, the longest turn first.
    #[default]
    Activity,
    /// The most tokens first.
    Tokens,
    /// The highest cost first.
    Cost,
    /// The most waiting messages first.
    Queue,
    /// By name.
    Name,
}

impl Sort {
    /// The next one, round and round.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Activity => Self::Tokens,
            Self::Tokens => Self::Cost,
            Self::Cost => Self::Queue,
            Self::Queue => Self::Name,
            Self::Name => Self::Activity,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Queue => "queue",
            Self::Name => "name",
        }
    }
}

/// A process with one or more engines.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessRow {
    pub(super) pid: i64,
    pub(super) version: String,
    pub(super) is_daemon: bool,
    pub(super) projects: usize,
    pub(super) uptime_ms: i64,
    pub(super) resident_bytes: Option<i64>,
    /// The share of one processor since the last look.
    pub(super) processor: Option<f64>,
    pub(super) threads: Option<i64>,
    pub(super) events: i64,
    cpu_ms: Option<i64>,
}

/// A live session.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionRow {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) project: String,
    pub(super) model: String,
    pub(super) phase: String,
    /// The kind of a question that waits in it.
    pub(super) asks: Option<String>,
    pub(super) turn_ms: Option<i64>,
    pub(super) queue: i64,
    pub(super) input: i64,
    pub(super) cached: i64,
    pub(super) output: i64,
    pub(super) cost: f64,
    pub(super) context: Option<f64>,
    pub(super) depth: i64,
}

impl SessionRow {
    pub(super) fn is_working(&self) -> bool {
        self.phase != "idle"
    }

    pub(super) const fn tokens(&self) -> i64 {
        self.input.saturating_add(self.cached).saturating_add(self.output)
    }
}

/// A connection.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientRow {
    pub(super) pid: i64,
    pub(super) name: String,
    pub(super) transport: String,
    pub(super) session: String,
    pub(super) connected_ms: Option<i64>,
    pub(super) answers: bool,
    pub(super) pending: i64,
    pub(super) waiting: i64,
    pub(super) bytes: i64,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct View {
    pub(super) sort: Sort,
    pub(super) is_paused: bool,
    /// Whether nobody was asked yet.
    pub(super) is_new: bool,
    pub(super) now: String,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) clients: Vec<ClientRow>,
    pub(super) problems: Vec<String>,
    sessions: Vec<SessionRow>,
}

impl View {
    pub(super) const fn new(sort: Sort) -> Self {
        Self {
            sort,
            is_paused: false,
            is_new: true,
            now: String::new(),
            processes: Vec::new(),
            clients: Vec::new(),
            problems: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// Shows this from now on.
    pub(super) fn take(&mut self, told: &[BridgeState]) {
        let before = std::mem::take(&mut self.processes);
        let mut processes: BTreeMap<i64, ProcessRow> = BTreeMap::new();
        self.is_new = false;
        self.sessions.clear();
        self.clients.clear();
        self.problems.clear();
        for told in told {
            let facts = match &told.facts {
                Ok(facts) => facts,
                Err(error) => {
                    self.problems.push(error.clone());
                    continue;
                }
            };
            let pid = number(facts, "psi.process/pid").unwrap_or_default();
            self.now = text(facts, "psi.process/now");
            // The engines of a process share what it takes, and count their own events.
            let process = processes.entry(pid).or_insert_with(|| process(facts, &before));
            process.projects = process.projects.saturating_add(1);
            process.events =
                process.events.saturating_add(number(facts, "psi.process/event-count").unwrap_or_default());
            let questions = list(facts, "psi.interaction/list");
            let now = time_ms(&self.now);
            for one in list(facts, "psi.session/live") {
                self.sessions.push(session(one, questions, now));
            }
            for one in list(facts, "psi.connection/list") {
                self.clients.push(client(one, pid, now));
            }
        }
        self.processes = processes.into_values().collect();
    }

    /// The sessions in their order.
    pub(super) fn sessions(&self) -> Vec<&SessionRow> {
        let mut all: Vec<&SessionRow> = self.sessions.iter().collect();
        all.sort_by(|a, b| {
            let first = match self.sort {
                Sort::Activity => {
                    let rank = |one: &SessionRow| {
                        Reverse((one.asks.is_some(), one.is_working(), one.turn_ms, one.queue))
                    };
                    rank(a).cmp(&rank(b))
                }
                Sort::Tokens => b.tokens().cmp(&a.tokens()),
                Sort::Cost => b.cost.total_cmp(&a.cost),
                Sort::Queue => b.queue.cmp(&a.queue),
                Sort::Name => std::cmp::Ordering::Equal,
            };
            first.then_with(|| a.name.cmp(&b.name)).then_with(|| a.id.cmp(&b.id))
        });
        all
    }
}

fn process(facts: &Owned, before: &[ProcessRow]) -> ProcessRow {
    let number = |key| number(facts, key);
    let pid = number("psi.process/pid").unwrap_or_default();
    let (uptime_ms, cpu_ms) =
        (number("psi.process/uptime-ms").unwrap_or_default(), number("psi.process/cpu-ms"));
    let earlier = before.iter().find(|process| process.pid == pid);
    let processor = earlier.and_then(|earlier| {
        let used = cpu_ms?.saturating_sub(earlier.cpu_ms?);
        let passed = uptime_ms.saturating_sub(earlier.uptime_ms);
        (passed > 0).then(|| real(used) / real(passed))
    });
    ProcessRow {
        pid,
        version: text(facts, "psi.process/version"),
        is_daemon: facts.get("psi.process/outlives-clients").and_then(Value::as_bool) == Some(true),
        projects: 0,
        uptime_ms,
        resident_bytes: number("psi.process/resident-bytes"),
        processor,
        threads: number("psi.process/thread-count"),
        events: 0,
        cpu_ms,
    }
}

fn session(one: &Owned, questions: &[Owned], now: Option<i64>) -> SessionRow {
    let number = |key| number(one, key).unwrap_or_default();
    let id = text(one, "psi.agent-session/session-id");
    let asks = questions.iter().find(|question| text(question, "psi.agent-session/session-id") == id);
    let began = time_ms(&text(one, "psi.agent-session/turn-started-at"));
    SessionRow {
        name: text(one, "psi.agent-session/session-display-name"),
        project: text(one, "psi.agent-session/worktree-path"),
        model: text(one, "psi.agent-session/model-id"),
        phase: text(one, "psi.agent-session/phase"),
        asks: asks.map(|question| text(question, "psi.interaction/kind")),
        turn_ms: now.zip(began).map(|(now, began)| now.saturating_sub(began).max(0)),
        queue: number("psi.agent-session/pending-message-count"),
        input: number("psi.agent-session/usage-input")
            .saturating_add(number("psi.agent-session/usage-cache-write")),
        cached: number("psi.agent-session/usage-cache-read"),
        output: number("psi.agent-session/usage-output"),
        cost: one.get("psi.agent-session/usage-cost-total").and_then(as_real).unwrap_or_default(),
        context: one.get("psi.agent-session/context-fraction").and_then(as_real),
        depth: number("psi.agent-session/depth"),
        id,
    }
}

fn client(one: &Owned, pid: i64, now: Option<i64>) -> ClientRow {
    let number = |key| number(one, key).unwrap_or_default();
    let since = time_ms(&text(one, "psi.connection/connected-at"));
    ClientRow {
        pid,
        name: text(one, "psi.connection/client-name"),
        transport: text(one, "psi.connection/transport"),
        session: text(one, "psi.agent-session/session-id"),
        connected_ms: now.zip(since).map(|(now, since)| now.saturating_sub(since).max(0)),
        answers: one.get("psi.connection/is-interactor").and_then(Value::as_bool) == Some(true),
        pending: number("psi.connection/pending"),
        waiting: number("psi.connection/outbox-waiting"),
        bytes: number("psi.connection/outbox-bytes"),
    }
}

fn list<'f>(facts: &'f Owned, key: &str) -> &'f [Owned] {
    facts.get(key).and_then(Value::as_slice).unwrap_or_default()
}

fn number(facts: &Owned, key: &str) -> Option<i64> {
    facts.get(key).and_then(Value::as_i64)
}

fn text(facts: &Owned, key: &str) -> String {
    let value = facts.get(key);
    value.and_then(|value| value.as_str().or_else(|| value.as_keyword())).unwrap_or_default().to_owned()
}

fn as_real(value: &Owned) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        other => other.as_i64().map(real),
    }
}

/// As precise as a view needs.
#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) const fn real(number: i64) -> f64 {
    number as f64
}

fn time_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
