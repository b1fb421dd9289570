//! Shows a connection everything in a session's log since a place: each entry once and in order, what is in flight,
//! that it is complete.
//!
//! The pages come from memory and go through the connection's outbox, whose pressure only the replay waits for. The
//! session goes on meanwhile; the last page is sent while no event of the session goes out, so that what follows is
//! live without a gap. Does not know the wire.

use std::sync::Arc;

use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::open::Opener;
use crate::engine::snapshot::SessionSnapshot;
use crate::event::{Body, Event};
use crate::limits::REPLAY_PAGE;
use crate::session::{Call, Client, InAnswer, Pressure, Reply, Since, SwitchTarget};
use crate::store::Entry;

/// A replay for one connection.
struct Replay {
    opener: Opener,
    handle: Handle,
    connection: u64,
    client: Arc<dyn Client>,
    /// Its number at the client.
    number: u64,
    /// The number of entries that the client has.
    sent: u64,
    in_answer: Option<InAnswer>,
    /// Why the client's history is not that of the session; it is then shown the newest part instead.
    stale: Option<&'static str>,
}

impl Opener {
    /// See [`Clients::follow`](crate::session::Clients::follow).
    pub(super) fn follow(&self, call: Call, since: Since, reply: Reply<u64>) {
        if let Ok(handle) = self.shared.tree.get(&since.session) {
            return self.follow_live(&call, handle, since, reply);
        }
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                match opener.open(SwitchTarget::Id(since.session.clone())).await {
                    Ok(handle) => {
                        opener.follow_live(&call, handle.clone(), since, reply);
                        opener.tell_repairs(&handle, &call);
                    }
                    Err(error) => reply.fail(error),
                }
            },
            &self.shared.executor,
        );
    }

    fn follow_live(&self, call: &Call, handle: Handle, since: Since, reply: Reply<u64>) {
        let Some(client) = self.shared.hub.client(call.connection) else { return };
        let mut replay = None;
        // The entries before this moment are missing, and the later ones are withheld until the end.
        handle.let_in(&self.shared.hub, call.connection, |snapshot, _| {
            client.focus(handle.id.clone());
            let number = client.begin_replay(&handle.id, since.offset);
            let stale = stale(snapshot, &since);
            let missing = snapshot.offset.saturating_sub(since.offset);
            reply.ok(if stale.is_some() { 0 } else { missing });
            replay = Some((number, stale));
        });
        let Some((number, stale)) = replay else { return };
        handle.tell(Change::TakeUp { variables: None });
        self.shared.tree.announce(Some(call.cause()));
        let replay = Replay {
            opener: self.clone(),
            handle,
            connection: call.connection,
            client,
            number,
            sent: since.offset,
            in_answer: since.in_answer,
            stale,
        };
        self.shared.tasks.spawn_on(replay.run(), &self.shared.executor);
    }

    /// See [`Clients::follow_again`](crate::session::Clients::follow_again).
    pub(super) fn follow_again(&self, connection: u64, number: u64, handle: Handle, offset: u64) {
        let Some(client) = self.shared.hub.client(connection) else { return };
        let replay = Replay {
            opener: self.clone(),
            handle,
            connection,
            client,
            number,
            sent: offset,
            in_answer: None,
            stale: None,
        };
        self.shared.tasks.spawn_on(replay.run(), &self.shared.executor);
    }
}

/// Why a client's history is not that of the session.
fn stale(snapshot: &SessionSnapshot, since: &Since) -> Option<&'static str> {
    if since.offset > snapshot.offset {
        return Some("ahead");
    }
    let known = since.entry.as_ref()?;
    let place = usize::try_from(since.offset).ok()?.checked_sub(1);
    let stands = place.and_then(|place| snapshot.entries.get(place)).map(|entry| &entry.id);
    (stands != Some(known)).then_some("other-entry")
}

impl Replay {
    async fn run(mut self) {
        let none_missing = match self.stale {
            Some(reason) => self.rehydrate(reason),
            None => self.pages().await,
        };
        if none_missing.is_none() {
            return;
        }
        loop {
            self.ask_questions();
            if self.finish() {
                return;
            }
            // Much was written since the last page.
            if self.pages().await.is_none() {
                return;
            }
        }
    }

    /// Sends entries until few are missing. `None` if the replay is over.
    async fn pages(&mut self) -> Option<()> {
        loop {
            let snapshot = self.handle.snapshot();
            let page = self.page(&snapshot);
            if page.is_empty() {
                return Some(());
            }
            self.opener.shared.hub.client(self.connection)?;
            for entry in page {
                if let Pressure::Full(mut full) = self.send_entry(&entry)? {
                    // An error means that the connection is gone.
                    full.wait_for(|full| !full).await.ok()?;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next entries that the client misses.
    fn page(&self, snapshot: &SessionSnapshot) -> Vec<Arc<Entry>> {
        let from = usize::try_from(self.sent).unwrap_or(usize::MAX).min(snapshot.entries.len());
        let to = from.saturating_add(REPLAY_PAGE).min(snapshot.entries.len());
        snapshot.entries.focus().narrow(from..to).into_iter().cloned().collect()
    }

    fn send_entry(&mut self, entry: &Arc<Entry>) -> Option<Pressure> {
        let offset = self.sent.saturating_add(1);
        let pressure = self.client.replay(self.number, &self.handle.entry_event(offset, entry));
        self.sent = offset;
        pressure
    }

    /// Shows the newest part of the history instead of what is missing.
    fn rehydrate(&mut self, reason: &'static str) -> Option<()> {
        let snapshot = self.handle.snapshot();
        self.sent = snapshot.offset;
        self.in_answer = None;
        for body in [Body::Stale { reason }, Body::SessionRehydrated(Arc::new(snapshot.rehydration()))] {
            self.send(snapshot.offset, body)?;
        }
        Some(())
    }

    /// Shows the open questions, which belong to no session. Not while the session's events wait: an open question may
    /// be waiting for them.
    fn ask_questions(&self) {
        if self.client.is_interactor() {
            for event in self.opener.shared.questions.joined(self.connection, &self.client) {
                let _ = self.client.deliver(&event);
            }
        }
    }

    /// Shows the last missing entries, what is in flight and the session's state, and ends the replay. Returns false,
    /// with nothing shown, if too much is missing.
    fn finish(&mut self) -> bool {
        let (hub, handle) = (self.opener.shared.hub.clone(), self.handle.clone());
        handle.let_in_replayed(&hub, self.connection, |snapshot, in_flight| {
            if snapshot.offset.saturating_sub(self.sent) > u64::try_from(REPLAY_PAGE).unwrap_or(u64::MAX) {
                return false;
            }
            for entry in self.page(snapshot) {
                let _ = self.send_entry(&entry);
            }
            let facts = snapshot.facts.clone();
            let mut bodies = vec![Body::SessionUpdated(facts.clone()), Body::FooterUpdated(facts)];
            if let Some(progress) = self.handle.progress.load().as_ref() {
                bodies.push(Body::WidgetSpecsUpdated(progress.specs.clone()));
                bodies.push(Body::WidgetsUpdated(progress.widgets.clone()));
                bodies.push(Body::StatusUpdated(progress.statuses.clone()));
            }
            for body in bodies {
                let _ = self.send(snapshot.offset, body);
            }
            for (body, piece) in in_flight.shown(self.in_answer.as_ref()) {
                let event =
                    Event { turn: in_flight.turn().cloned(), piece, ..self.event(snapshot.offset, body) };
                let _ = self.client.replay(self.number, &event);
            }
            let _ = self.send(snapshot.offset, Body::Synced);
            self.client.end_replay(self.number);
            true
        })
    }

    fn send(&self, offset: u64, body: Body) -> Option<Pressure> {
        self.client.replay(self.number, &self.event(offset, body))
    }

    fn event(&self, offset: u64, body: Body) -> Event {
        Event { offset, ..self.handle.event(body, None) }
    }
}
