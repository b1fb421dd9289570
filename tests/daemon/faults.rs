//! Faults of a process: signals, closed streams, unread pipes, missing disk space and descriptors, jumping
//! clocks, providers that die or never end. Each fault has one outcome, shown with the real binary.

mod clocks;
mod descriptors;
mod disk;
mod ends;
mod journals;
mod providers;
mod states;
use crate::support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use edn_bridge::value::Owned;
use rustix::process::{Pid, Signal, kill_process};
use support::{Bridge, Setup, at, kind};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";
/// A turn that runs until it is ended.
const ENDLESS: &str = "{:turns [{:steps [{:delta \"begun\"} {:sleep-ms 3600000}]}]}";

fn signal(bridge: &Bridge, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(bridge.pid()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// What the journal of the only session says.
fn journal(setup: &Setup) -> String {
    let files = support::files(&setup.state().join("sessions"));
    let journals: Vec<&PathBuf> =
        files.iter().filter(|path| path.extension().is_some_and(|end| end == "edn")).collect();
    assert_eq!(journals.len(), 1, "{files:?}");
    std::fs::read_to_string(journals[0]).unwrap()
}

fn stop_reason(message: &Owned) -> &str {
    at(message, &["data", "stop-reason"]).and_then(|reason| reason.as_str()).unwrap_or("")
}

/// Whether a process is there and no zombie.
fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn signal_aborts_and_keeps_turn_and_sets_status() {
    for (which, number) in [(Signal::TERM, 15), (Signal::HUP, 1), (Signal::INT, 2)] {
        let setup = Setup::new().script(ENDLESS);
        let mut bridge = setup.ready();
        bridge.ask("p", "prompt", "{:message \"go\"}");
        bridge.event("assistant/delta");
        signal(&bridge, which);
        // The client, which still reads, is told.
        assert_eq!(stop_reason(&bridge.event("assistant/message")), "aborted");
        while bridge.line_or_end().is_some() {}
        assert_eq!(bridge.wait().code(), Some(128 + number), "signal {number}");
        assert!(journal(&setup).contains(":stop-reason \"aborted\""), "signal {number}");
    }
}

#[test]
fn signal_before_handshake_ends_process() {
    let setup = Setup::new();
    let mut bridge = setup.serve();
    // An answer shows that it has begun to listen for signals at all.
    bridge.ask("early", "ping", "{}");
    signal(&bridge, Signal::TERM);
    // A signal right at the start may come before it is listened for, and then ends the process by itself.
    let status = bridge.wait();
    assert!(status.code() == Some(143) || status.signal() == Some(15), "{status:?}");
}

#[test]
fn signal_for_broken_pipe_has_no_effect() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    signal(&bridge, Signal::PIPE);
    assert_eq!(kind(&bridge.ask("after", "ping", "{}")), "response");
}

#[test]
fn unread_standard_error_blocks_nothing() {
    use rustix::fs::{OFlags, fcntl_setfl};
    let setup = Setup::new().script(ECHO).arg("--log").arg("trace");
    // A pipe that is full from the start, held open and never read.
    let (_unread, errors) = rustix::pipe::pipe().unwrap();
    fcntl_setfl(&errors, OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&errors, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(&errors, b"x").is_ok() {}
    fcntl_setfl(&errors, OFlags::empty()).unwrap();
    let mut child = setup
        .command()
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |line: &str, awaited: &str| {
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        while !lines.next().unwrap().unwrap().contains(awaited) {}
    };
    ask(
        "{:id \"h\" :kind :request :op \"handshake\" :params {:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\"}}}",
        ":id \"h\"",
    );
    ask("{:id \"s\" :kind :request :op \"subscribe\" :params {}}", ":id \"s\"");
    ask("{:id \"p\" :kind :request :op \"prompt\" :params {:message \"go\"}}", "assistant/message");
    // That it ends is logged.
    drop(stdin);
    while lines.next().is_some() {}
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn folder_with_non_utf8_name_is_refused_at_start() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join(OsStr::from_bytes(b"st\xffate"));
    std::fs::create_dir(&odd).unwrap();
    for option in ["--state-dir", "--cwd"] {
        let output = Command::new(env!("CARGO_BIN_EXE_edn-bridge"))
            .args(["serve", "--no-daemon", "--state-dir"])
            .arg(dir.path().join("state"))
            .arg(option)
            .arg(&odd)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && !told.contains("panicked"), "{option}: {told}");
        if option == "--cwd" {
            assert!(told.contains("is not UTF-8") && told.contains(option), "{told}");
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_edn-bridge"))
        .args(["serve", "--no-daemon", "--state-dir"])
        .arg(&odd)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not UTF-8"));
}

#[test]
fn fault_page_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let files = ["tests", "src"].map(|folder| support::files(&root.join(folder)));
    let files = files.iter().flatten().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let tests: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| fault |")).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in cell.split(", ") {
            let name = name.trim_matches('`');
            assert!(tests.contains(&format!("fn {name}()")), "{name} in: {row}");
        }
    }
}

#[test]
fn files_open_to_others_are_closed_before_first_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let setup = Setup::new().script(ECHO);
    let open = |path: &Path| {
        std::fs::create_dir_all(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    for folder in ["", "run", "sessions", "outputs", "somebody's"] {
        open(&setup.state().join(folder));
    }
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("assistant/message");
    bridge.ask("b", "bash", "{:command \"seq 1 50000\"}");
    support::guest::socket(&setup.state());
    let (_, _, errors) = bridge.finish();
    assert!(errors.contains("Other users may exchange") && errors.contains("was closed to them"), "{errors}");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&setup.state()), 0o777, "it may be meant for more than this program");
    assert_eq!(mode(&setup.state().join("somebody's")), 0o777);
    for entry in ["run", "sessions", "outputs"] {
        assert_eq!(mode(&setup.state().join(entry)), 0o700, "{entry}");
    }
    for file in support::files(&setup.state()) {
        assert_eq!(mode(&file) & 0o077, 0, "{}", file.display());
    }
}
