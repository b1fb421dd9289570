//! The names of the protocol, from the generated tables, as far as the rules need them. Knows nothing of the server
//! under test.

use edn_codec::Value;

use crate::expression::Form;

/// The tables of the protocol.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// All ops.
    pub ops: Vec<Op>,
    /// All topics.
    pub topics: Vec<Topic>,
    /// All error codes.
    pub error_codes: Vec<String>,
    /// The codes whose errors have `:data`, each with its keys; a key that ends in `?` is optional.
    pub error_data: Vec<(String, Vec<String>)>,
    /// The keys that every payload may have.
    pub scope_keys: Vec<String>,
    /// The kinds of questions, each with the keys that its payload must have.
    pub kinds: Vec<(String, Vec<String>)>,
    /// The types of a run's events, each with a pattern. Only the UI protocol has them.
    pub events: Vec<(String, Form)>,
    /// Requests that show whether an op is served, with their params.
    pub probes: Vec<(String, Form)>,
}

/// An op.
#[derive(Debug)]
pub struct Op {
    /// Its name.
    pub name: String,
    /// The keys of the response's `:data`; a key that ends in `?` is optional.
    pub data: Vec<String>,
    /// Its specific error codes, in addition to those of every request.
    pub errors: Vec<String>,
    /// The capability that says that it is served, if one does.
    pub capability: Option<String>,
    /// A pattern of the answer.
    pub result: Form,
}

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// The keys that its payload must have.
    pub required: Vec<String>,
    /// The keys that its payload may have.
    pub also: Vec<String>,
    /// A pattern of the payload.
    pub payload: Form,
    /// Whether it is a request of the server.
    pub asks: bool,
}

impl Catalogue {
    /// Reads the tables of a suite.
    pub fn read(tables: &Form) -> Self {
        let rows = |key| tables.get(key).and_then(Value::as_slice).unwrap_or_default().iter();
        let name = |row: &Form| row.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let lists = |key| -> Vec<(String, Vec<String>)> {
            let lists = tables.get(key).and_then(Value::as_map).into_iter().flat_map(|lists| lists.iter());
            lists
                .map(|(name, keys)| (name.as_str().unwrap_or_default().to_owned(), words(Some(keys))))
                .collect()
        };
        Self {
            ops: rows("ops")
                .map(|op| Op {
                    name: name(op),
                    data: words(op.get("data")),
                    errors: words(op.get("errors")),
                    capability: op.get("capability").and_then(Value::as_str).map(str::to_owned),
                    result: part(op, "result"),
                })
                .collect(),
            topics: rows("topics")
                .map(|topic| Topic {
                    name: name(topic),
                    required: words(topic.get("required")),
                    also: words(topic.get("also")),
                    payload: part(topic, "payload"),
                    asks: topic.get("asks") == Some(&Value::Bool(true)),
                })
                .collect(),
            error_codes: words(tables.get("error-codes")),
            error_data: lists("error-data"),
            scope_keys: words(tables.get("scope-keys")),
            kinds: lists("interaction-kinds"),
            events: rows("events").map(|event| (name(event), part(event, "payload"))).collect(),
            probes: rows("probes").map(|probe| (name(probe), part(probe, "params"))).collect(),
        }
    }
}

/// What a row has under a key; nil if it is missing.
fn part(row: &Form, key: &str) -> Form {
    row.get(key).cloned().unwrap_or(Value::Nil)
}

/// The strings and the names of keywords in a vector.
fn words(list: Option<&Form>) -> Vec<String> {
    let list = list.and_then(Value::as_slice).unwrap_or_default();
    list.iter().filter_map(|word| word.as_keyword().or_else(|| word.as_str())).map(str::to_owned).collect()
}
