//! What a connection is served, and how it ends.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use edn_bridge::clock::fake::FixedClock;
use edn_bridge::limits::{CONTROL_CONNECTIONS, CONTROL_LINE_BYTES};
use edn_bridge::session::control::ControlResult;
use edn_bridge::session::{ApiError, Tally};
use edn_bridge::wire::control::serve::Server;

use super::daemon::{ControlAck, SocketResponse, read};
use super::fake::{Fake, PATIENCE, Program, ack, server};
use super::lines::stdin;

#[test]
fn acknowledgements_have_the_order_of_the_lines() {
    let (held, hold) = channel();
    let held = Mutex::new(held);
    let fake = Arc::new(Fake::answering(move |request, reply| {
        // The first is answered later, by another thread.
        if request.request_id == "0" {
            held.lock().unwrap().send((ack(request, ControlResult::Busy), reply)).unwrap();
        } else {
            reply.ok(ack(request, ControlResult::Ok));
        }
    }));
    let mut program = Program::of(&server(&fake).0);
    for id in 0..50 {
        program.send(stdin(&id.to_string(), "x").to_string());
    }
    let (first, reply) = hold.recv_timeout(PATIENCE).unwrap();
    assert_eq!(fake.seen.lock().unwrap().len(), 1, "the next line waits");
    reply.ok(first);
    let ids: Vec<_> = (0..50).map(|_| read::<ControlAck>(program.receive().unwrap()).request_id).collect();
    assert_eq!(ids, (0..50).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[test]
fn request_without_a_reply_is_acknowledged_by_the_wire() {
    let kept = Mutex::new(Vec::new());
    let mut fake = Fake::answering(move |request, reply| match request.request_id.as_str() {
        "dropped" => drop(reply),
        "failed" => reply.fail(ApiError::failed("It is broken.")),
        "panics" => panic!("on purpose"),
        _ => kept.lock().unwrap().push(reply),
    });
    fake.ack_timeout_ms = 1;
    let fake = Arc::new(fake);
    let mut program = Program::of(&server(&fake).0);
    for (id, result, detail) in [
        ("dropped", "internal_error", "ended before it answered"),
        ("failed", "internal_error", "It is broken."),
        ("forgotten", "timeout", "may still be done"),
    ] {
        let answer = program.ask(stdin(id, "x").to_string());
        assert_eq!((&answer["request_id"], &answer["result"]), (&id.into(), &result.into()));
        assert_eq!(answer["error"]["code"], "runtime/failed", "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(detail), "{answer}");
        read::<ControlAck>(answer);
    }
}

#[test]
fn line_is_read_however_it_arrives() {
    let fake = Arc::new(Fake::new());
    let server = server(&fake).0;
    let line = stdin("r", "x").to_string();
    let mut program = Program::of(&server);
    for byte in line.bytes() {
        program.stream.write_all(&[byte]).unwrap();
    }
    program.stream.write_all(b"\r\n").unwrap();
    assert_eq!(program.receive().unwrap()["result"], "ok");
    // The last one without a line feed, from a program that then says no more.
    program.stream.write_all(line.as_bytes()).unwrap();
    program.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(program.receive().unwrap()["result"], "ok");
    assert_eq!(program.receive(), None);
    // A line that was cut off is none.
    let mut program = Program::of(&server);
    program.stream.write_all(&line.as_bytes()[..line.len() - 1]).unwrap();
    program.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(program.receive().unwrap()["error"]["code"], "INVALID_REQUEST");
    assert_eq!((program.receive(), fake.seen.lock().unwrap().len()), (None, 2));
}

#[test]
fn longest_line_is_read_and_a_longer_one_is_skipped() {
    let fake = Arc::new(Fake::new());
    let mut program = Program::of(&server(&fake).0);
    let around = stdin("r", "").to_string().len();
    for (length, code) in [(CONTROL_LINE_BYTES, None), (CONTROL_LINE_BYTES + 1, Some("INVALID_REQUEST"))] {
        let mut stream = program.stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            let line = stdin("r", &"x".repeat(length - around)).to_string();
            assert_eq!(line.len(), length);
            stream.write_all(line.as_bytes()).unwrap();
            stream.write_all(b"\n").unwrap();
        });
        let answer = program.receive().unwrap();
        writing.join().unwrap();
        assert_eq!(answer["error"]["code"].as_str(), code);
        assert_eq!(answer["request_id"], if code.is_some() { "unknown" } else { "r" });
    }
    assert_eq!(program.ask(stdin("next", "x").to_string())["request_id"], "next");
}

#[test]
fn only_as_many_connections_are_served_as_the_bound() {
    let fake = Arc::new(Fake::new());
    let server = server(&fake).0;
    let mut programs: Vec<_> = (0..CONTROL_CONNECTIONS).map(|_| Program::of(&server)).collect();
    let mut refused = Program::of(&server);
    let answer: SocketResponse = read(refused.receive().unwrap());
    assert_eq!(answer.error.unwrap().code, "TOO_MANY_CONNECTIONS");
    assert_eq!(refused.receive(), None);
    // The others are not disturbed, and the end of one makes room.
    assert_eq!(programs[0].ask(stdin("r", "x").to_string())["result"], "ok");
    programs.pop();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut next = Program::of(&server);
        let _ = next.stream.write_all(format!("{}\n", stdin("r", "x")).as_bytes());
        if next.receive().unwrap()["result"] == "ok" {
            break;
        }
        assert!(Instant::now() < deadline, "no room");
    }
}

#[test]
fn silence_ends_a_connection_and_lines_do_not() {
    let fake = Arc::new(Fake::new());
    let clock = Arc::new(FixedClock::default());
    let tally = Arc::new(Tally::default());
    let silence = Duration::from_secs(3);
    let server = Server::with_silence(fake, tally, clock, silence);
    let mut talking = Program::of(&server);
    let mut silent = Program::of(&server);
    // Bytes that end no line are silence as well.
    let mut trickling = Program::of(&server).stream;
    let (started, deadline) = (Instant::now(), Instant::now() + PATIENCE);
    let mut have_ended = false;
    while !have_ended || started.elapsed() < silence * 2 {
        have_ended = !silent.is_open() && trickling.write_all(b"x").is_err();
        assert!(talking.is_open());
        assert_eq!(talking.ask(stdin("r", "x").to_string())["result"], "ok");
        assert!(Instant::now() < deadline, "no end");
    }
    assert_eq!(talking.receive(), None, "it ends as well when it is silent");
}

#[test]
fn end_answers_the_line_under_way_and_takes_no_other() {
    let (held, hold) = channel();
    let held = Mutex::new(held);
    let fake = Arc::new(Fake::answering(move |request, reply| {
        held.lock().unwrap().send((ack(request, ControlResult::Ok), reply)).unwrap();
    }));
    let server = server(&fake).0;
    let mut busy = Program::of(&server);
    let mut idle = Program::of(&server);
    busy.send(stdin("r", "x").to_string());
    let (first, reply) = hold.recv_timeout(PATIENCE).unwrap();
    let ending = {
        let server = server.clone();
        std::thread::spawn(move || server.finish(PATIENCE))
    };
    assert_eq!(idle.receive(), None);
    assert!(!ending.is_finished());
    reply.ok(first);
    assert_eq!(busy.receive().unwrap()["result"], "ok");
    ending.join().unwrap();
    assert_eq!(busy.receive(), None);
    let mut late = Program::of(&server);
    assert_eq!(late.receive(), None);
}

#[test]
fn program_that_does_not_read_delays_no_other() {
    let fake = Arc::new(Fake::new());
    let server = server(&fake).0;
    let deaf = Program::of(&server);
    let mut stream = deaf.stream.try_clone().unwrap();
    stream.set_nonblocking(true).unwrap();
    let lines = format!("{}\n", stdin("r", "x")).repeat(100);
    // Until neither the socket nor the server takes more.
    let (mut stuck, mut written) = (0, 0);
    while stuck < 1000 {
        match stream.write(lines.as_bytes()) {
            Ok(count) => (stuck, written) = (0, written + count),
            Err(_) => {
                stuck += 1;
                std::thread::yield_now();
            }
        }
    }
    assert!(written > lines.len());
    let mut other = Program::of(&server);
    assert_eq!(other.ask(stdin("r", "x").to_string())["result"], "ok");
}

#[test]
fn flood_of_hostile_lines_is_answered_line_by_line() {
    let fake = Arc::new(Fake::new());
    let server = server(&fake).0;
    let good = stdin("r", "x").to_string();
    let kinds: [Vec<u8>; 8] = [
        b"".to_vec(),
        b"\xff\xfe\x00".to_vec(),
        b"[".repeat(10_000),
        format!("{{\"a\":{}}}", "1".repeat(10_000)).into_bytes(),
        format!("{{\"command\":{}}}", "[]").into_bytes(),
        good.as_bytes()[..40].to_vec(),
        format!("{good}{good}").into_bytes(),
        br#"{"type":{"type":"control.stdin.request"},"request_id":["x"]}"#.to_vec(),
    ];
    const ROUNDS: usize = 250;
    let (ours, theirs) = UnixStream::pair().unwrap();
    server.welcome(theirs);
    let mut writer = ours.try_clone().unwrap();
    let flood = kinds.clone();
    let writing = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            for line in &flood {
                writer.write_all(line).unwrap();
                writer.write_all(b"\n").unwrap();
            }
        }
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut other = Program::of(&server);
    let mut answers = String::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                assert_eq!(other.ask(&good)["result"], "ok");
            }
        });
        (&ours).read_to_string(&mut answers).unwrap();
    });
    writing.join().unwrap();
    assert_eq!(answers.lines().count(), ROUNDS * kinds.len());
    for line in answers.lines() {
        let answer: SocketResponse = read(serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert_eq!(answer.status, "error", "{line}");
    }
    assert_eq!(fake.seen.lock().unwrap().len(), 100);
}
