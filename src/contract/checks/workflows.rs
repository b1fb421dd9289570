//! Checks of workflows: stages, groups, gates, assertions, retries, and interrupted runs.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::launch::Config;
use super::super::peer::{Peer, payload, topic};
use super::events::session_of;
use super::questions::{late, respond};
use super::room::Room;
use super::sessions::{idle, messages, words};
use crate::value::Value;

pub(super) const NEEDS: &[Need] = &[
    Need::Script,
    Need::Config,
    Need::Op("command"),
    Need::Op("interaction_respond"),
    Need::Feature("interactor"),
];

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}] :then :repeat-last}";

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "workflow.stages",
        about: "Outcomes determine the order of stages, and a later stage gets the results of earlier ones.",
        needs: NEEDS,
        run: stages,
    },
    Check {
        name: "workflow.holds-the-session",
        about: "A run owns its session from start to end: a prompt in between is request/session-not-idle.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("workflow-holds", "")?;
            let workflow = format!(
                "{{:stages [{{:id :a :body \"x\" :gate [{{:command \"while [ ! -e {} ]; do sleep 0.01; done\"}}]}}]}}",
                room.path("go")
            );
            let mut peer = staged(probe, ECHO, &workflow)?;
            begin(&mut peer, "/workflow contract")?;
            peer.ask_error("prompt", "{:message \"hello\"}", "request/session-not-idle")?;
            room.make("go")?;
            ended(&mut peer)?;
            peer.ask_ok("prompt", "{:message \"hello\"}").map(|_| ())
        },
    },
    Check {
        name: "workflow.progress",
        about: "A run shows its progress as widget, status and notification, also to later subscribers.",
        needs: NEEDS,
        run: |probe| {
            let workflow = "{:stages [{:id :look :body \"x\"} {:id :tell :body \"x\"}]}";
            let mut peer = staged(probe, ECHO, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            peer.topic("ui/widget-specs-updated")?;
            peer.event("a widget with the stages", |topic, payload| {
                topic == "ui/widgets-updated" && {
                    let shown = crate::edn::to_string(payload);
                    shown.contains("look") && shown.contains("tell")
                }
            })?;
            peer.event("a status", |topic, payload| {
                let statuses = payload.get("statuses").and_then(Value::as_slice);
                topic == "ui/status-updated" && statuses.is_some_and(|statuses| !statuses.is_empty())
            })?;
            ended(&mut peer)?;
            peer.ask_ok("unsubscribe", "{}")?;
            peer.take_events();
            peer.ask_ok("subscribe", "{:topics [\"ui/widgets-updated\"]}")?;
            let widgets = peer.topic("ui/widgets-updated")?;
            ensure(crate::edn::to_string(payload(&widgets)).contains("tell"), || {
                "the snapshot does not show the run".to_owned()
            })
        },
    },
    Check {
        name: "workflow.retry",
        about: "After a failed assertion the stage is tried again, and the model gets the reason.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("workflow-retry", "")?;
            let workflow = format!(
                "{{:stages [{{:id :a :body \"x\" :retry {{:max-attempts 3}} :assert [{{:command \"echo not yet; test -e {0} || {{ touch {0}; false; }}\"}}]}}]}}",
                room.path("tried")
            );
            let mut peer = staged(probe, ECHO, &workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("done"), || format!("the run is told as {told:?}"))?;
            let said = said_to_the_model(&mut peer)?;
            ensure(said.len() == 2, || format!("{} attempts were made", said.len()))?;
            ensure(said.last().is_some_and(|said| said.contains("not yet")), || {
                "the model was not told what was wrong".to_owned()
            })
        },
    },
    Check {
        name: "workflow.attempts-end",
        about: "After the last attempt the stage has failed, and the run reports it.",
        needs: NEEDS,
        run: |probe| {
            let workflow = "{:stages [{:id :a :body \"x\" :retry {:max-attempts 2} :assert [{:command \"false\"}]} {:id :b :body \"never\"}]}";
            let mut peer = staged(probe, ECHO, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("failed"), || format!("the run is told as {told:?}"))?;
            let said = said_to_the_model(&mut peer)?.len();
            ensure(said == 2, || format!("{said} turns were taken"))
        },
    },
    Check {
        name: "workflow.turn-cap",
        about: "A stage's cap of model calls ends its act like any other end.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("workflow-cap", "")?;
            let step =
                call("bash", &format!("{{:command {:?}}}", format!("echo x >> {}", room.path("calls"))));
            let script = format!("{{:turns [{step}] :then :repeat-last}}");
            let workflow = "{:stages [{:id :a :body \"x\" :tools [\"bash\"] :turn-cap 3}]}";
            let mut peer = staged(probe, &script, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("done"), || format!("the run is told as {told:?}"))?;
            let calls = room.read("calls").unwrap_or_default().lines().count();
            ensure(calls == 3, || format!("{calls} calls were made"))
        },
    },
    Check {
        name: "workflow.completion",
        about: "A stage completes with one of its outcomes and a result of its shape; the model gets an error for anything else.",
        needs: NEEDS,
        run: |probe| {
            let script = format!(
                "{{:turns [{} {} {}]}}",
                call("complete-stage", "{:outcome \"fly\" :summary \"s\"}"),
                call("complete-stage", "{:outcome \"good\" :summary 7}"),
                call("complete-stage", "{:outcome \"good\" :summary \"seen\"}"),
            );
            let workflow = "{:stages [{:id :a :body \"x\" :completion {:summary :string} :outcomes [:good :bad] :assert [{:outcome :good} {:result {:summary \"seen\"}}]}]}";
            let mut peer = staged(probe, &script, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            for due in [true, true, false] {
                let result = peer.topic("tool/result")?;
                ensure(payload(&result).get("is-error") == Some(&Value::Bool(due)), || {
                    format!("{:?} is told with :is-error {}", text(payload(&result), "result-text"), !due)
                })?;
            }
            let told = ended(&mut peer)?;
            ensure(!told.contains("failed"), || format!("the run is told as {told:?}"))
        },
    },
    Check {
        name: "workflow.completion-types",
        about: "Each key of a result has the type from the stage.",
        needs: NEEDS,
        run: |probe| {
            let whole = [
                (":s", ":string", "\"text\"", "7"),
                (":i", ":integer", "7", "\"seven\""),
                (":b", ":boolean", "true", "\"yes\""),
                (":ss", ":strings", "[\"a\" \"b\"]", "[\"a\" 7]"),
                (":l", ":list", "[\"a\" 7]", "\"a\""),
                (":m", ":map", "{:a 1}", "[1]"),
            ];
            let arguments = |wrong: Option<usize>| {
                let keys = whole.iter().enumerate().map(|(place, (key, _, fits, misfits))| {
                    format!("{key} {}", if Some(place) == wrong { misfits } else { fits })
                });
                call("complete-stage", &format!("{{{}}}", keys.collect::<Vec<_>>().join(" ")))
            };
            let calls: Vec<String> = (0..whole.len()).map(Some).chain([None]).map(arguments).collect();
            let types: Vec<String> = whole.iter().map(|(key, kind, ..)| format!("{key} {kind}")).collect();
            let workflow =
                format!("{{:stages [{{:id :a :body \"x\" :completion {{{}}}}}]}}", types.join(" "));
            let mut peer = staged(probe, &format!("{{:turns [{}]}}", calls.join(" ")), &workflow)?;
            begin(&mut peer, "/workflow contract")?;
            for (key, ..) in whole {
                let result = peer.topic("tool/result")?;
                ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                    format!("{key} is taken with another type")
                })?;
            }
            let told = ended(&mut peer)?;
            ensure(told.contains("done"), || format!("the run is told as {told:?}"))
        },
    },
    Check {
        name: "workflow.phases",
        about: "Gates and assertions read the stage's facts as EDN, including their phase.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("workflow-phases", "")?;
            let workflow = format!(
                "{{:stages [{{:id :a :body \"x\" :gate [{{:command \"cat > {}\"}}] :assert [{{:command \"cat > {}\"}}]}}]}}",
                room.path("gate"),
                room.path("assert")
            );
            let mut peer = staged(probe, ECHO, &workflow)?;
            begin(&mut peer, "/workflow contract it")?;
            ended(&mut peer)?;
            for (name, phase) in [("gate", "check-gate"), ("assert", "assert")] {
                let seen = room.read(name).unwrap_or_default();
                let facts = crate::edn::read_one(seen.as_bytes())
                    .map_err(|error| Stop::failed(format!("{name} is given no EDN form: {error}")))?;
                ensure(text(&facts, "phase") == phase, || {
                    format!("{name} is told of {:?}", text(&facts, "phase"))
                })?;
                for (key, due) in [("stage", "a"), ("workflow", "contract"), ("arguments", "it")] {
                    ensure(text(&facts, key) == due, || {
                        format!("{name}: :{key} is {:?}", text(&facts, key))
                    })?;
                }
            }
            Ok(())
        },
    },
    Check {
        name: "workflow.over",
        about: "A completed run is not reported as interrupted and cannot be resumed.",
        needs: &[
            Need::Script,
            Need::State,
            Need::Config,
            Need::Op("command"),
            Need::Op("abort"),
            Need::Op("switch_session"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let workflow = "{:stages [{:id :a :body \"x\"}]}";
            let mut peer = staged(probe, ECHO, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            ended(&mut peer)?;
            peer.ask_ok("abort", "{}")?;
            let session = session_of(&mut peer)?;
            peer.close_input();
            peer.wait_exit()?;
            let mut peer = staged(probe, ECHO, workflow)?;
            peer.ask_ok("switch_session", &format!("{{:session-id {session:?}}}"))?;
            let told = command(&mut peer, "/workflow contract --resume")?;
            ensure(text(&told, "type") == "error", || "it goes on with a run that has ended".to_owned())?;
            peer.barrier()?;
            let reported = peer.take_events().iter().any(|event| topic(event) == "ui/notification");
            ensure(!reported, || "it is told as cut off".to_owned())
        },
    },
    Check {
        name: "workflow.gate",
        about: "A stage with a closed gate is skipped: the model is not called.",
        needs: NEEDS,
        run: |probe| {
            let workflow = "{:stages [{:id :a :body \"x\" :gate [{:command \"false\"}]}]}";
            let mut peer = staged(probe, ECHO, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("skipped"), || format!("the run is told as {told:?}"))?;
            let said = said_to_the_model(&mut peer)?;
            ensure(said.is_empty(), || format!("the model was told {said:?}"))
        },
    },
    Check {
        name: "workflow.gate-open",
        about: "A stage with an open gate runs.",
        needs: NEEDS,
        run: |probe| {
            let mut peer =
                staged(probe, ECHO, "{:stages [{:id :a :body \"x\" :gate [{:command \"true\"}]}]}")?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("done"), || format!("the run is told as {told:?}"))?;
            ensure(said_to_the_model(&mut peer)?.len() == 1, || "the model was not asked".to_owned())
        },
    },
    Check {
        name: "workflow.confirm",
        about: "A gate may ask the person; yes opens it, no closes it, and an invalid answer is refused.",
        needs: NEEDS,
        run: |probe| {
            for (ok, due) in [(true, "done"), (false, "skipped")] {
                let mut peer = staged(probe, ECHO, CONFIRM)?;
                begin(&mut peer, "/workflow contract")?;
                let question = peer.topic("interaction/requested")?;
                let asked = payload(&question);
                ensure(text(asked, "kind") == "confirm", || {
                    format!("the kind is {:?}", text(asked, "kind"))
                })?;
                let confirm = asked.get("payload").cloned().unwrap_or(Value::Nil);
                ensure(text(&confirm, "prompt") == "Really?", || "the question is lost".to_owned())?;
                ensure(confirm.get("default").and_then(Value::as_bool).is_some(), || {
                    "there is no :default".to_owned()
                })?;
                let id = text(asked, "interaction-id").to_owned();
                let params =
                    format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:ok \"yes\"}}}}");
                peer.ask_error("interaction_respond", &params, "request/invalid-params")?;
                respond(&mut peer, &question, "accepted", &format!("{{:ok {ok}}}"))?;
                let told = ended(&mut peer)?;
                ensure(told.contains(due), || format!("after {ok} the run is told as {told:?}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "workflow.confirm-headless",
        about: "Without an interactor a gate with a question stays closed.",
        needs: NEEDS,
        run: |probe| {
            let mut peer = probe.configured(ECHO, &with_workflow(CONFIRM), &[])?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("skipped"), || format!("the run is told as {told:?}"))
        },
    },
    Check {
        name: "workflow.time-limit",
        about: "A question stays open no longer than its stage permits; a later answer is too late.",
        needs: NEEDS,
        run: |probe| {
            let workflow =
                "{:stages [{:id :a :body \"x\" :gate [{:confirm \"Really?\"}] :interaction-timeout-ms 100}]}";
            let mut peer = staged(probe, ECHO, workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let question = peer.topic("interaction/requested")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("skipped"), || format!("the run is told as {told:?}"))?;
            late(&mut peer, &question)
        },
    },
    Check {
        name: "workflow.group",
        about: "Siblings of a group run in parallel in sessions below the run's, then the join gets the result of each.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("command"),
            Need::Op("list_sessions"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: group,
    },
    Check {
        name: "workflow.group-fails",
        about: "One sibling's failure ends its group: the others are ended, and the join does not run.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("workflow-fails", "")?;
            let slow = format!(
                "touch {}; while [ ! -e {} ]; do sleep 0.01; done",
                room.path("began"),
                room.path("never")
            );
            let step = call("bash", &format!("{{:command {slow:?}}}"));
            let workflow = format!(
                "{{:stages [{{:id :g :parallel [{{:id :slow :body \"x\" :tools [\"bash\"]}} \
                 {{:id :bad :body \"x\" :gate [{{:command \"while [ ! -e {} ]; do sleep 0.01; done; false\"}}]}}] \
                 :join {{:id :j :body \"x\" :gate [{{:command \"touch {}\"}}]}}}}]}}",
                room.path("began"),
                room.path("joined")
            );
            let mut peer = staged(probe, &format!("{{:turns [{step}] :then :repeat-last}}"), &workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("failed"), || format!("the run is told as {told:?}"))?;
            ensure(room.read("joined").is_none(), || "the join ran".to_owned())
        },
    },
    Check {
        name: "workflow.abort",
        about: "`abort` ends a run with its turn; no later stage starts, and the session is idle again.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("command"),
            Need::Op("abort"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let step = call("bash", "{:command \"sleep 1000\"}");
            let workflow = "{:stages [{:id :a :body \"x\" :tools [\"bash\"]} {:id :b :body \"later\"}]}";
            let mut peer = staged(probe, &format!("{{:turns [{step}]}}"), workflow)?;
            begin(&mut peer, "/workflow contract")?;
            peer.topic("tool/executing")?;
            peer.ask_ok("abort", "{}")?;
            let told = ended(&mut peer)?;
            ensure(told.contains("aborted"), || format!("the run is told as {told:?}"))?;
            let said = said_to_the_model(&mut peer)?.len();
            ensure(said == 1, || format!("{said} stages began"))
        },
    },
    Check {
        name: "workflow.unknown",
        about: "An unknown workflow is reported as an error, and nothing runs.",
        needs: NEEDS,
        run: |probe| {
            let mut peer = staged(probe, ECHO, CONFIRM)?;
            let told = command(&mut peer, "/workflow no-such-workflow")?;
            ensure(text(&told, "type") == "error", || "it is taken".to_owned())?;
            ensure(text(&told, "message").contains("no-such-workflow"), || "it is not named".to_owned())?;
            idle(&mut peer)
        },
    },
    Check {
        name: "workflow.misfit",
        about: "An invalid workflow file is reported with the place and the error, and nothing runs.",
        needs: NEEDS,
        run: |probe| {
            for (workflow, place) in [
                ("{:stages\n [{:id :a :body \"x\"\n   :tool []}]}", "3:"),
                ("{:stages\n [{:id :a}]}", "2:"),
                ("{:stages [{:id :a :body \"x\" :next :b}]}", "1:"),
                ("{:stages\n\n  [}", "3:"),
            ] {
                let mut peer = staged(probe, ECHO, workflow)?;
                let told = command(&mut peer, "/workflow contract")?;
                ensure(text(&told, "type") == "error", || format!("{workflow} is taken"))?;
                ensure(text(&told, "message").contains(place), || {
                    format!("the place {place} is not told: {:?}", text(&told, "message"))
                })?;
                idle(&mut peer)?;
            }
            Ok(())
        },
    },
    Check {
        name: "workflow.cut-off",
        about: "A run that ended with its process is reported as interrupted; nothing is repeated until the person resumes it, starting with the interrupted stage.",
        needs: &[
            Need::Script,
            Need::State,
            Need::Config,
            Need::Op("command"),
            Need::Op("switch_session"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: cut_off,
    },
];

/// A stage that asks before it starts.
const CONFIRM: &str = "{:stages [{:id :a :body \"x\" :gate [{:confirm \"Really?\"}]}]}";

/// A configuration with one workflow, named `contract`.
pub(super) fn with_workflow(workflow: &str) -> Config {
    Config { workflows: vec![("contract", workflow.to_owned())], ..Config::default() }
}

/// A server with that workflow, whose client answers questions.
pub(super) fn staged(probe: &Probe<'_>, script: &str, workflow: &str) -> Result<Peer, Stop> {
    probe.configured(script, &with_workflow(workflow), &["interactor"])
}

/// An answer of the model with one call.
pub(super) fn call(tool: &str, arguments: &str) -> String {
    format!("{{:steps [{{:tool-call {{:name {tool:?} :arguments {arguments}}}}}]}}")
}

/// Sends a command and returns its outcome.
fn command(peer: &mut Peer, line: &str) -> Result<Value<'static>, Stop> {
    peer.ask_ok("command", &format!("{{:text {line:?}}}"))?;
    Ok(payload(&peer.topic("command-result")?).clone())
}

/// Starts a run.
pub(super) fn begin(peer: &mut Peer, line: &str) -> Result<(), Stop> {
    let told = command(peer, line)?;
    ensure(text(&told, "type") != "error", || format!("it does not begin: {}", text(&told, "message")))
}

/// Waits for the end of a run and returns the message to the person.
pub(super) fn ended(peer: &mut Peer) -> Result<String, Stop> {
    let told = peer.event("ui/notification that tells the end", |topic, payload| {
        topic == "ui/notification" && text(payload, "message").contains("ended")
    })?;
    idle(peer)?;
    peer.barrier()?;
    Ok(text(payload(&told), "message").to_owned())
}

/// The user messages in the conversation: one per attempt of a stage.
fn said_to_the_model(peer: &mut Peer) -> Result<Vec<String>, Stop> {
    let kept = messages(peer, "{}")?;
    Ok(kept.iter().filter(|message| text(message, "role") == "user").map(words).collect())
}

fn stages(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("workflow-stages", "")?;
    let script = format!(
        "{{:turns [{} {{:steps [{{:delta \"said\"}}]}}]}}",
        call("complete-stage", "{:outcome \"good\" :summary \"seen it\"}")
    );
    let workflow = format!(
        "{{:stages [{{:id :look :body \"Look at {{{{args}}}}.\" :completion {{:summary :string}} :outcomes [:good :bad] \
           :next {{:good :tell, :bad :never}}}} \
          {{:id :never :body \"x\" :gate [{{:command \"touch {}\"}}]}} \
          {{:id :tell :body \"Tell {{{{results.look}}}}.\" :assert [{{:command \"cat > {}\"}}] :next :end}} \
          {{:id :after :body \"x\" :gate [{{:command \"touch {}\"}}]}}]}}",
        room.path("never"),
        room.path("facts"),
        room.path("after"),
    );
    let mut peer = staged(probe, &script, &workflow)?;
    begin(&mut peer, "/workflow contract the code")?;
    let told = ended(&mut peer)?;
    ensure(told.contains("done"), || format!("the run is told as {told:?}"))?;
    ensure(room.read("never").is_none() && room.read("after").is_none(), || {
        "a stage ran that no outcome leads to".to_owned()
    })?;
    let facts = room.read("facts").unwrap_or_default();
    for due in ["the code", "seen it", "said"] {
        ensure(facts.contains(due), || format!("{due:?} is not among the facts {facts:?}"))?;
    }
    let said = said_to_the_model(&mut peer)?.len();
    ensure(said == 2, || format!("{said} turns were taken"))
}

fn group(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("workflow-group", "")?;
    let found = call("complete-stage", "{:found \"f\"}");
    let script = format!("{{:turns [{found}] :then :repeat-last}}");
    // Each waits for the other; in sequence they would never start.
    let sibling = |own: &str, other: &str| {
        format!(
            "{{:id :{own} :body \"x\" :completion {{:found :string}} \
              :gate [{{:command \"touch {}; while [ ! -e {} ]; do sleep 0.01; done\"}}]}}",
            room.path(own),
            room.path(other)
        )
    };
    let workflow = format!(
        "{{:stages [{{:id :readers :parallel [{} {}] \
          :join {{:id :both :body \"{{{{results}}}}\" :completion {{:found :string}} :assert [{{:command \"cat > {}\"}}]}}}}]}}",
        sibling("one", "two"),
        sibling("two", "one"),
        room.path("facts")
    );
    let mut peer = staged(probe, &script, &workflow)?;
    let session = session_of(&mut peer)?;
    begin(&mut peer, "/workflow contract")?;
    let told = ended(&mut peer)?;
    ensure(told.contains("done"), || format!("the run is told as {told:?}"))?;
    let facts = room.read("facts").unwrap_or_default();
    ensure(facts.contains(":one") && facts.contains(":two"), || format!("the join is told {facts:?}"))?;
    let data = peer.ask_ok("list_sessions", "{}")?;
    let slots = data.get("sessions").and_then(Value::as_slice).unwrap_or_default();
    let below = slots.iter().filter(|slot| text(slot, "parent-session-id") == session).count();
    ensure(below == 2, || format!("{below} sessions stand below the run's"))?;
    let widgets: Vec<String> = peer
        .take_events()
        .iter()
        .filter(|event| topic(event) == "ui/widgets-updated")
        .map(|event| crate::edn::to_string(payload(event)))
        .collect();
    ensure(widgets.last().is_some_and(|shown| shown.contains("one") && shown.contains("both")), || {
        "the widget does not show the group".to_owned()
    })
}

fn cut_off(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("workflow-cut-off", "")?;
    let workflow = format!(
        "{{:stages [{{:id :first :body \"x\" :assert [{{:command \"echo x >> {}\"}}]}} \
          {{:id :second :body \"x\" :gate [{{:confirm \"Really?\"}}]}}]}}",
        room.path("first")
    );
    let mut peer = staged(probe, ECHO, &workflow)?;
    begin(&mut peer, "/workflow contract it")?;
    peer.topic("interaction/requested")?;
    let session = session_of(&mut peer)?;
    peer.kill();
    let mut peer = staged(probe, ECHO, &workflow)?;
    peer.ask_ok("switch_session", &format!("{{:session-id {session:?}}}"))?;
    peer.event("ui/notification of the run that was cut off", |topic, payload| {
        topic == "ui/notification" && text(payload, "message").contains("interrupted")
    })?;
    idle(&mut peer)?;
    begin(&mut peer, "/workflow contract --resume")?;
    let question = peer.topic("interaction/requested")?;
    respond(&mut peer, &question, "accepted", "{:ok true}")?;
    let told = ended(&mut peer)?;
    ensure(told.contains("done"), || format!("the run is told as {told:?}"))?;
    let first = room.read("first");
    ensure(first.as_deref() == Some("x\n"), || format!("the first stage ran again: {first:?}"))
}
