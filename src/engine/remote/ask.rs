//! Asks the owner of a session, and waits for its answer.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::call::{RemoteAnswer, RemoteCall, written};
use crate::catalogue::ErrorCode;
use crate::edn;
use crate::engine::follower::Followers;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::services::refused;
use crate::federation::Federation;
use crate::message::SessionId;
use crate::realm::RealmRequest;
use crate::session::{ApiError, Call, Prompt, Prompted, Reply};
use crate::store::StoreError;

/// The owner of a session, which is another host.
pub struct Owner {
    pub(super) engine: Engine,
    federation: Arc<Federation>,
    session: SessionId,
    /// The client that asks, if one does: once it is gone, nobody waits for the end of a call.
    client: Option<u64>,
    /// Whether nobody is asked: another host asks this one, or the session is this one's and not at work yet.
    is_nobody: bool,
}

/// The owner of a call's session, if that is another host. What another host asks is passed on to nobody: two hosts that
/// take each other for the owner would ask each other for ever.
pub fn owner_elsewhere(engine: &Engine, call: &Call) -> Option<Owner> {
    let federation = engine.shared.federation.get()?;
    let handle = engine.shared.tree.get(&call.session).ok()?;
    if !handle.snapshot().facts.is_elsewhere {
        return None;
    }
    engine.attend(call, &handle);
    Some(Owner::of(engine, federation, &handle, call.connection))
}

/// Why something is not done for a session of another host: it stays there.
pub fn stays_elsewhere(handle: &Handle) -> Option<ApiError> {
    let facts = handle.snapshot().facts.clone();
    let host = facts.host.as_deref().filter(|_| facts.is_elsewhere)?;
    Some(refused(&StoreError::Owned { host: host.to_owned() }))
}

impl Owner {
    /// The owner of a session that is open here, and another host's, for a connection; 0 is none.
    pub(super) fn of(
        engine: &Engine,
        federation: &Arc<Federation>,
        handle: &Handle,
        connection: u64,
    ) -> Self {
        let is_here = handle.snapshot().facts.host.as_deref() == Some(federation.host().as_str());
        Self {
            engine: engine.clone(),
            federation: federation.clone(),
            session: handle.id.clone(),
            client: (connection != 0).then_some(connection),
            is_nobody: is_here || Followers::has(connection),
        }
    }

    /// The owner of a session that need not be open here, if the realm's list has another host as that.
    pub fn listed(engine: &Engine, session: &SessionId) -> Option<Self> {
        let federation = engine.shared.federation.get()?;
        let owner = federation.owner(session)?;
        let (engine, federation, session) = (engine.clone(), federation.clone(), session.clone());
        (owner.host != *federation.host()).then_some(Self {
            engine,
            federation,
            session,
            client: None,
            is_nobody: false,
        })
    }

    /// Asks, and completes the reply with the answer.
    pub fn ask<T: DeserializeOwned + Send + 'static>(self, call: RemoteCall, reply: Reply<T>) {
        let executor = self.engine.shared.executor.clone();
        let tasks = self.engine.shared.tasks.clone();
        tasks.spawn_on(async move { reply.send(self.call(&call).await) }, &executor);
    }

    /// Asks for a prompt. Its key is known before: the request may come to the owner's next process again, and its entry is
    /// shown as that of the client that asks.
    pub fn ask_prompt(
        self,
        call: &Call,
        mut prompt: Prompt,
        asked: fn(Prompt) -> RemoteCall,
        reply: Reply<Prompted>,
    ) {
        let key = prompt.idempotency_key.get_or_insert_with(|| self.engine.shared.clock.id("r-"));
        if let Ok(handle) = self.engine.shared.tree.get(&self.session) {
            handle.asks_owner(key.as_str().into(), call.cause());
        }
        self.ask(asked(prompt), reply);
    }

    /// Asks, and waits: for the end of a call that may take long while its owner lives, and the client that asks is there.
    ///
    /// # Errors
    /// What the owner refuses, and where there is no answer from it.
    pub async fn call<T: DeserializeOwned>(&self, call: &RemoteCall) -> Result<T, ApiError> {
        if self.is_nobody {
            self.federation.may_begin().map_err(|error| refused(&error))?;
            return Err(refused(&StoreError::RealmUnreachable(format!(
                "The host {} does not continue the session yet, or not any more. Try again; if the session was given to \
                 that host, take it there (/take FOLDER).",
                self.federation.host()
            ))));
        }
        let id: Arc<str> = self.engine.shared.clock.id("r-").into();
        let mut answer = self.post(&id, call).await?;
        if matches!(answer, RemoteAnswer::Begun) {
            let end = RemoteCall::End(id);
            let asked = self.post(&self.engine.shared.clock.id("r-").into(), &end).await;
            answer = asked.map_err(|error| ApiError::new(ErrorCode::RealmInDoubt, begun(&error.message)))?;
        }
        match answer {
            RemoteAnswer::Done(done) => Ok(done),
            RemoteAnswer::Refused { code, message, data, retryable } => {
                Err(ApiError { code, message, data, retryable })
            }
            RemoteAnswer::Begun => Err(self.unreadable()),
        }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        id: &Arc<str>,
        call: &RemoteCall,
    ) -> Result<RemoteAnswer<T>, ApiError> {
        let params = edn::to_value(call).map_err(|error| ApiError::failed(error.to_string()))?;
        let request = RealmRequest { id: id.clone(), call: written(&params).into() };
        let is_patient = || matches!(call, RemoteCall::End(_)) && self.is_awaited();
        let answer = self.federation.post(&self.session, &request, is_patient).await;
        let answer = answer.map_err(|error| refused(&error))?;
        let read = edn::read_one(answer.as_bytes()).ok();
        read.and_then(|value| edn::from_value(value.into_owned()).ok()).ok_or_else(|| self.unreadable())
    }

    fn is_awaited(&self) -> bool {
        self.client.is_none_or(|client| self.engine.shared.hub.client(client).is_some())
    }

    fn unreadable(&self) -> ApiError {
        let owner = self.federation.owner(&self.session);
        let host = owner.map_or_else(|| "the session's owner".to_owned(), |owner| owner.host.to_string());
        ApiError::failed(format!(
            "The answer of {host} cannot be read: its program is a newer one. What was asked may be done there. Update \
             this host's program."
        ))
    }
}

/// What is told of a call that has begun at its owner, if its end cannot be known.
fn begun(why: &str) -> String {
    format!(
        "It began at the session's owner, and may be done, in part or as a whole: how it ended is not known. {why}"
    )
}
