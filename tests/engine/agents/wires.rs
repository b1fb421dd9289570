//! Every wire on a session whose turns an agent answers: several clients, search and export, the UI protocol, the ACP wire
//! and the control protocol.

use serde_json::json;

use super::*;
use crate::editor::Editor;
use crate::peer::{CAN, Peer};
use support::guest::{self, Guest};

#[test]
fn second_client_sees_the_turn_and_may_answer() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    let id = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    let mut second = Guest::interactor(&guest::socket(&setup.state()));
    second.ask("w", "switch_session", &format!("{{:session-id {id:?}}}"));
    say(&mut bridge, "plan; say shared; ask c execute once,no command=make");
    second.until(|frame| is_event(frame, "assistant/delta") && data(frame, "text") == "shared");
    let question = second.until(|frame| is_event(frame, "interaction/requested"));
    let asked = data(&question, "interaction-id").to_owned();
    let answer = format!(
        "{{:interaction-id {asked:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
    );
    let answered = second.ask("r", "interaction_respond", &answer).to_string();
    assert!(answered.contains(":accepted true"), "{answered}");
    assert_eq!(text(&ended(&mut bridge)), "chose once-0. ");
    let options = second.ask("o", "set_option", "{:option \"model\" :value \"m-large\"}").to_string();
    assert!(options.contains("m-large"), "{options}");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "model-id") == "m-large");
}

#[test]
fn agents_session_is_found_and_exported() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "say the quagga; call c execute; input c make test; run c; done c all well; say after");
    let found = bridge.ask("l", "list_sessions", "{:text \"quagga\"}");
    assert_eq!(at(&found, &["data", "sessions"]).unwrap().as_slice().unwrap().len(), 1, "{found}");
    let none = bridge.ask("l", "list_sessions", "{:text \"okapi\"}");
    assert_eq!(at(&none, &["data", "sessions"]).unwrap().as_slice().unwrap().len(), 0, "{none}");
    let page = bridge.ask("e", "export_html", "{:path \"page.html\"}");
    let page = std::fs::read_to_string(data(&page, "path")).unwrap();
    for part in ["the quagga", "all well", "after"] {
        assert!(page.contains(part), "{part}");
    }
    let asked = "{:query \"[{:psi.agent-session/messages [:psi.message/role :psi.message/text]}]\"}";
    let asked = bridge.ask("q", "query_eql", asked).to_string();
    assert!(asked.contains("the quagga"), "{asked}");
    let calls = bridge.ask("s", "get_session_stats", "{}").to_string();
    assert!(calls.contains(":tool-calls {\"bash\" 1}"), "{calls}");
}

#[test]
fn ui_protocol_runs_and_asks() {
    let setup = with_agent("", "");
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("say hello from the agent; ask c edit once,no diff=new.txt@hi; say done");
    let question = peer.question();
    assert_eq!(question["params"]["title"], "Change file?", "{question}");
    peer.reply(&question, json!({"ok": true, "reason": null}));
    peer.rest(&run);
    // The change was shown before the question.
    let all = peer.transcript.join("\n");
    assert!(all.contains("permission.preview") && all.contains("+hi"), "{all}");
    assert!(all.contains("hello from the agent") && all.contains("chose once-0"), "{all}");
    peer.quit();
}

#[test]
fn acp_editor_has_the_agent_behind_it() {
    let setup = with_agent("http", "");
    let mut editor = Editor::ready(&setup, json!({}));
    let folder = editor.folder("project");
    let servers = json!([{"name": "brought", "command": "/bin/b", "args": ["1"], "env": [{"name": "T", "value": "canary-5"}]}]);
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": servers}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let (updates, stop) =
        editor.turn(&session, "plan; say hello; call c execute; run c; done c well; servers");
    let all = serde_json::to_string(&updates).unwrap();
    assert_eq!(stop, "end_turn", "{all}");
    for part in ["hello", "\"plan\"", "tool_call", "brought", "canary-5"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    // Its permission is the editor's, with the change.
    let id = editor.prompt(&session, "ask c edit once,no diff=new.txt@hi; say done");
    let question = editor.question();
    assert!(question.to_string().contains("+hi"), "{question}");
    let option = question["params"]["options"].as_array().unwrap().iter();
    let once = option.clone().find(|option| option["kind"] == "allow_once").unwrap();
    let once = once["optionId"].as_str().unwrap().to_owned();
    editor.choose(&question, &once);
    let answer = editor.answer(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    editor.quit();
}

#[test]
fn control_protocol_reaches_the_agent() {
    let setup = Setup::new().arg("--agent").arg("a");
    let own = agent(&setup, "", "");
    let teams = ":control {:teams [{:name \"t\" :members [\"ann\"]}]}";
    let setup = configure(setup, &format!("{{:agents {{\"a\" {own}}} {teams}}}"));
    let mut bridge = setup.interactor();
    let id = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    let ack =
        bridge.ask("c", "control", &support::control("r1", &id, Some("say by control; wait"))).to_string();
    assert!(ack.contains("accepted"), "{ack}");
    bridge.until(|frame| is_event(frame, "assistant/delta") && data(frame, "text").contains("by control"));
    let ack = bridge.ask("c", "control", &support::control("r2", &id, None)).to_string();
    assert!(ack.contains("accepted"), "{ack}");
    assert_eq!(data(&end_of_turn(&mut bridge), "stop-reason"), "interrupted");
}
