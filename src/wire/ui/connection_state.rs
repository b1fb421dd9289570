//! What one connection of the UI wire knows of its runs and of its open question.
//!
//! The encoder and the reading thread share it behind one lock, which is taken after the outbox's and never held while
//! anything is sent. Knows neither events nor JSON.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::question::QuestionKind;
use crate::event::{ChoiceKind, Pick, TurnOutcome};
use crate::facts::JobStatus;
use crate::facts::editor::Editor;
use crate::limits::UI_KEPT_RUNS;
use crate::message::{EntryId, SessionId, Usage};
use crate::session::Reply;
use crate::value::Map;

/// The state of a run on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// It runs.
    Running,
    /// It waits for an answer.
    AwaitingUi,
    /// It has ended.
    Completed,
    /// It has failed.
    Error,
    /// A person ended it.
    Cancelled,
}

impl RunStatus {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::AwaitingUi => "awaiting_ui",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What the interface can do, as it said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UiCan {
    /// Answer `ui.confirm.request`.
    pub confirm: bool,
    /// Answer `ui.prompt.request`.
    pub prompt: bool,
    /// Answer `ui.pick.request`.
    pub pick: bool,
    /// Show previews of permissions.
    pub preflight: bool,
    /// Show pieces of an answer.
    pub deltas: bool,
}

impl UiCan {
    /// Whether it can answer a question of that kind.
    pub const fn answers(self, kind: QuestionKind) -> bool {
        match kind {
            QuestionKind::Ask | QuestionKind::Password => self.prompt,
            QuestionKind::Select => self.pick,
            QuestionKind::Approve
            | QuestionKind::DeviceCode
            | QuestionKind::Confirm
            | QuestionKind::GrantStageTool
            | QuestionKind::ApproveSubagentEnvelope => self.confirm,
        }
    }
}

/// A tool call of a run.
#[derive(Debug)]
pub struct Step {
    /// When it began to run, or was proposed, in milliseconds.
    pub since: i64,
    /// The arguments that were told.
    pub arguments: Arc<str>,
}

/// A model call, for the diagnostics.
#[derive(Debug, Clone)]
pub struct ModelUse {
    /// The provider and the model.
    pub model: (Arc<str>, Arc<str>),
    /// Its tokens and cost, if the provider has told them.
    pub usage: Option<Usage>,
}

/// A run that has begun and not ended.
#[derive(Debug)]
pub struct Run {
    /// Its id: that of the turn.
    pub id: Arc<str>,
    /// The number of its next event.
    pub seq: i64,
    /// The text of the newest message, which is the last one if the run ends with it.
    pub last_text: Option<String>,
    /// The tool calls without a result, by id.
    pub steps: HashMap<Arc<str>, Step>,
    /// The number of its tool calls.
    pub step_count: i64,
    /// The messages and results that were told, by entry, so that none is told twice.
    pub told: HashSet<EntryId>,
    /// The tool of the call that the person declined without a reason, if so.
    pub declined: Option<String>,
    /// Whether it is a compaction that a person asked for.
    pub is_compaction: bool,
    /// Whether it is a slash command.
    pub is_command: bool,
    /// Whether the interface has cancelled it, as a slash command.
    pub is_cancelled: bool,
    /// How the compaction ended, with the failure for a person.
    pub outcome: Option<(TurnOutcome, Option<Arc<str>>)>,
    /// Its model calls.
    pub calls: Vec<ModelUse>,
}

impl Run {
    /// A run without events.
    pub fn new(id: Arc<str>) -> Self {
        Self {
            id,
            seq: 0,
            last_text: None,
            steps: HashMap::new(),
            step_count: 0,
            told: HashSet::new(),
            declined: None,
            is_compaction: false,
            is_command: false,
            is_cancelled: false,
            outcome: None,
            calls: Vec::new(),
        }
    }
}

/// What an answer of the interface answers.
#[derive(Debug, Clone)]
pub enum OpenRequest {
    /// A question of the engine.
    Question {
        /// Its kind.
        kind: QuestionKind,
        /// Its session.
        session: SessionId,
        /// The tool that it is about.
        tool: Option<String>,
        /// The request of this client that it comes from.
        request: Option<Arc<str>>,
        /// Whether its session is not the one that the interface shows, so that no run here waits for it.
        is_elsewhere: bool,
    },
    /// A choice of a slash command.
    Choice {
        /// Its kind.
        kind: ChoiceKind,
        /// What can be picked, in the order of the items.
        picks: Vec<Pick>,
        /// The request of the run.
        request: Arc<str>,
    },
    /// Whether to log out: the request, as JSON, and whether to clear the session.
    Logout {
        /// The request's id.
        request: Arc<str>,
        /// Whether a new session is opened.
        clear_session: bool,
    },
}

/// A tool call that waits for the interface.
#[derive(Debug, Clone)]
pub struct OpenCall {
    /// The run.
    pub run: String,
    /// The tool.
    pub name: String,
}

/// The open request to the interface.
#[derive(Debug, Clone)]
pub struct OpenQuestion {
    /// Its id.
    pub id: Arc<str>,
    /// What it is about.
    pub asked: OpenRequest,
}

/// A subagent of the person.
#[derive(Debug)]
pub struct Subtask {
    /// Its id.
    pub id: Arc<str>,
    /// Its task.
    pub prompt: String,
    /// The session above it.
    pub session: SessionId,
    /// Its state.
    pub status: JobStatus,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Its last words, or why it failed.
    pub text: String,
    /// The requests that wait for its end. A connection has only so many requests without an answer.
    pub waiting: Vec<Reply<Map<'static>>>,
}

/// What the connection knows.
#[derive(Debug, Default)]
pub struct UiStateInner {
    /// What the interface can do.
    pub can: UiCan,
    /// The run that goes on.
    pub run: Option<Run>,
    /// The newest runs that have ended.
    ended: VecDeque<(Arc<str>, RunStatus)>,
    /// The open request.
    pub question: Option<OpenQuestion>,
    /// The faults of the session's journal and rules, until a run tells them.
    pub untold: Vec<String>,
    /// The questions of sessions that the interface does not show, which it is not asked yet: whose each is, for a person.
    pub elsewhere: HashMap<Arc<str>, String>,
    /// The tool calls that wait for the interface, by request.
    pub calls: HashMap<Arc<str>, OpenCall>,
    /// The session in which the interface's tools are.
    pub tools_in: Option<SessionId>,
    /// The subagents of the person, oldest first.
    pub subtasks: VecDeque<Subtask>,
    /// The runs of slash commands, by their request.
    pub commands: HashMap<Arc<str>, Arc<str>>,
    /// The client has been shown what it missed, and its session's state follows.
    pub caught_up: bool,
    /// The requests that run one tool without a run, and whether the person declined the call. Nothing of it is told
    /// but its question.
    pub quiet: HashMap<Arc<str>, bool>,
    /// What the interface showed last, and in which session, until the session has it.
    pub shown: Option<(SessionId, Arc<Editor>)>,
    /// The request that asked for a compaction that has not begun.
    pub compaction: Option<Arc<str>>,
    /// The size of the model's window.
    pub window: u64,
    /// The free part of the window that was told.
    pub percent_left: Option<i64>,
    /// The provider and the model.
    pub model: (Arc<str>, Arc<str>),
    /// The number of the next id of the wire's own.
    next: u64,
}

impl UiStateInner {
    /// An id of the wire's own.
    pub fn own_id(&mut self, prefix: &str) -> Arc<str> {
        self.next = self.next.saturating_add(1);
        format!("{prefix}-{}", self.next).into()
    }

    /// Notes that a run has ended.
    pub fn note_end(&mut self, run: Arc<str>, status: RunStatus) {
        while self.ended.len() >= UI_KEPT_RUNS {
            self.ended.pop_front();
        }
        self.ended.push_back((run, status));
    }

    /// How a run ended, if it is known.
    pub fn end_of(&self, run: &str) -> Option<RunStatus> {
        self.ended.iter().rev().find(|(id, _)| **id == *run).map(|(_, status)| *status)
    }

    /// The id of the run that goes on.
    pub fn running(&self) -> Option<&Arc<str>> {
        self.run.as_ref().map(|run| &run.id)
    }

    /// Notes that the run of a slash command is cancelled. Returns the open request for which it waits: no end of a
    /// turn withdraws that.
    pub fn cancel_command(&mut self) -> Option<Arc<str>> {
        let run = self.run.as_mut().filter(|run| run.is_command)?;
        run.is_cancelled = true;
        let open = self.question.as_ref()?;
        let (OpenRequest::Choice { request, .. } | OpenRequest::Question { request: Some(request), .. }) =
            &open.asked
        else {
            return None;
        };
        (self.commands.get(request) == Some(&run.id)).then(|| open.id.clone())
    }

    /// Whether a request is that of a slash command which the interface has cancelled.
    pub fn is_given_up(&self, request: &str) -> bool {
        let run = self.run.as_ref().filter(|run| run.is_cancelled);
        run.is_some_and(|run| self.commands.get(request) == Some(&run.id))
    }

    /// Takes the open request with that id.
    pub fn take_question(&mut self, id: &str) -> Option<OpenQuestion> {
        self.question.take_if(|open| *open.id == *id)
    }
}

/// The state, shared.
#[derive(Debug, Default)]
pub struct UiState(Mutex<UiStateInner>);

impl UiState {
    /// Locks the state. Nothing may be sent meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, UiStateInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
