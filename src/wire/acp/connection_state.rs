//! What one connection of the ACP wire knows: what its editor can do, what it was told of each session, which prompts
//! wait for their turns, and what it is asked.
//!
//! The encoder and the other threads share it behind one lock, which is taken after the outbox's and never held while
//! anything is sent. Knows neither events nor JSON.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::question::QuestionKind;
use crate::event::{ChoiceKind, Pick};
use crate::message::{SessionId, TurnId};
use crate::wire::acp::map::{Can, SentState};
use crate::wire::acp::version::Version;

/// A session that the editor has opened.
#[derive(Debug, Default)]
pub struct OpenSession {
    /// What it was told.
    pub told: SentState,
    /// The prompts whose turn has not ended, oldest first.
    pub prompts: Vec<Prompting>,
    /// How many events were left out, because the editor read nothing for too long.
    pub left_out: u64,
    /// Of how many of those it was told.
    pub left_out_told: u64,
}

/// A prompt whose turn has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompting {
    /// The request, as JSON.
    pub request: Arc<str>,
    /// The turn that answers it, once the session has accepted it.
    pub turn: Option<TurnId>,
    /// Whether the editor has cancelled it.
    pub is_cancelled: bool,
    /// Whether it starts a workflow, whose end answers it.
    pub starts_workflow: bool,
    /// Whether it was answered because its message is in the conversation.
    pub is_inserted: bool,
    /// The text of a slash command, of which the conversation may have no message.
    pub said: Option<Arc<str>>,
}

/// What an answer of the editor answers.
#[derive(Debug, Clone)]
pub enum PendingEditorRequest {
    /// A question of the engine.
    Question {
        /// Its kind.
        kind: QuestionKind,
        /// The session that it was shown in.
        home: SessionId,
        /// Whether it was shown as a form, not as a permission.
        as_form: bool,
        /// Whether the form is a page, whose end is told.
        is_page: bool,
    },
    /// A choice of a slash command.
    Choice {
        /// Its kind.
        kind: ChoiceKind,
        /// What can be picked, in the order of the options.
        picks: Vec<Pick>,
        /// The request of the command.
        request: Arc<str>,
        /// The session.
        home: SessionId,
        /// Whether it was shown as a form.
        as_form: bool,
    },
}

impl PendingEditorRequest {
    /// The session that it was shown in.
    pub fn home(&self) -> &SessionId {
        match self {
            Self::Question { home, .. } | Self::Choice { home, .. } => home,
        }
    }

    /// Whether it was shown as a form.
    pub const fn as_form(&self) -> bool {
        match self {
            Self::Question { as_form, .. } | Self::Choice { as_form, .. } => *as_form,
        }
    }
}

/// What the connection knows.
#[derive(Debug, Default)]
pub struct AcpStateInner {
    /// What the editor can do.
    pub can: Can,
    /// The version that was agreed on.
    pub version: Option<Version>,
    /// The open sessions.
    pub sessions: HashMap<SessionId, OpenSession>,
    /// The sessions of subagents that asked something, each with the open session that it works for.
    pub homes: HashMap<SessionId, SessionId>,
    /// The open requests to the editor.
    pub asked: HashMap<Arc<str>, PendingEditorRequest>,
}

impl AcpStateInner {
    /// The version that was agreed on, or the stable one before.
    pub fn version(&self) -> Version {
        self.version.unwrap_or_default()
    }

    /// Whether a question of a session is open.
    pub fn is_asking(&self, home: &SessionId) -> bool {
        self.asked.values().any(|asked| asked.home() == home)
    }

    /// The open session that a session is, or works for.
    pub fn home(&self, session: &SessionId) -> Option<SessionId> {
        let home = if self.sessions.contains_key(session) { session } else { self.homes.get(session)? };
        Some(home.clone())
    }

    /// Whether a prompt with that id has no answer.
    pub fn is_prompting(&self, request: &str) -> bool {
        let mut prompts = self.sessions.values().flat_map(|open| &open.prompts);
        prompts.any(|prompt| !prompt.is_inserted && *prompt.request == *request)
    }

    /// Takes the prompts of a session that `is_ended` names.
    pub fn take_prompts(
        &mut self,
        session: &SessionId,
        is_ended: impl Fn(&Prompting) -> bool,
    ) -> Vec<Prompting> {
        let Some(open) = self.sessions.get_mut(session) else { return Vec::new() };
        let (ended, rest) =
            std::mem::take(&mut open.prompts).into_iter().partition(|prompt| is_ended(prompt));
        open.prompts = rest;
        ended
    }

    /// The prompt with that id.
    pub fn prompt(&mut self, request: &str) -> Option<(&SessionId, &mut Prompting)> {
        self.sessions.iter_mut().find_map(|(session, open)| {
            let prompt = open.prompts.iter_mut().find(|prompt| *prompt.request == *request)?;
            Some((session, prompt))
        })
    }

    /// Forgets a session with what is asked in it. Returns what was told, its prompts, and the open requests.
    pub fn forget(&mut self, session: &SessionId) -> (SentState, Vec<Prompting>, Vec<Arc<str>>) {
        let OpenSession { told, prompts, .. } = self.sessions.remove(session).unwrap_or_default();
        self.homes.retain(|_, home| home != session);
        let open = self.asked.iter().filter(|(_, asked)| asked.home() == session);
        let open: Vec<_> = open.map(|(id, _)| id.clone()).collect();
        self.asked.retain(|_, asked| asked.home() != session);
        (told, prompts, open)
    }
}

/// The state, shared.
#[derive(Debug, Default)]
pub struct AcpState(Mutex<AcpStateInner>);

impl AcpState {
    /// Locks the state. Nothing may be sent meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, AcpStateInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
