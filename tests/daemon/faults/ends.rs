//! Faults: signals, and pipes that are closed or not read.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::{ECHO, alive, journal, signal, stop_reason};
use crate::support::{Bridge, PATIENCE, Setup, at, data, is_event, kind};

/// A tool that runs until it is ended, and tells its process.
const TOOL: &str =
    "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo $$; exec sleep 3600\"}}}]}]}";
/// More than any pipe and outbox hold.
const FLOOD: &str = "{:turns [{:steps [{:deltas 100000 :of \"0123456789012345678901234567890123456789\"}]}] :then :repeat-last}";

/// The process that the tool told.
fn tools_process(bridge: &Bridge) -> String {
    let told = bridge.transcript.iter().rev().find(|line| line.contains("tool/update")).unwrap();
    let (_, output) = told.split_once(":result-text \"").unwrap();
    let pid: String = output.chars().take_while(char::is_ascii_digit).collect();
    assert!(!pid.is_empty(), "{told}");
    pid
}

#[test]
fn signal_ends_tool_and_withdraws_question() {
    let setup = Setup::new().script(TOOL).arg("--yolo");
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("tool/update");
    let child = tools_process(&bridge);
    signal(&bridge, Signal::TERM);
    while bridge.line_or_end().is_some() {}
    assert_eq!(bridge.wait().code(), Some(143));
    assert!(!alive(&child), "the tool's process {child} is left");
    assert!(journal(&setup).contains(":stop-reason \"aborted\""));

    let setup = Setup::new().script(TOOL);
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("interaction/requested");
    signal(&bridge, Signal::HUP);
    while bridge.line_or_end().is_some() {}
    assert_eq!(bridge.wait().code(), Some(129));
    assert!(journal(&setup).contains(":stop-reason \"aborted\""));
    // Begun again, it waits for nothing.
    let mut bridge = setup.ready();
    assert_eq!(kind(&bridge.ask("after", "ping", "{}")), "response");
}

/// A bridge whose output nobody reads unless the test does; it has prompted, and its pipe is full.
fn stuck(setup: &Setup) -> (Child, BufReader<ChildStdout>) {
    let mut child = setup
        .command()
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::with_capacity(4096, child.stdout.take().unwrap());
    let stdin = child.stdin.as_mut().unwrap();
    let mut ask = |id: &str, op: &str, params: &str| {
        writeln!(stdin, "{{:id {id:?} :kind :request :op {op:?} :params {params}}}").unwrap();
        let mut line = String::new();
        while !line.contains(&format!(":id {id:?}")) {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0);
        }
    };
    ask("h", "handshake", "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\"}}");
    ask("s", "subscribe", "{:topics [\"assistant/delta\" \"assistant/message\"]}");
    ask("p", "prompt", "{:message \"go\"}");
    until_full(&child);
    (child, lines)
}

/// Waits until the pipe at a process's standard output takes nothing more.
fn until_full(child: &Child) {
    let place = format!("/proc/{}/fd/1", child.id());
    let pipe = std::fs::File::options().write(true).open(place).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    while poll(&mut [PollFd::new(&pipe, PollFlags::OUT)], Some(&now)).unwrap() > 0 {
        assert!(Instant::now() < deadline, "the pipe is never full");
        std::thread::yield_now();
    }
}

#[test]
fn second_signal_ends_process_at_once() {
    let setup = Setup::new().script(FLOOD);
    let (mut child, _unread) = stuck(&setup);
    let pid = Pid::from_child(&child);
    let begun = Instant::now();
    kill_process(pid, Signal::TERM).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed().as_secs() < 5, "the second signal ended nothing");
        // One that comes at once is the same wish, so it is repeated.
        let _ = kill_process(pid, Signal::INT);
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(130));
    // What was acknowledged is there, and the session's lock is nobody's.
    let mut bridge = setup.ready();
    let sessions = bridge.ask("l", "list_sessions", "{}");
    let sessions = at(&sessions, &["data", "sessions"]).and_then(|sessions| sessions.as_slice()).unwrap();
    let session = sessions
        .iter()
        .filter_map(|session| session.get("session-file").and_then(|file| file.as_str()))
        .next()
        .unwrap_or_else(|| panic!("{sessions:?}"));
    let opened = bridge.ask("o", "switch_session", &format!("{{:session-path {session:?}}}"));
    assert_eq!(kind(&opened), "response", "{opened}");
    assert!(bridge.ask("m", "get_messages", "{}").to_string().contains("\"go\""));
}

#[test]
fn closed_output_ends_process_like_closed_input() {
    let setup = Setup::new().script(FLOOD);
    let (mut child, unread) = stuck(&setup);
    drop(unread);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on for nobody");
        std::thread::yield_now();
    };
    // The client is gone, in whichever order its ends were closed.
    assert_eq!(status.code(), Some(0));
    assert!(journal(&setup).contains("\"go\""));
}

#[test]
fn closed_standard_error_has_no_effect() {
    let setup = Setup::new().script(ECHO).arg("--log").arg("trace");
    let (reader, errors) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let mut child = setup
        .command()
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{:id \"a\" :kind :request :op \"ping\" :params {}}\n").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains(":id \"a\""), "{line}");
    drop(stdin);
    output.read_to_string(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The most memory that a process had resident, in bytes.
fn peak(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn byte_wise_reader_gets_all_text_in_bounded_memory() {
    let setup = Setup::new().script(FLOOD);
    let (mut child, mut lines) = stuck(&setup);
    let before = peak(&child);
    // The bridge can write a page whenever one was read.
    let mut bytes = lines.buffer().to_vec();
    lines.consume(bytes.len());
    let mut byte = [0];
    for _ in 0..20_000 {
        lines.get_mut().read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    until_full(&child);
    let grown = peak(&child) - before;
    assert!(grown < 64 * 1024 * 1024, "{grown} bytes more");
    // And then all of the rest.
    let mut text = String::new();
    let mut rest = BufReader::new(std::io::Cursor::new(bytes).chain(lines));
    let message = loop {
        let mut line = String::new();
        assert!(rest.read_line(&mut line).unwrap() > 0, "the bridge ended");
        let frame = edn_bridge::edn::read_one(line.as_bytes()).unwrap().into_owned();
        if is_event(&frame, "assistant/delta") {
            text.push_str(data(&frame, "text"));
        }
        if is_event(&frame, "assistant/message") {
            break frame;
        }
    };
    assert_eq!(text, "0123456789".repeat(400_000));
    assert_eq!(stop_reason(&message), "end-turn");
    // Such a long text stands in the content alone.
    assert!(message.to_string().matches("0123456789").count() == 400_000);
    drop(child.stdin.take());
    let mut end = Vec::new();
    rest.read_to_end(&mut end).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
