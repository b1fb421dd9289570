//! What an agent tells becomes events and entries.

use super::*;

#[test]
fn agents_turn_is_shown_journalled_and_costed() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "think hmm; say Hello,; say  world; usage 100 1000 0.5");
    let thought = bridge.event("assistant/thinking-delta");
    assert_eq!(data(&thought, "text"), "hmm", "{thought}");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "text"), "Hello, world", "{last}");
    assert_eq!(data(&last, "stop-reason"), "end-turn");
    assert!(last.to_string().contains(":input 10 :output 5"), "{last}");
    let state = until_answered(&mut bridge, "get_state", |state| state.contains(":context-tokens 100"));
    for part in [":model-provider \"a\"", ":model-id \"m-small\"", ":context-window 1000"] {
        assert!(state.contains(part), "{part}: {state}");
    }
    assert!(state.contains(":info \"scripted 1.0\"") && state.contains(":session-id \"as-"), "{state}");
    let journal = std::fs::read_to_string(&support::files(&setup.state().join("sessions"))[0]).unwrap();
    assert!(journal.contains(":type :agent") && journal.contains(":agent-session-id \"as-"), "{journal}");
    // What was sent is what the person said, and nothing else.
    let prompt = sent(&setup).into_iter().find(|sent| sent["method"] == "session/prompt").unwrap();
    assert_eq!(json(&prompt, "/params/prompt/0/type"), "text");
    assert!(json(&prompt, "/params/prompt/0/text").as_str().unwrap().starts_with("think hmm"));
}

#[test]
fn agents_tool_call_is_shown_from_its_start_to_its_result() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(
        &mut bridge,
        "say before; call c execute; input c make test; run c; output c half; done c whole; say after",
    );
    let start = bridge.event("tool/start");
    assert_eq!(data(&start, "tool-name"), "bash", "{start}");
    let executing = bridge.event("tool/executing").to_string();
    assert!(executing.contains("make test"), "{executing}");
    let result = bridge.event("tool/result");
    assert_eq!(data(&result, "result-text"), "whole", "{result}");
    assert!(result.to_string().contains(":is-error false"), "{result}");
    assert_eq!(text(&ended(&mut bridge)), "after");
    let history = history(&mut bridge);
    let parts = [":text \"before\"", ":type :tool-call", ":text \"whole\"", ":text \"after\""];
    let places = parts.map(|part| history.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {history}");
}

#[test]
fn calls_are_told_in_any_way_and_none_stays_open() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    // An update before the call, a failure, a diff, a terminal of the agent's own, and one that is never ended.
    say(
        &mut bridge,
        "run a; fail a no; call d edit; diff d x.txt; call t execute; own-terminal t out; done t; call o other; run o",
    );
    let results: Vec<String> = (0..4).map(|_| bridge.event("tool/result").to_string()).collect();
    assert!(results[0].contains(":is-error true") && results[0].contains("\"no\""), "{}", results[0]);
    assert!(results[1].contains("-old") && results[1].contains("+new"), "{}", results[1]);
    assert!(results[2].contains("\"out\""), "{}", results[2]);
    assert!(results[3].contains("ended before the call did"), "{}", results[3]);
    ended(&mut bridge);
}

#[test]
fn message_of_another_id_is_a_message_of_its_own() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "message m1 one ; message m1 more; message m2 two");
    let first = bridge.event("assistant/message");
    assert_eq!(text(&first), "onemore");
    assert_eq!(text(&ended(&mut bridge)), "two");
}

#[test]
fn flood_and_long_pieces_arrive_whole() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    let flood = turn(&mut bridge, "flood 20000");
    let expected: String = (0..20000).map(|at| format!("{at} ")).collect();
    assert!(flood == expected, "{} of {} bytes", flood.len(), expected.len());
    let big = turn(&mut bridge, "big 2000000");
    assert_eq!(big.len(), 2_000_000);
    bridge.ask("ping", "ping", "{}");
}

#[test]
fn unknown_updates_and_answers_do_no_harm() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, "unknown-updates; say well"), "well");
    assert_eq!(turn(&mut bridge, "garbage 20; say still well"), "still well");
    assert_eq!(turn(&mut bridge, "unknown-method"), "code -32601. ");
}

#[test]
fn stop_reasons_are_ours() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    for (stop, expected) in [
        ("max_tokens", "max-tokens"),
        ("refusal", "refusal"),
        ("cancelled", "aborted"),
        ("max_turn_requests", "error"),
        ("of_tomorrow", "end-turn"),
    ] {
        say(&mut bridge, &format!("stop {stop}"));
        assert_eq!(data(&ended(&mut bridge), "stop-reason"), expected, "{stop}");
    }
}

#[test]
fn content_of_every_kind_is_shown_or_named() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "content link; content file; content audio; content image");
    let last = ended(&mut bridge);
    assert_eq!(text(&last), "[notes](file:///n.md)in the file[audio]", "{last}");
    assert!(last.to_string().contains(":mime-type \"image/png\""), "{last}");
}

#[test]
fn long_output_of_a_call_is_cut_and_kept() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "call c execute; run c; long c 20000");
    let result = bridge.event("tool/result");
    let handle = at(&result, &["data", "details", "handle"])
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{result}"));
    let part = format!("{{:handle {handle:?} :offset 0 :limit 20}}");
    ended(&mut bridge);
    let part = bridge.ask("o", "read_output", &part).to_string();
    assert!(part.contains("line 0"), "{part}");
    assert!(!history(&mut bridge).contains("line 10000\\n"), "the model's and the journal's part is short");
}

#[test]
fn compaction_of_the_agent_is_told() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "compaction; say well");
    for expected in ["It summarises its conversation.", "Its conversation is summarised."] {
        let notice = bridge.event("ui/notification");
        assert!(data(&notice, "message").contains(expected), "{notice}");
    }
    assert_eq!(text(&ended(&mut bridge)), "well");
}
