//! A copy that cannot be written: the session is read from the engine, and the file is a beginning of the log.

use super::{ask, end_of_turn, host, listed, member, shared, switch, texts};
use crate::fixture::END;
use crate::server::{Engine as _, Server};
use crate::support::disk::{limited, on_small_disk, seen};
use crate::support::{Bridge, Setup, data, files};
use edn_bridge::client::frame;

/// More than the file of a copy may grow to here.
const LONG: usize = 100_000;

/// An interactor on a bridge that was started in its own way.
fn ready(mut bridge: Bridge) -> Bridge {
    bridge.ask("h", "handshake", &frame::client_info("t", "1", &["interactor"]));
    ask(&mut bridge, "subscribe", "{}");
    bridge
}

fn say(bridge: &mut Bridge, text: &str) {
    ask(bridge, "prompt", &format!("{{:message {text:?}}}"));
    assert_eq!(data(&end_of_turn(bridge), "outcome"), "completed");
}

/// What a session's file has, below a state folder.
fn file_of(state: &std::path::Path, session: &str) -> String {
    let is_its = |path: &&std::path::PathBuf| {
        path.extension().is_some_and(|end| end == "edn") && path.to_string_lossy().contains(session)
    };
    let path = files(state).iter().find(is_its).cloned();
    path.map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default()
}

fn assert_whole(setup: &Setup) {
    let output = setup.command().args(["sessions", "verify"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn copy_that_cannot_be_written_is_read_from_the_engine() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let mut a = alpha.setup.interactor();
    let other = shared(&mut a);
    say(&mut a, &"y".repeat(LONG));
    let others = texts(&mut a);
    ask(&mut a, "new_session", "{}");
    let session = shared(&mut a);
    say(&mut a, "first");

    // No file may grow beyond this, which a process meets as it meets a full disk.
    let beta = member(&server, "beta", ":share :none :lease-ms 3000", END);
    let full = || ready(limited(&beta, "ulimit -f 64"));
    let mut b = full();
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    let before = texts(&mut b);
    assert_eq!(before.len(), 2);
    let file = || file_of(&beta.state(), &session);
    let kept = file();
    assert!(kept.contains("\"first\""), "{kept}");
    // Nothing comes after what it lacks, which would be another log.
    say(&mut b, &"x".repeat(LONG));
    say(&mut b, "third");
    let all = texts(&mut b);
    assert_eq!((all.len(), texts(&mut a)), (6, all.clone()));
    assert!(file().starts_with(&kept) && !file().contains("third"), "{}", file());
    // One that is not here yet is read without a copy.
    switch(&mut b, &other);
    assert_eq!(texts(&mut b), others);
    assert_eq!(file_of(&beta.state(), &other), "");
    say(&mut b, "of the other");
    assert_eq!(texts(&mut b).len(), 4);
    b.finish();

    // Opened where there is still no room.
    let mut b = full();
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    assert_eq!(texts(&mut b), all);
    say(&mut b, "fourth");
    assert_eq!(texts(&mut b).len(), 8);
    assert!(file().starts_with(&kept) && !file().contains("fourth"), "{}", file());
    b.finish();

    // With room, it is made whole.
    let mut b = beta.interactor();
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    say(&mut b, "fifth");
    let all = texts(&mut b);
    assert_eq!((all.len(), texts(&mut a)), (10, all.clone()));
    assert_eq!(file().matches(&"x".repeat(LONG)).count(), 1);
    switch(&mut b, &other);
    assert_eq!(texts(&mut b).len(), 4);
    assert!(file_of(&beta.state(), &other).contains("of the other"));
    b.finish();
    assert_whole(&beta);
    server.assert_whole(&session);
}

#[test]
fn copy_on_a_disk_that_fills_up_is_read_from_the_engine() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let mut a = alpha.setup.interactor();
    let session = shared(&mut a);
    say(&mut a, "first");
    let beta = member(&server, "beta", ":share :none :lease-ms 3000", END);
    let Some(b) = on_small_disk(&beta, &beta.state(), "256k") else { return };
    let mut b = ready(b);
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    let state = seen(&b, &beta.state());
    let fill = state.join("fill");
    let mut filling = std::fs::File::create(&fill).unwrap();
    let full = std::io::copy(&mut std::io::repeat(0), &mut filling).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    say(&mut b, &"x".repeat(LONG));
    say(&mut b, "third");
    let all = texts(&mut b);
    assert_eq!((all.len(), texts(&mut a)), (6, all));
    // With room again, it is whole once it is opened again.
    std::fs::remove_file(&fill).unwrap();
    say(&mut b, "fourth");
    let kept = file_of(&state, &session);
    assert!(kept.contains("\"first\"") && !kept.contains("third") && !kept.contains("fourth"), "{kept}");
    server.assert_whole(&session);
}
