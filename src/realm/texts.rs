//! What engines keep as text, and how it is read again.

use std::fmt;
use std::sync::Arc;

use crate::limits::{JOURNAL_LINE_BYTES, REALM_PAGE, REALM_SLOT_BYTES};
use crate::realm::error::RealmError;
use crate::realm::types::HostName;
use crate::store::{Entry, Header, is_name};

/// Refuses what is too large.
pub(super) fn too_long(bytes: usize, most: usize) -> Result<(), RealmError> {
    if bytes > most { Err(RealmError::TooLong { bytes, most }) } else { Ok(()) }
}

/// A line of a journal without its line feed. It is text: the codec writes nothing else.
pub(super) fn text(line: Vec<u8>) -> Result<String, RealmError> {
    let mut line = String::from_utf8(line).map_err(damaged)?;
    line.truncate(line.trim_end_matches('\n').len());
    Ok(line)
}

/// The lines of entries, as long as they may be appended together.
pub(super) fn lines(entries: &[Arc<Entry>], slot: Option<&str>) -> Result<Vec<String>, RealmError> {
    too_long(entries.len(), REALM_PAGE)?;
    too_long(slot.map_or(0, str::len), REALM_SLOT_BYTES)?;
    let line = |entry: &Arc<Entry>| {
        let line = text(entry.line())?;
        too_long(line.len(), JOURNAL_LINE_BYTES).map(|()| line)
    };
    entries.iter().map(line).collect()
}

/// The header of a session of that id. The id becomes the name of files.
pub(super) fn header(line: &str, id: &str) -> Result<Header, RealmError> {
    let header = Header::read(line.as_bytes()).map_err(damaged)?;
    if header.session.as_str() != id || !is_name(&header.session) {
        return Err(damaged("a session's id is none, or not that of its header"));
    }
    Ok(header)
}

/// A host's name.
pub(super) fn host_name(name: &str) -> Result<HostName, RealmError> {
    HostName::parse(name).ok_or_else(|| damaged("a host's name is none"))
}

/// What is left of a row that may be one of a newer program, which hides no other.
pub(super) fn readable<T>(read: Result<T, RealmError>, what: &str) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(%error, "{what} is not listed")).ok()
}

/// The engine has what this program did not write.
pub(super) fn damaged(error: impl fmt::Display) -> RealmError {
    RealmError::Damaged(error.to_string().into())
}
