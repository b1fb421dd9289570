//! Lists the sessions on disk by reading both ends of their files.
//!
//! Skips files that are damaged, foreign or gone. If descriptors or memory run out, there is an error and no
//! list, because a shorter list would look complete. Does not know who asks.

use std::borrow::Cow;
use std::fs::DirEntry;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use crate::limits::{JOURNAL_BYTES, LISTING_BYTES, LISTING_TEXT, READING_THREADS};
use crate::message::{Message, Role, SessionId};
use crate::private;
use crate::store::entry::{Entry, EntryBody, Header};
use crate::store::error::is_want;
use crate::store::files::children;
use crate::store::reading::JournalFault;
use crate::store::record::KeyedRequest;

/// A session on disk, as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSession {
    /// The file.
    pub(super) path: PathBuf,
    /// Its header.
    pub header: Header,
    /// Its latest name, if the part that was read contains one.
    pub name: Option<String>,
    /// The user's first message.
    pub first_message: Option<String>,
    /// The user's last message, if the part that was read contains it.
    pub last_message: Option<String>,
    /// The number of messages, if the whole file was read.
    pub messages: Option<u64>,
    /// The time of the last write.
    pub modified: SystemTime,
    /// The file's size in bytes.
    pub bytes: u64,
    /// Whether it is archived.
    pub archived: bool,
}

impl StoredSession {
    /// Where its journal is, for people.
    pub fn location(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// Its title in lists: the name, or else the start of the first message.
    pub fn display_name(&self) -> &str {
        let name = self.name.as_deref().or(self.first_message.as_deref()).unwrap_or("New session");
        name.lines().next().unwrap_or_default()
    }
}

/// The sessions that are listed, and the files beside them that are none.
#[derive(Debug, Default)]
pub struct StoredList {
    /// The sessions, newest first.
    pub sessions: Vec<StoredSession>,
    /// The copies among the files that were listed.
    pub copies: Vec<SessionCopy>,
}

/// A second file with the id of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCopy {
    /// The file.
    pub path: PathBuf,
    /// The session.
    pub session: SessionId,
}

impl std::fmt::Display for SessionCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, session } = self;
        write!(
            f,
            "{} is a copy of {session}, and no session of its own; `edn-bridge sessions verify --repair` makes it one.",
            path.display()
        )
    }
}

/// A search result.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session.
    pub info: StoredSession,
    /// The matching part of its text, on one line.
    pub excerpt: String,
    /// What is wrong with its file, as far as that was looked for.
    pub faults: Vec<JournalFault>,
}

/// A file that may be a session's, as listed in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
    pub(super) inode: u64,
}

/// Turns an unreadable file into `None`, unless the cause is a lack of resources.
pub(super) fn seen<T>(looked: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if !is_want(&error) => Ok(None),
        looked => looked,
    }
}

/// The files below `root`, or in one of its folders.
pub(super) fn find_all(root: &Path, project: Option<&Path>) -> io::Result<Vec<SessionFile>> {
    let folders = match project {
        Some(folder) => vec![folder.to_owned()],
        None => children(root)?,
    };
    let found = |entry: DirEntry| {
        if !entry.file_name().as_encoded_bytes().ends_with(b".edn") {
            return Ok(None);
        }
        // Relative to the open folder. Otherwise each of ten thousand files would be looked up from the root.
        let metadata = entry.metadata()?;
        let path = entry.path();
        let metadata = if metadata.is_symlink() { std::fs::metadata(&path)? } else { metadata };
        // A pipe or a folder is no session, whatever its name is.
        if !metadata.is_file() {
            return Ok(None);
        }
        let modified = metadata.modified()?;
        Ok(Some(SessionFile { path, bytes: metadata.len(), modified, inode: metadata.ino() }))
    };
    let mut all = Vec::new();
    for folder in folders {
        let entries = match std::fs::read_dir(folder) {
            // The requested folder has no sessions only if it does not exist.
            Err(error) if project.is_some() && error.kind() != io::ErrorKind::NotFound => return Err(error),
            entries => seen(entries.map(Some))?,
        };
        for entry in entries.into_iter().flatten() {
            all.extend(seen(entry.and_then(found))?);
        }
    }
    Ok(all)
}

/// The sessions below `root`, or in one of its folders, newest first.
pub(super) fn list(root: &Path, project: Option<&Path>) -> io::Result<Vec<StoredSession>> {
    let mut infos = side_by_side(&find_all(root, project)?, glance)?;
    sort(&mut infos);
    Ok(infos)
}

/// The header of a session of a project that a request with that key has opened, among the files that were written
/// since a moment.
pub(super) fn opened_by(
    root: &Path,
    project: &Path,
    request: &KeyedRequest,
    since: SystemTime,
) -> io::Result<Option<Header>> {
    let mut found = find_all(root, Some(project))?;
    found.retain(|file| file.modified >= since);
    let headers = side_by_side(&found, |file| {
        let mut line = Vec::new();
        BufReader::new(private::open_to_read(&file.path)?.take(LISTING_BYTES))
            .read_until(b'\n', &mut line)?;
        let header = Header::read(&line).ok();
        Ok(header.filter(|header| header.request.as_ref().is_some_and(|known| known.has_key_of(request))))
    })?;
    Ok(headers.into_iter().next())
}

pub(super) fn sort(infos: &mut [StoredSession]) {
    infos.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| b.path.cmp(&a.path)));
}

/// Reads the files on several threads and keeps their order.
pub(super) fn side_by_side<T: Send>(
    found: &[SessionFile],
    look: impl Fn(&SessionFile) -> io::Result<Option<T>> + Sync,
) -> io::Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(READING_THREADS);
    let part = found.len().div_ceil(threads.max(1)).max(64);
    let mut done = Vec::with_capacity(found.len());
    let look = |found: &SessionFile| seen(look(found)).transpose();
    let look = &look;
    std::thread::scope(|scope| {
        let look_at = |part: &[SessionFile]| part.iter().filter_map(look).collect::<io::Result<Vec<T>>>();
        let begin = |part| {
            thread::Builder::new().name("listing".to_owned()).spawn_scoped(scope, move || look_at(part))
        };
        let running: Vec<_> = found.chunks(part).map(|part| (part, begin(part))).collect();
        for (part, thread) in running {
            let failed = |_| Err(io::Error::other("a thread that looked at sessions failed"));
            // Where the system refuses a thread, this one looks.
            let mut looked =
                thread.map_or_else(|_| look_at(part), |thread| thread.join().unwrap_or_else(failed))?;
            done.append(&mut looked);
        }
        Ok(done)
    })
}

/// The name of a session's file. An id that is not a plain file name names no session.
pub(super) fn file_name(session: &SessionId) -> Option<String> {
    let name = format!("{session}.edn");
    Path::new(&name).file_name().is_some_and(|plain| plain == name.as_str()).then_some(name)
}

/// Whether a session's id can name its files: it leads to no other folder.
pub fn is_name(session: &SessionId) -> bool {
    file_name(session).is_some()
}

/// The files that are named by a session's id, in their order. An error if their existence is unknown.
pub(super) fn find(root: &Path, session: &SessionId) -> io::Result<Vec<PathBuf>> {
    let Some(name) = file_name(session) else { return Ok(Vec::new()) };
    let mut found: Vec<_> =
        children(root)?.into_iter().map(|folder| folder.join(&name)).filter(|path| path.is_file()).collect();
    found.sort();
    Ok(found)
}

/// The header of a session's file; `None` if it has none.
pub(super) fn header(path: &Path) -> io::Result<Option<Header>> {
    let mut line = Vec::new();
    BufReader::new(private::open_to_read(path)?.take(LISTING_BYTES)).read_until(b'\n', &mut line)?;
    Ok(Header::read(&line).ok())
}

/// The facts about a session from both ends of its file; `None` if it is not a session's file.
pub(super) fn glance(found: &SessionFile) -> io::Result<Option<StoredSession>> {
    let mut file = private::open_to_read(&found.path)?;
    let mut head = Vec::new();
    file.by_ref().take(LISTING_BYTES).read_to_end(&mut head)?;
    let mut tail = Vec::new();
    let left = found.bytes.saturating_sub(LISTING_BYTES);
    let whole = left <= LISTING_BYTES;
    if left > 0 {
        let from = if whole { LISTING_BYTES } else { found.bytes.saturating_sub(LISTING_BYTES) };
        file.seek(SeekFrom::Start(from))?;
        file.take(LISTING_BYTES).read_to_end(&mut tail)?;
    }
    if whole {
        head.append(&mut tail);
    }
    let mut lines = head.split(|byte| *byte == b'\n');
    let Some(Ok(header)) = lines.next().map(Header::read) else { return Ok(None) };
    let mut info = StoredSession {
        path: found.path.clone(),
        header,
        name: None,
        first_message: None,
        last_message: None,
        messages: None,
        modified: found.modified,
        bytes: found.bytes,
        archived: false,
    };
    let mut messages = 0u64;
    let mut take = |info: &mut StoredSession, line: &[u8]| {
        if let Some(entry) = Entry::read(line) {
            messages = messages.saturating_add(u64::from(matches!(entry.body, EntryBody::Message(_))));
            info.take(&entry);
        }
    };
    for line in lines {
        take(&mut info, line);
    }
    if !whole {
        // There may be a later one in between.
        info.last_message = None;
    }
    for line in tail.split(|byte| *byte == b'\n') {
        take(&mut info, line);
    }
    info.messages = whole.then_some(messages);
    Ok(Some(info))
}

/// Adds the new end of a grown file to the known facts about its session. Does not see a name that was given
/// in between, too far from the end.
#[cfg(feature = "index")]
pub(super) fn glance_on(mut info: StoredSession, found: &SessionFile) -> io::Result<StoredSession> {
    let from = info.bytes.max(found.bytes.saturating_sub(LISTING_BYTES));
    let gap = from > info.bytes;
    info.last_message = info.last_message.filter(|_| !gap);
    let mut file = private::open_to_read(&found.path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(LISTING_BYTES).read_to_end(&mut tail)?;
    for entry in tail.split(|byte| *byte == b'\n').filter_map(Entry::read) {
        let new = u64::from(matches!(entry.body, EntryBody::Message(_)));
        info.messages = info.messages.map(|messages| messages.saturating_add(new));
        info.take(&entry);
    }
    info.messages = info.messages.filter(|_| !gap);
    info.modified = found.modified;
    info.bytes = found.bytes;
    Ok(info)
}

impl StoredSession {
    /// Adds the facts of the next entry.
    pub(super) fn take(&mut self, entry: &Entry) {
        match &entry.body {
            EntryBody::Name(name) => self.name = Some(name.to_string()),
            EntryBody::Message(message) if message.role == Role::User => {
                let start: String = message.text().chars().take(LISTING_TEXT).collect();
                self.first_message.get_or_insert_with(|| start.clone());
                self.last_message = Some(start);
            }
            _ => {}
        }
    }
}

/// The searchable text of an entry: messages and names.
pub(super) fn searched(entry: &Entry) -> Option<String> {
    match &entry.body {
        EntryBody::Message(message) => {
            let mut text = Message::text(message);
            let mut end = text.len().min(crate::limits::SEARCH_TEXT_BYTES);
            while !text.is_char_boundary(end) {
                end = end.saturating_sub(1);
            }
            text.truncate(end);
            (!text.is_empty()).then_some(text)
        }
        EntryBody::Name(name) => Some(name.to_string()),
        _ => None,
    }
}

/// Searches by reading every wanted file, for a program without an index.
pub(super) fn search(
    root: &Path,
    project: Option<&Path>,
    text: &str,
    limit: usize,
    is_wanted: &dyn Fn(&Path) -> bool,
) -> io::Result<Vec<Hit>> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = find_all(root, project)?;
    found.retain(|found| is_wanted(&found.path));
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| b.path.cmp(&a.path)));
    let mut hits = side_by_side(&found, |found| {
        let mut bytes = Vec::new();
        private::open_to_read(&found.path)?.take(JOURNAL_BYTES).read_to_end(&mut bytes)?;
        let mut entries = bytes.split(|byte| *byte == b'\n').filter_map(Entry::read);
        let Some(excerpt) = entries.find_map(|entry| excerpt_of(&entry, &words)) else { return Ok(None) };
        Ok(glance(found)?.map(|info| Hit { info, excerpt, faults: Vec::new() }))
    })?;
    hits.truncate(limit);
    Ok(hits)
}

/// The part of an entry's searchable text around the first word, on one line, if it has all the words; those are in lower
/// case.
pub fn excerpt_of(entry: &Entry, words: &[String]) -> Option<String> {
    let text = searched(entry)?;
    let lower = text.to_lowercase();
    let has_all = words.iter().all(|word| lower.contains(word.as_str()));
    has_all.then(|| excerpt(&text, words.first().map(String::as_str).unwrap_or_default()))
}

/// The line that contains the word, cut around it.
fn excerpt(text: &str, word: &str) -> String {
    let line = text.lines().find(|line| line.to_lowercase().contains(word)).unwrap_or(text);
    let lower = line.to_lowercase();
    let before = lower.find(word).and_then(|at| lower.get(..at)).map_or(0, |before| before.chars().count());
    let cut: String = line.chars().skip(before.saturating_sub(40)).take(120).collect();
    cut.trim().to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn bad_file_is_skipped_but_lack_of_resources_fails() {
        let found = |n: u64| SessionFile {
            path: format!("{n}.edn").into(),
            bytes: n,
            modified: SystemTime::UNIX_EPOCH,
            inode: n,
        };
        // Enough files for more than one thread.
        let all: Vec<SessionFile> = (0..1_000).map(found).collect();
        let with = |errno: rustix::io::Errno| {
            side_by_side(
                &all,
                |found| if found.bytes == 700 { Err(errno.into()) } else { Ok(Some(found.bytes)) },
            )
        };
        for own in [rustix::io::Errno::ACCESS, rustix::io::Errno::NOENT, rustix::io::Errno::IO] {
            let seen = with(own).unwrap();
            assert_eq!(seen, (0..1_000).filter(|n| *n != 700).collect::<Vec<_>>(), "{own}");
        }
        for want in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM] {
            let error = with(want).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(want.raw_os_error()));
        }
        let panicking = side_by_side(&all, |found| {
            assert!(found.bytes != 700, "as a test");
            Ok(Some(()))
        });
        assert!(panicking.is_err(), "a shorter list passed for the whole");
    }
}
