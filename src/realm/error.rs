//! Why a realm did not do what it was asked, and what a person can do about it. Knows no wire: a caller gives it a code.

use std::sync::Arc;

use crate::message::{EntryId, SessionId};
#[cfg(feature = "realm")]
use crate::realm::types::{Claim, RealmPage};
use crate::realm::types::{HostName, Tail};
use crate::store::StoreError;

/// Why it is unknown whether an append was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// No answer came. The statement may still be carried out, also later.
    NoAnswer,
    /// The session does not stand where the append expected it: somebody else owns it, or an earlier append of this
    /// owner was carried out after all.
    NoRow,
}

/// Why a call of a realm failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RealmError {
    /// The engine cannot be reached. Nothing was done.
    #[error("The realm cannot be reached: {0}. Try again; sessions of this machine alone are not affected.")]
    Unreachable(Arc<str>),
    /// Whether it was done is unknown until [`Realm::settle`](super::Realm::settle) has answered.
    #[error("The realm did not say whether this was saved. It is looked up before anything else is written.")]
    InDoubt(Doubt),
    /// This host does not own the session, or not any more.
    #[error("This host does not own the session {session} any more. Take it again to go on here.")]
    Fenced {
        /// The session.
        session: SessionId,
    },
    /// A living host owns the session.
    #[error("The host {host} owns the session. Ask for it there, or take it once that host is lost.")]
    Held {
        /// The owner.
        host: HostName,
    },
    /// The owner's lease is over, so nobody answers for the session.
    #[error("The host {host}, which owns the session, is not there. Take the session to go on without it.")]
    OwnerLost {
        /// The owner.
        host: HostName,
    },
    /// The engine has fewer entries than this host knows to be saved.
    #[error(
        "The realm has entries up to {found} of the session, and this host knows of {known}: the engine was set back, \
         or another server took over that lacked them. Nothing is written. `edn-bridge realm check` says more."
    )]
    Behind {
        /// What this host knows.
        known: Tail,
        /// What the engine has.
        found: u64,
    },
    /// The engine has another entry at a place that this host knows.
    #[error(
        "Entry {seq} of the session is {found} in the realm and {known} on this host: it is another realm, or the \
         engine was set back. Nothing is written. `edn-bridge realm check` says more."
    )]
    Diverged {
        /// The place.
        seq: u64,
        /// What this host knows there.
        known: EntryId,
        /// What the engine has there.
        found: EntryId,
    },
    /// The realm has no such session.
    #[error("The realm has no session {session}.")]
    NoSession {
        /// The session.
        session: SessionId,
    },
    /// The session was deleted by its owner.
    #[error(
        "The session {session} was deleted by the host that owned it. A copy on another machine is that machine's alone."
    )]
    Deleted {
        /// The session.
        session: SessionId,
    },
    /// The realm has a session of that id already.
    #[error("The realm has a session {session} already, with another header.")]
    Taken {
        /// The session.
        session: SessionId,
    },
    /// Another process goes by this host's name.
    #[error("Another process goes by the name {host} in the realm. Give this host another name (`:host`).")]
    NameTaken {
        /// The name.
        host: HostName,
    },
    /// There is no such host, or its lease is over.
    #[error("The host {host} is not there.")]
    NoHost {
        /// The host.
        host: HostName,
    },
    /// A request was not answered in time. It may have been carried out: the same id asks for the same answer.
    #[error(
        "The owner of the session has not answered in time: whether it was done is not known. Look before you ask again."
    )]
    Unanswered,
    /// There is no other host: the realm is this machine alone.
    #[error("Only this host is in the realm.")]
    Alone,
    /// An entry, a slot or a request is too large.
    #[error("It takes {bytes} bytes, which is more than {most}. Send less at once.")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// The largest size.
        most: usize,
    },
    /// The engine is one that does not keep what this program promises, or its settings do not.
    #[error("{0}")]
    Unfit(Arc<str>),
    /// The engine refused, for a reason that trying again does not change.
    #[error("The realm refused: {0}.")]
    Refused(Arc<str>),
    /// What the engine has is not what this program writes.
    #[error("The realm has something else than was expected: {0}.")]
    Damaged(Arc<str>),
    /// The journal of this machine refused. Nothing was appended.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
}

impl RealmError {
    /// Whether the same call may succeed later without anybody doing anything about it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::InDoubt(_) | Self::Unanswered => true,
            Self::Store(error) => error.may_pass(),
            _ => false,
        }
    }
}

impl From<StoreError> for RealmError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSession { session } => Self::NoSession { session },
            error => Self::Store(Arc::new(error)),
        }
    }
}

/// The answer of `settle`: whether the claim still counts, and what was found beyond `known`. An engine that was set back
/// may not know the claim any more; that it lacks entries says more.
#[cfg(feature = "realm")]
pub(super) fn settled(
    claim: &Claim,
    known: &Tail,
    is_ours: bool,
    found: Result<RealmPage, RealmError>,
) -> Result<RealmPage, RealmError> {
    match found {
        Ok(page) if is_ours => Ok(page),
        Ok(_) | Err(RealmError::Deleted { .. }) => Err(RealmError::Fenced { session: claim.session.clone() }),
        Err(RealmError::NoSession { .. }) => Err(RealmError::Behind { known: known.clone(), found: 0 }),
        Err(error) => Err(error),
    }
}
