//! A session of another host on every wire: terminal interfaces, editors, replay, export, queries of what is written.

use serde_json::json;

use super::crossing::Two;
use super::{ask, end_of_turn, is_lost, listed, texts};
use crate::editor::Editor;
use crate::fixture::signal;
use crate::peer::{CAN, Peer};
use crate::support::{at, data, is_event};
use edn_bridge::value::Value;

const SAYS: &str =
    "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo ran >> ran\"}}}]}
                             {:steps [{:delta \"It \"} {:delta \"ran.\"}]}] :then :cycle}";

#[test]
fn terminal_interface_drives_a_session_of_another_host() {
    let Some(mut two) = Two::start(SAYS) else { return };
    let Two { alpha, beta, a, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"before\"}");
    end_of_turn(b);
    let mut peer = Peer::ready(&beta.setup, CAN);
    let run = peer
        .ask("run.start", json!({"session_id": session, "input": {"type": "text", "text": "over the ui"}}));
    let told = peer.rest(run["run_id"].as_str().unwrap());
    let all = told.iter().map(ToString::to_string).collect::<String>();
    assert!(all.contains("It ran."), "{all}");
    assert_eq!(told.last().unwrap()["params"]["status"], "completed", "{all}");
    assert_eq!(std::fs::read_to_string(alpha.file("ran")).unwrap(), "ran\nran\n");
    assert!(!beta.file("ran").exists());
    let history = peer.ask("session.history", json!({"session_id": session}));
    assert_eq!(history["runs"], 2, "{history}");
    end_of_turn(a);
    end_of_turn(a);
    assert_eq!(texts(a).len(), 8);

    // A single tool is asked of the owner: with that lost nothing here runs it, although the folder is here.
    std::fs::write(alpha.file("only.txt"), "of alpha").unwrap();
    let read = |path: &str| json!({"session_id": session, "name": "read", "arguments": {"path": path}});
    let result = peer.ask("tool.call", read("only.txt"));
    assert!(result.to_string().contains("of alpha"), "{result}");
    signal(alpha.pid(), "-KILL");
    listed(b, session, is_lost);
    peer.code("tool.call", read("only.txt"));
}

#[test]
fn editor_drives_a_session_of_another_host() {
    let Some(mut two) = Two::start(SAYS) else { return };
    let Two { alpha, beta, a, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"before\"}");
    end_of_turn(b);
    for second in [false, true] {
        let mut editor = Editor::of(second, &beta.setup);
        let folder = editor.folder("project");
        let (method, more) = if second { ("session/resume", "resume") } else { ("session/load", "load") };
        let id = editor.request(method, json!({"sessionId": session, "cwd": folder, "mcpServers": []}));
        let (end, _) = editor.until(|message| message["id"] == id && message.get("method").is_none());
        assert!(end.get("error").is_none(), "{more}: {end}");
        let told = match second {
            false => editor.turn(session, "over acp").0,
            true => editor.second_turn(session, "over acp").0,
        };
        let all = told.iter().map(ToString::to_string).collect::<String>();
        assert!(all.contains("ran."), "{all}");
    }
    assert_eq!(std::fs::read_to_string(alpha.file("ran")).unwrap(), "ran\nran\nran\n");
    assert!(!beta.file("ran").exists());
    for _ in 0..3 {
        end_of_turn(a);
    }
    assert_eq!(texts(a).len(), 12);
}

#[test]
fn session_of_another_host_is_replayed_exported_and_queried() {
    let Some(mut two) = Two::start(SAYS) else { return };
    let Two { beta, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"words of a person\"}");
    end_of_turn(b);
    let state = ask(b, "get_messages", "{:limit 1}");
    let mut other = beta.setup.interactor();
    let since = format!(
        "{{:topics [\"session/entry\" \"session/synced\"] :since {{:session-id {session:?} :offset 0}}}}"
    );
    ask(&mut other, "subscribe", &since);
    let mut offsets = Vec::new();
    let synced = loop {
        let frame =
            other.until(|frame| is_event(frame, "session/entry") || is_event(frame, "session/synced"));
        let offset = at(&frame, &["data", "offset"]).and_then(Value::as_i64).unwrap();
        if is_event(&frame, "session/synced") {
            break offset;
        }
        assert_eq!(data(&frame, "session-id"), session);
        offsets.push(offset);
    };
    assert_eq!(offsets, (1..=synced).collect::<Vec<_>>());
    assert!(synced > 6, "{state}");
    // It goes on live.
    ask(b, "prompt", "{:message \"and more\"}");
    other.until(|frame| is_event(frame, "session/entry") && frame.to_string().contains("and more"));
    end_of_turn(b);

    let exported = ask(b, "export_html", "{:path \"page.html\"}");
    let page = std::fs::read_to_string(data(&exported, "path")).unwrap();
    assert!(page.contains("words of a person") && page.contains("and more"), "{page}");
    let query = "{:query \"[{:psi.agent-session/turns [:psi.turn/text :psi.turn/tool-call-count]}]\"}";
    let answer = ask(b, "query_eql", query).to_string();
    assert_eq!(answer.matches(":psi.turn/text \"It ran.\"").count(), 2, "{answer}");
    assert_eq!(answer.matches(":psi.turn/tool-call-count 1").count(), 2, "{answer}");
}
