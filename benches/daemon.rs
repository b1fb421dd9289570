//! An editor on the daemon compared with one that has a process of its own and with `cat`, in one run: from spawn to the
//! first answer, and round trips. `cargo bench --bench daemon` prints tables.

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
use std::time::Instant;

use support::{Peer, handshake, serve, times};

const STARTS: usize = 100;
const ROUNDS: usize = 200;
const PINGS: usize = 200;

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
}
