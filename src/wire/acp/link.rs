//! One connection of the ACP wire: what it keeps, how it answers, and the client of each of its sessions. Knows no method.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::event::question::QuestionKind;
use crate::event::{Body, Event, Subagent};
use crate::limits::{ACP_DEPTH, ACP_KNOWN_ENTRIES};
use crate::message::SessionId;
use crate::session::{Agreed, Client, Peer, Pressure, SessionApi, Standing};
use crate::wire::acp::codes::Fault;
use crate::wire::acp::connection_state::AcpState;
use crate::wire::acp::engines::ReachedEngines;
use crate::wire::acp::questions;
use crate::wire::acp::request::AcpResponse;
use crate::wire::acp::version::Version;
use crate::wire::connection;

/// A connection of the ACP wire.
pub type Connection = connection::Connection<Acp>;

/// The ACP wire of one connection.
pub struct Acp {
    /// The engines.
    pub engines: Arc<ReachedEngines>,
    /// What was told and asked.
    pub desk: Arc<AcpState>,
    /// What the editor and the program have agreed on.
    pub agreed: ArcSwapOption<Agreed>,
}

impl Acp {
    /// The version that was agreed on.
    pub fn version(&self) -> Version {
        self.desk.lock().version()
    }

    /// Sends an answer. `id` is JSON, as it came.
    pub fn respond(&self, connection: &Connection, id: &str, answer: &AcpResponse) {
        let version = self.version();
        connection.outbox().push_frame(|out, ()| version.answer(out, id, answer));
    }

    /// Answers a line with an error.
    pub fn reject(&self, connection: &Connection, id: &str, fault: &Fault) {
        let version = self.version();
        connection.outbox().push_frame(|out, ()| version.error(out, id, fault));
    }
}

/// The client of one open session: a client of its engine like any, with the connection's outbox.
pub struct Member {
    connection: Weak<Connection>,
    api: Arc<dyn SessionApi>,
    /// Its number in the engine.
    number: AtomicU64,
    focus: ArcSwap<SessionId>,
}

impl Member {
    /// A client with that number, which shows no session yet.
    pub fn new(connection: Weak<Connection>, api: Arc<dyn SessionApi>, number: u64) -> Self {
        let focus = ArcSwap::from_pointee(SessionId::from(""));
        Self { connection, api, number: AtomicU64::new(number), focus }
    }

    fn is_here(&self, session: &SessionId) -> bool {
        **self.focus.load() == *session
    }

    /// Whether a session works for this one: through so many sessions as subagents may stand above each other.
    fn is_above(&self, subagent: &Subagent) -> bool {
        let mut parent = subagent.parent.clone();
        for _ in 0..ACP_DEPTH {
            if self.is_here(&parent) {
                return true;
            }
            match self.api.facts(&parent).and_then(|facts| facts.parent.clone()) {
                Some(above) => parent = above,
                None => return false,
            }
        }
        false
    }

    /// Whether the wire has words for an event, and it is of this session.
    fn wants(&self, event: &Event) -> bool {
        let Some(session) = &event.session else { return false };
        let is_own = || {
            let number = self.number.load(Ordering::Relaxed);
            event.cause.as_ref().is_some_and(|cause| cause.connection == number)
        };
        match &event.body {
            // The questions of subagents are shown here too.
            Body::QuestionAsked(asked) => self.asks_about(session, asked.subagent.as_ref()),
            Body::QuestionEnded(_) => true,
            Body::CommandResult(_) | Body::ChoiceRequested(_) => self.is_here(session) && is_own(),
            Body::SessionUpdated(_)
            | Body::AssistantDelta(_)
            | Body::ThinkingDelta(_)
            | Body::AssistantMessage(_)
            | Body::UserMessage(_)
            | Body::ToolStart(_)
            | Body::ToolExecuting(_)
            | Body::ToolUpdate(_)
            | Body::ToolResult(_)
            | Body::TurnEnded(_)
            | Body::CompactionStarted { .. }
            | Body::CompactionEnded(_)
            | Body::WidgetsUpdated(_)
            | Body::Notification(_)
            | Body::Diagnostic(_)
            | Body::Error { .. } => self.is_here(session),
            _ => false,
        }
    }
}

impl Client for Member {
    fn watches(&self, session: Option<&SessionId>) -> bool {
        session.is_some_and(|session| self.is_here(session))
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn deliver(&self, event: &Event) -> Pressure {
        let Some(connection) = self.connection.upgrade() else { return Pressure::Fine };
        if !self.wants(event) {
            return Pressure::Fine;
        }
        let (desk, focus) = (&connection.wire().desk, self.focused());
        {
            let mut state = desk.lock();
            if !state.sessions.contains_key(&focus) {
                return Pressure::Fine;
            }
            if let (Body::QuestionAsked(_), Some(session)) = (&event.body, &event.session)
                && *session != focus
            {
                // Those of subagents that have ended are asked for no more.
                if state.homes.len() >= ACP_KNOWN_ENTRIES {
                    state.homes.clear();
                }
                state.homes.insert(session.clone(), focus.clone());
            }
        }
        connection.outbox().push_event(event, || true)
    }

    fn fall_behind(&self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.outbox().fall_behind();
        }
    }

    fn is_behind(&self) -> bool {
        self.connection.upgrade().is_some_and(|connection| connection.outbox().is_behind())
    }

    fn focus(&self, session: SessionId) {
        self.focus.store(Arc::new(session));
    }

    fn focused(&self) -> SessionId {
        self.focus.load().as_ref().clone()
    }

    fn is_interactor(&self) -> bool {
        true
    }

    fn answers(&self, kind: QuestionKind) -> bool {
        let Some(connection) = self.connection.upgrade() else { return false };
        let can = connection.wire().desk.lock().can;
        questions::can_answer(can, kind)
    }

    fn asks_about(&self, session: &SessionId, subagent: Option<&Subagent>) -> bool {
        self.is_here(session) || subagent.is_some_and(|subagent| self.is_above(subagent))
    }

    /// The session has gone to another process. The editor is to follow once none of its sessions is left here: the others
    /// may run on for it.
    fn close(&self) {
        let Some(connection) = self.connection.upgrade() else { return };
        let sessions: Vec<SessionId> = connection.wire().desk.lock().sessions.keys().cloned().collect();
        let engines = &connection.wire().engines;
        let is_here =
            |session| engines.of(session).is_some_and(|project| project.api.facts(session).is_some());
        if !sessions.iter().any(is_here) {
            connection.close();
        }
    }

    fn standing(&self) -> Standing {
        self.connection.upgrade().map(|connection| connection.standing()).unwrap_or_default()
    }

    fn topics(&self) -> Vec<&'static str> {
        crate::wire::acp::methods::TO_EDITOR.to_vec()
    }

    fn peer(&self) -> Peer {
        let Some(connection) = self.connection.upgrade() else { return Peer::default() };
        // The engine begins a session for an editor's connection, which this is not: it has chosen its own.
        Peer { transport: "memory", ..connection.peer() }
    }
}
