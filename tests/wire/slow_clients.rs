//! Clients that stop reading, over real sockets and pipes: nobody else waits for them, their outboxes are
//! bounded, and they see what they missed when they read again.

use crate::support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use edn_bridge::limits::{MAX_CONNECTIONS, OUTBOX_ANSWER_BYTES, OUTBOX_EVENTS, OUTBOX_TEXT_BYTES};
use edn_bridge::value::{Owned, Value};
use support::guest::{Guest, socket};
use support::{Bridge, PATIENCE, Setup, at, data, end_of_turn, is_event};

fn number(frame: &Owned, path: &[&str]) -> i64 {
    at(frame, path).and_then(Value::as_i64).unwrap_or_else(|| panic!("{path:?} in {frame}"))
}

/// A guest that received a part of its events and has not read it.
fn stopped(setup: &Setup) -> Guest {
    let mut guest = Guest::interactor(&socket(&setup.state()));
    // It knows the session as it is; from here on it does not read.
    guest.ask("g", "get_state", "{}");
    guest
}

/// What a guest sees when it reads again.
struct Resumed {
    /// The number of skipped events.
    missed: i64,
    /// Outcomes of slash commands before it was told so.
    commands: usize,
    /// The history that it is shown then.
    history: Owned,
}

/// Reads, holds that each `seq` comes in its turn, and that the guest is told of its session before the history.
fn resumed(guest: &mut Guest) -> Resumed {
    let (mut seq, mut missed, mut commands, mut session) = (None, None, 0, None);
    loop {
        let frame = guest.frame();
        if let Some(here) = at(&frame, &["seq"]).and_then(Value::as_i64) {
            assert!(seq.is_none_or(|before| here == before + 1), "after {seq:?}: {frame}");
            seq = Some(here);
        }
        if is_event(&frame, "diagnostic") && data(&frame, "code") == "delivery/behind" {
            missed = Some(number(&frame, &["data", "detail", "missed"]));
        } else if is_event(&frame, "command-result") && missed.is_none() {
            commands += 1;
        } else if is_event(&frame, "session/resumed") {
            session = Some(data(&frame, "session-id").to_owned());
        } else if is_event(&frame, "session/rehydrated")
            && let Some(missed) = missed
        {
            assert_eq!(session.as_deref(), Some(data(&frame, "session-id")));
            return Resumed { missed, commands, history: frame };
        }
    }
}

fn last_text(history: &Owned) -> String {
    let messages = at(history, &["data", "messages"]).and_then(Value::as_slice).unwrap();
    let last = messages.last().unwrap().get("content").and_then(Value::as_slice).unwrap();
    last[0].get("text").and_then(Value::as_str).unwrap().to_owned()
}

/// The guest is a client like any other again.
fn takes_part(bridge: &mut Bridge, guest: &mut Guest) {
    bridge.request("again", "prompt", "{:message \"are you there?\"}");
    end_of_turn(bridge);
    guest.until(|frame| is_event(frame, "assistant/message") && data(frame, "text") == "are you there?");
    guest.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
}

#[test]
fn stalled_guest_stops_no_turn_of_many_events() {
    let setup = Setup::new()
        .script("{:turns [{:steps [{:echo :last-user}]}] :then :cycle}")
        .arg("--durability")
        .arg("relaxed");
    let mut bridge = setup.ready();
    let mut guest = stopped(&setup);
    // Each turn has at least five events that must not be dropped.
    let turns = OUTBOX_EVENTS / 5 + 100;
    for turn in 0..turns {
        bridge.request(&format!("p{turn}"), "prompt", &format!("{{:message \"word {turn}\"}}"));
        end_of_turn(&mut bridge);
    }
    // No history tells of what its own command came to.
    guest.send("c", "prompt", "{:message \"/name\"}");
    until_answered(&mut bridge, &mut guest, |_| {});
    let Resumed { missed, commands, history } = resumed(&mut guest);
    assert!(missed > 0);
    assert_eq!(commands, 1);
    assert_eq!(last_text(&history), format!("word {}", turns - 1));
    takes_part(&mut bridge, &mut guest);
}

#[test]
fn stalled_guest_stops_no_turn_of_much_text() {
    const PIECE: usize = 8 * 1024;
    let pieces = 3 * 1024 * 1024 / PIECE;
    let script =
        format!("{{:turns [{{:steps [{{:deltas {pieces} :of {:?}}}]}}] :then :cycle}}", "x".repeat(PIECE));
    let setup = Setup::new().script(&script).arg("--durability").arg("relaxed");
    let mut bridge = setup.ready();
    let mut guest = stopped(&setup);
    for turn in 0..2 * OUTBOX_TEXT_BYTES / (pieces * PIECE) + 2 {
        bridge.request(&format!("p{turn}"), "prompt", "{:message \"go\"}");
        end_of_turn(&mut bridge);
    }
    let Resumed { missed, history, .. } = resumed(&mut guest);
    assert!(missed > 0);
    assert_eq!(last_text(&history).len(), pieces * PIECE);
}

/// Waits until all that the guest has sent is answered, and shows again and again how many events wait for it.
fn until_answered(bridge: &mut Bridge, guest: &mut Guest, mut look: impl FnMut(usize)) {
    const QUERY: &str = "[{[:psi.op/name \"ping\"] [:psi.op/answered]} \
                         {:psi.connection/list [:psi.connection/outbox-waiting]}]";
    guest.send("last", "ping", "{}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = bridge.ask("q", "query_eql", &format!("{{:query {QUERY:?}}}")).to_string();
        let counts = |key: &str| -> Vec<usize> {
            let counts = told.split(key).skip(1);
            counts.map(|rest| rest.split(['}', ' ', ',']).next().unwrap().parse().unwrap()).collect()
        };
        look(counts(":psi.connection/outbox-waiting ").into_iter().max().unwrap());
        if counts(":psi.op/answered ") == [1] {
            return;
        }
        assert!(Instant::now() < deadline, "{told}");
    }
}

#[test]
fn events_without_waiting_producer_are_bounded() {
    // The outcome of a slash command comes outside of any turn: nobody waits before the next.
    const COMMANDS: usize = 3 * OUTBOX_EVENTS;
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let mut guest = stopped(&setup);
    let mut most = 0;
    for place in 0..COMMANDS {
        guest.send(&format!("c{place}"), "prompt", "{:message \"/name\"}");
    }
    until_answered(&mut bridge, &mut guest, |waiting| most = most.max(waiting));
    assert!(most <= 2 * OUTBOX_EVENTS, "{most}");
    let Resumed { missed, commands, .. } = resumed(&mut guest);
    assert!(commands >= 2 * OUTBOX_EVENTS, "what can be kept is told: {commands}");
    assert_eq!(usize::try_from(missed).unwrap() + commands, COMMANDS);
}

/// How many descriptors a process has, and how many threads that serve connections.
fn counts(pid: u32) -> [usize; 2] {
    let entries = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().flatten();
    // A thread may end in between.
    let names = entries("task").filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let serving = names.filter(|name| ["read-", "write-", "end-"].iter().any(|kind| name.starts_with(kind)));
    [entries("fd").count(), serving.count()]
}

/// Whether a further client is served.
fn is_welcome(path: &Path) -> bool {
    let mut stream = UnixStream::connect(path).unwrap();
    let info = "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\"}}";
    // Who is hung up on may notice it here or there.
    let _ = writeln!(stream, "{{:id \"h\" :kind :request :op \"handshake\" :params {info}}}");
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line.contains(":kind :response")
}

#[test]
fn client_that_hangs_up_unread_counts_until_gone() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"x\"}]}]}");
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    // Nearly all that are served: they stay.
    let slow = 8;
    let quiet: Vec<Guest> = (slow..MAX_CONNECTIONS).map(|_| Guest::at(&path)).collect();
    let before = counts(bridge.pid());
    // More answers than a socket holds.
    let pings = "{:id \"p\" :kind :request :op \"ping\"}\n".repeat(4_000);
    let guests: Vec<Guest> = (0..slow)
        .map(|_| {
            let mut guest = Guest::at(&path);
            guest.stream.write_all(pings.as_bytes()).unwrap();
            guest.stream.shutdown(Shutdown::Write).unwrap();
            guest
        })
        .collect();
    assert!(!is_welcome(&path), "they are connections still");
    let deadline = Instant::now() + PATIENCE;
    // What looked whether the socket is there may have been counted before.
    while counts(bridge.pid()).iter().zip(before).any(|(now, before)| *now > before) {
        assert!(Instant::now() < deadline, "{before:?}, {:?}", counts(bridge.pid()));
        bridge.ask("q", "ping", "{}");
    }
    assert!(is_welcome(&path));
    drop((quiet, guests));
}

#[test]
fn end_of_input_is_seen_while_answers_pile_up() {
    const TEXT: usize = 1024 * 1024;
    let script = format!("{{:turns [{{:steps [{{:delta {:?}}}]}}]}}", "x".repeat(TEXT));
    let setup = Setup::new().script(&script);
    let mut child =
        setup.command().arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut send = |id: &str, op: &str, params: &str| {
        writeln!(input, "{{:id {id:?} :kind :request :op {op:?} :params {params}}}").unwrap();
    };
    send("h", "handshake", "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\"}}");
    send("s", "subscribe", "{:topics [\"assistant/message\"]}");
    send("p", "prompt", "{:message \"go\"}");
    let mut line = String::new();
    while !line.contains("xxxx") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0);
    }
    // Small requests, large answers, which nobody reads from here on.
    for place in 0..2 * OUTBOX_ANSWER_BYTES / TEXT {
        send(&format!("t{place}"), "get_last_assistant_text", "{}");
    }
    drop(input);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::yield_now(),
            None => {
                let _ = child.kill();
                panic!("it has not ended");
            }
        }
    };
    assert_eq!(status.code(), Some(0));
    drop(output);
}
