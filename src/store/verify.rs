//! Checks a session's file, and repairs it without losing a byte: the original file is kept. Does not know
//! who runs sessions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::message::SessionId;
use crate::store::entry::{Entry, Header, Parent};
use crate::store::error::StoreError;
use crate::store::files::{FileOps, children, size};
use crate::store::journal;
use crate::store::journal_file;
use crate::store::listing::{header, seen};
use crate::store::reading::{self, JournalFault};

/// The result of checking one file.
#[derive(Debug)]
pub struct VerifyReport {
    /// The file.
    pub path: PathBuf,
    /// The session, if the header names it.
    pub session: Option<SessionId>,
    /// Readable entries.
    pub entries: usize,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The faults that were found.
    pub faults: Vec<JournalFault>,
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// The file is repaired; a copy holds the original.
    Rewritten {
        /// The copy of the original file.
        copy: PathBuf,
    },
    /// The file was a copy of a session, and is a session of its own now.
    Separated {
        /// The new session.
        session: SessionId,
        /// What the copy is named now.
        copy: PathBuf,
    },
    /// The file contained nothing to save and was renamed.
    SetAside {
        /// Its new path.
        to: PathBuf,
    },
}

/// Checks a file, without a lock and without changes.
///
/// # Errors
/// If it cannot be read, or a newer program wrote it.
pub(super) fn check(path: &Path, bytes: &[u8]) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport {
        path: path.to_owned(),
        session: None,
        entries: 0,
        bytes: size(bytes),
        faults: Vec::new(),
    };
    if path.extension().is_some_and(|extension| extension == "part") {
        report.faults.push(JournalFault::Unfinished);
        return Ok(report);
    }
    match reading::read(path, bytes) {
        Ok(content) => {
            report.session = Some(content.header.session);
            report.entries = content.entries.len();
            report.faults = content.faults;
        }
        Err(StoreError::NoHeader { reason, .. }) => {
            report.entries = headless(bytes).len();
            report.faults.push(JournalFault::NoHeader { reason });
        }
        Err(error) => return Err(error),
    }
    Ok(report)
}

/// Repairs a file with faults; `None` if it has none. The repaired file replaces the original only once it is
/// complete and on disk; the original is kept next to it.
///
/// # Errors
/// If a process has the session open, or the system refuses.
pub(super) fn repair(path: &Path, files: &dyn FileOps) -> Result<Option<Repaired>, StoreError> {
    let failed = |error| StoreError::io("Cannot repair", path, error);
    let lock = journal_file::lock(path, files)?;
    let file = files.open(path).map_err(failed)?;
    journal_file::cut_refused(file.as_ref(), &lock).map_err(failed)?;
    let bytes = file.read().map_err(failed)?;
    let report = check(path, &bytes)?;
    if report.faults.is_empty() {
        return Ok(None);
    }
    let content = match reading::read(path, &bytes) {
        _ if report.faults.contains(&JournalFault::Unfinished) => None,
        Ok(content) => Some((content.header, content.entries)),
        Err(StoreError::NoHeader { .. }) => rebuild_header(path, &bytes).map_err(failed)?,
        Err(error) => return Err(error),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let Some((header, entries)) = content else {
        let to = free_name(path, "set-aside");
        files.rename(path, &to).and_then(|()| files.sync_folder(folder)).map_err(failed)?;
        drop(lock);
        return Ok(Some(Repaired::SetAside { to }));
    };
    let copy = free_name(path, "before-repair");
    let part = free_name(path, "repairing");
    let write = |to: &Path, bytes: &[u8]| {
        let file = files.create(to)?;
        file.write_all_at(bytes, 0)?;
        file.sync()
    };
    let mut whole = header.line();
    for entry in &entries {
        entry.write_line(&mut whole);
    }
    write(&copy, &bytes)
        .and_then(|()| write(&part, &whole))
        .and_then(|()| files.sync_folder(folder))
        .and_then(|()| files.replace(&part, path))
        .and_then(|()| files.sync_folder(folder))
        .map_err(|error| {
            let _ = files.remove(&part);
            failed(error)
        })?;
    Ok(Some(Repaired::Rewritten { copy }))
}

/// Makes a session of its own of a copy: a new file with that id in the same folder. The copy is kept beside it.
///
/// # Errors
/// If a process has the copy open, or the system refuses.
pub(super) fn separate(
    path: &Path,
    session: SessionId,
    files: &Arc<dyn FileOps>,
) -> Result<Repaired, StoreError> {
    let failed = |error| StoreError::io("Cannot repair", path, error);
    let _lock = journal_file::lock(path, files.as_ref())?;
    let bytes = files.open(path).and_then(|file| file.read()).map_err(failed)?;
    let content = reading::read(path, &bytes)?;
    let parent = Parent {
        session: content.header.session.clone(),
        path: None,
        entry: content.entries.last().map(|entry| entry.id.clone()),
    };
    // Requests and hosts are the first session's.
    let header = Header {
        session: session.clone(),
        parent: Some(parent),
        request: None,
        replica_of: None,
        ..content.header
    };
    let to = path.with_file_name(format!("{session}.edn"));
    drop(journal::write_whole(to, &header, &mut content.entries.into_iter(), files.clone())?);
    let copy = free_name(path, "before-repair");
    let folder = journal_file::folder(path);
    files.rename(path, &copy).and_then(|()| files.sync_folder(folder)).map_err(failed)?;
    Ok(Repaired::Separated { session, copy })
}

/// The entries of a file without a header.
fn headless(bytes: &[u8]) -> Vec<Arc<Entry>> {
    reading::body(reading::split(bytes).0, 1, 0).entries
}

/// A new header for a file that lost its own. The file's name gives the session; its neighbours, of the same
/// project, give the folder. `None` if the file contains no useful entry.
fn rebuild_header(path: &Path, bytes: &[u8]) -> io::Result<Option<(Header, Vec<Arc<Entry>>)>> {
    let mut entries = headless(bytes);
    let name = path.file_stem().and_then(|name| name.to_str());
    let (Some(first), Some(name), Some(folder)) = (entries.first(), name, path.parent()) else {
        return Ok(None);
    };
    let (created_at, session) = (first.ts.clone(), SessionId::from(name));
    let mut cwd = "/".into();
    for other in seen(children(folder).map(Some))?.unwrap_or_default() {
        if other != path
            && let Some(header) = seen(header(&other))?
        {
            cwd = header.cwd;
            break;
        }
    }
    reading::order(&mut entries, &mut Vec::new());
    let header = Header { session, created_at, cwd, parent: None, request: None, replica_of: None };
    Ok(Some((header, entries)))
}

/// A free name next to `path`: with `what`, and with a number if that is taken.
fn free_name(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (1u32..).map(|number| match number {
        1 => path.with_file_name(format!("{name}.{what}")),
        _ => path.with_file_name(format!("{name}.{what}-{number}")),
    });
    names.into_iter().find(|path| !path.exists()).unwrap_or_else(|| path.with_extension(what))
}
