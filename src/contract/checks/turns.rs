//! Checks of turns: from a prompt to the end of the answer, and the ways to end it early.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Peer, payload, topic};
use super::sessions::{idle, messages, state, talk, words};
use crate::value::Value;

/// An answer in three pieces.
const PIECES: &str = "{:turns [{:steps [{:delta \"one \"} {:delta \"two \"} {:delta \"three\"}]}]}";
/// An answer that never ends.
const ENDLESS: &str = "{:turns [{:steps [{:delta \"part\"} {:sleep-ms 60000} {:delta \"never\"}]} \
                       {:steps [{:delta \"next\"}]}] :then :repeat-last}";

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "prompt.lifecycle",
        about: "A prompt is accepted, the session reports streaming, the answer is one assistant/message, and the session is idle again.",
        needs: PROMPT,
        run: lifecycle,
    },
    Check {
        name: "prompt.deltas",
        about: "Deltas carry only new text: joined they equal the text of the following message.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(PIECES))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let (deltas, message) = answer(&mut peer, "assistant/delta")?;
            let told = text(payload(&message), "text").to_owned();
            let content = words(payload(&message));
            ensure(deltas == "one two three", || format!("the deltas say {deltas:?}"))?;
            ensure(content == deltas && (told.is_empty() || told == deltas), || {
                format!("the message says {content:?}")
            })?;
            peer.barrier()?;
            let late = peer.take_events().iter().any(|event| topic(event) == "assistant/delta");
            ensure(!late, || "a delta came after its message".to_owned())
        },
    },
    Check {
        name: "prompt.thinking",
        about: "Thinking has its own topic and is not part of the text.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: |probe| {
            let script = "{:turns [{:steps [{:thinking \"hm \"} {:thinking \"yes\"} {:delta \"done\"}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let (thinking, message) = answer(&mut peer, "assistant/thinking-delta")?;
            ensure(thinking == "hm yes", || format!("the thinking says {thinking:?}"))?;
            ensure(text(payload(&message), "text") == "done", || "the thinking stands in the text".to_owned())
        },
    },
    Check {
        name: "prompt.turn-id",
        about: "Every event of a turn carries the :turn-id of the prompt's response.",
        needs: PROMPT,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let data = peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let turn = text(&data, "turn-id").to_owned();
            let message = peer.event("assistant/message", |topic, payload| {
                topic == "assistant/message" && text(payload, "role") == "assistant"
            })?;
            if turn.is_empty() {
                probe.note("`prompt` does not answer with :turn-id.");
                return Ok(());
            }
            let of_turn = ["assistant/delta", "assistant/message", "assistant/thinking-delta", "turn/stage"];
            for event in
                peer.take_events().iter().chain([&message]).filter(|event| of_turn.contains(&topic(event)))
            {
                ensure(text(payload(event), "turn-id") == turn, || {
                    format!("{} has another :turn-id", topic(event))
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "prompt.not-idle",
        about: "A prompt during a running turn is request/session-not-idle and retryable, and the turn continues.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("abort")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(ENDLESS))?;
            peer.ask_ok("prompt", "{:message \"first\"}")?;
            peer.topic("assistant/delta")?;
            let error = peer.ask_error("prompt", "{:message \"second\"}", "request/session-not-idle")?;
            ensure(error.frame.get("retryable") == Some(&Value::Bool(true)), || {
                ":retryable is not true".to_owned()
            })?;
            let state = state(&mut peer)?;
            ensure(state.get("is-streaming") == Some(&Value::Bool(true)), || "the turn is over".to_owned())?;
            peer.ask_ok("abort", "{}")?;
            idle(&mut peer)?;
            talk(&mut peer, "second").map(|_| ())
        },
    },
    Check {
        name: "prompt.idempotency",
        about: "A repeated :idempotency-key gets the first answer again and starts nothing.",
        needs: &[Need::Op("prompt"), Need::Op("get_messages")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let params = "{:message \"once\" :idempotency-key \"key 1\"}";
            let first = peer.ask_ok("prompt", params)?;
            peer.topic("assistant/message")?;
            idle(&mut peer)?;
            let again = peer.ask_ok("prompt", params)?;
            ensure(first == again, || "it is answered in another way".to_owned())?;
            let other = peer.ask_ok("prompt", "{:message \"twice\" :idempotency-key \"key 2\"}")?;
            ensure(first.get("turn-id").is_none() || first != other, || {
                "another key is taken for the same".to_owned()
            })?;
            peer.topic("assistant/message")?;
            idle(&mut peer)?;
            let said: Vec<String> = messages(&mut peer, "{}")?
                .iter()
                .filter(|message| text(message, "role") == "user")
                .map(words)
                .collect();
            ensure(said == ["once", "twice"], || format!("the conversation holds {said:?}"))
        },
    },
    Check {
        name: "prompt.failure",
        about: "A model's failure is an assistant/message with :error-message, and the session is idle again.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: |probe| {
            let script =
                "{:turns [{:steps [{:delta \"so far\"} {:error {:kind :fatal :message \"it broke\"}}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let message = peer.event("assistant/message with :error-message", |topic, payload| {
                topic == "assistant/message" && !text(payload, "error-message").is_empty()
            })?;
            ensure(text(payload(&message), "error-message").contains("it broke"), || {
                "the reason is lost".to_owned()
            })?;
            idle(&mut peer)
        },
    },
    Check {
        name: "prompt.one-at-a-time",
        about: "Turns of one session do not overlap: no event of a turn arrives between those of another.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("follow_up")],
        run: |probe| {
            let script =
                "{:turns [{:steps [{:delta \"a\"} {:sleep-ms 100} {:delta \"b\"}]}] :then :repeat-last}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("prompt", "{:message \"first\"}")?;
            for message in ["second", "third"] {
                peer.ask_ok("follow_up", &format!("{{:message {message:?}}}"))?;
            }
            let mut turns: Vec<String> = Vec::new();
            for _ in 0..3 {
                loop {
                    let event = peer.event("an event of a turn", |topic, _| {
                        topic == "assistant/delta" || topic == "assistant/message"
                    })?;
                    let turn = text(payload(&event), "turn-id").to_owned();
                    if turns.last() != Some(&turn) {
                        ensure(!turns.contains(&turn), || "a turn goes on after another began".to_owned())?;
                        turns.push(turn);
                    }
                    if topic(&event) == "assistant/message" && text(payload(&event), "role") == "assistant" {
                        break;
                    }
                }
            }
            ensure(turns.len() == 3, || format!("{} turns ran", turns.len()))
        },
    },
    Check {
        name: "prompt.stages",
        about: "turn/stage reports a turn's stages in order.",
        needs: &[Need::Op("prompt")],
        run: stages,
    },
    Check {
        name: "prompt.ended",
        about: "turn/ended follows every other event of its turn, says how the turn ended, and finds the session idle.",
        needs: &[Need::Op("prompt"), Need::Op("get_state")],
        run: ended,
    },
    Check {
        name: "prompt.user-message",
        about: "A message is told to everybody before the answer to it, with its text and its sender.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("follow_up")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(PIECES))?;
            let first = peer.ask_ok("prompt", "{:message \"first\"}")?;
            let second = peer.ask_ok("follow_up", "{:message \"second\"}")?;
            for (expected, answer) in [("first", first), ("second", second)] {
                let event = peer.event("user/message before the answer", |topic, payload| {
                    ["user/message", "assistant/delta"].contains(&topic)
                        && text(payload, "turn-id") == text(&answer, "turn-id")
                })?;
                let sender = payload(&event).get("from").map(|from| text(from, "kind").to_owned());
                ensure(topic(&event) == "user/message" && words(payload(&event)) == expected, || {
                    format!("{:?} came with {:?}", topic(&event), words(payload(&event)))
                })?;
                ensure(sender.as_deref() == Some("client"), || format!("its sender is {sender:?}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "sessions.side-by-side",
        about: "A turn of one session delays no turn of another.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("new_session"), Need::Op("abort")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(ENDLESS))?;
            peer.ask_ok("prompt", "{:message \"long\"}")?;
            peer.topic("assistant/delta")?;
            let first = super::events::session_of(&mut peer)?;
            peer.ask_ok("new_session", "{}")?;
            talk(&mut peer, "short")?;
            peer.ask_ok("abort", &format!("{{:session-id {first:?}}}")).map(|_| ())
        },
    },
    Check {
        name: "abort.running",
        about: "`abort` ends the turn: the partial text is kept with stop reason aborted, and no event of the turn follows.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("abort"), Need::Op("get_messages")],
        run: abort_running,
    },
    Check {
        name: "abort.idle",
        about: "`abort` of an idle session is not an error, once or twice, and leaves the session idle.",
        needs: &[Need::Op("abort"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for _ in 0..2 {
                let data = peer.ask_ok("abort", "{}")?;
                ensure(data.get("accepted").is_some(), || ":accepted is missing".to_owned())?;
            }
            let state = state(&mut peer)?;
            ensure(state.get("is-streaming") == Some(&Value::Bool(false)), || {
                "the session is not idle".to_owned()
            })
        },
    },
    Check {
        name: "abort.not-queued",
        about: "`abort` is served at once, before waiting requests.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("abort"), Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(ENDLESS))?;
            peer.ask_ok("prompt", "{:message \"long\"}")?;
            peer.topic("assistant/delta")?;
            let ids: Vec<String> =
                (0..100).map(|n| peer.send("set_session_name", &format!("{{:name \"n{n}\"}}"))).collect();
            peer.ask_ok("abort", "{}")?;
            ids.iter().try_for_each(|id| peer.answer_ok(id).map(|_| ()))?;
            idle(&mut peer)
        },
    },
    Check {
        name: "end.in-mid-turn",
        about: "At the end of input a running turn is aborted and kept, and the server ends with status 0.",
        needs: &[
            Need::Script,
            Need::State,
            Need::Op("prompt"),
            Need::Op("switch_session"),
            Need::Op("get_messages"),
        ],
        run: |probe| {
            let mut peer = probe.subscribed(Some(ENDLESS))?;
            let session = super::events::session_of(&mut peer)?;
            peer.ask_ok("prompt", "{:message \"cut short\"}")?;
            peer.topic("assistant/delta")?;
            peer.close_input();
            let status = peer.wait_exit()?;
            ensure(status == 0, || format!("the exit status is {status}"))?;
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("switch_session", &format!("{{:session-id {session:?}}}"))?;
            let kept = messages(&mut peer, "{}")?;
            let last = kept.last().ok_or_else(|| Stop::failed("nothing was kept"))?;
            ensure(text(last, "stop-reason") == "aborted", || {
                "the turn's end is not kept as aborted".to_owned()
            })?;
            ensure(words(last).contains("part"), || "the partial text is lost".to_owned())
        },
    },
    Check {
        name: "steer.running",
        about: "`steer` reaches the model before its next call within the turn.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("steer"),
            Need::Op("set_mode"),
            Need::Op("get_messages"),
        ],
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"sleep 1\"}}}]} \
                          {:steps [{:echo :last-user}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("tool/executing")?;
            peer.ask_ok("steer", "{:message \"turn left\"}")?;
            let said = super::sessions::last_answer(&mut peer)?;
            ensure(said.contains("turn left"), || format!("the model answered {said:?}"))
        },
    },
    Check {
        name: "steer.idle",
        about: "`steer` and `follow_up` start a turn if none runs.",
        needs: &[Need::Op("steer"), Need::Op("follow_up")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            for op in ["steer", "follow_up"] {
                let data = peer.ask_ok(op, "{:message \"hello\"}")?;
                ensure(data.get("accepted") == Some(&Value::Bool(true)), || {
                    ":accepted is not true".to_owned()
                })?;
                peer.event("assistant/message", |topic, payload| {
                    topic == "assistant/message" && text(payload, "role") == "assistant"
                })?;
                idle(&mut peer)?;
            }
            Ok(())
        },
    },
    Check {
        name: "follow-up.running",
        about: "`follow_up` is delivered after the running turn, as a separate turn.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("follow_up"), Need::Op("get_messages")],
        run: |probe| {
            let script =
                "{:turns [{:steps [{:delta \"first\"} {:sleep-ms 200}]} {:steps [{:echo :last-user}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("assistant/delta")?;
            peer.ask_ok("follow_up", "{:message \"and then\"}")?;
            let mut said = Vec::new();
            for _ in 0..2 {
                let event = peer.event("assistant/message", |topic, payload| {
                    topic == "assistant/message" && text(payload, "role") == "assistant"
                })?;
                said.push(text(payload(&event), "text").to_owned());
            }
            ensure(said == ["first", "and then"], || format!("the model answered {said:?}"))
        },
    },
    Check {
        name: "steer.turn-id",
        about: "`steer` returns the running turn's id, `follow_up` that of the later turn, whose events carry it.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("steer"), Need::Op("follow_up")],
        run: |probe| {
            let script =
                "{:turns [{:steps [{:delta \"a\"} {:sleep-ms 200} {:delta \"b\"}]}] :then :repeat-last}";
            let mut peer = probe.subscribed(Some(script))?;
            let turn = |data: Value<'static>| text(&data, "turn-id").to_owned();
            let first = turn(peer.ask_ok("prompt", "{:message \"go\"}")?);
            peer.topic("assistant/delta")?;
            let second = turn(peer.ask_ok("follow_up", "{:message \"and then\"}")?);
            let steered = turn(peer.ask_ok("steer", "{:message \"turn left\"}")?);
            if [&first, &second, &steered].iter().any(|turn| turn.is_empty()) {
                probe.note("`steer` or `follow_up` does not answer with :turn-id.");
                return Ok(());
            }
            ensure(steered == first, || format!("`steer` answers with {steered}, and {first} runs"))?;
            ensure(second != first, || "`follow_up` answers with the running turn".to_owned())?;
            peer.event("assistant/message of the turn to come", |topic, payload| {
                topic == "assistant/message"
                    && text(payload, "role") == "assistant"
                    && text(payload, "turn-id") == second
            })?;
            Ok(())
        },
    },
    Check {
        name: "prompt.while-streaming",
        about: "`prompt_while_streaming` reports whether the message was steered or queued.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("prompt_while_streaming"), Need::Op("abort")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(ENDLESS))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("assistant/delta")?;
            for behavior in ["steer", "queue"] {
                let params = format!("{{:message \"more\" :behavior {behavior:?}}}");
                let data = peer.ask_ok("prompt_while_streaming", &params)?;
                ensure(text(&data, "behavior") == behavior, || format!("{behavior} is taken as another"))?;
            }
            peer.ask_ok("abort", "{}").map(|_| ())
        },
    },
    Check {
        name: "interrupt.running",
        about: "`interrupt` lets the running tool call finish, ends the turn as interrupted, and returns undelivered steering text.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("interrupt"),
            Need::Op("steer"),
            Need::Op("set_mode"),
        ],
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"sleep 1; echo finished\"}}}]} \
                          {:steps [{:delta \"never\"}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("tool/executing")?;
            peer.ask_ok("steer", "{:message \"turn left\"}")?;
            let data = peer.ask_ok("interrupt", "{}")?;
            ensure(text(&data, "dropped-steering-text").contains("turn left"), || {
                "the steering text is lost".to_owned()
            })?;
            let result = peer.topic("tool/result")?;
            ensure(text(payload(&result), "result-text").contains("finished"), || {
                "the tool call was cut".to_owned()
            })?;
            peer.event("assistant/message that says interrupted", |topic, payload| {
                topic == "assistant/message" && text(payload, "stop-reason") == "interrupted"
            })?;
            idle(&mut peer)
        },
    },
    Check {
        name: "interrupt.idle",
        about: "`interrupt` of an idle session is not an error.",
        needs: &[Need::Op("interrupt")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("interrupt", "{}")?;
            ensure(text(&data, "dropped-steering-text").is_empty(), || {
                "steering text is handed back".to_owned()
            })
        },
    },
    Check {
        name: "retry.passing-failure",
        about: "A temporary failure is retried with a visible countdown, and the answer arrives.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(OVERLOADED))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.event("session/updated with :retry", |topic, payload| {
                topic == "session/updated" && payload.get("retry").is_some_and(|retry| !retry.is_nil())
            })?;
            let message = peer.event("assistant/message", |topic, payload| {
                topic == "assistant/message" && text(payload, "text") == "at last"
            })?;
            ensure(text(payload(&message), "error-message").is_empty(), || {
                "the answer is an error".to_owned()
            })
        },
    },
    Check {
        name: "retry.abort",
        about: "`abort_retry` ends the wait, and the failure is reported.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("abort_retry")],
        run: |probe| {
            let script = "{:turns [{:steps [{:error {:kind :overloaded :message \"too many\" :retry-after-ms 60000}}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.event("session/updated with :retry", |topic, payload| {
                topic == "session/updated" && payload.get("retry").is_some_and(|retry| !retry.is_nil())
            })?;
            peer.ask_ok("abort_retry", "{}")?;
            peer.event("assistant/message with :error-message", |topic, payload| {
                topic == "assistant/message" && !text(payload, "error-message").is_empty()
            })?;
            idle(&mut peer)
        },
    },
    Check {
        name: "retry.off",
        about: "With set_auto_retry off a temporary failure is reported at once.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("set_auto_retry")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(OVERLOADED))?;
            let data = peer.ask_ok("set_auto_retry", "{:enabled false}")?;
            ensure(data.get("enabled") == Some(&Value::Bool(false)), || ":enabled is not false".to_owned())?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let message = peer.topic("assistant/message")?;
            ensure(!text(payload(&message), "error-message").is_empty(), || "it was tried again".to_owned())
        },
    },
    Check {
        name: "compact.idle",
        about: "`compact` summarises, and earlier entries stay in the history.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("compact"), Need::Op("get_fork_messages")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(PIECES))?;
            for message in ["keep this", "and this"] {
                talk(&mut peer, message)?;
            }
            let data = peer.ask_ok("compact", "{}")?;
            ensure(data.get("compacted").and_then(Value::as_bool).is_some(), || {
                ":compacted is not a boolean".to_owned()
            })?;
            let data = peer.ask_ok("get_fork_messages", "{}")?;
            let points = data.get("messages").and_then(Value::as_slice).map_or(0, <[_]>::len);
            ensure(points >= 2, || "what was compacted cannot be forked any more".to_owned())
        },
    },
    Check {
        name: "compact.not-idle",
        about: "`compact` during a running turn is request/session-not-idle.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("compact"), Need::Op("abort")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(ENDLESS))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("assistant/delta")?;
            peer.ask_error("compact", "{}", "request/session-not-idle")?;
            peer.ask_ok("abort", "{}").map(|_| ())
        },
    },
    Check {
        name: "compact.setting",
        about: "`set_auto_compaction` returns the new value.",
        needs: &[Need::Op("set_auto_compaction")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for enabled in [true, false] {
                let data = peer.ask_ok("set_auto_compaction", &format!("{{:enabled {enabled}}}"))?;
                ensure(data.get("enabled") == Some(&Value::Bool(enabled)), || {
                    ":enabled is another".to_owned()
                })?;
            }
            Ok(())
        },
    },
];

const PROMPT: &[Need] = &[Need::Op("prompt")];

/// A temporary failure, then an answer.
const OVERLOADED: &str = "{:turns [{:steps [{:error {:kind :overloaded :message \"too many\" :retry-after-ms 50}}]} \
                          {:steps [{:delta \"at last\"}]}]}";

/// Reads a turn up to its message and joins the text of a topic's events before it.
fn answer(peer: &mut Peer, deltas: &str) -> Result<(String, Value<'static>), Stop> {
    let mut joined = String::new();
    loop {
        let event = peer.event("assistant/message", |topic, payload| {
            topic == deltas || topic == "assistant/message" && text(payload, "role") == "assistant"
        })?;
        if topic(&event) == "assistant/message" {
            return Ok((joined, event));
        }
        joined.push_str(text(payload(&event), "text"));
    }
}

fn lifecycle(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    peer.barrier()?;
    peer.take_events();
    let data = peer.ask_ok("prompt", "{:message \"Say hello in one short sentence.\"}")?;
    ensure(data.get("accepted") == Some(&Value::Bool(true)), || ":accepted is not true".to_owned())?;
    let streaming = |wanted: bool| {
        move |topic: &str, payload: &Value<'_>| {
            topic == "session/updated" && payload.get("is-streaming") == Some(&Value::Bool(wanted))
        }
    };
    let place = |event: &Value<'_>| event.get("seq").and_then(Value::as_i64).unwrap_or_default();
    let began = place(&peer.event("session/updated that says streaming", streaming(true))?);
    let message = peer.event("assistant/message", |topic, payload| {
        topic == "assistant/message" && text(payload, "role") == "assistant"
    })?;
    if !text(payload(&message), "error-message").is_empty() {
        probe.note("The model answered the first prompt with an error; the turn is checked all the same.");
    }
    // The streaming state is sent again while the turn runs, so the last update counts.
    loop {
        let ended = peer.event("session/updated that says idle", streaming(false))?;
        if place(&ended) > place(&message) {
            break;
        }
    }
    ensure(began <= place(&message), || "the message came before the session said that it streams".to_owned())
}

fn abort_running(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(Some(ENDLESS))?;
    peer.ask_ok("prompt", "{:message \"go\"}")?;
    let delta = peer.topic("assistant/delta")?;
    let turn = text(payload(&delta), "turn-id").to_owned();
    let data = peer.ask_ok("abort", "{}")?;
    ensure(data.get("accepted") == Some(&Value::Bool(true)), || ":accepted is not true".to_owned())?;
    let message = peer.event("assistant/message that says aborted", |topic, payload| {
        topic == "assistant/message" && text(payload, "stop-reason") == "aborted"
    })?;
    ensure(words(payload(&message)).contains("part"), || "the partial text is lost".to_owned())?;
    idle(&mut peer)?;
    peer.barrier()?;
    let end = message.get("seq").and_then(Value::as_i64).unwrap_or_default();
    let late = peer.take_events().into_iter().find(|event| {
        let after = event.get("seq").and_then(Value::as_i64).is_some_and(|seq| seq > end);
        after
            && !turn.is_empty()
            && text(payload(event), "turn-id") == turn
            && !["session/updated", "turn/ended"].contains(&topic(event))
    });
    ensure(late.is_none(), || {
        format!("{:?} of the turn came after its end", late.as_ref().map(|event| topic(event)))
    })?;
    let kept = messages(&mut peer, "{}")?;
    let last = kept.last().map(|message| text(message, "stop-reason").to_owned());
    ensure(last.as_deref() == Some("aborted"), || format!("the stop reason is kept as {last:?}"))
}

fn ended(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    let turn = text(&peer.ask_ok("prompt", "{:message \"hello\"}")?, "turn-id").to_owned();
    let (_, said) = answer(&mut peer, "assistant/delta")?;
    let end = peer.topic("turn/ended")?;
    let state = state(&mut peer)?;
    ensure(state.get("is-streaming") == Some(&Value::Bool(false)), || {
        "the session is not idle when turn/ended has come".to_owned()
    })?;
    let of_turn = text(payload(&end), "turn-id");
    ensure(of_turn == turn, || format!("it is about the turn {of_turn:?}, not {turn:?}"))?;
    let failed = !text(payload(&said), "error-message").is_empty();
    let (outcome, expected) = (text(payload(&end), "outcome"), if failed { "failed" } else { "completed" });
    ensure(outcome == expected, || format!("the outcome is {outcome:?}, not {expected:?}"))?;
    let (last, named) = (text(payload(&said), "entry-id"), text(payload(&end), "entry-id"));
    ensure(last == named, || format!("its last message is {named:?}, not {last:?}"))?;
    peer.barrier()?;
    let late = peer.take_events().into_iter().find(|event| {
        let after = event.get("seq").and_then(Value::as_i64) > end.get("seq").and_then(Value::as_i64);
        after && text(payload(event), "turn-id") == turn
    });
    ensure(late.is_none(), || format!("{:?} came after it", late.as_ref().map(|event| topic(event))))
}

fn stages(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    peer.ask_ok("prompt", "{:message \"hello\"}")?;
    let (_, said) = answer(&mut peer, "assistant/delta")?;
    idle(&mut peer)?;
    peer.barrier()?;
    const ORDER: &[&str] =
        &["receive-input", "compose-request", "send-request", "stream-response", "tool-call", "render"];
    let events = peer.take_events();
    let told: Vec<&str> = events
        .iter()
        .filter(|event| topic(event) == "turn/stage")
        .map(|event| text(payload(event), "stage"))
        .collect();
    if told.is_empty() {
        return Err(Stop::NotApplicable("the server tells no stages".to_owned()));
    }
    let mut places = told.iter().map(|stage| ORDER.iter().position(|name| name == stage));
    ensure(places.clone().all(|place| place.is_some()), || format!("the stages are {told:?}"))?;
    ensure(places.clone().is_sorted(), || format!("the stages come as {told:?}"))?;
    // A turn without a usable model ends at the failing stage.
    let failed = !text(payload(&said), "error-message").is_empty();
    ensure(places.next() == Some(Some(0)) && (failed || told.last() == Some(&"render")), || {
        format!("the stages are {told:?}")
    })?;
    for event in events.iter().filter(|event| topic(event) == "turn/stage") {
        let point = text(payload(event), "point");
        ensure(["pre", "post"].contains(&point), || format!(":point is {point:?}"))?;
    }
    Ok(())
}
