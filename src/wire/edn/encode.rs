//! Encodes responses, errors and events as lines.
//!
//! There are two styles: maps, and property lists for clients that requested them in the handshake. Every
//! function appends one whole line, with its line feed, to a buffer. Knows nothing of queues.

use crate::catalogue::{ErrorCode, Topic};
use crate::edn;
use crate::event::Piece;
use crate::facts::SessionList;
use crate::message::SessionId;
use crate::projection;
use crate::value::{Map, Value};

/// The notation of collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// EDN maps.
    #[default]
    Maps,
    /// Maps as lists of alternating keys and values, lists and sets as vectors, `true` as `t`, `false` as
    /// `:false`, an empty map as `nil`. A Lisp reader can read this EDN directly.
    Plists,
}

impl Style {
    const fn open(self) -> u8 {
        match self {
            Self::Maps => b'{',
            Self::Plists => b'(',
        }
    }

    const fn end(self) -> u8 {
        match self {
            Self::Maps => b'}',
            Self::Plists => b')',
        }
    }

    const fn close(self) -> &'static [u8] {
        match self {
            Self::Maps => b"}\n",
            Self::Plists => b")\n",
        }
    }

    const fn flag(self, value: bool) -> &'static [u8] {
        match (self, value) {
            (Self::Maps, true) => b"true",
            (Self::Maps, false) => b"false",
            (Self::Plists, true) => b"t",
            (Self::Plists, false) => b":false",
        }
    }
}

/// An event's position on one connection.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// Its number on the connection: 1, 2, 3 and so on.
    pub seq: u64,
    /// When it was sent, RFC 3339 in UTC.
    pub ts: &'a str,
    /// The id of the request of this connection that caused it, if any.
    pub id: Option<&'a str>,
}

/// `{:id … :kind :response :op … :ok true :data {…}}`
pub fn response(out: &mut Vec<u8>, style: Style, id: &str, op: &str, data: &Map<'_>) {
    out.push(style.open());
    out.extend_from_slice(b":id ");
    text(out, id);
    out.extend_from_slice(b" :kind :response :op ");
    text(out, op);
    out.extend_from_slice(b" :ok ");
    out.extend_from_slice(style.flag(true));
    out.extend_from_slice(b" :data ");
    map(out, style, data);
    out.extend_from_slice(style.close());
}

/// The parts of an error frame.
#[derive(Debug, Clone, Copy)]
pub struct ErrorFrame<'a> {
    /// The request's id, if it may be echoed.
    pub id: Option<&'a str>,
    /// The request's op, if it is known.
    pub op: Option<&'a str>,
    /// The code.
    pub code: ErrorCode,
    /// The cause, and what to do about it.
    pub message: &'a str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Further facts.
    pub data: Option<&'a Map<'a>>,
}

/// `{:kind :error :id …? :op …? :error-code … :error-message … :retryable true? :data {…}?}`
pub fn error(out: &mut Vec<u8>, style: Style, frame: &ErrorFrame<'_>) {
    out.push(style.open());
    out.extend_from_slice(b":kind :error");
    for (key, value) in [(&b" :id "[..], frame.id), (b" :op ", frame.op)] {
        if let Some(value) = value {
            out.extend_from_slice(key);
            text(out, value);
        }
    }
    out.extend_from_slice(b" :error-code ");
    text(out, frame.code.as_str());
    out.extend_from_slice(b" :error-message ");
    text(out, frame.message);
    if frame.retryable {
        out.extend_from_slice(b" :retryable ");
        out.extend_from_slice(style.flag(true));
    }
    if let Some(data) = frame.data {
        out.extend_from_slice(b" :data ");
        map(out, style, data);
    }
    out.extend_from_slice(style.close());
}

/// `{:kind :event :event … :seq n :ts … :id …? :data {…}}`
pub fn event(out: &mut Vec<u8>, style: Style, topic: Topic, stamp: Stamp<'_>, payload: &Map<'_>) {
    event_head(out, style, topic, stamp);
    map(out, style, payload);
    out.extend_from_slice(style.close());
}

/// The parts of a delta's payload. Deltas have a type of their own because their cost counts for every token.
#[derive(Debug, Clone, Copy)]
pub struct Delta<'a> {
    /// The session.
    pub session: &'a str,
    /// The session's offset.
    pub offset: u64,
    /// The turn.
    pub turn: Option<&'a str>,
    /// Its place in the answer.
    pub piece: Option<Piece>,
    /// The new text.
    pub text: &'a str,
}

/// Writes an `assistant/delta` or `assistant/thinking-delta` directly from its parts.
pub fn delta(out: &mut Vec<u8>, style: Style, topic: Topic, stamp: Stamp<'_>, delta: Delta<'_>) {
    event_head(out, style, topic, stamp);
    out.push(style.open());
    out.extend_from_slice(b":text ");
    text(out, delta.text);
    out.extend_from_slice(b" :session-id ");
    text(out, delta.session);
    out.extend_from_slice(b" :offset ");
    number(out, delta.offset);
    if let Some(turn) = delta.turn {
        out.extend_from_slice(b" :turn-id ");
        text(out, turn);
    }
    if let Some(piece) = delta.piece {
        out.extend_from_slice(b" :call ");
        number(out, u64::from(piece.call));
        out.extend_from_slice(b" :at ");
        number(out, piece.at);
    }
    out.push(style.end());
    out.extend_from_slice(style.close());
}

/// Writes a `context/updated`, which belongs to no session, directly from its slots. Keys and order are those
/// of the event's payload, followed by the keys of the connection.
pub fn context(
    out: &mut Vec<u8>,
    style: Style,
    stamp: Stamp<'_>,
    sessions: &SessionList,
    active: Option<&SessionId>,
) {
    event_head(out, style, Topic::ContextUpdated, stamp);
    out.push(style.open());
    out.extend_from_slice(b":sessions [");
    let mut first = true;
    for slot in sessions.slots() {
        if !std::mem::take(&mut first) {
            out.push(b' ');
        }
        let mut shown = projection::slot(slot);
        if let Some(active) = active {
            shown.put("is-active", slot.id == *active);
        }
        map(out, style, &shown);
    }
    out.extend_from_slice(b"] :session-tree-widget ");
    map(out, style, &projection::tree_widget(sessions));
    if let Some(live) = sessions.live() {
        out.extend_from_slice(b" :live-count ");
        number(out, u64::try_from(live).unwrap_or(u64::MAX));
    }
    if let Some(active) = active {
        out.extend_from_slice(b" :active-session-id ");
        text(out, active.as_str());
    }
    out.push(style.end());
    out.extend_from_slice(style.close());
}

fn event_head(out: &mut Vec<u8>, style: Style, topic: Topic, stamp: Stamp<'_>) {
    out.push(style.open());
    out.extend_from_slice(b":kind :event :event \"");
    out.extend_from_slice(topic.as_str().as_bytes());
    out.extend_from_slice(b"\" :seq ");
    number(out, stamp.seq);
    out.extend_from_slice(b" :ts \"");
    out.extend_from_slice(stamp.ts.as_bytes());
    out.push(b'"');
    if let Some(id) = stamp.id {
        out.extend_from_slice(b" :id ");
        text(out, id);
    }
    out.extend_from_slice(b" :data ");
}

fn text(out: &mut Vec<u8>, text: &str) {
    edn::write_wire(&Value::from(text), out);
}

fn number(out: &mut Vec<u8>, number: u64) {
    edn::write_wire(&crate::message::count(number), out);
}

fn map(out: &mut Vec<u8>, style: Style, map: &Map<'_>) {
    match style {
        Style::Maps => {
            out.push(b'{');
            pairs(out, map, |out, value| edn::write_wire(value, out));
            out.push(b'}');
        }
        Style::Plists => plist_map(out, map),
    }
}

fn plist_map(out: &mut Vec<u8>, map: &Map<'_>) {
    if map.is_empty() {
        out.extend_from_slice(b"nil");
        return;
    }
    out.push(b'(');
    pairs(out, map, plist);
    out.push(b')');
}

fn pairs(out: &mut Vec<u8>, map: &Map<'_>, write: impl Fn(&mut Vec<u8>, &Value<'_>)) {
    for (place, (key, value)) in map.iter().enumerate() {
        if place > 0 {
            out.push(b' ');
        }
        write(out, key);
        out.push(b' ');
        write(out, value);
    }
}

/// The depth is bounded where values are made: by the reader and by the program's own shapes.
fn plist(out: &mut Vec<u8>, value: &Value<'_>) {
    if let Some(flag) = value.as_bool() {
        out.extend_from_slice(Style::Plists.flag(flag));
    } else if let Some(map) = value.as_map() {
        plist_map(out, map);
    } else if let Some(items) = value.as_slice() {
        sequence(out, items.iter());
    } else if let Some(set) = value.as_set() {
        sequence(out, set.iter());
    } else {
        edn::write_wire(value, out);
    }
}

fn sequence<'v, 'a: 'v>(out: &mut Vec<u8>, items: impl Iterator<Item = &'v Value<'a>>) {
    out.push(b'[');
    for (place, item) in items.enumerate() {
        if place > 0 {
            out.push(b' ');
        }
        plist(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{Body, Event};
    use crate::facts::{SessionFacts, Slot};
    use crate::wire::edn::layout::payload;

    fn listed(ids: &[&str]) -> SessionList {
        let slot =
            |id: &&str| Slot { is_streaming: true, ..Slot::new(&SessionFacts::empty(SessionId::from(*id))) };
        SessionList::new(1, ids.iter().map(slot).collect())
    }

    fn written(style: Style, sessions: &SessionList, active: Option<&str>) -> String {
        let mut line = Vec::new();
        let stamp = Stamp { seq: 1, ts: "now", id: Some("x") };
        context(&mut line, style, stamp, sessions, active.map(SessionId::from).as_ref());
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn context_frame_equals_its_payload() {
        for ids in [&[][..], &["a"], &["a", "b"]] {
            let body = Body::ContextUpdated { sessions: Arc::new(listed(ids)), active: None };
            let event =
                Event { session: None, offset: 0, turn: None, entry: None, cause: None, piece: None, body };
            for style in [Style::Maps, Style::Plists] {
                let mut whole = Vec::new();
                let stamp = Stamp { seq: 1, ts: "now", id: Some("x") };
                super::event(&mut whole, style, Topic::ContextUpdated, stamp, &payload(&event));
                assert_eq!(written(style, &listed(ids), None), String::from_utf8(whole).unwrap());
            }
        }
    }

    #[test]
    fn context_frame_names_focused_session() {
        let two = listed(&["a", "b"]);
        for (style, first, second, end) in [
            (Style::Maps, ":is-active false}", ":is-active true}]", " :active-session-id \"b\"}}\n"),
            (Style::Plists, ":is-active :false)", ":is-active t)]", " :active-session-id \"b\"))\n"),
        ] {
            let line = written(style, &two, Some("b"));
            assert!(line.contains(first) && line.contains(second) && line.ends_with(end), "{line}");
        }
    }
}
