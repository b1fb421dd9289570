//! Runs: what they tell, how they end, and that the next one is taken at once.

use serde_json::{Value, json};

use crate::peer::{CAN, Peer, content, event, outline};
use crate::support::Setup;

pub const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";
pub const BASH: &str = r#"{:turns [{:steps [{:thinking "hm"} {:delta "I look."} {:tool-call {:id "c1" :name "bash" :arguments {:command "echo hi"}}}]}
                           {:steps [{:delta "Done."}]}]}"#;

/// A call of `bash` that runs until it is ended.
const WAITING: &str = r#"{:turns [{:steps [{:delta "a"} {:tool-call {:id "w" :name "bash" :arguments {:command "touch begun; while [ -d $PWD ]; do sleep 0.02; done"}}}]}
                          {:steps [{:delta "later"}]}]}"#;

pub fn yolo(script: &str) -> Setup {
    Setup::new().script(script).arg("--yolo")
}

#[test]
fn run_with_a_tool_is_told_in_the_order_of_the_protocol() {
    let mut peer = Peer::ready(&yolo(BASH), CAN);
    let lines = peer.run_to_end("look");
    let expected = [
        "[running]",
        "reasoning",
        "text",
        "step_start",
        "tool_call",
        "tool_result",
        "step_complete",
        "final",
        "[completed]",
    ];
    assert_eq!(outline(&lines), expected, "{lines:#?}");
    assert_eq!(content(&lines, "final"), "Done.");
    let call = &lines[4]["params"]["event"];
    assert_eq!(call["args"], json!({"command": "echo hi"}));
    assert_eq!(lines[5]["params"]["event"]["result"], "hi\n");
}

#[test]
fn text_of_an_answer_is_told_once() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    let lines = peer.run_to_end("only once");
    assert_eq!(outline(&lines), ["[running]", "final", "[completed]"]);
    assert!(content(&lines, "final").contains("only once"));
}

#[test]
fn run_that_follows_at_once_is_taken() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    for n in 0..50 {
        let lines = peer.run_to_end(&format!("run {n}"));
        assert!(content(&lines, "final").contains(&format!("run {n}")));
    }
}

#[test]
fn run_during_a_run_is_refused_and_reads_are_served() {
    let setup = yolo(WAITING);
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("wait");
    peer.until(|line| line["params"]["event"]["type"] == "tool_call");
    let input = json!({"input": {"type": "text", "text": "another"}});
    assert_eq!(peer.code("run.start", input), -32001);
    assert_eq!(peer.code("run.start", json!({"force_compaction": true})), -32001);
    assert_eq!(peer.code("model.set", json!({"name": "scripted"})), -32001);
    assert_eq!(peer.code("auth.logout", json!({})), -32001);
    assert_eq!(peer.code("theme.set", json!({"name": "ocean"})), -32001);
    assert_eq!(peer.code("tool.call", json!({"name": "read"})), -32001);
    for method in ["session.list", "model.list", "mcp.list", "skills.list", "context.inspect"] {
        peer.ask(method, json!({}));
    }
    assert_eq!(peer.ask("run.cancel", json!({"run_id": run}))["ok"], true);
    peer.rest(&run);
}

#[test]
fn server_of_tools_is_listed_before_and_after_its_first_use() {
    let setup = yolo(ECHO);
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_engine/server.py");
    let config = format!(
        "{{:mcp {{\"s\" {{:command [\"python3\" {program:?}] :env {{\"STARTED\" \"/dev/null\"}}}} \
                 \"broken\" {{:command [\"/no/such/program\"]}} \
                 \"off\" {{:command [\"true\"] :enabled false}}}}}}"
    );
    std::fs::write(folder.join("config.edn"), config).unwrap();
    let mut peer = Peer::ready(&setup, CAN);
    let list = |peer: &mut Peer, params| peer.ask("mcp.list", params)["servers"].clone();
    let unused = list(&mut peer, json!({}));
    let shown = |id: &str| json!({"id": id, "transport": "stdio", "source": "global", "enabled": true, "state": "connecting", "tools": 0});
    assert_eq!(unused, json!([shown("broken"), shown("s")]));
    let configured = list(&mut peer, json!({"scope": "configured"}));
    assert_eq!(
        (&configured[1]["id"], &configured[1]["state"]),
        (&json!("off"), &json!("disabled")),
        "{configured}"
    );
    peer.run_to_end("hello");
    let used = list(&mut peer, json!({}));
    assert_eq!((&used[0]["state"], &used[1]["state"]), (&json!("error"), &json!("ready")), "{used}");
    assert!(used[0]["last_error"].as_str().unwrap().contains("/no/such/program"), "{used}");
    assert!(used[1]["tools"].as_u64().unwrap() > 5 && used[1]["last_connected_at"].is_string(), "{used}");
}

#[test]
fn cancelled_run_ends_and_cancel_is_idempotent() {
    let setup = yolo(WAITING);
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("wait");
    peer.until(|line| line["params"]["event"]["type"] == "tool_call");
    assert_eq!(peer.ask("run.cancel", json!({"run_id": run}))["ok"], true);
    let lines = peer.rest(&run);
    assert_eq!(outline(&lines).last().unwrap(), "[cancelled]", "{lines:#?}");
    for _ in 0..2 {
        let again = peer.ask("run.cancel", json!({"run_id": run, "reason": "x"}));
        assert_eq!(again, json!({"ok": false, "status": "cancelled"}));
    }
    assert_eq!(peer.code("run.cancel", json!({"run_id": "none"})), -32002);
    // The next run is taken at once.
    let lines = peer.run_to_end("go on");
    assert_eq!(outline(&lines).last().unwrap(), "[completed]");
}

#[test]
fn run_is_cancelled_as_soon_as_its_answer_is_seen() {
    let setup = yolo(r#"{:turns [{:steps [{:delta "part"} {:sleep-ms 60000}]}] :then :repeat-last}"#);
    let mut peer = Peer::ready(&setup, CAN);
    for _ in 0..50 {
        let run = peer.run("wait");
        assert_eq!(peer.ask("run.cancel", json!({"run_id": run}))["ok"], true);
        assert_eq!(outline(&peer.rest(&run)).last().unwrap(), "[cancelled]");
    }
}

#[test]
fn failed_run_ends_with_its_error() {
    let mut peer =
        Peer::ready(&yolo(r#"{:turns [{:steps [{:error {:kind :fatal :message "broken"}}]}]}"#), CAN);
    let lines = peer.run_to_end("fail");
    let end = lines.last().unwrap();
    assert_eq!(end["params"]["status"], "error", "{lines:#?}");
    assert!(end["params"]["message"].as_str().unwrap().contains("broken"), "{end}");
}

#[test]
fn slash_command_is_a_run_of_its_own() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    let lines = peer.run_to_end("/help");
    assert_eq!(outline(&lines), ["[running]", "final", "[completed]"]);
    assert!(content(&lines, "final").contains("/quit"));
    let lines = peer.run_to_end("/job no-such-job");
    assert_eq!(outline(&lines), ["[running]", "[error]"], "{lines:#?}");
    let input = json!({"input": {"type": "text", "text": "/no-such-command"}});
    assert_eq!(peer.code("run.start", input), -32602);
    let lines = peer.run_to_end("/quit");
    assert_eq!(outline(&lines), ["[running]", "final", "[completed]"]);
    assert!(peer.is_over());
}

#[test]
fn compaction_is_a_run_and_leaves_the_session_free() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    let start = json!({"force_compaction": true, "input": {"type": "text", "text": ""}});
    let run = |peer: &mut Peer, start: &Value| {
        peer.ask("run.start", start.clone())["run_id"].as_str().unwrap().to_owned()
    };
    let id = run(&mut peer, &start);
    let lines = peer.rest(&id);
    let expected = ["[running]", "compaction_start", "compaction_complete", "final", "[completed]"];
    assert_eq!(outline(&lines), expected);
    assert_eq!(lines[2]["params"]["event"]["compacted"], false);
    for _ in 0..3 {
        peer.run_to_end(&"long words ".repeat(20_000));
    }
    let id = run(&mut peer, &start);
    let lines = peer.rest(&id);
    let told = outline(&lines);
    assert!(told.contains(&"compaction_complete".to_owned()), "{told:?}");
    assert_eq!(event(&lines, "compaction_complete")["compacted"], true, "{lines:#?}");
    assert_eq!(told.last().unwrap(), "[completed]");
    peer.run_to_end("go on");
}

#[test]
fn cancelled_compaction_command_is_cancelled() {
    let script = r#"{:turns [{:steps [{:echo :last-user}]} {:steps [{:echo :last-user}]} {:steps [{:echo :last-user}]}
                             {:steps [{:sleep-ms 600000}]}]}"#;
    let mut peer = Peer::ready(&yolo(script), CAN);
    for _ in 0..3 {
        peer.run_to_end(&"long words ".repeat(10_000));
    }
    let run = peer.run("/compact");
    peer.until(|line| line["params"]["event"]["type"] == "compaction_start");
    assert_eq!(peer.ask("run.cancel", json!({"run_id": run}))["ok"], true);
    let lines = peer.rest(&run);
    assert_eq!(outline(&lines).last().unwrap(), "[cancelled]", "{lines:#?}");
    peer.run_to_end("/status");
}

#[test]
fn pieces_of_an_answer_are_only_for_who_asks() {
    let script = r#"{:turns [{:steps [{:thinking "hm"} {:delta "one "} {:delta "two"}]}]}"#;
    let mut peer = Peer::ready(&yolo(script), &["supports_text_deltas"]);
    let lines = peer.run_to_end("go");
    let pieces = lines.iter().filter(|line| line["params"]["event"]["type"] == "text_delta");
    let text = |kind: &str| -> String {
        let of_kind = pieces.clone().filter(|line| line["params"]["event"]["kind"] == kind);
        of_kind.map(|line| line["params"]["event"]["content"].as_str().unwrap()).collect()
    };
    assert_eq!((text("text"), text("reasoning")), ("one two".to_owned(), "hm".to_owned()), "{lines:#?}");
    assert_eq!(content(&lines, "final"), "one two");
}

#[test]
fn figures_of_model_calls_are_told_if_asked_for() {
    let script = r#"{:turns [{:steps [{:delta "x"}] :usage {:input 1000 :output 500 :cache-read 250}}]}"#;
    for (setup, expected) in [(yolo(script).env("CODELIA_DIAGNOSTICS", "1"), true), (yolo(script), false)] {
        let mut peer = Peer::ready(&setup, CAN);
        let lines = peer.run_to_end("go");
        let figures: Vec<&Value> = lines.iter().filter(|line| line["method"] == "run.diagnostics").collect();
        assert_eq!(!figures.is_empty(), expected, "{lines:#?}");
        if expected {
            assert_eq!(figures[0]["params"]["call"]["usage"]["input_tokens"], 1250, "{figures:#?}");
            assert_eq!(figures[1]["params"]["summary"]["total_calls"], 1);
            assert_eq!(outline(&lines).iter().rev().nth(1).unwrap(), "<run.diagnostics>");
        }
        let context = lines.iter().find(|line| line["method"] == "run.context").unwrap();
        assert_eq!(context["params"]["context_left_percent"], 100, "{context}");
    }
}

#[test]
fn model_calls_without_usage_are_counted() {
    let mut peer = Peer::ready(&yolo(BASH).env("CODELIA_DIAGNOSTICS", "1"), CAN);
    let lines = peer.run_to_end("go");
    let figures = lines.iter().filter(|line| line["method"] == "run.diagnostics");
    let figures: Vec<&Value> = figures.map(|line| &line["params"]).collect();
    let kinds: Vec<&Value> = figures.iter().map(|figures| &figures["kind"]).collect();
    assert_eq!(kinds, ["llm_call", "llm_call", "run_summary"], "{lines:#?}");
    assert_eq!((&figures[1]["call"]["seq"], &figures[1]["call"]["usage"]), (&json!(1), &Value::Null));
    assert_eq!(figures[1]["call"]["cache"]["hit_state"], "unknown");
    assert_eq!(figures[2]["summary"]["total_calls"], 2);
    assert_eq!(figures[2]["summary"]["total_cost_usd"], Value::Null);
}

#[test]
fn images_of_a_message_reach_the_model() {
    let png = "data:image/png;base64,iVBORw0KGgo=";
    let parts = |url: &str| {
        json!({"input": {"type": "parts", "parts": [
            {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]}})
    };
    let setup = yolo(ECHO);
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.ask("run.start", parts(png))["run_id"].as_str().unwrap().to_owned();
    peer.rest(&run);
    for url in ["https://example.org/a.png", "data:image/png;base64,AAAA", "data:text/plain;base64,AAAA", "x"]
    {
        assert_eq!(peer.code("run.start", parts(url)), -32602, "{url}");
    }
}

#[test]
fn mode_follows_the_approval_mode() {
    for (mode, asks) in [("minimal", true), ("trusted", true), ("full-access", false)] {
        let mut peer = Peer::with(&Setup::new().script(BASH), &["--approval-mode", mode]);
        peer.initialize(CAN);
        let run = peer.run("look");
        if asks {
            let question = peer.question();
            peer.reply(&question, json!({"ok": true}));
        }
        let lines = peer.rest(&run);
        assert!(!outline(&lines).contains(&"[awaiting_ui]".to_owned()), "{mode}: {lines:#?}");
    }
}
