//! Opens sessions: new ones, live ones, stored ones, and forks. Does not know turns.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::event::{Body, Cause, Diagnostic, Event};
use crate::facts::{ListedSession, SessionFacts, Slot};
use crate::limits::{LET_GO_TRIES, LISTED_SESSIONS, SEARCH_HITS};
use crate::message::{EntryId, SessionId};
use crate::runtime::Shared;
use crate::runtime::change::Change;
use crate::runtime::live::Live;
use crate::runtime::mailbox::{Handle, Snapshot};
use crate::session::{ApiError, Call, Client, Opened, Reply, Scope, SwitchTarget};
use crate::store::{Header, Loaded, Parent, SessionInfo, StoreError};

impl Shared {
    /// A session's handle.
    ///
    /// # Errors
    /// `request/not-found` if it is not live.
    pub(super) fn session(&self, id: &SessionId) -> Result<Handle, ApiError> {
        let entry = self.sessions.get(id).ok_or_else(|| ApiError::not_found("session", id.as_str()))?;
        // Recorded while the map's entry is held, so that the session is not unloaded in between.
        self.touch(entry.value());
        Ok(entry.value().clone())
    }

    /// An empty session. Its first entry creates its file.
    pub(super) fn create(self: &Arc<Self>, parent: Option<Parent>, cwd: Arc<str>) -> Handle {
        let header = Header {
            session: SessionId::from(self.clock.id("s-")),
            created_at: rfc3339(self.clock.now()),
            cwd,
            parent,
        };
        let journal = self.store.create(header.clone());
        let handle = Live::start(self, journal, header, Vec::new());
        self.admit(&handle);
        handle
    }

    /// Opens a session for a call, answers, and shows it to the connection.
    pub(super) fn switch(self: &Arc<Self>, call: Call, target: SwitchTarget, reply: Reply<Opened>) {
        if let SwitchTarget::Id(id) = &target
            && let Ok(handle) = self.session(id)
        {
            return self.enter(&call, &handle, reply);
        }
        let shared = self.clone();
        self.tasks.spawn_on(
            async move {
                match shared.open(target).await {
                    Ok((handle, repairs)) => {
                        shared.enter(&call, &handle, reply);
                        shared.tell_repairs(&handle, repairs, &call);
                    }
                    Err(error) => reply.fail(error),
                }
            },
            &self.executor,
        );
    }

    /// Reports the repairs of an opened session.
    fn tell_repairs(&self, handle: &Handle, repairs: Vec<String>, call: &Call) {
        for message in repairs {
            let body = Body::Diagnostic(Arc::new(Diagnostic::Repaired { message }));
            let _ = handle.show(&self.hub, session_event(handle, body, Some(call.cause())));
        }
    }

    /// Opens a session from disk unless it is live, and returns its repairs in words.
    async fn open(self: &Arc<Self>, target: SwitchTarget) -> Result<(Handle, Vec<String>), ApiError> {
        self.check_room()?;
        let mut tries = 0..LET_GO_TRIES;
        loop {
            match self.open_now(target.clone()).await {
                Err(error) if error.retryable && tries.next().is_some() => self.let_go(None).await,
                opened => return opened,
            }
        }
    }

    async fn open_now(self: &Arc<Self>, target: SwitchTarget) -> Result<(Handle, Vec<String>), ApiError> {
        let _one_at_a_time = self.opening.lock().await;
        let shared = self.clone();
        let loaded = tokio::task::spawn_blocking(move || {
            let path = match &target {
                SwitchTarget::Path(path) => PathBuf::from(path),
                SwitchTarget::Id(id) => {
                    let found = shared.store.look_up(id).map_err(|error| refused(&error))?;
                    found.ok_or_else(|| ApiError::not_found("session", id.as_str()))?
                }
            };
            if let Some(handle) = shared.live_at(&path) {
                return Ok(Err(handle));
            }
            match shared.store.open(&path) {
                Ok(loaded) => shared.not_live(loaded).map(Ok),
                Err(StoreError::Missing { path }) => {
                    Err(ApiError::not_found("session file", &path.to_string_lossy()))
                }
                Err(error) => Err(refused(&error)),
            }
        });
        match loaded.await.map_err(|_| ApiError::failed("The session could not be read."))?? {
            Err(handle) => Ok((handle, Vec::new())),
            Ok(loaded) => {
                // A long history is assembled off the tasks.
                let shared = self.clone();
                let started = tokio::task::spawn_blocking(move || Live::start_loaded(&shared, loaded));
                let (handle, faults) =
                    started.await.map_err(|_| ApiError::failed("The session could not be read."))?;
                self.admit(&handle);
                Ok((handle, faults))
            }
        }
    }

    /// Refuses a copy of a live session's file, because two files would grow under one id.
    fn not_live(&self, loaded: Loaded) -> Result<Loaded, ApiError> {
        match self.session(&loaded.header.session) {
            Ok(live) => Err(ApiError::failed(format!(
                "{} is a copy of the session {}, which is open. Switch to that one, or fork it.",
                loaded.journal.path().display(),
                live.id
            ))),
            Err(_) => Ok(loaded),
        }
    }

    /// The live session whose journal is that file.
    fn live_at(&self, path: &Path) -> Option<Handle> {
        let wanted = path.canonicalize().ok()?;
        let found = self.sessions.iter().find(|entry| {
            let file = entry.value().snapshot().facts.file.clone();
            file.and_then(|file| Path::new(&*file).canonicalize().ok()).is_some_and(|file| file == wanted)
        })?;
        self.touch(found.value());
        Some(found.value().clone())
    }

    /// A session with the history up to an entry, in its own file.
    pub(super) fn fork(self: &Arc<Self>, call: Call, source: &Handle, entry: EntryId, reply: Reply<Opened>) {
        let shared = self.clone();
        let source = source.clone();
        self.tasks.spawn_on(
            async move {
                match shared.write_fork(&source, entry).await {
                    Ok(handle) => shared.enter(&call, &handle, reply),
                    Err(error) => reply.fail(error),
                }
            },
            &self.executor,
        );
    }

    async fn write_fork(self: &Arc<Self>, source: &Handle, entry: EntryId) -> Result<Handle, ApiError> {
        self.check_room()?;
        let snapshot = source.snapshot();
        let entries = match snapshot.place(&entry) {
            // The visible branch is shared, not copied.
            Some(place) => snapshot.branch.take(place.saturating_add(1)),
            None => {
                let wanted = entry.clone();
                let path = source.ask(|ack| Change::PathTo { entry: wanted, ack }).await?;
                path.ok_or_else(|| ApiError::not_found("entry", entry.as_str()))?
            }
        };
        let facts = snapshot.facts.clone();
        let parent = Parent { session: source.id.clone(), path: facts.file.clone(), entry: Some(entry) };
        let header = Header {
            session: SessionId::from(self.clock.id("s-")),
            created_at: rfc3339(self.clock.now()),
            cwd: facts.cwd.clone(),
            parent: Some(parent),
        };
        let mut tries = 0..LET_GO_TRIES;
        let handle = loop {
            let (shared, header, entries) = (self.clone(), header.clone(), entries.clone());
            let written = tokio::task::spawn_blocking(move || {
                let journal = shared.store.create_with(&header, entries.iter().cloned());
                let journal = journal.map_err(|error| refused(&error))?;
                Ok::<_, ApiError>(Live::start(&shared, journal, header, entries.into_iter().collect()))
            });
            match written.await.map_err(|_| ApiError::failed("The fork could not be written."))? {
                Err(error) if error.retryable && tries.next().is_some() => {
                    self.let_go(Some(&source.id)).await;
                }
                written => break written?,
            }
        };
        self.admit(&handle);
        Ok(handle)
    }

    /// Moves a connection's focus to a session, answers, and then shows the session: that it was resumed, its
    /// newest part, its state, and the live sessions. Requests after the answer apply to the new focus.
    pub(super) fn enter(&self, call: &Call, handle: &Handle, reply: Reply<Opened>) {
        let client = self.hub.client(call.connection);
        handle.let_in(&self.hub, call.connection, |snapshot| {
            if let Some(client) = &client {
                client.focus(handle.id.clone());
            }
            let file = snapshot.facts.file.as_deref().map(str::to_owned);
            reply.ok(Opened { session: handle.id.clone(), file });
            let Some(client) = &client else { return };
            let facts = snapshot.facts.clone();
            let state = [Body::SessionUpdated(facts.clone()), Body::FooterUpdated(facts)];
            let bodies = history(snapshot).into_iter().chain(state);
            show(client.as_ref(), handle, snapshot, bodies, Some(&call.cause()));
        });
        if client.is_none() {
            return;
        }
        self.announce_context(Some(call.cause()));
    }
}

/// The first events for a client with a new focus: which session it is, and its newest part.
pub(super) fn history(snapshot: &Snapshot) -> [Body; 2] {
    let resumed = Body::SessionResumed {
        session_file: snapshot.facts.file.clone(),
        message_count: snapshot.facts.message_count,
    };
    [resumed, Body::SessionRehydrated(Arc::new(snapshot.rehydration()))]
}

/// Sends one client the state of a session that it joins.
pub(super) fn show(
    client: &dyn Client,
    handle: &Handle,
    snapshot: &Snapshot,
    bodies: impl IntoIterator<Item = Body>,
    cause: Option<&Cause>,
) {
    for body in bodies {
        let event = session_event(handle, body, cause.cloned());
        let _ = client.deliver(&Event { offset: snapshot.offset, ..event });
    }
}

/// An error of the store. A lack of descriptors or memory is retryable.
pub(super) fn refused(error: &StoreError) -> ApiError {
    ApiError { retryable: error.may_pass(), ..ApiError::failed(error.to_string()) }
}

/// An event of a session outside any turn.
pub(super) fn session_event(handle: &Handle, body: Body, cause: Option<Cause>) -> Event {
    Event {
        session: Some(handle.id.clone()),
        offset: handle.snapshot().offset,
        turn: None,
        entry: None,
        cause,
        body,
    }
}

impl Shared {
    /// The sessions of a list, newest first: live ones with their state, stored ones with the facts from both
    /// ends of their files.
    ///
    /// # Errors
    /// If the list would be incomplete.
    pub(super) fn list(
        &self,
        asking: &SessionFacts,
        limit: Option<usize>,
        scope: Scope,
    ) -> Result<Vec<ListedSession>, ApiError> {
        let project = (scope == Scope::Project).then(|| Path::new(&*asking.cwd));
        let mut slots: Vec<ListedSession> = Vec::new();
        let live = self.live();
        for handle in live.iter().rev() {
            let facts = handle.snapshot().facts.clone();
            if scope == Scope::All || facts.cwd == asking.cwd {
                slots.push(live_slot(&facts, asking));
            }
        }
        let known: HashSet<&SessionId> = live.iter().map(|handle| &handle.id).collect();
        let limit = limit.unwrap_or(LISTED_SESSIONS);
        let room = limit.saturating_sub(slots.len());
        if room > 0 {
            let on_disk = self.read_store(|store| store.list(project)).map_err(|error| refused(&error))?;
            let on_disk = on_disk.into_iter().filter(|info| !known.contains(&info.header.session));
            slots.extend(on_disk.take(room).map(disk_slot));
        }
        slots.truncate(limit);
        Ok(slots)
    }
}

impl Shared {
    /// The sessions with a text in a message or in their name, best first, each with an `excerpt`.
    ///
    /// # Errors
    /// Those of [`Shared::list`].
    pub(super) fn search(
        &self,
        asking: &SessionFacts,
        text: &str,
        limit: Option<usize>,
        scope: Scope,
    ) -> Result<Vec<ListedSession>, ApiError> {
        let project = (scope == Scope::Project).then(|| Path::new(&*asking.cwd));
        let limit = limit.unwrap_or(SEARCH_HITS).min(SEARCH_HITS);
        let hits = self.read_store(|store| store.search(project, text, limit));
        let hits = hits.map_err(|error| refused(&error))?.into_iter().map(|hit| {
            let mut listed = disk_slot(hit.info);
            // A live session is shown with its current state.
            if let Ok(live) = self.session(&listed.slot.id) {
                listed =
                    ListedSession { modified: listed.modified, ..live_slot(&live.snapshot().facts, asking) };
            }
            listed.excerpt = Some(hit.excerpt);
            listed
        });
        Ok(hits.collect())
    }
}

fn live_slot(facts: &SessionFacts, asking: &SessionFacts) -> ListedSession {
    let is_active = facts.id == asking.id;
    ListedSession { slot: Slot::new(facts), is_active, modified: None, excerpt: None }
}

fn disk_slot(info: SessionInfo) -> ListedSession {
    let slot = Slot {
        name: info.name.map(Arc::from),
        first_message: info.first_message.map(Arc::from),
        cwd: info.header.cwd,
        is_streaming: false,
        parent: info.header.parent.map(|parent| parent.session),
        created_at: info.header.created_at,
        message_count: info.messages,
        file: Some(info.path.to_string_lossy().into()),
        id: info.header.session,
    };
    let modified = jiff::Timestamp::try_from(info.modified).ok().map(rfc3339);
    ListedSession { slot, is_active: false, modified, excerpt: None }
}
