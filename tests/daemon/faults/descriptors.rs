//! Faults: descriptors run out.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use edn_bridge::value::Owned;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::ECHO;
use crate::support::disk::limited;
use crate::support::guest::{Guest, socket};
use crate::support::{Bridge, PATIENCE, Setup, at, code, data, is_event, kind, text};

fn opened(answer: &Owned) -> String {
    assert_eq!(kind(answer), "response", "{answer}");
    data(answer, "session-id").to_owned()
}

/// Has something said in a new session, and returns its id.
fn talk(bridge: &mut Bridge, message: &str) -> String {
    let session = opened(&bridge.ask("n", "new_session", "{}"));
    say(bridge, message);
    session
}

fn say(bridge: &mut Bridge, message: &str) {
    let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
    assert_eq!(kind(&answer), "response", "{answer}");
    let last = bridge.event("assistant/message");
    assert_eq!(data(&last, "text"), message, "{last}");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
}

/// How many descriptors the process has open.
fn open(bridge: &Bridge) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", bridge.pid())).unwrap().count()
}

fn listening(bridge: &mut Bridge) {
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"assistant/message\" \"session/updated\"]}");
}

#[test]
fn more_sessions_than_descriptors_are_usable() {
    for durability in ["full", "relaxed"] {
        let setup = Setup::new().script(ECHO).arg("--durability").arg(durability);
        let mut bridge = limited(&setup, "ulimit -n 64");
        listening(&mut bridge);
        let first = talk(&mut bridge, "remember me");
        for n in 0..60 {
            talk(&mut bridge, &format!("message {n}"));
        }
        assert!(open(&bridge) < 64);
        // The first one was put away, and is opened where it was left.
        opened(&bridge.ask("back", "switch_session", &format!("{{:session-id {first:?}}}")));
        say(&mut bridge, "and go on");
        let messages = bridge.ask("m", "get_messages", "{}");
        let messages = at(&messages, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
        assert_eq!(messages.len(), 4, "{durability}");
        assert!(messages[0].to_string().contains("remember me"));
    }
}

#[test]
fn idle_session_closes_files_for_active_one() {
    for durability in ["full", "relaxed"] {
        let setup = Setup::new().script(ECHO).arg("--durability").arg(durability);
        let mut bridge = limited(&setup, "ulimit -n 48");
        listening(&mut bridge);
        let sessions: Vec<String> = (0..11).map(|n| talk(&mut bridge, &format!("message {n}"))).collect();
        // Guests take all that is left but for one or none.
        let path = socket(&setup.state());
        let mut guests = Vec::new();
        let mut fill = |bridge: &Bridge| {
            while open(bridge) < 46 {
                guests.push(Guest::at(&path));
            }
        };
        fill(&bridge);
        talk(&mut bridge, "another");
        fill(&bridge);
        opened(&bridge.ask("back", "switch_session", &format!("{{:session-id {:?}}}", sessions[0])));
        say(&mut bridge, "again");
        let entries = bridge.ask("m", "get_fork_messages", "{}");
        fill(&bridge);
        let entries = at(&entries, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
        opened(&bridge.ask("f", "fork", &format!("{{:entry-id {:?}}}", text(&entries[0], "id"))));
        assert_eq!(kind(&bridge.ask("here", "ping", "{}")), "response");
    }
}

/// Lets the process open no file with that number or a higher one.
fn limit(bridge: &Bridge, number: u64) {
    let pid = Pid::from_raw(i32::try_from(bridge.pid()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(number), maximum: Some(48) }).unwrap();
}

/// The first free number above those of the sessions' files. A lower one may come free at any time: what was
/// open for a moment while these were opened.
fn free(bridge: &Bridge) -> u64 {
    let file = |number: u64| std::fs::read_link(format!("/proc/{}/fd/{number}", bridge.pid()));
    let is_session =
        |number: &u64| file(*number).is_ok_and(|path| path.extension().is_some_and(|e| e == "edn"));
    let last = (0..48).rfind(is_session).unwrap();
    (last..).find(|number| file(*number).is_err()).unwrap()
}

#[test]
fn session_list_without_descriptors_is_never_short() {
    let setup = Setup::new().script(ECHO);
    let begin = || {
        let mut bridge = limited(&setup, "ulimit -n 48");
        listening(&mut bridge);
        bridge
    };
    let mut bridge = begin();
    let mut sessions: BTreeSet<String> = (0..30).map(|_| talk(&mut bridge, "a message")).collect();
    bridge.finish();
    let listed = |answer: &Owned, sessions: &BTreeSet<String>| {
        assert_eq!(kind(answer), "response", "{answer}");
        let slots = at(answer, &["data", "sessions"]).and_then(|slots| slots.as_slice()).unwrap().iter();
        let ids: BTreeSet<String> = slots.map(|slot| text(slot, "id").to_owned()).collect();
        let missing: Vec<_> = sessions.difference(&ids).collect();
        assert!(missing.is_empty(), "{} are missing: {missing:?}", missing.len());
    };
    let asks = ["{:scope \"all\"}", "{:scope \"all\" :text \"message\"}"];
    // None is left, until sessions at rest let go of theirs.
    for params in asks {
        let mut bridge = begin();
        sessions.extend((0..5).map(|_| talk(&mut bridge, "a message")));
        let path = socket(&setup.state());
        let mut guests = Vec::new();
        while open(&bridge) < 46 {
            guests.push(Guest::at(&path));
        }
        limit(&bridge, free(&bridge));
        listed(&bridge.ask("l", "list_sessions", params), &sessions);
        bridge.finish();
    }
    // Where none comes free there is no list at all, whether the index is open or not.
    let mut bridge = begin();
    for params in asks {
        listed(&bridge.ask("l", "list_sessions", params), &sessions);
    }
    for index in ["open", "not open"] {
        limit(&bridge, 3);
        for params in asks {
            let answer = bridge.ask("l", "list_sessions", params);
            assert_eq!((kind(&answer), code(&answer)), ("error", "runtime/failed"), "{index}: {answer}");
            assert_eq!(at(&answer, &["retryable"]).and_then(|flag| flag.as_bool()), Some(true), "{answer}");
            assert!(text(&answer, "error-message").contains("ulimit -n"), "{answer}");
        }
        let query = "{:query \"[{(:psi.session/list {:scope \\\"all\\\"}) [:psi.session-info/id]}]\"}";
        let answer = bridge.ask("q", "query_eql", query).to_string();
        assert!(answer.contains("ulimit -n"), "{index}: {answer}");
        #[cfg(feature = "index")]
        assert_eq!(in_the_index(&setup), 40, "{index}");
        bridge.finish();
        bridge = begin();
    }
    for params in asks {
        listed(&bridge.ask("l", "list_sessions", params), &sessions);
    }
}

/// How many sessions the index has read.
#[cfg(feature = "index")]
fn in_the_index(setup: &Setup) -> u32 {
    let index = rusqlite::Connection::open(setup.state().join("sessions-index.db")).unwrap();
    index.query_row("SELECT count(*) FROM sessions WHERE read > 0", [], |row| row.get(0)).unwrap()
}

#[test]
fn soft_limit_is_raised_for_bridge_but_not_its_children() {
    let setup = Setup::new().script(ECHO);
    let config = setup.dir.path().join("config.edn");
    // Each waits for the limit that the shell was given, which it gets right after its start.
    let wait = "until [ $(ulimit -Sn) = 64 ]; do :; done";
    std::fs::write(
        &config,
        format!(
            "{{:hooks [{{:id \"limit\" :stage :receive-input :point :pre :kind :guard \
             :command [\"bash\" \"-c\" \"{wait}; echo '{{:decision :allow}}'\"]}}]}}"
        ),
    )
    .unwrap();
    let config = config.to_str().unwrap().to_owned();
    let setup = setup.arg("--config").arg(&config);
    let mut bridge = limited(&setup, "ulimit -Sn 64");
    listening(&mut bridge);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", bridge.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = files.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert_eq!(soft, edn_bridge::limits::DESCRIPTORS.min(hard), "{files}");
    let command =
        bridge.ask("b", "bash", &format!("{{:command \"{wait}; echo given\" :timeout-seconds 30}}"));
    assert_eq!(data(&command, "output"), "given\n", "{command}");
    say(&mut bridge, "the hook allowed it");
}

#[test]
fn guests_connect_again_once_descriptors_are_free() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = limited(&setup, "ulimit -n 40");
    bridge.handshake();
    bridge.ask("s", "subscribe", "{}");
    let path = socket(&setup.state());
    // More than there are descriptors: the last ones wait to be taken.
    let guests: Vec<UnixStream> = (0..60).map(|_| UnixStream::connect(&path).unwrap()).collect();
    // One that came while there were just too few is hung up on: then they had run out, however many are open now.
    let is_hung_up = |mut guest: &UnixStream| {
        guest.set_nonblocking(true).unwrap();
        guest.read(&mut [0]).map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |bytes| bytes == 0)
    };
    let deadline = Instant::now() + PATIENCE;
    while open(&bridge) < 39 && !guests.iter().any(is_hung_up) {
        assert!(Instant::now() < deadline, "the descriptors do not run out");
        std::thread::yield_now();
    }
    assert_eq!(kind(&bridge.ask("here", "ping", "{}")), "response");
    // A session's file needs one. There is none, or just one left: either way it is said.
    let answer = bridge.ask("p", "prompt", "{:message \"go\"}");
    if kind(&answer) == "error" {
        assert_eq!(code(&answer), "runtime/failed", "{answer}");
        assert_eq!(at(&answer, &["retryable"]).and_then(|flag| flag.as_bool()), Some(true), "{answer}");
        assert!(text(&answer, "error-message").contains("ulimit -n"), "{answer}");
    }
    drop(guests);
    // Who was hung up on tries again.
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
fn one_client_too_many_gets_error_and_hang_up() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.serve();
    bridge.handshake();
    let path = socket(&setup.state());
    // The socket was looked for by connecting to it: such a connection may still be counted.
    let guests: Vec<Guest> = (0..edn_bridge::limits::MAX_CONNECTIONS - 8).map(|_| Guest::at(&path)).collect();
    let mut more = Vec::new();
    let told = loop {
        assert!(more.len() < 20, "all are let in");
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(b"{:id \"g\" :kind :request :op \"ping\" :params {}}\n");
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if !line.contains("transport/not-ready") {
            let mut rest = String::new();
            assert!(matches!(lines.read_line(&mut rest), Ok(0) | Err(_)), "{rest}");
            break line;
        }
        more.push(lines);
    };
    assert!(more.len() >= 7, "{} were let in beside {}", more.len(), guests.len());
    let frame = edn_bridge::edn::read_one(told.as_bytes()).unwrap().into_owned();
    assert_eq!((kind(&frame), code(&frame)), ("error", "runtime/failed"), "{told}");
    assert_eq!(at(&frame, &["retryable"]).and_then(|flag| flag.as_bool()), Some(true), "{told}");
    assert_eq!(kind(&bridge.ask("here", "ping", "{}")), "response");
    // A place that comes free is given to the next one.
    drop(guests);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(b"{:id \"g\" :kind :request :op \"ping\" :params {}}\n");
        let mut line = String::new();
        if BufReader::new(stream).read_line(&mut line).is_ok() && line.contains("transport/not-ready") {
            break;
        }
        assert!(Instant::now() < deadline, "{line}");
    }
}
