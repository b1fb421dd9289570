//! A system that gives the process few threads, or no more: what is asked is answered, or the start is refused with a reason.

use crate::support;

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use edn_bridge::client::frame;
use support::{Bridge, Setup};

/// Who a test runs as that may have few threads: the system refuses root none.
fn somebody() -> Option<u32> {
    rustix::process::geteuid().is_root().then(|| 20_000 + std::process::id() % 40_000)
}

/// The threads that the user of the bridge has already.
fn threads_of(user: u32) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let own = processes.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == user));
    own.map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count)).sum()
}

fn give(folder: &Path, user: u32) {
    chown(folder, Some(user), Some(user)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path().is_dir() {
            true => give(&entry.path(), user),
            false => chown(entry.path(), Some(user), Some(user)).unwrap(),
        }
    }
}

/// A bridge whose user may have so many threads more.
fn with_threads(setup: &Setup, most: usize) -> Bridge {
    let whole = setup.command();
    // Another user may not come where the tests are built.
    let program = setup.dir.path().join("edn-bridge");
    if !program.exists() && std::fs::hard_link(whole.get_program(), &program).is_err() {
        std::fs::copy(whole.get_program(), &program).unwrap();
    }
    let user = somebody();
    let before = threads_of(user.unwrap_or_else(|| rustix::process::geteuid().as_raw()));
    let mut command = Command::new("prlimit");
    command.arg(format!("--nproc={0}:{0}", before + most)).arg(&program).args(whole.get_args()).arg("serve");
    for (name, value) in whole.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(user) = user {
        let dir = setup.dir.path();
        for entry in std::fs::read_dir(dir).unwrap().flatten().filter(|entry| entry.path() != program) {
            match entry.path().is_dir() {
                true => give(&entry.path(), user),
                false => chown(entry.path(), Some(user), Some(user)).unwrap(),
            }
        }
        chown(dir, Some(user), Some(user)).unwrap();
        command.uid(user).gid(user);
    }
    command.current_dir(setup.project());
    Bridge::start(&mut command)
}

#[test]
fn bridge_with_few_threads_answers_or_does_not_start() {
    let script = r#"{:turns [{:steps [{:delta "done"}]}] :then :repeat-last}"#;
    let mut served = 0;
    for most in 1..=16 {
        let setup = Setup::new().script(script);
        let mut bridge = with_threads(&setup, most);
        let requests = [
            ("handshake", frame::client_info("t", "1", &[])),
            ("subscribe", "{}".to_owned()),
            ("list_sessions", "{}".to_owned()),
            ("get_commands", "{}".to_owned()),
            ("list_rules", "{}".to_owned()),
            ("remember", "{:text \"a note\"}".to_owned()),
            ("prompt", "{:message \"go\"}".to_owned()),
            ("list_sessions", "{:text \"go\"}".to_owned()),
            ("ping", "{}".to_owned()),
        ];
        for (place, (op, params)) in requests.iter().enumerate() {
            bridge.request(&format!("r{place}"), op, params);
        }
        let mut answered = vec![false; requests.len()];
        let mut has_ended = false;
        while let Some(line) = bridge.line_or_end() {
            for (place, answered) in answered.iter_mut().enumerate() {
                *answered |= line.contains(&format!(":id \"r{place}\"")) && !line.contains(":kind :event");
            }
            has_ended |= line.contains("turn/ended");
            if has_ended && answered.iter().all(|answered| *answered) {
                break;
            }
        }
        if has_ended && answered.iter().all(|answered| *answered) {
            served += 1;
            bridge.kill();
            bridge.wait();
            continue;
        }
        let (status, _, told) = bridge.finish();
        // What ends it is no panic.
        let code = status.code();
        assert!(!matches!(code, None | Some(0 | 101)), "{most} threads: {status} {answered:?} {told}");
        assert!(told.contains("annot start"), "{most} threads: {told}");
    }
    assert!(served >= 3, "only {served} were served");
}
