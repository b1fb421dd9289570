//! Checks of hooks: the user's commands at the boundaries of a turn, and the effects of their answers.
//!
//! The commands are lines for `bash -c`. They record what they see in a folder of the check.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::launch::Config;
use super::super::peer::{Peer, payload, topic};
use super::questions::respond;
use super::room::Room;
use super::sessions::{idle, messages, words};
use crate::value::Value;

const HOOKS: &[Need] = &[Need::Script, Need::Config, Need::Op("prompt"), Need::Op("set_mode")];

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}] :then :repeat-last}";

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "hook.guard-ends-a-call",
        about: "A guard's deny at tool-call ends that call in every mode: its result is an error with the reason, its sibling runs, and the turn continues.",
        needs: HOOKS,
        run: guard_ends_a_call,
    },
    Check {
        name: "hook.guard-ends-the-turn",
        about: "A guard's deny at any other stage ends the turn: the stage does not run, no later guard votes, and no post hook runs.",
        needs: HOOKS,
        run: guard_ends_the_turn,
    },
    Check {
        name: "hook.guards-allow",
        about: "If every guard allows, each votes in order, and the stage runs.",
        needs: HOOKS,
        run: |probe| {
            let head = |id: &str| format!(":id {id:?} :stage :receive-input :point :pre :kind :guard");
            let allow = "echo '{:decision :allow}'";
            let config = hooks(&[(&head("first"), allow), (&head("second"), allow)]);
            let mut peer = hooked(probe, ECHO, &config)?;
            let (said, events) = turn(&mut peer, "hello")?;
            ensure(text(payload(&said), "text") == "hello", || "the turn did not run".to_owned())?;
            came(&events, &["first allowed", "second allowed"])
        },
    },
    Check {
        name: "hook.transforms-in-order",
        about: "Transforms run in order, each on the output of the previous one; the journal keeps the user's text.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("prompt"),
            Need::Op("set_mode"),
            Need::Op("get_messages"),
        ],
        run: transforms,
    },
    Check {
        name: "hook.rewrites-a-call",
        about: "A call's arguments are rewritten before anyone is asked about them, and its result before the model gets it.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("prompt"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: rewrites_a_call,
    },
    Check {
        name: "hook.narrows-a-request",
        about: "A transform may change the system prompt, remove tools and shorten the answer, but not add tools.",
        needs: HOOKS,
        run: |probe| {
            let room = Room::new("hook-narrows", "")?;
            let see = format!("cat > {}", room.path("seen"));
            let config = hooks(&[
                (
                    ":id \"narrow\" :stage :compose-request :point :post :kind :transform",
                    "echo '{:payload {:system \"Be brief.\" :tools [\"read\"]}}'",
                ),
                (
                    ":id \"wider\" :stage :compose-request :point :post :kind :transform",
                    "echo '{:payload {:tools [\"read\" \"fly\"]}}'",
                ),
                (":id \"see\" :stage :compose-request :point :post :kind :observer", &see),
                (
                    ":id \"short\" :stage :send-request :point :pre :kind :transform",
                    "echo '{:payload {:max-output-tokens 7}}'",
                ),
            ]);
            let mut peer = hooked(probe, ECHO, &config)?;
            let (_, events) = turn(&mut peer, "hello")?;
            came(&events, &["narrow rewritten", "wider failed", "see observed", "short rewritten"])?;
            let seen = room.read("seen").unwrap_or_default();
            ensure(seen.contains("Be brief.") && seen.contains(":tools [\"read\"]"), || {
                format!("what came of it is {seen:?}")
            })
        },
    },
    Check {
        name: "hook.rewrites-an-answer",
        about: "The model's text may be rewritten after it arrived, and before it is shown.",
        needs: HOOKS,
        run: |probe| {
            for point in [":stage :stream-response :point :post", ":stage :render :point :pre"] {
                let head = format!(":id \"words\" {point} :kind :transform");
                let config = hooks(&[(&head, "echo '{:payload {:text \"in other words\"}}'")]);
                let mut peer = hooked(probe, ECHO, &config)?;
                let (said, _) = turn(&mut peer, "hello")?;
                let shown = text(payload(&said), "text").to_owned();
                ensure(shown == "in other words", || format!("at {point} it says {shown:?}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "hook.fixed-keys",
        about: "A transform that changes a key that its point does not permit, or the shape of a key, is skipped.",
        needs: HOOKS,
        run: |probe| {
            let head = |id: &str| format!(":id {id:?} :stage :receive-input :point :pre :kind :transform");
            let config = hooks(&[
                (&head("other"), "echo '{:payload {:mode \"yolo\"}}'"),
                (&head("shape"), "echo '{:payload {:message 7}}'"),
                (&head("empty"), "echo '{}'"),
            ]);
            let mut peer = hooked(probe, ECHO, &config)?;
            let (said, events) = turn(&mut peer, "hello")?;
            ensure(text(payload(&said), "text") == "hello", || "the message was changed".to_owned())?;
            came(&events, &["other failed", "shape failed", "empty unchanged"])
        },
    },
    Check {
        name: "hook.observers",
        about: "An observer reads one EDN map with its stage and point, and its output has no effect.",
        needs: HOOKS,
        run: observers,
    },
    Check {
        name: "hook.failing-guard",
        about: "A guard that fails, hangs or writes nonsense denies, and a diagnostic reports it.",
        needs: HOOKS,
        run: |probe| {
            for &(script, why) in FAILURES {
                let room = Room::new("hook-failing", "")?;
                let head =
                    ":id \"broken\" :stage :tool-call :point :pre :kind :guard :timeout-ms 500".to_owned();
                let mut peer = hooked(probe, &calls(&room), &hooks(&[(&head, script)]))?;
                let (_, events) = turn(&mut peer, "go")?;
                told_as_failed(&events, "broken", why)?;
                ensure(room.read("one").is_none() && room.read("two").is_none(), || {
                    format!("calls ran beside a guard that {why}")
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "hook.failing-transform",
        about: "A transform that fails, hangs or writes nonsense is skipped, and a diagnostic reports it.",
        needs: HOOKS,
        run: |probe| {
            for &(script, why) in FAILURES.iter().filter(|(script, _)| !script.contains("decision")) {
                let head =
                    ":id \"broken\" :stage :receive-input :point :pre :kind :transform :timeout-ms 500";
                let mut peer = hooked(probe, ECHO, &hooks(&[(head, script)]))?;
                let (said, events) = turn(&mut peer, "hello")?;
                told_as_failed(&events, "broken", why)?;
                ensure(text(payload(&said), "text") == "hello", || {
                    format!("a transform that {why} changed something")
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "hook.failing-observer",
        about: "A failing observer is ignored, and a diagnostic reports it.",
        needs: HOOKS,
        run: |probe| {
            let head = ":id \"broken\" :stage :render :point :post :kind :observer :timeout-ms 500";
            for (script, why) in [("exit 3", "fails"), ("sleep 1000", "hangs")] {
                let mut peer = hooked(probe, ECHO, &hooks(&[(head, script)]))?;
                let (said, events) = turn(&mut peer, "hello")?;
                told_as_failed(&events, "broken", why)?;
                ensure(text(payload(&said), "text") == "hello", || "the turn was changed".to_owned())?;
            }
            Ok(())
        },
    },
    Check {
        name: "hook.tools",
        about: "A hook at tool-call with :tools runs only for the calls of those tools.",
        needs: HOOKS,
        run: |probe| {
            let room = Room::new("hook-tools", "")?;
            let deny = "echo '{:decision :deny :reason \"no\"}'";
            let config = hooks(&[
                (":id \"readers\" :stage :tool-call :point :pre :kind :guard :tools [\"read\"]", deny),
                (":id \"late\" :stage :tool-call :point :post :kind :observer :tools [\"bash\"]", "true"),
            ]);
            let mut peer = hooked(probe, &calls(&room), &config)?;
            let (_, events) = turn(&mut peer, "go")?;
            ensure(room.read("one").is_some() && room.read("two").is_some(), || {
                "a call of another tool was denied".to_owned()
            })?;
            came(&events, &["late observed", "late observed"])
        },
    },
    Check {
        name: "hook.abort",
        about: "`abort` does not wait for a running hook.",
        needs: &[Need::Script, Need::Config, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("abort")],
        run: |probe| {
            let room = Room::new("hook-abort", "")?;
            let head = ":id \"slow\" :stage :render :point :pre :kind :guard :timeout-ms 600000";
            let script = format!("touch {}; sleep 1000", room.path("began"));
            let mut peer = hooked(probe, ECHO, &hooks(&[(head, &script)]))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.event("the stage before the hook's", |topic, payload| {
                topic == "turn/stage" && text(payload, "stage") == "stream-response"
            })?;
            peer.ask_ok("abort", "{}")?;
            peer.event("assistant/message that says aborted", |topic, payload| {
                topic == "assistant/message" && text(payload, "stop-reason") == "aborted"
            })?;
            idle(&mut peer)
        },
    },
    Check {
        name: "hook.turns-do-not-overlap",
        about: "A prompt that is sent as soon as the answer is seen begins a turn when the last one's stages are over, however slow a hook is.",
        needs: HOOKS,
        run: no_overlap,
    },
    Check {
        name: "hook.reload",
        about: "A reloaded configuration applies from the next stage on; the running stage keeps the old one.",
        needs: &[Need::Script, Need::Config, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("command")],
        run: reload,
    },
    Check {
        name: "hook.reload-refused",
        about: "A configuration with an invalid hook is refused with the reason, and the previous one stays.",
        needs: &[Need::Script, Need::Config, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("command")],
        run: |probe| {
            let head = ":id \"kept\" :stage :render :point :post :kind :observer";
            let mut peer = hooked(probe, ECHO, &hooks(&[(head, "true")]))?;
            for wrong in [
                "{:stage :tool-cal :point :pre :kind :guard :command [\"true\"]}",
                "{:stage :tool-call :point :pre :kind :guard}",
                "{:stage :render :point :post :kind :guard :command [\"true\"]}",
            ] {
                probe.configure(&Config { text: format!("{{:hooks [{wrong}]}}"), ..Config::default() })?;
                peer.ask_ok("command", "{:text \"/reload\"}")?;
                let told = peer.topic("command-result")?;
                ensure(text(payload(&told), "type") == "error", || format!("{wrong} is taken"))?;
                ensure(!text(payload(&told), "message").is_empty(), || "no reason is given".to_owned())?;
            }
            let (_, events) = turn(&mut peer, "hello")?;
            came(&events, &["kept observed"])
        },
    },
];

/// Faults of hooks, and their names.
const FAILURES: &[(&str, &str)] = &[
    ("exit 3", "fails"),
    ("echo nonsense", "answers nonsense"),
    ("echo '{:decision :maybe}'", "does not decide"),
    ("sleep 1000", "hangs"),
];

/// A configuration with these hooks, each with a line for `bash -c`.
pub(super) fn hooks(hooks: &[(&str, &str)]) -> Config {
    let hook = |(head, script): &(&str, &str)| format!("{{{head} :command [\"bash\" \"-c\" {script:?}]}}");
    let hooks: Vec<String> = hooks.iter().map(hook).collect();
    Config { text: format!("{{:hooks [{}]}}", hooks.join("\n ")), ..Config::default() }
}

/// A server with hooks whose tools need no approval.
fn hooked(probe: &Probe<'_>, script: &str, config: &Config) -> Result<Peer, Stop> {
    let mut peer = probe.configured(script, config, &[])?;
    peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
    Ok(peer)
}

/// Two parallel calls that each create a file, and an answer.
fn calls(room: &Room) -> String {
    let call = |id: &str, name: &str| {
        let command = format!("touch {}", room.path(name));
        format!("{{:tool-call {{:id {id:?} :name \"bash\" :arguments {{:command {command:?}}}}}}}")
    };
    format!(
        "{{:turns [{{:steps [{} {}]}} {{:steps [{{:delta \"end\"}}]}}]}}",
        call("a", "one"),
        call("b", "two")
    )
}

/// Sends a prompt, and returns the message that ends the turn with all its other events.
fn turn(peer: &mut Peer, message: &str) -> Result<(Value<'static>, Vec<Value<'static>>), Stop> {
    peer.barrier()?;
    peer.take_events();
    peer.ask_ok("prompt", &format!("{{:message {message:?}}}"))?;
    let said = peer.event("assistant/message that ends the turn", |topic, payload| {
        topic == "assistant/message"
            && text(payload, "role") == "assistant"
            && text(payload, "stop-reason") != "tool-use"
    })?;
    // The session is idle only after the answer is journalled and the last hooks have run.
    let place = |event: &Value<'_>| event.get("seq").and_then(Value::as_i64);
    let mut events = Vec::new();
    loop {
        events.extend(peer.take_events());
        let told = peer.event("session/updated that says idle", |topic, payload| {
            topic == "session/updated" && payload.get("is-streaming") == Some(&Value::Bool(false))
        })?;
        if place(&told) > place(&said) {
            break;
        }
    }
    peer.barrier()?;
    events.extend(peer.take_events());
    Ok((said, events))
}

/// The outcomes of hooks in `turn/stage` events: `hook outcome`.
fn outcomes(events: &[Value<'static>]) -> Vec<String> {
    let of_hooks = events
        .iter()
        .filter(|event| topic(event) == "turn/stage" && !text(payload(event), "hook").is_empty());
    of_hooks
        .map(|event| format!("{} {}", text(payload(event), "hook"), text(payload(event), "outcome")))
        .collect()
}

fn came(events: &[Value<'static>], due: &[&str]) -> Result<(), Stop> {
    let told = outcomes(events);
    ensure(told == due, || format!("the hooks came to {told:?}, and {due:?} was due"))
}

fn told_as_failed(events: &[Value<'static>], hook: &str, why: &str) -> Result<(), Stop> {
    let diagnostics = events.iter().filter(|event| topic(event) == "diagnostic");
    let mut texts = diagnostics.map(|event| text(payload(event), "message"));
    ensure(texts.any(|message| message.contains(hook)), || format!("no diagnostic names the hook that {why}"))
}

/// Prompts behind a slow hook at the last boundary, each sent as soon as the answer before is seen.
fn no_overlap(probe: &Probe<'_>) -> Result<(), Stop> {
    const TURNS: usize = 3;
    let head = ":id \"slow\" :stage :render :point :post :kind :observer";
    let mut peer = hooked(probe, ECHO, &hooks(&[(head, "cat >/dev/null; sleep 0.2")]))?;
    for number in 0..TURNS {
        peer.ask_ok("prompt", &format!("{{:message \"{number}\"}}"))?;
        peer.event("the answer", |topic, payload| {
            topic == "assistant/message" && text(payload, "role") == "assistant"
        })?;
    }
    idle(&mut peer)?;
    peer.barrier()?;
    let mut turns: Vec<String> = Vec::new();
    for event in peer.take_events().iter().filter(|event| topic(event) == "turn/stage") {
        let turn = text(payload(event), "turn-id");
        if turns.last().is_none_or(|last| last != turn) {
            ensure(!turns.iter().any(|known| known == turn), || {
                format!("the turn {turn:?} goes on after another began")
            })?;
            turns.push(turn.to_owned());
        }
    }
    ensure(turns.len() == TURNS, || format!("{} turns told their stages", turns.len()))
}

fn guard_ends_a_call(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("hook-guard", "")?;
    let config = hooks(&[(
        ":id \"no-two\" :stage :tool-call :point :pre :kind :guard",
        "if grep -q /two; then echo '{:decision :deny :reason \"two is too many\"}'; else echo '{:decision :allow}'; fi",
    )]);
    let mut peer = hooked(probe, &calls(&room), &config)?;
    let (said, events) = turn(&mut peer, "go")?;
    ensure(text(payload(&said), "text") == "end", || "the turn did not go on".to_owned())?;
    ensure(room.read("one").is_some(), || "the sibling did not run".to_owned())?;
    ensure(room.read("two").is_none(), || "the denied call ran".to_owned())?;
    let results: Vec<_> = events.iter().filter(|event| topic(event) == "tool/result").map(payload).collect();
    let errors: Vec<_> =
        results.iter().map(|result| result.get("is-error").and_then(Value::as_bool)).collect();
    ensure(errors == [Some(false), Some(true)], || format!(":is-error of the results is {errors:?}"))?;
    let refusal = results.last().copied().unwrap_or(&Value::Nil);
    ensure(text(refusal, "result-text").contains("two is too many"), || "the reason is lost".to_owned())?;
    let denied = events.iter().map(payload).find(|payload| text(payload, "outcome") == "denied");
    ensure(denied.is_some_and(|denied| text(denied, "tool-id") == "b"), || {
        "turn/stage does not say which call was denied".to_owned()
    })
}

fn guard_ends_the_turn(probe: &Probe<'_>) -> Result<(), Stop> {
    for stage in ["receive-input", "compose-request", "send-request", "stream-response", "render"] {
        let pre = |id: &str| format!(":id {id:?} :stage :{stage} :point :pre :kind :guard");
        let after = format!(":id \"after\" :stage :{stage} :point :post :kind :observer");
        let config = hooks(&[
            (&pre("first"), "echo '{:decision :deny :reason \"not today\"}'"),
            (&pre("second"), "echo '{:decision :allow}'"),
            (&after, "true"),
        ]);
        let mut peer = hooked(probe, ECHO, &config)?;
        let (said, events) = turn(&mut peer, "hello")?;
        ensure(text(payload(&said), "stop-reason") == "error", || format!("{stage}: the turn did not fail"))?;
        ensure(text(payload(&said), "error-message").contains("not today"), || {
            format!("{stage}: the reason is lost")
        })?;
        came(&events, &["first denied"])?;
        let passed = events
            .iter()
            .filter(|event| topic(event) == "turn/stage")
            .map(payload)
            .any(|payload| text(payload, "stage") == stage && text(payload, "hook").is_empty());
        ensure(!passed, || format!("{stage} is told as passed"))?;
        peer.ask_ok("prompt", "{:message \"again\"}")?;
    }
    Ok(())
}

fn transforms(probe: &Probe<'_>) -> Result<(), Stop> {
    let receive = |id: &str| format!(":id {id:?} :stage :receive-input :point :pre :kind :transform");
    let config = hooks(&[
        (&receive("one"), "grep -q ':message \"hello\"' && echo '{:payload {:message \"hello, one\"}}'"),
        (
            &receive("two"),
            "grep -q ':message \"hello, one\"' && echo '{:payload {:message \"hello, one, two\"}}'",
        ),
        (&receive("same"), "echo '{}'"),
    ]);
    let mut peer = hooked(probe, ECHO, &config)?;
    let (said, events) = turn(&mut peer, "hello")?;
    let answer = text(payload(&said), "text").to_owned();
    ensure(answer == "hello, one, two", || format!("the model was told {answer:?}"))?;
    came(&events, &["one rewritten", "two rewritten", "same unchanged"])?;
    let kept = messages(&mut peer, "{}")?;
    let user = kept.iter().find(|message| text(message, "role") == "user").map(words);
    ensure(user.as_deref() == Some("hello"), || format!("the user's words are kept as {user:?}"))
}

fn rewrites_a_call(probe: &Probe<'_>) -> Result<(), Stop> {
    let script = "{:turns [{:steps [{:tool-call {:id \"a\" :name \"bash\" :arguments {:command \"rm x\"}}}]} {:steps [{:delta \"end\"}]}]}";
    let config = hooks(&[
        (
            ":id \"safer\" :stage :tool-call :point :pre :kind :transform",
            "grep -q 'rm x' && echo '{:payload {:arguments {:command \"echo kept\"}}}' || echo '{}'",
        ),
        (
            ":id \"louder\" :stage :tool-call :point :post :kind :transform",
            "grep -q kept && echo '{:payload {:result \"KEPT\"}}'",
        ),
    ]);
    let mut peer = probe.configured(script, &config, &["interactor"])?;
    peer.ask_ok("prompt", "{:message \"go\"}")?;
    let question = peer.topic("interaction/requested")?;
    let asked = payload(&question).get("payload").map(|asked| text(asked, "command").to_owned());
    ensure(asked.as_deref() == Some("echo kept"), || format!("the person is asked about {asked:?}"))?;
    respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
    let result = peer.topic("tool/result")?;
    let told = text(payload(&result), "result-text").to_owned();
    ensure(told == "KEPT", || format!("the result is {told:?}"))
}

fn observers(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("hook-observes", "")?;
    let look = |name: &str| {
        format!("cat > {}; echo '{{:payload {{:message \"changed\"}} :decision :deny}}'", room.path(name))
    };
    let config = hooks(&[
        (":id \"before\" :stage :receive-input :point :pre :kind :observer", &look("before")),
        (":id \"after\" :stage :render :point :post :kind :observer", &look("after")),
    ]);
    let mut peer = hooked(probe, ECHO, &config)?;
    let (said, events) = turn(&mut peer, "hello")?;
    ensure(text(payload(&said), "text") == "hello", || "an observer changed something".to_owned())?;
    came(&events, &["before observed", "after observed"])?;
    for (name, stage, point) in [("before", "receive-input", "pre"), ("after", "render", "post")] {
        let seen = room.read(name).unwrap_or_default();
        let input = crate::edn::read_one(seen.as_bytes())
            .map_err(|error| Stop::failed(format!("an observer is given no EDN form: {error}")))?;
        ensure(text(&input, "hook") == name, || "the hook is not named".to_owned())?;
        let word = |key| input.get(key).and_then(Value::as_keyword).unwrap_or_default();
        ensure((word("kind"), word("stage"), word("point")) == ("observer", stage, point), || {
            format!("an observer is told that it stands at {} {}", word("stage"), word("point"))
        })?;
        for key in ["session-id", "turn-id", "cwd", "mode"] {
            ensure(!text(&input, key).is_empty(), || format!("an observer is not given :{key}"))?;
        }
        ensure(input.get("payload").is_some_and(|payload| payload.as_map().is_some()), || {
            "an observer is given no :payload".to_owned()
        })?;
    }
    Ok(())
}

fn reload(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("hook-reload", "")?;
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", room.path("go"));
    let call = |id: &str, command: &str| {
        format!(
            "{{:steps [{{:tool-call {{:id {id:?} :name \"bash\" :arguments {{:command {command:?}}}}}}}]}}"
        )
    };
    let script =
        format!("{{:turns [{} {} {{:steps [{{:delta \"end\"}}]}}]}}", call("a", &wait), call("b", "true"));
    let mut peer = hooked(probe, &script, &Config::default())?;
    peer.ask_ok("prompt", "{:message \"go\"}")?;
    peer.topic("tool/executing")?;
    probe.configure(&hooks(&[(
        ":id \"no\" :stage :tool-call :point :pre :kind :guard",
        "echo '{:decision :deny :reason \"no more\"}'",
    )]))?;
    peer.ask_ok("command", "{:text \"/reload\"}")?;
    room.make("go")?;
    for (id, is_error) in [("a", false), ("b", true)] {
        let result = peer.topic("tool/result")?;
        ensure(text(payload(&result), "tool-id") == id, || "another call ended".to_owned())?;
        ensure(payload(&result).get("is-error") == Some(&Value::Bool(is_error)), || {
            format!("the call {id} is told with :is-error {}", !is_error)
        })?;
    }
    let told = peer.topic("command-result")?;
    ensure(text(payload(&told), "type") == "text", || "the configuration is told as refused".to_owned())
}
