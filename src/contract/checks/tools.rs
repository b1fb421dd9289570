//! Checks of tool calls, modes, jobs and outputs. `questions` checks the questions along the way.

use std::time::Instant;

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Peer, payload, topic};
use super::questions::{QUESTIONS, interactor, respond};
use super::room::Room;
use super::sessions::{idle, last_answer, talk};
use crate::value::Value;

/// A call that echoes a word, then an answer.
pub(super) const ECHO_CALL: &str = "{:turns [{:steps [{:tool-call {:id \"call-1\" :name \"bash\" \
                                    :arguments {:command \"echo contract\"}}}]} {:steps [{:delta \"done\"}]}]}";

/// A call that writes a file outside any workspace, then an answer.
pub(super) const CALL: &str = "{:turns [{:steps [{:tool-call {:id \"call-1\" :name \"bash\" :arguments {:command \"echo contract\"}}}]} \
                    {:steps [{:delta \"done\"}]}] :then :repeat-last}";

pub(super) const CALLS: &[Need] = &[Need::Script, Need::Op("prompt"), Need::Op("set_mode")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "tool.lifecycle",
        about: "A call causes tool/start, tool/executing and tool/result, in this order, and the model continues with its result.",
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
        about: "A failed call has :is-error true in its result, and the turn continues.",
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
        about: "The model gets an error for a call of an unknown tool or with invalid arguments.",
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
        about: "Calls of one response run in parallel, and their results go back in call order.",
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
        about: "tool/delta carries new pieces of the arguments.",
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
        about: "tool/update carries a bounded part of a running call's latest output.",
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
        about: "An output that is too long for a result is cut, and its handle gives the rest.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("set_mode"), Need::Op("read_output")],
        run: long_output,
    },
    Check {
        name: "tool.update-rate",
        about: "tool/update arrives at most ten times per second and call.",
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
            // Results arrive in the order of the calls, so events do not show how many run at once. The calls
            // count each other instead.
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
        about: "`read` reads a file, or a range of its lines.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("read", "one\ntwo\nthree\n")?;
            let said = call(probe, &room, "read", "")?;
            ensure(said.contains("one") && said.contains("three"), || format!("it reads {said:?}"))?;
            let said = call(probe, &room, "read", ":offset 2 :limit 1")?;
            ensure(said.contains("two") && !said.contains("three"), || format!("the range reads {said:?}"))
        },
    },
    Check {
        name: "tool.write",
        about: "`write` writes a file.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("write", "before")?;
            call(probe, &room, "write", ":content \"after λ\"")?;
            let held = room.held()?;
            ensure(held == "after λ", || format!("the file holds {held:?}"))
        },
    },
    Check {
        name: "tool.edit",
        about: "`edit` replaces texts that match exactly once, several in one call, and changes nothing if one does not.",
        needs: CALLS,
        run: |probe| {
            let room = Room::new("edit", "a b c c")?;
            call(probe, &room, "edit", ":edits [{:old \"a\" :new \"A\"} {:old \"b\" :new \"B\"}]")?;
            let held = room.held()?;
            ensure(held == "A B c c", || format!("the file holds {held:?}"))?;
            for misfit in [
                ":edits [{:old \"A\" :new \"X\"} {:old \"c\" :new \"Y\"}]",
                ":edits [{:old \"z\" :new \"y\"}]",
            ] {
                ensure(call(probe, &room, "edit", misfit).is_err(), || format!("{misfit} is taken"))?;
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
            let said = call(probe, &room, "search", ":pattern \"needle\"")?;
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
            let said = call_in_folder(probe, &room, "find", ":glob \"*.txt\"")?;
            ensure(said.contains("file.txt"), || format!("it finds {said:?}"))
        },
    },
    Check {
        name: "tool.delegate",
        about: "`delegate` asks once for the child's tools; the model gets a refusal as a typed result.",
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
        about: "In accept-edits an edit inside the workspace needs no approval.",
        needs: CALLS,
        run: |probe| {
            let name = format!("contract-{}.txt", std::process::id());
            let script = format!(
                "{{:turns [{{:steps [{{:tool-call {{:name \"write\" :arguments {{:path {name:?} :content \"x\"}}}}}}]}} {{:steps [{{:delta \"done\"}}]}}]}}"
            );
            let mut peer = caller(probe, &script, "accept-edits")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let result = peer.topic("tool/result")?;
            // The server reports the session's folder, so the check can remove the files from it.
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
        about: "In mode ask, reading outside the workspace needs approval.",
        needs: QUESTIONS,
        run: |probe| {
            let script = "{:turns [{:steps [{:tool-call {:name \"read\" :arguments {:path \"/etc/hostname\"}}}]} {:steps [{:delta \"done\"}]}]}";
            let mut peer = interactor(probe, script)?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            ensure(text(payload(&question), "kind") == "approve", || "it is not an approval".to_owned())
        },
    },
    Check {
        name: "tool.abort",
        about: "`abort` ends a running call and its child processes.",
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
        about: "`set_mode` returns the mode that it set; any other word is request/invalid-params.",
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
        about: "In read-only a call that does more than read is refused without a question: its result is an error with the reason.",
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
        about: "Reading inside the workspace needs no approval in any mode.",
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
        about: "In accept-edits an edit inside the workspace needs no approval, and a command still does.",
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
        about: "`trust_project` returns the new value.",
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
        about: "`list_background_jobs` returns the jobs as a vector, filtered by status if requested.",
        needs: &[Need::Op("list_background_jobs")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for params in ["{}", "{:statuses [\"running\"]}"] {
                let data = peer.ask_ok("list_background_jobs", params)?;
                ensure(data.get("jobs").and_then(Value::as_slice).is_some(), || {
                    ":jobs is not a vector".to_owned()
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
        about: "A background call becomes a job that can be listed, inspected and cancelled; job/updated reports it.",
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
        about: "`bash` runs the user's own command and returns its output and exit status.",
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
        about: "A failure in the runtime fails only its own request.",
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

/// A server in a mode, whose model makes calls.
pub(super) fn caller(probe: &Probe<'_>, script: &str, mode: &str) -> Result<Peer, Stop> {
    let mut peer = probe.subscribed(Some(script))?;
    peer.ask_ok("set_mode", &format!("{{:mode {mode:?}}}"))?;
    Ok(peer)
}

/// Calls a tool with the room's file as `:path` and returns its result.
fn call(probe: &Probe<'_>, room: &Room, tool: &str, arguments: &str) -> Result<String, Stop> {
    call_at(probe, tool, arguments, &room.path("file.txt"))
}

fn call_in_folder(probe: &Probe<'_>, room: &Room, tool: &str, arguments: &str) -> Result<String, Stop> {
    call_at(probe, tool, arguments, &room.folder())
}

fn call_at(probe: &Probe<'_>, tool: &str, arguments: &str, path: &str) -> Result<String, Stop> {
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
