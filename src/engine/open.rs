//! Opens sessions: new ones, live ones, stored ones, and forks. Does not know turns.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use crate::clock::rfc3339;
use crate::engine::actor::SessionActor;
use crate::engine::agent::Agent;
use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::idempotency::conflict;
use crate::engine::services::{Services, refused};
use crate::engine::snapshot::SessionSnapshot;
use crate::event::{Body, Cause, Diagnostic, Event};
use crate::limits::LET_GO_TRIES;
use crate::message::{EntryId, SessionId};
use crate::session::{ApiError, Call, Client, Opened, Reply, SessionServers, SwitchTarget};
use crate::store::record::{AgentRecord, KeyedRequest};
use crate::store::{Entry, EntryBody, Header, Parent, StoreError};

/// A session that was opened, and what tells that a turn which was cut off is marked.
type OpenedNow = (Handle, Option<oneshot::Receiver<()>>);

/// A session whose file is written when it is opened.
pub(super) struct Written {
    pub parent: Option<Parent>,
    pub cwd: Arc<str>,
    pub request: Option<Box<KeyedRequest>>,
    pub servers: SessionServers,
    /// The agent that answers its turns.
    pub agent: Option<Arc<str>>,
    /// Further folders, resolved.
    pub roots: Vec<PathBuf>,
}

/// Forks a session at its agent. Its value is what the fork's journal says of that.
pub(super) type ForksAtAgent = BoxFuture<'static, Result<AgentRecord, ApiError>>;

/// Opens sessions.
#[derive(Clone)]
pub struct Opener {
    pub shared: Arc<Services>,
    /// What answers their turns.
    pub agent: Arc<dyn Agent>,
}

impl Opener {
    /// An empty session. Its first entry creates its file.
    pub(super) fn create(&self, parent: Option<Parent>, cwd: Arc<str>) -> Handle {
        let header = Header {
            session: SessionId::from(self.shared.clock.id(SessionId::PREFIX)),
            created_at: rfc3339(self.shared.clock.now()),
            cwd,
            parent,
            request: None,
            replica_of: None,
        };
        let journal = self.shared.journals.create(header.clone());
        let handle = SessionActor::start(&self.shared, &self.agent, journal, header, Vec::new());
        self.shared.tree.admit(&handle);
        handle
    }

    /// Opens a session whose file is there before the answer, because its header has the key of the request, or because
    /// its first entry names its agent. A key that opened one before enters that one.
    pub(super) fn create_once(&self, call: Call, wanted: Written, reply: Reply<Opened>) {
        let Written { parent, cwd, request, servers, agent, roots } = wanted;
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                let _one_at_a_time = opener.shared.tree.opening_once.lock().await;
                if let Some(request) = &request {
                    match opener.opened_before(request, &cwd).await {
                        Ok(Some(handle)) => return opener.enter_again(&call, &handle, reply),
                        Ok(None) => {}
                        Err(error) => return reply.fail(error),
                    }
                }
                let header = opener.header(cwd, parent, request);
                let brought = |handle: &Handle| opener.shared.mcp.bring(handle, &servers);
                let agent = agent.or_else(|| opener.shared.settings.agent.clone());
                let first = agent.map(|name| {
                    let record = AgentRecord { name, agent_session_id: None, info: None };
                    Arc::new(Entry {
                        id: EntryId::from(opener.shared.clock.id("e-")),
                        parent: None,
                        ts: header.created_at.clone(),
                        request: None,
                        body: EntryBody::Agent(Box::new(record)),
                    })
                });
                match opener.start_written(header, first.into_iter().collect()).await {
                    Ok(handle) => {
                        handle.set_roots(roots);
                        match brought(&handle) {
                            Ok(()) => opener.enter(&call, &handle, reply),
                            Err(error) => reply.fail(error),
                        }
                    }
                    Err(error) => reply.fail(error),
                }
            },
            &self.shared.executor,
        );
    }

    /// The session that a request with the same key opened.
    ///
    /// # Errors
    /// If the key was used for another request.
    async fn opened_before(&self, request: &KeyedRequest, cwd: &str) -> Result<Option<Handle>, ApiError> {
        let window =
            SignedDuration::from_millis(i64::try_from(self.shared.idempotency_window()).unwrap_or(i64::MAX));
        let since = self.shared.clock.now().checked_sub(window).unwrap_or(Timestamp::MIN);
        let (journals, wanted, folder) =
            (self.shared.journals.clone(), request.clone(), std::path::PathBuf::from(cwd));
        let found = tokio::task::spawn_blocking(move || journals.opened_by(&folder, &wanted, since.into()));
        let found = found.await.map_err(|_| ApiError::failed("The sessions could not be read."))?;
        let Some(header) = found.map_err(|error| refused(&error))? else { return Ok(None) };
        if header.request.is_none_or(|known| known.digest != request.digest) {
            return Err(conflict(request));
        }
        match self.shared.tree.get(&header.session) {
            Ok(handle) => Ok(Some(handle)),
            Err(_) => self.open(SwitchTarget::Id(header.session)).await.map(Some),
        }
    }

    fn enter_again(&self, call: &Call, handle: &Handle, reply: Reply<Opened>) {
        let again = |opened: Result<Opened, _>| opened.map(|opened| Opened { is_repeated: true, ..opened });
        self.enter(call, handle, Reply::new(move |opened| reply.send(again(opened))));
    }

    /// The header of a new session.
    fn header(&self, cwd: Arc<str>, parent: Option<Parent>, request: Option<Box<KeyedRequest>>) -> Header {
        Header {
            session: SessionId::from(self.shared.clock.id(SessionId::PREFIX)),
            created_at: rfc3339(self.shared.clock.now()),
            cwd,
            parent,
            request: request.map(Arc::from),
            replica_of: None,
        }
    }

    /// Opens a session for a call, answers, and shows it to the connection.
    pub(super) fn switch(&self, call: Call, target: SwitchTarget, reply: Reply<Opened>) {
        if let SwitchTarget::Id(id) = &target
            && let Ok(handle) = self.shared.tree.get(id)
        {
            return self.enter(&call, &handle, reply);
        }
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                match opener.open(target).await {
                    Ok(handle) => opener.enter(&call, &handle, reply),
                    Err(error) => reply.fail(error),
                }
            },
            &self.shared.executor,
        );
    }

    /// Opens a session for a call, and shows it to nobody.
    pub(super) fn open_only(&self, call: Call, session: SessionId, reply: Reply<SessionId>) {
        if self.shared.tree.get(&session).is_ok() {
            return reply.ok(session);
        }
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                match opener.open(SwitchTarget::Id(session)).await {
                    Ok(handle) => {
                        reply.ok(handle.id.clone());
                        handle.tell(Change::TakeUp { variables: None });
                        opener.tell_repairs(&handle, &call);
                        opener.shared.tree.announce(Some(call.cause()));
                    }
                    Err(error) => reply.fail(error),
                }
            },
            &self.shared.executor,
        );
    }

    /// Reports the repairs of an opened session, once, however it was opened, as soon as a client shows it; and that not all
    /// rules are known, each time.
    pub(super) fn tell_repairs(&self, handle: &Handle, call: &Call) {
        if !self.shared.hub.clients().iter().any(|(_, client)| client.watches(Some(&handle.id))) {
            return;
        }
        let repairs = std::mem::take(&mut *handle.repairs.lock().unwrap_or_else(PoisonError::into_inner));
        for message in repairs {
            let body = Body::Diagnostic(Arc::new(Diagnostic::Repaired { message }));
            let _ = handle.show(&self.shared.hub, handle.event(body, Some(call.cause())));
        }
        let cwd = handle.snapshot().facts.cwd.clone();
        if let Some(message) = self.shared.kept_rules.damage(std::path::Path::new(&*cwd)) {
            let body = Body::Diagnostic(Arc::new(Diagnostic::RulesUnread { message }));
            let _ = handle.show(&self.shared.hub, handle.event(body, Some(call.cause())));
        }
    }

    /// Opens a session from disk unless it is live. The first client that shows it is told what was repaired.
    pub(super) async fn open(&self, target: SwitchTarget) -> Result<Handle, ApiError> {
        self.shared.tree.check_room()?;
        let mut tries = 0..LET_GO_TRIES;
        loop {
            match self.open_now(target.clone()).await {
                Err(error) if error.retryable && tries.next().is_some() => {
                    self.shared.tree.let_go(None).await
                }
                Ok((handle, recovered)) => {
                    // Not within the lock: it may have to wait for sessions that leave, and these wait for nobody to
                    // open one.
                    if let Some(recovered) = recovered {
                        let _ = recovered.await;
                    }
                    return Ok(handle);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn open_now(&self, target: SwitchTarget) -> Result<OpenedNow, ApiError> {
        let _one_at_a_time = self.shared.tree.opening.lock().await;
        let opener = self.clone();
        let loaded = tokio::task::spawn_blocking(move || {
            let journals = &opener.shared.journals;
            let id = match target {
                SwitchTarget::Location(location, wanted) => {
                    let id = journals.session_at(&location).map_err(|error| not_opened(&error))?;
                    if wanted.is_some_and(|wanted| wanted != id) {
                        let expected = format!("that of the session at :session-path, {id}");
                        return Err(ApiError::invalid_param("session-id", &expected));
                    }
                    id
                }
                SwitchTarget::Id(id) => id,
            };
            match opener.shared.tree.get(&id) {
                Ok(live) => Ok(Err(live)),
                Err(_) => journals.open(&id).map(Ok).map_err(|error| not_opened(&error)),
            }
        });
        match loaded.await.map_err(|_| ApiError::failed("The session could not be read."))?? {
            Err(handle) => Ok((handle, None)),
            Ok(loaded) => {
                // A long history is assembled off the tasks.
                let opener = self.clone();
                let started = tokio::task::spawn_blocking(move || {
                    SessionActor::start_loaded(&opener.shared, &opener.agent, loaded)
                });
                let handle = started.await.map_err(|_| ApiError::failed("The session could not be read."))?;
                // Whoever finds it finds a turn that was cut off marked.
                let (ack, recovered) = oneshot::channel();
                handle.tell(Change::Recover { ack });
                self.shared.tree.admit(&handle);
                Ok((handle, Some(recovered)))
            }
        }
    }

    /// A session with the history up to an entry, in its own file.
    pub(super) fn fork(
        &self,
        call: Call,
        source: &Handle,
        entry: EntryId,
        request: Option<Box<KeyedRequest>>,
        forks: Option<ForksAtAgent>,
        reply: Reply<Opened>,
    ) {
        let opener = self.clone();
        let source = source.clone();
        self.shared.tasks.spawn_on(
            async move {
                let _one_at_a_time = match &request {
                    None => None,
                    Some(request) => {
                        let guard = opener.shared.tree.opening_once.lock().await;
                        let cwd = source.snapshot().facts.cwd.clone();
                        match opener.opened_before(request, &cwd).await {
                            Ok(Some(handle)) => return opener.enter_again(&call, &handle, reply),
                            Ok(None) => Some(guard),
                            Err(error) => return reply.fail(error),
                        }
                    }
                };
                let record = match forks {
                    None => None,
                    Some(forks) => match forks.await {
                        Ok(record) => Some(record),
                        Err(error) => return reply.fail(error),
                    },
                };
                match opener.write_fork(&source, entry, request, record).await {
                    Ok(handle) => opener.enter(&call, &handle, reply),
                    Err(error) => reply.fail(error),
                }
            },
            &self.shared.executor,
        );
    }

    async fn write_fork(
        &self,
        source: &Handle,
        entry: EntryId,
        request: Option<Box<KeyedRequest>>,
        record: Option<AgentRecord>,
    ) -> Result<Handle, ApiError> {
        self.shared.tree.check_room()?;
        let snapshot = source.snapshot();
        let mut entries = match snapshot.place(&entry) {
            // The visible branch is shared, not copied.
            Some(place) => snapshot.branch.take(place.saturating_add(1)),
            None => {
                let wanted = entry.clone();
                let path = source.ask(|ack| Change::PathTo { entry: wanted, ack }).await?;
                path.ok_or_else(|| ApiError::not_found("entry", entry.as_str()))?
            }
        };
        let facts = snapshot.facts.clone();
        if let Some(record) = record {
            entries.push_back(Arc::new(Entry {
                id: EntryId::from(self.shared.clock.id("e-")),
                parent: entries.last().map(|last| last.id.clone()),
                ts: rfc3339(self.shared.clock.now()),
                request: None,
                body: EntryBody::Agent(Box::new(record)),
            }));
        }
        let parent = Parent { session: source.id.clone(), path: None, entry: Some(entry) };
        let header = self.header(facts.cwd.clone(), Some(parent), request);
        let handle = self.start_written(header, entries).await?;
        // What nobody was told of its source yet holds for the fork as well.
        *handle.repairs.lock().unwrap_or_else(PoisonError::into_inner) = source.untold_repairs();
        Ok(handle)
    }

    /// Writes a session's file with its first entries, and starts the session.
    async fn start_written(
        &self,
        header: Header,
        entries: imbl::Vector<Arc<Entry>>,
    ) -> Result<Handle, ApiError> {
        let own = header.session.clone();
        let mut tries = 0..LET_GO_TRIES;
        let handle = loop {
            let (opener, header, entries) = (self.clone(), header.clone(), entries.clone());
            let written = tokio::task::spawn_blocking(move || {
                let journal =
                    opener.shared.journals.create_with(header.clone(), &mut entries.iter().cloned());
                let journal = journal.map_err(|error| refused(&error))?;
                Ok::<_, ApiError>(SessionActor::start(
                    &opener.shared,
                    &opener.agent,
                    journal,
                    header,
                    entries.into_iter().collect(),
                ))
            });
            match written.await.map_err(|_| ApiError::failed("The session could not be written."))? {
                Err(error) if error.retryable && tries.next().is_some() => {
                    self.shared.tree.let_go(Some(&own)).await;
                }
                written => break written?,
            }
        };
        self.shared.tree.admit(&handle);
        Ok(handle)
    }

    /// Moves a connection's focus to a session, answers, and then shows the session: that it was resumed, its
    /// newest part, its state, and the live sessions. Requests after the answer apply to the new focus.
    pub(super) fn enter(&self, call: &Call, handle: &Handle, reply: Reply<Opened>) {
        let client = self.shared.hub.client(call.connection);
        handle.let_in(&self.shared.hub, call.connection, |snapshot| {
            if let Some(client) = &client {
                client.focus(handle.id.clone());
            }
            let location = snapshot.facts.location.as_deref().map(str::to_owned);
            reply.ok(Opened { session: handle.id.clone(), location, is_repeated: false });
            let Some(client) = &client else { return };
            let facts = snapshot.facts.clone();
            let queue = Body::QueueUpdated(Arc::new(snapshot.queue.shown()));
            let state = [Body::SessionUpdated(facts.clone()), Body::FooterUpdated(facts), queue];
            let bodies = history(snapshot).into_iter().chain(state);
            show(client.as_ref(), handle, snapshot, bodies, Some(&call.cause()));
        });
        handle.tell(Change::TakeUp { variables: None });
        if client.is_none() {
            return;
        }
        self.tell_repairs(handle, call);
        self.shared.tree.announce(Some(call.cause()));
    }
}

/// Why a journal was not opened.
fn not_opened(error: &StoreError) -> ApiError {
    match error {
        StoreError::Missing { path } => ApiError::not_found("session file", &path.to_string_lossy()),
        StoreError::NoSession { session } => ApiError::not_found("session", session.as_str()),
        error => refused(error),
    }
}

/// The first events for a client with a new focus: which session it is, and its newest part.
pub(super) fn history(snapshot: &SessionSnapshot) -> [Body; 2] {
    let resumed = Body::SessionResumed {
        location: snapshot.facts.location.clone(),
        message_count: snapshot.facts.message_count,
    };
    [resumed, Body::SessionRehydrated(Arc::new(snapshot.rehydration()))]
}

/// Sends one client the state of a session that it joins.
pub(super) fn show(
    client: &dyn Client,
    handle: &Handle,
    snapshot: &SessionSnapshot,
    bodies: impl IntoIterator<Item = Body>,
    cause: Option<&Cause>,
) {
    for body in bodies {
        let event = handle.event(body, cause.cloned());
        let _ = client.deliver(&Event { offset: snapshot.offset, ..event });
    }
}
