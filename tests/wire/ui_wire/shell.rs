//! The person's own commands, one tool without a run, and the theme.

use serde_json::{Value, json};

use super::runs::{ECHO, yolo};
use crate::peer::{CAN, Peer, outline};
use crate::support::{Setup, wait_until};

fn peer() -> (Setup, Peer) {
    let setup = Setup::new().script(ECHO);
    let peer = Peer::ready(&setup, CAN);
    (setup, peer)
}

#[test]
fn command_is_run_with_its_outputs_apart() {
    let (setup, mut peer) = peer();
    std::fs::create_dir(setup.project().join("sub")).unwrap();
    let result =
        peer.ask("shell.exec", json!({"command": "echo out; echo err >&2; pwd; exit 3", "cwd": "sub"}));
    assert_eq!((&result["exit_code"], &result["stderr"]), (&json!(3), &json!("err\n")), "{result}");
    let out = result["stdout"].as_str().unwrap();
    assert!(out.starts_with("out\n") && out.trim_end().ends_with("/project/sub"), "{out}");
    assert_eq!(result["truncated"], json!({"stdout": false, "stderr": false, "combined": false}));
    let result = peer.ask("shell.exec", json!({"command": "kill -9 $$"}));
    assert_eq!((&result["exit_code"], &result["signal"]), (&Value::Null, &json!("SIGKILL")), "{result}");
    let result = peer.ask("shell.exec", json!({"command": "sleep 60", "timeout_seconds": 0}));
    let ended = (&result["exit_code"], &result["stderr"]);
    assert_eq!(ended, (&Value::Null, &json!("The command took too long and was ended.")), "{result}");
    let result = peer.ask("shell.exec", json!({"command": "seq 1 100000; echo end >&2"}));
    assert_eq!((&result["truncated"]["stdout"], &result["stderr"]), (&json!(true), &json!("end\n")));
    assert!(result["stdout_cache_id"].is_string());
}

#[test]
fn kept_output_is_read_in_parts() {
    let (_, mut peer) = peer();
    let result = peer.ask("shell.exec", json!({"command": "seq 1 100000"}));
    let part = |arguments: Value| json!({"name": "tool_output_cache", "arguments": arguments});
    let id = &result["stdout_cache_id"];
    let answer = peer.ask("tool.call", part(json!({"ref_id": id, "offset": 1, "limit": 2})));
    assert_eq!(answer, json!({"ok": true, "result": "2\n3\n"}));
    for arguments in [json!({}), json!({"ref_id": 7}), json!({"ref_id": "none"}), json!({"ref_id": "../x"})] {
        assert_eq!(peer.code("tool.call", part(arguments.clone())), -32602, "{arguments}");
    }
}

#[test]
fn command_outside_the_workspace_is_refused() {
    let (setup, mut peer) = peer();
    std::os::unix::fs::symlink("/", setup.project().join("out")).unwrap();
    for cwd in ["/", "..", "out", "out/tmp", "none", "sub/../.."] {
        assert_eq!(peer.code("shell.exec", json!({"command": "pwd", "cwd": cwd})), -32602, "{cwd}");
    }
    assert_eq!(peer.code("shell.exec", json!({"command": ""})), -32602);
}

#[test]
fn several_commands_run_side_by_side_and_beside_a_run() {
    let (_, mut peer) = peer();
    let first =
        peer.request("shell.exec", json!({"command": "while [ ! -e go ]; do sleep 0.02; done; echo first"}));
    let second = peer.request("shell.exec", json!({"command": "touch go; echo second"}));
    assert_eq!(peer.answer(&second)["result"]["stdout"], "second\n");
    assert_eq!(peer.answer(&first)["result"]["stdout"], "first\n");
    peer.run_to_end("beside");
}

#[test]
fn task_is_started_waited_for_detached_and_ended() {
    let (setup, mut peer) = peer();
    let task = peer.ask("shell.start", json!({"command": "echo begun; touch begun; exec sleep 600"}));
    let id = task["task_id"].clone();
    assert_eq!((&task["state"], &task["exit_code"]), (&json!("running"), &Value::Null));
    let wait = peer.request("shell.wait", json!({"task_id": id}));
    assert_eq!(peer.ask("shell.detach", json!({"task_id": id}))["detached"], true);
    assert_eq!(peer.answer(&wait)["result"], json!({"task_id": id, "detached": true, "state": "running"}));
    let still = peer.ask("shell.wait", json!({"task_id": id, "wait_timeout_seconds": 0}));
    assert_eq!(still["still_running"], true);
    assert_eq!(peer.code("shell.output", json!({"task_id": id, "stream": "stdout"})), -32001);
    assert_eq!(peer.code("task.result", json!({"task_id": id})), -32001);
    let tasks = peer.ask("task.list", json!({"state": "running", "kind": "shell"}));
    assert_eq!(tasks["tasks"][0]["task_id"], id);
    wait_until("the command does not begin", || setup.project().join("begun").exists());
    assert_eq!(peer.ask("shell.cancel", json!({"task_id": id}))["state"], "cancelled");
    let output = peer.ask("shell.output", json!({"task_id": id, "stream": "stdout"}));
    assert_eq!(output["content"], "begun\n");
    assert_eq!(peer.ask("task.result", json!({"task_id": id}))["state"], "cancelled");
    assert_eq!(peer.ask("task.list", json!({"state": "running"}))["tasks"], json!([]));
    assert_eq!(peer.ask("shell.list", json!({"limit": 1}))["tasks"][0]["task_id"], id);
    for method in ["shell.status", "shell.wait", "shell.detach", "shell.cancel", "task.status", "task.cancel"]
    {
        assert_eq!(peer.code(method, json!({"task_id": "none"})), -32602, "{method}");
    }
    let spawned = peer.ask("task.spawn", json!({"kind": "shell", "command": "echo x", "background": false}));
    assert_eq!((&spawned["state"], &spawned["stdout"]), (&json!("completed"), &json!("x\n")));
    assert_eq!(peer.ask("task.wait", json!({"task_id": spawned["task_id"]}))["exit_code"], 0);
    assert_eq!(peer.code("task.spawn", json!({"kind": "subagent"})), -32602);
    assert_eq!(peer.code("task.spawn", json!({"kind": "subagent", "prompt": " "})), -32602);
}

#[test]
fn subagent_is_started_as_a_task_and_asked_about() {
    let script = r#"{:turns [{:steps [{:delta "Found it."}]} {:steps [{:delta "part"} {:sleep-ms 60000}]}] :then :repeat-last}"#;
    let mut peer = Peer::ready(&Setup::new().script(script), CAN);
    let spawn = |prompt: &str, background: bool| json!({"kind": "subagent", "prompt": prompt, "tools": ["read"], "background": background});
    // Declined, carried out, and cancelled.
    let id = peer.request("task.spawn", spawn("look", false));
    let question = peer.question();
    assert_eq!(question["method"], "ui.confirm.request");
    peer.reply(&question, json!({"ok": false}));
    assert_eq!(peer.answer(&id)["result"]["state"], "cancelled");
    let id = peer.request("task.spawn", spawn("look again", false));
    let question = peer.question();
    assert_eq!(peer.code("task.spawn", spawn("another", true)), -32001);
    peer.reply(&question, json!({"ok": true}));
    let done = peer.answer(&id)["result"].clone();
    assert_eq!((&done["state"], &done["kind"]), (&json!("completed"), &json!("subagent")), "{done}");
    assert!(done["stdout"].as_str().unwrap().contains("Found it."), "{done}");
    let task = peer.ask("task.spawn", spawn("work", true));
    let id = task["task_id"].clone();
    assert_eq!(task["state"], "running");
    let question = peer.question();
    peer.reply(&question, json!({"ok": true}));
    let wait = peer.request("task.wait", json!({"task_id": id}));
    assert_eq!(peer.code("task.result", json!({"task_id": id})), -32001);
    assert_eq!(peer.ask("task.list", json!({"state": "running"}))["tasks"][0]["task_id"], id);
    assert_eq!(peer.ask("task.list", json!({"state": "running", "kind": "shell"}))["tasks"], json!([]));
    assert_eq!(peer.ask("task.cancel", json!({"task_id": id}))["state"], "cancelled");
    assert_eq!(peer.answer(&wait)["result"]["state"], "cancelled");
    assert_eq!(peer.ask("task.result", json!({"task_id": id}))["state"], "cancelled");
    // It was no run, and the session is free.
    let run = peer.run("hi");
    peer.ask("run.cancel", json!({"run_id": run}));
    let lines = peer.rest(&run);
    assert_eq!(outline(&lines).first().unwrap(), "[running]", "{lines:#?}");
}

#[test]
fn background_job_of_the_model_is_waited_for() {
    let script = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "until [ -e go ]; do sleep 0.02; done; echo ended" :background true}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let mut peer = Peer::ready(&yolo(script), CAN);
    peer.run_to_end("go");
    let tasks = peer.ask("task.list", json!({"state": "running"}));
    let id = tasks["tasks"][0]["task_id"].clone();
    let waits: Vec<_> = (0..2).map(|_| peer.request("task.wait", json!({"task_id": id}))).collect();
    assert_eq!(peer.code("task.result", json!({"task_id": id})), -32001);
    peer.ask("shell.exec", json!({"command": "touch go"}));
    for wait in waits {
        let task = peer.answer(&wait)["result"].clone();
        assert_eq!((&task["state"], &task["stdout"]), (&json!("completed"), &json!("ended\n")), "{task}");
    }
    assert_eq!(peer.ask("task.wait", json!({"task_id": id}))["state"], "completed");
    assert_eq!(peer.code("task.wait", json!({"task_id": "none"})), -32602);
}

#[test]
fn tool_without_a_run_is_judged_like_any_call() {
    let (setup, mut peer) = peer();
    std::fs::write(setup.project().join("a.txt"), "words\n").unwrap();
    let read = json!({"name": "read", "arguments": {"path": "a.txt"}});
    let result = peer.ask("tool.call", read.clone());
    assert!(result["result"]["text"].as_str().unwrap().contains("words"), "{result}");
    assert_eq!(peer.code("tool.call", json!({"name": "none"})), -32602);
    assert_eq!(peer.code("tool.call", json!({"name": "read", "arguments": {"path": "none.txt"}})), -32000);
    // What would be asked of the model's call is asked of this one.
    let write = json!({"name": "write", "arguments": {"path": "b.txt", "content": "x"}});
    for (ok, expected) in [(false, false), (true, true)] {
        let id = peer.request("tool.call", write.clone());
        let question = peer.question();
        assert_eq!(question["method"], "ui.confirm.request");
        peer.reply(&question, json!({"ok": ok, "reason": "r"}));
        let answer = peer.answer(&id);
        assert_eq!(answer["error"]["code"], if expected { Value::Null } else { json!(-32003) }, "{answer}");
        assert_eq!(setup.project().join("b.txt").exists(), expected);
    }
    // It is no run, leaves no message, and the session is free.
    let lines = peer.run_to_end("go on");
    assert_eq!(outline(&lines), ["[running]", "final", "[completed]"], "{lines:#?}");
}

#[test]
fn tool_that_a_rule_denies_does_not_run() {
    let setup = yolo(ECHO);
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:permissions {:rules [{:decision :deny :tool \"write\"}]}}")
        .unwrap();
    let mut peer = Peer::ready(&setup, CAN);
    let write = json!({"name": "write", "arguments": {"path": "b.txt", "content": "x"}});
    let answer = peer.call("tool.call", write);
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(!setup.project().join("b.txt").exists());
}

#[test]
fn theme_holds_at_the_next_start_beside_the_model() {
    let setup = Setup::new();
    let mut peer = Peer::ready(&setup, CAN);
    peer.ask("model.set", json!({"provider": "anthropic", "name": "claude-sonnet-4-5"}));
    let set = peer.ask("theme.set", json!({"name": "ocean"}));
    assert_eq!((&set["name"], &set["scope"]), (&json!("ocean"), &json!("global")));
    assert_eq!(peer.code("theme.set", json!({"name": "none"})), -32602);
    peer.kill();
    let mut peer = Peer::start(&setup);
    assert_eq!(peer.initialize(CAN)["tui"]["theme"], "ocean");
    assert_eq!(peer.ask("model.list", json!({}))["current"], "claude-sonnet-4-5");
}

#[test]
fn killed_runtime_leaves_no_command() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "c" :name "bash" :arguments {:command "echo $$ > model; exec sleep 600"}}}]}]}"#;
    let setup = yolo(script);
    let mut peer = Peer::ready(&setup, CAN);
    peer.ask("shell.start", json!({"command": "echo $$ > person; exec sleep 600"}));
    peer.run("go");
    let pid = |name: &str| std::fs::read_to_string(setup.project().join(name)).unwrap_or_default();
    wait_until("the commands begin", || pid("person").ends_with('\n') && pid("model").ends_with('\n'));
    peer.kill();
    for name in ["person", "model"] {
        let stat = std::path::PathBuf::from(format!("/proc/{}/stat", pid(name).trim()));
        let is_gone = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
        };
        wait_until(name, is_gone);
    }
}
