//! One connection alone: an endpoint in memory, over a session API that answers when the test says so.

use crate::endpoint_support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use edn_bridge::catalogue::ErrorCode;
use edn_bridge::edn;
use edn_bridge::event::Body;
use edn_bridge::limits::{
    FLOW_WINDOW_EVENTS, MAX_FRAME_VALUES, MAX_ID_BYTES, MAX_PENDING, OUTBOX_ANSWER_BYTES, OUTBOX_READY_BYTES,
};
use edn_bridge::session::Client as _;
use edn_bridge::value::{Owned, Value};
use edn_bridge::wire::connection::ConnectionEnd;
use edn_bridge::wire::edn::service::Connection;
use edn_bridge::wire::transport::memory::Writer;
use endpoint_support::double::{Double, Fate, Kept, told};
use endpoint_support::{PATIENCE, check, connect, lines};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A connection whose client reads on a separate thread.
struct Peer {
    double: Arc<Double>,
    connection: Arc<Connection>,
    input: Option<Writer>,
    frames: Receiver<Owned>,
    end: Receiver<ConnectionEnd>,
}

impl Peer {
    /// Connected, with the handshake done.
    fn new(features: &str, policy: impl Fn(&'static str, usize) -> Fate + Send + Sync + 'static) -> Self {
        let double = Double::new(policy);
        let (connection, far, end) = connect(&double, 1 << 16);
        let (sender, frames) = channel();
        let output = far.output;
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let frame = edn::read_one(line.unwrap().as_bytes()).unwrap().into_owned();
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        let mut peer = Self { double, connection, input: Some(far.input), frames, end };
        peer.send(&handshake(features));
        peer.frame();
        peer
    }

    fn send(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn frame(&mut self) -> Owned {
        self.frames.recv_timeout(PATIENCE).expect("a frame comes")
    }

    /// Ends the input and the connection; what was still to come.
    fn finish(mut self) -> Vec<Owned> {
        self.input = None;
        self.end.recv_timeout(PATIENCE).expect("the end of the input is seen");
        self.connection.finish(PATIENCE);
        drop(self.connection);
        self.frames.iter().collect()
    }
}

fn handshake(features: &str) -> String {
    request(
        "h",
        "handshake",
        &format!(
            "{{:client-info {{:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [{features}]}}}}"
        ),
    )
}

fn request(id: &str, op: &str, params: &str) -> String {
    format!("{{:id {id:?} :kind :request :op {op:?} :params {params}}}\n")
}

fn text<'f>(frame: &'f Owned, key: &str) -> &'f str {
    frame.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_response(frame: &Owned) -> bool {
    frame.get("kind").and_then(Value::as_keyword) == Some("response")
}

#[test]
fn urgent_request_is_admitted_beyond_pending_limit() {
    let mut peer = Peer::new("", |op, _| if op == "set_name" { Fate::Later } else { Fate::Now });
    for n in 0..MAX_PENDING {
        peer.send(&request(&format!("n{n}"), "set_session_name", "{:name \"x\"}"));
    }
    let kept = peer.double.take(MAX_PENDING);
    assert_eq!(peer.connection.standing().pending, MAX_PENDING);
    for (op, params) in [("set_session_name", "{:name \"x\"}"), ("ping", "{}"), ("get_state", "{}")] {
        peer.send(&request("over", op, params));
        let refused = peer.frame();
        assert_eq!(text(&refused, "error-code"), "transport/max-pending-exceeded", "{op}: {refused}");
        assert_eq!(refused.get("retryable"), Some(&Value::Bool(true)), "{refused}");
    }
    for (op, params) in [
        ("abort", "{}"),
        ("interrupt", "{}"),
        ("interaction_respond", "{:interaction-id \"i\" :status \"cancelled\"}"),
        ("cancel_dialog", "{:dialog-id \"d\"}"),
    ] {
        peer.send(&request("urgent", op, params));
        let served = peer.frame();
        assert!(is_response(&served) && text(&served, "id") == "urgent", "{op}: {served}");
    }
    // One place is free again; then one more request is taken, and no second one.
    let mut kept = kept.into_iter();
    kept.next().unwrap().end(Fate::Later);
    assert_eq!(text(&peer.frame(), "id"), "n0");
    peer.send(&request("free", "set_session_name", "{:name \"x\"}"));
    peer.send(&request("full", "set_session_name", "{:name \"x\"}"));
    assert_eq!(text(&peer.frame(), "id"), "full");
    kept.chain(peer.double.take(1)).for_each(|kept: Kept| kept.end(Fate::Later));
    let mut answers = BTreeMap::new();
    for _ in 0..MAX_PENDING {
        let frame = peer.frame();
        assert!(is_response(&frame), "{frame}");
        *answers.entry(text(&frame, "id").to_owned()).or_insert(0) += 1;
    }
    assert_eq!(answers.len(), MAX_PENDING);
    assert_eq!(peer.connection.standing().pending, 0);
    assert_eq!(peer.finish(), [] as [Owned; 0]);
}

#[test]
fn pending_id_is_refused_until_first_answer() {
    let mut peer = Peer::new("", |_, _| Fate::Later);
    let same = request("same", "set_session_name", "{:name \"x\"}");
    peer.send(&same);
    let first = peer.double.take(1);
    peer.send(&same);
    let refused = peer.frame();
    assert_eq!(text(&refused, "error-code"), "request/invalid-id");
    assert_eq!(refused.get("id"), None, "{refused}");
    assert_eq!(refused.get("data").map(|data| text(data, "duplicate-id")), Some("same"));
    first.into_iter().for_each(|kept| kept.end(Fate::Later));
    assert!(is_response(&peer.frame()));
    peer.send(&same);
    peer.double.take(1).into_iter().for_each(|kept| kept.end(Fate::Refused));
    assert_eq!(text(&peer.frame(), "error-code"), "runtime/failed");
    assert_eq!(peer.finish(), [] as [Owned; 0]);
}

#[test]
fn pending_requests_are_answered_before_output_ends() {
    let mut peer = Peer::new("", |_, _| Fate::Later);
    for n in 0..10 {
        peer.send(&request(&format!("n{n}"), "set_session_name", "{:name \"x\"}"));
    }
    let frames = {
        peer.double.take(0);
        peer.finish()
    };
    assert_eq!(frames.len(), 10, "{frames:?}");
}

#[test]
fn client_that_does_not_read_is_not_read_from() {
    let double = Double::new(|_, _| Fate::Now);
    let (connection, far, _end) = connect(&double, 1 << 12);
    let mut input = far.input;
    let mut output = far.output;
    // An unknown op is echoed: answers as long as the requests.
    let long = "x".repeat(1 << 20);
    let count = 2 * OUTBOX_ANSWER_BYTES / long.len();
    let asking = std::thread::spawn(move || {
        input.write_all(handshake("").as_bytes()).unwrap();
        for n in 0..count {
            input.write_all(request(&format!("n{n}"), &long, "{}").as_bytes()).unwrap();
        }
    });
    // The bound, one answer beyond it, and what is under way.
    let bound = OUTBOX_ANSWER_BYTES + 2 * (1 << 20) + (1 << 16);
    while connection.depth().bytes < OUTBOX_ANSWER_BYTES {
        std::thread::yield_now();
    }
    for _ in 0..1000 {
        assert!(connection.depth().bytes <= bound, "{:?}", connection.depth());
        std::thread::yield_now();
    }
    assert!(!asking.is_finished(), "it has to wait");
    let mut all = BufReader::new(&mut output).lines().map(Result::unwrap);
    for n in 0..=count {
        let line = all.next().unwrap();
        let id = if n == 0 { "\"h\"".to_owned() } else { format!("\"n{}\"", n - 1) };
        assert!(line.contains(&id), "answer {n}: {:?}", line.get(..80));
    }
    asking.join().unwrap();
}

#[test]
fn byte_wise_reader_sees_all_text_in_few_frames() {
    let double = Double::new(|_, _| Fate::Now);
    let (connection, mut far, _end) = connect(&double, 64);
    far.input.write_all(handshake("").as_bytes()).unwrap();
    far.input.write_all(request("s", "subscribe", "{:topics [\"assistant/delta\"]}").as_bytes()).unwrap();
    let mut output = BufReader::with_capacity(1, far.output);
    let mut line = String::new();
    for _ in 0..2 {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    let mut whole = String::new();
    for n in 0..100_000 {
        whole.push_str(&format!("{n} "));
        double.tell(Body::AssistantDelta(format!("{n} ").into()));
    }
    // What is encoded is bounded; the rest is text and little else.
    assert!(connection.depth().bytes < 2 * OUTBOX_READY_BYTES + whole.len(), "{:?}", connection.depth());
    let mut seen = String::new();
    let mut frames = 0;
    while seen.len() < whole.len() {
        line.clear();
        output.read_line(&mut line).unwrap();
        let frame = edn::read_one(line.as_bytes()).unwrap();
        frames += 1;
        assert_eq!(frame.get("seq").and_then(Value::as_i64), Some(frames));
        seen.push_str(frame.get("data").unwrap().get("text").unwrap().as_str().unwrap());
    }
    assert_eq!(seen, whole);
    assert!(frames < 5000, "{frames} frames");
}

#[test]
fn flow_credit_client_gets_window_then_shown_count() {
    let mut peer = Peer::new("\"flow-credit\"", |_, _| Fate::Now);
    peer.send(&request("s", "subscribe", "{:topics [\"assistant/delta\"]}"));
    peer.frame();
    let window = usize::try_from(FLOW_WINDOW_EVENTS).unwrap();
    for n in 0..window * 4 {
        peer.double.tell(Body::AssistantDelta(format!("{n} ").into()));
    }
    for n in 0..window {
        assert_eq!(peer.frame().get("data").unwrap().get("text").unwrap().as_str().unwrap(), format!("{n} "));
    }
    assert_eq!(peer.connection.depth().waiting, 1, "the rest is one event, and waits");
    peer.send(&request("a", "ack", &format!("{{:seq {window}}}")));
    // The credit counts before its answer; the answer stands behind what it let out.
    let rest = peer.frame();
    let text_of =
        |frame: &Owned| frame.get("data").unwrap().get("text").unwrap().as_str().unwrap().to_owned();
    let expected: String = (window..window * 4).map(|n| format!("{n} ")).collect();
    assert_eq!(text_of(&rest), expected);
    assert_eq!(text(&peer.frame(), "id"), "a");
    assert_eq!(peer.finish(), [] as [Owned; 0]);
}

#[test]
fn lossless_event_beyond_window_arrives_at_once() {
    let mut peer = Peer::new("\"flow-credit\"", |_, _| Fate::Now);
    peer.send(&request("s", "subscribe", "{:topics [\"assistant/delta\" \"error\"]}"));
    peer.frame();
    let window = usize::try_from(FLOW_WINDOW_EVENTS).unwrap();
    for _ in 0..window + 10 {
        peer.double.tell(Body::AssistantDelta("x".into()));
    }
    peer.double.tell(Body::Error { code: ErrorCode::Failed, message: "said".into() });
    let events: Vec<Owned> = (0..window + 2).map(|_| peer.frame()).collect();
    assert_eq!(text(&events[window + 1], "event"), "error");
    let words = events[window].get("data").and_then(|data| data.get("text")).and_then(Value::as_str);
    assert_eq!(words, Some("x".repeat(10).as_str()));
    // A later handshake without the feature ends it: what comes is sent as it comes.
    peer.send(&handshake(""));
    assert!(is_response(&peer.frame()));
    for _ in 0..3 {
        peer.double.tell(Body::AssistantDelta("y".into()));
        assert_eq!(text(&peer.frame(), "event"), "assistant/delta");
    }
}

#[test]
fn newer_session_list_is_the_last_one_sent() {
    let mut peer = Peer::new("", |_, _| Fate::Now);
    peer.send(&request("s", "subscribe", "{:topics [\"context/updated\"]}"));
    peer.frame();
    let list = |frame: &Owned| {
        let data = frame.get("data").unwrap();
        assert_eq!(text(data, "active-session-id"), "s");
        let slots = data.get("sessions").unwrap().as_slice().unwrap().to_vec();
        let active: Vec<_> =
            slots.iter().map(|slot| slot.get("is-active").unwrap().as_bool().unwrap()).collect();
        assert_eq!(active, [true, false]);
        text(&slots[1], "id").to_owned()
    };
    assert_eq!(list(&peer.frame()), "v1");
    // Two tasks make a list at the same time, and who was first comes last.
    for version in [7, 6, 7, 9] {
        peer.double.tell(told(version));
    }
    assert_eq!([(); 3].map(|()| list(&peer.frame())), ["v7", "v7", "v9"]);
    assert_eq!(peer.finish(), [] as [Owned; 0]);
}

#[test]
fn line_of_too_many_values_is_refused_under_free_id() {
    let mut peer = Peer::new("", |_, _| Fate::Later);
    peer.send(&request("r", "set_session_name", "{:name \"x\"}"));
    let kept = peer.double.take(1);
    let many = format!("{{:x [{}]}}", "nil ".repeat(MAX_FRAME_VALUES));
    for (id, echoed) in [("free", "free"), ("r", ""), ("", "")] {
        peer.send(&request(id, "ping", &many));
        let refused = peer.frame();
        assert_eq!(text(&refused, "error-code"), "transport/invalid-frame", "{refused}");
        assert_eq!((text(&refused, "id"), text(&refused, "op")), (echoed, "ping"), "{refused}");
        assert!(text(&refused, "error-message").contains(&MAX_FRAME_VALUES.to_string()), "{refused}");
    }
    kept.into_iter().for_each(|kept| kept.end(Fate::Now));
    let served = peer.frame();
    assert!(is_response(&served) && text(&served, "id") == "r", "{served}");
    peer.finish();
}

#[test]
fn too_long_id_is_never_echoed() {
    let mut peer = Peer::new("", |_, _| Fate::Now);
    let id = "i".repeat(MAX_ID_BYTES + 1);
    for line in [
        request(&id, "ping", "{}"),
        format!("{{:id {id:?} :kind :request}}\n"),
        format!("{{:id {id:?} :kind :request :op \"ping\" :extra 1}}\n"),
    ] {
        peer.send(&line);
        let refused = peer.frame();
        assert_eq!(refused.get("id"), None, "{}", text(&refused, "error-message"));
        assert!(!is_response(&refused));
    }
}

/// The same inputs in every run, unless proptest's own variables say otherwise: `PROPTEST_CASES` and
/// `PROPTEST_RNG_SEED` make it a fuzzer, and cargo-fuzz looks further still (`make fuzz`).
fn config() -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 300;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(10);
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn output_keeps_rules_for_any_input(
        choices in prop::collection::vec(any::<u8>(), 0..1500),
        piece in 1usize..5000,
        seed in any::<u64>(),
    ) {
        check(&lines::input(&choices), piece, seed);
    }
}
