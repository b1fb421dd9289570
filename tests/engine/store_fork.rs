//! Forks: the cost of one is what it copies, and only its caller waits for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "tests"
)]

#[path = "../store_support/process.rs"]
mod process;
use crate::store_support;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use edn_bridge::session::{Clients as _, Sessions as _, SwitchTarget};
use edn_bridge::store::{
    Durability, FileOps, JournalLock, Journals as _, LockError, LogFile, Store, SystemFiles,
};
use process::{Nobody, PATIENCE, asked, call, process, wait};
use store_support::{append, chain, header, ids};

/// A disk on which whole files are not begun as long as somebody holds the gate.
#[derive(Debug)]
struct Gated {
    gate: Arc<Mutex<()>>,
    reached: Mutex<Sender<()>>,
}

impl FileOps for Gated {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        if path.extension().is_some_and(|extension| extension == "part") {
            self.reached.lock().unwrap().send(()).unwrap();
            drop(self.gate.lock().unwrap());
        }
        SystemFiles.create(path)
    }
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        SystemFiles.make_folder(folder)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        SystemFiles.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.rename(from, to)
    }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.replace(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        SystemFiles.sync_folder(folder)
    }
    fn lock(&self, path: &Path) -> Result<JournalLock, LockError> {
        SystemFiles.lock(path)
    }
}

/// While a fork is written, its source and every other session are written to, and other sessions are opened.
#[test]
fn fork_blocks_nobody_and_copies_only_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(()));
    let (sender, reached) = channel();
    let disk = Gated { gate: gate.clone(), reached: Mutex::new(sender) };
    let store = Store::with_files(folder.path(), Durability::Full, Arc::new(disk)).unwrap();
    for id in ["s-long", "s-other"] {
        append(&store.create(header(id)), &chain(None, 1_000)).unwrap();
    }
    let (engine, executor) = process(folder.path(), store.clone(), 1);
    let first = engine.attach(1, Arc::new(Nobody));
    let switch = |id: &str| {
        let target = SwitchTarget::Id(id.into());
        wait(asked(|reply| engine.switch_session(call(&first), target, reply))).session
    };
    let name = |session: &str| {
        wait(asked(|reply| engine.set_name(call(&session.into()), "name".to_owned(), reply)));
    };
    switch("s-long");
    let held = gate.lock().unwrap();
    let fork = asked(|reply| engine.fork(call(&"s-long".into()), "e499".into(), None, reply));
    reached.recv_timeout(PATIENCE).unwrap();
    name("s-long");
    switch("s-other");
    name("s-other");
    assert!(fork.try_recv().is_err(), "the fork waits for the gate");
    drop(held);
    let fork = wait(fork);
    let path = fork.location.unwrap();
    assert_eq!(ids(&store.read_file(Path::new(&path)).unwrap().entries), ids(&chain(None, 500)));
    let source = store.look_up(&"s-long".into()).unwrap().unwrap();
    assert!(fs::metadata(path).unwrap().len() * 19 < fs::metadata(source).unwrap().len() * 10);
    executor.shutdown_timeout(PATIENCE);
}
