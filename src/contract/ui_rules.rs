//! The rules of the UI protocol: what must hold for every line of every check.
//!
//! Reads a line as a frame, so that checks of both wires have the same steps: an answer has `:data` or `:error-code`, and
//! whatever else the server sends is an event with its method as the topic; a request of the server has an `:id` too.
//! The shapes are patterns of the catalogue. Knows no check.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use edn_codec::Value;
use edn_codec::value::Map;

use crate::catalogue::Catalogue;
use crate::expression::{Form, Host, Miss, Scope, Variables};
use crate::json;
use crate::rules::{Frame, Ledger, Look};
use crate::stop::Stop;

/// The general rules, each with its requirement.
const RULES: &[(&str, &str)] = &[
    ("ui-line.json", "Every line of the server is one JSON-RPC 2.0 object, and it writes nothing else."),
    ("ui-line.answered-once", "A request gets exactly one answer with its id."),
    ("ui-line.error", "An error has a message, and a code of the protocol as an integer."),
    ("ui-run.begins", "Before anything else of a run, its state is told: running."),
    ("ui-run.answered-first", "The answer to run.start comes before anything of its run."),
    ("ui-run.numbers", "The events of a run have the numbers 0, 1, 2 and so on, without a gap."),
    ("ui-run.ends-once", "Nothing of a run follows its end."),
    ("ui-run.context", "The free part of the window is told only when it has changed."),
    ("ui-question.id", "The ids of the server's requests are texts, and no two are the same."),
];

/// All rules, each with its requirement.
pub fn rules(catalogue: &Catalogue) -> Vec<(String, String)> {
    let general = RULES.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let answers = catalogue.ops.iter().map(|op| {
        (
            format!("ui-answer.{}", op.name),
            format!("Every result of {} has its keys, in their shapes.", op.name),
        )
    });
    let sent = catalogue.topics.iter().map(|topic| {
        (format!("ui-sent.{}", topic.name), format!("Every {} has its keys, in their shapes.", topic.name))
    });
    let events = catalogue.events.iter().map(|(name, _)| {
        (format!("ui-event.{name}"), format!("Every event {name} has its keys, in their shapes."))
    });
    general.chain(answers).chain(sent).chain(events).collect()
}

/// What is known of a run.
#[derive(Debug, Default)]
struct Run {
    next: i64,
    has_ended: bool,
    context_left: Option<i64>,
}

/// The witness of one connection.
#[derive(Debug)]
pub struct UiWitness {
    catalogue: Rc<Catalogue>,
    /// Ids of pending requests, with their methods.
    pending: HashMap<String, String>,
    /// All ids ever sent.
    sent: HashSet<String>,
    /// All ids of the server's own requests.
    asked: HashSet<String>,
    /// The runs that have begun on this connection.
    runs: HashMap<String, Run>,
}

/// Patterns of the catalogue call no function.
struct Nothing;

impl Host for Nothing {
    fn call(&self, _: &str, _: &[Form]) -> Result<Option<Form>, Stop> {
        Ok(None)
    }

    fn function(&self, _: &str) -> Option<(&[Form], &Form)> {
        None
    }
}

impl UiWitness {
    /// The witness of a new connection.
    pub fn new(catalogue: Rc<Catalogue>) -> Self {
        Self {
            catalogue,
            pending: HashMap::new(),
            sent: HashSet::new(),
            asked: HashSet::new(),
            runs: HashMap::new(),
        }
    }

    /// Registers a sent request.
    pub fn sends(&mut self, id: &str, op: &str) {
        self.pending.insert(id.to_owned(), op.to_owned());
        self.sent.insert(id.to_owned());
    }

    /// The pending requests.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Examines a line from the server.
    pub fn receives(&mut self, line: &[u8], ledger: &mut Ledger) -> Frame {
        ledger.frames = ledger.frames.saturating_add(1);
        let mut look = Look::at_line(ledger, line);
        look.at("ui-line.json");
        let message = match json::read(line) {
            Ok(message) => message,
            Err(error) => {
                look.breach("ui-line.json", format!("the line is not JSON: {error}"));
                return Frame::Other(Value::Nil);
            }
        };
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            look.breach("ui-line.json", "\"jsonrpc\" is not \"2.0\"".to_owned());
        }
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        match (method, message.get("result"), message.get("error")) {
            (Some(method), None, None) => self.told(&method, &message, &mut look),
            (None, Some(result), None) => self.result(&message, result, &mut look),
            (None, None, Some(error)) => self.error(&message, error, &mut look),
            _ => {
                look.breach("ui-line.json", "it is no request, no notification and no answer".to_owned());
                Frame::Other(message)
            }
        }
    }

    fn result(&mut self, message: &Form, result: &Form, look: &mut Look<'_>) -> Frame {
        let method = self.answered(message, look).unwrap_or_default();
        if let Some(op) = self.catalogue.clone().ops.iter().find(|op| op.name == method) {
            fits(&op.result, result, &format!("ui-answer.{method}"), look);
        }
        if method == "run.start" {
            look.at("ui-run.answered-first");
            let run = result.get("run_id").and_then(Value::as_str).unwrap_or_default();
            if self.runs.contains_key(run) {
                look.breach("ui-run.answered-first", format!("{run} was told before the answer"));
            }
        }
        let mut frame = answer("response", message);
        frame.put("op", method);
        frame.put("ok", true);
        frame.put("data", result.clone());
        Frame::Response(Value::from(frame))
    }

    fn error(&mut self, message: &Form, error: &Form, look: &mut Look<'_>) -> Frame {
        look.at("ui-line.error");
        let code = error.get("code").and_then(Value::as_i64).map(|code| code.to_string()).unwrap_or_default();
        if !self.catalogue.error_codes.contains(&code) {
            look.breach("ui-line.error", format!("the code is {:?}", error.get("code")));
        }
        let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            look.breach("ui-line.error", "it has no message".to_owned());
        }
        if !message.get("id").is_none_or(Value::is_nil) {
            self.answered(message, look);
        }
        let mut frame = answer("error", message);
        frame.put("error-code", code);
        frame.put("error-message", text.to_owned());
        if let Some(data) = error.get("data") {
            frame.put("data", data.clone());
        }
        frame.put("message", message.clone());
        Frame::Error(Value::from(frame))
    }

    /// The end of a pending request; its method.
    fn answered(&mut self, message: &Form, look: &mut Look<'_>) -> Option<String> {
        look.at("ui-line.answered-once");
        let id = id_of(message);
        let method = id.as_ref().and_then(|id| self.pending.remove(id));
        if method.is_none() {
            let was = id.as_ref().is_some_and(|id| self.sent.contains(id));
            let before = if was { "was answered before" } else { "was never sent" };
            look.breach("ui-line.answered-once", format!("the request {id:?} {before}"));
        }
        method
    }

    /// A notification or a request of the server.
    fn told(&mut self, method: &str, message: &Form, look: &mut Look<'_>) -> Frame {
        let params = message.get("params").cloned().unwrap_or(Value::Nil);
        let catalogue = self.catalogue.clone();
        match catalogue.topics.iter().find(|topic| topic.name == method) {
            Some(topic) => {
                fits(&topic.payload, &params, &format!("ui-sent.{method}"), look);
                if topic.asks || message.get("id").is_some() {
                    self.asks(message, look);
                }
            }
            None => look.note(format!("The server also sends {method}.")),
        }
        if method == "agent.event" {
            let event = params.get("event").cloned().unwrap_or(Value::Nil);
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
            match catalogue.events.iter().find(|(name, _)| name == kind) {
                Some((_, pattern)) => fits(pattern, &event, &format!("ui-event.{kind}"), look),
                None => look.note(format!("The server also sends events of the type {kind}.")),
            }
        }
        self.of_run(method, &params, look);
        let mut frame = Map::new();
        frame.put("kind", Value::keyword("event"));
        frame.put("event", method.to_owned());
        frame.put("data", params);
        if let Some(id) = message.get("id") {
            frame.put("id", id.clone());
        }
        Frame::Event(Value::from(frame))
    }

    fn asks(&mut self, message: &Form, look: &mut Look<'_>) {
        const RULE: &str = "ui-question.id";
        look.at(RULE);
        match message.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            Some(id) if self.asked.insert(id.to_owned()) => {}
            Some(id) => look.breach(RULE, format!("{id:?} was asked before")),
            None => look.breach(RULE, format!("the id is {:?}", message.get("id"))),
        }
    }

    /// The order in which a run is told. That of an old run of the history has its own numbers.
    fn of_run(&mut self, method: &str, params: &Form, look: &mut Look<'_>) {
        let Some(id) = params.get("run_id").and_then(Value::as_str) else { return };
        let status = params.get("status").and_then(Value::as_str).filter(|_| method == "run.status");
        let in_history = method == "agent.event" && self.pending.values().any(|op| op == "session.history");
        let known = self.runs.get(id).is_some_and(|run| !run.has_ended);
        if in_history && !known {
            return;
        }
        // Without it, the rule would apply to what no run has.
        if !matches!(method, "agent.event" | "run.status" | "run.context") && !self.runs.contains_key(id) {
            return;
        }
        look.at("ui-run.begins");
        if !self.runs.contains_key(id) && status != Some("running") {
            look.breach("ui-run.begins", format!("{id} begins with {method}"));
        }
        let run = self.runs.entry(id.to_owned()).or_default();
        look.at("ui-run.ends-once");
        if run.has_ended {
            look.breach("ui-run.ends-once", format!("{method} follows the end of {id}"));
        }
        run.has_ended |= matches!(status, Some("completed" | "error" | "cancelled"));
        match method {
            "agent.event" => {
                look.at("ui-run.numbers");
                let seq = params.get("seq").and_then(Value::as_i64);
                let own = params.get("event").and_then(|event| event.get("type")).and_then(Value::as_str);
                // A person's message has no number.
                if seq == Some(-1) && own == Some("hidden_user_message") {
                    return;
                }
                if seq != Some(run.next) {
                    look.breach("ui-run.numbers", format!("seq is {seq:?} where {} is due", run.next));
                }
                run.next = seq.unwrap_or(run.next).saturating_add(1);
            }
            "run.context" => {
                look.at("ui-run.context");
                let left = params.get("context_left_percent").and_then(Value::as_i64);
                if left.is_some() && left == run.context_left {
                    look.breach("ui-run.context", "it is told again".to_owned());
                }
                run.context_left = left;
            }
            _ => {}
        }
    }
}

/// Whether a value fits a pattern of the catalogue.
fn fits(pattern: &Form, value: &Form, rule: &str, look: &mut Look<'_>) {
    look.at(rule);
    match Scope::new(&Nothing, &[]).unify(pattern, Some(value), &mut Variables::new()) {
        Ok(()) => {}
        Err(Miss::Differs(why)) => look.breach(rule, why),
        Err(Miss::Stopped(stop)) => look.breach(rule, format!("the pattern is wrong: {stop:?}")),
    }
}

/// The id as a text; one that is no text, as JSON.
fn id_of(message: &Form) -> Option<String> {
    let id = message.get("id").filter(|id| !id.is_nil())?;
    Some(id.as_str().map_or_else(|| json::write(id), str::to_owned))
}

fn answer(kind: &'static str, message: &Form) -> Map<'static> {
    let mut frame = Map::new();
    frame.put("kind", Value::keyword(kind));
    if let Some(id) = id_of(message) {
        frame.put("id", id);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;
    use crate::wire::Wire;

    /// The rules that lines break, after requests were sent.
    fn broken(requests: &[(&str, &str)], lines: &[&str]) -> Vec<String> {
        let mut witness = UiWitness::new(Suite::of(Wire::Ui).unwrap().catalogue());
        requests.iter().for_each(|(id, op)| witness.sends(id, op));
        let mut ledger = Ledger::default();
        for line in lines {
            witness.receives(line.as_bytes(), &mut ledger);
        }
        ledger.breaches.into_keys().collect()
    }

    fn status(run: &str, status: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"run.status","params":{{"run_id":"{run}","status":"{status}"}}}}"#
        )
    }

    fn done(seq: i64) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"agent.event","params":{{"run_id":"r","seq":{seq},"event":{{"type":"final","content":"x"}}}}}}"#
        )
    }

    #[test]
    fn runs_are_told_in_order() {
        let (begun, ended) = (status("r", "running"), status("r", "completed"));
        let none: [&str; 0] = [];
        assert_eq!(broken(&[], &[&begun, &done(0), &done(1), &ended]), none);
        assert_eq!(broken(&[], &[&begun, &done(1)]), ["ui-run.numbers"]);
        assert_eq!(broken(&[], &[&done(0)]), ["ui-run.begins"]);
        assert_eq!(broken(&[], &[&begun, &ended, &done(0)]), ["ui-run.ends-once"]);
        assert_eq!(broken(&[], &[&begun, &ended, &ended]), ["ui-run.ends-once"]);
        assert_eq!(broken(&[("h", "session.history")], &[&done(7), &done(3)]), none);
        let answer = r#"{"jsonrpc":"2.0","id":"s","result":{"run_id":"r"}}"#;
        assert_eq!(broken(&[("s", "run.start")], &[answer, &begun]), none);
        assert_eq!(broken(&[("s", "run.start")], &[&begun, answer]), ["ui-run.answered-first"]);
    }

    #[test]
    fn lines_have_the_shapes_of_the_protocol() {
        for (line, rule) in [
            ("x", "ui-line.json"),
            ("[]", "ui-line.json"),
            (r#"{"id":"a","result":{}}"#, "ui-line.json"),
            (r#"{"jsonrpc":"2.0","id":"a"}"#, "ui-line.json"),
            (r#"{"jsonrpc":"2.0","id":"b","result":{}}"#, "ui-line.answered-once"),
            (r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"m"}}"#, "ui-line.error"),
            (r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32000}}"#, "ui-line.error"),
            (r#"{"jsonrpc":"2.0","id":"a","result":{"servers":[{"id":1}]}}"#, "ui-answer.mcp.list"),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ui.confirm.request","params":{"title":"t","message":"m"}}"#,
                "ui-question.id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":"q","method":"ui.confirm.request","params":{}}"#,
                "ui-sent.ui.confirm.request",
            ),
        ] {
            assert!(broken(&[("a", "mcp.list")], &[line]).contains(&rule.to_owned()), "{line}");
        }
        let left = |percent: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"run.context","params":{{"run_id":"r","context_left_percent":{percent}}}}}"#
            )
        };
        let begun = status("r", "running");
        assert_eq!(broken(&[], &[&begun, &left("57.5")]), ["ui-sent.run.context"]);
        assert_eq!(broken(&[], &[&begun, &left("57"), &left("57")]), ["ui-run.context"]);
        let text = r#"{"jsonrpc":"2.0","method":"agent.event","params":{"run_id":"r","seq":0,"event":{"type":"text","content":"x"}}}"#;
        assert_eq!(broken(&[], &[&begun, text]), ["ui-event.text"]);
    }
}
