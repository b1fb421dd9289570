//! Sessions that this host takes without being asked, because their host is lost; and the folder in which one goes on here.
//! Knows no reason to take one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::host::Engine;
use crate::engine::open::Opener;
use crate::federation::{FailoverCandidate, SlotText};
use crate::git;
use crate::limits::REALM_FOLDERS;
use crate::message::SessionId;
use crate::session::ApiError;

impl Opener {
    /// The folder of this host in which a session goes on. One that a person gives is taken as it is. Where the session's
    /// repository is known, it is one of the same: the client's, the folder of that path, or one of this host's sessions.
    ///
    /// # Errors
    /// `request/invalid-params` if no folder of the repository is known here.
    pub(super) async fn folder_for(
        &self,
        session: &SessionId,
        cwd: PathBuf,
        is_given: bool,
    ) -> Result<PathBuf, ApiError> {
        let Some(federation) = self.shared.federation.get().filter(|_| !is_given) else { return Ok(cwd) };
        let Some(slot) = federation.slot(session) else { return Ok(cwd) };
        let Some(remote) = SlotText::read(&slot.text).remote else { return Ok(cwd) };
        let ours = federation.sessions().into_iter();
        let ours =
            ours.filter(|slot| slot.owner.as_ref().is_some_and(|owner| owner.host == *federation.host()));
        let live = self.shared.tree.all().into_iter().map(|handle| handle.snapshot().facts.clone());
        let live = live.filter(|facts| !facts.is_elsewhere).map(|facts| facts.cwd.clone());
        let ours: Vec<Arc<str>> = live.chain(ours.map(|slot| slot.cwd)).collect();
        let (shared, wanted) = (self.shared.clone(), remote.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let local = shared.read_journals(|journals| journals.list(None)).unwrap_or_default();
            let known = ours.into_iter().chain(local.into_iter().map(|stored| stored.header.cwd));
            let mut seen = BTreeSet::new();
            [cwd, PathBuf::from(&*slot.cwd)]
                .into_iter()
                .chain(known.map(|cwd| PathBuf::from(&*cwd)))
                .filter(|folder| seen.insert(folder.clone()))
                .take(REALM_FOLDERS)
                .find(|folder| git::remote(folder).as_ref() == Some(&wanted))
        });
        looking.await.ok().flatten().ok_or_else(|| {
            let expected = format!("a folder of this host; none of the repository {remote} is known here");
            ApiError::invalid_param("cwd", &expected)
        })
    }
}

/// Takes a session, if it is live here, or else with `opens`. Returns whether this engine tries it.
pub fn take_over(engine: &Engine, lost: &Arc<FailoverCandidate>, opens: bool) -> bool {
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
