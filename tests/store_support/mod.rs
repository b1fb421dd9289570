//! A disk that fails on demand, and helpers to write and read sessions.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use edn_bridge::message::{Block, EntryId, Message, Role, SessionId};
use edn_bridge::store::{
    Durability, Entry, EntryBody, FileOps, FileStamp, Header, Journal, JournalLock, Journals as _, LockError,
    LogFile, Store, StoreError, SystemFiles,
};

/// The disk's behaviour in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Success.
    Well,
    /// Writes that many bytes and reports that.
    Short(usize),
    /// Writes that many bytes, then is full.
    Full(usize),
    /// Fails with an error of the system.
    Errno(i32),
}

pub const EIO: i32 = 5;
pub const EACCES: i32 = 13;
pub const ENOSPC: i32 = 28;
pub const EROFS: i32 = 30;

/// One call of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Folder,
    Create,
    Open,
    Write,
    Sync,
    Cut,
    SyncFolder,
    Rename,
    Lock,
}

/// The system's files with planned faults: each applies to the next call of its kind.
#[derive(Debug, Clone, Default)]
pub struct FaultyDisk(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    acts: VecDeque<(Call, Act)>,
    done: Vec<Call>,
    meanwhile: Vec<(Call, Meanwhile)>,
    /// Length of each file at its last sync: the part that certainly survives a power failure.
    synced: Vec<(PathBuf, u64)>,
}

/// What somebody else does during a call.
struct Meanwhile(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl FaultyDisk {
    /// What somebody else does during the next call of that kind.
    pub fn meanwhile(&self, call: Call, act: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap().meanwhile.push((call, Meanwhile(Box::new(act))));
    }

    /// Plans the behaviour of the next unplanned call of that kind.
    pub fn plan(&self, call: Call, act: Act) {
        self.0.lock().unwrap().acts.push_back((call, act));
    }

    /// Drops the plan.
    pub fn heal(&self) {
        self.0.lock().unwrap().acts.clear();
    }

    /// The calls so far.
    pub fn done(&self) -> Vec<Call> {
        self.0.lock().unwrap().done.clone()
    }

    /// The part of a file that certainly survives a power failure.
    pub fn synced(&self, path: &Path) -> u64 {
        let plan = self.0.lock().unwrap();
        plan.synced.iter().rev().find(|(known, _)| known == path).map_or(0, |(_, length)| *length)
    }

    fn next(&self, call: Call) -> Act {
        let mut plan = self.0.lock().unwrap();
        plan.done.push(call);
        if let Some(place) = plan.meanwhile.iter().position(|(planned, _)| *planned == call) {
            (plan.meanwhile.remove(place).1.0)();
        }
        let place = plan.acts.iter().position(|(planned, _)| *planned == call);
        place.and_then(|place| plan.acts.remove(place)).map_or(Act::Well, |(_, act)| act)
    }

    fn check(&self, call: Call) -> io::Result<()> {
        match self.next(call) {
            Act::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }
}

impl FileOps for FaultyDisk {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.check(Call::Folder)?;
        SystemFiles.make_folder(folder)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.check(Call::Create)?;
        let file = SystemFiles.create(path)?;
        Ok(Box::new(FaultyFile { disk: self.clone(), path: path.to_owned(), file }))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.check(Call::Open)?;
        let file = SystemFiles.open(path)?;
        self.0.lock().unwrap().synced.push((path.to_owned(), fs::metadata(path)?.len()));
        Ok(Box::new(FaultyFile { disk: self.clone(), path: path.to_owned(), file }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Call::Rename)?;
        SystemFiles.rename(from, to)
    }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Call::Rename)?;
        SystemFiles.replace(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check(Call::SyncFolder)?;
        SystemFiles.sync_folder(folder)
    }
    fn lock(&self, path: &Path) -> Result<JournalLock, LockError> {
        self.check(Call::Lock)?;
        SystemFiles.lock(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    path: PathBuf,
    file: Box<dyn LogFile>,
}

impl LogFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match self.disk.next(Call::Write) {
            Act::Well => self.file.write_at(bytes, offset),
            Act::Short(length) => self.file.write_at(&bytes[..length.clamp(1, bytes.len())], offset),
            Act::Full(length) => {
                let part = &bytes[..length.min(bytes.len())];
                self.file.write_all_at(part, offset)?;
                Err(io::Error::from_raw_os_error(ENOSPC))
            }
            Act::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.check(Call::Sync)?;
        self.file.sync()?;
        // A renamed file is looked up by its new name.
        let Ok(metadata) = fs::metadata(&self.path) else { return Ok(()) };
        let length = metadata.len();
        self.disk.0.lock().unwrap().synced.push((self.path.clone(), length));
        Ok(())
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.check(Call::Cut)?;
        self.file.set_len(length)
    }
    fn read(&self) -> io::Result<Vec<u8>> {
        self.file.read()
    }
    fn read_part(&self, offset: u64, most: u64) -> io::Result<Vec<u8>> {
        self.file.read_part(offset, most)
    }
    fn stamp(&self) -> io::Result<FileStamp> {
        self.file.stamp()
    }
}

/// A store in a separate folder, on a disk that can fail.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub disk: FaultyDisk,
    pub store: Store,
}

impl Place {
    pub fn new() -> Self {
        Self::with(Durability::Full)
    }

    pub fn with(durability: Durability) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::default();
        let store = Store::with_files(folder.path(), durability, Arc::new(disk.clone())).unwrap();
        Self { folder, disk, store }
    }

    /// A session with that many entries on disk, each written by itself, closed.
    pub fn session(&self, id: &str, entries: usize) -> PathBuf {
        let journal = self.store.create(header(id));
        for entry in chain(None, entries) {
            append(&journal, &[entry]).unwrap();
        }
        path_of(&journal)
    }
}

/// The file of a journal.
pub fn path_of(journal: &Journal) -> PathBuf {
    PathBuf::from(&*journal.location())
}

pub fn header(id: &str) -> Header {
    Header {
        request: None,
        replica_of: None,
        session: SessionId::from(id),
        created_at: "2026-01-01T00:00:00.000Z".into(),
        cwd: "/p".into(),
        parent: None,
    }
}

pub fn entry(id: &str, parent: Option<&str>, text: &str) -> Arc<Entry> {
    let parent = parent.map(EntryId::from);
    let mut message = Message::new(
        EntryId::from(id),
        Role::User,
        vec![Block::Text(text.into())],
        "2026-01-01T00:00:00.000Z".into(),
    );
    message.parent_id.clone_from(&parent);
    let body = EntryBody::Message(Arc::new(message));
    Arc::new(Entry { id: id.into(), parent, ts: "2026-01-01T00:00:00.000Z".into(), request: None, body })
}

/// Entries e0, e1 … each following the one before, the first following `after`.
pub fn chain(after: Option<usize>, count: usize) -> Vec<Arc<Entry>> {
    let first = after.map_or(0, |after| after + 1);
    (first..first + count)
        .map(|n| {
            let parent = n.checked_sub(1).map(|n| format!("e{n}"));
            entry(&format!("e{n}"), parent.as_deref(), &format!("text {n} \"q\" λ\nline"))
        })
        .collect()
}

/// Appends and waits for the answer.
pub fn append(journal: &Journal, entries: &[Arc<Entry>]) -> Result<(), Arc<StoreError>> {
    let (sender, receiver) = channel();
    journal.append(entries, move |result| {
        let _ = sender.send(result);
    });
    receiver.recv().unwrap()
}

pub fn ids(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| entry.id.to_string()).collect()
}

/// Numbers that look random and are identical in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}
