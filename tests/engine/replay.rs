//! `subscribe` with `:since`, with the real binary: a client that comes back is sent what it misses, each entry once
//! and in order, then what is in flight, then live events.

use crate::support;

use std::path::Path;

use edn_bridge::limits::OUTBOX_TEXT_BYTES;
use edn_bridge::value::{Owned, Value};
use proptest::prelude::*;
use support::guest::{Guest, socket};
use support::{Bridge, Setup, at, code, data, end_of_turn, is_event};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}] :then :cycle}";

fn number(frame: &Owned, key: &str) -> u64 {
    let value = at(frame, &["data", key]).and_then(Value::as_i64);
    u64::try_from(value.unwrap_or_else(|| panic!("no {key} in {frame}"))).unwrap()
}

fn session(bridge: &mut Bridge) -> String {
    let state = bridge.ask("state", "get_state", "{}");
    at(&state, &["data", "state", "session-id"]).and_then(Value::as_str).unwrap().to_owned()
}

/// What a client knows of a session: the ids of its entries.
#[derive(Debug, Default, Clone)]
struct Known {
    session: String,
    entries: Vec<String>,
}

impl Known {
    fn of(session: &str) -> Self {
        Self { session: session.to_owned(), entries: Vec::new() }
    }

    /// `:since` with further keys.
    fn since(&self, rest: &str) -> String {
        let entry = self.entries.last().map(|entry| format!(":entry-id {entry:?}")).unwrap_or_default();
        format!("{{:session-id {:?} :offset {} {entry} {rest}}}", self.session, self.entries.len())
    }

    /// Asks for what is missing.
    fn follow(&self, guest: &mut Guest, topics: &str, rest: &str) -> Owned {
        let params = format!("{{:topics [{topics}] :since {}}}", self.since(rest));
        guest.ask("follow", "subscribe", &params)
    }

    /// Takes in a frame. Every entry must be the next one.
    fn take(&mut self, frame: &Owned) {
        if is_event(frame, "session/entry") {
            let id = at(frame, &["data", "entry", "id"]).and_then(Value::as_str).unwrap();
            let next = u64::try_from(self.entries.len()).unwrap() + 1;
            assert_eq!(number(frame, "offset"), next, "a gap or a repetition: {frame}");
            assert_eq!(data(frame, "session-id"), self.session);
            self.entries.push(id.to_owned());
        }
    }

    /// Reads until the replay is complete.
    fn sync(&mut self, guest: &mut Guest) {
        loop {
            let frame = guest.frame();
            self.take(&frame);
            assert!(!is_event(&frame, "session/stale"), "{frame}");
            if is_event(&frame, "session/synced") {
                assert_eq!(number(&frame, "offset"), u64::try_from(self.entries.len()).unwrap());
                return;
            }
        }
    }
}

fn rename(bridge: &mut Bridge, name: &str) {
    bridge.ask("name", "set_session_name", &format!("{{:name {name:?}}}"));
}

#[test]
fn client_that_returns_is_sent_what_it_misses() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    let mut known = Known::of(&session(&mut bridge));
    rename(&mut bridge, "one");
    let path = socket(&setup.state());
    let mut guest = Guest::at(&path);
    let answer = known.follow(&mut guest, "\"session/entry\"", "");
    assert_eq!(number(&answer, "replaying"), 1, "{answer}");
    known.sync(&mut guest);
    // What follows is live, another client's message included.
    bridge.request("p", "prompt", "{:message \"hello\"}");
    end_of_turn(&mut bridge);
    loop {
        let frame = guest.until(|frame| is_event(frame, "session/entry"));
        known.take(&frame);
        let message = at(&frame, &["data", "entry", "message"]);
        if message.and_then(|message| message.get("role")).and_then(Value::as_str) == Some("assistant") {
            break;
        }
    }
    drop(guest);
    rename(&mut bridge, "two");
    let mut guest = Guest::at(&path);
    known.follow(&mut guest, "\"session/entry\"", "");
    known.sync(&mut guest);
    let texts: Vec<_> = known.entries.iter().collect();
    assert!(texts.len() >= 5, "{texts:?}");
}

/// A client chooses by topic how it is told of messages: as entries, as events of their own, or as both.
#[test]
fn client_chooses_how_often_it_gets_a_message() {
    let topics = |wanted: &dyn Fn(&str) -> bool| {
        let names = edn_bridge::catalogue::TOPICS.iter().map(|spec| spec.name);
        names.filter(|name| wanted(name)).map(|name| format!("{name:?} ")).collect::<String>()
    };
    let doubled = ["assistant/message", "user/message", "tool/result"];
    let mut bytes = Vec::new();
    for (chosen, times) in [
        (topics(&|_| true), 2),
        (topics(&|name| name != "session/entry"), 1),
        (topics(&|name| !doubled.contains(&name)), 1),
    ] {
        let text = "answered ".repeat(1000);
        let script = format!(
            "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command \"seq 2000\"}}}}}}]}}
                      {{:steps [{{:delta {text:?}}}]}}]}}"
        );
        let setup = Setup::new().script(&script).arg("--yolo");
        let mut bridge = setup.serve();
        bridge.handshake();
        bridge.ask("s", "subscribe", &format!("{{:topics [{chosen}]}}"));
        bridge.ask("p", "prompt", "{:message \"a question of the person\"}");
        bridge.event("turn/ended");
        let is_event = |line: &&String| line.starts_with("< ") && line.contains(":kind :event");
        let events: Vec<&String> = bridge.transcript.iter().filter(is_event).collect();
        let tells = |line: &&&String| {
            let mut topics = doubled.iter().chain(&["session/entry"]);
            topics.any(|topic| line.contains(&format!(":event {topic:?}")))
        };
        let told = |text: &str| events.iter().filter(tells).filter(|line| line.contains(text)).count();
        assert_eq!(told(text.trim_end()), times, "{}", bridge.told());
        assert_eq!(told("a question of the person"), times, "{}", bridge.told());
        bytes.push(events.iter().map(|line| line.len()).sum::<usize>());
    }
    println!("bytes of a turn's events: both {}, events {}, entries {}", bytes[0], bytes[1], bytes[2]);
    assert!(bytes[0] > bytes[1] && bytes[0] > bytes[2], "{bytes:?}");
}

#[test]
fn history_of_another_session_is_stale() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    let id = session(&mut bridge);
    bridge.request("p", "prompt", "{:message \"hello\"}");
    // Its last entry says that it has ended.
    bridge.event("turn/ended");
    let path = socket(&setup.state());
    for (offset, entry, reason) in [
        (1, ":entry-id \"e-other\"", "other-entry"),
        (0, ":entry-id \"e-other\"", "other-entry"),
        (99, "", "ahead"),
    ] {
        let mut guest = Guest::at(&path);
        let since = format!("{{:session-id {id:?} :offset {offset} {entry}}}");
        guest.ask("f", "subscribe", &format!("{{:topics [\"session/entry\"] :since {since}}}"));
        let stale = guest.frame();
        assert!(is_event(&stale, "session/stale") && data(&stale, "reason") == reason, "{stale}");
        let history = guest.frame();
        assert!(is_event(&history, "session/rehydrated"), "{history}");
        let synced = guest.frame();
        assert!(is_event(&synced, "session/synced"), "{synced}");
        let known = number(&synced, "offset");
        assert_eq!(number(&history, "offset"), known);
        // From there on as for everybody.
        rename(&mut bridge, &format!("{reason} {offset}"));
        let entry = guest.until(|frame| is_event(frame, "session/entry"));
        assert_eq!(number(&entry, "offset"), known + 1);
    }
}

#[test]
fn since_of_no_session_changes_nothing() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let own = session(&mut bridge);
    for (since, expected) in [
        ("{:session-id \"s-none\" :offset 0}", "request/not-found"),
        ("{:offset 0}", "request/invalid-params"),
        ("{:session-id \"s\" :offset -1}", "request/invalid-params"),
        ("{:session-id \"s\" :offset 0 :at {:turn 1}}", "request/invalid-params"),
    ] {
        let mut guest = Guest::at(&socket(&setup.state()));
        let refused = guest.ask("f", "subscribe", &format!("{{:since {since}}}"));
        assert_eq!(code(&refused), expected, "{since}");
        let answer = guest.ask("s", "subscribe", "{:topics [\"notification\"]}");
        assert_eq!(at(&answer, &["data", "subscribed"]).and_then(Value::as_slice).map(<[_]>::len), Some(0));
        let state = guest.ask("g", "get_state", "{}");
        assert_eq!(at(&state, &["data", "state", "session-id"]).and_then(Value::as_str), Some(&*own));
    }
}

#[test]
fn session_is_opened_for_a_client_that_returns() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    let mut known = Known::of(&session(&mut bridge));
    bridge.request("p", "prompt", "{:message \"before\"}");
    end_of_turn(&mut bridge);
    let path = socket(&setup.state());
    let mut guest = Guest::at(&path);
    known.follow(&mut guest, "\"session/entry\"", "");
    known.sync(&mut guest);
    bridge.kill();
    // It is at most a turn's end that the client did not see; another process goes on.
    let mut bridge = setup.ready();
    let mut guest = Guest::at(&socket(&setup.state()));
    known.follow(&mut guest, "\"session/entry\" \"assistant/message\"", "");
    known.sync(&mut guest);
    guest.ask("p", "prompt", "{:message \"after\"}");
    loop {
        let frame = guest.frame();
        known.take(&frame);
        if is_event(&frame, "assistant/message") {
            assert_eq!(data(&frame, "text"), "after");
            break;
        }
    }
    bridge.ask("q", "ping", "{}");
}

/// Text that a client put together from deltas: it takes from each what it does not have, and a gap fails.
#[derive(Default)]
struct Answer {
    call: u64,
    text: String,
    turn: String,
}

impl Answer {
    fn take(&mut self, frame: &Owned) {
        let (call, at) = (number(frame, "call"), usize::try_from(number(frame, "at")).unwrap());
        if self.call != call {
            *self = Self { call, ..Self::default() };
        }
        self.turn = data(frame, "turn-id").to_owned();
        let known = self.text.chars().count();
        assert!(at <= known, "a gap after {known}: {frame}");
        self.text.extend(data(frame, "text").chars().skip(known - at));
    }
}

#[test]
fn answer_in_flight_goes_on_where_the_client_was() {
    const PIECE: &str = "äb\u{1F600}";
    let script = format!(
        "{{:turns [{{:steps [{{:deltas 100 :of {PIECE:?}}} {{:sleep-ms 300}} {{:deltas 100 :of {PIECE:?}}} \
         {{:sleep-ms 60000}}]}}]}}"
    );
    let setup = Setup::new().script(&script);
    let mut bridge = setup.ready();
    let mut known = Known::of(&session(&mut bridge));
    let path = socket(&setup.state());
    let mut guest = Guest::at(&path);
    let topics = "\"session/entry\" \"assistant/delta\"";
    known.follow(&mut guest, topics, "");
    bridge.request("p", "prompt", "{:message \"go\"}");
    let mut answer = Answer::default();
    while answer.text.chars().count() < 30 {
        let frame = guest.frame();
        known.take(&frame);
        if is_event(&frame, "assistant/delta") {
            answer.take(&frame);
        }
    }
    drop(guest);
    bridge.until(|frame| is_event(frame, "assistant/delta") && number(frame, "at") >= 300);
    for exact in [true, false] {
        let mut guest = Guest::at(&path);
        let had = answer.text.chars().count();
        let in_answer = format!(":at {{:turn {:?} :call {} :chars {had}}}", answer.turn, answer.call);
        known.follow(&mut guest, topics, if exact { &in_answer } else { "" });
        let delta = guest.until(|frame| {
            known.take(frame);
            is_event(frame, "assistant/delta")
        });
        assert_eq!(usize::try_from(number(&delta, "at")).unwrap(), if exact { had } else { 0 });
        answer.take(&delta);
        known.sync(&mut guest);
        while answer.text.chars().count() < 600 {
            let frame = guest.frame();
            known.take(&frame);
            if is_event(&frame, "assistant/delta") {
                answer.take(&frame);
            }
        }
        assert_eq!(answer.text, PIECE.repeat(200));
    }
    bridge.ask("a", "abort", "{}");
}

#[test]
fn client_that_switches_gets_the_answer_from_its_start() {
    let script =
        "{:turns [{:steps [{:thinking \"hm\"} {:delta \"one \"} {:delta \"two\"} {:sleep-ms 60000}]}]}";
    let setup = Setup::new().script(script);
    let mut bridge = setup.ready();
    let session = session(&mut bridge);
    bridge.request("p", "prompt", "{:message \"go\"}");
    bridge.until(|frame| is_event(frame, "assistant/delta") && number(frame, "at") >= 4);
    let mut guest = Guest::at(&socket(&setup.state()));
    guest.ask("new", "new_session", "{}");
    let topics =
        "\"assistant/delta\" \"assistant/thinking-delta\" \"session/updated\" \"session/rehydrated\"";
    guest.ask("topics", "subscribe", &format!("{{:topics [{topics}]}}"));
    guest.skip_to_now();
    guest.send("switch", "switch_session", &format!("{{:session-id {session:?}}}"));
    let is_its = |frame: &Owned| is_event(frame, "session/updated") && data(frame, "session-id") == session;
    let state = guest.until(is_its);
    let kind = at(&state, &["data", "activity", "kind"]).and_then(Value::as_str);
    assert_eq!(kind, Some("answering"), "{state}");
    let thought = guest.until(|frame| is_event(frame, "assistant/thinking-delta"));
    assert_eq!((number(&thought, "at"), data(&thought, "text")), (0, "hm"));
    let answer = guest.until(|frame| is_event(frame, "assistant/delta"));
    assert_eq!((number(&answer, "at"), data(&answer, "text")), (0, "one two"));
    bridge.ask("a", "abort", "{}");
}

#[test]
fn open_question_and_running_tool_come_before_synced() {
    let script =
        "{:turns [{:steps [{:tool-call {:id \"c1\" :name \"bash\" :arguments {:command \"sleep 60\"}}}]}
                           {:steps [{:delta \"done\"}]}]}";
    let setup = Setup::new().script(script);
    let mut bridge = setup.interactor();
    let mut known = Known::of(&session(&mut bridge));
    bridge.request("p", "prompt", "{:message \"go\"}");
    let asked = bridge.event("interaction/requested");
    let path = socket(&setup.state());
    let mut guest = Guest::interactor(&path);
    guest.skip_to_now();
    known.follow(&mut guest, "", "");
    let again = guest.until(|frame| {
        known.take(frame);
        is_event(frame, "interaction/requested")
    });
    assert_eq!(data(&again, "interaction-id"), data(&asked, "interaction-id"));
    known.sync(&mut guest);
    support::accept(&mut bridge, &asked, ":value {:outcome \"approve\" :scope \"once\"}");
    bridge.event("tool/executing");
    drop(guest);
    let mut guest = Guest::at(&path);
    known.follow(&mut guest, "\"tool/executing\"", "");
    let running = guest.until(|frame| {
        known.take(frame);
        is_event(frame, "tool/executing")
    });
    assert_eq!(data(&running, "tool-id"), "c1");
    known.sync(&mut guest);
    bridge.ask("a", "abort", "{}");
}

/// It does not read while much more is written than its outbox holds, and reads everything afterwards.
#[test]
fn slow_follower_misses_no_entry() {
    let setup = Setup::new().script(ECHO).arg("--durability").arg("relaxed");
    let mut bridge = setup.ready();
    let mut known = Known::of(&session(&mut bridge));
    let path = socket(&setup.state());
    let mut guest = Guest::at(&path);
    known.follow(&mut guest, "\"session/entry\" \"assistant/message\" \"diagnostic\"", "");
    known.sync(&mut guest);
    let words = "x".repeat(1024 * 1024);
    for turn in 0..2 * OUTBOX_TEXT_BYTES / words.len() {
        bridge.request(&format!("p{turn}"), "prompt", &format!("{{:message {words:?}}}"));
        end_of_turn(&mut bridge);
    }
    rename(&mut bridge, "the last");
    let mut was_behind = false;
    loop {
        let frame = guest.frame();
        known.take(&frame);
        was_behind |= is_event(&frame, "diagnostic") && data(&frame, "code") == "delivery/behind";
        let name = at(&frame, &["data", "entry", "name"]).and_then(Value::as_str);
        if name == Some("the last") {
            break;
        }
    }
    assert!(was_behind, "the guest was fast enough: nothing was tried");
}

/// What happens around one of three clients.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The session gets entries.
    Append(u8),
    /// The client comes back.
    Connect(usize),
    /// It reads that many frames.
    Read(usize, u8),
    /// It is gone, whatever it has not read.
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u8..8).prop_map(Step::Append),
        3 => (0usize..3).prop_map(Step::Connect),
        4 => (0usize..3, 1u8..6).prop_map(|(client, frames)| Step::Read(client, frames)),
        2 => (0usize..3).prop_map(Step::Leave),
    ]
}

struct Interleaved {
    bridge: Bridge,
    names: u64,
}

impl Interleaved {
    fn run(&mut self, path: &Path, steps: &[Step]) {
        self.bridge.ask("new", "new_session", "{}");
        let id = session(&mut self.bridge);
        let mut known = [Known::of(&id), Known::of(&id), Known::of(&id)];
        let mut guests: [Option<Guest>; 3] = [None, None, None];
        let mut written = 0;
        for step in steps {
            match *step {
                Step::Append(times) => {
                    for _ in 0..times {
                        self.names += 1;
                        rename(&mut self.bridge, &format!("name {}", self.names));
                        written += 1;
                    }
                }
                Step::Connect(client) => {
                    let mut guest = Guest::at(path);
                    guest.send(
                        "f",
                        "subscribe",
                        &format!("{{:topics [\"session/entry\"] :since {}}}", known[client].since("")),
                    );
                    guests[client] = Some(guest);
                }
                Step::Read(client, frames) => {
                    let Some(guest) = &mut guests[client] else { continue };
                    for _ in 0..frames {
                        // One entry more than it has is on its way.
                        if known[client].entries.len() >= written {
                            break;
                        }
                        known[client].take(&guest.frame());
                    }
                }
                Step::Leave(client) => guests[client] = None,
            }
        }
        for known in &mut known {
            let mut guest = Guest::at(path);
            known.follow(&mut guest, "\"session/entry\"", "");
            known.sync(&mut guest);
            assert_eq!(known.entries.len(), written);
        }
        assert_eq!(known[0].entries, known[1].entries);
    }
}

/// Whatever is appended while clients come and go: each gets the offsets from 1 on, each once.
#[test]
fn any_interleaving_gives_each_entry_once() {
    let setup = Setup::new().arg("--durability").arg("relaxed");
    let bridge = setup.ready();
    let path = socket(&setup.state());
    let mut interleaved = Interleaved { bridge, names: 0 };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let interleaved = std::cell::RefCell::new(&mut interleaved);
    let steps = proptest::collection::vec(step(), 1..40);
    runner
        .run(&steps, |steps| {
            interleaved.borrow_mut().run(&path, &steps);
            Ok(())
        })
        .unwrap();
}
