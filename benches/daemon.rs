//! An editor on the daemon compared with one that has a process of its own and with `cat`, in one run: from spawn to the
//! first answer, round trips, and what a client that comes back waits for. `cargo bench --bench daemon` prints tables.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a benchmark"
)]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use edn_bridge::message::{Block, EntryId, Message, Role, SessionId};
use edn_bridge::store::{Durability, Entry, EntryBody, Header, Journals as _, Store};
use support::{Peer, handshake, serve, times};

const STARTS: usize = 100;
const ROUNDS: usize = 200;
const PINGS: usize = 200;
const ENTRIES: usize = 100_000;

/// The state folders of a daemon's editors, and the end of the daemon.
struct Daemon(tempfile::TempDir);

impl Daemon {
    fn editor(&self) -> Peer {
        let mut command = serve(self.0.path(), "{:turns [{:steps [{:delta \"x\"}]}]}");
        command.env("EDN_BRIDGE_DAEMON", "auto");
        Peer::start(command, tempfile::tempdir().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
        let _ = command
            .arg("--state-dir")
            .arg(self.0.path().join("state"))
            .args(["daemon", "stop", "--now"])
            .status();
    }
}

fn own() -> Peer {
    Peer::bridge("{:turns [{:steps [{:delta \"x\"}]}]}", &[])
}

fn main() {
    let daemon = Daemon(tempfile::tempdir().unwrap());
    // Keeps the project's engine alive, as an editor with several chats does.
    let mut first = daemon.editor();
    first.ask(&handshake());
    println!(
        "| from spawn to the first answer | p50 | p99 | p99.9 | p50 / cat | p99 / cat |\n|---|---|---|---|---|---|"
    );
    let [mut cat, mut alone, mut attached, mut starting] = [const { Vec::new() }; 4];
    for _ in 0..STARTS {
        let ask = |into: &mut Vec<_>, start: &dyn Fn() -> Peer| {
            let begun = Instant::now();
            let mut peer = start();
            peer.ask(&handshake());
            into.push(begun.elapsed());
            peer
        };
        ask(&mut cat, &Peer::cat);
        ask(&mut alone, &own);
        ask(&mut attached, &|| daemon.editor());
        let new = Daemon(tempfile::tempdir().unwrap());
        let peer = ask(&mut starting, &|| new.editor());
        drop(peer);
    }
    let floor = times("cat", cat, None);
    times("a process of its own", alone, Some(&floor));
    times("the daemon, which runs", attached, Some(&floor));
    times("the daemon, which is started", starting, Some(&floor));

    println!("\n| ping | p50 | p99 | p99.9 | p50 / own | p99 / own |\n|---|---|---|---|---|---|");
    let (mut single, mut shared) = (own(), daemon.editor());
    let [mut alone, mut attached] = [const { Vec::new() }; 2];
    single.ask(&handshake());
    shared.ask(&handshake());
    for _ in 0..ROUNDS {
        for (peer, into) in [(&mut single, &mut alone), (&mut shared, &mut attached)] {
            for _ in 0..PINGS {
                into.push(peer.ask("{:id \"p\" :kind :request :op \"ping\"}\n"));
            }
        }
    }
    let floor = times("a process of its own", alone, None);
    times("the daemon", attached, Some(&floor));
    drop((single, shared, first));
    replay();
}

/// A client that has nothing of a session with [`ENTRIES`] entries: how soon the first one comes, and how soon it has all.
fn replay() {
    let daemon = Daemon(tempfile::tempdir().unwrap());
    let store = Store::new(&daemon.0.path().join("state"), Durability::Relaxed).unwrap();
    let header = Header {
        request: None,
        replica_of: None,
        session: SessionId::from("s-long"),
        created_at: "2026-01-01T00:00:00.000Z".into(),
        cwd: daemon.0.path().to_string_lossy().into(),
        parent: None,
    };
    drop(store.create_with(header, &mut (0..ENTRIES).map(entry)).unwrap());
    drop(store);
    println!("\n| replay of {ENTRIES} entries | first | all |\n|---|---|---|");
    let mut keeps = None;
    for name in ["opened from disk", "live", "live, again"] {
        let mut peer = daemon.editor();
        peer.ask(&handshake());
        let begun = Instant::now();
        peer.send(
            "{:id \"s\" :kind :request :op \"subscribe\" :params {:topics [\"session/entry\" \"session/synced\"] \
             :since {:session-id \"s-long\" :offset 0}}}\n",
        );
        assert!(peer.line().contains(&format!(":replaying {ENTRIES}")), "{}", peer.last());
        assert!(peer.line().contains("session/entry"), "{}", peer.last());
        let first = begun.elapsed();
        for _ in 1..ENTRIES {
            peer.line();
        }
        assert!(peer.last().contains("session/entry"), "{}", peer.last());
        while !peer.line().contains("session/synced") {}
        println!("| {name} | {first:.1?} | {:.0?} |", begun.elapsed());
        keeps = Some(peer);
    }
    drop(keeps);
}

fn entry(number: usize) -> Arc<Entry> {
    let id = |number: usize| EntryId::from(format!("e-019b0000000070008000{number:012x}"));
    let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
    let text = Block::Text(
        "A message of about a hundred bytes, as they stand in sessions, with `code` and a \"word\".".into(),
    );
    let mut message = Message::new(id(number), role, vec![text], "2026-01-01T00:00:00.000Z".into());
    message.parent_id = number.checked_sub(1).map(id);
    Arc::new(Entry {
        id: id(number),
        parent: message.parent_id.clone(),
        ts: message.timestamp.clone(),
        request: None,
        body: EntryBody::Message(Arc::new(message)),
    })
}
