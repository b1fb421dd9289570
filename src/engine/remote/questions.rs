//! The questions of a session's turns, which its owner asks here and other hosts ask their people.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::ask::{Owner, owner_elsewhere};
use super::call::RemoteCall;
use super::response::{RemoteQuestion, response};
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::interaction::{Origin, Question};
use crate::session::{ApiError, Call};

/// Has the owner of a session tell this host what no entry says, and asks this host's clients what it asks.
pub async fn follow_owner(engine: &Engine, handle: &Handle) {
    let Some(federation) = engine.shared.federation.get() else { return };
    let owner = Owner::of(engine, federation, handle, 0);
    let answers = engine.shared.tree.is_answered(&handle.id);
    let open: Result<Vec<RemoteQuestion>, ApiError> = owner.call(&RemoteCall::Follow { answers }).await;
    match open {
        Ok(open) => open.into_iter().for_each(|question| ask_for_owner(engine, handle, question)),
        Err(error) => tracing::debug!(%error, "the questions of another host are not known"),
    }
}

/// The open questions of a session's turns.
pub(super) fn open_questions(engine: &Engine, handle: &Handle) -> Vec<RemoteQuestion> {
    let open = engine.shared.questions.open().into_iter();
    let own = open.filter(|(_, _, question, _)| question.origin.session == handle.id && question.journalled);
    own.map(|(_, id, question, _)| RemoteQuestion {
        id,
        turn: question.origin.turn.clone(),
        content: (*question.content).clone(),
    })
    .collect()
}

/// Asks this host's clients a question of another host, with its id, and gives that host the answer.
fn ask_for_owner(engine: &Engine, handle: &Handle, asked: RemoteQuestion) {
    let RemoteQuestion { id, turn, content } = asked;
    let stop = CancellationToken::new();
    if !handle.asks_for_owner(&id, stop.clone()) {
        return;
    }
    let correlation = turn.as_ref().map_or_else(|| id.clone(), |turn| turn.as_str().into());
    let origin = Origin {
        session: handle.id.clone(),
        offset: handle.snapshot().offset,
        turn,
        cause: None,
        correlation,
        subagent: None,
    };
    let question = Question {
        content: Arc::new(content),
        warnings: Arc::default(),
        origin,
        timeout: None,
        unattended: false,
        journalled: false,
    };
    let (shared, engine, handle) = (engine.shared.clone(), engine.clone(), handle.clone());
    let asking = async move {
        let resolution = engine.shared.questions.ask_as(id.clone(), question, &stop).await;
        handle.asked_for_owner(&id);
        let Some(response) = response(&id, resolution) else { return };
        let call = Call { connection: 0, request: id, session: handle.id.clone() };
        let Some(owner) = owner_elsewhere(&engine, &call) else { return };
        if let Err(error) = owner.call::<()>(&RemoteCall::Respond(response)).await {
            tracing::warn!(%error, "an answer did not reach the session's owner");
        }
    };
    shared.tasks.spawn_on(asking, &shared.executor);
}
