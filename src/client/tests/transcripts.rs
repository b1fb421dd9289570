//! The golden transcripts of the repository, played to a client: it writes the requests as they are recorded, and takes
//! each answer and each event. `tests/wire/transcripts.rs` of the program holds that the program says the same.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use edn_bridge_client::{Client, Hello, Refused, frame};
use edn_codec::value::{Owned, Value};

/// A request, and what came until the next one.
struct Exchange {
    op: String,
    params: Owned,
    id: String,
    received: Vec<Owned>,
}

fn read(text: &str) -> Owned {
    edn_codec::read_one(text.as_bytes()).unwrap().into_owned()
}

/// The exchanges of a transcript; `None` if it has lines that no client of this crate writes or reads: refused frames, and
/// property lists.
fn exchanges(text: &str) -> Option<Vec<Exchange>> {
    let mut all: Vec<Exchange> = Vec::new();
    for line in text.lines() {
        if let Some(sent) = line.strip_prefix("> ") {
            let request = edn_codec::read_one(sent.as_bytes()).ok()?.into_owned();
            let part = |key| request.get(key).and_then(Value::as_str).map(str::to_owned);
            let params = request.get("params").cloned().unwrap_or_else(|| read("{}"));
            all.push(Exchange { op: part("op")?, params, id: part("id")?, received: Vec::new() });
        } else if let Some(received) = line.strip_prefix("< ") {
            let frame = read(received);
            frame.as_map()?;
            all.last_mut()?.received.push(frame);
        }
    }
    let answered =
        |exchange: &Exchange| exchange.received.iter().any(|got| frame::is_answer(got, &exchange.id));
    (all.first()?.op == "handshake" && all.iter().all(answered)).then_some(all)
}

/// Serves a client as it is recorded.
fn serve(stream: UnixStream, exchanges: &[Exchange]) {
    let mut output = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    for exchange in exchanges {
        let request = read(&lines.next().unwrap().unwrap());
        assert_eq!(frame::text(&request, "op"), exchange.op);
        if exchange.op != "handshake" {
            assert_eq!(request.get("params").unwrap(), &exchange.params, "{}", exchange.op);
        }
        let id = frame::text(&request, "id").to_owned();
        for received in &exchange.received {
            let mut received = received.clone();
            if frame::text(&received, "id") == exchange.id {
                received.as_map_mut().unwrap().insert(Value::keyword("id"), Value::from(id.clone()));
            }
            writeln!(output, "{received}").unwrap();
        }
    }
    // The client hangs up.
    assert!(lines.next().is_none_or(|line| line.is_err()));
}

fn play(name: &str, exchanges: &[Exchange]) -> usize {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(theirs, exchanges));
        let hello = Hello { name: "t", version: "1", features: &[], kept_events: None };
        let (client, events) = Client::connect(ours, &hello).unwrap();
        assert!(!frame::text(client.server_info(), "session-id").is_empty(), "{name}");
        for exchange in &exchanges[1..] {
            let recorded = exchange.received.iter().find(|got| frame::is_answer(got, &exchange.id)).unwrap();
            match client.ask(&exchange.op, exchange.params.clone()) {
                Ok(data) => assert_eq!(&data, frame::data(recorded), "{name}: {}", exchange.op),
                Err(Refused { code, message, .. }) => {
                    assert_eq!(code, frame::code(recorded), "{name}: {}", exchange.op);
                    assert_eq!(message, frame::text(recorded, "error-message"));
                }
            }
        }
        let all = exchanges.iter().flat_map(|exchange| &exchange.received);
        let recorded: Vec<&Owned> = all.filter(|got| frame::kind(got) == "event").collect();
        // Before the client hangs up: the last events may come after the last answer.
        let mut taken: Vec<Owned> = Vec::new();
        while taken.len() < recorded.len() {
            let event = events.recv_timeout(std::time::Duration::from_secs(60));
            taken.push(event.unwrap_or_else(|gone| panic!("{name}: {} events, then {gone}", taken.len())));
        }
        drop(client);
        server.join().unwrap();
        taken.extend(events.iter());
        let topics = |events: &[&Owned]| -> Vec<(String, Owned)> {
            events.iter().map(|event| (frame::topic(event).to_owned(), frame::data(event).clone())).collect()
        };
        assert_eq!(topics(&taken.iter().collect::<Vec<_>>()), topics(&recorded), "{name}");
        recorded.len()
    })
}

#[test]
fn recorded_conversations_are_had_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let (mut played, mut events) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(exchanges) = exchanges(&std::fs::read_to_string(&path).unwrap()) {
            events += play(&name, &exchanges);
            played.push(name);
        }
    }
    assert!(played.len() >= 4 && events > 50, "{played:?}, {events} events");
}

#[test]
fn readme_shows_the_example() {
    let readme = include_str!("../README.md");
    let example = include_str!("../examples/answer.rs");
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(example.contains(shown), "examples/answer.rs has not what the README shows");
}

#[test]
fn events_beyond_those_that_are_kept_are_dropped() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let event = |n: usize| format!("{{:kind :event :event \"diagnostic\" :seq {n} :data {{}}}}\n");
    let serving = std::thread::spawn(move || {
        let mut output = theirs.try_clone().unwrap();
        let mut lines = BufReader::new(theirs).lines();
        while let Some(Ok(line)) = lines.next() {
            let request = read(&line);
            let id = frame::text(&request, "id");
            (1..=5).for_each(|n| output.write_all(event(n).as_bytes()).unwrap());
            writeln!(output, "{{:id {id:?} :kind :response :ok true :data {{}}}}").unwrap();
        }
    });
    let hello = Hello { name: "t", version: "1", features: &[], kept_events: Some(2) };
    let (client, events) = Client::connect(ours, &hello).unwrap();
    // Answers come all the same.
    client.ask("ping", read("{}")).unwrap();
    client.tell("ping", read("{}")).unwrap();
    client.ask("ping", read("{}")).unwrap();
    let too_long = client.ask("prompt", Value::from("x".repeat(17 << 20))).unwrap_err();
    assert!(too_long.code.is_empty() && too_long.message.contains("16777216 bytes"), "{too_long}");
    drop(client);
    serving.join().unwrap();
    let seqs: Vec<i64> = events.iter().map(|event| event.get("seq").unwrap().as_i64().unwrap()).collect();
    assert_eq!(seqs, [1, 2]);
}

#[test]
fn line_that_is_no_frame_ends_the_connection() {
    for (sent, why) in [
        ("no frame]\n", "no frame"),
        ("5\n", "no frame"),
        ("{:id", "in the middle of a line"),
        ("", "has ended"),
    ] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || {
            let mut output = theirs.try_clone().unwrap();
            let mut lines = BufReader::new(&theirs).lines();
            let request = read(&lines.next().unwrap().unwrap());
            let id = frame::text(&request, "id");
            writeln!(output, "{{:id {id:?} :kind :response :ok true :data {{}}}}").unwrap();
            lines.next().unwrap().unwrap();
            output.write_all(sent.as_bytes()).unwrap();
            // Only a half line needs the end of the stream.
            if sent.ends_with('\n') { Some(theirs) } else { None }
        });
        let hello = Hello { name: "t", version: "1", features: &[], kept_events: None };
        let (client, events) = Client::connect(ours, &hello).unwrap();
        let (answer, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || drop(answer.send([1, 2].map(|_| client.ask("ping", read("{}"))))));
        let patience = std::time::Duration::from_secs(60);
        for refused in told.recv_timeout(patience).expect("it waits for an answer that nobody sends") {
            let refused = refused.unwrap_err();
            assert!(refused.code.is_empty() && refused.message.contains(why), "{sent:?}: {refused}");
        }
        assert_eq!(events.iter().count(), 0, "their end is that of the connection");
        drop(serving.join());
    }
}

#[test]
fn silent_server_is_given_up_in_time() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let hello = Hello { name: "t", version: "1", features: &[], kept_events: None };
    let short = std::time::Duration::from_millis(1);
    let refused = Client::connect_within(ours, &hello, short).unwrap_err();
    assert!(refused.is_retryable && refused.message.contains("in time"), "{refused}");
    let mut asked = String::new();
    let mut theirs = BufReader::new(theirs);
    assert!(
        theirs.read_line(&mut asked).unwrap() > 0 && theirs.read_line(&mut asked).unwrap() == 0,
        "it hangs up"
    );
}
