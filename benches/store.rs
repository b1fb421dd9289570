//! The store's figures: appends compared with the device's own sync, opening, forking, listing, searching,
//! and the memory of idle sessions.
//!
//! `cargo bench --no-default-features --features index --bench store [-- NAME…]`; figures are medians.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a program that measures"
)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use edn_bridge::engine::Engine;
use edn_bridge::message::{Block, EntryId, Message, Role, SessionId};
use edn_bridge::session::{Call, Clients as _, Sessions as _, SwitchTarget};
use edn_bridge::store::{Durability, Entry, EntryBody, Header, Journals as _, Store};
use process::{Nobody, asked, call, process, wait};

#[path = "../tests/store_support/process.rs"]
mod process;

const LONG: usize = 100_000;
const SESSIONS: usize = 10_000;
const AT_REST: usize = 1_000;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let run = |name: &str, bench: fn()| {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            bench();
        }
    };
    // Runs first: a process keeps the memory that the other parts free, and idle sessions would seem to need
    // none.
    run("rest", rest);
    run("append", append);
    run("open", open);
    run("list", list);
}

fn header(id: &str) -> Header {
    Header {
        request: None,
        replica_of: None,
        session: SessionId::from(id),
        created_at: "2026-01-01T00:00:00.000Z".into(),
        cwd: "/project".into(),
        parent: None,
    }
}

fn entry(number: usize, text: &str) -> Arc<Entry> {
    let id = EntryId::from(format!("e-019b0000000070008000{number:012x}"));
    let parent = number.checked_sub(1).map(|n| EntryId::from(format!("e-019b0000000070008000{n:012x}")));
    let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
    let mut message =
        Message::new(id.clone(), role, vec![Block::Text(text.into())], "2026-01-01T00:00:00.000Z".into());
    message.parent_id.clone_from(&parent);
    message.turn_id = Some(format!("t-{}", number / 2).into());
    Arc::new(Entry {
        id,
        parent,
        ts: message.timestamp.clone(),
        request: None,
        body: EntryBody::Message(Arc::new(message)),
    })
}

const TEXT: &str = "An ordinary message of about two hundred bytes, with some `code`, a \"quotation\" and a line\n\
                    feed, as they stand in sessions everywhere; the parser has something to do with it.";

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn append() {
    let dir = tempfile::tempdir().unwrap();
    let line = entry(0, TEXT).line();
    let file = File::create(dir.path().join("raw")).unwrap();
    let raw = (0..200u64).map(|n| {
        let start = Instant::now();
        file.write_all_at(&line, n * line.len() as u64).unwrap();
        file.sync_data().unwrap();
        start.elapsed()
    });
    let raw = median(raw.collect());
    println!("append: the device's write and sync of {} bytes      {raw:>10.1?}", line.len());
    for durability in [Durability::Full, Durability::Relaxed] {
        let store = Store::new(dir.path(), durability).unwrap();
        let journal = store.create(header(&format!("s-one-{}", durability.as_str())));
        let one = |n: usize| {
            let (sender, receiver) = channel();
            let start = Instant::now();
            journal.append(&[entry(n, TEXT)], move |result| sender.send(result).unwrap());
            receiver.recv().unwrap().unwrap();
            start.elapsed()
        };
        one(0);
        let alone = median((1..200).map(one).collect());
        println!("append: one acknowledged entry, {:<8}              {alone:>10.1?}", durability.as_str());
        for sessions in [1usize, 8, 64] {
            let journals: Vec<_> = (0..sessions)
                .map(|n| store.create(header(&format!("s-{n}-{sessions}-{}", durability.as_str()))))
                .collect();
            let each = 4_096 / sessions;
            let (sender, receiver) = channel();
            let start = Instant::now();
            for n in 0..each {
                for journal in &journals {
                    let sender = sender.clone();
                    journal.append(&[entry(n, TEXT)], move |result| sender.send(result).unwrap());
                }
            }
            for _ in 0..each * sessions {
                receiver.recv().unwrap().unwrap();
            }
            let rate = (each * sessions) as f64 / start.elapsed().as_secs_f64();
            println!(
                "append: entries a second, {sessions:>2} sessions, {:<8}    {rate:>10.0}",
                durability.as_str()
            );
        }
    }
}

fn open() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path(), Durability::Full).unwrap();
    let entries: Vec<_> = (0..LONG).map(|n| entry(n, TEXT)).collect();
    let start = Instant::now();
    let journal = store.create_with(header("s-long"), &mut entries.iter().cloned()).unwrap();
    let (path, bytes, wrote) = (PathBuf::from(&*journal.location()), journal.bytes(), start.elapsed());
    drop(journal);
    println!("fork: {LONG} entries, {bytes} bytes, on disk          {wrote:>10.1?}");
    let half = store.create_with(header("s-half"), &mut entries.iter().take(LONG / 2).cloned()).map(|_| ());
    half.unwrap();
    let start = Instant::now();
    drop(store.create_with(header("s-half-2"), &mut entries.iter().take(LONG / 2).cloned()).unwrap());
    println!("fork: {} entries                                   {:>10.1?}", LONG / 2, start.elapsed());
    let read = (0..7).map(|_| {
        let start = Instant::now();
        let loaded = store.open_file(&path).unwrap();
        let time = start.elapsed();
        assert_eq!(loaded.entries.len(), LONG);
        time
    });
    println!("open: {LONG} entries read from disk                 {:>10.1?}", median(read.collect()));

    let store = Store::new(dir.path(), Durability::Full).unwrap();
    let (engine, executor) = process(dir.path(), store, 2);
    let first = engine.attach(1, Arc::new(Nobody));
    let start = Instant::now();
    let target = SwitchTarget::Id("s-long".into());
    wait(asked(|reply| engine.switch_session(call(&first), target, reply)));
    println!("open: switch_session to it, answered                 {:>10.1?}", start.elapsed());
    let long = Call { session: "s-long".into(), ..call(&first) };
    let start = Instant::now();
    wait(asked(|reply| engine.messages(long.clone(), None, None, reply)));
    println!("open: its newest page                                {:>10.1?}", start.elapsed());
    let last = EntryId::from(format!("e-019b0000000070008000{:012x}", LONG - 1));
    let start = Instant::now();
    wait(asked(|reply| engine.fork(long, last, None, reply)));
    println!("fork: of the live session, answered                  {:>10.1?}", start.elapsed());
    executor.shutdown_timeout(Duration::from_secs(5));
}

fn list() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path(), Durability::Full).unwrap();
    for n in 0..SESSIONS {
        // Written directly, because only reading is measured.
        let mut header = header(&format!("s-{n:06}"));
        header.cwd = format!("/project/{}", n % 20).into();
        let folder = store.project_dir(Path::new(&*header.cwd));
        std::fs::create_dir_all(&folder).unwrap();
        let mut bytes = header.line();
        for one in 0..20 {
            bytes.extend(entry(one, &format!("{TEXT} number{n} word{}", one * n % 997)).line());
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(folder.join(format!("{}.edn", header.session)))
            .and_then(|mut file| file.write_all(&bytes))
            .unwrap();
    }
    let timed = |what: &str, work: &dyn Fn() -> usize| {
        let start = Instant::now();
        let found = work();
        println!("{what:<53}{:>10.1?}  ({found})", start.elapsed());
    };
    timed("list: 10,000 sessions, no index yet", &|| store.list(None).unwrap().len());
    for _ in 0..3 {
        timed("list: 10,000 sessions, warm", &|| store.list(None).unwrap().len());
    }
    let again = Store::new(dir.path(), Durability::Full).unwrap();
    timed("list: 10,000 sessions, index there, first of process", &|| again.list(None).unwrap().len());
    timed("list: the 500 of one project, warm", &|| again.list(Some(Path::new("/project/7"))).unwrap().len());
    timed("search: the first, which reads all files", &|| {
        store.search(None, "word500", true, 100).unwrap().len()
    });
    for words in ["word500", "number4321", "ordinary message", "absent"] {
        timed(&format!("search: {words:?}, warm"), &|| store.search(None, words, true, 100).unwrap().len());
    }
    let index = std::fs::metadata(dir.path().join("sessions-index.db")).map_or(0, |metadata| metadata.len());
    println!("search: the index has {index} bytes");
}

fn rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path(), Durability::Full).unwrap();
    let (engine, executor) = process(dir.path(), store, 2);
    let first = engine.attach(1, Arc::new(Nobody));
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    for n in 0..10 {
        name(&engine, &first, n);
    }
    let before = resident();
    for n in 0..AT_REST {
        name(&engine, &first, n);
    }
    let each = (resident() - before) / AT_REST;
    println!("rest: memory of each of {AT_REST} live sessions, bytes      {each:>10}");
    executor.shutdown_timeout(Duration::from_secs(5));
}

/// A new session with an entry on disk.
fn name(engine: &Engine, first: &SessionId, number: usize) {
    let opened = wait(asked(|reply| engine.new_session(call(first), Default::default(), reply)));
    let call = Call { session: opened.session, ..call(first) };
    wait(asked(|reply| engine.set_name(call, format!("Session {number}"), reply)));
}
