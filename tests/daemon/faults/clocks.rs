//! Faults: a clock that jumps.

use edn_bridge::value::Owned;

use crate::support::guest::{Guest, socket};
use crate::support::{Bridge, Setup, accept, at, control_at, data, end_of_turn, is_event, kind, text};

#[test]
fn pauses_and_order_do_not_depend_on_time_of_day() {
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

/// With a clock that is put forward by years and back with every look.
fn jumping(script: &str) -> Setup {
    Setup::new().script(script).env("EDN_BRIDGE_FIXED_CLOCK", "jumping")
}

fn say(bridge: &mut Bridge, message: &str) -> Owned {
    let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
    assert_eq!(kind(&answer), "response", "{answer}");
    let last = end_of_turn(bridge);
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    last
}

/// The words of a text, without the context update behind them, which tells another date.
fn said(text: &str) -> &str {
    text.split("<context-update>").next().unwrap_or_default()
}

/// The texts of the session's messages, in their order.
fn texts(bridge: &mut Bridge, params: &str) -> Vec<String> {
    let messages = bridge.ask("m", "get_messages", params);
    let messages = at(&messages, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
    let of = |message: &Owned| {
        let content = message.get("content").and_then(|content| content.as_slice()).unwrap();
        said(&content.iter().map(|block| text(block, "text")).collect::<String>()).to_owned()
    };
    messages.iter().map(of).collect()
}

#[test]
fn conversation_keeps_order_when_clock_jumps() {
    let setup = jumping("{:turns [{:steps [{:echo :last-user}]}] :then :repeat-last}");
    let mut bridge = setup.ready();
    let told: Vec<String> = (0..40).map(|n| format!("message {n}")).collect();
    for message in &told[..20] {
        assert_eq!(said(data(&say(&mut bridge, message), "text")), message);
    }
    let state = bridge.ask("g", "get_state", "{}");
    let file =
        at(&state, &["data", "state", "session-file"]).and_then(|file| file.as_str()).unwrap().to_owned();
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");

    let mut bridge = setup.ready();
    let opened = bridge.ask("o", "switch_session", &format!("{{:session-path {file:?}}}"));
    assert_eq!(kind(&opened), "response", "{opened}");
    for message in &told[20..] {
        say(&mut bridge, message);
    }
    let all: Vec<String> = told.iter().flat_map(|message| [message.clone(), message.clone()]).collect();
    assert_eq!(texts(&mut bridge, "{}"), all);
    // A page before an entry, a fork at one, and who comes in later: all find their place.
    let points = bridge.ask("f", "get_fork_messages", "{}");
    let points = at(&points, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
    let places: Vec<String> = points.iter().map(|point| text(point, "id").to_owned()).collect();
    assert_eq!(places.len(), 40);
    for place in [1, 7, 20, 39] {
        let before = texts(&mut bridge, &format!("{{:before {:?}}}", places[place]));
        assert_eq!(before, all[..2 * place], "before {place}");
    }
    let mut guest = Guest::interactor(&socket(&setup.state()));
    let session = bridge.ask("g2", "get_state", "{}");
    let session =
        at(&session, &["data", "state", "session-id"]).and_then(|id| id.as_str()).unwrap().to_owned();
    guest.ask("sw", "switch_session", &format!("{{:session-id {session:?}}}"));
    say(&mut bridge, "for both");
    let heard = guest.until(|frame| is_event(frame, "assistant/message"));
    assert_eq!(said(data(&heard, "text")), "for both");
    let forked = bridge.ask("fork", "fork", &format!("{{:entry-id {:?}}}", places[20]));
    assert_eq!(kind(&forked), "response", "{forked}");
    assert_eq!(texts(&mut bridge, "{}"), all[..41]);
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");
    let verified = setup.command().args(["sessions", "verify"]).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn waits_keep_their_length_when_clock_jumps() {
    let setup = jumping(
        "{:turns [{:steps [{:error {:kind :overloaded :message \"full\" :retry-after-ms 50}}]} \
         {:steps [{:tool-call {:name \"bash\" :arguments {:command \"sleep 3600\" :timeout-seconds 1}}}]} \
         {:steps [{:sleep-ms 50} {:delta \"after the pauses\"}]}]}",
    );
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.until(|frame| at(frame, &["data", "phase"]).and_then(|phase| phase.as_str()) == Some("retrying"));
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("[ended after 1 seconds]"), "{result}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "after the pauses");
    let audit = setup.command().args(["sessions", "verify"]).output().unwrap();
    assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
}

#[test]
fn model_call_times_are_right_when_clock_jumps() {
    let setup = jumping("{:turns [{:steps [{:sleep-ms 50} {:delta \"x\"}]}] :then :repeat-last}");
    let mut bridge = setup.ready();
    for _ in 0..3 {
        say(&mut bridge, "go");
        let answer =
            bridge.ask("q", "query_eql", "{:query \"[:psi.turn/first-token-ms :psi.turn/model-ms]\"}");
        for key in ["psi.turn/first-token-ms", "psi.turn/model-ms"] {
            let millis = at(&answer, &["data", "result", key]).and_then(|millis| millis.as_i64());
            assert!(millis.is_some_and(|millis| (50..600_000).contains(&millis)), "{answer}");
        }
    }
}

#[test]
fn request_is_taken_once_when_clock_is_put_back() {
    let today = Setup::new().script("{:turns [{:steps [{:delta \"x\"}]}] :then :repeat-last}").team();
    let yesterday = Setup { dir: today.dir.clone(), script: today.script.clone(), ..Setup::new() }
        .env("EDN_BRIDGE_FIXED_CLOCK", "yesterday");
    let mut bridge = today.ready();
    let state = bridge.ask("g", "get_state", "{}");
    let agent = at(&state, &["data", "state", "session-id"]).and_then(|id| id.as_str()).unwrap().to_owned();
    let now = jiff::Timestamp::now();
    let day = jiff::SignedDuration::from_hours(24);
    let (then, texts_of) = (now - day, |day: &str, n: usize| format!("text {n} of {day}."));
    let send = |bridge: &mut Bridge, time, day: &str, is_new: bool| {
        for n in 0..5 {
            let params = control_at(time, &format!("{day}-{n}"), &agent, Some(&texts_of(day, n)));
            let ack = bridge.ask("c", "control", &params).to_string();
            assert!(
                ack.contains(":result \"ok\"") && ack.contains(&format!(":duplicate {}", !is_new)),
                "{ack}"
            );
        }
    };
    send(&mut bridge, now, "today", true);
    for (setup, is_first) in [(&yesterday, true), (&today, false), (&yesterday, false)] {
        end_of_turn(&mut bridge);
        assert_eq!(bridge.finish().0.code(), Some(0));
        bridge = setup.ready();
        bridge.ask("o", "switch_session", &format!("{{:session-id {agent:?}}}"));
        send(&mut bridge, now, "today", false);
        send(&mut bridge, then, "yesterday", is_first);
        bridge.ask("p", "prompt", "{:message \"end\"}");
    }
    let said = texts(&mut bridge, "{}").concat();
    let once = |day: &str| (0..5).all(|n| said.matches(&texts_of(day, n)).count() == 1);
    assert!(once("today") && once("yesterday"), "{said}");
}
