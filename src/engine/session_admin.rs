//! Renames, archives and deletes any session, live or stored. Does not know how a session runs.

use tokio::sync::{mpsc, oneshot};

use crate::catalogue::ErrorCode;
use crate::claims::Claims;
use crate::engine::change::{Change, Unload};
use crate::engine::handle::Handle;
use crate::engine::open::Opener;
use crate::engine::services::{Services, refused};
use crate::engine::working_sessions::AT_WORK;
use crate::facts::Phase;
use crate::limits::{LEFT_AT_WORK, LET_GO_TRIES};
use crate::message::SessionId;
use crate::session::{ApiError, Call, Reply, SwitchTarget};
use crate::store::StoreError;
use crate::tool::output::Outputs;

impl Opener {
    /// Names a session. One that is not live is opened for that, and leaves again.
    pub(super) fn rename(&self, call: Call, session: SessionId, name: String, reply: Reply<String>) {
        if let Ok(handle) = self.shared.tree.get(&session) {
            return handle.tell(Change::SetName { call, name, reply });
        }
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                let handle = match opener.open(SwitchTarget::Id(session)).await {
                    Ok(opened) => opened,
                    Err(error) => return reply.fail(error),
                };
                opener.tell_repairs(&handle, &call);
                // Noted before the answer: whoever looks the session up after it keeps the session.
                let lookup = handle.last_used();
                let (named, done) = oneshot::channel();
                let reply = Reply::new(move |name| {
                    reply.send(name);
                    let _ = named.send(());
                });
                handle.tell(Change::SetName { call, name, reply });
                let _ = done.await;
                handle.tell(Change::Unload(Unload { lookup, waiting: None }));
            },
            &self.shared.executor,
        );
    }

    /// Archives a session, or takes it out again, and tells everybody who lists sessions.
    pub(super) fn archive(&self, call: Call, session: SessionId, archived: bool, reply: Reply<bool>) {
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                let done = opener.archive_now(&call, &session, archived).await;
                let cause = done.is_ok().then(|| call.cause());
                reply.send(done.map(|()| archived));
                if cause.is_some() {
                    opener.shared.tree.announce(cause);
                }
            },
            &self.shared.executor,
        );
    }

    async fn archive_now(&self, call: &Call, session: &SessionId, archived: bool) -> Result<(), ApiError> {
        // One that leaves lets go of its file within this lock. Nobody opens it while it is archived.
        let not_opening = self.shared.tree.opening.lock().await;
        let live = self.shared.tree.get(session).ok();
        let _not_opening = live.is_none().then_some(not_opening);
        if let Some(handle) = live.as_ref().filter(|_| archived) {
            let facts = handle.snapshot().facts.clone();
            if facts.phase != Phase::Idle {
                return Err(in_use(session, "a turn runs in it"));
            }
            if self.shared.tree.is_viewed(session, Some(call.connection)) {
                return Err(in_use(session, "another client shows it"));
            }
            if facts.location.is_none() {
                return Err(ApiError::invalid_param("session-id", "that of a session with an entry"));
            }
        }
        let (shared, id) = (self.shared.clone(), session.clone());
        let kept = tokio::task::spawn_blocking(move || {
            shared.read_journals(|journals| journals.archive(&id, archived))
        });
        kept.await
            .map_err(|_| ApiError::failed("The session could not be archived."))?
            .map_err(|error| not_changed(&error))?;
        match live {
            Some(handle) => handle.ask(|ack| Change::Archived { archived, ack }).await,
            None => Ok(()),
        }
    }

    /// Deletes a session, and tells everybody who lists sessions.
    pub(super) fn delete(&self, call: Call, session: SessionId, reply: Reply<()>) {
        let opener = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                let done = opener.delete_now(&session).await;
                let cause = done.is_ok().then(|| call.cause());
                reply.send(done);
                if cause.is_some() {
                    opener.shared.tree.announce(cause);
                }
            },
            &self.shared.executor,
        );
    }

    async fn delete_now(&self, session: &SessionId) -> Result<(), ApiError> {
        let tree = &self.shared.tree;
        if let Some(federation) = self.shared.federation.get() {
            // A host that follows it has a copy, which is that host's own afterwards.
            federation.let_go(session);
        }
        let (mut was_live, mut location) = (false, None);
        let mut tries = 0..LET_GO_TRIES;
        // Nobody opens it again while it is deleted.
        let _not_opening = loop {
            let not_opening = tree.opening.lock().await;
            let Ok(handle) = tree.get(session) else { break not_opening };
            drop(not_opening);
            was_live = true;
            location = handle.snapshot().facts.location.clone();
            if tree.is_viewed(session, None) {
                return Err(in_use(session, "a client shows it; turn that to another one first"));
            }
            tree.begin_elsewhere(session);
            if !put_out(&handle).await && tries.next().is_none() {
                return Err(in_use(session, "something runs in it"));
            }
        };
        let (shared, id) = (self.shared.clone(), session.clone());
        let deleted = tokio::task::spawn_blocking(move || {
            match shared.read_journals(|journals| journals.discard(&id, location.as_deref())) {
                // It had no entry yet, so that it was nowhere but in memory.
                Err(StoreError::NoSession { .. }) if was_live => return Ok(()),
                discarded => discarded.map_err(|error| not_changed(&error))?,
            }
            let remove = remove_rest(&shared, &id);
            remove.map_err(|why| {
                let what =
                    "The session is deleted, but not all that was kept of it. The next start tries again";
                ApiError::failed(format!("{what}: {why}"))
            })
        });
        deleted.await.map_err(|_| ApiError::failed("The session could not be deleted."))?
    }
}

/// Makes an idle session leave the live ones; whether it did.
async fn put_out(handle: &Handle) -> bool {
    let (waiting, mut done) = mpsc::channel(1);
    handle.tell(Change::Unload(Unload { lookup: handle.last_used(), waiting: Some(waiting) }));
    done.recv().await.is_some()
}

/// Removes what is left of discarded sessions, after a kill in the middle of a deletion.
pub(super) fn finish_deletions(services: &Services) {
    let left = services.journals.discarded().unwrap_or_default();
    for session in left {
        if let Err(why) = remove_rest(services, &session) {
            tracing::warn!(%session, %why, "a deleted session is not gone completely");
        }
    }
}

/// Removes the outputs of a discarded session and its note for the next daemon, and then the rest of it.
fn remove_rest(services: &Services, session: &SessionId) -> Result<(), String> {
    let outputs = Outputs::new(&services.settings.state_dir, session.as_str());
    outputs.remove_all().map_err(|error| error.to_string())?;
    let notes = Claims::new(services.settings.state_dir.join(AT_WORK), LEFT_AT_WORK);
    notes.forget(session.as_str()).map_err(|error| error.to_string())?;
    services.journals.forget(session).map_err(|error| error.to_string())
}

/// The refusal to change a session that is in use.
fn in_use(session: &SessionId, why: &str) -> ApiError {
    let why = format!("The session {:?} is in use: {why}.", session.as_str());
    ApiError::new(ErrorCode::SessionNotIdle, why)
}

fn not_changed(error: &StoreError) -> ApiError {
    match error {
        StoreError::NoSession { session } => ApiError::not_found("session", session.as_str()),
        StoreError::Locked { .. } => ApiError::new(ErrorCode::SessionNotIdle, error.to_string()),
        error => refused(error),
    }
}
