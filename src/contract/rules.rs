//! The rules: what must hold for every frame of every check.
//!
//! One [`Witness`] watches one connection from its first byte to its last. Its findings go into the
//! [`Ledger`] of the run, which counts frames and keeps the first breaches of each rule. Knows frames and the
//! catalogue's names, but not the purpose of a frame.
//!
//! In addition to the general rules there is one for each op (`answer.` and its name), each topic (`topic.`)
//! and each kind of interaction (`kind.`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use edn_codec::value::Map;
use edn_codec::{self as edn, Value};

use crate::catalogue::{Catalogue, Op};
use crate::shapes::{excerpt, filled, is_utc_time, not_plain, wrong_answer, wrong_shape};

/// The general rules, each with its requirement.
pub const RULES: &[(&str, &str)] = &[
    (
        "frame.edn",
        "Every line of the server is one EDN map with keywords as keys, and the server writes nothing else.",
    ),
    (
        "frame.plain",
        "The server's frames contain no tagged literal, ratio, character or namespaced-map shorthand.",
    ),
    ("frame.round-trip", "A frame is plain data: written and read again, it is equal."),
    ("frame.response", "A response has :id :kind :op :ok, optionally :data, and no other key."),
    (
        "frame.error",
        "An error has :kind :error-code :error-message, optionally :id :op :retryable :data, and no other key.",
    ),
    ("frame.event", "An event has :kind :event :data, optionally :id :seq :ts, and no other key."),
    ("frame.error-code", "Every :error-code is in the catalogue."),
    ("frame.error-data", "The :data of an error has the keys of its code, and no other."),
    ("frame.topic", "Every :event is a topic of the catalogue."),
    ("frame.seq", "The :seq of a connection's events is 1, 2, 3 and so on, without a gap."),
    ("frame.ts", "The :ts of an event is an RFC 3339 UTC string."),
    ("frame.answered-once", "A request gets exactly one response or error with its id, which echoes its op."),
    ("frame.cause", "The :id of an event is the id of a request of this connection."),
    (
        "frame.before-subscribe",
        "No event is sent before the first subscribe, unless the client has registered tools.",
    ),
    ("frame.offset", "The :offset of a session's events never goes back."),
];

/// All rules, each with its requirement.
pub fn rules(catalogue: &Catalogue) -> Vec<(String, String)> {
    let general = RULES.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let answers = catalogue.ops.iter().map(|op| {
        let about = format!("Every answer to {} has its keys, or is one of its errors.", op.name);
        (format!("answer.{}", op.name), about)
    });
    let topics = catalogue.topics.iter().map(|topic| {
        (
            format!("topic.{}", topic.name),
            format!("Every {} has its required keys, in their shapes.", topic.name),
        )
    });
    let kinds = catalogue.kinds.iter().map(|(kind, _)| {
        (format!("kind.{kind}"), format!("Every question of kind {kind} has the keys of its payload."))
    });
    general.chain(answers).chain(topics).chain(kinds).collect()
}

/// The errors that any request may get.
const ANYBODYS: &[&str] = &[
    "transport/invalid-frame",
    "protocol/invalid-envelope",
    "request/invalid-id",
    "request/invalid-op",
    "transport/not-ready",
    "transport/max-pending-exceeded",
    "request/op-not-supported",
    "request/invalid-params",
    "request/not-found",
    "realm/owned",
    "realm/owner-lost",
    "realm/unreachable",
    "realm/in-doubt",
    "runtime/failed",
];

/// A breach of a rule, with its line.
#[derive(Debug, Clone)]
pub struct Breach {
    /// The rule: one of [`rules`].
    pub rule: String,
    /// What is wrong.
    pub why: String,
    /// The line, cut if it is long.
    pub line: String,
}

/// The findings of all witnesses of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The number of frames.
    pub frames: u64,
    /// How often each rule applied.
    pub looked: BTreeMap<String, u64>,
    /// The first breaches of each rule.
    pub breaches: BTreeMap<String, Vec<Breach>>,
    /// This server's behaviour where the contract leaves it open.
    pub notes: std::collections::BTreeSet<String>,
}

/// Breaches per rule that the report keeps.
const KEPT_BREACHES: usize = 3;

impl Ledger {
    fn look(&mut self, rule: &str) {
        let count = self.looked.entry(rule.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    fn breach(&mut self, breach: Breach) {
        let kept = self.breaches.entry(breach.rule.clone()).or_default();
        if kept.len() < KEPT_BREACHES {
            kept.push(breach);
        }
    }
}

/// The witness of one connection.
#[derive(Debug)]
pub struct Witness {
    catalogue: Rc<Catalogue>,
    /// Ids of pending requests, with their ops.
    pending: HashMap<String, String>,
    /// All ids ever sent.
    sent: HashSet<String>,
    last_seq: i64,
    subscribed: bool,
    offsets: HashMap<String, i64>,
}

/// A decoded frame of the server, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A response.
    Response(Value<'static>),
    /// An error.
    Error(Value<'static>),
    /// An event.
    Event(Value<'static>),
    /// Anything else; a breach was recorded.
    Other(Value<'static>),
}

impl Frame {
    /// The frame's map.
    pub fn value(&self) -> &Value<'static> {
        match self {
            Self::Response(value) | Self::Error(value) | Self::Event(value) | Self::Other(value) => value,
        }
    }

    /// A string under a key of the envelope.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value().get(key).and_then(Value::as_str)
    }

    /// `:data`, or nil.
    pub fn data(&self) -> &Value<'static> {
        const NIL: &Value<'static> = &Value::Nil;
        self.value().get("data").unwrap_or(NIL)
    }
}

impl Witness {
    /// The witness of a new connection.
    pub fn new(catalogue: Rc<Catalogue>) -> Self {
        Self {
            catalogue,
            pending: HashMap::new(),
            sent: HashSet::new(),
            last_seq: 0,
            subscribed: false,
            offsets: HashMap::new(),
        }
    }

    /// Registers a sent request.
    pub fn sends(&mut self, id: &str, op: &str) {
        self.pending.insert(id.to_owned(), op.to_owned());
        self.sent.insert(id.to_owned());
        self.subscribed |= matches!(op, "subscribe" | "register_tools");
    }

    /// The pending requests.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Examines a line from the server.
    pub fn receives(&mut self, line: &[u8], ledger: &mut Ledger) -> Frame {
        ledger.frames = ledger.frames.saturating_add(1);
        let mut look = Look::at_line(ledger, line);
        look.at("frame.edn");
        let value = match edn::read_one(line) {
            Ok(value) => value.into_owned(),
            Err(error) => {
                look.breach("frame.edn", format!("the line is not an EDN form: {error}"));
                return Frame::Other(Value::Nil);
            }
        };
        let Some(map) = value.as_map() else {
            look.breach("frame.edn", format!("the form is not a map but a {}", value.kind_name()));
            return Frame::Other(value);
        };
        if !map.iter().all(|(key, _)| key.as_keyword().is_some()) {
            look.breach("frame.edn", "a key of the envelope is not a keyword".to_owned());
        }
        look.at("frame.plain");
        if let Some(found) = not_plain(&value, line) {
            look.breach("frame.plain", format!("{found} is not plain EDN"));
        }
        look.at("frame.round-trip");
        let again = edn::to_string(&value);
        if edn::read_one(again.as_bytes()).ok().as_ref() != Some(&value) {
            look.breach(
                "frame.round-trip",
                format!("written again it reads as something else: {}", excerpt(again.as_bytes())),
            );
        }
        match value.get("kind").and_then(Value::as_keyword) {
            Some("response") => {
                self.response(map, &mut look);
                Frame::Response(value)
            }
            Some("error") => {
                self.error(map, &mut look);
                Frame::Error(value)
            }
            Some("event") => {
                self.event(map, &mut look);
                Frame::Event(value)
            }
            other => {
                look.breach("frame.edn", format!(":kind is {other:?}, not :response, :error or :event"));
                Frame::Other(value)
            }
        }
    }

    fn response(&mut self, map: &Map<'_>, look: &mut Look<'_>) {
        look.keys("frame.response", map, &["id", "kind", "op", "ok"], &["data"]);
        look.shape("frame.response", map, "id", "a non-empty string", filled);
        look.shape("frame.response", map, "op", "a non-empty string", filled);
        look.shape("frame.response", map, "ok", "true or false", |value| value.as_bool().is_some());
        look.shape("frame.response", map, "data", "a map", |value| value.as_map().is_some());
        self.answer(map, look);
        let Some(op) = self.op_of(map) else { return };
        let rule = format!("answer.{}", op.name);
        look.at(&rule);
        let data = map.get_keyword("data").and_then(Value::as_map);
        for key in op.data.iter().filter(|key| !key.ends_with('?')) {
            if data.is_none_or(|data| data.get_keyword(key).is_none()) {
                look.breach(&rule, format!(":data lacks :{key}"));
            }
        }
        for (key, value) in data.into_iter().flat_map(Map::iter) {
            let Some(key) = key.as_keyword() else { continue };
            if !op.data.iter().any(|known| known.trim_end_matches('?') == key) {
                look.ledger.notes.insert(format!("The answer to {} also has :{key}.", op.name));
            } else if let Some(wrong) = wrong_answer(key, value) {
                look.breach(&rule, wrong);
            }
        }
    }

    fn error(&mut self, map: &Map<'_>, look: &mut Look<'_>) {
        const RULE: &str = "frame.error";
        look.keys(RULE, map, &["kind", "error-code", "error-message"], &["id", "op", "retryable", "data"]);
        look.shape(RULE, map, "error-message", "a non-empty string", filled);
        look.shape(RULE, map, "id", "a non-empty string", filled);
        look.shape(RULE, map, "op", "a non-empty string", filled);
        look.shape(RULE, map, "retryable", "true or false", |value| value.as_bool().is_some());
        look.shape(RULE, map, "data", "a map", |value| value.as_map().is_some());
        look.at("frame.error-code");
        match map.get_keyword("error-code").and_then(Value::as_str) {
            Some(code) if self.catalogue.error_codes.iter().any(|known| known == code) => {}
            found => look.breach("frame.error-code", format!(":error-code is {found:?}")),
        }
        self.error_data(map, look);
        if map.get_keyword("id").is_some() {
            self.answer(map, look);
        }
        let code = map.get_keyword("error-code").and_then(Value::as_str).unwrap_or_default();
        let Some(op) = self.op_of(map) else { return };
        let known = self.catalogue.error_codes.iter().any(|known| known == code);
        if known && !op.errors.iter().any(|own| own == code) && !ANYBODYS.contains(&code) {
            look.breach(
                &format!("answer.{}", op.name),
                format!("{code} is none of the errors of {}", op.name),
            );
        }
    }

    fn error_data(&mut self, map: &Map<'_>, look: &mut Look<'_>) {
        const RULE: &str = "frame.error-data";
        look.at(RULE);
        let code = map.get_keyword("error-code").and_then(Value::as_str).unwrap_or_default();
        let known = self.catalogue.error_data.iter().find(|(known, _)| known == code);
        let known = known.map(|(_, keys)| keys.as_slice()).unwrap_or_default();
        let data = map.get_keyword("data").and_then(Value::as_map);
        let has = |key: &str| data.is_some_and(|data| data.get_keyword(key).is_some());
        if let Some(missing) = known.iter().find(|key| !key.ends_with('?') && !has(key)) {
            look.breach(RULE, format!("the :data of {code} has no :{missing}"));
        }
        for (key, _) in data.into_iter().flat_map(Map::iter) {
            let key = key.as_keyword().unwrap_or_default();
            if !known.iter().any(|known| known.trim_end_matches('?') == key) {
                look.breach(RULE, format!("the :data of {code} has :{key}, which is not in the catalogue"));
            }
        }
    }

    /// A response, or an error with an id: the end of a pending request.
    fn answer(&mut self, map: &Map<'_>, look: &mut Look<'_>) {
        look.at("frame.answered-once");
        let Some(id) = map.get_keyword("id").and_then(Value::as_str) else { return };
        match self.pending.remove(id) {
            None => {
                let before = if self.sent.contains(id) { "was answered before" } else { "was never sent" };
                look.breach("frame.answered-once", format!("the request {id:?} {before}"));
            }
            Some(op) => {
                let echoed = map.get_keyword("op").and_then(Value::as_str);
                if echoed.is_some_and(|echoed| echoed != op) {
                    look.breach("frame.answered-once", format!(":op is {echoed:?} for a request of {op:?}"));
                }
            }
        }
    }

    fn event(&mut self, map: &Map<'_>, look: &mut Look<'_>) {
        look.keys("frame.event", map, &["kind", "event", "data"], &["id", "seq", "ts"]);
        look.shape("frame.event", map, "data", "a map", |value| value.as_map().is_some());
        look.at("frame.before-subscribe");
        if !self.subscribed {
            look.breach("frame.before-subscribe", "an event came before any subscribe".to_owned());
        }
        self.seq(map, look);
        match map.get_keyword("ts") {
            None => {
                look.ledger.notes.insert("Events carry no :ts.".to_owned());
            }
            Some(ts) => {
                look.at("frame.ts");
                if !ts.as_str().is_some_and(is_utc_time) {
                    look.breach("frame.ts", format!(":ts is {}", edn::to_string(ts)));
                }
            }
        }
        if let Some(id) = map.get_keyword("id") {
            look.at("frame.cause");
            if !id.as_str().is_some_and(|id| self.sent.contains(id)) {
                look.breach("frame.cause", format!("no request had the id {}", edn::to_string(id)));
            }
        }
        look.at("frame.topic");
        let name = map.get_keyword("event").and_then(Value::as_str).unwrap_or_default();
        let catalogue = self.catalogue.clone();
        let Some(spec) = catalogue.topics.iter().find(|spec| spec.name == name) else {
            return look.breach("frame.topic", format!("the topic {name:?} is not catalogued"));
        };
        let rule = format!("topic.{name}");
        look.at(&rule);
        let Some(payload) = map.get_keyword("data").and_then(Value::as_map) else { return };
        for key in &spec.required {
            if payload.get_keyword(key).is_none() {
                look.breach(&rule, format!("the payload lacks :{key}"));
            }
        }
        for (key, value) in payload.iter() {
            let Some(key) = key.as_keyword() else { continue };
            let known = [&spec.required, &spec.also, &catalogue.scope_keys];
            let known = known.iter().any(|keys| keys.iter().any(|known| known == key));
            if !known {
                look.ledger.notes.insert(format!("The payload of {name} also has :{key}."));
            } else if let Some(wrong) = wrong_shape(key, value) {
                look.breach(&rule, wrong);
            }
        }
        if name == "interaction/requested" {
            interaction(&catalogue, payload, look);
        }
        self.offset(payload, look);
    }

    /// The op in an answer.
    fn op_of(&self, map: &Map<'_>) -> Option<&Op> {
        let name = map.get_keyword("op").and_then(Value::as_str)?;
        self.catalogue.ops.iter().find(|op| op.name == name)
    }

    fn seq(&mut self, map: &Map<'_>, look: &mut Look<'_>) {
        let Some(seq) = map.get_keyword("seq") else {
            look.ledger.notes.insert("Events carry no :seq.".to_owned());
            return;
        };
        look.at("frame.seq");
        let expected = self.last_seq.saturating_add(1);
        match seq.as_i64() {
            Some(seq) if seq == expected => {}
            found => look.breach("frame.seq", format!(":seq is {found:?} where {expected} is due")),
        }
        self.last_seq = seq.as_i64().unwrap_or(expected);
    }

    fn offset(&mut self, payload: &Map<'_>, look: &mut Look<'_>) {
        let session = payload.get_keyword("session-id").and_then(Value::as_str);
        let (Some(session), Some(offset)) = (session, payload.get_keyword("offset")) else { return };
        look.at("frame.offset");
        let last = self.offsets.entry(session.to_owned()).or_insert(0);
        match offset.as_i64() {
            Some(offset) if offset >= *last => *last = offset,
            found => look.breach("frame.offset", format!(":offset is {found:?} after {last}")),
        }
    }
}

/// The payload of a question, according to its kind.
fn interaction(catalogue: &Catalogue, payload: &Map<'_>, look: &mut Look<'_>) {
    let kind = payload.get_keyword("kind").and_then(Value::as_str).unwrap_or_default();
    let Some((_, keys)) = catalogue.kinds.iter().find(|(name, _)| name == kind) else {
        return look.breach("topic.interaction/requested", format!("{kind:?} is not a kind of interaction"));
    };
    let rule = format!("kind.{kind}");
    look.at(&rule);
    let asked = payload.get_keyword("payload").and_then(Value::as_map);
    for key in keys {
        if asked.is_none_or(|asked| asked.get_keyword(key).is_none()) {
            look.breach(&rule, format!("the payload lacks :{key}"));
        }
    }
    let sentences = |warnings: &Value<'_>| {
        warnings.as_slice().is_some_and(|all| !all.is_empty() && all.iter().all(|one| one.as_str().is_some()))
    };
    if asked.and_then(|asked| asked.get_keyword("warnings")).is_some_and(|warnings| !sentences(warnings)) {
        look.breach(&rule, ":warnings are no vector of sentences".to_owned());
    }
}

/// Examines one line.
pub(crate) struct Look<'a> {
    ledger: &'a mut Ledger,
    line: &'a [u8],
}

impl<'a> Look<'a> {
    /// Looks at a line.
    pub(crate) fn at_line(ledger: &'a mut Ledger, line: &'a [u8]) -> Self {
        Self { ledger, line }
    }

    /// Notes behaviour that the contract leaves open.
    pub(crate) fn note(&mut self, note: String) {
        self.ledger.notes.insert(note);
    }

    /// A rule applies.
    pub(crate) fn at(&mut self, rule: &str) {
        self.ledger.look(rule);
    }

    /// A rule is broken.
    pub(crate) fn breach(&mut self, rule: &str, why: String) {
        self.ledger.breach(Breach { rule: rule.to_owned(), why, line: excerpt(self.line) });
    }

    fn keys(&mut self, rule: &str, map: &Map<'_>, required: &[&str], allowed: &[&str]) {
        self.at(rule);
        for key in required {
            if map.get_keyword(key).is_none() {
                self.breach(rule, format!(":{key} is missing"));
            }
        }
        for (key, _) in map.iter() {
            let known = key.as_keyword().is_some_and(|key| required.contains(&key) || allowed.contains(&key));
            if !known {
                self.breach(rule, format!("{} does not belong there", edn::to_string(key)));
            }
        }
    }

    fn shape(&mut self, rule: &str, map: &Map<'_>, key: &str, what: &str, fits: impl Fn(&Value<'_>) -> bool) {
        if let Some(value) = map.get_keyword(key).filter(|value| !fits(value)) {
            self.breach(rule, format!(":{key} must be {what}, not {}", edn::to_string(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    fn witness() -> Witness {
        thread_local!(static SUITE: Suite = Suite::built_in().unwrap());
        SUITE.with(|suite| Witness::new(suite.catalogue()))
    }

    fn breaches(lines: &[&str]) -> Vec<String> {
        let mut ledger = Ledger::default();
        let mut witness = witness();
        witness.sends("1", "ping");
        witness.sends("2", "subscribe");
        for line in lines {
            witness.receives(line.as_bytes(), &mut ledger);
        }
        ledger.breaches.into_keys().collect()
    }

    const FINE: &str =
        "{:id \"1\" :kind :response :op \"ping\" :ok true :data {:pong true :protocol-version \"1.0\"}}";

    #[test]
    fn each_rule_bites() {
        let event = |rest: &str| {
            format!(
                "{{:kind :event :event \"assistant/delta\" :data {{:session-id \"s\" :text \"t\"}} {rest}}}"
            )
        };
        let two = [event(":seq 1"), event(":seq 3")];
        let cases: &[(&[&str], &[&str])] = &[
            (&[FINE], &[]),
            (&[&event(":seq 1 :ts \"2026-01-02T03:04:05.678Z\" :id \"1\"")], &[]),
            (&["hello"], &["frame.edn"]),
            (&["{} {}"], &["frame.edn"]),
            (&["[1]"], &["frame.edn"]),
            (&["{:kind :request}"], &["frame.edn"]),
            (
                &[
                    "{:id \"1\" :kind :response :op \"ping\" :ok true :data {:pong true :protocol-version \"1.0\" :a #inst \"2026-01-01T00:00:00Z\"}}",
                ],
                &["frame.plain"],
            ),
            (
                &[
                    "{:id \"1\" :kind :response :op \"ping\" :ok true :data {:pong true :protocol-version \"1.0\" :c #:a{:b 1}}}",
                ],
                &["frame.plain"],
            ),
            (
                &[
                    "{:id \"1\" :kind :response :op \"ping\" :ok true :data {:pong true :protocol-version \"1.0\" :a 1/2 :b \\c}}",
                ],
                &["frame.plain"],
            ),
            (
                &[
                    "{:id \"1\" :kind :response :op \"ping\" :ok 1 :data {:pong true :protocol-version \"1.0\"}}",
                ],
                &["frame.response"],
            ),
            (
                &[
                    "{:id \"1\" :kind :response :op \"ping\" :ok true :extra 1 :data {:pong true :protocol-version \"1.0\"}}",
                ],
                &["frame.response"],
            ),
            (&["{:id \"1\" :kind :response :op \"other\" :ok true}"], &["frame.answered-once"]),
            (&["{:id \"1\" :kind :response :op \"ping\" :ok true :data {:pong true}}"], &["answer.ping"]),
            (
                &[
                    "{:id \"1\" :kind :response :op \"ping\" :ok true :data {:pong 1 :protocol-version \"1.0\"}}",
                ],
                &["answer.ping"],
            ),
            (
                &[
                    "{:id \"1\" :kind :error :op \"ping\" :error-code \"request/unknown-model\" :error-message \"m\"}",
                ],
                &["answer.ping"],
            ),
            (
                &[
                    "{:kind :event :event \"interaction/requested\" :seq 1 :data {:interaction-id \"i\" :kind \"ask\" :correlation-id \"c\" :payload {}}}",
                ],
                &["kind.ask"],
            ),
            (
                &[
                    "{:kind :event :event \"interaction/requested\" :seq 1 :data {:interaction-id \"i\" :kind \"ask\" :correlation-id \"c\" :payload {:prompt \"p\" :warnings \"w\"}}}",
                ],
                &["kind.ask"],
            ),
            (
                &[
                    "{:kind :event :event \"interaction/requested\" :seq 1 :data {:interaction-id \"i\" :kind \"beg\" :correlation-id \"c\" :payload {}}}",
                ],
                &["topic.interaction/requested"],
            ),
            (&[FINE, FINE], &["frame.answered-once"]),
            (&["{:kind :error :error-code \"runtime/failed\"}"], &["frame.error"]),
            (&["{:kind :error :error-code \"no/such\" :error-message \"m\"}"], &["frame.error-code"]),
            (
                &["{:kind :error :error-code \"runtime/failed\" :error-message \"m\" :id \"9\"}"],
                &["frame.answered-once"],
            ),
            (&[&two[0], &two[1]], &["frame.seq"]),
            (&[&event(":seq 1 :ts \"yesterday\"")], &["frame.ts"]),
            (&[&event(":seq 1 :id \"9\"")], &["frame.cause"]),
            (&[&event(":seq 1 :more 2")], &["frame.event"]),
            (&["{:kind :event :event \"no/such\" :data {} :seq 1}"], &["frame.topic"]),
            (
                &["{:kind :event :event \"assistant/delta\" :data {:session-id \"s\"} :seq 1}"],
                &["topic.assistant/delta"],
            ),
            (
                &["{:kind :event :event \"assistant/delta\" :data {:session-id 1 :text \"\"} :seq 1}"],
                &["topic.assistant/delta"],
            ),
        ];
        for (lines, expected) in cases {
            assert_eq!(breaches(lines), *expected, "{lines:?}");
        }
    }

    #[test]
    fn events_need_a_subscription() {
        let mut ledger = Ledger::default();
        witness().receives(b"{:kind :event :event \"ui/widget-specs-updated\" :data {} :seq 1}", &mut ledger);
        assert_eq!(ledger.breaches.keys().collect::<Vec<_>>(), ["frame.before-subscribe"]);
    }
}
