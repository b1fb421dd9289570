//! An endpoint alone, in memory: bytes in, its output, and the rules for that output.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod double;
pub mod lines;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use edn_bridge::clock::fake::FixedClock;
use edn_bridge::edn;
use edn_bridge::limits::{MAX_ID_BYTES, MAX_LINE_BYTES};
use edn_bridge::session::Client as _;
use edn_bridge::value::{Owned, Value};
use edn_bridge::wire::connection::ConnectionEnd;
use edn_bridge::wire::edn::service::{self, Connection};
use edn_bridge::wire::lines::{Line, Splitter};
use edn_bridge::wire::transport::memory::{self, Far};

use double::{Double, Fate};

/// How long an end may take. Generous: a loaded machine is slow, not wrong.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a double, the client's end of it, and the reason for its end.
pub fn connect(double: &Arc<Double>, capacity: usize) -> (Arc<Connection>, Far, Receiver<ConnectionEnd>) {
    let (near, far) = memory::pair(capacity);
    let clock = Arc::new(FixedClock::default());
    let (ended, end) = channel();
    let on_end = Box::new(move |end| drop(ended.send(end)));
    let connection = service::start(1, near, double.clone(), clock, on_end).unwrap();
    (connection, far, end)
}

/// Passes `input` to an endpoint in pieces of `piece` bytes, ends it, and checks its output:
///
/// - each line is one frame: a response, an error or an event;
/// - each line of the input has exactly one answer, and an id has no more answers than requests;
/// - events are numbered 1, 2, 3 without a gap;
/// - at the end nothing is pending and nothing waits.
pub fn check(input: &[u8], piece: usize, seed: u64) {
    // Fates by the number of the request, independent of chance and time.
    let double = Double::new(move |_, asked| {
        match seed.rotate_right(u32::try_from(asked * 2 % 64).unwrap_or(0)) & 3 {
            0 => Fate::Now,
            1 => Fate::Later,
            2 => Fate::Refused,
            _ => Fate::Dropped,
        }
    });
    let (connection, Far { input: mut writer, mut output }, end) = connect(&double, 1 << 12);
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        output.read_to_end(&mut all).map(|_| all)
    });
    for part in input.chunks(piece.max(1)) {
        writer.write_all(part).unwrap();
    }
    drop(writer);
    let end = end.recv_timeout(PATIENCE).expect("the end of the input is seen");
    assert!(matches!(end, ConnectionEnd::Input), "{end:?}");
    connection.finish(PATIENCE);
    let standing = connection.standing();
    assert_eq!((standing.pending, standing.waiting, standing.bytes), (0, 0, 0), "left over: {standing:?}");
    // Dropping the last reference ends the output.
    drop(connection);
    let written = reading.join().unwrap().unwrap();
    check_frames(input, &written);
}

/// Checks the rules for the output of an input.
pub fn check_frames(input: &[u8], written: &[u8]) {
    let shown = || String::from_utf8_lossy(input).into_owned();
    assert!(written.is_empty() || written.ends_with(b"\n"), "the last frame is not whole");
    let mut answers = 0;
    let mut by_id: HashMap<String, usize> = HashMap::new();
    let mut seq = 0;
    for line in written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let frame: Owned = match edn::read_one(line) {
            Ok(frame) => frame.into_owned(),
            Err(error) => panic!("{error} in {}\nfor {}", String::from_utf8_lossy(line), shown()),
        };
        // A client may have requested lists instead of maps.
        let get = |key: &str| match &frame {
            Value::List(items) => items
                .as_chunks::<2>()
                .0
                .iter()
                .find(|[name, _]| name.as_keyword() == Some(key))
                .map(|[_, v]| v),
            map => map.get(key),
        };
        match get("kind").and_then(Value::as_keyword) {
            Some("event") => {
                seq += 1;
                assert_eq!(
                    get("seq").and_then(Value::as_i64),
                    Some(seq),
                    "a gap at {frame}\nfor {}",
                    shown()
                );
            }
            Some("response" | "error") => {
                answers += 1;
                if let Some(id) = get("id").and_then(Value::as_str) {
                    *by_id.entry(id.to_owned()).or_default() += 1;
                }
            }
            _ => panic!("no frame: {frame}\nfor {}", shown()),
        }
    }
    let mut lines = 0;
    let mut asked: HashMap<String, usize> = HashMap::new();
    let mut splitter = Splitter::new(MAX_LINE_BYTES);
    splitter.push(input);
    splitter.end();
    while let Some(line) = splitter.next_line() {
        lines += 1;
        if let Line::Whole(bytes) = line
            && let Ok(form) = edn::read_one(bytes)
            && let Some(id) = form.get("id").and_then(Value::as_str)
            && id.len() <= MAX_ID_BYTES
        {
            *asked.entry(id.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(answers, lines, "answers and lines, for {}", shown());
    for (id, count) in by_id {
        let asked = asked.get(&id).copied().unwrap_or(0);
        assert!(count <= asked, "{id:?} was asked {asked} times and answered {count} times, for {}", shown());
    }
}
