//! The plain types of a realm: hosts, places in a log, claims, slots, requests. They know no engine.

use std::fmt;
use std::sync::Arc;

use crate::limits::REALM_HOST_NAME_BYTES;
use crate::message::{EntryId, SessionId};
use crate::store::{Entry, Header};

/// A host's name: what people call a machine, such as `laptop`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(Arc<str>);

impl HostName {
    /// A name of letters, digits, `.`, `_` and `-`, at most [`REALM_HOST_NAME_BYTES`] long. `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = !name.is_empty() && name.len() <= REALM_HOST_NAME_BYTES && name.chars().all(fits);
        is_name.then(|| Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// One run of a host's process. Another run of the same host has another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The number of the run, counted in the state folder: a later run has a higher one.
    pub run: u64,
    /// What tells it from a run of a copied or restored state folder that has the same number.
    pub id: Arc<str>,
}

/// Who a process is in the realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostId {
    /// The machine's name.
    pub name: HostName,
    /// The state folder's own key, made once. A process with the same key is a later run of this host, which may take its
    /// name at once; one with another key is another host of that name.
    pub key: Arc<str>,
    /// This run.
    pub incarnation: Incarnation,
}

/// A host as the realm knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: HostName,
    /// The key of its state folder.
    pub key: Arc<str>,
    /// The build of its program.
    pub build: Arc<str>,
    /// Whether its lease holds, by the engine's clock.
    pub is_alive: bool,
    /// Milliseconds since the end of its lease, by the engine's clock; negative while it holds.
    pub lost_ms: i64,
    /// The sessions that it owns.
    pub sessions: u64,
}

impl Host {
    /// Whether another state folder than that of `me` is in the realm under the name of `me`.
    pub fn has_name_of(&self, me: &HostId) -> bool {
        self.is_alive && self.name == me.name && self.key != me.key
    }
}

/// A place in a session's log: how many entries there are up to it, and the last of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// The number of entries; the first has 1.
    pub seq: u64,
    /// The id of the entry with that number; `None` where there is none yet.
    pub id: Option<EntryId>,
}

impl Tail {
    /// The place of an entry.
    pub fn at(seq: u64, id: EntryId) -> Self {
        Self { seq, id: Some(id) }
    }

    /// The place after further entries.
    #[must_use]
    pub fn after<'a>(&self, ids: impl IntoIterator<Item = &'a EntryId>) -> Self {
        ids.into_iter().fold(self.clone(), |tail, id| Self::at(tail.seq.saturating_add(1), id.clone()))
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "{} ({id})", self.seq),
            None => write!(f, "{}", self.seq),
        }
    }
}

/// That this host owns a session. Only its epoch counts at the engine: a claim that somebody else's has followed appends
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The session.
    pub session: SessionId,
    /// How many claims there were, this one included.
    pub epoch: u64,
    /// Where the log stood when it was claimed.
    pub tail: Tail,
}

/// Who owns a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedBy {
    /// The host.
    pub host: HostName,
    /// Whether its lease is over, by the engine's clock.
    pub is_lost: bool,
}

/// A session as the realm knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// Its header.
    pub header: Header,
    /// Where its log stands.
    pub tail: Tail,
    /// Its owner; `None` if it was released.
    pub owner: Option<OwnedBy>,
    /// How many claims there were.
    pub epoch: u64,
}

/// Entries of a log that follow each other.
#[derive(Debug, Clone, PartialEq)]
pub struct RealmPage {
    /// The entries; the first one follows the place that was asked for.
    pub entries: Vec<Arc<Entry>>,
    /// Where the log stood when they were read: beyond the last of them if more are to be read.
    pub tail: Tail,
}

/// A session in a list of the realm.
#[derive(Debug, Clone, PartialEq)]
pub struct RealmSlot {
    /// Its header.
    pub header: Header,
    /// Its owner; `None` if it was released.
    pub owner: Option<OwnedBy>,
    /// The folder at its owner.
    pub cwd: Arc<str>,
    /// Where its log stands.
    pub tail: u64,
    /// What its owner last said of it, in EDN; empty if nothing.
    pub text: Arc<str>,
    /// Milliseconds since the epoch of its last change, by the engine's clock.
    pub changed_ms: i64,
}

/// Which sessions a list has.
#[derive(Debug, Clone, Default)]
pub struct RealmFilter {
    /// Those of that owner.
    pub host: Option<HostName>,
}

/// A session that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct RealmHit {
    /// The session.
    pub slot: RealmSlot,
    /// The matching part of its text, on one line.
    pub excerpt: String,
}

/// That something may have changed. It may be lost, and may say nothing new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealmHint {
    /// The log of a session, up to that number; or its slot or owner, without one.
    Session {
        /// The session.
        session: SessionId,
        /// Where its log stands.
        seq: Option<u64>,
    },
    /// Hints were lost: anything may have changed.
    Anything,
}

/// What another host asks of a session's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealmRequest {
    /// Its id. Posted again with the same id, it is the same request: it is carried out at most once by one owner.
    pub id: Arc<str>,
    /// The call, in EDN.
    pub call: Arc<str>,
}

/// A request that came to this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The session of this host that it is for.
    pub session: SessionId,
    /// The host that asks.
    pub from: HostName,
    /// The request.
    pub request: RealmRequest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_is_short_and_plain() {
        for name in ["laptop", "build-host_2.example", "A"] {
            assert_eq!(HostName::parse(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
        let long = "x".repeat(REALM_HOST_NAME_BYTES + 1);
        for name in ["", "a b", "a/b", "ä", "a\n", "a'", long.as_str()] {
            assert_eq!(HostName::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn tail_moves_by_entries() {
        let ids: Vec<EntryId> = vec!["a".into(), "b".into()];
        assert_eq!(Tail::default().after(&ids), Tail::at(2, "b".into()));
        assert_eq!(Tail::default().after([]), Tail::default());
    }
}
