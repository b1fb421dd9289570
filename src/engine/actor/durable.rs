//! A session's state with the journal that keeps it: the one place where entries are appended and the state is shown.
//!
//! An entry counts only when it is on disk: an append waits for the journal before the state changes, so that nothing has
//! to be taken back. Does not know what a turn or a job does.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::regenerate::unanswered;
use super::state::SessionState;
use crate::catalogue::ErrorCode;
use crate::catalogue::tools::ToolRow;
use crate::clock::epoch_millis;
use crate::engine::handle::Handle;
use crate::engine::idempotency::{CarriedOut, Lookup, conflict};
use crate::engine::services::{Services, refused};
use crate::engine::snapshot::SessionSnapshot;
use crate::event::{Body, Cause};
use crate::facts::editor::Editor;
use crate::facts::{Phase, SessionFacts};
use crate::limits::{IDEMPOTENCY_KEYS, LET_GO_TRIES};
use crate::message::TurnId;
use crate::session::{ApiError, Call, Prompted, Reply};
use crate::store::record::KeyedRequest;
use crate::store::{Entry, EntryBody, Journal};
use crate::tool;
use crate::value::Value;

/// A session's state on disk, and for its readers.
pub struct DurableState {
    pub shared: Arc<Services>,
    pub handle: Handle,
    pub(super) journal: Journal,
    pub state: SessionState,
    /// Which configuration the session continues with, as an entry that is written before the next message.
    pub(super) adopted: Option<EntryBody>,
}

impl DurableState {
    /// The state of a session that was created, or loaded with these entries.
    pub fn new(
        shared: Arc<Services>,
        handle: Handle,
        journal: Journal,
        facts: SessionFacts,
        entries: &[Arc<Entry>],
    ) -> Self {
        let mut durable = Self { shared, handle, journal, state: SessionState::new(facts), adopted: None };
        durable.take_in(entries);
        durable.state.queue_is_new = false;
        durable.note_owner();
        durable
    }

    /// Notes the texts of files that the results of calls have shown to the model.
    pub(super) fn note_known(&self) {
        for message in self.state.entries.branch().iter().filter_map(|entry| entry.body.message()) {
            let detail = |key: &'static str| message.details.as_ref().and_then(|details| details.get(key));
            if let (Some(path), Some(seen)) = (detail("path").and_then(Value::as_str), tool::seen(detail))
                && message.is_error == Some(false)
                && message.tool_name.as_deref().and_then(ToolRow::of).is_some_and(ToolRow::shows_file)
            {
                self.handle.known.shown(Path::new(path), seen);
            }
        }
    }

    /// Takes entries that are on disk into the state.
    pub(super) fn take_in(&mut self, entries: &[Arc<Entry>]) {
        for entry in entries {
            self.state.apply(entry);
        }
        self.state.estimate_size();
        if entries.iter().any(|entry| matches!(entry.body, EntryBody::Model { .. })) {
            self.handle.config().describe_model(&mut self.state.facts);
        }
        if !entries.is_empty() && self.state.facts.location.is_none() {
            self.state.facts.location = Some(self.journal.location().into());
        }
    }

    /// Appends entries as one, each following the one before, and waits until they are on disk.
    ///
    /// # Errors
    /// When they could not be written; nothing has changed then.
    pub async fn append(&mut self, bodies: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, ApiError> {
        self.append_for(bodies, []).await
    }

    /// The same for requests with keys: see [`SessionState::next_entries`].
    ///
    /// # Errors
    /// When they could not be written; nothing has changed then.
    pub async fn append_for(
        &mut self,
        bodies: Vec<EntryBody>,
        requests: impl IntoIterator<Item = Option<Arc<KeyedRequest>>>,
    ) -> Result<Vec<Arc<Entry>>, ApiError> {
        let owner = self.owner_record();
        let is_owner_new = owner.is_some();
        let bodies = owner.into_iter().chain(bodies).collect();
        let mut entries = self.state.next_entries(bodies, requests, &*self.shared.clock);
        if entries.is_empty() {
            return Ok(entries);
        }
        let mut tries = 0..LET_GO_TRIES;
        loop {
            let (sender, receiver) = oneshot::channel();
            self.journal.append(&entries, move |result| {
                let _ = sender.send(result);
            });
            match receiver.await {
                Ok(Ok(())) => break,
                // The file of a session that rests is closed for the one that is written to.
                Ok(Err(error)) if error.is_out_of_descriptors() && tries.next().is_some() => {
                    self.shared.tree.let_go(Some(&self.handle.id)).await;
                }
                Ok(Err(error)) => return Err(refused(&error)),
                Err(_) => return Err(ApiError::failed("The journal ended.")),
            }
        }
        self.take_in(&entries);
        self.note_owner();
        self.handle.publish_entries(&self.shared.hub, self.snapshot(), &entries);
        // Those that were asked for.
        entries.drain(..usize::from(is_owner_new));
        Ok(entries)
    }

    /// Writes the entry that a client's request was decided to be, answers, and tells everyone. Returns whether it is
    /// written.
    pub async fn write<T>(
        &mut self,
        call: &Call,
        decided: Result<(EntryBody, T), ApiError>,
        reply: Reply<T>,
    ) -> bool {
        let (entry, answer) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                reply.fail(error);
                return false;
            }
        };
        if let Err(error) = self.append(vec![entry]).await {
            reply.fail(error);
            return false;
        }
        reply.ok(answer);
        self.changed(Some(call.cause()));
        true
    }

    /// Waits until all that was acknowledged is on disk, so that nobody else has the file open.
    pub async fn settle(&self) {
        let (sender, receiver) = oneshot::channel();
        self.journal.settle(move |result| {
            let _ = sender.send(result);
        });
        if let Ok(Err(error)) = receiver.await {
            tracing::error!(%error, "what was acknowledged may not outlive a power failure");
        }
    }

    /// Whether nothing holds the session, and the model can be asked again.
    pub fn can_ask_again(&self) -> bool {
        self.state.facts.phase == Phase::Idle
            && self.handle.working_for().is_none()
            && unanswered(self.state.entries.branch()).is_some()
    }

    pub(super) fn snapshot(&self) -> SessionSnapshot {
        self.state.snapshot(self.journal.bytes(), self.can_ask_again())
    }

    /// Makes the state visible to readers.
    pub fn publish(&self) {
        self.handle.publish(self.snapshot());
    }

    /// Makes the state visible and tells everyone.
    pub fn changed(&mut self, cause: Option<Cause>) {
        self.publish();
        let snapshot = self.handle.snapshot();
        let queue = std::mem::take(&mut self.state.queue_is_new)
            .then(|| Body::QueueUpdated(Arc::new(snapshot.queue.shown())));
        let state =
            [Body::SessionUpdated(snapshot.facts.clone()), Body::FooterUpdated(snapshot.facts.clone())];
        for body in queue.into_iter().chain(state) {
            self.show(body, cause.clone());
        }
    }

    /// Shows the session in a phase, before a client has the answer that says so.
    pub fn show_phase(&mut self, phase: Phase) {
        self.state.facts.phase = phase;
        self.publish();
    }

    pub fn set_archived(&mut self, archived: bool) {
        self.state.facts.archived = archived;
        self.publish();
    }

    pub fn set_editor(&mut self, editor: Editor) {
        self.state.facts.editor = self.state.editor.show(editor);
        self.publish();
    }

    /// The reply, unless the request was carried out before, whose answer is then repeated, or is refused for its key.
    /// `running` is the running turn.
    pub fn first_time(
        &self,
        request: Option<&KeyedRequest>,
        running: Option<&TurnId>,
        reply: Reply<Prompted>,
    ) -> Option<Reply<Prompted>> {
        match self.look_up(request) {
            Ok(None) => match self.may_begin() {
                Ok(()) => Some(reply),
                Err(error) => {
                    reply.fail(error);
                    None
                }
            },
            Ok(Some(known)) => {
                let state = self.state.idempotency.state(&known, running);
                reply.ok(Prompted { turn: known.turn, repeated: Some(state) });
                None
            }
            Err(error) => {
                reply.fail(error);
                None
            }
        }
    }

    /// What is known of a request that was carried out before; `None` for a new one, or one without a key.
    ///
    /// # Errors
    /// If its key was used for another request, or there is no room for it.
    pub fn look_up(&self, request: Option<&KeyedRequest>) -> Result<Option<CarriedOut>, ApiError> {
        let Some(request) = request else { return Ok(None) };
        let now = epoch_millis(self.shared.clock.now());
        match self.state.idempotency.look_up(request, now, self.shared.idempotency_window()) {
            Lookup::New => Ok(None),
            Lookup::Again(known) => Ok(Some(known)),
            Lookup::Other => Err(conflict(request)),
            Lookup::Full => Err(ApiError::new(
                ErrorCode::LedgerFull,
                format!("The session knows {IDEMPOTENCY_KEYS} keys of the last minutes: try again later."),
            )),
        }
    }
}
