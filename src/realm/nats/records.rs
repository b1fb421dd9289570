//! What the stream has: subjects, and the records in them.
//!
//! A subject has one message, its last. A session has a row (`c`) that is its fence, its tail and its slot, as in
//! PostgreSQL, and an entry in each subject of its log (`e`). What is longer than one message has further pieces (`p`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::message::{EntryId, SessionId};
use crate::realm::error::RealmError;
use crate::realm::texts;
use crate::realm::types::{Claim, HostId, HostName, Tail};
use crate::sha256;
use crate::store::Header;

/// The stream's name.
pub(super) const STREAM: &str = "EDN_BRIDGE";

/// The subjects of the stream.
pub(super) const SUBJECTS: &str = "edn_bridge.>";

/// Hints, which are in no stream.
pub(super) const NEWS: &str = "edn_bridge_hint.news";

/// The version of these records.
pub(super) const VERSION: u32 = 1;

/// Rows that are remembered.
const ROWS_KEPT: usize = 1024;

/// Longer parts of a subject are replaced by their digest.
const TOKEN_BYTES: usize = 200;

/// A text as one part of a subject: letters, digits, `_` and `-` stand for themselves.
fn token(text: &str) -> String {
    if text.is_empty() || text.len() > TOKEN_BYTES {
        return format!("%%{}", sha256::hex(text));
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            token.push(char::from(byte));
        } else {
            token.push_str(&format!("%{byte:02X}"));
        }
    }
    token
}

/// The row of a session.
pub(super) fn row(session: &SessionId) -> String {
    format!("edn_bridge.c.{}", token(session.as_str()))
}

/// All rows.
pub(super) const ROWS: &str = "edn_bridge.c.*";

/// An entry of a session's log, by its number.
pub(super) fn entry(session: &SessionId, seq: u64) -> String {
    format!("edn_bridge.e.{}.{seq}", token(session.as_str()))
}

/// A session's log.
pub(super) fn log(session: &SessionId) -> String {
    format!("edn_bridge.e.{}.*", token(session.as_str()))
}

/// The number of an entry in its subject.
pub(super) fn entry_seq(subject: &str) -> Option<u64> {
    subject.rsplit('.').next()?.parse().ok()
}

/// Which run of a host may do something: written when one enters.
pub(super) fn run(host: &HostName) -> String {
    of_host("i", host.as_str())
}

fn of_host(kind: &str, host: &str) -> String {
    format!("edn_bridge.{kind}.{}", token(host))
}

/// The runs of all hosts.
pub(super) const RUNS: &str = "edn_bridge.i.*";

/// A host's lease: written with each renewal.
pub(super) fn lease(host: &HostName) -> String {
    of_host("h", host.as_str())
}

/// The leases of all hosts.
pub(super) const LEASES: &str = "edn_bridge.h.*";

/// A message that is there for the sake of a check that comes with it.
pub(super) fn touch(host: &HostName, number: usize) -> String {
    format!("edn_bridge.t.{}.{number}", token(host.as_str()))
}

/// A request to the owner of a session, by the host that is asked. It goes when nobody waits for its answer any more.
pub(super) fn call(session: &SessionId, host: &HostName, id: &str) -> String {
    format!("edn_bridge.q.{}.{}.{}", token(session.as_str()), token(host.as_str()), token(id))
}

/// All requests to a host.
pub(super) fn calls(host: &HostName) -> String {
    format!("edn_bridge.q.*.{}.*", token(host.as_str()))
}

/// Who is asked by a request, and its answer.
pub(super) fn answer(session: &SessionId, id: &str) -> String {
    format!("edn_bridge.a.{}.{}", token(session.as_str()), token(id))
}

/// The same, whatever its session.
pub(super) fn answer_of(id: &str) -> String {
    format!("edn_bridge.a.*.{}", token(id))
}

/// A further piece of what is in a subject.
pub(super) fn piece(subject: &str, number: usize) -> String {
    format!("edn_bridge.p.{}.{number}", subject.trim_start_matches("edn_bridge."))
}

/// Everything of a session but its row.
pub(super) fn remains(session: &SessionId) -> [String; 4] {
    let session = token(session.as_str());
    ["e", "a", "q", "p.*"].map(|kind| format!("edn_bridge.{kind}.{session}.>"))
}

/// What the owner of a session says meanwhile.
pub(super) fn said(session: &SessionId) -> String {
    format!("edn_bridge_hint.said.{}", token(session.as_str()))
}

/// The row of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) session: String,
    pub(super) header: String,
    pub(super) cwd: String,
    pub(super) owner: Option<String>,
    pub(super) epoch: u64,
    /// Of one that is deleted: how many entries are still to be removed.
    pub(super) tail: u64,
    pub(super) tail_id: Option<String>,
    pub(super) slot: String,
    pub(super) is_deleted: bool,
    /// When it changed, in milliseconds since the epoch, if that is not when it was written: settling changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) changed_ms: Option<i64>,
}

impl Row {
    pub(super) fn subject(&self) -> String {
        row(&self.session.as_str().into())
    }

    pub(super) fn tail(&self) -> Tail {
        Tail { seq: self.tail, id: self.tail_id.as_deref().map(EntryId::from) }
    }

    /// Whether a claim of a host still counts.
    pub(super) fn is_of(&self, claim: &Claim, host: &HostName) -> bool {
        self.epoch == claim.epoch && self.owner.as_deref() == Some(host.as_str())
    }

    pub(super) fn header(&self) -> Result<Header, RealmError> {
        texts::header(&self.header, &self.session)
    }

    pub(super) fn owner(&self) -> Result<Option<HostName>, RealmError> {
        self.owner.as_deref().map(texts::host_name).transpose()
    }
}

/// Which run of a host may do something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) host: String,
    pub(super) key: String,
    pub(super) run: u64,
    pub(super) incarnation: String,
    pub(super) build: String,
}

impl Run {
    pub(super) fn subject(&self) -> String {
        of_host("i", &self.host)
    }

    pub(super) fn new(me: &HostId, build: &str) -> Self {
        Self {
            host: me.name.to_string(),
            key: me.key.to_string(),
            run: me.incarnation.run,
            incarnation: me.incarnation.id.to_string(),
            build: build.to_owned(),
        }
    }
}

/// A host's lease, from the time of its message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) host: String,
    /// Zero after it has left.
    pub(super) lease_ms: u64,
}

impl Lease {
    pub(super) fn subject(&self) -> String {
        of_host("h", &self.host)
    }
}

/// A request to the owner of a session, with its call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) asker: String,
    pub(super) call: String,
}

/// Who is asked by a request, and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AskReply {
    pub(super) host: String,
    pub(super) answer: Option<String>,
}

/// What a host knows of the stream by the numbers of its messages.
#[derive(Default)]
pub(super) struct StreamIndex {
    /// The message by which this run has entered.
    entered: Mutex<Option<u64>>,
    /// Rows of sessions as this host last wrote them: the server says if there is a newer one.
    rows: Mutex<HashMap<SessionId, (u64, Row)>>,
}

impl StreamIndex {
    pub(super) fn entered(&self) -> Option<u64> {
        *self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_entered(&self, seq: Option<u64>) {
        *self.entered.lock().unwrap_or_else(PoisonError::into_inner) = seq;
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<SessionId, (u64, Row)>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn row(&self, session: &SessionId) -> Option<(u64, Row)> {
        self.rows().get(session).cloned()
    }

    pub(super) fn remember(&self, session: &SessionId, seq: u64, row: Row) {
        let mut rows = self.rows();
        if rows.len() >= ROWS_KEPT {
            rows.clear();
        }
        rows.insert(session.clone(), (seq, row));
    }

    pub(super) fn forget(&self, session: &SessionId) {
        self.rows().remove(session);
    }
}

/// A record as the body of a message.
pub(super) fn json(record: &impl Serialize) -> Result<Vec<u8>, RealmError> {
    serde_json::to_vec(record).map_err(texts::damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_has_the_parts_that_it_is_made_of() {
        let session = SessionId::from("a.b *>\u{e4} c");
        assert_eq!(entry(&session, 7), "edn_bridge.e.a%2Eb%20%2A%3E%C3%A4%20c.7");
        assert_eq!(entry_seq(&entry(&session, 7)), Some(7));
        assert_eq!(piece(&entry(&"s".into(), 7), 2), "edn_bridge.p.e.s.7.2");
        let long = "x".repeat(5000);
        assert!(row(&long.as_str().into()).len() < 100);
        assert_ne!(token("a.b"), token("a%2Eb"));
    }
}
