//! Daemons that are frozen, and files of another kind where those of the daemon belong: said in words, and in time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier};

use edn_bridge::value::Value;

use crate::fixture::{Daemon, END, prompt, runs, signal, until};
use crate::support::{code, wait_until};

#[test]
fn daemon_commands_say_what_they_did() {
    let daemon = Daemon::calling(&["true"]);
    for (words, expected) in [
        (&["stop"][..], "No daemon runs.\n"),
        (&["start"], "The daemon was started: process "),
        (&["start"], "The daemon runs already: process "),
        (&["restart"], "A new daemon runs in the place of the old one.\n"),
        (&["stop"], "The daemon was stopped.\n"),
        (&["restart"], "No daemon ran; one was started.\n"),
    ] {
        let output = daemon.control(words);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.starts_with(expected), "{words:?}: {output:?}");
    }
}

#[test]
fn frozen_replaced_daemon_is_named_by_stop() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let first = daemon.pid();
    prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    assert!(daemon.control(&["restart"]).status.success());
    let (mut new, second) = (daemon.setup.interactor(), daemon.pid());
    signal(first, "-STOP");
    let named = |said: &[u8]| {
        let said = String::from_utf8_lossy(said);
        assert!(said.contains(&format!("Process {first} is stopped or hangs")), "{said}");
    };
    let told = daemon.control(&["status"]);
    assert!(told.status.success() && told.stdout.starts_with(b"The daemon runs"), "{told:?}");
    named(&told.stderr);
    // It may have work.
    let told = daemon.control(&["stop"]);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    named(&told.stderr);
    assert_eq!(code(&new.ask("ping", "ping", "{}")), "");
    // What can be ended is ended, and what cannot is said.
    let told = daemon.control(&["stop", "--now"]);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    named(&told.stderr);
    assert_eq!(new.wait().code(), Some(75));
    assert!(runs(first) && !runs(second));
    // Whoever asked it has gone by now, and so it goes on.
    signal(first, "-CONT");
    assert_eq!(code(&old.ask("ping", "ping", "{}")), "");
    assert!(daemon.control(&["stop", "--now"]).status.success());
    assert_eq!(old.wait().code(), Some(75));
    wait_until("the old daemon stays", || !runs(first));
}

#[test]
fn frozen_daemon_is_named_by_stop() {
    let daemon = Daemon::calling(&["true"]);
    let _editor = daemon.setup.interactor();
    let pid = daemon.pid();
    signal(pid, "-STOP");
    let told = daemon.control(&["stop"]);
    signal(pid, "-CONT");
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(said.contains(&format!("Process {pid} is stopped or hangs")), "{said}");
    assert!(daemon.control(&["stop"]).status.success());
    wait_until("the daemon stays", || !runs(pid));
}

#[test]
fn replaced_daemons_are_asked_at_once() {
    let daemon = Daemon::calling(&["true"]);
    let _editor = daemon.setup.interactor();
    // None of them answers before all are asked.
    let all = Arc::new(Barrier::new(8));
    let fakes: Vec<_> = (1..=8)
        .map(|number| {
            let path = daemon.setup.state().join(format!("run/replaced-{number}.daemon.sock"));
            let (listener, all) = (UnixListener::bind(path).unwrap(), all.clone());
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                all.wait();
                let told =
                    format!("{{:status {{:pid {number} :build \"\" :started-at \"\" :engines []}}}}\n");
                stream.write_all(told.as_bytes()).unwrap();
            })
        })
        .collect();
    let status = daemon.status().unwrap();
    let replaced = status.get("replaced").and_then(Value::as_slice).unwrap();
    assert_eq!(replaced.len(), 8, "{status}");
    fakes.into_iter().for_each(|fake| fake.join().unwrap());
}

#[test]
fn silent_socket_is_named_and_hinders_nothing() {
    let daemon = Daemon::calling(&["true"]);
    let mut editor = daemon.setup.interactor();
    let path = daemon.setup.state().join("run/replaced-1.daemon.sock");
    let silent = UnixListener::bind(&path).unwrap();
    let told = daemon.control(&["status"]);
    assert!(told.status.success() && told.stdout.starts_with(b"The daemon runs"), "{told:?}");
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(said.contains("replaced-1.daemon.sock") && said.contains("no answer came in time"), "{said}");
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(editor.wait().code(), Some(75));
    assert_eq!(daemon.control(&["stop"]).status.code(), Some(1));
    // It is removed once nobody listens. Anything else is no daemon.
    drop(silent);
    make_loop(&daemon.setup.state().join("run/replaced-2.daemon.sock"));
    make_pipe(&daemon.setup.state().join("run/replaced-3.daemon.sock"));
    make_folder(&daemon.setup.state().join("run/replaced-4.daemon.sock"));
    assert!(daemon.control(&["stop"]).status.success());
    assert!(!path.exists());
}

#[test]
fn stranger_at_the_socket_keeps_no_daemon_out() {
    stranger_listens(true);
}

#[test]
fn stranger_without_a_lock_is_no_daemon() {
    stranger_listens(false);
}

fn stranger_listens(has_lock: bool) {
    let daemon = Daemon::calling(&["true"]);
    let run = daemon.setup.state().join("run");
    std::fs::create_dir_all(&run).unwrap();
    if has_lock {
        // As a daemon leaves it that has ended.
        std::fs::write(run.with_file_name("daemon.lock"), "").unwrap();
    }
    // It takes connections, and never says anything.
    let stranger = UnixListener::bind(run.join("daemon.sock")).unwrap();
    let told = daemon.control(&["start"]);
    assert!(told.status.success(), "{told:?}");
    let mut editor = daemon.setup.interactor();
    assert!(runs(daemon.pid()));
    assert_eq!(code(&editor.ask("ping", "ping", "{}")), "");
    drop(stranger);
    assert!(daemon.control(&["stop", "--now"]).status.success());
}

fn make_pipe(path: &Path) {
    let _ = std::fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn make_folder(path: &Path) {
    let _ = std::fs::remove_file(path);
    std::fs::create_dir(path).unwrap();
}

fn make_loop(path: &Path) {
    let _ = std::fs::remove_file(path);
    std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap();
}

fn remove(path: &Path) {
    std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path)).unwrap();
}

#[test]
fn file_of_another_kind_is_refused_in_words() {
    let daemon = Daemon::calling(&["true"]);
    std::fs::create_dir_all(daemon.setup.state().join("run")).unwrap();
    for name in ["daemon.lock", "daemon.start.lock", "daemon.log"] {
        let path = daemon.setup.state().join(name);
        for make in [make_pipe, make_folder, make_loop] {
            make(&path);
            let told = daemon.control(&["start"]);
            let said = String::from_utf8_lossy(&told.stderr);
            assert!(!told.status.success(), "{name}: {told:?}");
            assert!(
                said.contains("is not a regular file: remove it") || said.contains("symbolic links"),
                "{name}: {said}"
            );
            if name == "daemon.log" {
                assert!(!daemon.control(&["log"]).status.success());
            }
            remove(&path);
        }
    }
    assert!(daemon.control(&["start"]).status.success());
}

#[test]
fn lock_of_another_kind_lets_nobody_end_the_daemon() {
    let daemon = Daemon::calling(&["true"]);
    let (mut editor, pid) = (daemon.setup.interactor(), daemon.pid());
    let lock = daemon.setup.state().join("daemon.lock");
    let aside = lock.with_extension("aside");
    std::fs::rename(&lock, &aside).unwrap();
    for make in [make_pipe, make_folder] {
        make(&lock);
        for words in [&["restart"][..], &["stop"], &["stop", "--now"]] {
            let told = daemon.control(words);
            assert!(!told.status.success(), "{words:?}: {told:?}");
            let said = String::from_utf8_lossy(&told.stderr);
            assert!(said.contains("daemon.lock is not a regular file: remove it"), "{words:?}: {said}");
        }
        remove(&lock);
    }
    assert_eq!(daemon.pid(), pid);
    assert_eq!(code(&editor.ask("ping", "ping", "{}")), "");
    std::fs::rename(&aside, &lock).unwrap();
}

#[test]
fn removed_socket_and_lock_are_made_again() {
    let daemon = Daemon::calling(&["true"]);
    let (mut editor, pid) = (daemon.setup.interactor(), daemon.pid());
    let (run, lock) = (daemon.setup.state().join("run"), daemon.setup.state().join("daemon.lock"));
    std::fs::remove_file(run.join("daemon.sock")).unwrap();
    assert_eq!(daemon.pid(), pid);
    // A second daemon beside it would have another number.
    std::fs::remove_dir_all(&run).unwrap();
    assert!(daemon.control(&["start"]).status.success());
    assert_eq!(daemon.pid(), pid);
    std::fs::remove_file(&lock).unwrap();
    wait_until("the lock is not taken again", || lock.exists());
    assert_eq!(daemon.pid(), pid);
    assert_eq!(code(&editor.ask("ping", "ping", "{}")), "");
}

#[test]
fn daemon_that_loses_its_lock_hands_over() {
    let daemon = Daemon::calling(&["true"]);
    let (mut editor, pid) = (daemon.setup.interactor(), daemon.pid());
    let lock = daemon.setup.state().join("daemon.lock");
    let other = lock.with_extension("other");
    let file = std::fs::File::create(&other).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    std::fs::rename(&other, &lock).unwrap();
    drop(editor.ask("ping", "ping", "{}"));
    // The other holder serves nobody; once it is gone, a new daemon takes the place.
    let socket = daemon.setup.state().join("run/daemon.sock");
    wait_until("it stays", || !socket.exists());
    drop(file);
    assert!(daemon.control(&["start"]).status.success());
    assert_ne!(daemon.pid(), pid);
    assert_eq!(editor.wait().code(), Some(75));
}

#[test]
fn holder_without_a_socket_is_named() {
    let daemon = Daemon::calling(&["true"]);
    let lock = daemon.setup.state().join("daemon.lock");
    std::fs::create_dir_all(daemon.setup.state()).unwrap();
    std::fs::write(&lock, "{:pid 4711}\n").unwrap();
    let file = std::fs::File::open(&lock).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    for words in ["status", "stop"] {
        let told = daemon.control(&[words]);
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(said.contains("process 4711 holds the daemon's lock"), "{words}: {told:?}");
    }
    drop(file);
}
