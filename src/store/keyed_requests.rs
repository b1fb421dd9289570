//! The requests with keys in a session's file, read without the rest of it.
//!
//! Knows lines and the few entries that matter to a request. A file is read line by line, and only the lines of those
//! entries are read as EDN.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use memchr::memmem;

use crate::limits::{JOURNAL_BYTES, MAX_LINE_BYTES};
use crate::private;
use crate::store::entry::{Entry, Header, HeaderError, PART};
use crate::store::error::StoreError;
use crate::store::journal_file::refused_from;

/// What stands in the line of an entry with a key, and in those of entries that tell what became of one. A text with
/// the same characters costs only its reading.
const MARKS: [&str; 3] = [":request ", ":type :dequeued", ":type :turn"];

/// Reads the header, and visits the entries in their order. What a kill cut off was never acknowledged, and is no entry.
///
/// # Errors
/// [`StoreError::Missing`], [`StoreError::NoHeader`] and [`StoreError::Newer`], and if the file cannot be read.
pub(super) fn scan(path: &Path, visit: &mut dyn FnMut(Entry)) -> Result<Header, StoreError> {
    let failed = |error| StoreError::io("Cannot open", path, error);
    let most = refused_from(path).unwrap_or(JOURNAL_BYTES);
    let mut file = BufReader::new(private::open_to_read(path).map_err(failed)?.take(most));
    let longest = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let mut line = Vec::new();
    file.by_ref().take(longest).read_until(b'\n', &mut line).map_err(failed)?;
    let header = Header::read(&line).map_err(|error| match error {
        HeaderError::Newer { format } => StoreError::Newer { path: path.to_owned(), format },
        error => StoreError::NoHeader { path: path.to_owned(), reason: error.to_string() },
    })?;
    let marks = MARKS.map(memmem::Finder::new);
    // The entries of a write whose last line is not read yet.
    let mut held = Vec::new();
    loop {
        line.clear();
        if file.by_ref().take(longest).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(header);
        }
        let is_wanted = marks.iter().any(|mark| mark.find(&line).is_some());
        if is_wanted {
            held.extend(Entry::read(&line));
        }
        let is_whole = line.ends_with(b"\n") || Entry::read(&line).is_some();
        if is_whole && !line.starts_with(PART) {
            held.drain(..).for_each(&mut *visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::{Block, Message, Role};
    use crate::store::entry::EntryBody;
    use crate::store::record::{
        Dequeued, KeyedRequest, Queued, Requested, TurnEvent, TurnRecord, Until, Via, Wish,
    };

    #[test]
    fn entries_that_matter_to_requests_are_found() {
        let text = |text: &str| {
            let content = vec![Block::Text(text.into())];
            EntryBody::Message(Arc::new(Message::new("e".into(), Role::User, content, "t".into())))
        };
        let session_id = || "s".into();
        let content = vec![Block::Text("x".into())];
        let queued = Queued { session_id: session_id(), until: Until::TurnEnd, content, turn_id: None };
        let gone = Dequeued { session_id: session_id(), entry_ids: vec!["e".into()], returned: true };
        let turn = TurnRecord {
            session_id: session_id(),
            turn_id: "t".into(),
            event: TurnEvent::Ended,
            outcome: Some("finished".to_owned()),
        };
        let wish = Requested { session_id: session_id(), wish: Wish::Answer, turn_id: None };
        let request = KeyedRequest {
            session_id: session_id(),
            via: Via::Edn,
            team: None,
            id: "k".into(),
            sender: None,
            digest: "d".into(),
            turn_id: None,
        };
        let entries: Vec<Entry> = [
            (text("plain"), false, false),
            (text("keyed"), true, true),
            (EntryBody::Queued(Box::new(queued)), true, true),
            (EntryBody::Name("a :request {} in a name".into()), false, true),
            (EntryBody::Dequeued(gone), false, true),
            (EntryBody::Turn(turn), false, true),
            (EntryBody::Leaf("e".into()), false, false),
            (EntryBody::Requested(wish), true, true),
        ]
        .into_iter()
        .enumerate()
        .map(|(n, (body, has_key, is_found))| {
            let request = has_key.then(|| Arc::new(request.clone()));
            let id = format!("{n}-{}", if is_found { "found" } else { "not" });
            Entry { id: id.as_str().into(), parent: None, ts: "t".into(), request, body }
        })
        .collect();
        let header = Header {
            session: session_id(),
            created_at: "t".into(),
            cwd: "/p".into(),
            parent: None,
            request: None,
            replica_of: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.edn");
        let mut bytes = header.line();
        entries.iter().for_each(|entry| entry.write_line(&mut bytes));
        // A write that was cut off between its lines.
        entries.iter().for_each(|entry| entry.write_part(&mut bytes));
        bytes.extend_from_slice(b"{:id \"torn\" :request {");
        std::fs::write(&path, bytes).unwrap();
        let mut found = Vec::new();
        assert_eq!(scan(&path, &mut |entry| found.push(entry)).unwrap(), header);
        let wanted: Vec<Entry> =
            entries.into_iter().filter(|entry| entry.id.as_str().ends_with("found")).collect();
        assert_eq!(found, wanted);
    }
}
