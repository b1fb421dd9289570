//! Checks of questions to the user: asked, answered, refused and late ones, dialogs, and questions without a
//! client.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Peer, payload, topic};
use super::super::rules::INTERACTION_KINDS;
use super::sessions::{idle, last_answer};
use super::tools::{CALL, CALLS, caller};
use crate::value::Value;

pub(super) const QUESTIONS: &[Need] =
    &[Need::Script, Need::Op("prompt"), Need::Op("interaction_respond"), Need::Feature("interactor")];
const DIALOGS: &[Need] =
    &[Need::Script, Need::Op("prompt"), Need::Op("resolve_dialog"), Need::Op("cancel_dialog")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "interaction.asked",
        about: "A call that needs approval asks the interactor: with an id of its own, the turn's correlation id, and the payload of its kind.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            let asked = payload(&question);
            ensure(text(asked, "kind") == "approve", || format!("the kind is {:?}", text(asked, "kind")))?;
            ensure(!text(asked, "correlation-id").is_empty(), || ":correlation-id is missing".to_owned())?;
            let approve = asked.get("payload").cloned().unwrap_or(Value::Nil);
            for key in ["tool", "tool-id", "call-summary"] {
                ensure(!text(&approve, key).is_empty(), || format!("the payload has no :{key}"))?;
            }
            ensure(text(&approve, "command").contains("echo contract"), || {
                "the command is not shown".to_owned()
            })
        },
    },
    Check {
        name: "interaction.warned",
        about: "A question whose command holds hidden characters carries :warnings, and the command as it is; one without them carries none.",
        needs: QUESTIONS,
        run: |probe| {
            let warned = asked_about(probe, "echo \u{202e}\u{200b}contract")?;
            let warnings = warned.get("warnings").and_then(Value::as_slice).unwrap_or_default();
            ensure(warnings.len() == 2 && warnings.iter().all(|warning| warning.as_str().is_some()), || {
                format!(":warnings are {warnings:?}")
            })?;
            ensure(text(&warned, "command").contains("\u{202e}\u{200b}"), || {
                "the command is another".to_owned()
            })?;
            ensure(asked_about(probe, "echo contract")?.get("warnings").is_none(), || {
                "there is a warning about nothing".to_owned()
            })
        },
    },
    Check {
        name: "interaction.approved",
        about: "An approval lets the call run; everybody is told by interaction/answered.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            let told = peer.topic("interaction/answered")?;
            ensure(
                text(payload(&told), "interaction-id") == text(payload(&question), "interaction-id"),
                || "another question is told".to_owned(),
            )?;
            ensure(
                text(payload(&told), "correlation-id") == text(payload(&question), "correlation-id"),
                || "the correlation id is another".to_owned(),
            )?;
            let result = peer.topic("tool/result")?;
            ensure(text(payload(&result), "result-text").contains("contract"), || {
                "the call did not run".to_owned()
            })
        },
    },
    Check {
        name: "interaction.denied",
        about: "A denial reaches the model as a result with :is-error true and the note in its text.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            let id = text(payload(&question), "interaction-id").to_owned();
            let params = format!(
                "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"deny\" :scope \"once\"}} :note \"use the other one\"}}"
            );
            peer.ask_ok("interaction_respond", &params)?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                ":is-error is not true".to_owned()
            })?;
            ensure(text(payload(&result), "result-text").contains("use the other one"), || {
                "the note is lost".to_owned()
            })?;
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "interaction.cancelled",
        about: "A question that is cancelled is over, and everybody is told.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "cancelled", "nil")?;
            let told = peer.topic("interaction/answered")?;
            ensure(text(payload(&told), "status") == "cancelled", || {
                "it is not told as cancelled".to_owned()
            })?;
            late(&mut peer, &question)
        },
    },
    Check {
        name: "interaction.late",
        about: "The first answer wins; a later one is request/interaction-already-answered.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            late(&mut peer, &question)
        },
    },
    Check {
        name: "interaction.misshapen",
        about: "An answer of another shape is request/invalid-params, and the question stays open.",
        needs: QUESTIONS,
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            let id = text(payload(&question), "interaction-id").to_owned();
            for value in ["{:outcome \"maybe\"}", "{:ok true}", "{}"] {
                let params = format!("{{:interaction-id {id:?} :status \"accepted\" :value {value}}}");
                peer.ask_error("interaction_respond", &params, "request/invalid-params")?;
            }
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")
        },
    },
    Check {
        name: "interaction.kinds",
        about: "Every question is of one of the eight kinds.",
        needs: QUESTIONS,
        run: |probe| {
            for call in [
                "{:name \"bash\" :arguments {:command \"echo contract\"}}",
                "{:name \"ask-user\" :arguments {:question \"What?\"}}",
            ] {
                let script = format!(
                    "{{:turns [{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"done\"}}]}}]}}"
                );
                let mut peer = interactor(probe, &script)?;
                peer.ask_ok("prompt", "{:message \"call\"}")?;
                let question = peer.topic("interaction/requested")?;
                let kind = text(payload(&question), "kind").to_owned();
                ensure(INTERACTION_KINDS.iter().any(|(known, _)| *known == kind), || {
                    format!("{kind:?} is not a kind")
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "interaction.unknown",
        about: "An answer to no question is request/not-found.",
        needs: &[Need::Op("interaction_respond")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let params = "{:interaction-id \"no-such-question\" :status \"cancelled\"}";
            peer.ask_error("interaction_respond", params, "request/not-found").map(|_| ())
        },
    },
    Check {
        name: "interaction.ask",
        about: "A free question is answered with text, and the model gets it.",
        needs: QUESTIONS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"ask-user\" :arguments {:question \"What colour?\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = interactor(probe, script)?;
            peer.ask_ok("prompt", "{:message \"ask me\"}")?;
            let question = peer.topic("interaction/requested")?;
            ensure(text(payload(&question), "kind") == "ask", || "the kind is another".to_owned())?;
            let prompt = payload(&question).get("payload").map(|asked| text(asked, "prompt").to_owned());
            ensure(prompt.is_some_and(|prompt| prompt.contains("What colour?")), || {
                "the question is lost".to_owned()
            })?;
            respond(&mut peer, &question, "accepted", "{:text \"green\"}")?;
            let result = peer.topic("tool/result")?;
            ensure(text(payload(&result), "result-text").contains("green"), || {
                "the answer is lost".to_owned()
            })
        },
    },
    Check {
        name: "interaction.select",
        about: "A question with options is answered with the place of one.",
        needs: QUESTIONS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"ask-user\" :arguments {:question \"Which?\" :options [\"red\" \"green\"]}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = interactor(probe, script)?;
            peer.ask_ok("prompt", "{:message \"ask me\"}")?;
            let question = peer.topic("interaction/requested")?;
            ensure(text(payload(&question), "kind") == "select", || {
                format!("the kind is {:?}", text(payload(&question), "kind"))
            })?;
            let options = payload(&question)
                .get("payload")
                .and_then(|asked| asked.get("options"))
                .and_then(Value::as_slice)
                .map_or(0, <[_]>::len);
            ensure(options == 2, || format!("{options} options are offered"))?;
            respond(&mut peer, &question, "accepted", "{:index 1}")?;
            let result = peer.topic("tool/result")?;
            ensure(text(payload(&result), "result-text").contains("green"), || {
                "the choice is lost".to_owned()
            })
        },
    },
    Check {
        name: "interaction.one-at-a-time",
        about: "An interactor is asked the next question when this one is answered, in call order.",
        needs: QUESTIONS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:id \"one\" :name \"bash\" :arguments {:command \"echo 1\"}}} \
                          {:tool-call {:id \"two\" :name \"bash\" :arguments {:command \"echo 2\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = interactor(probe, script)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            for due in ["one", "two"] {
                let question = peer.topic("interaction/requested")?;
                let tool = payload(&question).get("payload").map(|asked| text(asked, "tool-id").to_owned());
                ensure(tool.as_deref() == Some(due), || format!("{tool:?} is asked for where {due} is due"))?;
                peer.barrier()?;
                let more = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
                ensure(!more, || "two questions are open".to_owned())?;
                respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            }
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "interaction.ends-with-the-turn",
        about: "`abort` while a question is open withdraws it.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("abort"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            peer.ask_ok("abort", "{}")?;
            idle(&mut peer)?;
            late(&mut peer, &question)
        },
    },
    Check {
        name: "interaction.headless",
        about: "Where nobody can be asked the turn halts with permission-required, naming the kind and what to do.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(CALL))?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let event = peer.event("a word of permission-required", |_, payload| {
                let said = crate::edn::to_string(payload);
                said.contains("permission-required")
            })?;
            let said = crate::edn::to_string(payload(&event));
            ensure(said.contains("approve"), || format!("the kind is not named in {said}"))?;
            idle(&mut peer)
        },
    },
    Check {
        name: "interaction.unattended",
        about: "With everything allowed and nobody there a text is answered with the empty one and a choice with the first.",
        needs: CALLS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"ask-user\" :arguments {:question \"What?\"}}} \
                          {:tool-call {:name \"ask-user\" :arguments {:question \"Which?\" :options [\"red\" \"green\"]}}}]} \
                          {:steps [{:delta \"done\"}]}]}";
            let mut peer = caller(probe, script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"ask me\"}")?;
            for due in ["", "red"] {
                let result = peer.topic("tool/result")?;
                let said = text(payload(&result), "result-text");
                ensure(said == due, || format!("{said:?} is the answer where {due:?} is due"))?;
                ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
                    "the question failed".to_owned()
                })?;
            }
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "interaction.unattended-login",
        about: "What only a person can know is not made up: with everything allowed a login without anybody there is not completed.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("set_mode"),
            Need::Op("command"),
            Need::Op("login_complete"),
        ],
        run: |probe| {
            let mut peer = probe.configured(CALL, &super::logins::keyed(), &[])?;
            peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
            peer.ask_ok("command", "{:text \"/login k\"}")?;
            let told = peer.topic("command-result")?;
            ensure(text(payload(&told), "type") == "login_start", || "it did not begin".to_owned())?;
            peer.barrier()?;
            let more = peer.take_events().into_iter().find(|event| topic(event) == "command-result");
            ensure(more.is_none(), || "it went on without anybody".to_owned())?;
            // It waits for the frontend, like a login of the op.
            peer.ask_ok("login_complete", "{:input \"sk-contract\"}").map(|_| ())
        },
    },
    Check {
        name: "interaction.subscribing-makes-none",
        about: "Subscribing to everything makes no interactor; naming the dialog topic does.",
        needs: DIALOGS,
        run: |probe| {
            let mut peer = probe.subscribed(Some(CALL))?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            idle(&mut peer)?;
            peer.barrier()?;
            let asked = peer.take_events().iter().any(|event| topic(event) == "ui/dialog-requested");
            ensure(!asked, || "a client was asked that is not an interactor".to_owned())?;
            let mut peer = dialogs(probe)?;
            peer.topic("ui/dialog-requested").map(|_| ())
        },
    },
    Check {
        name: "dialog.resolved",
        about: "A client that knows only dialogs gets a projection of the question and answers it.",
        needs: DIALOGS,
        run: |probe| {
            let mut peer = dialogs(probe)?;
            let dialog = peer.topic("ui/dialog-requested")?;
            let kind = text(payload(&dialog), "kind").to_owned();
            ensure(kind == "select", || format!("an approval is projected as {kind:?}"))?;
            let options = payload(&dialog).get("options").and_then(Value::as_slice).unwrap_or_default();
            let first = options.first().and_then(|option| option.get("value")).cloned().unwrap_or(Value::Nil);
            let id = text(payload(&dialog), "dialog-id").to_owned();
            let params = format!("{{:dialog-id {id:?} :result {}}}", crate::edn::to_string(&first));
            peer.ask_ok("resolve_dialog", &params)?;
            let result = peer.topic("tool/result")?;
            ensure(text(payload(&result), "result-text").contains("contract"), || {
                "the first option does not approve".to_owned()
            })
        },
    },
    Check {
        name: "dialog.cancelled",
        about: "A dialog that is cancelled ends the question.",
        needs: DIALOGS,
        run: |probe| {
            let mut peer = dialogs(probe)?;
            let dialog = peer.topic("ui/dialog-requested")?;
            let id = text(payload(&dialog), "dialog-id").to_owned();
            peer.ask_ok("cancel_dialog", &format!("{{:dialog-id {id:?}}}"))?;
            idle(&mut peer)
        },
    },
    Check {
        name: "dialog.none",
        about: "An answer where no dialog is open is request/no-active-dialog.",
        needs: &[Need::Op("resolve_dialog"), Need::Op("cancel_dialog")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_error(
                "resolve_dialog",
                "{:dialog-id \"none\" :result true}",
                "request/no-active-dialog",
            )?;
            peer.ask_error("cancel_dialog", "{:dialog-id \"none\"}", "request/no-active-dialog").map(|_| ())
        },
    },
    Check {
        name: "dialog.another",
        about: "An answer to another dialog than the open one is request/dialog-id-mismatch.",
        needs: DIALOGS,
        run: |probe| {
            let mut peer = dialogs(probe)?;
            peer.topic("ui/dialog-requested")?;
            peer.ask_error(
                "resolve_dialog",
                "{:dialog-id \"another\" :result true}",
                "request/dialog-id-mismatch",
            )?;
            peer.ask_error("cancel_dialog", "{:dialog-id \"another\"}", "request/dialog-id-mismatch")
                .map(|_| ())
        },
    },
];

/// What is asked about a command that the model wants to run.
fn asked_about(probe: &Probe<'_>, command: &str) -> Result<Value<'static>, Stop> {
    let script = format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command \"{command}\"}}}}}}]}} \
         {{:steps [{{:delta \"done\"}}]}}]}}"
    );
    let mut peer = interactor(probe, &script)?;
    peer.ask_ok("prompt", "{:message \"call\"}")?;
    let question = peer.topic("interaction/requested")?;
    Ok(payload(&question).get("payload").cloned().unwrap_or(Value::Nil))
}

/// A server whose client answers typed questions.
pub(super) fn interactor(probe: &Probe<'_>, script: &str) -> Result<Peer, Stop> {
    let mut peer = probe.ready_with(Some(script), &["interactor"])?;
    peer.ask_ok("subscribe", "{}")?;
    Ok(peer)
}

/// A server whose client supports only dialogs, with a question on its way.
fn dialogs(probe: &Probe<'_>) -> Result<Peer, Stop> {
    let mut peer = probe.ready_with(Some(CALL), &[])?;
    let topics = "[\"ui/dialog-requested\" \"tool/result\" \"assistant/message\" \"session/updated\"]";
    peer.ask_ok("subscribe", &format!("{{:topics {topics}}}"))?;
    peer.ask_ok("prompt", "{:message \"call\"}")?;
    Ok(peer)
}

pub(super) fn respond(
    peer: &mut Peer,
    question: &Value<'static>,
    status: &str,
    value: &str,
) -> Result<(), Stop> {
    let id = text(payload(question), "interaction-id").to_owned();
    let value = if value == "nil" { String::new() } else { format!(":value {value}") };
    let data = peer
        .ask_ok("interaction_respond", &format!("{{:interaction-id {id:?} :status {status:?} {value}}}"))?;
    ensure(data.get("accepted") == Some(&Value::Bool(true)), || ":accepted is not true".to_owned())
}

pub(super) fn late(peer: &mut Peer, question: &Value<'static>) -> Result<(), Stop> {
    let id = text(payload(question), "interaction-id").to_owned();
    let params = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"deny\" :scope \"once\"}}}}"
    );
    peer.ask_error("interaction_respond", &params, "request/interaction-already-answered").map(|_| ())
}
