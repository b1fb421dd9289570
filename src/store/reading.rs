//! Reads a session's bytes into entries and faults.
//!
//! Pure: knows the lines and nothing of files, locks or repairs. Several threads read a large file, each a
//! part of its lines.

use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::{READING_PART_BYTES, READING_THREADS};
use crate::message::{EntryId, SessionId};
use crate::store::entry::{Entry, EntryBody, Header, HeaderError, PART};
use crate::store::error::StoreError;

/// The content of a session's file.
#[derive(Debug)]
pub struct JournalContent {
    /// The first line.
    pub header: Header,
    /// The entries, in the order of the file.
    pub entries: Vec<Arc<Entry>>,
    /// The faults that were found.
    pub faults: Vec<JournalFault>,
    /// Length of the file in bytes without a torn tail.
    pub good: usize,
}

impl JournalContent {
    /// The entries from the first to the current leaf. A missing parent ends the branch, so that the rest can
    /// still be shown.
    pub fn branch(&self) -> Vec<Arc<Entry>> {
        let places: HashMap<&EntryId, usize> =
            self.entries.iter().enumerate().map(|(place, entry)| (&entry.id, place)).collect();
        let mut next = self.entries.last().map(|entry| match &entry.body {
            EntryBody::Leaf(leaf) => leaf,
            _ => &entry.id,
        });
        let mut branch: Vec<Arc<Entry>> = Vec::new();
        while let Some(entry) = next.and_then(|id| places.get(id)).and_then(|place| self.entries.get(*place))
        {
            next = entry.parent.as_ref();
            branch.push(entry.clone());
            // A damaged file could contain a cycle.
            if branch.len() > self.entries.len() {
                break;
            }
        }
        branch.reverse();
        branch
    }
}

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalFault {
    /// The last write is cut off: in a line, or between the lines of entries that were written together. None of it
    /// was ever acknowledged.
    TornTail {
        /// Its start, in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// The end was refused when it was written, and could not be cut off then.
    Refused {
        /// Its start, in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// The last line lacks only its line feed.
    NoLineFeed {
        /// Its start, in bytes.
        offset: u64,
    },
    /// A line is not an entry.
    Unreadable {
        /// Its number, from 1.
        line: usize,
        /// Its start, in bytes.
        offset: u64,
    },
    /// An entry follows one that cannot be read. It then counts as following the last readable one.
    LostParent {
        /// The entry.
        entry: EntryId,
        /// The missing one.
        parent: EntryId,
    },
    /// An entry stands before the one that it follows. It then counts as standing after it.
    Early {
        /// The entry.
        entry: EntryId,
        /// The one that it follows.
        parent: EntryId,
    },
    /// An entry follows another one than the one before it, and no leaf says so: a line is gone or was changed. What
    /// stands between the two is on another branch.
    Aside {
        /// The entry.
        entry: EntryId,
    },
    /// A leaf names an entry that is not there. It then counts as naming the entry before it.
    LostLeaf {
        /// The leaf's entry.
        entry: EntryId,
        /// The missing one.
        leaf: EntryId,
    },
    /// The file is not that of its session, but a copy.
    Copy {
        /// The session.
        session: SessionId,
    },
    /// Another file has the same session.
    Copied {
        /// That file.
        path: PathBuf,
    },
    /// An entry occurs twice. The first one counts.
    Twice {
        /// The entry.
        entry: EntryId,
    },
    /// The first line is not a header, so the file cannot be opened.
    NoHeader {
        /// What is wrong with it.
        reason: String,
    },
    /// The remains of an unfinished fork.
    Unfinished,
}

impl std::fmt::Display for JournalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TornTail { offset, length } => {
                write!(f, "The last write is cut off ({length} bytes at offset {offset}).")
            }
            Self::Refused { offset, length } => {
                write!(f, "The last write was refused ({length} bytes at offset {offset}).")
            }
            Self::NoLineFeed { offset } => {
                write!(f, "The last line (offset {offset}) has no line feed.")
            }
            Self::Unreadable { line, offset } => write!(f, "Line {line} (offset {offset}) is not an entry."),
            Self::LostParent { entry, parent } => {
                write!(f, "Entry {entry} follows {parent}, which cannot be read.")
            }
            Self::Early { entry, parent } => {
                write!(f, "Entry {entry} stands before {parent}, which it follows.")
            }
            Self::Aside { entry } => write!(f, "Entry {entry} does not follow the entry before it."),
            Self::LostLeaf { entry, leaf } => {
                write!(f, "Entry {entry} returns to {leaf}, which cannot be read.")
            }
            Self::Copy { session } => write!(f, "It is a copy of the session {session}."),
            Self::Copied { path } => {
                write!(f, "{} is a copy of it.", path.display())
            }
            Self::Twice { entry } => write!(f, "Entry {entry} stands twice."),
            Self::NoHeader { reason } => write!(f, "It has no header: {reason}."),
            Self::Unfinished => f.write_str("It is a fork that was never finished."),
        }
    }
}

impl JournalFault {
    /// The fault, and how opening the session handled it.
    pub fn handled(&self) -> String {
        let done = match self {
            Self::TornTail { .. } | Self::Refused { .. } => "It was removed; it had never been acknowledged.",
            Self::NoLineFeed { .. } => "It was added.",
            Self::Unreadable { .. } => "It stays in the file and was skipped.",
            Self::LostParent { .. } => "It was taken to follow the entry before it.",
            Self::Early { .. } => "It was taken to stand after it.",
            Self::Aside { .. } => "What stands between is on another branch (/tree).",
            Self::LostLeaf { .. } => "It was taken to return to the entry before it.",
            Self::Copy { .. } | Self::Copied { .. } => {
                "It is no session of its own; `edn-bridge sessions verify --repair` makes it one."
            }
            Self::Twice { .. } => "The first one counts.",
            Self::NoHeader { .. } | Self::Unfinished => "It was left alone.",
        };
        format!("{self} {done}")
    }
}

/// Reads a session's file.
///
/// # Errors
/// [`StoreError::NoHeader`] and [`StoreError::Newer`]; everything else is a [`JournalFault`].
pub fn read(path: &Path, bytes: &[u8]) -> Result<JournalContent, StoreError> {
    let (mut lines, tail) = split(bytes);
    // Without its line feed, a last line is complete if it can be read: a truncated one lacks its closing brace.
    let last = Entry::read(tail).filter(|_| !tail.starts_with(PART));
    if last.is_none() {
        lines = without_part(lines);
    }
    let no_header = |reason: &str| StoreError::NoHeader { path: path.to_owned(), reason: reason.to_owned() };
    let Some(first) = lines.split_inclusive(|byte| *byte == b'\n').next() else {
        return Err(no_header(if bytes.is_empty() {
            "it is empty"
        } else {
            "its header is cut off, and nothing was saved in it"
        }));
    };
    let header = Header::read(first).map_err(|reason| match reason {
        HeaderError::Newer { format } => StoreError::Newer { path: path.to_owned(), format },
        error => no_header(&error.to_string()),
    })?;
    let rest = lines.get(first.len()..).unwrap_or_default();
    let JournalBody { mut entries, mut faults } = body(rest, 2, first.len());
    let mut good = lines.len();
    let start = offset(good);
    if let Some(entry) = last {
        entries.push(Arc::new(entry));
        faults.push(JournalFault::NoLineFeed { offset: start });
        good = bytes.len();
    } else if good < bytes.len() {
        faults.push(JournalFault::TornTail {
            offset: start,
            length: offset(bytes.len()).saturating_sub(start),
        });
    }
    order(&mut entries, &mut faults);
    Ok(JournalContent { header, entries, faults, good })
}

/// The part with complete lines, and the rest after the last line feed.
pub(super) fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'\n', bytes) {
        Some(end) => bytes.split_at(end.saturating_add(1)),
        None => (&[], bytes),
    }
}

/// Lines without those at their end that belong to a write whose last line is missing.
fn without_part(mut lines: &[u8]) -> &[u8] {
    loop {
        let before = lines.strip_suffix(b"\n").map_or(lines, |lines| split(lines).0);
        match lines.get(before.len()..) {
            Some(line) if line.starts_with(PART) => lines = before,
            _ => return lines,
        }
    }
}

/// The entries, and the lines that are not entries.
pub(super) struct JournalBody {
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) faults: Vec<JournalFault>,
}

/// Reads lines. The first has number `line` and starts at byte `offset`.
pub(super) fn body(lines: &[u8], line: usize, offset: usize) -> JournalBody {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(READING_THREADS);
    let parts = if lines.len() < READING_PART_BYTES.saturating_mul(2) { 1 } else { threads };
    let mut pieces = Vec::with_capacity(parts);
    let mut rest = lines;
    for left in (1..=parts).rev() {
        // Complete lines: from about the right size to the next line feed.
        let from = rest.len() / left;
        let end = match memchr::memchr(b'\n', rest.get(from..).unwrap_or_default()) {
            Some(end) if left > 1 => from.saturating_add(end).saturating_add(1),
            _ => rest.len(),
        };
        let (piece, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        pieces.push(piece);
        rest = after;
    }
    let read: Vec<Piece> = match pieces.as_slice() {
        [] => Vec::new(),
        [piece] => vec![Piece::read(piece)],
        [first, others @ ..] => std::thread::scope(|scope| {
            let begin = |piece| std::thread::Builder::new().spawn_scoped(scope, move || Piece::read(piece));
            let running: Vec<_> = others.iter().map(|piece| (piece, begin(piece))).collect();
            let mut read = vec![Piece::read(first)];
            read.extend(
                running
                    .into_iter()
                    // Where the system refuses a thread, this one reads. Reading does not panic; if it did, it would be
                    // repeated here.
                    .map(|(piece, thread)| {
                        let read = thread.ok().and_then(|thread| thread.join().ok());
                        read.unwrap_or_else(|| Piece::read(piece))
                    }),
            );
            read
        }),
    };
    let mut all = JournalBody { entries: Vec::new(), faults: Vec::new() };
    let (mut line, mut offset) = (line, offset);
    for (piece, bytes) in read.into_iter().zip(&pieces) {
        all.entries.extend(piece.entries);
        all.faults.extend(piece.unreadable.into_iter().map(|(number, at)| JournalFault::Unreadable {
            line: line.saturating_add(number),
            offset: self::offset(offset.saturating_add(at)),
        }));
        line = line.saturating_add(piece.lines);
        offset = offset.saturating_add(bytes.len());
    }
    all
}

/// Some lines, for one thread.
struct Piece {
    entries: Vec<Arc<Entry>>,
    /// Lines that are not entries: number and offset in the piece, from 0.
    unreadable: Vec<(usize, usize)>,
    lines: usize,
}

impl Piece {
    fn read(bytes: &[u8]) -> Self {
        let mut piece = Self { entries: Vec::new(), unreadable: Vec::new(), lines: 0 };
        let mut start = 0usize;
        let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end.saturating_add(1));
        for end in ends {
            match bytes.get(start..end).and_then(Entry::read) {
                Some(entry) => piece.entries.push(Arc::new(entry)),
                None => piece.unreadable.push((piece.lines, start)),
            }
            piece.lines = piece.lines.saturating_add(1);
            start = end;
        }
        piece
    }
}

/// Whether each entry follows the one before it, or the one that a leaf before it names, as this program writes them.
fn is_in_order(entries: &[Arc<Entry>]) -> bool {
    let mut known: HashSet<&EntryId> = HashSet::with_capacity(entries.len());
    let mut cursor: Option<&EntryId> = None;
    entries.iter().all(|entry| {
        let follows = entry.parent.as_ref() == cursor && known.insert(&entry.id);
        let (next, is_known) = match &entry.body {
            EntryBody::Leaf(leaf) => (leaf, known.contains(leaf)),
            _ => (&entry.id, true),
        };
        cursor = Some(next);
        follows && is_known
    })
}

/// Names what is wrong with the order of entries, and mends it so that nothing that can be read is lost from sight: an
/// entry without its parent follows the entry before it, one that stands before its parent comes after it, and a repeated
/// one counts once.
pub(super) fn order(entries: &mut Vec<Arc<Entry>>, faults: &mut Vec<JournalFault>) {
    if is_in_order(entries) {
        return;
    }
    let all: HashSet<EntryId> = entries.iter().map(|entry| entry.id.clone()).collect();
    let mut seen: HashSet<EntryId> = HashSet::with_capacity(entries.len());
    let mut ordered = Ordered::default();
    let mut early = Vec::new();
    for mut entry in std::mem::take(entries) {
        if !seen.insert(entry.id.clone()) {
            faults.push(JournalFault::Twice { entry: entry.id.clone() });
            continue;
        }
        match entry.parent.clone() {
            Some(parent) if !all.contains(&parent) => {
                faults.push(JournalFault::LostParent { entry: entry.id.clone(), parent });
                set_parent(Arc::make_mut(&mut entry), ordered.cursor.clone());
            }
            Some(parent) if !ordered.known.contains(&parent) => {
                faults.push(JournalFault::Early { entry: entry.id.clone(), parent: parent.clone() });
                early.push(entry.clone());
                ordered.waiting.entry(parent).or_default().push(entry);
                continue;
            }
            parent if parent != ordered.cursor => {
                faults.push(JournalFault::Aside { entry: entry.id.clone() });
            }
            _ => {}
        }
        ordered.place(entry, faults);
    }
    // Those that follow each other in a circle.
    for mut entry in early {
        if !ordered.known.contains(&entry.id) {
            set_parent(Arc::make_mut(&mut entry), ordered.cursor.clone());
            ordered.place(entry, faults);
        }
    }
    *entries = ordered.entries;
}

/// Entries, each after its parent.
#[derive(Default)]
struct Ordered {
    entries: Vec<Arc<Entry>>,
    known: HashSet<EntryId>,
    /// The entry that the next one should follow.
    cursor: Option<EntryId>,
    /// Entries whose parent stands after them.
    waiting: HashMap<EntryId, Vec<Arc<Entry>>>,
}

impl Ordered {
    /// Adds an entry, and those that waited for it.
    fn place(&mut self, entry: Arc<Entry>, faults: &mut Vec<JournalFault>) {
        let mut next = vec![entry];
        while let Some(mut entry) = next.pop() {
            if !self.known.insert(entry.id.clone()) {
                continue;
            }
            let leaf = match &entry.body {
                EntryBody::Leaf(leaf) => Some(leaf.clone()),
                _ => None,
            };
            if let Some(leaf) = leaf.as_ref().filter(|leaf| !self.known.contains(*leaf)) {
                faults.push(JournalFault::LostLeaf { entry: entry.id.clone(), leaf: leaf.clone() });
                // A leaf before all entries names nothing that could be shown.
                let Some(cursor) = self.cursor.clone() else { continue };
                Arc::make_mut(&mut entry).body = EntryBody::Leaf(cursor);
            }
            self.cursor = Some(match &entry.body {
                EntryBody::Leaf(leaf) => leaf.clone(),
                _ => entry.id.clone(),
            });
            next.extend(self.waiting.remove(&entry.id).unwrap_or_default().into_iter().rev());
            self.entries.push(entry);
        }
    }
}

fn set_parent(entry: &mut Entry, parent: Option<EntryId>) {
    if let EntryBody::Message(message) = &mut entry.body {
        Arc::make_mut(message).parent_id = parent.clone();
    }
    entry.parent = parent;
}

fn offset(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
