//! Checks of slash commands, their typed outcomes, and choices that a frontend offers natively.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Answer, Peer, payload};
use super::events::session_of;
use super::sessions::{idle, messages, opened, state, talk, words};
use crate::catalogue::COMMANDS;
use crate::edn;
use crate::value::Value;

const COMMAND: &[Need] = &[Need::Op("command")];

/// The types of a command's outcome.
const OUTCOMES: &[&str] = &[
    "text",
    "error",
    "quit",
    "new_session",
    "session_switch",
    "login_start",
    "logout",
    "model_set",
    "thinking_set",
];

/// Commands that ask for a choice: the command, the action's name, its prompt.
pub const CHOICES: &[(&str, &str, &str)] = &[
    ("/resume", "select-resume-session", "Select a session to resume"),
    ("/tree", "select-session", "Select a live session"),
    ("/model", "select-model", "Select a model"),
    ("/thinking", "select-thinking-level", "Select a thinking level"),
];

/// Fixed texts of direct forms: the command, and how its text begins.
pub const DIRECT: &[(&str, &str)] = &[
    ("/thinking high", "Thinking level set to high"),
    ("/model only-one", "Usage: /model OR /model <provider> <model-id>"),
    ("/history", "Message history"),
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "command.outcome",
        about: "A command is accepted, and its outcome comes as a typed command-result with the request's id.",
        needs: COMMAND,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            for command in ["/status", "/help", "/?"] {
                let id = peer.new_id();
                peer.send_as(&id, "command", &format!("{{:text {command:?}}}"));
                let data = peer.answer_ok(&id)?;
                ensure(data.get("accepted") == Some(&Value::Bool(true)), || {
                    ":accepted is not true".to_owned()
                })?;
                let event = peer.topic("command-result")?;
                let kind = text(payload(&event), "type").to_owned();
                ensure(kind == "text", || format!("the outcome of {command} is of type {kind:?}"))?;
                ensure(!text(payload(&event), "message").is_empty(), || format!("{command} says nothing"))?;
                match event.get("id").and_then(Value::as_str) {
                    Some(cause) => ensure(cause == id, || "the outcome carries another id".to_owned())?,
                    None => probe.note("command-result carries no id."),
                }
            }
            Ok(())
        },
    },
    Check {
        name: "command.known",
        about: "Every catalogued command is known, and its outcome has a catalogued type.",
        needs: COMMAND,
        run: known,
    },
    Check {
        name: "command.unknown",
        about: "An unknown command is request/unknown-command with the most similar names, and the model is not called.",
        needs: &[Need::Op("command"), Need::Op("prompt"), Need::Op("get_messages")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for (op, key) in [("command", "text"), ("prompt", "message")] {
                for command in ["/statsu", "/no-such-command with words", "/statsu "] {
                    let error =
                        peer.ask_error(op, &format!("{{:{key} {command:?}}}"), "request/unknown-command")?;
                    let nearest = error
                        .frame
                        .get("data")
                        .and_then(|data| data.get("nearest"))
                        .and_then(Value::as_slice);
                    if nearest.is_none() {
                        probe.note("request/unknown-command does not name the nearest commands.");
                    }
                    let near = nearest.is_none_or(|names| {
                        !command.starts_with("/statsu")
                            || names
                                .iter()
                                .any(|n| n.as_str().is_some_and(|n| n.trim_start_matches('/') == "status"))
                    });
                    ensure(near, || format!("{command} is not near to status"))?;
                }
            }
            let kept = messages(&mut peer, "{}")?;
            ensure(kept.is_empty(), || "an unknown command stands in the conversation".to_owned())
        },
    },
    Check {
        name: "command.in-a-prompt",
        about: "A command in `prompt` runs as a command: its outcome arrives, and no turn starts.",
        needs: &[Need::Op("prompt"), Need::Op("command"), Need::Op("get_messages")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("prompt", "{:message \"/status\"}")?;
            peer.topic("command-result")?;
            let kept = messages(&mut peer, "{}")?;
            ensure(kept.is_empty(), || "the command went to the model".to_owned())
        },
    },
    Check {
        name: "command.text-is-text",
        about: "A path, a slash in the middle, and two slashes at the start are text; the two become one.",
        needs: &[Need::Op("prompt"), Need::Op("get_messages")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let said =
                ["/usr/bin is a folder", "and/or", "// a comment", "/", "/ status", "/Status", "//status"];
            let due =
                ["/usr/bin is a folder", "and/or", "/ a comment", "/", "/ status", "/Status", "/status"];
            for message in said {
                talk(&mut peer, message)?;
            }
            let kept: Vec<String> = messages(&mut peer, "{}")?
                .iter()
                .filter(|message| text(message, "role") == "user")
                .map(words)
                .collect();
            ensure(kept == due, || format!("kept as {kept:?}"))
        },
    },
    Check {
        name: "command.direct-forms",
        about: "Direct forms have fixed texts as their outcomes.",
        needs: COMMAND,
        run: |probe| {
            for (command, due) in DIRECT {
                let mut peer = probe.subscribed(None)?;
                peer.ask_ok("command", &format!("{{:text {command:?}}}"))?;
                let event = peer.topic("command-result")?;
                let told = text(payload(&event), "message");
                ensure(told.contains(due), || format!("{command} answers {told:?}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "command.thinking-takes-effect",
        about: "`/thinking` with a level sets it; any other word sets nothing.",
        needs: &[Need::Op("command"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            for (command, due) in [("/thinking high", "high"), ("/thinking loud", "high")] {
                if let Answer::Ok(_) = peer.ask("command", &format!("{{:text {command:?}}}"))? {
                    peer.topic("command-result")?;
                }
                let state = state(&mut peer)?;
                ensure(text(&state, "thinking-level") == due, || {
                    format!("after {command} it is {}", text(&state, "thinking-level"))
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "command.name-takes-effect",
        about: "`/name` names the session.",
        needs: &[Need::Op("command"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("command", "{:text \"/name by command\"}")?;
            peer.topic("command-result")?;
            let state = state(&mut peer)?;
            ensure(text(&state, "session-name") == "by command", || "it is not named".to_owned())
        },
    },
    Check {
        name: "command.new-takes-effect",
        about: "`/new` opens a session and moves the focus.",
        needs: &[Need::Op("command"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let before = session_of(&mut peer)?;
            peer.ask_ok("command", "{:text \"/new\"}")?;
            peer.event("session/resumed of another session", |topic, payload| {
                topic == "session/resumed" && text(payload, "session-id") != before
            })?;
            ensure(session_of(&mut peer)? != before, || "the focus did not move".to_owned())
        },
    },
    Check {
        name: "command.beside-a-turn",
        about: "Commands are served during a running turn.",
        needs: &[Need::Script, Need::Op("command"), Need::Op("prompt"), Need::Op("abort")],
        run: |probe| {
            let script = "{:turns [{:steps [{:delta \"part\"} {:sleep-ms 60000}]}]}";
            let mut peer = probe.subscribed(Some(script))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("assistant/delta")?;
            peer.ask_ok("command", "{:text \"/status\"}")?;
            peer.topic("command-result")?;
            let state = state(&mut peer)?;
            ensure(state.get("is-streaming") == Some(&Value::Bool(true)), || "the turn ended".to_owned())?;
            peer.ask_ok("command", "{:text \"/abort\"}")?;
            idle(&mut peer)
        },
    },
    Check {
        name: "command.list",
        about: "`get_commands` lists every catalogued command.",
        needs: &[Need::Op("get_commands")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("get_commands", "{}")?;
            let commands = data.get("commands").and_then(Value::as_slice).unwrap_or_default();
            let told: Vec<&str> =
                commands.iter().map(|command| text(command, "name").trim_start_matches('/')).collect();
            let absent: Vec<&str> =
                COMMANDS.iter().map(|c| c.name).filter(|name| !told.contains(name)).collect();
            ensure(absent.is_empty(), || format!("{absent:?} are not told"))
        },
    },
    Check {
        name: "action.shape",
        about: "A command that needs a choice requests it with the canonical action model.",
        needs: COMMAND,
        run: |probe| {
            for (command, name, prompt) in CHOICES {
                let (mut peer, _) = chooser(probe)?;
                let action = asked(&mut peer, command)?;
                action.canonical(name, prompt)?;
            }
            Ok(())
        },
    },
    Check {
        name: "action.items",
        about: "The values of an action's items have the shape for its name.",
        needs: COMMAND,
        run: |probe| {
            for (command, name, _) in CHOICES {
                let (mut peer, _) = chooser(probe)?;
                let action = asked(&mut peer, command)?;
                for value in action.values() {
                    let shape = match *name {
                        "select-resume-session" | "select-thinking-level" => value.as_str().is_some(),
                        "select-model" => {
                            !text(&value, "provider").is_empty() && !text(&value, "id").is_empty()
                        }
                        _ => match value.get("action/kind").and_then(Value::as_keyword) {
                            Some("switch-session") => !text(&value, "action/session-id").is_empty(),
                            Some("fork-session") => !text(&value, "action/entry-id").is_empty(),
                            _ => false,
                        },
                    };
                    ensure(shape, || format!("a value of {name} is {}", edn::to_string(&value)))?;
                }
            }
            Ok(())
        },
    },
    Check {
        name: "action.submit-thinking-level",
        about: "A chosen level is set.",
        needs: ACTION,
        run: |probe| {
            let (mut peer, _) = chooser(probe)?;
            let action = asked(&mut peer, "/thinking")?;
            action.answer(&mut peer, "submitted", "\"high\"")?;
            eventually(&mut peer, "thinking-level", "high")
        },
    },
    Check {
        name: "action.submit-model",
        about: "A chosen model is set.",
        needs: ACTION,
        run: |probe| {
            let (mut peer, _) = chooser(probe)?;
            let action = asked(&mut peer, "/model")?;
            let Some(value) = action.values().into_iter().next() else {
                return Err(Stop::NotApplicable("there is no model to choose".to_owned()));
            };
            action.answer(&mut peer, "submitted", &edn::to_string(&value))?;
            eventually(&mut peer, "model-id", text(&value, "id"))
        },
    },
    Check {
        name: "action.submit-session",
        about: "A chosen live session gets the focus, and a chosen entry is forked.",
        needs: &[
            Need::Op("command"),
            Need::Op("frontend_action_result"),
            Need::Op("get_state"),
            Need::Op("new_session"),
            Need::Op("prompt"),
        ],
        run: |probe| {
            let (mut peer, first) = chooser(probe)?;
            let second = session_of(&mut peer)?;
            let action = asked(&mut peer, "/tree")?;
            let value = format!("{{:action/kind :switch-session :action/session-id {first:?}}}");
            action.answer(&mut peer, "submitted", &value)?;
            eventually(&mut peer, "session-id", &first)?;
            let entry =
                messages(&mut peer, "{}")?.first().map(|m| text(m, "id").to_owned()).unwrap_or_default();
            let action = asked(&mut peer, "/tree")?;
            let value = format!("{{:action/kind :fork-session :action/entry-id {entry:?}}}");
            action.answer(&mut peer, "submitted", &value)?;
            peer.event("session/resumed of the fork", |topic, payload| {
                topic == "session/resumed"
                    && ![&first, &second].contains(&&text(payload, "session-id").to_owned())
            })?;
            ensure(session_of(&mut peer)? != first, || "the focus did not move to the fork".to_owned())
        },
    },
    Check {
        name: "action.submit-resume",
        about: "A session that is chosen by its path gets the focus.",
        needs: &[
            Need::Op("command"),
            Need::Op("frontend_action_result"),
            Need::Op("new_session"),
            Need::Op("prompt"),
            Need::Op("get_state"),
        ],
        run: |probe| {
            let (mut peer, first) = chooser(probe)?;
            let data = peer.ask_ok("get_state", &format!("{{:session-id {first:?}}}"))?;
            let file =
                data.get("state").map(|state| text(state, "session-file").to_owned()).unwrap_or_default();
            let action = asked(&mut peer, "/resume")?;
            let offered = action.values().iter().any(|value| value.as_str() == Some(file.as_str()));
            ensure(offered, || format!("{file} is not among the choices"))?;
            action.answer(&mut peer, "submitted", &format!("{file:?}"))?;
            eventually(&mut peer, "session-id", &first)
        },
    },
    Check {
        name: "action.cancelled",
        about: "A cancelled or failed choice changes nothing and is closed.",
        needs: ACTION,
        run: |probe| {
            for status in ["cancelled", "failed"] {
                let (mut peer, _) = chooser(probe)?;
                let before = state(&mut peer)?;
                let action = asked(&mut peer, "/thinking")?;
                action.answer(&mut peer, status, "nil")?;
                let after = state(&mut peer)?;
                ensure(before.get("thinking-level") == after.get("thinking-level"), || {
                    format!("{status} changed the level")
                })?;
                over(&action, &mut peer)?;
            }
            Ok(())
        },
    },
    Check {
        name: "action.answered-once",
        about: "A choice can be answered only once.",
        needs: ACTION,
        run: |probe| {
            let (mut peer, _) = chooser(probe)?;
            let action = asked(&mut peer, "/thinking")?;
            action.answer(&mut peer, "submitted", "\"low\"")?;
            over(&action, &mut peer)?;
            eventually(&mut peer, "thinking-level", "low")
        },
    },
    Check {
        name: "action.unknown",
        about: "An answer to no request is request/not-found.",
        needs: ACTION,
        run: |probe| {
            let mut peer = probe.ready()?;
            let params =
                "{:request-id \"no-such-request\" :action-name \"select-model\" :status \"cancelled\"}";
            peer.ask_error("frontend_action_result", params, "request/not-found").map(|_| ())
        },
    },
    Check {
        name: "action.misfit",
        about: "An invalid value changes nothing and is reported as request/invalid-params, or as a command-result of type error.",
        needs: ACTION,
        run: |probe| {
            for value in ["\"loud\"", "{}", "nil"] {
                let (mut peer, _) = chooser(probe)?;
                let before = state(&mut peer)?;
                let action = asked(&mut peer, "/thinking")?;
                match peer.ask("frontend_action_result", &action.params("submitted", value))? {
                    Answer::Error(error) => {
                        ensure(error.code == "request/invalid-params", || format!("{} came", error.code))?;
                    }
                    Answer::Ok(_) => {
                        let told = peer.topic("command-result")?;
                        let kind = text(payload(&told), "type");
                        ensure(kind == "error", || format!("{value} is told as {kind:?}"))?;
                    }
                }
                let after = state(&mut peer)?;
                let level = |state: &Value<'_>| text(state, "thinking-level").to_owned();
                ensure(level(&before) == level(&after), || format!("{value} set a level"))?;
            }
            Ok(())
        },
    },
];

const ACTION: &[Need] = &[
    Need::Op("command"),
    Need::Op("frontend_action_result"),
    Need::Op("get_state"),
    Need::Op("prompt"),
    Need::Op("new_session"),
];

fn known(probe: &Probe<'_>) -> Result<(), Stop> {
    // These end the connection or session, which other checks need, so each has its own server.
    for command in COMMANDS {
        let mut peer = probe.subscribed(None)?;
        let written = format!("/{}", command.name);
        match peer.ask("command", &format!("{{:text {written:?}}}"))? {
            Answer::Error(error) => {
                ensure(error.code != "request/unknown-command", || format!("{written} is not known"))?;
            }
            Answer::Ok(_) if matches!(command.name, "quit" | "exit") => {
                let event = peer.topic("command-result")?;
                ensure(text(payload(&event), "type") == "quit", || format!("{written} does not quit"))?;
            }
            Answer::Ok(_) => {
                let event = peer.event("the outcome or a choice", |topic, _| {
                    [
                        "command-result",
                        "ui/frontend-action-requested",
                        "session/resumed",
                        "ui/dialog-requested",
                        "interaction/requested",
                    ]
                    .contains(&topic)
                })?;
                if super::super::peer::topic(&event) == "command-result" {
                    let kind = text(payload(&event), "type").to_owned();
                    ensure(OUTCOMES.contains(&kind.as_str()), || {
                        format!("{written} answers with the type {kind:?}")
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// A server with a choice of sessions: one with messages, whose id is returned, and a new one, which has the
/// focus.
fn chooser(probe: &Probe<'_>) -> Result<(Peer, String), Stop> {
    let mut peer = probe.subscribed(None)?;
    talk(&mut peer, "hello")?;
    let first = session_of(&mut peer)?;
    opened(&peer.ask_ok("new_session", "{}")?)?;
    Ok((peer, first))
}

/// Waits until the focus reaches a state: a choice is accepted before it takes effect.
fn eventually(peer: &mut Peer, key: &str, due: &str) -> Result<(), Stop> {
    loop {
        peer.take_events();
        let state = state(peer)?;
        if text(&state, key) == due {
            return Ok(());
        }
        peer.event(&format!("news that :{key} is {due:?}"), |topic, _| {
            ["session/updated", "session/resumed", "command-result"].contains(&topic)
        })?;
    }
}

/// A requested choice.
struct Asked {
    request: String,
    action: Value<'static>,
}

/// Sends a command and returns the choice that it requests.
fn asked(peer: &mut Peer, command: &str) -> Result<Asked, Stop> {
    peer.ask_ok("command", &format!("{{:text {command:?}}}"))?;
    let event = peer.topic("ui/frontend-action-requested")?;
    let payload = payload(&event);
    let request = text(payload, "request-id").to_owned();
    let action = payload.get("ui/action").cloned().ok_or_else(|| Stop::failed(":ui/action is missing"))?;
    ensure(!request.is_empty(), || ":request-id is missing".to_owned())?;
    Ok(Asked { request, action })
}

impl Asked {
    fn canonical(&self, name: &str, prompt: &str) -> Result<(), Stop> {
        let action = &self.action;
        let word = |key: &str| action.get(key).and_then(Value::as_keyword).map(str::to_owned);
        ensure(action.get("ui/action-id").is_some(), || ":ui/action-id is missing".to_owned())?;
        ensure(word("ui/action-kind").as_deref() == Some("select"), || {
            ":ui/action-kind is not :select".to_owned()
        })?;
        ensure(word("ui/action-name").as_deref() == Some(name), || {
            format!(":ui/action-name is {:?}", word("ui/action-name"))
        })?;
        ensure(text(action, "ui/prompt") == prompt, || {
            format!(":ui/prompt is {:?}", text(action, "ui/prompt"))
        })?;
        let order = word("ui/order").unwrap_or_default();
        ensure(["default", "preserve"].contains(&order.as_str()), || format!(":ui/order is {order:?}"))?;
        let items = action
            .get("ui/items")
            .and_then(Value::as_slice)
            .ok_or_else(|| Stop::failed(":ui/items is not a vector"))?;
        for item in items {
            for key in ["ui.item/id", "ui.item/label", "ui.item/value"] {
                ensure(item.get(key).is_some(), || format!("an item has no :{key}"))?;
            }
        }
        Ok(())
    }

    fn values(&self) -> Vec<Value<'static>> {
        let items = self.action.get("ui/items").and_then(Value::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| item.get("ui.item/value").cloned()).collect()
    }

    fn params(&self, status: &str, value: &str) -> String {
        let name = self.action.get("ui/action-name").and_then(Value::as_keyword).unwrap_or_default();
        format!("{{:request-id {:?} :action-name {name:?} :status {status:?} :value {value}}}", self.request)
    }

    fn answer(&self, peer: &mut Peer, status: &str, value: &str) -> Result<(), Stop> {
        let data = peer.ask_ok("frontend_action_result", &self.params(status, value))?;
        ensure(data.get("accepted") == Some(&Value::Bool(true)), || ":accepted is not true".to_owned())
    }
}

/// A second answer has no effect.
fn over(action: &Asked, peer: &mut Peer) -> Result<(), Stop> {
    peer.ask_error("frontend_action_result", &action.params("submitted", "\"xhigh\""), "request/not-found")
        .map(|_| ())
}
