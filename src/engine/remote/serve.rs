//! Takes what other hosts ask of sessions of this one.

use std::sync::Arc;

use super::call::{RemoteAnswer, RemoteCall};
use super::dispatch::carry_out;
use super::reply::{PendingReply, text_of};
use crate::catalogue::ErrorCode;
use crate::edn;
use crate::engine::host::Engine;
use crate::federation::Federation;
use crate::realm::Posted;
use crate::session::{ApiError, Call, SwitchTarget};

/// Takes a request of another host, if its session is live here, or else with `opens`. Returns whether it is taken.
pub fn take_request(engine: &Engine, posted: &Arc<Posted>, opens: bool) -> bool {
    let Some(federation) = engine.shared.federation.get().cloned() else { return false };
    if !opens && engine.shared.tree.get(&posted.session).is_err() {
        return false;
    }
    if !engine.remote.is_new(&posted.request.id) {
        return true;
    }
    let (shared, engine, posted) = (engine.shared.clone(), engine.clone(), posted.clone());
    shared.tasks.spawn_on(async move { serve(&engine, federation, &posted).await }, &shared.executor);
    true
}

async fn serve(engine: &Engine, federation: Arc<Federation>, posted: &Posted) {
    let (request, executor) = (posted.request.id.clone(), engine.shared.executor.clone());
    let mut owed =
        PendingReply { federation: federation.clone(), request: request.clone(), executor, end: None };
    let call = edn::read_one(posted.request.call.as_bytes()).map(|value| value.into_owned());
    let asked = match call.ok().and_then(|value| edn::from_value::<RemoteCall>(value).ok()) {
        Some(RemoteCall::End(of)) => return owed.send_end(&engine.remote, &of).await,
        Some(RemoteCall::Control(asked)) => {
            // Of no client, and what sleeps stays asleep.
            let call = Call { connection: 0, request, session: posted.session.clone() };
            return engine.control_from(call, asked, true, owed.reply());
        }
        Some(asked) => asked,
        None => {
            let message = format!(
                "The host {} cannot read what is asked of it: its program is an older one. Update it.",
                federation.host()
            );
            return owed.send::<()>(Err(ApiError::failed(message)));
        }
    };
    let handle = match engine.opener.open(SwitchTarget::Id(posted.session.clone())).await {
        Ok(handle) => handle,
        Err(error) => return owed.send::<()>(Err(error)),
    };
    if asked.ends_late() {
        let Some(end) = engine.remote.begin(&request) else {
            let message = "So many long calls of other hosts run here that no more is begun. Try again once one has ended.";
            return owed.send::<()>(Err(ApiError::new(ErrorCode::MaxPendingExceeded, message)));
        };
        owed.end = Some(end);
        if !federation.answer(&request, &text_of(RemoteAnswer::<()>::Begun), false).await {
            // Whoever owns the session now begins it, or this host's next run has.
            return;
        }
    }
    let (connection, new) = engine.followers.connection(&engine.shared, &handle.id, &posted.from);
    let _executor = engine.shared.executor.enter();
    if let Some(client) = new {
        // It asks for open questions itself.
        let _ = engine.joined(connection, &client);
    }
    let call = Call { connection, request, session: handle.id.clone() };
    carry_out(asked, engine, call, &handle, owed);
}
