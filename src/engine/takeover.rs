//! Sessions that this host takes without being asked, because their host is lost. Knows no reason to take one.

use std::sync::Arc;

use crate::engine::host::Engine;
use crate::federation::LostSession;

/// Takes a session, if it is live here, or else with `opens`. Returns whether this engine tries it.
pub fn take_over(engine: &Engine, lost: &Arc<LostSession>, opens: bool) -> bool {
    if !opens && engine.shared.tree.get(&lost.session).is_err() {
        return false;
    }
    let (opener, lost) = (engine.opener.clone(), lost.clone());
    let taking = async move {
        let cwd = lost.cwd.to_string().into();
        if let Err(error) = opener.take_now(lost.session.clone(), cwd).await {
            // Another host was faster, or the folder is not here.
            tracing::info!(session = %lost.session, %error, "a session of a lost host is not taken");
        }
    };
    engine.shared.tasks.spawn_on(taking, &engine.shared.executor);
    true
}
