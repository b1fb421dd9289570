//! Checks of subscriptions and delivery: which events arrive, and when.

use super::super::check::{Check, Need, Probe, Stop, ensure, text, texts};
use super::super::peer::{Answer, Peer, payload, topic};
use super::envelope::all_topics;
use super::room::Room;
use super::sessions::state;
use crate::catalogue::Topic;
use crate::limits::FLOW_WINDOW_EVENTS;
use crate::value::Value;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "subscribe.all",
        about: "`subscribe` without topics, or with an empty list, subscribes to every catalogued topic.",
        needs: &[],
        run: |probe| {
            for params in ["{}", "{:topics []}"] {
                let mut peer = probe.ready()?;
                let data = peer.ask_ok("subscribe", params)?;
                let told = texts(data.get("subscribed"));
                let absent: Vec<&str> =
                    all_topics().into_iter().filter(|topic| !told.iter().any(|t| t == topic)).collect();
                if !absent.is_empty() {
                    probe.note(format!("The server does not know the topics {}.", absent.join(" ")));
                }
                let foreign = told.iter().find(|topic| Topic::parse(topic).is_none());
                ensure(foreign.is_none(), || format!("{foreign:?} is not a catalogued topic"))?;
                ensure(told.iter().any(|topic| topic == "session/updated"), || {
                    "session/updated is missing".to_owned()
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "subscribe.named",
        about: "Named topics are added to the connection's topics.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("subscribe", "{:topics [\"assistant/delta\"]}")?;
            ensure(texts(data.get("subscribed")) == ["assistant/delta"], || {
                "another topic is subscribed".to_owned()
            })?;
            let data = peer.ask_ok("subscribe", "{:topics [\"assistant/message\"]}")?;
            let mut told = texts(data.get("subscribed"));
            told.sort();
            ensure(told == ["assistant/delta", "assistant/message"], || format!("{told:?} are subscribed"))
        },
    },
    Check {
        name: "subscribe.ignored",
        about: "Topics outside the catalogue are ignored and listed in :ignored.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("subscribe", "{:topics [\"assistant/delta\" \"no/such\"]}")?;
            ensure(texts(data.get("subscribed")) == ["assistant/delta"], || {
                "an unknown topic is subscribed".to_owned()
            })?;
            if data.get("ignored").is_none() {
                probe.note("`subscribe` does not list what it ignores.");
                return Ok(());
            }
            ensure(texts(data.get("ignored")) == ["no/such"], || ":ignored is not [\"no/such\"]".to_owned())
        },
    },
    Check {
        name: "subscribe.nothing-ignored",
        about: "If every topic is catalogued, :ignored is absent or empty.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("subscribe", "{:topics [\"assistant/delta\"]}")?;
            ensure(texts(data.get("ignored")).is_empty(), || "something is ignored".to_owned())
        },
    },
    Check {
        name: "subscribe.snapshots",
        about: "The response comes first, then the snapshots of the requested topics.",
        needs: &[Need::Op("get_state")],
        run: |probe| {
            for snapshot in ["session/updated", "footer/updated", "context/updated"] {
                let mut peer = probe.ready()?;
                peer.ask_ok("subscribe", &format!("{{:topics [{snapshot:?}]}}"))?;
                let early = peer.take_events().len();
                ensure(early == 0, || format!("{early} events came before the response"))?;
                peer.topic(snapshot)?;
                peer.barrier()?;
                only(&mut peer, &[snapshot])?;
            }
            Ok(())
        },
    },
    Check {
        name: "unsubscribe.named",
        about: "`unsubscribe` removes the named topics and keeps the others.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_ok("subscribe", "{:topics [\"assistant/delta\" \"assistant/message\"]}")?;
            let data = peer.ask_ok("unsubscribe", "{:topics [\"assistant/delta\"]}")?;
            ensure(texts(data.get("subscribed")) == ["assistant/message"], || {
                "the rest is not what is left".to_owned()
            })
        },
    },
    Check {
        name: "unsubscribe.all",
        about: "`unsubscribe` without topics, or with an empty list, removes all, and no further event arrives.",
        needs: &[Need::Op("set_session_name")],
        run: |probe| {
            for params in ["{}", "{:topics []}"] {
                let mut peer = probe.subscribed(None)?;
                let data = peer.ask_ok("unsubscribe", params)?;
                ensure(texts(data.get("subscribed")).is_empty(), || "something is left".to_owned())?;
                silent(&mut peer)?;
            }
            Ok(())
        },
    },
    Check {
        name: "unsubscribe.last",
        about: "Removing the last topic leaves none; it does not restore all.",
        needs: &[Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_ok("subscribe", "{:topics [\"session/updated\"]}")?;
            let data = peer.ask_ok("unsubscribe", "{:topics [\"session/updated\"]}")?;
            ensure(texts(data.get("subscribed")).is_empty(), || "something is left".to_owned())?;
            silent(&mut peer)
        },
    },
    Check {
        name: "events.not-before-subscribe",
        about: "No event is sent before the first subscribe.",
        needs: &[Need::Op("set_session_name"), Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask("prompt", "{:message \"hello\"}")?;
            silent(&mut peer)
        },
    },
    Check {
        name: "events.filtered",
        about: "Only events of subscribed topics arrive.",
        needs: &[Need::Op("prompt"), Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_ok("subscribe", "{:topics [\"assistant/message\"]}")?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.topic("assistant/message")?;
            peer.ask_ok("set_session_name", "{:name \"filtered\"}")?;
            peer.barrier()?;
            only(&mut peer, &["assistant/message"])
        },
    },
    Check {
        name: "events.focus",
        about: "Events of sessions outside the focus arrive only on the topics for every session.",
        needs: &[
            Need::Op("new_session"),
            Need::Op("prompt"),
            Need::Op("get_state"),
            Need::Op("get_messages"),
        ],
        run: focus,
    },
    Check {
        name: "events.cause",
        about: "An event carries the id of the request that caused it.",
        needs: &[Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let id = peer.send("prompt", "{:message \"hello\"}");
            peer.answer_ok(&id)?;
            let message = peer.event("assistant/message of the assistant", |topic, payload| {
                topic == "assistant/message" && text(payload, "role") == "assistant"
            })?;
            match message.get("id").and_then(Value::as_str) {
                Some(cause) => ensure(cause == id, || format!("the cause is told as {cause:?}")),
                None => {
                    probe.note("Events of a turn do not carry the id of the prompt.");
                    Ok(())
                }
            }
        },
    },
    Check {
        name: "events.offset",
        about: "Every event of a session carries its :session-id and :offset.",
        needs: &[Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.topic("assistant/message")?;
            peer.barrier()?;
            let scoped =
                ["session/updated", "assistant/delta", "assistant/message", "footer/updated", "turn/stage"];
            for event in peer.take_events().iter().filter(|event| scoped.contains(&topic(event))) {
                let payload = payload(event);
                ensure(payload.get("session-id").is_some(), || {
                    format!("{} has no :session-id", topic(event))
                })?;
                if payload.get("offset").is_none() {
                    probe.note(format!("{} carries no :offset.", topic(event)));
                }
            }
            Ok(())
        },
    },
    Check {
        name: "events.order",
        about: "Events of a session arrive in the order in which they happened.",
        needs: &[Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            for name in ["one", "two", "three"] {
                peer.ask_ok("set_session_name", &format!("{{:name {name:?}}}"))?;
                peer.event(name, |topic, payload| {
                    topic == "session/updated" && text(payload, "session-name") == name
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "events.slow-reader",
        about: "A client that does not read loses no text: merged deltas contain all of it, in order.",
        needs: &[Need::Script, Need::Op("prompt")],
        run: slow_reader,
    },
    Check {
        name: "events.slow-snapshots",
        about: "A client that reads late loses no answer, and its last snapshot is current.",
        needs: &[Need::Op("set_session_name")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_ok("subscribe", "{:topics [\"session/updated\"]}")?;
            peer.pause_reading();
            let names: Vec<String> = (0..200).map(|n| format!("name {n} {}", "x".repeat(1000))).collect();
            let ids: Vec<String> = names
                .iter()
                .map(|name| peer.send("set_session_name", &format!("{{:name {name:?}}}")))
                .collect();
            peer.resume_reading();
            ids.iter().try_for_each(|id| peer.answer_ok(id).map(|_| ()))?;
            let last = names.last().cloned().unwrap_or_default();
            let place = |event: &Value<'_>| event.get("seq").and_then(Value::as_i64);
            let told = peer.event("session/updated with the last name", |topic, payload| {
                topic == "session/updated" && text(payload, "session-name") == last
            })?;
            peer.barrier()?;
            let older = peer
                .take_events()
                .into_iter()
                .any(|event| place(&event) > place(&told) && text(payload(&event), "session-name") != last);
            ensure(!older, || "an older snapshot came after the last one".to_owned())
        },
    },
    Check {
        name: "events.merged-told",
        about: "A slow client that requested it gets a diagnostic about merged events once it has caught up.",
        needs: MERGED,
        run: |probe| {
            let (mut peer, told) = merged(probe, "\"diagnostic\"")?;
            // It arrives once nothing is waiting, which may be later.
            if told { Ok(()) } else { peer.topic("diagnostic").map(|_| ()) }
        },
    },
    Check {
        name: "events.merged-not-told",
        about: "A slow client that did not request it gets no diagnostic about merged events.",
        needs: MERGED,
        run: |probe| {
            let (mut peer, told) = merged(probe, "")?;
            peer.barrier()?;
            let later = peer.take_events().iter().any(|event| topic(event) == "diagnostic");
            ensure(!told && !later, || "a diagnostic came and was not subscribed".to_owned())
        },
    },
    Check {
        name: "events.nothing-merged",
        about: "A client that keeps up gets no diagnostic about merged events.",
        needs: &[Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.topic("assistant/message")?;
            peer.barrier()?;
            let told = peer.take_events().into_iter().find(|event| topic(event) == "diagnostic");
            ensure(told.is_none(), || {
                format!("it is told {:?}", told.map(|told| text(payload(&told), "message").to_owned()))
            })
        },
    },
    Check {
        name: "events.nobody-waits",
        about: "A failure outside a pending request is reported on the topic error, and the server continues.",
        needs: &[Need::Script, Need::State, Need::Op("follow_up"), Need::Op("get_state")],
        run: nobody_waits,
    },
    Check {
        name: "ack.newest-output",
        about: "Beyond the window a newer tool/update of a call replaces the waiting one.",
        needs: REPLACED,
        run: |probe| replaced(probe, "tool/update", ""),
    },
    Check {
        name: "ack.newest-job",
        about: "Beyond the window a newer job/updated of a job replaces the waiting one.",
        needs: REPLACED,
        run: |probe| replaced(probe, "job/updated", ":background true"),
    },
    Check {
        name: "ack.answer",
        about: "`ack` accepts the seq of the last shown event.",
        needs: &[Need::Op("ack")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.barrier()?;
            let data = peer.ask_ok("ack", "{:seq 1}")?;
            ensure(data.get("accepted") == Some(&Value::Bool(true)), || ":accepted is not true".to_owned())?;
            peer.ask_error("ack", "{:seq \"1\"}", "request/invalid-params").map(|_| ())
        },
    },
    Check {
        name: "ack.credit",
        about: "With flow-credit events still arrive, and an ack releases more.",
        needs: &[Need::Script, Need::Feature("flow-credit"), Need::Op("prompt"), Need::Op("ack")],
        run: |probe| {
            let script = "{:turns [{:steps [{:deltas 500 :of \"ab\"}]}]}";
            let mut peer = probe.ready_with(Some(script), &["flow-credit"])?;
            peer.ask_ok("subscribe", "{}")?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let joined = answer(&mut peer, |peer, delta| {
                if let Some(seq) = delta.get("seq").and_then(Value::as_i64) {
                    peer.send("ack", &format!("{{:seq {seq}}}"));
                }
            })?;
            ensure(joined == "ab".repeat(500), || format!("{} of 1000 bytes of text came", joined.len()))
        },
    },
    Check {
        name: "ack.window",
        about: "With flow-credit, a client that shows nothing gets one window of separate deltas and the rest merged.",
        needs: &[Need::Script, Need::Feature("flow-credit"), Need::Op("prompt"), Need::Op("ack")],
        run: |probe| {
            let script = "{:turns [{:steps [{:deltas 5000 :of \"ab\"}]}]}";
            let mut peer = probe.ready_with(Some(script), &["flow-credit"])?;
            peer.ask_ok("subscribe", "{:topics [\"assistant/delta\" \"assistant/message\"]}")?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let mut deltas = 0;
            let joined = answer(&mut peer, |_, _| deltas += 1)?;
            // The window, and the events that the message releases: one delta, or a few if there was much
            // text.
            ensure(deltas <= FLOW_WINDOW_EVENTS + 8, || format!("{deltas} deltas came without an ack"))?;
            ensure(joined == "ab".repeat(5000), || format!("{} of 10000 bytes of text came", joined.len()))
        },
    },
];

/// The joined text of a streaming answer; `each` sees every delta.
fn answer(peer: &mut Peer, mut each: impl FnMut(&mut Peer, &Value<'static>)) -> Result<String, Stop> {
    let mut joined = String::new();
    loop {
        let event = peer.event("assistant/delta or assistant/message", |topic, payload| {
            topic == "assistant/delta" || topic == "assistant/message" && text(payload, "role") == "assistant"
        })?;
        if topic(&event) == "assistant/message" {
            return Ok(joined);
        }
        joined.push_str(text(payload(&event), "text"));
        each(peer, &event);
    }
}

const MERGED: &[Need] = &[Need::Script, Need::Op("prompt"), Need::Op("set_mode")];

/// Leaves a long answer unread until its end, so that the server merges pieces of it. Returns whether a
/// diagnostic has arrived.
fn merged(probe: &Probe<'_>, more: &str) -> Result<(Peer, bool), Stop> {
    let room = Room::new("merged", "")?;
    let touch = format!("touch {}", room.path("over"));
    let script = format!(
        "{{:turns [{{:steps [{{:deltas 10000 :of \"0123456789\"}} {{:tool-call {{:name \"bash\" :arguments {{:command {touch:?}}}}}}}]}} \
         {{:steps [{{:delta \"done\"}}]}}]}}"
    );
    let mut peer = probe.ready_with(Some(&script), &[])?;
    peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
    peer.ask_ok("subscribe", &format!("{{:topics [\"assistant/delta\" \"tool/result\" {more}]}}"))?;
    peer.pause_reading();
    let id = peer.send("prompt", "{:message \"much\"}");
    room.wait_for("over")?;
    peer.resume_reading();
    peer.answer_ok(&id)?;
    peer.topic("tool/result")?;
    peer.barrier()?;
    let came = peer.take_events();
    if came.iter().filter(|event| topic(event) == "assistant/delta").count() >= 10_000 {
        return Err(Stop::NotApplicable("nothing was merged".to_owned()));
    }
    let told = came.iter().any(|event| topic(event) == "diagnostic");
    Ok((peer, told))
}

const REPLACED: &[Need] = &[
    Need::Script,
    Need::Feature("flow-credit"),
    Need::Op("prompt"),
    Need::Op("set_mode"),
    Need::Op("command"),
];

/// A command writes for a second. A client without credit receives the latest of its output, but not every
/// intermediate state.
fn replaced(probe: &Probe<'_>, wanted: &str, more: &str) -> Result<(), Stop> {
    let room = Room::new("replaced", "")?;
    let over = room.path("over");
    let command = format!("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.15; done; touch {over}");
    let script = format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {command:?} {more}}}}}}}]}} \
         {{:steps [{{:delta \"done\"}}]}}]}}"
    );
    let mut counted = Vec::new();
    for features in [&[] as &[&str], &["flow-credit"]] {
        room.take("over")?;
        let mut peer = probe.ready_with(Some(&script), features)?;
        let topics = format!("[{wanted:?} \"command-result\" \"tool/result\"]");
        peer.ask_ok("subscribe", &format!("{{:topics {topics}}}"))?;
        peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
        // Each is a lossless event. Afterwards the window is used up.
        for _ in 0..FLOW_WINDOW_EVENTS {
            peer.ask_ok("command", "{:text \"/mode\"}")?;
            peer.topic("command-result")?;
        }
        peer.ask_ok("prompt", "{:message \"go\"}")?;
        peer.topic("tool/result")?;
        room.wait_for("over")?;
        peer.barrier()?;
        counted.push(peer.take_events().iter().filter(|event| topic(event) == wanted).count());
    }
    let (all, newest) = (counted.first().copied().unwrap_or(0), counted.last().copied().unwrap_or(0));
    if all < 5 {
        return Err(Stop::NotApplicable(format!("{all} events of {wanted} came in a second of output")));
    }
    // One before the result, and one before the response to the last request, which releases the events
    // before it.
    ensure(newest <= 2, || {
        format!("{newest} events of {wanted} came without an ack, {all} with a free window")
    })
}

/// A waiting message is journalled twice: when it is accepted, and when its turn starts. The disk fills up in
/// between, and no request waits for the second entry.
fn nobody_waits(probe: &Probe<'_>) -> Result<(), Stop> {
    let script = "{:turns [{:steps [{:delta \"a\"} {:sleep-ms 300} {:delta \"b\"}]}] :then :repeat-last}";
    let mut peer = probe.subscribed(Some(script))?;
    peer.ask_ok("prompt", "{:message \"hello\"}")?;
    peer.topic("assistant/delta")?;
    let file = text(&state(&mut peer)?, "session-file").to_owned();
    let Ok(kept) = std::fs::metadata(&file) else {
        return Err(Stop::NotApplicable("the session is in no file that is told".to_owned()));
    };
    // Room for the message once and for the answer before it.
    peer.limit_files(kept.len().saturating_add(150_000))?;
    let params = format!("{{:message {:?}}}", "x".repeat(100_000));
    if let Answer::Error(error) = peer.ask("follow_up", &params)? {
        return Err(Stop::NotApplicable(format!("the message is not taken: {}", error.code)));
    }
    let answered = |topic: &str, payload: &Value<'_>| {
        topic == "assistant/message" && text(payload, "role") == "assistant"
    };
    peer.event("assistant/message of the turn that runs", answered)?;
    let told = peer.event("error, or a turn all the same", |topic, payload| {
        topic == "error" || answered(topic, payload)
    })?;
    if topic(&told) != "error" {
        return Err(Stop::NotApplicable("the server has room where its file may not grow".to_owned()));
    }
    ensure(!text(payload(&told), "error-message").is_empty(), || "nothing is said of it".to_owned())?;
    peer.barrier()
}

/// No event of another topic has arrived.
fn only(peer: &mut Peer, topics: &[&str]) -> Result<(), Stop> {
    let other = peer
        .take_events()
        .iter()
        .map(|event| topic(event).to_owned())
        .find(|name| !topics.contains(&name.as_str()));
    ensure(other.is_none(), || format!("{other:?} came and was not subscribed"))
}

/// Provokes events, of which none may arrive.
fn silent(peer: &mut Peer) -> Result<(), Stop> {
    peer.take_events();
    peer.ask_ok("set_session_name", "{:name \"silence\"}")?;
    peer.barrier()?;
    only(peer, &[])
}

fn focus(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    let first = session_of(&mut peer)?;
    peer.ask_ok("new_session", "{}")?;
    let second = session_of(&mut peer)?;
    ensure(first != second, || "the new session has the old one's id".to_owned())?;
    peer.barrier()?;
    peer.take_events();
    peer.ask_ok("prompt", &format!("{{:message \"elsewhere\" :session-id {first:?}}}"))?;
    // By the time of the response, all events of a turn exist.
    loop {
        let data = peer.ask_ok("get_messages", &format!("{{:session-id {first:?}}}"))?;
        let messages = data.get("messages").and_then(Value::as_slice).unwrap_or_default();
        if messages.iter().any(|message| text(message, "role") == "assistant") {
            break;
        }
    }
    peer.barrier()?;
    for event in peer.take_events() {
        let foreign = text(payload(&event), "session-id") == first;
        let allowed = Topic::parse(topic(&event)).is_none_or(Topic::anywhere);
        ensure(!foreign || allowed, || format!("{} of a session came that is not the focus", topic(&event)))?;
    }
    Ok(())
}

/// The id of the focused session.
pub(super) fn session_of(peer: &mut Peer) -> Result<String, Stop> {
    let data = peer.ask_ok("get_state", "{}")?;
    let id = data.get("state").map(|state| text(state, "session-id").to_owned()).unwrap_or_default();
    ensure(!id.is_empty(), || ":state has no :session-id".to_owned())?;
    Ok(id)
}

fn slow_reader(probe: &Probe<'_>) -> Result<(), Stop> {
    // Far more than a pipe holds, so that the server has to wait or merge.
    let script = "{:turns [{:steps [{:deltas 10000 :of \"0123456789\"}]}]}";
    let mut peer = probe.ready_with(Some(script), &[])?;
    peer.ask_ok("subscribe", "{:topics [\"assistant/delta\" \"assistant/message\"]}")?;
    peer.pause_reading();
    let id = peer.send("prompt", "{:message \"much\"}");
    // Responses to requests sent meanwhile arrive too; the reader only starts late.
    let ids: Vec<String> = (0..20).map(|_| peer.send("ping", "{}")).collect();
    peer.resume_reading();
    peer.answer_ok(&id)?;
    let joined = answer(&mut peer, |_, _| {})?;
    ensure(joined.len() == 100_000, || format!("{} of 100000 bytes of text came", joined.len()))?;
    ensure(joined == "0123456789".repeat(10_000), || "the text came in another order".to_owned())?;
    ids.iter().try_for_each(|id| peer.answer_ok(id).map(|_| ()))
}
