//! What befalls a process: signals, ends, pipes that nobody reads, a disk and descriptors that run out,
//! clocks that jump, providers that die or never end. Each has one outcome, over the real binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use edn_bridge::limits::MAX_ANSWER_BYTES;
use edn_bridge::value::Owned;
use rustix::process::{Pid, Signal, kill_process};
use support::{Bridge, PATIENCE, Setup, at, code, is_event, kind, text};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";
/// A turn that runs until it is ended.
const ENDLESS: &str = "{:turns [{:steps [{:delta \"begun\"} {:sleep-ms 3600000}]}]}";

fn signal(bridge: &Bridge, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(bridge.pid()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// What the journal of the only session says.
fn journal(setup: &Setup) -> String {
    let files = support::files(&setup.state());
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
fn a_signal_that_asks_for_the_end_ends_the_turn_keeps_it_and_says_which_it_was() {
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
fn a_signal_before_the_handshake_ends_the_process_too() {
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
fn a_signal_for_a_pipe_that_broke_elsewhere_ends_nothing() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    signal(&bridge, Signal::PIPE);
    assert_eq!(kind(&bridge.ask("after", "ping", "{}")), "response");
}

#[test]
fn the_end_of_input_ends_the_process_in_every_state() {
    let bash = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo $$; exec sleep 3600\"}}}]}]}";
    let retry = "{:turns [{:steps [{:error {:kind :overloaded :message \"full\" :retry-after-ms 100000}}]}]}";
    type State = (&'static str, &'static str, &'static [&'static str], fn(&mut Bridge));
    let states: [State; 7] = [
        ("before the handshake", ECHO, &[], |_| {}),
        ("idle", ECHO, &[], |bridge| {
            bridge.handshake();
        }),
        ("streaming", ENDLESS, &[], |bridge| {
            go(bridge);
            bridge.event("assistant/delta");
        }),
        ("in a tool", bash, &["--yolo"], |bridge| {
            go(bridge);
            bridge.event("tool/update");
        }),
        ("while a question waits", bash, &[], |bridge| {
            bridge.ask("h", "handshake", "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}");
            go(bridge);
            bridge.event("interaction/requested");
        }),
        ("while a retry waits", retry, &[], |bridge| {
            go(bridge);
            bridge.until(|frame| {
                at(frame, &["data", "phase"]).and_then(|phase| phase.as_str()) == Some("retrying")
            });
        }),
        ("with messages queued", ENDLESS, &[], |bridge| {
            go(bridge);
            bridge.event("assistant/delta");
            bridge.ask("q", "follow_up", "{:message \"later\"}");
        }),
    ];
    for (state, script, arguments, reach) in states {
        let mut setup = Setup::new().script(script);
        for argument in arguments {
            setup = setup.arg(argument);
        }
        let mut bridge = setup.serve();
        reach(&mut bridge);
        let child = state.starts_with("in a tool").then(|| {
            let told = bridge.transcript.iter().rev().find(|line| line.contains("tool/update")).unwrap();
            let (_, output) = told.split_once(":result-text \"").unwrap();
            output.split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned()
        });
        let (status, rest, errors) = bridge.finish();
        assert_eq!(status.code(), Some(0), "{state}: {rest:?} {errors}");
        assert!(!errors.contains("panicked"), "{state}: {errors}");
        if let Some(pid) = child {
            assert!(!pid.is_empty());
            assert!(!alive(&pid), "the tool's process {pid} is left");
        }
    }
}

/// Subscribes to everything and prompts.
fn go(bridge: &mut Bridge) {
    if !bridge.transcript.iter().any(|line| line.contains("handshake")) {
        bridge.handshake();
    }
    bridge.ask("s", "subscribe", "{}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
}

#[test]
fn a_standard_error_that_nobody_reads_holds_nothing_up() {
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
fn a_provider_that_dies_in_mid_answer_ends_the_turn_with_what_was_said_and_the_next_one_works() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:delta \"half\"} {:error {:kind :dropped :message \"the connection broke\"}}]} \
         {:steps [{:delta \"whole\"}]}]}",
    );
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let message = bridge.event("assistant/message");
    assert_eq!(stop_reason(&message), "error");
    assert_eq!(at(&message, &["data", "text"]).and_then(|text| text.as_str()), Some("half"));
    bridge.ask("again", "prompt", "{:message \"go\"}");
    let message = bridge.event("assistant/message");
    assert_eq!(at(&message, &["data", "text"]).and_then(|text| text.as_str()), Some("whole"));
}

#[test]
fn a_provider_that_streams_for_ever_is_ended_at_the_bound_or_by_an_abort() {
    let setup = Setup::new()
        .script("{:turns [{:steps [{:deltas 100000000 :of \"0123456789012345678901234567890123456789\"}]}]}");
    let mut bridge = setup.serve();
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"assistant/message\"]}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let message = bridge.event("assistant/message");
    assert_eq!(stop_reason(&message), "error");
    let told = at(&message, &["data", "error-message"]).and_then(|text| text.as_str()).unwrap();
    assert!(told.contains(&MAX_ANSWER_BYTES.to_string()), "{told}");
    // The next turn is such a one too, and is ended while it streams.
    bridge.ask("s2", "subscribe", "{:topics [\"assistant/delta\"]}");
    bridge.ask("p2", "prompt", "{:message \"go\"}");
    bridge.event("assistant/delta");
    bridge.ask("a", "abort", "{}");
    let message = bridge.event("assistant/message");
    assert!(matches!(stop_reason(&message), "aborted" | "error"), "{message}");
    assert_eq!(kind(&bridge.ask("after", "ping", "{}")), "response");
}

#[test]
fn pauses_and_order_do_not_hang_on_the_time_of_day() {
    // Time stands still, which is the most that a clock can be put back.
    let setup = Setup::new().fixed().script(
        "{:turns [{:steps [{:error {:kind :overloaded :message \"full\" :retry-after-ms 50}}]} \
         {:steps [{:sleep-ms 50} {:delta \"after the pause\"}]}]}",
    );
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.until(|frame| at(frame, &["data", "phase"]).and_then(|phase| phase.as_str()) == Some("retrying"));
    let message = bridge.event("assistant/message");
    assert_eq!(at(&message, &["data", "text"]).and_then(|text| text.as_str()), Some("after the pause"));
    let command = bridge.ask("b", "bash", "{:command \"sleep 3600\" :timeout-seconds 1}");
    assert_eq!(kind(&command), "response", "{command}");
}

/// A bridge that a shell starts after `limits`.
fn limited(setup: &Setup, limits: &str) -> Bridge {
    let program = setup.command();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{limits}; exec \"$0\" \"$@\" serve")).arg(program.get_program());
    shell.args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Bridge::start(&mut shell)
}

/// The socket beside standard input and output, once it is there.
fn socket(state: &Path) -> PathBuf {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for entry in std::fs::read_dir(state.join("run")).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "sock")
                && UnixStream::connect(entry.path()).is_ok()
            {
                return entry.path();
            }
        }
        assert!(Instant::now() < deadline, "no socket");
        std::thread::yield_now();
    }
}

#[test]
fn without_descriptors_the_editor_is_served_and_guests_come_in_when_there_are_some_again() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = limited(&setup, "ulimit -n 40");
    bridge.handshake();
    bridge.ask("s", "subscribe", "{}");
    let path = socket(&setup.state());
    // More than there are descriptors: the last ones wait to be taken.
    let guests: Vec<UnixStream> = (0..60).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let full = format!("/proc/{}/fd", bridge.pid());
    let deadline = Instant::now() + PATIENCE;
    while std::fs::read_dir(&full).unwrap().count() < 39 {
        assert!(Instant::now() < deadline, "the descriptors do not run out");
        std::thread::yield_now();
    }
    assert_eq!(kind(&bridge.ask("here", "ping", "{}")), "response");
    // A session's file needs one. There is none, or just one left: either way it is said.
    let answer = bridge.ask("p", "prompt", "{:message \"go\"}");
    assert!(kind(&answer) == "response" || code(&answer) == "runtime/failed", "{answer}");
    drop(guests);
    // One that came while there were just too few is hung up on, and tries again.
    let deadline = Instant::now() + PATIENCE;
    let line = loop {
        let mut guest = UnixStream::connect(&path).unwrap();
        guest.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut line = String::new();
        let answered = guest
            .write_all(b"{:id \"g\" :kind :request :op \"ping\" :params {}}\n")
            .and_then(|()| BufReader::new(guest).read_line(&mut line));
        if answered.is_ok_and(|bytes| bytes > 0) {
            break line;
        }
        assert!(Instant::now() < deadline, "no guest is let in");
    };
    assert!(line.contains("transport/not-ready"), "{line}");
    // And the editor's prompts are taken again, at once or as soon as the last guest is gone.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = bridge.ask("again", "prompt", "{:message \"go\"}");
        if kind(&answer) == "response" || code(&answer) == "request/session-not-idle" {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}");
    }
}

#[test]
fn a_disk_that_is_full_is_told_and_what_was_acknowledged_is_kept() {
    let setup = Setup::new().script(ECHO);
    // No file may grow beyond this, which a process meets as it meets a full disk.
    let mut bridge = limited(&setup, "ulimit -f 64");
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"assistant/message\" \"error\"]}");
    let message = "x".repeat(1000);
    let mut kept = 0;
    let refused = loop {
        let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
        if kind(&answer) == "error" {
            break answer;
        }
        let end = bridge.until(|frame| is_event(frame, "assistant/message") || is_event(frame, "error"));
        if is_event(&end, "error") || stop_reason(&end) == "error" {
            continue;
        }
        kept += 1;
        assert!(kept < 100, "the disk never fills");
    };
    assert_eq!(code(&refused), "runtime/failed");
    assert!(!text(&refused, "error-message").is_empty());
    assert_eq!(kind(&bridge.ask("after", "get_state", "{}")), "response");
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(kept > 2);
    // What was acknowledged is there when the disk has room again.
    let text = journal(&setup);
    assert!(text.matches(&message).count() >= 2 * kept, "{kept} turns");
    let output = setup.command().args(["sessions", "verify"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_folder_whose_name_is_no_text_is_refused_at_the_start() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join(OsStr::from_bytes(b"st\xffate"));
    std::fs::create_dir(&odd).unwrap();
    for option in ["--state-dir", "--cwd"] {
        let output = Command::new(env!("CARGO_BIN_EXE_edn-bridge"))
            .args(["serve", "--state-dir"])
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
        .args(["serve", "--state-dir"])
        .arg(&odd)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not UTF-8"));
}
