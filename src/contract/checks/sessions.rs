//! Checks of sessions: creating, finding, switching, forking, naming and reading them.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Answer, Peer, payload};
use super::events::session_of;
use crate::catalogue::{OPS, TOPICS};
use crate::value::Value;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "sessions.new",
        about: "`new_session` opens a session and moves the focus to it.",
        needs: &[Need::Op("new_session"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let before = session_of(&mut peer)?;
            let opened = opened(&peer.ask_ok("new_session", "{}")?)?;
            let now = session_of(&mut peer)?;
            ensure(now == opened, || format!("the focus is {now} and the new session is {opened}"))?;
            ensure(now != before, || "the new session is the old one".to_owned())
        },
    },
    Check {
        name: "sessions.announced",
        about: "Every way into a session causes session/resumed, then session/rehydrated, and context/updated.",
        needs: &[Need::Op("new_session"), Need::Op("switch_session"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let first = session_of(&mut peer)?;
            let second = opened(&peer.ask_ok("new_session", "{}")?)?;
            announced(&mut peer, &second)?;
            peer.ask_ok("switch_session", &format!("{{:session-id {first:?}}}"))?;
            announced(&mut peer, &first)
        },
    },
    Check {
        name: "sessions.rehydrated-more",
        about: "session/rehydrated has the newest messages of the history; :more says whether there are older ones.",
        needs: &[
            Need::Op("prompt"),
            Need::Op("new_session"),
            Need::Op("switch_session"),
            Need::Op("get_state"),
        ],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let session = session_of(&mut peer)?;
            for turns in [1, 101] {
                for _ in 0..turns {
                    talk(&mut peer, "again")?;
                }
                peer.ask_ok("new_session", "{}")?;
                peer.ask_ok("switch_session", &format!("{{:session-id {session:?}}}"))?;
                let mut of_it = |name: &str| {
                    peer.event(&format!("{name} of {session}"), |topic, payload| {
                        topic == name && text(payload, "session-id") == session
                    })
                };
                let count = payload(&of_it("session/resumed")?).get("message-count").and_then(Value::as_i64);
                let told = of_it("session/rehydrated")?;
                let held = payload(&told).get("messages").and_then(Value::as_slice).unwrap_or_default();
                let whole = i64::try_from(held.len()).ok() == count;
                let Some(more) = payload(&told).get("more").and_then(Value::as_bool) else {
                    probe.note("session/rehydrated does not say by :more whether it is the whole history.");
                    return Ok(());
                };
                ensure(more != whole, || {
                    format!(":more is {more} where {} of {count:?} messages are told", held.len())
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "sessions.switch-by-id",
        about: "`switch_session` by :session-id moves the focus.",
        needs: &[Need::Op("new_session"), Need::Op("switch_session"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let first = session_of(&mut peer)?;
            peer.ask_ok("new_session", "{}")?;
            let data = peer.ask_ok("switch_session", &format!("{{:session-id {first:?}}}"))?;
            ensure(opened(&data)? == first, || "another session is told".to_owned())?;
            ensure(session_of(&mut peer)? == first, || "the focus did not move".to_owned())
        },
    },
    Check {
        name: "sessions.switch-by-path",
        about: "`switch_session` by :session-path opens the session of that file.",
        needs: &[Need::Op("new_session"), Need::Op("switch_session"), Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "hello")?;
            let state = state(&mut peer)?;
            let (first, file) =
                (text(&state, "session-id").to_owned(), text(&state, "session-file").to_owned());
            if file.is_empty() {
                return Err(Stop::NotApplicable("the session has no file".to_owned()));
            }
            peer.ask_ok("new_session", "{}")?;
            let data = peer.ask_ok("switch_session", &format!("{{:session-path {file:?}}}"))?;
            ensure(opened(&data)? == first, || "another session is told".to_owned())
        },
    },
    Check {
        name: "sessions.switch-to-unknown",
        about: "`switch_session` to a session that does not exist is request/not-found, and the focus stays.",
        needs: &[Need::Op("switch_session"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let before = session_of(&mut peer)?;
            for params in ["{:session-id \"no-such-session\"}", "{:session-path \"/no/such/file.edn\"}"] {
                peer.ask_error("switch_session", params, "request/not-found")?;
            }
            ensure(session_of(&mut peer)? == before, || "the focus moved".to_owned())
        },
    },
    Check {
        name: "sessions.switch-needs-one-target",
        about: "`switch_session` takes exactly one of :session-id and :session-path.",
        needs: &[Need::Op("switch_session")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for params in ["{}", "{:session-id \"a\" :session-path \"/b\"}"] {
                peer.ask_error("switch_session", params, "request/invalid-params")?;
            }
            Ok(())
        },
    },
    Check {
        name: "sessions.fork",
        about: "A fork has the entries up to and including the given one, records its parent, becomes the focus, and leaves the source unchanged.",
        needs: &[Need::Op("fork"), Need::Op("prompt"), Need::Op("get_messages"), Need::Op("get_state")],
        run: fork,
    },
    Check {
        name: "sessions.fork-at-unknown",
        about: "`fork` at an entry that does not exist is request/not-found.",
        needs: &[Need::Op("fork")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_error("fork", "{:entry-id \"no-such-entry\"}", "request/not-found").map(|_| ())
        },
    },
    Check {
        name: "sessions.name",
        about: "`set_session_name` names the session; session/updated and context/updated report it.",
        needs: &[Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let data = peer.ask_ok("set_session_name", "{:name \"a λ name\"}")?;
            ensure(text(&data, "session-name") == "a λ name", || ":session-name is another".to_owned())?;
            peer.event("session/updated with the name", |topic, payload| {
                topic == "session/updated" && text(payload, "session-name") == "a λ name"
            })?;
            peer.event("context/updated with the name", |topic, payload| {
                let slots = payload.get("sessions").and_then(Value::as_slice).unwrap_or_default();
                topic == "context/updated"
                    && slots.iter().any(|slot| {
                        text(slot, "name") == "a λ name" || text(slot, "display-name") == "a λ name"
                    })
            })?;
            Ok(())
        },
    },
    Check {
        name: "sessions.list",
        about: "`list_sessions` returns the focus and at most :limit sessions as slots, including the active one.",
        needs: &[Need::Op("list_sessions"), Need::Op("new_session"), Need::Op("get_state")],
        run: list,
    },
    Check {
        name: "sessions.tree-widget",
        about: "A session tree widget in context/updated has the right shape.",
        needs: &[Need::Op("new_session")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("new_session", "{}")?;
            let event = peer.topic("context/updated")?;
            let Some(widget) = payload(&event).get("session-tree-widget").filter(|widget| !widget.is_nil())
            else {
                return Err(Stop::NotApplicable("the server sends no widget".to_owned()));
            };
            for (key, due) in [("extension-id", "psi-session"), ("widget-id", "session-tree")] {
                ensure(text(widget, key) == due, || format!(":{key} is {:?}", text(widget, key)))?;
            }
            ensure(widget.get("placement").is_some(), || ":placement is missing".to_owned())?;
            ensure(widget.get("content-lines").and_then(Value::as_slice).is_some(), || {
                ":content-lines is not a vector".to_owned()
            })
        },
    },
    Check {
        name: "sessions.state",
        about: "`get_state` has the required keys of session/updated.",
        needs: &[Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let state = state(&mut peer)?;
            let spec = TOPICS.iter().find(|topic| topic.name == "session/updated");
            for key in spec.map(|topic| topic.required).unwrap_or_default() {
                ensure(state.get(key).is_some(), || format!(":state lacks :{key}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "sessions.state-is-published",
        about: "`get_state` returns the values of the newest session/updated.",
        needs: &[Need::Op("get_state"), Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("set_session_name", "{:name \"published\"}")?;
            let event = peer.event("session/updated with the name", |topic, payload| {
                topic == "session/updated" && text(payload, "session-name") == "published"
            })?;
            let state = state(&mut peer)?;
            for key in ["session-id", "session-name", "phase", "is-streaming", "model-id", "thinking-level"] {
                ensure(state.get(key) == payload(&event).get(key), || format!(":{key} differs"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "sessions.messages",
        about: "`get_messages` returns the conversation, oldest first, each message with its id, role, content and time.",
        needs: &[Need::Op("get_messages"), Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "first question")?;
            talk(&mut peer, "second question")?;
            let messages = messages(&mut peer, "{}")?;
            let roles: Vec<&str> = messages.iter().map(|message| text(message, "role")).collect();
            ensure(roles == ["user", "assistant", "user", "assistant"], || {
                format!("the roles are {roles:?}")
            })?;
            messages.iter().try_for_each(message_shape)?;
            let said: Vec<String> =
                messages.iter().filter(|m| text(m, "role") == "user").map(words).collect();
            ensure(said == ["first question", "second question"], || format!("the user said {said:?}"))
        },
    },
    Check {
        name: "sessions.pages",
        about: "`get_messages` with :limit returns the newest messages, with :before those before an entry; :more says whether older ones remain.",
        needs: &[Need::Op("get_messages"), Need::Op("prompt")],
        run: pages,
    },
    Check {
        name: "sessions.fork-points",
        about: "`get_fork_messages` returns the user's messages, each with an entry to fork at.",
        needs: &[Need::Op("get_fork_messages"), Need::Op("prompt"), Need::Op("fork")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "fork here")?;
            let data = peer.ask_ok("get_fork_messages", "{}")?;
            let points = data.get("messages").and_then(Value::as_slice).unwrap_or_default();
            ensure(points.len() == 1, || format!("{} points are told", points.len()))?;
            let entry = points.iter().map(|point| text(point, "id")).next().unwrap_or_default().to_owned();
            peer.ask_ok("fork", &format!("{{:entry-id {entry:?}}}")).map(|_| ())
        },
    },
    Check {
        name: "sessions.last-text",
        about: "`get_last_assistant_text` returns the text of the last answer.",
        needs: &[Need::Op("get_last_assistant_text"), Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let said = talk(&mut peer, "hello")?;
            let data = peer.ask_ok("get_last_assistant_text", "{}")?;
            ensure(text(&data, "text") == said, || {
                format!("{:?} is told and {said:?} was said", text(&data, "text"))
            })
        },
    },
    Check {
        name: "sessions.stats",
        about: "`get_session_stats` returns a map of counts.",
        needs: &[Need::Op("get_session_stats")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("get_session_stats", "{}")?;
            ensure(data.get("stats").is_some_and(|stats| stats.as_map().is_some()), || {
                ":stats is not a map".to_owned()
            })
        },
    },
    Check {
        name: "sessions.export",
        about: "`export_html` writes a page in which nothing of the transcript can run.",
        needs: &[Need::Op("export_html"), Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "<script>alert(1)</script>")?;
            let data = peer.ask_ok("export_html", "{}")?;
            let path = text(&data, "path").to_owned();
            let page =
                std::fs::read_to_string(&path).map_err(|error| Stop::failed(format!("{path}: {error}")))?;
            ensure(!page.contains("<script>alert(1)"), || {
                "a script of the transcript stands in the page".to_owned()
            })?;
            ensure(page.contains("alert(1)"), || "the transcript is not in the page".to_owned())
        },
    },
    Check {
        name: "sessions.context",
        about: "`context_update` accepts the editor's context.",
        needs: &[Need::Op("context_update")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok(
                "context_update",
                "{:cwd \"/tmp\" :workspace-root \"/tmp\" :active-file {:path \"/tmp/a.txt\" :language-id \"text\"} \
                 :selection {:path \"/tmp/a.txt\" :range {:start {:line 0 :column 0} :end {:line 1 :column 0}} \
                 :selected-text \"a\"}}",
            )?;
            ensure(data.get("accepted") == Some(&Value::Bool(true)), || ":accepted is not true".to_owned())
        },
    },
    Check {
        name: "sessions.unknown",
        about: "Every op with :session-id answers request/not-found for a session that does not exist.",
        needs: &[],
        run: unknown,
    },
    Check {
        name: "sessions.explicit",
        about: "An op with :session-id acts on that session, and the focus stays.",
        needs: &[Need::Op("new_session"), Need::Op("set_session_name"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let first = session_of(&mut peer)?;
            let second = opened(&peer.ask_ok("new_session", "{}")?)?;
            peer.ask_ok("set_session_name", &format!("{{:name \"the first\" :session-id {first:?}}}"))?;
            ensure(session_of(&mut peer)? == second, || "the focus moved".to_owned())?;
            let data = peer.ask_ok("get_state", &format!("{{:session-id {first:?}}}"))?;
            let name = data.get("state").map(|state| text(state, "session-name").to_owned());
            ensure(name.as_deref() == Some("the first"), || format!("the first session is named {name:?}"))
        },
    },
    Check {
        name: "sessions.change-order",
        about: "Requests that change a session are served in order of arrival.",
        needs: &[Need::Op("set_session_name"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let ids: Vec<String> =
                (0..50).map(|n| peer.send("set_session_name", &format!("{{:name \"name {n}\"}}"))).collect();
            for (n, id) in ids.iter().enumerate() {
                let data = peer.answer_ok(id)?;
                ensure(text(&data, "session-name") == format!("name {n}"), || {
                    format!("request {n} tells another name")
                })?;
            }
            let state = state(&mut peer)?;
            ensure(text(&state, "session-name") == "name 49", || "the last request did not win".to_owned())
        },
    },
    Check {
        name: "sessions.reads-beside-a-turn",
        about: "Requests that only read are served during a running turn.",
        needs: &[Need::Script, Need::Op("prompt"), Need::Op("abort"), Need::Op("get_state")],
        run: |probe| {
            let mut peer =
                probe.subscribed(Some("{:turns [{:steps [{:delta \"wait\"} {:sleep-ms 60000}]}]}"))?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.topic("assistant/delta")?;
            let listed = &probe.abilities()?.ops;
            let reads = [
                "get_state",
                "get_messages",
                "get_session_stats",
                "get_fork_messages",
                "get_last_assistant_text",
                "list_sessions",
                "ping",
            ];
            for op in reads.iter().filter(|op| listed.iter().any(|name| name == *op)) {
                peer.ask_ok(op, "{}")?;
            }
            if listed.iter().any(|name| name == "query_eql") {
                peer.ask_ok("query_eql", "{:query \"[:psi.agent-session/is-streaming]\"}")?;
            }
            peer.ask_ok("abort", "{}").map(|_| ())
        },
    },
];

/// `:session-id` of a response that opens a session.
pub(super) fn opened(data: &Value<'_>) -> Result<String, Stop> {
    let id = text(data, "session-id").to_owned();
    ensure(!id.is_empty(), || ":session-id is missing".to_owned())?;
    let file = data.get("session-file");
    ensure(file.is_none_or(|file| file.as_str().is_some() || file.is_nil()), || {
        ":session-file is not a string".to_owned()
    })?;
    Ok(id)
}

/// `:state` of the focus.
pub(super) fn state(peer: &mut Peer) -> Result<Value<'static>, Stop> {
    let data = peer.ask_ok("get_state", "{}")?;
    data.get("state")
        .filter(|state| state.as_map().is_some())
        .cloned()
        .ok_or_else(|| Stop::failed(":state is not a map"))
}

/// Sends a prompt, waits for the end of the turn, and returns the answer's text.
pub(super) fn talk(peer: &mut Peer, message: &str) -> Result<String, Stop> {
    peer.ask_ok("prompt", &format!("{{:message {}}}", crate::edn::to_string(&Value::from(message))))?;
    let answer = peer.event("assistant/message that ends the turn", |topic, payload| {
        topic == "assistant/message"
            && text(payload, "role") == "assistant"
            && text(payload, "stop-reason") != "tool-use"
    })?;
    idle(peer)?;
    Ok(text(payload(&answer), "text").to_owned())
}

/// Waits until the session is idle.
pub(super) fn idle(peer: &mut Peer) -> Result<(), Stop> {
    loop {
        // An event from before the request says nothing about later state.
        peer.forget("session/updated");
        if state(peer)?.get("is-streaming") == Some(&Value::Bool(false)) {
            return Ok(());
        }
        peer.topic("session/updated")?;
    }
}

/// The messages of a `get_messages` response.
pub(super) fn messages(peer: &mut Peer, params: &str) -> Result<Vec<Value<'static>>, Stop> {
    let data = peer.ask_ok("get_messages", params)?;
    let list = data.get("messages").and_then(Value::as_slice);
    list.map(<[_]>::to_vec).ok_or_else(|| Stop::failed(":messages is not a vector"))
}

/// The text of a message's blocks.
pub(super) fn words(message: &Value<'_>) -> String {
    let blocks = message.get("content").and_then(Value::as_slice).unwrap_or_default();
    blocks.iter().map(|block| text(block, "text")).collect()
}

fn message_shape(message: &Value<'static>) -> Result<(), Stop> {
    for key in ["id", "role", "timestamp"] {
        ensure(!text(message, key).is_empty(), || format!("a message has no :{key}"))?;
    }
    let blocks = message.get("content").and_then(Value::as_slice);
    let typed = |block: &Value<'_>| {
        let kind = block.get("type").and_then(Value::as_keyword);
        kind.is_some_and(|kind| ["text", "thinking", "tool-call", "image"].contains(&kind))
    };
    ensure(blocks.is_some_and(|blocks| blocks.iter().all(typed)), || {
        ":content is not a vector of typed blocks".to_owned()
    })
}

fn announced(peer: &mut Peer, session: &str) -> Result<(), Stop> {
    let mut seqs = Vec::new();
    for name in ["session/resumed", "session/rehydrated", "context/updated"] {
        let event = peer.event(&format!("{name} of {session}"), |topic, payload| {
            let id = if topic == "context/updated" { "active-session-id" } else { "session-id" };
            topic == name && text(payload, id) == session
        })?;
        seqs.push(event.get("seq").and_then(Value::as_i64).unwrap_or_default());
    }
    // The position of the context among them is left open.
    ensure(seqs.iter().take(2).is_sorted(), || "the history came before the session was told".to_owned())
}

fn fork(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    talk(&mut peer, "one")?;
    talk(&mut peer, "two")?;
    let source = session_of(&mut peer)?;
    let before = messages(&mut peer, "{}")?;
    let Some(entry) = before.get(1).map(|message| text(message, "id").to_owned()) else {
        return Err(Stop::failed("there are not two messages"));
    };
    let forked = opened(&peer.ask_ok("fork", &format!("{{:entry-id {entry:?}}}"))?)?;
    ensure(forked != source, || "the fork is its source".to_owned())?;
    ensure(session_of(&mut peer)? == forked, || "the focus did not move".to_owned())?;
    let held: Vec<String> = messages(&mut peer, "{}")?.iter().map(words).collect();
    let due: Vec<String> = before.iter().take(2).map(words).collect();
    ensure(held == due, || format!("the fork holds {held:?}, and {due:?} were due"))?;
    let context = peer.event("context/updated with the fork", |topic, payload| {
        topic == "context/updated" && text(payload, "active-session-id") == forked
    })?;
    let slots = payload(&context).get("sessions").and_then(Value::as_slice).unwrap_or_default();
    let parent =
        slots.iter().find(|slot| text(slot, "id") == forked).map(|slot| text(slot, "parent-session-id"));
    ensure(parent == Some(source.as_str()), || format!("the fork's parent is told as {parent:?}"))?;
    let after = messages(&mut peer, &format!("{{:session-id {source:?}}}"))?;
    ensure(after == before, || "the source changed".to_owned())
}

fn list(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    peer.ask_ok("new_session", "{}")?;
    let focus = session_of(&mut peer)?;
    let data = peer.ask_ok("list_sessions", "{}")?;
    ensure(text(&data, "active-session-id") == focus, || ":active-session-id is not the focus".to_owned())?;
    let slots = data
        .get("sessions")
        .and_then(Value::as_slice)
        .ok_or_else(|| Stop::failed(":sessions is not a vector"))?;
    for slot in slots {
        for key in ["id", "name", "display-name", "worktree-path", "is-streaming", "is-active", "created-at"]
        {
            ensure(slot.get(key).is_some(), || format!("a slot has no :{key}"))?;
        }
    }
    let active: Vec<&str> = slots
        .iter()
        .filter(|slot| slot.get("is-active") == Some(&Value::Bool(true)))
        .map(|slot| text(slot, "id"))
        .collect();
    ensure(active == [focus.as_str()], || format!("the active slots are {active:?}"))?;
    let data = peer.ask_ok("list_sessions", "{:limit 1 :scope \"all\"}")?;
    let count = data.get("sessions").and_then(Value::as_slice).map(<[_]>::len);
    ensure(count == Some(1), || format!("{count:?} sessions are listed with :limit 1"))?;
    peer.ask_ok("set_session_name", "{:name \"needle in hay\"}")?;
    for (asked, expected) in [("hay needle", 1), ("needle nowhere", 0)] {
        let data = peer.ask_ok("list_sessions", &format!("{{:text {asked:?} :scope \"all\"}}"))?;
        let slots = data.get("sessions").and_then(Value::as_slice).unwrap_or_default();
        ensure(slots.len() == expected, || {
            format!("{} sessions are listed with :text {asked:?}", slots.len())
        })?;
    }
    Ok(())
}

fn pages(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    for message in ["one", "two"] {
        talk(&mut peer, message)?;
    }
    let all = messages(&mut peer, "{}")?;
    let data = peer.ask_ok("get_messages", "{:limit 2}")?;
    let newest = data.get("messages").and_then(Value::as_slice).unwrap_or_default();
    ensure(Some(newest) == all.get(2..), || ":limit 2 is not the newest two".to_owned())?;
    ensure(data.get("more") == Some(&Value::Bool(true)), || {
        ":more is not true where older ones are left".to_owned()
    })?;
    let first = newest.first().map(|message| text(message, "id")).unwrap_or_default();
    let data = peer.ask_ok("get_messages", &format!("{{:before {first:?}}}"))?;
    let older = data.get("messages").and_then(Value::as_slice).unwrap_or_default();
    ensure(Some(older) == all.get(..2), || ":before does not tell the ones before".to_owned())?;
    ensure(data.get("more") == Some(&Value::Bool(false)), || {
        ":more is not false at the beginning".to_owned()
    })?;
    match peer.ask("get_messages", "{:before \"no-such-entry\"}")? {
        Answer::Error(error) => ensure(error.code == "request/not-found", || format!("{} came", error.code)),
        Answer::Ok(_) => Err(Stop::failed("an entry that does not exist is taken for :before")),
    }
}

fn unknown(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let listed = &probe.abilities()?.ops;
    // Valid params, so that the session decides. Ops that answer a question or name another thing may first
    // report that there is none.
    let cases = [
        ("prompt", ":message \"hello\""),
        ("steer", ":message \"hello\""),
        ("follow_up", ":message \"hello\""),
        ("abort", ""),
        ("set_session_name", ":name \"none\""),
        ("fork", ":entry-id \"none\""),
        ("new_session", ""),
        ("get_state", ""),
        ("get_messages", ""),
        ("get_session_stats", ""),
        ("get_fork_messages", ""),
        ("get_last_assistant_text", ""),
        ("query_eql", ":query \"[:psi.agent-session/session-id]\""),
        ("set_thinking_level", ":level \"off\""),
        ("compact", ""),
        ("set_auto_retry", ":enabled true"),
        ("set_auto_compaction", ":enabled true"),
    ];
    for (op, params) in cases.iter().filter(|(op, _)| listed.iter().any(|name| name == op)) {
        let takes = OPS.iter().any(|spec| spec.name == *op && spec.session);
        if takes {
            peer.ask_error(
                op,
                &format!("{{{params} :session-id \"no-such-session\"}}"),
                "request/not-found",
            )?;
        }
    }
    Ok(())
}

/// Waits for the answer that ends a turn and returns its text.
pub(super) fn last_answer(peer: &mut Peer) -> Result<String, Stop> {
    let event = peer.event("assistant/message that ends the turn", |topic, payload| {
        topic == "assistant/message"
            && text(payload, "role") == "assistant"
            && !text(payload, "text").is_empty()
    })?;
    Ok(text(payload(&event), "text").to_owned())
}
