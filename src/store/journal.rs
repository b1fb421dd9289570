//! Opens and creates sessions' files, and appends to them. Knows bytes and headers. Of an entry it knows only
//! whether it waits in the queue, because such a line needs room to be written again.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::{FORK_PART_BYTES, JOURNAL_BYTES, JOURNAL_LINE_BYTES, LISTING_BYTES, QUEUED_LINE_ROOM};
use crate::message::SessionId;
use crate::sha256;
use crate::store::commit::{Append, Committer, Done};
use crate::store::entry::{Entry, EntryBody, Header};
use crate::store::error::StoreError;
use crate::store::files::{FileOps, FileStamp, LogFile, size};
use crate::store::journal_file::{JournalFile, cut_refused, folder, lock};
use crate::store::journals::Log;
use crate::store::locations::Locations;
use crate::store::reading::{self, JournalContent, JournalFault};

/// A session's open file.
#[derive(Debug)]
pub(super) struct FileLog {
    session: SessionId,
    file: Arc<JournalFile>,
    committer: Arc<Committer>,
    locations: Arc<Locations>,
}

impl FileLog {
    pub(super) fn new(
        session: SessionId,
        file: JournalFile,
        committer: Arc<Committer>,
        locations: Arc<Locations>,
    ) -> Self {
        let file = Arc::new(file);
        locations.open(&session, &file);
        Self { session, file, committer, locations }
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        self.locations.close(&self.session, &self.file);
    }
}

impl Log for FileLog {
    fn append(&self, entries: &[Arc<Entry>], done: Done) {
        match lines(entries) {
            Ok(bytes) if self.file.size().saturating_add(size(&bytes)) > JOURNAL_BYTES => {
                done(Err(Arc::new(StoreError::Full)));
            }
            Ok(bytes) => self.committer.append(Append { file: self.file.clone(), bytes, done }),
            Err(error) => done(Err(Arc::new(error))),
        }
    }

    fn location(&self) -> Cow<'_, str> {
        self.file.path().to_string_lossy()
    }

    fn bytes(&self) -> u64 {
        self.file.size()
    }
}

/// The lines of entries, each of which can be read back. A kill can cut a write off between two lines; each but the last
/// one therefore says that it is a part.
fn lines(entries: &[Arc<Entry>]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    for (left, entry) in (0..entries.len()).rev().zip(entries) {
        let begin = bytes.len();
        match left {
            0 => entry.write_line(&mut bytes),
            _ => entry.write_part(&mut bytes),
        }
        let waits = matches!(entry.body, EntryBody::Queued(_) | EntryBody::Queue(_));
        let room = if waits { QUEUED_LINE_ROOM } else { 0 };
        let (length, most) = (bytes.len().saturating_sub(begin), JOURNAL_LINE_BYTES.saturating_sub(room));
        if length > most {
            return Err(StoreError::TooLong { bytes: length, most });
        }
    }
    Ok(bytes)
}

/// Opens a file, and reads which session's it is.
pub(super) fn look(path: &Path, files: &dyn FileOps) -> Result<(Box<dyn LogFile>, SessionId), StoreError> {
    let opened = |error| StoreError::io("Cannot open", path, error);
    let file = files.open(path).map_err(opened)?;
    let start = file.read_part(0, LISTING_BYTES).map_err(opened)?;
    let first = start.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let header = match Header::read(first) {
        Ok(header) => header,
        // A very long header, or why there is none.
        Err(_) => reading::read(path, &file.read().map_err(opened)?)?.header,
    };
    Ok((file, header.session))
}

/// Opens a session's file for writing: takes its lock, reads it, and repairs its tail. The file was looked at
/// before, so that a missing or foreign one gets no lock.
pub(super) fn open(
    path: &Path,
    file: Box<dyn LogFile>,
    files: Arc<dyn FileOps>,
) -> Result<(JournalFile, JournalContent), StoreError> {
    let opened = |error| StoreError::io("Cannot open", path, error);
    let lock = lock(path, files.as_ref())?;
    // It was looked at without the lock: another process may have replaced it since.
    let is_it = FileStamp::at(path).and_then(|named| Ok(named.id == file.stamp()?.id)).map_err(opened)?;
    let file = if is_it { file } else { files.open(path).map_err(opened)? };
    let cut =
        cut_refused(file.as_ref(), &lock).map_err(|error| StoreError::io("Cannot repair", path, error))?;
    // Read whole, because nobody else writes now.
    let bytes = file.read().map_err(opened)?;
    let mut content = reading::read(path, &bytes)?;
    if let Some((offset, length)) = cut {
        content.faults.push(JournalFault::Refused { offset, length });
    }
    let mut length = u64::try_from(content.good).unwrap_or(u64::MAX);
    let mut digest = sha256::Running::default();
    digest.add(bytes.get(..content.good).unwrap_or_default());
    let repaired = |error| StoreError::io("Cannot repair", path, error);
    for fault in &content.faults {
        match fault {
            JournalFault::TornTail { .. } => {
                file.set_len(length).and_then(|()| file.sync()).map_err(repaired)?;
            }
            JournalFault::NoLineFeed { .. } => {
                file.write_all_at(b"\n", length).and_then(|()| file.sync()).map_err(repaired)?;
                length = length.saturating_add(1);
                digest.add("\n");
            }
            _ => {}
        }
    }
    let file = JournalFile::opened(path.to_owned(), files, file, lock, length, digest).map_err(opened)?;
    Ok((file, content))
}

/// Creates a session's file with many entries without blocking the thread that writes for all. The file gets
/// its name once all of it is on disk.
pub(super) fn write_whole(
    path: PathBuf,
    header: &Header,
    entries: &mut dyn Iterator<Item = Arc<Entry>>,
    files: Arc<dyn FileOps>,
) -> Result<JournalFile, StoreError> {
    let dir = folder(&path);
    files.make_folder(dir).map_err(|error| StoreError::io("Cannot make the folder", dir, error))?;
    let lock = lock(&path, files.as_ref())?;
    let part = path.with_extension("part");
    let failed = |error| StoreError::io("Cannot write", &path, error);
    let file = files.create(&part).map_err(failed)?;
    let written = (|| {
        let mut end = 0u64;
        let mut digest = sha256::Running::default();
        let mut bytes = header.line();
        let mut write = |bytes: &mut Vec<u8>| {
            file.write_all_at(bytes, end)?;
            end = end.saturating_add(size(bytes));
            digest.add(&bytes);
            bytes.clear();
            Ok::<(), std::io::Error>(())
        };
        for entry in entries {
            entry.write_line(&mut bytes);
            if bytes.len() >= FORK_PART_BYTES {
                write(&mut bytes)?;
            }
        }
        write(&mut bytes)?;
        file.sync()?;
        files.rename(&part, &path)?;
        files.sync_folder(dir).inspect_err(|_| {
            // A refused write must leave no file.
            let _ = files.remove(&path);
        })?;
        Ok((end, digest))
    })();
    match written {
        Ok((end, digest)) => {
            let opened = |error| StoreError::io("Cannot open", &path, error);
            JournalFile::opened(path.clone(), files, file, lock, end, digest).map_err(opened)
        }
        Err(error) => {
            let _ = files.remove(&part);
            Err(failed(error))
        }
    }
}
