//! Turns over the real wire: stages, tool calls, steering, queueing, ending, retries, compaction.

use crate::support;

use std::path::Path;

use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, code, data, end_of_turn, is_answer, is_event, kind, text};

/// A call of `bash` that waits until the file `go` is there, or its folder is gone: it outlives a bridge that is
/// killed.
const WAITING: &str = r#"{:tool-call {:id "w" :name "bash" :arguments {:command "echo begun; while [ ! -e go ] && [ -d $PWD ]; do sleep 0.02; done; echo done"}}}"#;
const ECHO: &str = "{:steps [{:echo :last-user}]}";

fn yolo(script: &str) -> Setup {
    Setup::new().script(script).arg("--yolo")
}

fn prompt(bridge: &mut Bridge, message: &str) -> Owned {
    bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"))
}

/// Role and text of every message of the session.
fn messages(bridge: &mut Bridge) -> Vec<(String, String)> {
    let answer = bridge.ask("messages", "get_messages", "{}");
    let messages = at(&answer, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
    messages
        .iter()
        .map(|message| {
            let blocks = message.get("content").and_then(|content| content.as_slice()).unwrap();
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            (text(message, "role").to_owned(), texts.collect::<String>())
        })
        .collect()
}

fn idle(bridge: &mut Bridge) {
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
}

/// Whether a process runs. One that ended and that nobody has asked about yet does not.
fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_turn_passes_its_stages_in_order() {
    let setup = yolo(
        r#"{:turns [{:steps [{:delta "I look."} {:tool-call {:id "c1" :name "bash" :arguments {:command "echo hi"}}}]}
                    {:steps [{:delta "Done."}]}]}"#,
    );
    let mut bridge = setup.ready();
    prompt(&mut bridge, "look");
    let mut seen = Vec::new();
    loop {
        let frame = bridge.frame();
        let topic = text(&frame, "event").to_owned();
        match topic.as_str() {
            "turn/stage" => seen.push(format!("{} {}", data(&frame, "stage"), data(&frame, "point"))),
            "assistant/message" => seen.push(format!("message {}", data(&frame, "stop-reason"))),
            "tool/start" | "tool/delta" | "tool/executing" | "tool/result" => {
                // What it will do is said once that is known.
                let known = topic != "tool/start" && topic != "tool/delta";
                let summary = if known { "$ echo hi" } else { "bash" };
                assert!(topic == "tool/delta" || data(&frame, "call-summary") == summary, "{frame}");
                let shown = at(&frame, &["data", "parsed-args"]).is_some();
                assert_eq!(shown, topic == "tool/executing", "{frame}");
                seen.push(topic);
            }
            _ => {}
        }
        if seen.last().is_some_and(|last| last == "render post") {
            break;
        }
    }
    assert_eq!(
        seen,
        [
            "receive-input pre",
            "receive-input post",
            "compose-request pre",
            "compose-request post",
            "send-request pre",
            "send-request post",
            "stream-response pre",
            "tool/start",
            "tool/delta",
            "message tool-use",
            "stream-response post",
            "tool-call pre",
            "tool/executing",
            "tool/result",
            "tool-call post",
            "compose-request pre",
            "compose-request post",
            "send-request pre",
            "send-request post",
            "stream-response pre",
            "stream-response post",
            "render pre",
            "message end-turn",
            "render post",
        ]
    );
    let told = messages(&mut bridge);
    let expected = [("user", "look"), ("assistant", "I look."), ("tool", "hi\n"), ("assistant", "Done.")];
    assert_eq!(told, expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
}

#[test]
fn calls_of_one_answer_run_in_parallel_and_keep_order() {
    // The first waits for what the second makes: one after the other, they would never end.
    let setup = yolo(
        r#"{:turns [{:steps [
             {:tool-call {:id "a" :name "bash" :arguments {:command "while [ ! -e made ]; do sleep 0.02; done; echo first"}}}
             {:tool-call {:id "b" :name "bash" :arguments {:command "touch made; echo second"}}}]}
             {:steps [{:delta "ok"}]}]}"#,
    );
    let mut bridge = setup.ready();
    prompt(&mut bridge, "go");
    let first = bridge.event("tool/result");
    let second = bridge.event("tool/result");
    assert_eq!((data(&first, "tool-id"), data(&second, "tool-id")), ("a", "b"));
    assert!(!data(&first, "entry-id").is_empty());
    end_of_turn(&mut bridge);
}

#[test]
fn no_more_than_four_calls_run_at_the_same_time() {
    let call = |n: u32| {
        format!(
            "{{:tool-call {{:id \"c{n}\" :name \"bash\" :arguments {{:command \"mkdir run.{n}; ls -d run.* 2>/dev/null | wc -l; sleep 0.1; rmdir run.{n}\"}}}}}}"
        )
    };
    let calls: String = (0..10).map(call).collect();
    let setup = yolo(&format!("{{:turns [{{:steps [{calls}]}} {{:steps [{{:delta \"ok\"}}]}}]}}"));
    let mut bridge = setup.ready();
    prompt(&mut bridge, "go");
    let mut most = 0;
    for _ in 0..10 {
        let result = bridge.event("tool/result");
        let running: u32 = data(&result, "result-text").trim().parse().unwrap();
        assert!(running <= 4, "{running} at the same time\n{}", bridge.told());
        most = most.max(running);
    }
    assert!(most > 1, "they ran one after the other");
}

#[test]
fn steering_arrives_between_running_call_and_next_model_call() {
    let setup = yolo(&format!("{{:turns [{{:steps [{WAITING}]}} {ECHO}]}}"));
    let mut bridge = setup.ready();
    let turn = prompt(&mut bridge, "work");
    bridge.event("tool/executing");
    for _ in 0..2 {
        // The same key twice is one message.
        let steered = bridge.ask("s", "steer", "{:message \"rather this\" :idempotency-key \"k\"}");
        assert_eq!(data(&steered, "turn-id"), data(&turn, "turn-id"));
    }
    bridge.ask("s2", "prompt_while_streaming", "{:message \"and that\"}");
    std::fs::write(setup.project().join("go"), "").unwrap();
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "and that");
    let told = messages(&mut bridge);
    let roles: Vec<&str> = told.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "user", "assistant"]);
    assert_eq!(told[3].1, "rather this");
    let state = bridge.ask("state", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "pending-message-count"]).unwrap().as_i64(), Some(0));
}

#[test]
fn steering_during_the_last_answer_goes_on_with_the_turn() {
    let setup = yolo(&format!(
        "{{:turns [{{:steps [{{:delta \"a\"}} {{:sleep-ms 5000}} {{:delta \"b\"}}]}} {ECHO}]}}"
    ));
    let mut bridge = setup.ready();
    let turn = prompt(&mut bridge, "work");
    bridge.event("assistant/delta");
    bridge.ask("s", "steer", "{:message \"more\"}");
    let first = bridge.event("assistant/message");
    assert_eq!((data(&first, "text"), data(&first, "stop-reason")), ("ab", "end-turn"));
    let second = bridge.event("assistant/message");
    assert_eq!((data(&second, "text"), data(&second, "turn-id")), ("more", data(&turn, "turn-id")));
}

#[test]
fn a_follow_up_has_a_turn_of_its_own_after_the_running_one() {
    let setup =
        yolo(&format!("{{:turns [{{:steps [{WAITING}]}} {{:steps [{{:delta \"first\"}}]}} {ECHO}]}}"));
    let mut bridge = setup.ready();
    prompt(&mut bridge, "work");
    bridge.event("tool/executing");
    let refused = bridge.ask("p2", "prompt", "{:message \"x\"}");
    assert_eq!(code(&refused), "request/session-not-idle");
    assert_eq!(refused.get("retryable").and_then(|r| r.as_bool()), Some(true));
    let queued = bridge.ask("f", "follow_up", "{:message \"next\"}");
    bridge.ask("f2", "prompt_while_streaming", "{:message \"last\" :behavior \"queue\"}");
    let state = bridge.ask("state", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "pending-message-count"]).unwrap().as_i64(), Some(2));
    std::fs::write(setup.project().join("go"), "").unwrap();
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "first");
    let second = end_of_turn(&mut bridge);
    assert_eq!((data(&second, "text"), data(&second, "turn-id")), ("next", data(&queued, "turn-id")));
    assert_eq!(text(&second, "id"), "f");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "last");
    idle(&mut bridge);
}

#[test]
fn what_waits_survives_a_restart() {
    let setup = yolo(&format!("{{:turns [{{:steps [{WAITING}]}} {ECHO}]}}"));
    let mut bridge = setup.ready();
    prompt(&mut bridge, "work");
    bridge.event("tool/executing");
    bridge.ask("f", "follow_up", "{:message \"later\"}");
    bridge.ask("s", "steer", "{:message \"sooner\"}");
    bridge.kill();
    std::fs::write(setup.project().join("go"), "").unwrap();
    let file =
        support::files(&setup.state().join("sessions")).into_iter().find(|f| f.extension().unwrap() == "edn");
    let echo = Setup { dir: setup.dir, ..yolo(&format!("{{:turns [{ECHO}]}}")) };
    let mut bridge = echo.ready();
    let path = file.unwrap();
    bridge.ask("switch", "switch_session", &format!("{{:session-path {:?}}}", path.to_str().unwrap()));
    let state = bridge.ask("state", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "pending-message-count"]).unwrap().as_i64(), Some(2));
    prompt(&mut bridge, "now");
    // What was meant to be said first is said with the next model call; the rest follows.
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "sooner");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "later");
    idle(&mut bridge);
}

#[test]
fn an_abort_ends_a_running_tool_and_all_that_it_started() {
    let setup = yolo(
        r#"{:turns [{:steps [{:delta "x"} {:tool-call {:id "c" :name "bash"
             :arguments {:command "sleep 1000 & echo $! > pid; echo $$ >> pid; sync; echo ready; wait"}}}]}]}"#,
    );
    let mut bridge = setup.ready();
    let turn = prompt(&mut bridge, "go");
    bridge.event("tool/update");
    for id in ["a1", "a2"] {
        assert_eq!(kind(&bridge.ask(id, "abort", "{}")), "response");
    }
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("ready"));
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "stop-reason"), data(&last, "turn-id")), ("aborted", data(&turn, "turn-id")));
    for pid in std::fs::read_to_string(setup.project().join("pid")).unwrap().lines() {
        assert!(!alive(pid), "{pid} is left running");
    }
    let end = bridge.event("turn/ended");
    assert_eq!((data(&end, "outcome"), data(&end, "turn-id")), ("aborted", data(&turn, "turn-id")));
    bridge.request("ping", "ping", "{}");
    bridge.until(|frame| {
        assert_eq!(data(frame, "turn-id"), "", "an event after the end: {frame}");
        is_answer(frame, "ping")
    });
}

#[test]
fn an_abort_right_behind_its_prompt_finds_the_turn() {
    let setup = yolo("{:turns [{:steps [{:sleep-ms 3600000}]}]}");
    let mut bridge = setup.ready();
    bridge.write(
        b"{:id \"p\" :kind :request :op \"prompt\" :params {:message \"x\"}}\n{:id \"a\" :kind :request :op \"abort\"}\n",
    );
    assert_eq!(data(&end_of_turn(&mut bridge), "stop-reason"), "aborted");
}

/// A bridge that has said a part of its first answer and would take an hour for the rest. Later turns repeat the prompt.
fn in_half_an_answer() -> (Setup, Bridge) {
    let setup = yolo(&format!("{{:turns [{{:steps [{{:delta \"part\"}} {{:sleep-ms 3600000}}]}} {ECHO}]}}"));
    let mut bridge = setup.ready();
    prompt(&mut bridge, "one");
    bridge.event("assistant/delta");
    (setup, bridge)
}

#[test]
fn abort_keeps_partial_answer_and_next_turn_works() {
    let (_setup, mut bridge) = in_half_an_answer();
    bridge.ask("f", "follow_up", "{:message \"waits\"}");
    bridge.ask("a", "abort", "{}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("part", "aborted"));
    idle(&mut bridge);
    // What was to come after the turn is held until the next message.
    prompt(&mut bridge, "two");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "two");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "waits");
}

#[test]
fn what_was_said_for_a_turn_that_is_ended_begins_none() {
    let (_setup, mut bridge) = in_half_an_answer();
    bridge.ask("s", "steer", "{:message \"rather this\"}");
    bridge.ask("a", "abort", "{}");
    assert_eq!(data(&end_of_turn(&mut bridge), "stop-reason"), "aborted");
    idle(&mut bridge);
    // It is kept, and said before the next model call, whoever asks for that.
    let state = bridge.ask("state", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "pending-message-count"]).unwrap().as_i64(), Some(1));
    prompt(&mut bridge, "two");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "rather this");
    let told: Vec<_> = messages(&mut bridge).into_iter().map(|(_, text)| text).collect();
    assert_eq!(told, ["one", "part", "two", "rather this", "rather this"]);
}

#[test]
fn interrupt_finishes_running_call_and_returns_steering() {
    let setup = yolo(&format!("{{:turns [{{:steps [{WAITING}]}} {{:steps [{{:delta \"never\"}}]}}]}}"));
    let mut bridge = setup.ready();
    prompt(&mut bridge, "go");
    bridge.event("tool/executing");
    bridge.ask("s", "steer", "{:message \"one\"}");
    bridge.ask("s", "steer", "{:message \"two\"}");
    let answer = bridge.ask("i", "interrupt", "{}");
    assert_eq!(at(&answer, &["data", "pending"]).unwrap().as_bool(), Some(true));
    assert_eq!(at(&answer, &["data", "waits-for"]).unwrap().as_slice().unwrap().len(), 1);
    assert_eq!(data(&answer, "dropped-steering-text"), "one\ntwo");
    let state = bridge.ask("state", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "interrupt-pending"]).unwrap().as_bool(), Some(true));
    std::fs::write(setup.project().join("go"), "").unwrap();
    let result = bridge.event("tool/result");
    assert_eq!(at(&result, &["data", "is-error"]).unwrap().as_bool(), Some(false));
    assert_eq!(data(&end_of_turn(&mut bridge), "stop-reason"), "interrupted");
    idle(&mut bridge);
}

#[test]
fn an_interrupt_without_a_running_call_ends_the_turn_at_once() {
    let setup = yolo("{:turns [{:steps [{:delta \"part\"} {:sleep-ms 3600000}]}]}");
    let mut bridge = setup.ready();
    let answer = bridge.ask("i", "interrupt", "{}");
    assert_eq!(at(&answer, &["data", "pending"]).unwrap().as_bool(), Some(false), "nothing runs");
    prompt(&mut bridge, "go");
    bridge.event("assistant/delta");
    let answer = bridge.ask("i", "interrupt", "{}");
    assert_eq!(at(&answer, &["data", "pending"]).unwrap().as_bool(), Some(false));
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("part", "interrupted"));
}

const LIMITED: &str = "{:steps [{:error {:kind :rate-limited :message \"slow down\" :retry-after-ms 30}}]}";
const BUSY: &str = "{:steps [{:error {:kind :rate-limited :message \"busy\" :retry-after-ms 100000}}]}";

#[test]
fn a_passing_failure_is_tried_again_after_a_visible_pause() {
    let setup = yolo(&format!("{{:turns [{LIMITED} {LIMITED} {{:steps [{{:delta \"ok\"}}]}}]}}"));
    let mut bridge = setup.ready();
    prompt(&mut bridge, "go");
    for attempt in 1..=2 {
        let retry = bridge.event("turn/retry");
        assert_eq!((data(&retry, "kind"), data(&retry, "error-message")), ("rate-limited", "slow down"));
        let figures = ["attempt", "pause-ms"].map(|key| at(&retry, &["data", key]).and_then(|n| n.as_i64()));
        assert_eq!(figures, [Some(attempt), Some(30)]);
        let state =
            bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "retrying");
        assert_eq!(at(&state, &["data", "retry-attempt"]).unwrap().as_i64(), Some(attempt));
        assert!(at(&state, &["data", "retry", "deadline-ms"]).unwrap().as_i64().is_some());
    }
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "ok");
}

#[test]
fn waiting_for_a_retry_can_be_given_up_or_aborted() {
    for (op, reason) in [("abort_retry", "error"), ("abort", "aborted"), ("interrupt", "interrupted")] {
        let setup = yolo(&format!("{{:turns [{BUSY}]}}"));
        let mut bridge = setup.ready();
        prompt(&mut bridge, "go");
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "retrying");
        bridge.ask("stop", op, "{}");
        let last = end_of_turn(&mut bridge);
        assert_eq!(data(&last, "stop-reason"), reason, "{op}");
        assert_eq!(data(&last, "error-message").contains("busy"), op == "abort_retry", "{op}");
        idle(&mut bridge);
    }
}

#[test]
fn what_is_not_passing_or_not_wanted_is_not_tried_again() {
    let fatal = "{:steps [{:error {:kind :fatal :message \"no\"}}]}";
    let broken = "{:steps [{:delta \"half\"} {:error {:kind :dropped :message \"gone\"}}]}";
    for (script, auto, text) in [(fatal, true, ""), (broken, false, "half"), (LIMITED, false, "")] {
        let setup = yolo(&format!("{{:turns [{script} {{:steps [{{:delta \"again\"}}]}}]}}"));
        let mut bridge = setup.ready();
        bridge.ask("r", "set_auto_retry", &format!("{{:enabled {auto}}}"));
        prompt(&mut bridge, "go");
        let last = end_of_turn(&mut bridge);
        assert_eq!((data(&last, "stop-reason"), data(&last, "text")), ("error", text), "{script}");
        assert!(!data(&last, "error-message").is_empty());
    }
}

#[test]
fn requested_compaction_keeps_journal() {
    let setup = yolo(
        "{:turns [{:steps [{:delta \"a\"}]} {:steps [{:delta \"b\"}]} {:steps [{:delta \"short\"}]} {:steps [{:delta \"c\"}]}]}",
    );
    let mut bridge = setup.ready();
    let nothing = bridge.ask("c0", "compact", "{}");
    assert_eq!(at(&nothing, &["data", "compacted"]).and_then(|done| done.as_bool()), Some(false));
    for _ in 0..2 {
        prompt(&mut bridge, &"long ".repeat(20_000));
        end_of_turn(&mut bridge);
        idle(&mut bridge);
    }
    bridge.request("c", "compact", "{:custom-instructions \"briefly\"}");
    assert_eq!(data(&bridge.event("compaction/started"), "reason"), "requested");
    bridge.until(|frame| {
        is_event(frame, "session/updated")
            && at(frame, &["data", "is-compacting"]).and_then(|c| c.as_bool()) == Some(true)
    });
    let done = bridge.answer("c");
    assert_eq!(data(&done, "summary"), "short", "{done}");
    let number = |frame: &Owned, key: &str| at(frame, &["data", key]).and_then(|n| n.as_i64()).unwrap();
    let ended = bridge.event("compaction/ended");
    assert_eq!(data(&ended, "outcome"), "completed");
    assert!(number(&ended, "tokens") > 0, "{ended}");
    let state = bridge.ask("g", "get_state", "{}");
    let figure = |key: &str| at(&state, &["data", "state", key]).and_then(|n| n.as_i64());
    assert_eq!(figure("context-tokens"), Some(number(&ended, "tokens")));
    assert!(figure("context-window") > figure("context-tokens"), "{state}");
    // Who has the answer finds the session idle.
    assert_eq!(messages(&mut bridge).len(), 4);
    prompt(&mut bridge, "go on");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "c");
}

#[test]
fn overflow_is_compacted_until_it_fits_or_is_an_error() {
    let overflow = "{:steps [{:error {:kind :context-overflow :message \"too long\"}}]}";
    let summary = "{:steps [{:delta \"summary\"}]}";
    let fill = "{:steps [{:delta \"a\"}]} {:steps [{:delta \"b\"}]}";
    for (rest, reason, text) in [
        ("{:steps [{:delta \"summary\"}]} {:steps [{:delta \"fits\"}]}".to_owned(), "end-turn", "fits"),
        (format!("{summary} {overflow} {summary} {{:steps [{{:delta \"fits\"}}]}}"), "end-turn", "fits"),
        (format!("{summary} {overflow} {summary} {overflow}"), "error", ""),
    ] {
        let setup = yolo(&format!("{{:turns [{fill} {overflow} {rest}]}}"));
        let mut bridge = setup.ready();
        for _ in 0..2 {
            prompt(&mut bridge, &"long ".repeat(20_000));
            end_of_turn(&mut bridge);
            idle(&mut bridge);
        }
        prompt(&mut bridge, "more");
        let last = end_of_turn(&mut bridge);
        assert_eq!((data(&last, "stop-reason"), data(&last, "text")), (reason, text), "{}", last);
    }
}

#[test]
fn a_nearly_full_window_is_compacted_before_the_next_call() {
    let setup = yolo(
        "{:turns [{:steps [{:delta \"a\"}] :usage {:input 1000 :output 10}} {:steps [{:delta \"b\"}] :usage {:input 190000 :output 10}}
                  {:steps [{:delta \"the story so far\"}]} {:steps [{:delta \"c\"}]}]}",
    );
    let mut bridge = setup.ready();
    for _ in 0..2 {
        prompt(&mut bridge, &"long ".repeat(20_000));
        end_of_turn(&mut bridge);
        idle(&mut bridge);
    }
    prompt(&mut bridge, "more");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "compacting");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "c");
}

#[test]
fn unknown_model_suggests_similar_ones_and_models_cycle() {
    let setup = yolo(&format!("{{:turns [{ECHO}]}}")).env("ANTHROPIC_API_KEY", "of nobody");
    let mut bridge = setup.ready();
    let refused = bridge.ask("m", "set_model", "{:provider \"scripted\" :model-id \"claude-sonet-4-5\"}");
    assert_eq!(code(&refused), "request/unknown-model");
    let nearest = at(&refused, &["data", "nearest"]).unwrap().as_slice().unwrap();
    assert_eq!(text(&nearest[0], "id"), "claude-sonnet-4-5");
    let models = bridge.ask("models", "get_available_models", "{}");
    let models = at(&models, &["data", "models"]).unwrap().as_slice().unwrap().to_vec();
    let usable: Vec<_> = models.iter().filter(|m| m.get("usable").unwrap().as_bool() == Some(true)).collect();
    assert!(usable.iter().any(|model| text(model, "provider") == "scripted"));
    let first = bridge.ask("c", "cycle_model", "{}");
    let other = at(&first, &["data", "model", "provider"]).unwrap().as_str().unwrap().to_owned();
    assert_ne!(other, "scripted");
    let back = bridge.ask("c", "cycle_model", "{:direction \"prev\"}");
    assert_eq!(at(&back, &["data", "model", "provider"]).unwrap().as_str(), Some("scripted"));
}

#[test]
fn a_short_conversation_is_compacted_when_the_user_asks_for_it() {
    let setup =
        yolo("{:turns [{:steps [{:delta \"a\"}]} {:steps [{:delta \"b\"}]} {:steps [{:delta \"short\"}]}]}");
    let mut bridge = setup.ready();
    prompt(&mut bridge, "one");
    end_of_turn(&mut bridge);
    idle(&mut bridge);
    let nothing = bridge.ask("c", "compact", "{}");
    assert_eq!(
        at(&nothing, &["data", "compacted"]).and_then(|done| done.as_bool()),
        Some(false),
        "one exchange"
    );
    prompt(&mut bridge, "two");
    end_of_turn(&mut bridge);
    idle(&mut bridge);
    let done = bridge.ask("c", "compact", "{}");
    assert_eq!(data(&done, "summary"), "short", "{done}");
    assert_eq!(messages(&mut bridge).len(), 4);
}

#[test]
fn a_command_with_a_key_runs_once() {
    let mut bridge = yolo("{:turns [{:steps []}]}").ready();
    let name = |name: &str| format!("{{:message \"/name {name}\" :idempotency-key \"k\"}}");
    assert_eq!(kind(&bridge.ask("c", "prompt", &name("first"))), "response");
    // The answer comes before the command runs.
    bridge.event("command-result");
    bridge.ask("n", "set_session_name", "{:name \"between\"}");
    assert_eq!(data(&bridge.ask("c", "prompt", &name("first")), "turn-state"), "done");
    let other = bridge.ask("c", "prompt", &name("second"));
    assert!(other.to_string().contains("request/idempotency-conflict"), "{other}");
    // Served after both, in order of arrival.
    let other = bridge.ask("o", "prompt", "{:message \"/abort\" :idempotency-key \"other\"}");
    assert_eq!(kind(&other), "response");
    let state = bridge.ask("s", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "session-name"]).unwrap().as_str(), Some("between"));
}

#[test]
fn every_op_that_names_a_session_refuses_one_that_is_not_there() {
    let mut bridge = yolo("{:turns [{:steps []}]}").ready();
    for (op, params) in [
        ("get_commands", ""),
        ("get_available_models", ""),
        ("list_background_jobs", ""),
        ("logout", ":provider \"p\""),
        ("login_begin", ""),
        ("interaction_respond", ":interaction-id \"i\" :status \"cancelled\""),
        ("context_update", ""),
        ("get_state", ""),
        ("abort", ""),
    ] {
        let refused = bridge.ask("x", op, &format!("{{:session-id \"s-none\" {params}}}"));
        assert_eq!(code(&refused), "request/not-found", "{op}: {refused}");
    }
}

/// A bridge that answers questions, whose model asks to run a command.
fn asked() -> (Setup, Bridge) {
    let call = "{:steps [{:tool-call {:id \"c\" :name \"bash\" :arguments {:command \"echo ran\"}}}]}";
    let setup = Setup::new().script(&format!("{{:turns [{call} {ECHO}]}}"));
    let mut bridge = setup.serve();
    let info = "{:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}";
    bridge.ask("h", "handshake", &format!("{{:client-info {info}}}"));
    bridge.ask("s", "subscribe", "{}");
    prompt(&mut bridge, "work");
    (setup, bridge)
}

fn phase(bridge: &mut Bridge, name: &str) {
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == name);
}

#[test]
fn an_abort_given_twice_ends_the_turn_once_whatever_it_does() {
    let steps = |steps: &str| yolo(&format!("{{:turns [{{:steps [{steps}]}}]}}"));
    let streaming = steps("{:delta \"part\"} {:sleep-ms 3600000}");
    let silent = steps("{:sleep-ms 3600000}");
    let tool = steps(WAITING);
    let retrying = yolo(&format!("{{:turns [{BUSY}]}}"));
    for (stage, setup) in
        [("streaming", streaming), ("silent", silent), ("tool", tool), ("retrying", retrying)]
    {
        let mut bridge = setup.ready();
        prompt(&mut bridge, "go");
        match stage {
            "streaming" => drop(bridge.event("assistant/delta")),
            "tool" => drop(bridge.event("tool/executing")),
            "retrying" => phase(&mut bridge, "retrying"),
            _ => {}
        }
        once_aborted(&mut bridge, stage);
    }
    let (_setup, mut bridge) = asked();
    bridge.event("interaction/requested");
    once_aborted(&mut bridge, "approval");
}

/// Aborts twice, and sees one end.
fn once_aborted(bridge: &mut Bridge, stage: &str) {
    bridge.write(b"{:id \"a1\" :kind :request :op \"abort\"}\n{:id \"a2\" :kind :request :op \"abort\"}\n");
    for id in ["a1", "a2"] {
        assert_eq!(kind(&bridge.answer(id)), "response", "{stage}");
    }
    assert_eq!(data(&end_of_turn(bridge), "stop-reason"), "aborted", "{stage}");
    assert_eq!(data(&bridge.event("turn/ended"), "outcome"), "aborted", "{stage}");
    // One more, with nothing left to end.
    assert_eq!(kind(&bridge.ask("a3", "abort", "{}")), "response", "{stage}");
    let told = bridge.told();
    for end in [":event \"assistant/message\"", ":event \"turn/ended\""] {
        let ends = told.lines().filter(|line| line.contains(end) && !line.contains("\"tool-use\""));
        assert_eq!(ends.count(), 1, "{stage}: {end}\n{told}");
    }
}

#[test]
fn steering_right_behind_its_prompt_is_part_of_the_turn() {
    let setup = yolo(&format!("{{:turns [{ECHO} {ECHO}]}}"));
    let mut bridge = setup.ready();
    bridge.write(
        b"{:id \"p\" :kind :request :op \"prompt\" :params {:message \"one\"}}\n{:id \"s\" :kind :request :op \"steer\" :params {:message \"two\"}}\n",
    );
    let turn = bridge.answer("p");
    let steered = bridge.answer("s");
    assert_eq!(data(&steered, "turn-id"), data(&turn, "turn-id"));
    let last = bridge.until(|frame| is_event(frame, "assistant/message") && data(frame, "text") == "two");
    assert_eq!(data(&last, "turn-id"), data(&turn, "turn-id"));
}

#[test]
fn steering_while_an_approval_is_pending_waits_for_the_call() {
    let (_setup, mut bridge) = asked();
    let question = bridge.event("interaction/requested");
    bridge.ask("s", "steer", "{:message \"rather this\"}");
    let id = data(&question, "interaction-id");
    let value = "{:outcome \"approve\" :scope \"once\"}";
    let params = format!("{{:interaction-id {id:?} :status \"accepted\" :value {value}}}");
    bridge.request("r", "interaction_respond", &params);
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "ran\n");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "rather this");
    let roles: Vec<String> = messages(&mut bridge).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
}

#[test]
fn steering_while_a_failed_call_waits_goes_with_the_next_try() {
    let limited = "{:steps [{:error {:kind :rate-limited :message \"slow down\" :retry-after-ms 2000}}]}";
    let setup = yolo(&format!("{{:turns [{limited} {ECHO}]}}"));
    let mut bridge = setup.ready();
    let turn = prompt(&mut bridge, "one");
    phase(&mut bridge, "retrying");
    bridge.ask("s", "steer", "{:message \"two\"}");
    let last = bridge.until(|frame| is_event(frame, "assistant/message") && data(frame, "text") == "two");
    assert_eq!(data(&last, "turn-id"), data(&turn, "turn-id"));
}

#[test]
fn message_during_compaction_becomes_next_turn() {
    let summary = "{:steps [{:sleep-ms 300} {:delta \"short\"}]}";
    let setup = yolo(&format!("{{:turns [{ECHO} {ECHO} {summary} {ECHO} {ECHO}]}}"));
    for (op, text) in [("steer", "sooner"), ("follow_up", "later")] {
        let mut bridge = setup.ready();
        for message in ["one", "two"] {
            prompt(&mut bridge, message);
            end_of_turn(&mut bridge);
            idle(&mut bridge);
        }
        bridge.request("c", "compact", "{}");
        phase(&mut bridge, "compacting");
        bridge.ask("s", op, &format!("{{:message {text:?}}}"));
        assert_eq!(data(&end_of_turn(&mut bridge), "text"), text, "{op}");
        idle(&mut bridge);
    }
}

#[test]
fn overflow_after_tool_call_compacts_and_turn_continues() {
    let overflow = "{:steps [{:error {:kind :context-overflow :message \"too long\"}}]}";
    let call =
        "{:steps [{:tool-call {:id \"c\" :name \"bash\" :arguments {:command \"echo once >> runs\"}}}]}";
    let setup = yolo(&format!(
        "{{:turns [{{:steps [{{:delta \"a\"}}]}} {call} {overflow} {{:steps [{{:delta \"summary\"}}]}} {{:steps [{{:delta \"fits\"}}]}}]}}"
    ));
    let mut bridge = setup.ready();
    prompt(&mut bridge, &"long ".repeat(40_000));
    end_of_turn(&mut bridge);
    idle(&mut bridge);
    let turn = prompt(&mut bridge, "more");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "turn-id")), ("fits", data(&turn, "turn-id")), "{last}");
    // The call that ran before is not run again.
    assert_eq!(std::fs::read_to_string(setup.project().join("runs")).unwrap(), "once\n");
}
