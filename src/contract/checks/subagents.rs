//! Checks of subagents: what `delegate` asks, starts and returns.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::launch::Config;
use super::super::peer::{Peer, payload, topic};
use super::events::session_of;
use super::hooks::hooks;
use super::questions::{QUESTIONS, interactor, late, respond};
use super::room::Room;
use super::sessions::{idle, last_answer, messages, words};
use super::tools::caller;
use super::workflows::call;
use crate::value::Value;

const LISTED: &[Need] = &[
    Need::Script,
    Need::Op("prompt"),
    Need::Op("list_sessions"),
    Need::Op("get_messages"),
    Need::Op("interaction_respond"),
    Need::Feature("interactor"),
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "subagent.asked",
        about: "Before a subagent starts, one question asks for its envelope: its id, parent, depth, tools, task and model.",
        needs: LISTED,
        run: |probe| {
            let mut peer = interactor(probe, &delegating("[\"bash\" \"read\"]", "true"))?;
            let session = session_of(&mut peer)?;
            let data = peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            let asked = payload(&question);
            let envelope = envelope(&question)?;
            ensure(text(&envelope, "parent-session-id") == session, || "the parent is another".to_owned())?;
            ensure(!text(&envelope, "subagent-id").is_empty(), || "the subagent has no id".to_owned())?;
            ensure(envelope.get("depth").and_then(Value::as_i64) == Some(1), || {
                "the depth is not 1".to_owned()
            })?;
            ensure(text(&envelope, "prompt-summary").contains("Look around"), || {
                "the task is lost".to_owned()
            })?;
            let tools = super::super::check::texts(envelope.get("requested-envelope"));
            ensure(tools == ["bash", "read"], || format!("the envelope is {tools:?}"))?;
            let model = envelope.get("model").cloned().unwrap_or(Value::Nil);
            ensure(!text(&model, "provider").is_empty() && !text(&model, "id").is_empty(), || {
                "the model is not named".to_owned()
            })?;
            ensure(text(asked, "correlation-id") == text(&data, "turn-id"), || {
                "the correlation id is not the turn's".to_owned()
            })?;
            let before = sessions_below(&mut peer, &session)?;
            ensure(before.is_empty(), || "the subagent was started before it was allowed".to_owned())
        },
    },
    Check {
        name: "subagent.works",
        about: "An approved subagent works in its own session below its parent's; its last text is the call's result, and its conversation stays separate.",
        needs: LISTED,
        run: works,
    },
    Check {
        name: "subagent.inside-the-envelope",
        about: "A call of the envelope's tools needs no approval while the subagent lives.",
        needs: LISTED,
        run: |probe| {
            let room = Room::new("subagent-inside", "")?;
            let mut peer = interactor(probe, &delegating("[\"bash\" \"read\"]", &touch(&room)))?;
            approve(&mut peer)?;
            let said = last_answer_of(&mut peer, "end")?;
            ensure(said, || "the parent did not go on".to_owned())?;
            let asked = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!asked, || "a call inside the envelope was asked about".to_owned())?;
            ensure(room.read("seen").is_some(), || "the call did not run".to_owned())
        },
    },
    Check {
        name: "subagent.outside-the-envelope",
        about: "A call outside the envelope is asked about like any call, and the question names the subagent and its parent.",
        needs: LISTED,
        run: |probe| {
            let room = Room::new("subagent-outside", "")?;
            let mut peer = interactor(probe, &delegating("[\"read\"]", &touch(&room)))?;
            let session = session_of(&mut peer)?;
            let asked = approve(&mut peer)?;
            let question = peer.topic("interaction/requested")?;
            let labels = payload(&question);
            ensure(text(labels, "kind") == "approve", || format!("the kind is {:?}", text(labels, "kind")))?;
            ensure(text(labels, "subagent-id") == text(&asked, "subagent-id"), || {
                "the question does not say which subagent asks".to_owned()
            })?;
            ensure(text(labels, "parent-session-id") == session, || {
                "the question does not say for whom the subagent works".to_owned()
            })?;
            respond(&mut peer, &question, "accepted", "{:outcome \"deny\"}")?;
            last_answer_of(&mut peer, "end")?;
            ensure(room.read("seen").is_none(), || "the denied call ran".to_owned())
        },
    },
    Check {
        name: "subagent.denied",
        about: "The parent's model gets a refused envelope as a typed result; no session is opened, and the parent continues.",
        needs: LISTED,
        run: |probe| {
            let script = format!("{{:turns [{} {{:steps [{{:delta \"end\"}}]}}]}}", delegate("[\"read\"]"));
            let mut peer = interactor(probe, &script)?;
            let session = session_of(&mut peer)?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            let id = text(payload(&question), "interaction-id").to_owned();
            let params = format!(
                "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"deny\"}} :note \"not now\"}}"
            );
            peer.ask_ok("interaction_respond", &params)?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                ":is-error is not true".to_owned()
            })?;
            let said = text(payload(&result), "result-text");
            ensure(said.contains("subagent/envelope-denied") && said.contains("not now"), || {
                format!("the refusal is told as {said:?}")
            })?;
            ensure(last_answer(&mut peer)? == "end", || "the parent did not go on".to_owned())?;
            let below = sessions_below(&mut peer, &session)?;
            ensure(below.is_empty(), || "a session was opened all the same".to_owned())
        },
    },
    Check {
        name: "subagent.withdrawn",
        about: "`abort` withdraws an open envelope question, and no subagent starts.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("abort"),
            Need::Op("list_sessions"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let mut peer = interactor(probe, &delegating("[\"read\"]", "true"))?;
            let session = session_of(&mut peer)?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            peer.ask_ok("abort", "{}")?;
            idle(&mut peer)?;
            late(&mut peer, &question)?;
            let below = sessions_below(&mut peer, &session)?;
            ensure(below.is_empty(), || "a subagent was started".to_owned())
        },
    },
    Check {
        name: "subagent.over",
        about: "An envelope ends with its task: later calls of the same session are asked about.",
        needs: LISTED,
        run: |probe| {
            let room = Room::new("subagent-over", "")?;
            let command = touch(&room);
            let script = delegating("[\"bash\" \"read\"]", &command);
            let again = format!(" {}]}}", call("bash", &format!("{{:command {command:?}}}")));
            let script =
                script.strip_suffix("]}").map(|script| format!("{script}{again}")).unwrap_or_default();
            let mut peer = interactor(probe, &script)?;
            let child = text(&approve(&mut peer)?, "subagent-id").to_owned();
            last_answer_of(&mut peer, "end")?;
            peer.ask_ok("prompt", &format!("{{:message \"again\" :session-id {child:?}}}"))?;
            let question = peer.topic("interaction/requested")?;
            let kind = text(payload(&question), "kind");
            ensure(kind == "approve", || format!("the kind is {kind:?}"))
        },
    },
    Check {
        name: "subagent.misshapen",
        about: "An envelope is approved or denied; there is no third answer.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, &delegating("[\"read\"]", "true"))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            let id = text(payload(&question), "interaction-id").to_owned();
            for value in ["{:outcome \"defer\"}", "{:ok true}", "{}"] {
                let params = format!("{{:interaction-id {id:?} :status \"accepted\" :value {value}}}");
                peer.ask_error("interaction_respond", &params, "request/invalid-params")?;
            }
            respond(&mut peer, &question, "accepted", "{:outcome \"deny\"}")
        },
    },
    Check {
        name: "subagent.strict-subset",
        about: "An envelope that is not a strict subset of the parent's tools is refused without a question.",
        needs: QUESTIONS,
        run: |probe| {
            let all = "[\"read\" \"write\" \"edit\" \"bash\" \"search\" \"find\" \"ask-user\" \"delegate\"]";
            let cases = ["[\"read\" \"fly\"]", all, "[7]"];
            let turns: Vec<String> = cases.iter().map(|tools| delegate(tools)).collect();
            let script = format!("{{:turns [{} {{:steps [{{:delta \"end\"}}]}}]}}", turns.join(" "));
            let mut peer = interactor(probe, &script)?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            for tools in cases {
                let result = peer.topic("tool/result")?;
                ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                    format!("the envelope {tools} is taken")
                })?;
            }
            last_answer(&mut peer)?;
            let asked = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!asked, || "the person was asked about what cannot be".to_owned())
        },
    },
    Check {
        name: "subagent.one-question-at-a-time",
        about: "Parallel subagents ask one at a time, and their results go back in call order.",
        needs: QUESTIONS,
        run: one_at_a_time,
    },
    Check {
        name: "subagent.ends-with-its-parent",
        about: "The end of the parent's turn ends its subagents and their processes.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("abort"),
            Need::Op("list_sessions"),
            Need::Op("get_state"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let room = Room::new("subagent-ends", "")?;
            let command = format!("touch {}; sleep 1000; touch {}", room.path("began"), room.path("over"));
            let mut peer = interactor(probe, &delegating("[\"bash\" \"read\"]", &command))?;
            let session = session_of(&mut peer)?;
            approve(&mut peer)?;
            room.wait_for("began")?;
            peer.ask_ok("abort", "{}")?;
            peer.event("assistant/message that says aborted", |topic, payload| {
                topic == "assistant/message" && text(payload, "stop-reason") == "aborted"
            })?;
            idle(&mut peer)?;
            let below = sessions_below(&mut peer, &session)?;
            for child in &below {
                let data = peer.ask_ok("get_state", &format!("{{:session-id {child:?}}}"))?;
                let streaming = data.get("state").and_then(|state| state.get("is-streaming").cloned());
                ensure(streaming == Some(Value::Bool(false)), || "a subagent works on".to_owned())?;
            }
            ensure(below.len() == 1, || format!("{} subagents were started", below.len()))?;
            ensure(room.read("over").is_none(), || "what it ran was not ended".to_owned())
        },
    },
    Check {
        name: "subagent.depth",
        about: "Subagents can be nested three deep and no deeper; if everything is allowed, no interactor is needed.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("set_mode"),
            Need::Op("list_sessions"),
            Need::Op("get_messages"),
        ],
        run: |probe| {
            let tools =
                ["[\"read\" \"search\" \"delegate\"]", "[\"read\" \"delegate\"]", "[\"delegate\"]", "[]"];
            let turns: Vec<String> = tools.iter().map(|tools| delegate(tools)).collect();
            let script = format!(
                "{{:turns [{} {{:steps [{{:delta \"end\"}}]}}] :then :repeat-last}}",
                turns.join(" ")
            );
            let mut peer = caller(probe, &script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
                "the first subagent failed".to_owned()
            })?;
            idle(&mut peer)?;
            let data = peer.ask_ok("list_sessions", "{}")?;
            let slots = data.get("sessions").and_then(Value::as_slice).map_or(0, <[_]>::len);
            ensure(slots == 4, || format!("there are {slots} sessions where three are nested in one"))
        },
    },
    Check {
        name: "subagent.headless",
        about: "Without an interactor no subagent starts: the turn halts with permission-required and the kind.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(&delegating("[\"read\"]", "true")))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let said = peer.event("assistant/message with permission-required", |topic, payload| {
                topic == "assistant/message" && text(payload, "error-message").contains("permission-required")
            })?;
            ensure(text(payload(&said), "error-message").contains("approve-subagent-envelope"), || {
                "the kind is not named".to_owned()
            })?;
            idle(&mut peer)
        },
    },
    Check {
        name: "subagent.guards-run",
        about: "A guard's deny also ends a subagent's call, inside and outside its envelope.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("prompt"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let room = Room::new("subagent-guards", "")?;
            let guard = ":id \"never\" :stage :tool-call :point :pre :kind :guard :tools [\"bash\"]";
            let config: Config = hooks(&[(guard, "echo '{:decision :deny :reason \"the guard says no\"}'")]);
            let script = delegating("[\"bash\" \"read\"]", &touch(&room));
            let mut peer = probe.configured(&script, &config, &["interactor"])?;
            approve(&mut peer)?;
            last_answer_of(&mut peer, "end")?;
            ensure(room.read("seen").is_none(), || "the call ran".to_owned())
        },
    },
];

/// A call of `delegate`.
fn delegate(tools: &str) -> String {
    call("delegate", &format!("{{:task \"Look around.\" :tools {tools}}}"))
}

/// A parent that delegates, a child that runs a command and answers, and the parent's end.
fn delegating(tools: &str, command: &str) -> String {
    format!(
        "{{:turns [{} {} {{:steps [{{:delta \"the child says so\"}}]}} {{:steps [{{:delta \"end\"}}]}}]}}",
        delegate(tools),
        call("bash", &format!("{{:command {command:?}}}"))
    )
}

fn touch(room: &Room) -> String {
    format!("touch {}", room.path("seen"))
}

/// The payload of an envelope question.
fn envelope(question: &Value<'static>) -> Result<Value<'static>, Stop> {
    let asked = payload(question);
    let kind = text(asked, "kind");
    ensure(kind == "approve-subagent-envelope", || format!("the kind is {kind:?}"))?;
    Ok(asked.get("payload").cloned().unwrap_or(Value::Nil))
}

/// Sends a prompt and approves the envelope.
fn approve(peer: &mut Peer) -> Result<Value<'static>, Stop> {
    peer.ask_ok("prompt", "{:message \"go\"}")?;
    let question = peer.topic("interaction/requested")?;
    let asked = envelope(&question)?;
    respond(peer, &question, "accepted", "{:outcome \"approve\"}")?;
    Ok(asked)
}

/// Waits for the answer that ends the parent's turn and returns whether it is the expected one.
fn last_answer_of(peer: &mut Peer, due: &str) -> Result<bool, Stop> {
    let said = last_answer(peer)?;
    idle(peer)?;
    peer.barrier()?;
    Ok(said == due)
}

/// The sessions below one in the tree.
fn sessions_below(peer: &mut Peer, session: &str) -> Result<Vec<String>, Stop> {
    let data = peer.ask_ok("list_sessions", "{}")?;
    let slots = data.get("sessions").and_then(Value::as_slice).unwrap_or_default();
    let below = slots.iter().filter(|slot| text(slot, "parent-session-id") == session);
    Ok(below.map(|slot| text(slot, "id").to_owned()).collect())
}

fn works(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = interactor(probe, &delegating("[\"bash\" \"read\"]", "true"))?;
    let session = session_of(&mut peer)?;
    let asked = approve(&mut peer)?;
    let result = peer.topic("tool/result")?;
    let said = text(payload(&result), "result-text").to_owned();
    ensure(said == "the child says so", || format!("the result is {said:?}"))?;
    last_answer_of(&mut peer, "end")?;
    let below = sessions_below(&mut peer, &session)?;
    ensure(below == [text(&asked, "subagent-id")], || format!("below the parent stand {below:?}"))?;
    let child = below.first().cloned().unwrap_or_default();
    let told: Vec<String> =
        messages(&mut peer, &format!("{{:session-id {child:?}}}"))?.iter().map(words).collect();
    ensure(told.iter().any(|words| words.contains("Look around")), || {
        format!("the child's conversation is {told:?}")
    })?;
    let own: Vec<String> = messages(&mut peer, "{}")?.iter().map(words).collect();
    ensure(!told.iter().any(|words| words == "go") && own.iter().any(|words| words == "go"), || {
        "the conversations are not apart".to_owned()
    })
}

fn one_at_a_time(probe: &Probe<'_>) -> Result<(), Stop> {
    let call = |id: &str| {
        format!(
            "{{:tool-call {{:id {id:?} :name \"delegate\" :arguments {{:task {id:?} :tools [\"read\"]}}}}}}"
        )
    };
    let ask = "{:steps [{:tool-call {:name \"bash\" :arguments {:command \"true\"}}}]}";
    let script = format!(
        "{{:turns [{{:steps [{} {} {}]}} {ask} {ask} {ask} {{:steps [{{:delta \"done\"}}]}}] :then :repeat-last}}",
        call("a"),
        call("b"),
        call("c")
    );
    let mut peer = interactor(probe, &script)?;
    peer.ask_ok("prompt", "{:message \"go\"}")?;
    let mut kinds = Vec::new();
    while kinds.len() < 6 {
        let question = peer.topic("interaction/requested")?;
        let asked = payload(&question);
        // Any further question would have arrived by now.
        peer.barrier()?;
        let more = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
        ensure(!more, || "a second question came while one was open".to_owned())?;
        kinds.push(text(asked, "kind").to_owned());
        let value = match text(asked, "kind") {
            "approve" => "{:outcome \"approve\" :scope \"once\"}",
            _ => "{:outcome \"approve\"}",
        };
        respond(&mut peer, &question, "accepted", value)?;
    }
    let envelopes = kinds.iter().filter(|kind| *kind == "approve-subagent-envelope").count();
    ensure(envelopes == 3, || format!("the questions were {kinds:?}"))?;
    last_answer_of(&mut peer, "done")?;
    let kept = messages(&mut peer, "{}")?;
    let results = kept.iter().filter(|message| text(message, "role") == "tool");
    let order: Vec<&str> = results.map(|message| text(message, "tool-call-id")).collect();
    ensure(order == ["a", "b", "c"], || format!("the results went back as {order:?}"))
}
