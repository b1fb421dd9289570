//! Which sessions there are on disk.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::limits::LISTING_BYTES;
use crate::message::{Role, SessionId};
use crate::store::entry::{Entry, EntryBody, Header};

/// A session on disk, as a list shows it. Only the beginning of the file is read for it.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// The file.
    pub path: PathBuf,
    /// Its first line.
    pub header: Header,
    /// The name that stands in the part that was read.
    pub name: Option<String>,
    /// The user's first message.
    pub first_message: Option<String>,
    /// When the file was last written.
    pub modified: SystemTime,
}

/// The sessions below `root`, or in one folder of it, newest first. What cannot be read is left out.
pub(super) fn list(root: &Path, project: Option<PathBuf>) -> Vec<SessionInfo> {
    let folders = match project {
        Some(folder) => vec![folder],
        None => children(root),
    };
    let mut infos: Vec<_> =
        folders.iter().flat_map(|folder| children(folder)).filter_map(|path| info(&path)).collect();
    infos.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| b.path.cmp(&a.path)));
    infos
}

/// A session's file by its id.
pub(super) fn find(root: &Path, session: &SessionId) -> Option<PathBuf> {
    let name = format!("{session}.edn");
    // An id that is no plain file name names no session.
    if Path::new(&name).file_name()? != name.as_str() {
        return None;
    }
    children(root).into_iter().map(|folder| folder.join(&name)).find(|path| path.is_file())
}

fn children(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

fn info(path: &Path) -> Option<SessionInfo> {
    if path.extension()? != "edn" {
        return None;
    }
    let file = File::open(path).ok()?;
    let modified = file.metadata().ok()?.modified().ok()?;
    let mut lines = BufReader::new(file.take(LISTING_BYTES)).split(b'\n').map_while(Result::ok);
    let header = Header::read(&lines.next()?).ok()?;
    let mut info = SessionInfo { path: path.to_owned(), header, name: None, first_message: None, modified };
    for entry in lines.filter_map(|line| Entry::read(&line)) {
        match entry.body {
            EntryBody::Name(name) => info.name = Some(name.to_string()),
            EntryBody::Message(message) if message.role == Role::User && info.first_message.is_none() => {
                info.first_message = Some(message.text().chars().take(200).collect());
            }
            _ => {}
        }
    }
    Some(info)
}
