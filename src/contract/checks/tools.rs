//! Tool calls, modes, questions to the user, jobs and outputs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Peer, payload, topic};
use super::super::rules::INTERACTION_KINDS;
use super::sessions::{idle, last_answer, talk};
use crate::value::Value;

/// A call that echoes a word, then an answer.
pub(super) const ECHO_CALL: &str = "{:turns [{:steps [{:tool-call {:id \"call-1\" :name \"bash\" \
                                    :arguments {:command \"echo contract\"}}}]} {:steps [{:delta \"done\"}]}]}";

/// A call that writes a file outside of any workspace, then an answer.
pub(super) const CALL: &str = "{:turns [{:steps [{:tool-call {:id \"call-1\" :name \"bash\" :arguments {:command \"echo contract\"}}}]} \
                    {:steps [{:delta \"done\"}]}] :then :repeat-last}";

const CALLS: &[Need] = &[Need::Script, Need::Op("prompt"), Need::Op("set_mode")];
pub(super) const QUESTIONS: &[Need] =
    &[Need::Script, Need::Op("prompt"), Need::Op("interaction_respond"), Need::Feature("interactor")];
const DIALOGS: &[Need] =
    &[Need::Script, Need::Op("prompt"), Need::Op("resolve_dialog"), Need::Op("cancel_dialog")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "tool.lifecycle",
        about: "A call is told by tool/start, tool/executing and tool/result, in this order, and the model goes on with its result.",
        needs: CALLS,
        run: |probe| {
            let mut peer = caller(probe, CALL, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let mut last = 0;
            for name in ["tool/start", "tool/executing", "tool/result"] {
                let event = peer.topic(name)?;
                let seq = event.get("seq").and_then(Value::as_i64).unwrap_or(i64::MAX);
                ensure(seq > last, || format!("{name} came too early"))?;
                last = seq;
                ensure(text(payload(&event), "tool-id") == "call-1", || {
                    format!("{name} tells another call")
                })?;
                ensure(text(payload(&event), "tool-name") == "bash", || {
                    format!("{name} tells another tool")
                })?;
                if name == "tool/result" {
                    ensure(payload(&event).get("is-error") == Some(&Value::Bool(false)), || {
                        "the call failed".to_owned()
                    })?;
                    ensure(text(payload(&event), "result-text").contains("contract"), || {
                        "the output is lost".to_owned()
                    })?;
                }
            }
            let said = last_answer(&mut peer)?;
            ensure(said == "done", || format!("the model went on with {said:?}"))
        },
    },
    Check {
        name: "tool.failure",
        about: "A call that fails has :is-error true in its result, and the turn goes on.",
        needs: CALLS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"read\" :arguments {:path \"no/such/file\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = caller(probe, script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                ":is-error is not true".to_owned()
            })?;
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "tool.unknown",
        about: "A call of a tool that does not exist, or with arguments that do not fit, is told to the model as an error.",
        needs: CALLS,
        run: |probe| {
            for call in ["{:name \"no-such-tool\" :arguments {}}", "{:name \"read\" :arguments {:path 42}}"] {
                let script = format!(
                    "{{:turns [{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"done\"}}]}}]}}"
                );
                let mut peer = caller(probe, &script, "yolo")?;
                peer.ask_ok("prompt", "{:message \"call\"}")?;
                let result = peer.topic("tool/result")?;
                ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                    ":is-error is not true".to_owned()
                })?;
                last_answer(&mut peer)?;
            }
            Ok(())
        },
    },
    Check {
        name: "tool.parallel",
        about: "Calls of one response run side by side, and their results go back in call order.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("get_messages")],
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:id \"slow\" :name \"bash\" :arguments {:command \"sleep 1; echo slow\"}}} \
                          {:tool-call {:id \"fast\" :name \"bash\" :arguments {:command \"echo fast\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = caller(probe, script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            last_answer(&mut peer)?;
            let kept = super::sessions::messages(&mut peer, "{}")?;
            let order: Vec<&str> =
                kept.iter().filter(|m| text(m, "role") == "tool").map(|m| text(m, "tool-call-id")).collect();
            ensure(order == ["slow", "fast"], || format!("the results went back as {order:?}"))
        },
    },
    Check {
        name: "tool.arguments-stream",
        about: "tool/delta carries the arguments in pieces, only what is new.",
        needs: CALLS,
        run: |probe| {
            let mut peer = caller(probe, CALL, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            last_answer(&mut peer)?;
            let events = peer.take_events();
            let pieces: Vec<&str> = events
                .iter()
                .filter(|e| topic(e) == "tool/delta")
                .map(|e| text(payload(e), "arguments"))
                .collect();
            if pieces.is_empty() {
                return Err(Stop::NotApplicable("the model's arguments did not come in pieces".to_owned()));
            }
            ensure(pieces.concat().contains("echo contract"), || {
                format!("the pieces say {:?}", pieces.concat())
            })
        },
    },
    Check {
        name: "tool.output-streams",
        about: "tool/update carries the bounded end of the output so far while a call runs.",
        needs: CALLS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = caller(probe, script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let update = peer.topic("tool/update")?;
            let shown = text(payload(&update), "result-text");
            ensure(shown.contains("line 1") && shown.len() <= 8192, || {
                format!("the update shows {shown:?}")
            })?;
            peer.topic("tool/result").map(|_| ())
        },
    },
    Check {
        name: "tool.long-output",
        about: "An output that is too long for a result is cut, and the rest is read by its handle.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("read_output")],
        run: long_output,
    },
    Check {
        name: "tool.update-rate",
        about: "tool/update comes at most ten times a second a call.",
        needs: CALLS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"for i in $(seq 1 300); do echo $i; sleep 0.005; done\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = caller(probe, script, "yolo")?;
            let begun = Instant::now();
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            peer.topic("tool/result")?;
            let tenths = begun.elapsed().as_millis().checked_div(100).unwrap_or_default();
            let updates = peer.take_events().iter().filter(|event| topic(event) == "tool/update").count();
            ensure(u128::try_from(updates).is_ok_and(|updates| updates <= tenths.saturating_add(2)), || {
                format!("{updates} updates came in {tenths} tenths of a second")
            })
        },
    },
    Check {
        name: "tool.parallel-bound",
        about: "No more than four calls of one response run at once.",
        needs: CALLS,
        run: |probe| {
            // Results come in the order of the calls, so events do not tell how many run: the calls count
            // each other.
            let room = std::env::temp_dir().join(format!("edn-bridge-bound-{}", std::process::id()));
            let room = room.display();
            let call = |n: u32| {
                let command = format!(
                    "mkdir -p {room}/{n} && ls {room} | wc -l; sleep 0.1; rmdir {room}/{n}; rmdir {room} || true"
                );
                format!("{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}")
            };
            let calls: Vec<String> = (0..7).map(call).collect();
            let script =
                format!("{{:turns [{{:steps [{}]}} {{:steps [{{:delta \"done\"}}]}}]}}", calls.join(" "));
            let mut peer = caller(probe, &script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let mut most = 0;
            for _ in 0..7 {
                let event = peer.event("tool/result", |topic, _| topic == "tool/result")?;
                let said = event.get("data").and_then(|data| data.get("result-text")).and_then(Value::as_str);
                let counted = said.and_then(|said| said.split_whitespace().next()?.parse::<usize>().ok());
                most = most.max(counted.unwrap_or(0));
            }
            ensure((1..=4).contains(&most), || format!("{most} calls ran at once"))
        },
    },
    Check {
        name: "tool.read",
        about: "`read` reads a file, a range of its lines where one is asked for.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("read", "one\ntwo\nthree\n")?;
            let said = room.call(probe, "read", "")?;
            ensure(said.contains("one") && said.contains("three"), || format!("it reads {said:?}"))?;
            let said = room.call(probe, "read", ":offset 2 :limit 1")?;
            ensure(said.contains("two") && !said.contains("three"), || format!("the range reads {said:?}"))
        },
    },
    Check {
        name: "tool.write",
        about: "`write` writes a file.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("write", "before")?;
            room.call(probe, "write", ":content \"after λ\"")?;
            let held = room.held()?;
            ensure(held == "after λ", || format!("the file holds {held:?}"))
        },
    },
    Check {
        name: "tool.edit",
        about: "`edit` replaces what matches once, several at once, and changes nothing where one does not.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("edit", "a b c c")?;
            room.call(probe, "edit", ":edits [{:old \"a\" :new \"A\"} {:old \"b\" :new \"B\"}]")?;
            let held = room.held()?;
            ensure(held == "A B c c", || format!("the file holds {held:?}"))?;
            for misfit in [
                ":edits [{:old \"A\" :new \"X\"} {:old \"c\" :new \"Y\"}]",
                ":edits [{:old \"z\" :new \"y\"}]",
            ] {
                ensure(room.call(probe, "edit", misfit).is_err(), || format!("{misfit} is taken"))?;
            }
            let held = room.held()?;
            ensure(held == "A B c c", || format!("a refused edit left {held:?}"))
        },
    },
    Check {
        name: "tool.search",
        about: "`search` finds lines by a pattern.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("search", "needle one\nhay\nneedle two\n")?;
            let said = room.call(probe, "search", ":pattern \"needle\"")?;
            ensure(
                said.contains("needle one") && said.contains("needle two") && !said.contains("hay"),
                || format!("it finds {said:?}"),
            )
        },
    },
    Check {
        name: "tool.find",
        about: "`find` finds files by their names.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("find", "")?;
            let said = room.call_in_folder(probe, "find", ":glob \"*.txt\"")?;
            ensure(said.contains("file.txt"), || format!("it finds {said:?}"))
        },
    },
    Check {
        name: "tool.delegate",
        about: "`delegate` asks once for the child's tools; a refusal is a result of its own that the model gets.",
        needs: QUESTIONS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"delegate\" :arguments {:task \"look around\" :tools [\"read\"]}}}]} {:steps [{:delta \"done\"}]}] :then :repeat-last}";
            let mut peer = interactor(probe, script)?;
            peer.ask_ok("prompt", "{:message \"delegate\"}")?;
            let question = peer.topic("interaction/requested")?;
            let kind = text(payload(&question), "kind").to_owned();
            ensure(kind == "approve-subagent-envelope", || format!("the kind is {kind:?}"))?;
            respond(&mut peer, &question, "accepted", "{:outcome \"deny\"}")?;
            let result = peer.topic("tool/result")?;
            ensure(text(payload(&result), "result-text").contains("envelope-denied"), || {
                "the refusal is not typed".to_owned()
            })
        },
    },
    Check {
        name: "mode.edits-are-free",
        about: "In accept-edits an edit inside the workspace asks nobody.",
        needs: CALLS,
        run: |probe| {
            let name = format!("contract-{}.txt", std::process::id());
            let script = format!(
                "{{:turns [{{:steps [{{:tool-call {{:name \"write\" :arguments {{:path {name:?} :content \"x\"}}}}}}]}} {{:steps [{{:delta \"done\"}}]}}]}}"
            );
            let mut peer = caller(probe, &script, "accept-edits")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let result = peer.topic("tool/result")?;
            // The session's folder is told, so that what was written there can be taken away.
            let data = peer.ask_ok("list_sessions", "{:limit 1}")?;
            let folder = data
                .get("sessions")
                .and_then(Value::as_slice)
                .and_then(<[_]>::first)
                .map(|slot| text(slot, "worktree-path").to_owned());
            let _ = std::fs::remove_file(std::path::Path::new(&folder.unwrap_or_default()).join(name));
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
                "the edit is refused".to_owned()
            })
        },
    },
    Check {
        name: "mode.reading-outside-asks",
        about: "Reading outside the workspace asks in mode ask.",
        needs: QUESTIONS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"read\" :arguments {:path \"/etc/hostname\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = interactor(probe, script)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            ensure(text(payload(&question), "kind") == "approve", || "it is no approval".to_owned())
        },
    },
    Check {
        name: "tool.abort",
        about: "`abort` ends a running call and what it started.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("abort")],
        run: |probe| {
            let script =
                "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"sleep 60\"}}}]}]}";
            let mut peer = caller(probe, script, "yolo")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            peer.topic("tool/executing")?;
            peer.ask_ok("abort", "{}")?;
            idle(&mut peer)
        },
    },
    Check {
        name: "mode.set",
        about: "`set_mode` tells the mode that it set; another word is request/invalid-params.",
        needs: &[Need::Op("set_mode")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for mode in ["ask", "accept-edits", "read-only", "yolo"] {
                let data = peer.ask_ok("set_mode", &format!("{{:mode {mode:?}}}"))?;
                ensure(text(&data, "mode") == mode, || {
                    format!("{mode} is told as {:?}", text(&data, "mode"))
                })?;
            }
            peer.ask_error("set_mode", "{:mode \"anything\"}", "request/invalid-params").map(|_| ())
        },
    },
    Check {
        name: "mode.read-only",
        about: "In read-only a call that is no reading is refused: its result is an error with the reason, and nobody is asked.",
        needs: CALLS,
        run: |probe| {
            let mut peer = caller(probe, CALL, "read-only")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(true)), || {
                "the call ran".to_owned()
            })?;
            ensure(!text(payload(&result), "result-text").is_empty(), || "no reason is given".to_owned())?;
            last_answer(&mut peer)?;
            let asked = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!asked, || "the user was asked".to_owned())
        },
    },
    Check {
        name: "mode.reading-is-free",
        about: "Reading inside the workspace is free in every mode.",
        needs: CALLS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"find\" :arguments {:glob \"*\"}}}]} {:steps [{:delta \"done\"}]}]}";
            for mode in ["ask", "accept-edits", "read-only", "yolo"] {
                let mut peer = caller(probe, script, mode)?;
                peer.ask_ok("prompt", "{:message \"look\"}")?;
                let result = peer.topic("tool/result")?;
                ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
                    format!("reading is refused in {mode}")
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "mode.accept-edits",
        about: "In accept-edits an edit inside the workspace is free, and a command still asks.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("set_mode"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let mut peer = interactor(probe, CALL)?;
            peer.ask_ok("set_mode", "{:mode \"accept-edits\"}")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"deny\" :scope \"once\"}")?;
            peer.topic("tool/result").map(|_| ())
        },
    },
    Check {
        name: "trust.set",
        about: "`trust_project` tells what it set.",
        needs: &[Need::Op("trust_project")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for trusted in [true, false] {
                let data = peer.ask_ok("trust_project", &format!("{{:trusted {trusted}}}"))?;
                ensure(data.get("trusted") == Some(&Value::Bool(trusted)), || {
                    ":trusted is another".to_owned()
                })?;
            }
            Ok(())
        },
    },
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
                    format!("{kind:?} is no kind")
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
            // It waits for the frontend, as one that was begun by the op does.
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
            ensure(!asked, || "a client was asked that is no interactor".to_owned())?;
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
    Check {
        name: "output.unknown",
        about: "`read_output` of a handle that does not exist is request/not-found.",
        needs: &[Need::Op("read_output")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_error("read_output", "{:handle \"no-such-output\"}", "request/not-found").map(|_| ())
        },
    },
    Check {
        name: "jobs.list",
        about: "`list_background_jobs` tells the jobs as a vector, of certain statuses where they are named.",
        needs: &[Need::Op("list_background_jobs")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for params in ["{}", "{:statuses [\"running\"]}"] {
                let data = peer.ask_ok("list_background_jobs", params)?;
                ensure(data.get("jobs").and_then(Value::as_slice).is_some(), || {
                    ":jobs is no vector".to_owned()
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "jobs.unknown",
        about: "A job that does not exist is request/not-found.",
        needs: &[Need::Op("inspect_background_job"), Need::Op("cancel_background_job")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for op in ["inspect_background_job", "cancel_background_job"] {
                peer.ask_error(op, "{:job-id \"no-such-job\"}", "request/not-found")?;
            }
            Ok(())
        },
    },
    Check {
        name: "jobs.lifecycle",
        about: "A call in the background becomes a job that is listed, inspected and cancelled; job/updated tells of it.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("set_mode"),
            Need::Op("list_background_jobs"),
            Need::Op("inspect_background_job"),
            Need::Op("cancel_background_job"),
        ],
        run: jobs,
    },
    Check {
        name: "bash.answer",
        about: "`bash` runs the user's own command and answers with its output and exit status.",
        needs: &[Need::Op("bash")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("bash", "{:command \"echo contract; exit 3\"}")?;
            ensure(text(&data, "output").contains("contract"), || "the output is lost".to_owned())?;
            let status = data.get("exit-code").and_then(Value::as_i64);
            ensure(status == Some(3), || format!(":exit-code is {status:?}"))
        },
    },
    Check {
        name: "runtime.failure",
        about: "An op that the runtime cannot do is this request's error and nobody else's.",
        needs: &[Need::Op("export_html")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_error("export_html", "{:path \"/no/such/folder/page.html\"}", "runtime/failed")?;
            peer.barrier()
        },
    },
    Check {
        name: "bash.abort",
        about: "`abort_bash` ends the user's own command.",
        needs: &[Need::Op("bash"), Need::Op("abort_bash")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let id = peer.send("bash", "{:command \"sleep 60\"}");
            peer.ask_ok("abort_bash", "{}")?;
            peer.answer(&id).map(|_| ())
        },
    },
];

/// A server whose model makes calls, in a mode.
pub(super) fn caller(probe: &Probe<'_>, script: &str, mode: &str) -> Result<Peer, Stop> {
    let mut peer = probe.subscribed(Some(script))?;
    peer.ask_ok("set_mode", &format!("{{:mode {mode:?}}}"))?;
    Ok(peer)
}

/// A server whose client answers typed questions.
pub(super) fn interactor(probe: &Probe<'_>, script: &str) -> Result<Peer, Stop> {
    let mut peer = probe.ready_with(Some(script), &["interactor"])?;
    peer.ask_ok("subscribe", "{}")?;
    Ok(peer)
}

/// A server whose client knows only dialogs, with a question on its way.
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

fn long_output(probe: &Probe<'_>) -> Result<(), Stop> {
    let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"seq 1 200000\"}}}]} {:steps [{:delta \"done\"}]}]}";
    let mut peer = caller(probe, script, "yolo")?;
    peer.ask_ok("prompt", "{:message \"call\"}")?;
    let result = peer.topic("tool/result")?;
    let shown = text(payload(&result), "result-text").len();
    ensure(shown < 500_000, || format!("{shown} bytes are shown"))?;
    let details = payload(&result).get("details");
    let handle = details.map(|details| text(details, "handle").to_owned()).unwrap_or_default();
    ensure(!handle.is_empty(), || ":details has no :handle".to_owned())?;
    let data = peer.ask_ok("read_output", &format!("{{:handle {handle:?} :offset 0 :limit 9}}"))?;
    ensure(text(&data, "text") == "1\n2\n3\n4\n5", || {
        format!("the output begins with {:?}", text(&data, "text"))
    })?;
    let size = data.get("size").and_then(Value::as_i64).unwrap_or_default();
    ensure(size > 1_000_000, || format!(":size is {size}"))
}

fn jobs(probe: &Probe<'_>) -> Result<(), Stop> {
    let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"sleep 60\" :background true}}}]} {:steps [{:delta \"done\"}]}]}";
    let mut peer = caller(probe, script, "yolo")?;
    talk(&mut peer, "call")?;
    let told = peer.topic("job/updated")?;
    let job = payload(&told).get("job").cloned().unwrap_or(Value::Nil);
    let id = ["id", "job-id"]
        .iter()
        .map(|key| text(&job, key))
        .find(|id| !id.is_empty())
        .unwrap_or_default()
        .to_owned();
    ensure(!id.is_empty(), || "the job has no id".to_owned())?;
    let data = peer.ask_ok("list_background_jobs", "{}")?;
    let listed = data.get("jobs").and_then(Value::as_slice).map_or(0, <[_]>::len);
    ensure(listed == 1, || format!("{listed} jobs are listed"))?;
    peer.ask_ok("inspect_background_job", &format!("{{:job-id {id:?}}}"))?;
    let data = peer.ask_ok("cancel_background_job", &format!("{{:job-id {id:?}}}"))?;
    ensure(data.get("accepted").and_then(Value::as_bool).is_some(), || ":accepted is missing".to_owned())?;
    peer.topic("job/updated").map(|_| ())
}

/// How long a command of a check's own making may take to leave its mark.
const COMMAND_PATIENCE: Duration = Duration::from_secs(20);

/// A folder with one file that tools may change.
pub(super) struct Room {
    folder: PathBuf,
}

impl Room {
    pub(super) fn new(name: &str, content: &str) -> Result<Self, Stop> {
        let folder = std::env::temp_dir().join(format!("edn-bridge-contract-{}-{name}", std::process::id()));
        let made = || {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("file.txt"), content)
        };
        made().map_err(|error| Stop::failed(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder })
    }

    /// A path in the folder, for a command or a tool.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// What stands in a file of the folder; `None` where there is no such file.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Makes a file in the folder, for a command that waits for it.
    pub(super) fn make(&self, name: &str) -> Result<(), Stop> {
        std::fs::write(self.folder.join(name), "")
            .map_err(|error| Stop::failed(format!("{name} cannot be made: {error}")))
    }

    /// Takes a file of the folder away, if it is there.
    pub(super) fn take(&self, name: &str) -> Result<(), Stop> {
        match std::fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Stop::failed(format!("{name} cannot be removed: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for a file that a command makes.
    pub(super) fn wait_for(&self, name: &str) -> Result<(), Stop> {
        let path = self.folder.join(name);
        let begun = Instant::now();
        while !path.exists() {
            ensure(begun.elapsed() < COMMAND_PATIENCE, || format!("{name} was not made"))?;
            std::thread::yield_now();
        }
        Ok(())
    }

    fn held(&self) -> Result<String, Stop> {
        let path = self.folder.join("file.txt");
        std::fs::read_to_string(&path).map_err(|error| Stop::failed(format!("{}: {error}", path.display())))
    }

    /// Calls a tool with the file as `:path` and returns its result.
    fn call(&self, probe: &Probe<'_>, tool: &str, arguments: &str) -> Result<String, Stop> {
        self.call_at(probe, tool, arguments, self.folder.join("file.txt"))
    }

    fn call_in_folder(&self, probe: &Probe<'_>, tool: &str, arguments: &str) -> Result<String, Stop> {
        self.call_at(probe, tool, arguments, self.folder.clone())
    }

    fn call_at(&self, probe: &Probe<'_>, tool: &str, arguments: &str, path: PathBuf) -> Result<String, Stop> {
        let path = path.to_string_lossy().into_owned();
        let script = format!(
            "{{:turns [{{:steps [{{:tool-call {{:name {tool:?} :arguments {{:path {path:?} {arguments}}}}}}}]}} \
             {{:steps [{{:delta \"done\"}}]}}]}}"
        );
        let mut peer = caller(probe, &script, "yolo")?;
        peer.ask_ok("prompt", "{:message \"call\"}")?;
        let result = peer.topic("tool/result")?;
        let said = text(payload(&result), "result-text").to_owned();
        ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
            format!("{tool} failed: {said}")
        })?;
        Ok(said)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // What is left behind in a temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
