//! A session that hosts of a realm share: who owns it, and what its owner wrote elsewhere. Of another host's session this
//! one has a copy, which shows what the owner's entries say.

use std::sync::Arc;

use super::durable::DurableState;
use crate::engine::change::Change;
use crate::engine::services::refused;
use crate::event::{Body, Cause, Event, Sender, ToolCall, ToolOutput, TurnEnded, TurnOutcome, UserMessage};
use crate::facts::Phase;
use crate::limits::REALM_WAITING;
use crate::message::{Arguments, Block, Message, Role};
use crate::session::ApiError;
use crate::store::record::{OwnerRecord, TurnEvent, TurnRecord};
use crate::store::{Entry, EntryBody, Header, Ownership, StoreError};
use crate::value::Value;

impl DurableState {
    /// Has the session's task told what other hosts change.
    pub(super) fn listen(&self) {
        let handle = self.handle.clone();
        self.journal.listen(Box::new(move |what| {
            let handle = handle.clone();
            Box::pin(async move { handle.pass(Change::FromElsewhere(what)).await })
        }));
    }

    /// Takes over who owns the session.
    pub(super) fn note_owner(&mut self) {
        let facts = &mut self.state.facts;
        (facts.host, facts.is_elsewhere, facts.owner_lost) = match self.journal.ownership() {
            Ownership::Local => (None, false, false),
            Ownership::Ours { host, .. } => (Some(host), false, false),
            Ownership::Theirs { host, is_lost } => (Some(host), true, is_lost),
        };
    }

    /// The entry that says who owns the session, unless the journal says so: this host, or nobody but this machine.
    pub(super) fn owner_record(&self) -> Option<EntryBody> {
        let known = self.state.owner.as_ref();
        let (host, cwd, epoch) = match self.journal.ownership() {
            Ownership::Ours { host, epoch, cwd } if known.is_none_or(|known| known.epoch < epoch) => {
                (host, cwd, epoch)
            }
            Ownership::Local => {
                let known = known.filter(|known| !known.host.is_empty())?;
                ("".into(), self.state.facts.cwd.clone(), known.epoch.saturating_add(1))
            }
            Ownership::Ours { .. } | Ownership::Theirs { .. } => return None,
        };
        let session_id = self.handle.id.clone();
        Some(EntryBody::Owner(Box::new(OwnerRecord { session_id, host, cwd, epoch })))
    }

    /// Whether something may begin in the session.
    ///
    /// # Errors
    /// `realm/unreachable`, `realm/owned` and `realm/owner-lost`.
    pub(super) fn may_begin(&self) -> Result<(), ApiError> {
        let facts = &self.state.facts;
        let Some(host) = facts.host.as_ref().map(|host| host.to_string()) else { return Ok(()) };
        match self.shared.federation.get() {
            _ if facts.owner_lost => Err(refused(&StoreError::OwnerLost { host })),
            _ if facts.is_elsewhere => Err(refused(&StoreError::Owned { host })),
            Some(federation) => federation.may_begin().map_err(|error| refused(&error)),
            None => Ok(()),
        }
    }

    /// Brings the session into the realm. A journal that waits for that is shared.
    ///
    /// # Errors
    /// If this process is in no realm, or that refuses.
    pub(super) async fn share(&mut self) -> Result<(), ApiError> {
        let Some(federation) = self.shared.federation.get().cloned() else { return Err(no_realm()) };
        if self.state.facts.host.is_some() {
            return Ok(());
        }
        if self.handle.parent.is_some() {
            let message = "A session that works for another one stays on its machine: share the other one.";
            return Err(ApiError::failed(message));
        }
        // What lists show is there from the beginning: a session without an entry has no place to be shared from.
        if self.state.entries.offset() == 0 {
            let message = "The session has no entry yet: share it after its first message.";
            return Err(ApiError::failed(message));
        }
        let facts = &self.state.facts;
        let header = Header {
            session: self.handle.id.clone(),
            created_at: facts.created_at.clone(),
            cwd: facts.cwd.clone(),
            parent: None,
            request: None,
            replica_of: None,
        };
        let entries = self.state.entries.all().iter().cloned().collect();
        let shared = federation.share(header, entries, self.journal.clone()).await;
        self.journal = shared.map_err(|error| refused(&error))?;
        self.listen();
        self.append(Vec::new()).await?;
        self.changed(None);
        Ok(())
    }

    /// Goes on in the folder that the newest owner's entry names.
    pub(super) async fn go_to_folder(&mut self) {
        let (shared, cwd) = (self.shared.clone(), self.state.facts.cwd.clone());
        let config = tokio::task::spawn_blocking(move || shared.configuration.for_folder(&cwd)).await;
        if let Ok(config) = config {
            self.handle.set_config(config);
        }
        self.look_at_branch();
    }

    /// Takes in what the session's owner wrote on another host, and shows it.
    pub(super) fn mirror(&mut self, entries: &[Arc<Entry>]) {
        self.take_in(entries);
        self.note_owner();
        self.handle.publish_entries(&self.shared.hub, self.snapshot(), entries);
        let asked = entries.iter().find_map(|entry| {
            let request = entry.request.as_ref()?;
            Some((request.turn_id.clone()?, self.handle.asked_owner(&request.id)?))
        });
        for entry in entries {
            match &entry.body {
                EntryBody::Message(message) => {
                    let of_turn = asked.as_ref().filter(|(turn, _)| Some(turn) == message.turn_id.as_ref());
                    self.show_message(entry, message, of_turn.map(|(_, cause)| cause.clone()));
                }
                EntryBody::Turn(turn) if turn.session_id == self.handle.id => self.show_turn(turn),
                EntryBody::Question(asked) if asked.session_id == self.handle.id => self.follow_owner(),
                EntryBody::Answer(answer) => self.handle.asked_for_owner(&answer.question_id),
                _ => {}
            }
        }
        self.changed(None);
    }

    /// Follows the owner, which is another host: what it says and asks.
    pub(super) fn follow_owner(&self) {
        if let Some(follow) = self.shared.follow_owner.get() {
            follow(&self.handle);
        }
    }

    /// Shows a message. A person's has a cause, if it was asked for here.
    fn show_message(&self, entry: &Arc<Entry>, message: &Arc<Message>, cause: Option<Cause>) {
        let connection = cause.as_ref().map(|cause| cause.connection);
        let cause = cause.filter(|_| message.role == Role::User);
        let show = |body| {
            let of_entry = Event { turn: message.turn_id.clone(), ..self.handle.event(body, cause.clone()) };
            self.show_event(Event { entry: Some(entry.id.clone()), ..of_entry });
        };
        match message.role {
            Role::User => {
                let from = match connection {
                    _ if message.sender.is_some() => Sender::Control,
                    Some(connection) => Sender::Client { connection, name: self.client_name(connection) },
                    None => Sender::Earlier,
                };
                show(Body::UserMessage(Arc::new(UserMessage { message: message.clone(), from })));
            }
            Role::Assistant => {
                show(Body::AssistantMessage(message.clone()));
                for block in &message.content {
                    if let Block::ToolCall { id, name, arguments } = block {
                        show(Body::ToolStart(Arc::new(call(id, name, arguments))));
                    }
                }
            }
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap_or_default();
                let name = message.tool_name.clone().unwrap_or_default();
                let arguments = self.arguments_of(&id).unwrap_or_else(|| Value::Nil.into());
                show(Body::ToolResult(Arc::new(ToolOutput {
                    call: Arc::new(call(&id, &name, &arguments)),
                    text: message.text().into(),
                    is_error: message.is_error.unwrap_or(false),
                    details: message.details.clone().unwrap_or(Value::Nil),
                    duration_ms: message.duration_ms,
                    edit: None,
                })));
            }
            _ => {}
        }
    }

    /// What the newest call of that id is called with.
    fn arguments_of(&self, wanted: &str) -> Option<Arguments> {
        let newest = self.state.entries.all().iter().rev().filter_map(|entry| entry.body.message());
        let calls = newest.take(REALM_WAITING).flat_map(|message| message.content.iter().rev());
        calls.into_iter().find_map(|block| match block {
            Block::ToolCall { id, arguments, .. } if **id == *wanted => Some(arguments.clone()),
            _ => None,
        })
    }

    fn show_turn(&mut self, turn: &TurnRecord) {
        match turn.event {
            TurnEvent::Began | TurnEvent::TakenOver => self.state.facts.phase = Phase::Streaming,
            TurnEvent::HandedOver => {}
            TurnEvent::Ended | TurnEvent::Interrupted => {
                self.handle.forget_for_owner();
                self.state.facts.phase = Phase::Idle;
                self.publish();
                let outcome = match turn.outcome.as_deref() {
                    Some("completed") => TurnOutcome::Completed,
                    Some("aborted") => TurnOutcome::Aborted,
                    Some("interrupted") => TurnOutcome::Interrupted,
                    _ => TurnOutcome::Failed,
                };
                let ended = Body::TurnEnded(Arc::new(TurnEnded {
                    outcome,
                    stop: None,
                    error: None,
                    error_kind: None,
                    usage: None,
                    run: None,
                }));
                self.show_event(Event { turn: Some(turn.turn_id.clone()), ..self.handle.event(ended, None) });
            }
        }
    }
}

/// There is no realm to share with.
pub fn no_realm() -> ApiError {
    ApiError::failed(
        "This process is in no realm. {:realm {:engine \"postgres://…\" :host \"name\"}} in your configuration names one, \
         the program must be built with it, and one process of a machine is in it: the daemon, or an editor's bridge.",
    )
}

fn call(id: &Arc<str>, name: &Arc<str>, parsed: &Arguments) -> ToolCall {
    let arguments = if parsed.is_nil() { "".into() } else { parsed.text().into() };
    ToolCall { id: id.clone(), name: name.clone(), summary: name.clone(), arguments, parsed: parsed.clone() }
}
