//! Appends to one session's file, and restores its previous state after any failure. Knows bytes and headers;
//! does not know what an entry means.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::{FORK_PART_BYTES, LISTING_BYTES};
use crate::store::commit::{Committer, Done, Job};
use crate::store::entry::{Entry, Header};
use crate::store::error::StoreError;
use crate::store::files::Files;
use crate::store::files::size;
use crate::store::journal_file::{JournalFile, folder, lock};
use crate::store::reading::{self, Content, Fault};

/// A session's file, open for appending.
#[derive(Debug, Clone)]
pub struct Journal {
    file: Arc<JournalFile>,
    committer: Arc<Committer>,
}

/// A session that was read from disk.
#[derive(Debug)]
pub struct Loaded {
    /// The journal for further entries.
    pub journal: Journal,
    /// The first line.
    pub header: Header,
    /// The entries, in the order of the file.
    pub entries: Vec<Arc<Entry>>,
    /// The faults that were found: the tail was repaired, the others were skipped.
    pub faults: Vec<Fault>,
}

impl Journal {
    pub(super) fn create(
        path: PathBuf,
        header: Header,
        files: Arc<dyn Files>,
        committer: Arc<Committer>,
    ) -> Self {
        Self { file: Arc::new(JournalFile::new(path, files, header)), committer }
    }

    /// The path of the file, which the first entry creates.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The acknowledged size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.size()
    }

    /// Appends entries as a unit. Calls `done` when they are on disk or have failed. `done` runs on the
    /// writing thread and must not wait.
    pub fn append(
        &self,
        entries: &[Arc<Entry>],
        done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static,
    ) {
        let bytes = entries.iter().flat_map(|entry| entry.line()).collect();
        let done: Done = Box::new(done);
        self.committer.append(Job { file: self.file.clone(), bytes, done });
    }

    /// Syncs everything to disk and gives up the writing thread's hold on the file, then calls `done` on that
    /// thread. Dropping the last journal afterwards closes the file.
    pub fn settle(&self, done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static) {
        self.committer.append(Job { file: self.file.clone(), bytes: Vec::new(), done: Box::new(done) });
    }
}

/// Opens a session for writing: takes its lock, reads it, and repairs its tail.
pub(super) fn open(
    path: &Path,
    files: Arc<dyn Files>,
    committer: Arc<Committer>,
) -> Result<Loaded, StoreError> {
    let opened = |error| StoreError::io("Cannot open", path, error);
    // Before the lock, so that opening a missing or foreign file leaves nothing behind.
    let file = files.open(path).map_err(opened)?;
    let start = file.read_start(LISTING_BYTES).map_err(opened)?;
    let first = start.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    if Header::read(first).is_err() {
        reading::read(path, &file.read().map_err(opened)?)?;
    }
    let lock = lock(path, files.as_ref())?;
    // Read whole, because nobody else writes now.
    let bytes = file.read().map_err(opened)?;
    let Content { header, entries, faults, good, .. } = reading::read(path, &bytes)?;
    let mut length = u64::try_from(good).unwrap_or(u64::MAX);
    let repaired = |error| StoreError::io("Cannot repair", path, error);
    for fault in &faults {
        match fault {
            Fault::TornTail { .. } => {
                file.set_len(length).and_then(|()| file.sync()).map_err(repaired)?;
            }
            Fault::NoLineFeed { .. } => {
                file.write_all_at(b"\n", length).and_then(|()| file.sync()).map_err(repaired)?;
                length = length.saturating_add(1);
            }
            _ => {}
        }
    }
    let file = JournalFile::opened(path.to_owned(), files, file, lock, length);
    Ok(Loaded { journal: Journal { file: Arc::new(file), committer }, header, entries, faults })
}

/// Creates a session's file with many entries without blocking the thread that writes for all. The file gets
/// its name once all of it is on disk.
pub(super) fn write_whole(
    path: PathBuf,
    header: &Header,
    entries: impl Iterator<Item = Arc<Entry>>,
    files: Arc<dyn Files>,
    committer: Arc<Committer>,
) -> Result<Journal, StoreError> {
    let dir = folder(&path);
    files.make_folder(dir).map_err(|error| StoreError::io("Cannot make the folder", dir, error))?;
    let lock = lock(&path, files.as_ref())?;
    let part = path.with_extension("part");
    let failed = |error| StoreError::io("Cannot write", &path, error);
    let file = files.create(&part).map_err(failed)?;
    let written = (|| {
        let mut end = 0u64;
        let mut bytes = header.line();
        let mut write = |bytes: &mut Vec<u8>| {
            file.write_all_at(bytes, end)?;
            end = end.saturating_add(size(bytes));
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
        Ok(end)
    })();
    match written {
        Ok(end) => {
            let file = JournalFile::opened(path, files, file, lock, end);
            Ok(Journal { file: Arc::new(file), committer })
        }
        Err(error) => {
            let _ = files.remove(&part);
            Err(failed(error))
        }
    }
}
