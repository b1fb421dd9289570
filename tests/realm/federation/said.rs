//! What the owner of a session says meanwhile is shown on other hosts: at its place, before its entry, and once.

use edn_bridge::edn;
use edn_bridge::value::{Owned, Value};

use super::crossing::Two;
use super::{ask, end_of_turn, host, host_of, listed, switch};
use crate::fixture::END;
use crate::support::{Bridge, at, data, is_event, wait_until};

/// The frames of a topic that have come so far, in order.
fn frames(bridge: &mut Bridge, topic: &str) -> Vec<Owned> {
    // What is on its way comes before the answer.
    bridge.ask("now", "ping", "{}");
    let lines = bridge.transcript.iter().filter_map(|line| line.strip_prefix("< "));
    let frames = lines.map(|line| edn::read_one(line.as_bytes()).unwrap().into_owned());
    frames.filter(|frame| is_event(frame, topic)).collect()
}

fn number(frame: &Owned, key: &str) -> i64 {
    at(frame, &["data", key]).and_then(Value::as_i64).unwrap_or_else(|| panic!("no {key} in {frame}"))
}

/// The text of a topic's deltas, each of which stands at its place.
fn said(bridge: &mut Bridge, topic: &str) -> String {
    let mut text = String::new();
    for frame in frames(bridge, topic) {
        assert_eq!(number(&frame, "call"), 1);
        assert_eq!(usize::try_from(number(&frame, "at")), Ok(text.chars().count()), "{frame}");
        text.push_str(data(&frame, "text"));
    }
    text
}

fn is_of_model(frame: &Owned) -> bool {
    at(frame, &["data", "entry", "message", "role"])
        .is_some_and(|role| role.to_string().contains("assistant"))
}

#[test]
fn running_answer_is_shown_before_its_entry_and_once() {
    let script = "{:turns [{:steps [{:thinking \"hm, \"} {:thinking \"wéll\"} {:delta \"It \"} {:deltas 3 :of \"says \"}
                                    {:sleep-ms 3600000}]}]}";
    let Some(mut two) = Two::start(script) else { return };
    let Two { server, a, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"say\"}");
    let spoken = "It says says says ";
    let cell = std::cell::RefCell::new(&mut *b);
    wait_until("the other host hears it", || said(&mut cell.borrow_mut(), "assistant/delta") == spoken);
    assert_eq!(said(b, "assistant/thinking-delta"), "hm, wéll");
    // Who asked here is known here.
    let from = |bridge: &mut Bridge| {
        let messages = frames(bridge, "user/message");
        at(&messages[0], &["data", "from"]).unwrap().to_string()
    };
    assert!(from(b).contains(":kind \"client\""), "{}", from(b));
    assert!(!frames(b, "session/entry").iter().any(is_of_model), "no entry has it");
    // In the order of the session: the message, what the model thinks, what it says.
    let place = |bridge: &Bridge, topic: &str| {
        let topic = format!(":event {topic:?}");
        bridge.transcript.iter().position(|line| line.contains(&topic)).unwrap()
    };
    assert!(place(b, "user/message") < place(b, "assistant/thinking-delta"));
    assert!(place(b, "assistant/thinking-delta") < place(b, "assistant/delta"));

    // Who comes later has missed it: the entry has it all.
    let gamma = host(server, "gamma", ":all", END);
    let mut c = gamma.setup.interactor();
    listed(&mut c, session, |row| host_of(row) == "alpha");
    switch(&mut c, session);
    ask(&mut c, "abort", "{}");
    let message = c.until(|frame| is_event(frame, "assistant/message"));
    assert_eq!(data(&message, "text"), spoken);
    assert!(frames(&mut c, "assistant/delta").is_empty());
    for bridge in [&mut *a, &mut *b] {
        end_of_turn(bridge);
        assert_eq!(said(bridge, "assistant/delta"), spoken, "nothing is said again");
        assert_eq!(frames(bridge, "assistant/message").len(), 1);
    }
}

#[test]
fn what_a_tool_and_a_retry_do_is_shown_on_the_other_host() {
    let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command
                              \"echo live; until [ -e go ]; do sleep 0.01; done\"}}}]}
                           {:steps [{:error {:kind :overloaded :message \"busy\" :retry-after-ms 1}}]}
                           {:steps [{:tool-call {:name \"write\" :arguments {:path \"made\" :content \"x\"}}}]}
                           {:steps [{:delta \"end\"}]}]}";
    let Some(mut two) = Two::start(script) else { return };
    let Two { alpha, a, b, .. } = &mut two;
    ask(b, "prompt", "{:message \"go\"}");
    let executing = b.until(|frame| is_event(frame, "tool/executing"));
    assert_eq!(data(&executing, "tool-name"), "bash", "{executing}");
    let update = b.until(|frame| is_event(frame, "tool/update"));
    assert!(update.to_string().contains("live"), "{update}");
    std::fs::write(alpha.file("go"), "").unwrap();
    let retry = b.until(|frame| is_event(frame, "turn/retry"));
    assert_eq!(data(&retry, "kind"), "overloaded");
    end_of_turn(a);
    end_of_turn(b);
    let results = |bridge: &mut Bridge| {
        let of = |frame: &Owned| {
            let data = at(frame, &["data"]).unwrap();
            ["tool-id", "details", "arguments"].map(|key| data.get(key).map(ToString::to_string))
        };
        frames(bridge, "tool/result").iter().map(of).collect::<Vec<_>>()
    };
    let theirs = results(a);
    assert_eq!(theirs.len(), 2, "{theirs:?}");
    assert_eq!(results(b), theirs, "with the diff");
}

#[test]
fn late_piece_is_not_shown_behind_its_entry() {
    let Some(mut two) = Two::start("{:turns [{:steps [{:delta \"It \"} {:sleep-ms 3600000}]}]}") else {
        return;
    };
    let Two { server, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"say\"}");
    let cell = std::cell::RefCell::new(&mut *b);
    wait_until("the other host hears it", || said(&mut cell.borrow_mut(), "assistant/delta") == "It ");
    let first = frames(b, "assistant/delta").remove(0);
    let turn = at(&first, &["data", "turn-id"]).and_then(Value::as_str).unwrap().to_owned();
    let offset = server.sql(&format!("SELECT tail FROM edn_bridge.session WHERE id = '{session}'")).concat();
    // The test speaks for the owner, as its words cross.
    let say = |piece: &str, said: &str| {
        let word = format!("{{:offset {offset} :turn {turn:?} :piece {piece} :said {said}}}");
        server.sql(&format!(
            "SELECT pg_notify(channel || '_' || left(encode(sha256('{session}'), 'hex'), 24), 's {word}') \
             FROM edn_bridge.member"
        ));
    };
    say("[1 3]", "{:Text \"says\"}");
    let cell = std::cell::RefCell::new(&mut *b);
    wait_until("a piece is heard", || said(&mut cell.borrow_mut(), "assistant/delta") == "It says");
    ask(b, "abort", "{}");
    end_of_turn(b);
    say("[1 7]", "{:Text \" more\"}");
    say("nil", "{:Executing {:id \"c\" :name \"after\" :summary \"\"}}");
    b.until(|frame| is_event(frame, "tool/executing"));
    assert_eq!(said(b, "assistant/delta"), "It says");
}
