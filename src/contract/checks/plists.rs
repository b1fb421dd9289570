//! Checks of the feature `plist-frames`: frames that Lisp's own reader can read.

use super::super::check::{Check, Need, Probe, Stop, client_info, ensure};
use super::super::peer::{Peer, request};
use crate::edn;
use crate::value::Value;

const PLISTS: &[Need] = &[Need::Feature("plist-frames")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "plist.from-the-next-frame",
        about: "The handshake's own response is a map; from the frame after it every frame is a list.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            let answer = frame(&mut peer, "ping", "{}")?;
            ensure(matches!(answer, Value::List(_)), || format!("the frame is a {}", answer.kind_name()))?;
            let told = get(&answer, "data").and_then(|data| get(data, "pong")).cloned();
            ensure(told.as_ref().and_then(Value::as_symbol) == Some("t"), || format!(":pong is {told:?}"))
        },
    },
    Check {
        name: "plist.maps",
        about: "A map is a list of alternating keys and values, at every depth; an empty one is nil.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            let answer = frame(&mut peer, "get_state", "{}")?;
            let found = forbidden(&answer);
            ensure(found.is_none(), || format!("{found:?} stands in the frame"))?;
            let state = get(&answer, "data").and_then(|data| get(data, "state"));
            ensure(state.and_then(|state| get(state, "session-id")).and_then(Value::as_str).is_some(), || {
                "the state has no :session-id".to_owned()
            })
        },
    },
    Check {
        name: "plist.sequences",
        about: "A list or a set is a vector.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            let answer = frame(&mut peer, "subscribe", "{:topics [\"assistant/delta\"]}")?;
            let told = get(&answer, "data").and_then(|data| get(data, "subscribed")).cloned();
            ensure(matches!(told, Some(Value::Vector(_))), || format!(":subscribed is {told:?}"))
        },
    },
    Check {
        name: "plist.booleans",
        about: "true is t and false is :false.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            let answer = frame(&mut peer, "get_state", "{}")?;
            ensure(get(&answer, "ok").and_then(Value::as_symbol) == Some("t"), || ":ok is not t".to_owned())?;
            let streaming = get(&answer, "data")
                .and_then(|data| get(data, "state"))
                .and_then(|state| get(state, "is-streaming"))
                .cloned();
            ensure(streaming.as_ref().and_then(Value::as_keyword) == Some("false"), || {
                format!(":is-streaming is {streaming:?}")
            })
        },
    },
    Check {
        name: "plist.errors-and-events",
        about: "Errors and events are lists too.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            let answer = frame(&mut peer, "no_such_op", "{}")?;
            ensure(get(&answer, "kind").and_then(Value::as_keyword) == Some("error"), || {
                "the error is not a list".to_owned()
            })?;
            frame(&mut peer, "subscribe", "{:topics [\"session/updated\"]}")?;
            let line = peer.raw_line()?;
            let event = edn::read_one(&line).map_err(|error| Stop::failed(error.to_string()))?;
            ensure(get(&event, "kind").and_then(Value::as_keyword) == Some("event"), || {
                "the event is not a list".to_owned()
            })
        },
    },
    Check {
        name: "plist.client-writes-maps",
        about: "The client's frames stay maps.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            peer.send_line("(:id \"1\" :kind :request :op \"ping\")");
            let line = peer.raw_line()?;
            let answer = edn::read_one(&line).map_err(|error| Stop::failed(error.to_string()))?;
            let code = get(&answer, "error-code").and_then(Value::as_str).map(str::to_owned);
            ensure(code.as_deref() == Some("protocol/invalid-envelope"), || {
                format!("it is answered by {code:?}")
            })
        },
    },
    Check {
        name: "plist.only-where-agreed",
        about: "Without the feature, and after a handshake without it, every frame is a map.",
        needs: PLISTS,
        run: |probe| {
            let mut peer = agreed(probe)?;
            frame(&mut peer, "handshake", &client_info("1.0", &[]))?;
            let answer = frame(&mut peer, "ping", "{}")?;
            ensure(answer.as_map().is_some(), || "a frame is still a list".to_owned())
        },
    },
];

/// A server that agreed to write lists. The rules for map frames do not apply to it.
fn agreed(probe: &Probe<'_>) -> Result<Peer, Stop> {
    let mut peer = probe.start(None)?;
    let answer = frame(&mut peer, "handshake", &client_info("1.0", &["plist-frames"]))?;
    ensure(answer.as_map().is_some(), || "the handshake's response is not a map".to_owned())?;
    Ok(peer)
}

/// Sends a request and reads the next line verbatim.
fn frame(peer: &mut Peer, op: &str, params: &str) -> Result<Value<'static>, Stop> {
    let id = peer.new_id();
    peer.send_line(&request(&id, op, params));
    let line = peer.raw_line()?;
    let value =
        edn::read_one(&line).map_err(|error| Stop::failed(format!("the line is not EDN: {error}")))?;
    Ok(value.into_owned())
}

/// A value of a list of alternating keys and values.
fn get<'v, 'a>(plist: &'v Value<'a>, key: &str) -> Option<&'v Value<'a>> {
    let items = plist.as_slice()?;
    let place = items.iter().step_by(2).position(|item| item.as_keyword() == Some(key))?;
    items.get(place.saturating_mul(2).saturating_add(1))
}

/// Content that such a frame must not have.
fn forbidden(value: &Value<'_>) -> Option<&'static str> {
    match value {
        Value::Map(_) => Some("a map"),
        Value::Set(_) => Some("a set"),
        Value::Bool(_) => Some("a boolean"),
        Value::List(items) if items.is_empty() => Some("an empty list"),
        _ => value.as_slice().unwrap_or_default().iter().find_map(forbidden),
    }
}
