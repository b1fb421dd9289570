//! Wrong servers of the UI protocol, each with the check or rule that catches it.

use edn_bridge::wire::ui::methods::{From, METHODS};
use edn_bridge::wire::ui::run_events::EVENTS;
use serde_json::{Value, json};

use crate::mutant::{Mutant, try_all, ui_mishearing, ui_mutant};

type Lines = Vec<Value>;

fn at<'v>(message: &'v Value, path: &str) -> &'v Value {
    message.pointer(path).unwrap_or(&Value::Null)
}

/// Changes the lines that fit.
fn when(
    fits: impl Fn(&Value) -> bool + Send + Sync + 'static,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) -> impl Fn(&Value) -> Lines + Send + Sync + 'static {
    move |message| {
        let mut message = message.clone();
        if fits(&message) {
            change(&mut message);
        }
        vec![message]
    }
}

/// Sets what is there, or removes it.
fn put(path: &'static str, value: Option<Value>) -> impl Fn(&mut Value) + Send + Sync + 'static {
    let (parent, key) = path.rsplit_once('/').unwrap();
    move |message| {
        let Some(map) = message.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
        match &value {
            Some(value) => drop(map.insert(key.to_owned(), value.clone())),
            None => drop(map.remove(key)),
        }
    }
}

fn without(fits: impl Fn(&Value) -> bool + Send + Sync + 'static) -> impl Fn(&Value) -> Lines + Send + Sync {
    move |message| if fits(message) { Vec::new() } else { vec![message.clone()] }
}

fn twice(fits: impl Fn(&Value) -> bool + Send + Sync + 'static) -> impl Fn(&Value) -> Lines + Send + Sync {
    move |message| vec![message.clone(); if fits(message) { 2 } else { 1 }]
}

fn is(path: &'static str, value: impl Into<Value>) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    let value = value.into();
    move |message| *at(message, path) == value
}

fn has(path: &'static str) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    move |message| message.pointer(path).is_some()
}

fn event(kind: &'static str) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    is("/params/event/type", kind)
}

fn status(name: &'static str) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    is("/params/status", name)
}

fn method(name: &'static str) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    is("/method", name)
}

fn code(number: i64) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    is("/error/code", number)
}

/// Another code in place of one.
fn recoded(from: i64, to: i64) -> impl Fn(&Value) -> Lines + Send + Sync + 'static {
    when(code(from), put("/error/code", Some(json!(to))))
}

/// An answer in place of an error.
fn taken(from: i64) -> impl Fn(&Value) -> Lines + Send + Sync + 'static {
    when(code(from), |message| *message = json!({"jsonrpc": "2.0", "id": message["id"], "result": {}}))
}

/// An error in place of a result with a key.
fn refused(path: &'static str) -> impl Fn(&Value) -> Lines + Send + Sync + 'static {
    when(has(path), |message| {
        let error = json!({"code": -32000, "message": "no"});
        *message = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
    })
}

fn set(
    fits: impl Fn(&Value) -> bool + Send + Sync + 'static,
    path: &'static str,
    value: impl Into<Value>,
) -> impl Fn(&Value) -> Lines + Send + Sync + 'static {
    when(fits, put(path, Some(value.into())))
}

#[test]
fn wrong_lines_of_the_ui_protocol_are_caught() {
    try_all(vec![
        ui_mutant("no JSON under another code", "ui-lines.no-json", recoded(-32700, -32600)),
        ui_mutant("no message under another code", "ui-lines.no-message", recoded(-32600, -32000)),
        ui_mutant("no answer after blank lines", "ui-lines.blank", without(code(-32601))),
        ui_mutant("an unknown method with wrong params", "ui-lines.unknown-method", recoded(-32601, -32602)),
        ui_mishearing("a notification that is answered", "ui-lines.unknown-method", |message| {
            let is_notice = message["method"] == "no.such" && message.get("id").is_none();
            vec![if is_notice { json!([]) } else { message.clone() }]
        }),
        ui_mutant(
            "an integer's id as a text",
            "ui-lines.number-id",
            when(|message| message["id"].is_number(), |message| message["id"] = json!("7")),
        ),
        ui_mutant(
            "a wrong param that is not named",
            "ui-lines.wrong-params",
            set(code(-32602), "/error/message", "wrong"),
        ),
        ui_mutant("unknown keys that are refused", "ui-lines.unknown-keys", refused("/result/sessions")),
        ui_mutant("a limit that is a text", "ui-lines.limits", taken(-32602)),
        ui_mutant(
            "an oversize request without its id",
            "ui-lines.oversize",
            set(is("/id", "large"), "/id", Value::Null),
        ),
        ui_mutant(
            "the version of the interface",
            "ui-lines.version",
            set(has("/result/protocol_version"), "/result/protocol_version", "99"),
        ),
        ui_mutant(
            "an interface that must wait",
            "ui-lines.before-initialize",
            refused("/result/current_workspace_root"),
        ),
        ui_mutant(
            "a capability that is false for what is served",
            "ui-lines.capabilities",
            set(has("/result/server_capabilities"), "/result/server_capabilities/supports_tasks", false),
        ),
        ui_mutant(
            "a capability for what is not served",
            "ui-lines.capabilities",
            when(has("/result/servers"), |message| {
                let error = json!({"code": -32601, "message": "no"});
                *message = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            }),
        ),
        ui_mutant("another JSON-RPC", "ui-line.json", set(has("/jsonrpc"), "/jsonrpc", "1.0"))
            .beside("ui-lines.version"),
        ui_mutant("an answer that comes twice", "ui-line.answered-once", twice(has("/result")))
            .beside("ui-lines.unknown-keys"),
        ui_mutant("a code of its own", "ui-line.error", recoded(-32601, -1))
            .beside("ui-lines.unknown-method"),
        ui_mutant(
            "an error without a message",
            "ui-line.error",
            when(code(-32601), put("/error/message", None)),
        )
        .beside("ui-lines.unknown-method"),
    ]);
}

#[test]
fn wrong_runs_of_the_ui_protocol_are_caught() {
    let text_too = |message: &Value| {
        let mut text = message.clone();
        if event("final")(message) {
            text["params"]["event"]["type"] = json!("text");
            return vec![text, message.clone()];
        }
        vec![text]
    };
    let answered_late = |message: &Value| {
        let run = at(message, "/result/run_id");
        let params = json!({"run_id": run, "status": "running"});
        let early = json!({"jsonrpc": "2.0", "method": "run.status", "params": params});
        if run.is_null() { vec![message.clone()] } else { vec![early, message.clone()] }
    };
    try_all(vec![
        ui_mutant("a text that is told twice", "ui-runs.told", text_too),
        ui_mutant("a run that never ends", "ui-runs.told", without(status("completed"))),
        ui_mutant("a run without its final", "ui-runs.told", without(event("final"))),
        ui_mutant("a text that is told as final", "ui-runs.text-once", without(event("text"))),
        ui_mutant("a step without an end", "ui-runs.call", without(event("step_complete"))),
        ui_mutant(
            "arguments without the file",
            "ui-runs.call",
            when(event("tool_call"), put("/params/event/args/file_path", None)),
        ),
        ui_mutant("a session that is not free", "ui-runs.next-at-once", {
            let seen = std::sync::atomic::AtomicU32::new(0);
            move |message: &Value| {
                let mut message = message.clone();
                if at(&message, "/result/run_id").is_string()
                    && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2 == 1
                {
                    let error = json!({"code": -32001, "message": "busy"});
                    message = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                }
                vec![message]
            }
        }),
        ui_mutant("busy under another code", "ui-runs.busy", recoded(-32001, -32000)),
        ui_mutant(
            "a cancelled run that is completed",
            "ui-runs.cancelled",
            set(status("cancelled"), "/params/status", "completed"),
        ),
        ui_mutant("an unknown run that is cancelled", "ui-runs.cancelled", {
            when(code(-32002), |message| {
                *message = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"ok": true}});
            })
        }),
        ui_mutant(
            "a failure without its reason",
            "ui-runs.failed",
            when(status("error"), put("/params/message", None)),
        ),
        ui_mutant(
            "a failure that is completed",
            "ui-runs.failed",
            set(status("error"), "/params/status", "completed"),
        ),
        ui_mutant("thinking that is not told", "ui-runs.thinking", without(event("reasoning"))),
        ui_mutant("a retry that is not told", "ui-runs.retry", without(event("llm.retry"))),
        ui_mutant("a window that is not told", "ui-runs.context", without(method("run.context"))),
        ui_mutant("pieces that are not told", "ui-runs.deltas", without(event("text_delta"))),
        ui_mishearing("pieces for everybody", "ui-runs.deltas", {
            set(method("initialize"), "/params/ui_capabilities/supports_text_deltas", true)
        }),
        ui_mutant("a command without an outcome", "ui-runs.command", without(event("final"))),
        ui_mutant("a /quit that ends in silence", "ui-runs.quit", without(status("completed"))),
        ui_mutant(
            "a compaction that does not say what it did",
            "ui-runs.compaction",
            without(event("compaction_complete")),
        ),
        ui_mutant("images that fail", "ui-runs.parts", set(status("completed"), "/params/status", "error")),
        ui_mutant("no session under another code", "ui-runs.no-session", recoded(-32004, -32602)),
        ui_mutant("a run that does not begin", "ui-run.begins", without(status("running")))
            .beside("ui-runs.told"),
        ui_mutant("an answer after the run's begin", "ui-run.answered-first", answered_late)
            .beside("ui-runs.told"),
        ui_mutant("events that count from 1", "ui-run.numbers", |message| {
            let mut message = message.clone();
            if let Some(seq) = at(&message, "/params/seq").as_i64() {
                message["params"]["seq"] = json!(seq + 1);
            }
            vec![message]
        })
        .beside("ui-runs.told"),
        ui_mutant("two ends", "ui-run.ends-once", twice(status("completed"))).beside("ui-runs.next-at-once"),
        ui_mutant("a window that is told again", "ui-run.context", twice(method("run.context")))
            .beside("ui-runs.context"),
        ui_mutant(
            "a window in parts of a percent",
            "ui-sent.run.context",
            set(method("run.context"), "/params/context_left_percent", 57.5),
        )
        .beside("ui-runs.context"),
    ]);
}

#[test]
fn wrong_questions_of_the_ui_protocol_are_caught() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let reply = |fits: fn(&Value) -> bool, result: Value| {
        when(move |message| message.get("result").is_some() && fits(message), put("/result", Some(result)))
    };
    try_all(vec![
        ui_mutant(
            "a question that is not asked",
            "ui-questions.approved",
            without(method("ui.confirm.request")),
        ),
        ui_mutant("a wait that is not told", "ui-questions.approved", without(status("awaiting_ui"))),
        ui_mishearing("an ok that is a refusal", "ui-questions.approved", {
            reply(|_| true, json!({"ok": false, "reason": "no"}))
        }),
        ui_mishearing("a reason that is lost", "ui-questions.refused-with-reason", {
            reply(|_| true, json!({"ok": false}))
        }),
        ui_mishearing("a model that goes on", "ui-questions.refused", {
            reply(|_| true, json!({"ok": false, "reason": "no"}))
        }),
        ui_mishearing("a text that counts as yes", "ui-questions.only-true", {
            reply(|message| message["result"]["ok"] == "true", json!({"ok": true}))
        }),
        ui_mishearing("nothing that counts as yes", "ui-questions.only-true", {
            reply(|message| message["result"].is_null(), json!({"ok": true}))
        }),
        ui_mishearing("an error that counts as yes", "ui-questions.refused-by-error", {
            when(has("/error"), |message| {
                *message = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"ok": true}});
            })
        }),
        ui_mishearing("a cancel that is an ok", "ui-questions.late", {
            // The question is answered before its run is cancelled.
            let asked = std::sync::Mutex::new(Vec::new());
            move |message: &Value| {
                let mut asked = asked.lock().unwrap();
                match message["method"].as_str() {
                    Some("run.cancel") => {
                        asked.push(message.clone());
                        Vec::new()
                    }
                    None => std::iter::once(message.clone()).chain(asked.drain(..)).collect(),
                    Some(_) => vec![message.clone()],
                }
            }
        }),
        ui_mishearing("a second answer that counts", "ui-questions.answered-once", move |message| {
            let is_first =
                message.get("result").is_some() && first.swap(false, std::sync::atomic::Ordering::Relaxed);
            if is_first { Vec::new() } else { vec![message.clone()] }
        }),
        ui_mishearing("an approval that is forgotten", "ui-questions.remembered", {
            reply(|_| true, json!({"ok": true}))
        }),
        ui_mishearing("a refusal that is forgotten", "ui-questions.refusal-remembered", {
            reply(|_| true, json!({"ok": false, "reason": "never"}))
        }),
        ui_mutant(
            "a call that nobody decides, told as done",
            "ui-questions.nobody",
            set(status("error"), "/params/status", "completed"),
        ),
        ui_mutant(
            "items without labels",
            "ui-questions.pick",
            set(method("ui.pick.request"), "/params/items", json!([{"id": "0", "label": ""}])),
        ),
        ui_mishearing("a pick that was not offered", "ui-questions.pick-not-offered", {
            reply(|message| message["result"]["ids"][0] == "green", json!({"ids": ["0"]}))
        }),
        ui_mishearing("a text that is lost", "ui-questions.prompt", reply(|_| true, json!({"value": null}))),
        ui_mutant(
            "a preview that is not shown",
            "ui-questions.preview",
            without(event("permission.preview")),
        ),
        ui_mutant("a preview that is not ended", "ui-questions.preview", without(event("permission.ready"))),
        ui_mutant(
            "a question whose id is a number",
            "ui-question.id",
            set(method("ui.confirm.request"), "/id", 7),
        )
        .beside("ui-questions.approved"),
        ui_mutant("a tool that is not called", "ui-tools.called", without(method("client.tool.call"))),
        ui_mishearing("a late answer that counts", "ui-tools.called", {
            reply(|message| message["result"]["result"] == "a cat", json!({"ok": true, "result": "a dog"}))
        }),
        ui_mutant(
            "a time that is over and not told",
            "ui-tools.unanswered",
            without(method("client.tool.cancel")),
        ),
        ui_mutant("a tool that cannot be used and is taken", "ui-tools.unusable", taken(-32602)),
    ]);
}

#[test]
fn what_is_wrongly_kept_by_ui_servers_is_caught() {
    let (text, list) = (|text: &str| json!(text), || json!([]));
    try_all(vec![
        ui_mutant(
            "a session that is not listed",
            "ui-sessions.listed",
            set(has("/result/sessions"), "/result/sessions", list()),
        ),
        ui_mutant("last words that are lost", "ui-sessions.listed", |message| {
            let mut message = message.clone();
            for session in
                message.pointer_mut("/result/sessions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                session.as_object_mut().unwrap().remove("last_user_message");
            }
            vec![message]
        }),
        ui_mutant(
            "a message that a kill loses",
            "ui-sessions.survives-kill",
            without(event("hidden_user_message")),
        ),
        ui_mutant(
            "a history of an unknown session",
            "ui-sessions.history-unknown",
            set(has("/result/events_sent"), "/result/runs", 1),
        ),
        ui_mutant(
            "a cut history that says that it is whole",
            "ui-sessions.history-bounds",
            when(has("/result/truncated"), put("/result/truncated", None)),
        ),
        ui_mutant("a history that is a run", "ui-sessions.history-stays", |message| {
            let params = json!({"run_id": "old", "status": "running"});
            let status = json!({"jsonrpc": "2.0", "method": "run.status", "params": params});
            if has("/result/events_sent")(message) {
                vec![message.clone(), status]
            } else {
                vec![message.clone()]
            }
        }),
        ui_mutant(
            "a current model that is not there",
            "ui-models.listed",
            set(has("/result/models"), "/result/current", text("no")),
        ),
        ui_mutant("another provider's models", "ui-models.listed", taken(-32602)),
        ui_mutant("another model", "ui-models.set", set(has("/result/name"), "/result/name", text("no"))),
        ui_mutant(
            "a theme that is lost",
            "ui-kept.theme",
            when(has("/result/tui"), put("/result/tui", None)),
        ),
        ui_mishearing("a malformed update that counts", "ui-kept.context", {
            set(is("/params/active_file", "b.rs"), "/params/active_file", json!({"path": "b.rs"}))
        }),
        ui_mutant(
            "parts that were not asked for",
            "ui-kept.context",
            set(has("/result/ui_context"), "/result/agents", json!({})),
        ),
        ui_mutant(
            "skills that are not listed",
            "ui-kept.lookups",
            when(has("/result/skills"), put("/result/skills", None)),
        ),
        ui_mishearing(
            "a logout without a yes",
            "ui-kept.logout",
            set(is("/result/ok", "yes"), "/result/ok", true),
        ),
        ui_mutant(
            "a logout that is not dangerous",
            "ui-kept.logout",
            when(has("/params/danger_level"), put("/params/danger_level", None)),
        ),
        ui_mutant(
            "outputs in one",
            "ui-shell.outputs",
            set(has("/result/stderr"), "/result/stderr", text("")),
        ),
        ui_mishearing(
            "a folder that does not count",
            "ui-shell.outside",
            when(has("/params/cwd"), put("/params/cwd", None)),
        ),
        ui_mishearing("commands one after the other", "ui-shell.side-by-side", {
            set(
                |message| at(message, "/params/command").as_str().is_some_and(|text| text.contains("second")),
                "/params/command",
                text("echo second"),
            )
        }),
        ui_mutant(
            "a detach that is not told",
            "ui-shell.tasks",
            set(has("/result/detached"), "/result/detached", false),
        ),
        ui_mutant(
            "a task that goes on",
            "ui-shell.tasks",
            set(is("/result/state", "cancelled"), "/result/state", text("running")),
        ),
        ui_mutant("an output that is kept too early", "ui-shell.tasks", taken(-32001)),
        ui_mutant(
            "a task that did not do it",
            "ui-task.shell",
            set(is("/result/stdout", "x\n"), "/result/stdout", text("")),
        ),
        ui_mishearing(
            "a subagent without a yes",
            "ui-task.subagent",
            set(has("/result/ok"), "/result/ok", false),
        ),
        ui_mutant("a result of a running task", "ui-task.shell", taken(-32001)),
        ui_mishearing("a call that was declined and runs", "ui-tool.judged", {
            set(is("/result/ok", false), "/result/ok", true)
        }),
        ui_mutant(
            "a whole output for a part",
            "ui-tool.kept-output",
            set(is("/result/ok", true), "/result/result", text("1\n2\n")),
        ),
    ]);
}

/// Each required key of each event and of what the runtime sends, beside a check that makes the server send it.
#[test]
fn missing_keys_of_the_ui_protocol_are_caught() {
    let mut mutants: Vec<Mutant> = Vec::new();
    for row in EVENTS {
        let beside = match row.name {
            "hidden_user_message" => "ui-sessions.survives-kill",
            "reasoning" => "ui-runs.thinking",
            "text" => "ui-runs.text-once",
            "permission.preview" | "permission.ready" => "ui-questions.preview",
            "compaction_start" | "compaction_complete" => "ui-runs.compaction",
            "llm.retry" => "ui-runs.retry",
            "text_delta" => "ui-runs.deltas",
            _ => "ui-runs.call",
        };
        for key in row.keys.iter().filter(|key| key.required) {
            let rule: &'static str = Box::leak(format!("ui-event.{}", row.name).into_boxed_str());
            let path: &'static str = Box::leak(format!("/params/event/{}", key.name).into_boxed_str());
            mutants.push(
                ui_mutant(
                    format!("{} without {}", row.name, key.name),
                    rule,
                    when(event(row.name), put(path, None)),
                )
                .beside(beside),
            );
        }
    }
    for row in METHODS.iter().filter(|row| matches!(row.from, From::Runtime | From::RuntimeNotice)) {
        let beside = match row.name {
            "agent.event" | "run.status" => "ui-runs.told",
            "run.context" => "ui-runs.context",
            "ui.confirm.request" => "ui-questions.approved",
            "ui.prompt.request" => "ui-questions.prompt",
            "ui.pick.request" => "ui-questions.pick",
            "client.tool.call" => "ui-tools.called",
            "client.tool.cancel" => "ui-tools.unanswered",
            // They are sent only if the environment asks for them.
            "run.diagnostics" => continue,
            other => panic!("no check is known for {other}"),
        };
        for key in row.params.iter().filter(|key| key.required) {
            let rule: &'static str = Box::leak(format!("ui-sent.{}", row.name).into_boxed_str());
            let path: &'static str = Box::leak(format!("/params/{}", key.name).into_boxed_str());
            mutants.push(
                ui_mutant(
                    format!("{} without {}", row.name, key.name),
                    rule,
                    when(method(row.name), put(path, None)),
                )
                .beside(beside),
            );
        }
    }
    try_all(mutants);
}

/// A required key of each result, beside a check that asks for it.
#[test]
fn missing_keys_of_ui_results_are_caught() {
    let mutants = METHODS.iter().filter(|row| row.from == From::Ui).map(|row| {
        let beside = match row.name.split_once('.') {
            None => "ui-lines.version",
            Some(("run", "start")) => "ui-runs.told",
            Some(("run", _)) => "ui-runs.cancelled",
            Some(("session", "list")) => "ui-lines.unknown-keys",
            Some(("session", _)) => "ui-sessions.history-unknown",
            Some(("model", "list")) => "ui-models.listed",
            Some(("model", _)) => "ui-models.set",
            Some(("tool", _)) => "ui-tool.judged",
            Some(("mcp" | "skills", _)) => "ui-kept.lookups",
            Some(("context", _)) => "ui-kept.context",
            Some(("auth", _)) => "ui-kept.logout",
            Some(("theme", _)) => "ui-kept.theme",
            Some(("shell", "exec")) => "ui-shell.outputs",
            Some(("shell", _)) => "ui-shell.tasks",
            Some(("task", _)) => "ui-task.shell",
            other => panic!("no check is known for {other:?}"),
        };
        let rule: &'static str = Box::leak(format!("ui-answer.{}", row.name).into_boxed_str());
        let name = row.name;
        let asked = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::new()));
        let known = asked.clone();
        let is_its = move |message: &Value| {
            message.get("result").is_some()
                && known.lock().unwrap().get(&message["id"].to_string()) == Some(&json!(name))
        };
        ui_mutant(format!("a result of {name} that is no object"), rule, {
            when(is_its, |message| message["result"] = json!(7))
        })
        .hearing(move |message| {
            asked.lock().unwrap().insert(message["id"].to_string(), message["method"].clone());
            vec![message.clone()]
        })
        .beside(beside)
    });
    try_all(mutants.collect());
}
