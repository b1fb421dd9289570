//! What a process is in a realm: who it is, what its lease allows, and the list of all sessions. Follows nothing itself.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::clock::since_boot;
use crate::config::{Share, Takeover, Workspace};
use crate::message::SessionId;
use crate::private;
use crate::realm::rules::{LeaseStanding, LeaseTerms};
use crate::realm::{HostName, LeaseState, OwnedBy, Realm, RealmError, RealmSlot};
use crate::store::{Entry, Ownership, StoreError};

/// How this host takes part.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Which sessions of this host the others see.
    pub share: Share,
    /// Who decides that a session is taken whose host is lost.
    pub takeover: Takeover,
    /// Where the folders of this host's sessions are.
    pub workspace: Workspace,
    /// The lease.
    pub lease: LeaseTerms,
    /// The state folder: entries that the realm did not take are kept in `lost` there.
    pub state_dir: PathBuf,
}

/// A process in a realm.
pub struct RealmMember {
    pub(super) realm: Arc<dyn Realm>,
    pub(super) terms: Terms,
    pub(super) executor: tokio::runtime::Handle,
    pub(super) kept: watch::Receiver<LeaseState>,
    /// Since when the engine has been away, as [`since_boot`] tells it.
    pub(super) away_since: Mutex<Option<Duration>>,
    pub(super) slots: ArcSwap<HashMap<SessionId, RealmSlot>>,
}

impl fmt::Debug for RealmMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealmMember").field("me", self.realm.me()).finish_non_exhaustive()
    }
}

impl RealmMember {
    /// This host's name.
    pub fn host(&self) -> &HostName {
        &self.realm.me().name
    }

    /// The name as the facts of sessions have it.
    pub fn host_name(&self) -> Arc<str> {
        self.host().as_str().into()
    }

    pub(super) fn realm(&self) -> &dyn Realm {
        self.realm.as_ref()
    }

    pub(super) fn realm_shared(&self) -> Arc<dyn Realm> {
        self.realm.clone()
    }

    pub(super) fn executor(&self) -> &tokio::runtime::Handle {
        &self.executor
    }

    /// Waits for a call. Not for a task of an executor.
    pub(super) fn wait_for<T>(&self, call: impl Future<Output = T>) -> T {
        self.executor.block_on(call)
    }

    /// What this host may do in shared sessions now.
    pub fn standing(&self) -> LeaseStanding {
        self.kept.borrow().standing()
    }

    /// How often the lease was over. A claim of before the last time counts no more.
    pub(super) fn lapses(&self) -> u64 {
        self.kept.borrow().lapses
    }

    /// For how long the engine has been away; `None` while it is there. What is shown of other hosts' sessions may be older
    /// by as much.
    pub fn away_for(&self) -> Option<Duration> {
        let since = *lock(&self.away_since);
        since.map(|since| since_boot().saturating_sub(since))
    }

    pub(super) fn set_away(&self, is_away: bool) {
        let mut since = lock(&self.away_since);
        *since = is_away.then(|| since.unwrap_or_else(since_boot));
    }

    /// Whether a tool, a model call or a prompt may begin now in a shared session of this host.
    ///
    /// # Errors
    /// Why not, as an error of the session's journal.
    pub fn may_begin(&self) -> Result<(), StoreError> {
        let kept = self.kept.borrow();
        if kept.standing() == LeaseStanding::Held && self.away_for().is_none() {
            return Ok(());
        }
        let why = kept.error.as_ref().map_or_else(|| UNREACHABLE.to_owned(), ToString::to_string);
        Err(StoreError::RealmUnreachable(why))
    }

    /// What was listed last of a session.
    pub fn slot(&self, session: &SessionId) -> Option<RealmSlot> {
        self.slots.load().get(session).cloned()
    }

    /// Who owned a session when the sessions were listed last.
    pub fn owner(&self, session: &SessionId) -> Option<OwnedBy> {
        self.slots.load().get(session)?.owner.clone()
    }

    /// Whether this host owned a session when the sessions were listed last.
    pub(super) fn owns(&self, session: &SessionId) -> bool {
        self.owner(session).is_some_and(|owner| owner.host == *self.host())
    }

    /// The sessions of this host in a folder that are shared in part: a kill stopped that in the middle.
    pub fn shared_in_part(&self, cwd: &str) -> Vec<SessionId> {
        let slots = self.slots.load();
        let in_part =
            slots.iter().filter(|(id, slot)| slot.text.is_empty() && *slot.cwd == *cwd && self.owns(id));
        in_part.map(|(id, _)| id.clone()).collect()
    }

    /// An error of the realm as one of a journal.
    pub(super) fn refused(&self, error: &RealmError) -> StoreError {
        match error {
            RealmError::Held { host } => StoreError::Owned { host: host.to_string() },
            RealmError::OwnerLost { host } => StoreError::OwnerLost { host: host.to_string() },
            RealmError::NoSession { session } => StoreError::NoSession { session: session.clone() },
            // Asked again, whoever owns it then is asked.
            RealmError::Fenced { .. } => StoreError::RealmUnreachable(FENCED.to_owned()),
            RealmError::InDoubt(_) | RealmError::Unanswered => StoreError::RealmInDoubt(error.to_string()),
            error if error.may_pass() => StoreError::RealmUnreachable(error.to_string()),
            error => StoreError::Realm(error.to_string()),
        }
    }

    /// Keeps entries that the realm did not take, for a person: `lost/SESSION.edn` in the state folder.
    pub(super) async fn keep_lost(&self, session: &SessionId, entries: &[Arc<Entry>]) {
        let folder = self.terms.state_dir.join("lost");
        let path = folder.join(format!("{session}.edn"));
        let mut text = Vec::new();
        entries.iter().for_each(|entry| entry.write_line(&mut text));
        let made = folder.clone();
        let keeping = tokio::task::spawn_blocking(move || {
            private::make_folder(&made)?;
            let mut file = private::open(&path)?;
            file.seek(SeekFrom::End(0))?;
            file.write_all(&text)
        });
        match keeping.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => tracing::warn!(%session, "what the realm did not take is in {}", folder.display()),
            Err(error) => tracing::error!(%error, %session, "what the realm did not take is lost"),
        }
    }
}

const FENCED: &str = "Another host has taken the session meanwhile, and nothing was saved here. Try again: that host is asked then.";

const UNREACHABLE: &str =
    "The realm cannot be reached. Try again; sessions of this machine alone are not affected.";

/// Whose entries a journal has, as the realm says.
pub(super) fn ownership_of(owner: Option<&OwnedBy>) -> Ownership {
    match owner {
        Some(owner) => Ownership::Theirs { host: owner.host.as_str().into(), is_lost: owner.is_lost },
        None => Ownership::Theirs { host: "".into(), is_lost: true },
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
