//! An editor that cancels, closes, answers or leaves at each moment of a turn. That each request is answered once, and
//! that nothing of a turn is told while nothing runs, is held by [`Editor`] for every line.

use serde_json::{Value, json};

use crate::editor::{Editor, text};
use crate::support::Setup;

/// A turn with words, a question, a command and words again.
const TURN: &str = r#"{:turns [{:steps [{:thinking "hm"} {:delta "I "} {:delta "look."} {:tool-call {:id "b" :name "bash" :arguments {:command "echo hi"}}}]}
                             {:steps [{:delta "Do"} {:delta "ne."}]}] :then :cycle}"#;

/// The most lines of such a turn.
const LINES: usize = 24;

fn start(second: bool) -> Editor {
    let setup = Setup::new().script(TURN);
    Editor::of(second, &setup)
}

/// What an editor does at its moment.
type Act<'a> = &'a dyn Fn(&mut Editor, &str, i64);

/// Prompts, lets `act` happen after so many lines, answers each question, and waits until the prompt has ended. Returns
/// how.
fn turn(editor: &mut Editor, session: &str, second: bool, moment: usize, act: Act<'_>) -> String {
    let id = editor.prompt(session, "go");
    let (mut lines, mut has_acted, mut stop) = (0, false, None);
    loop {
        if lines == moment && !has_acted {
            has_acted = true;
            act(editor, session, id);
        }
        let message = editor.message();
        lines += 1;
        if message["method"] == "session/request_permission" {
            editor.choose(&message, "allow");
        }
        let update = &message["params"]["update"];
        if message["id"] == id && message.get("method").is_none() {
            if let Some(code) = message["error"]["code"].as_i64() {
                return format!("error {code}");
            }
            if !second {
                stop = message["result"]["stopReason"].as_str().map(str::to_owned);
            }
        }
        if second && message["params"]["sessionId"] == session && update["state"] == "idle" {
            stop = Some(update["stopReason"].as_str().unwrap_or("none").to_owned());
        }
        if let Some(stop) = stop {
            return stop;
        }
    }
}

fn nothing(_: &mut Editor, _: &str, _: i64) {}

#[test]
fn cancel_at_each_moment_ends_the_turn_once() {
    for second in [false, true] {
        let mut editor = start(second);
        let session = editor.open("project");
        for moment in 0..LINES {
            let cancel = |editor: &mut Editor, session: &str, _: i64| {
                editor.notify("session/cancel", json!({"sessionId": session}));
            };
            let end = turn(&mut editor, &session, second, moment, &cancel);
            assert!(["cancelled", "end_turn", "error -32800"].contains(&end.as_str()), "{moment}: {end}");
            // Twice does no harm, nor does one when nothing runs.
            cancel(&mut editor, &session, 0);
            cancel(&mut editor, &session, 0);
        }
        // Nothing hangs: turns end as ever, once the last cancellations have come.
        while turn(&mut editor, &session, second, LINES, &nothing) != "end_turn" {}
        assert!(editor.quit().success());
    }
}

#[test]
fn request_cancelled_at_each_moment_is_answered_once() {
    for second in [false, true] {
        let mut editor = start(second);
        let session = editor.open("project");
        for moment in 0..LINES {
            let cancel = |editor: &mut Editor, _: &str, id: i64| {
                editor.notify("$/cancel_request", json!({"requestId": id}))
            };
            let end = turn(&mut editor, &session, second, moment, &cancel);
            assert!(["cancelled", "end_turn", "error -32800"].contains(&end.as_str()), "{moment}: {end}");
        }
        while turn(&mut editor, &session, second, LINES, &nothing) != "end_turn" {}
    }
}

#[test]
fn close_at_each_moment_ends_the_prompt() {
    for second in [false, true] {
        let mut editor = start(second);
        let folder = editor.folder("project");
        for moment in 0..LINES {
            let session = editor.open("project");
            let id = editor.prompt(&session, "go");
            let (mut lines, mut closing, mut answered, mut closed) = (0, None, false, false);
            // In version 2 the prompt may be answered long before.
            while !(answered && closed) {
                if lines == moment && closing.is_none() {
                    closing = Some(editor.request("session/close", json!({"sessionId": session})));
                }
                let message = editor.message();
                lines += 1;
                let is_answer = message.get("method").is_none();
                answered |= is_answer && message["id"] == id;
                closed |= is_answer && closing.is_some_and(|closing| message["id"] == closing);
                if message["method"] == "session/request_permission" && closing.is_none() {
                    editor.choose(&message, "allow");
                }
                if closing.is_none()
                    && (answered && !second || message["params"]["update"]["state"] == "idle")
                {
                    lines = moment;
                }
            }
            // It can be opened again, unless nothing was said in it.
            let (method, replay) = if second {
                ("session/resume", json!({"type": "start"}))
            } else {
                ("session/load", Value::Null)
            };
            let params = json!({"sessionId": session, "cwd": folder, "mcpServers": [], "replayFrom": replay});
            let opened = editor.call(method, params);
            let is_there = opened.get("error").is_none();
            assert!(is_there || opened["error"]["code"] == -32002, "{moment}: {opened}");
            if is_there {
                editor.ask("session/close", json!({"sessionId": session}));
            }
        }
        assert!(editor.quit().success());
    }
}

#[test]
fn editor_that_leaves_at_each_moment_loses_nothing_said() {
    for moment in (0..LINES).step_by(3) {
        let setup = Setup::new().script(TURN);
        let mut editor = Editor::ready(&setup, json!({}));
        let session = editor.open("project");
        let folder = editor.folder("project");
        let id = editor.prompt(&session, "go");
        let mut is_said = false;
        for _ in 0..moment {
            let message = editor.message();
            if message["method"] == "session/request_permission" {
                editor.choose(&message, "allow");
            }
            is_said |= message["params"]["update"]["sessionUpdate"] == "agent_message_chunk";
            if message["id"] == id && message.get("method").is_none() {
                break;
            }
        }
        assert!(editor.quit().success(), "{moment}");
        let mut editor = Editor::ready(&setup, json!({}));
        let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
        let id = editor.request("session/load", params);
        let (end, before) = editor.until(|message| message["id"] == id && message.get("method").is_none());
        let told = crate::editor::updates(&before, &session);
        if is_said {
            assert!(end.get("error").is_none(), "{end}");
            assert_eq!(text(&told, "user_message_chunk"), "go", "{moment}");
        }
    }
}

#[test]
fn answers_that_nobody_asked_for_change_nothing() {
    for second in [false, true] {
        let mut editor = start(second);
        let session = editor.open("project");
        for answer in [
            json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
            json!({"outcome": {"outcome": "cancelled"}}),
            json!(null),
            json!([]),
            json!({"action": "accept", "content": {"answer": true}}),
        ] {
            let mut asked = Vec::new();
            let id = editor.prompt(&session, "go");
            loop {
                let message = editor.message();
                if message["method"] == "session/request_permission" {
                    // Twice, and the first counts.
                    editor.choose(&message, "deny");
                    editor.reply(&message, answer.clone());
                    editor.send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": 1, "message": "no"}}));
                    asked.push(message.clone());
                }
                let is_end = if second {
                    message["params"]["update"]["state"] == "idle"
                } else {
                    message["id"] == id && message.get("method").is_none()
                };
                assert_ne!(message["params"]["update"]["status"], "in_progress", "{answer}: it ran");
                if is_end {
                    break;
                }
            }
            assert_eq!(asked.len(), 1, "{answer}");
            // Late.
            editor.reply(&asked[0], answer);
        }
        assert!(editor.quit().success());
    }
}

#[test]
fn flood_of_requests_is_answered_each_once() {
    for second in [false, true] {
        let mut editor = start(second);
        let session = editor.open("project");
        let mut open = std::collections::BTreeSet::new();
        for n in 0..600 {
            let id = match n % 4 {
                0 => editor.request("session/list", json!({})),
                1 => editor.request(
                    "_edn-bridge/query_eql",
                    json!({"sessionId": session, "query": "[:psi.agent-session/mode]"}),
                ),
                2 => editor.request(
                    "session/set_config_option",
                    json!({"sessionId": session, "configId": "mode", "type": "id", "value": "ask"}),
                ),
                _ => editor.request("no/such", json!({"n": n})),
            };
            open.insert(id);
            if n % 7 == 0 {
                editor.send_raw(b"{garbage");
            }
        }
        let mut unreadable = 0;
        while !open.is_empty() {
            let message = editor.message();
            if message.get("method").is_none() {
                match message["id"].as_i64() {
                    Some(id) => assert!(open.remove(&id), "{message}"),
                    None => unreadable += 1,
                }
            }
        }
        assert_eq!(unreadable, 600_usize.div_ceil(7));
        assert_eq!(turn(&mut editor, &session, second, LINES, &nothing), "end_turn");
    }
}

#[test]
fn sessions_side_by_side_bear_each_others_cancels() {
    for second in [false, true] {
        let mut editor = start(second);
        // Each in an engine of its own, with a script of its own.
        let (one, other) = (editor.open("project"), editor.open("another"));
        for moment in (0..LINES).step_by(4) {
            // The question of the other stays open all the while.
            let waiting = editor.prompt(&other, "ask");
            let (question, _) = editor.until(|message| message["method"] == "session/request_permission");
            assert_eq!(question["params"]["sessionId"], json!(other));
            let cancel = |editor: &mut Editor, session: &str, _: i64| {
                editor.notify("session/cancel", json!({"sessionId": session}));
            };
            turn(&mut editor, &one, second, moment, &cancel);
            editor.choose(&question, "allow");
            if second {
                editor.until(|message| {
                    message["params"]["sessionId"] == other.as_str()
                        && message["params"]["update"]["state"] == "idle"
                });
            } else {
                assert_eq!(editor.answer(waiting)["result"]["stopReason"], "end_turn");
            }
        }
    }
}
