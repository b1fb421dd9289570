//! Holds a line of ours against the official schema. Knows as much of JSON Schema as that file uses; a keyword that it
//! does not know fails.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

static SCHEMA: LazyLock<Option<Value>> = LazyLock::new(|| Some(read(&path()?)));

/// That of version 2, which the library has beside it.
static SECOND: LazyLock<Option<Value>> =
    LazyLock::new(|| Some(read(&path()?.parent()?.with_file_name("v2").join("schema.json"))));

fn path() -> Option<PathBuf> {
    std::env::var_os("EDN_BRIDGE_ACP_SCHEMA").map(PathBuf::from)
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The side that sends a line.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each test binary has one side")]
pub enum Side {
    /// An agent, as this program is for editors.
    Agent,
    /// An editor, as this program is for agents.
    Editor,
}

/// What is wrong with a line; nothing without the schema. `method` is what the request asked that it answers.
pub fn check(line: &Value, method: Option<&str>, side: Side) -> Vec<String> {
    check_with(SCHEMA.as_ref(), line, method, side)
}

/// The same for a line of version 2.
#[allow(dead_code, reason = "not every test binary speaks it")]
pub fn check_second(line: &Value, method: Option<&str>, side: Side) -> Vec<String> {
    check_with(SECOND.as_ref(), line, method, side)
}

fn check_with(schema: Option<&Value>, line: &Value, method: Option<&str>, side: Side) -> Vec<String> {
    let Some(schema) = schema else { return Vec::new() };
    let mut wrong = Vec::new();
    if line["jsonrpc"] != "2.0" {
        wrong.push("no jsonrpc".to_owned());
    }
    // The definitions name the side that takes a message.
    let (asked, answered) = match side {
        Side::Agent => ("client", "agent"),
        Side::Editor => ("agent", "client"),
    };
    let definition = |side: &[&str], method: &str, end: &str| {
        let all = schema["$defs"].as_object().unwrap().iter();
        let mut found = all.filter(|(name, of)| {
            of["x-method"] == method && side.iter().any(|side| of["x-side"] == *side) && name.ends_with(end)
        });
        found.next().map(|(_, of)| of)
    };
    let (value, of) = match (line["method"].as_str(), line.get("id"), line.get("error")) {
        (Some(method), Some(_), _) => (&line["params"], definition(&[asked], method, "Request")),
        (Some(method), None, _) => {
            (&line["params"], definition(&[asked, "protocol"], method, "Notification"))
        }
        (None, _, Some(error)) => (error, Some(&schema["$defs"]["Error"])),
        (None, ..) => match method {
            Some(method) if method.starts_with('_') => return wrong,
            Some(method) => (&line["result"], definition(&[answered], method, "Response")),
            None => return vec!["an answer to nothing".to_owned()],
        },
    };
    match of {
        Some(of) => wrong.extend(misfits(value, of, schema)),
        None => wrong.push("the schema has no such method".to_owned()),
    }
    wrong
}

/// What is wrong with a value.
fn misfits(value: &Value, rules: &Value, schema: &Value) -> Vec<String> {
    let Some(rules) = rules.as_object() else {
        return if rules == &Value::Bool(false) { vec!["forbidden".to_owned()] } else { Vec::new() };
    };
    let mut wrong = Vec::new();
    let fits = |rule: &Value| misfits(value, rule, schema).is_empty();
    for (key, rule) in rules {
        let all = || rule.as_array().unwrap().iter();
        let holds = match key.as_str() {
            "title" | "description" | "default" | "deprecated" | "discriminator" | "examples"
            | "contentEncoding" | "$comment" => true,
            key if key.starts_with("x-") => true,
            "$ref" => {
                let name = rule.as_str().unwrap().trim_start_matches("#/$defs/");
                wrong.extend(misfits(value, &schema["$defs"][name], schema));
                true
            }
            "allOf" => {
                wrong.extend(all().flat_map(|rule| misfits(value, rule, schema)));
                true
            }
            "anyOf" => all().any(fits),
            // Written as the one that is meant; others that fit too have fewer rules.
            "oneOf" => all().any(fits),
            "not" => !fits(rule),
            "if" => {
                let branch = if fits(rule) { "then" } else { "else" };
                rules.get(branch).is_none_or(fits)
            }
            "then" | "else" => true,
            "type" => match rule {
                Value::Array(names) => names.iter().any(|name| is_type(value, name)),
                name => is_type(value, name),
            },
            "const" => value == rule,
            "enum" => all().any(|one| one == value),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
            "pattern" | "format" => true,
            "required" => value
                .as_object()
                .is_none_or(|object| all().all(|name| object.contains_key(name.as_str().unwrap()))),
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        let found = misfits(value, rule, schema).into_iter();
                        wrong.extend(found.map(|wrong| format!("{name}: {wrong}")));
                    }
                }
                true
            }
            "items" => {
                for value in value.as_array().into_iter().flatten() {
                    wrong.extend(misfits(value, rule, schema));
                }
                true
            }
            "additionalProperties" => match (rule, value.as_object()) {
                (_, None) | (Value::Bool(true), _) => true,
                (rule, Some(object)) => {
                    let known = rules.get("properties").and_then(Value::as_object);
                    let further = object
                        .iter()
                        .filter(|(name, _)| known.is_none_or(|known| !known.contains_key(name.as_str())));
                    wrong.extend(further.flat_map(|(_, value)| misfits(value, rule, schema)));
                    true
                }
            },
            key => panic!("the keyword {key} is not known here"),
        };
        if !holds {
            wrong.push(format!("{key}: {value}"));
        }
    }
    wrong
}

fn is_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        name => panic!("the type {name} is not known here"),
    }
}

#[test]
fn official_schema_refuses_a_wrong_line() {
    if SCHEMA.is_none() {
        return;
    }
    let update = |update: Value| {
        let params = serde_json::json!({"sessionId": "s", "update": update});
        check(
            &serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": params}),
            None,
            Side::Agent,
        )
    };
    let content = serde_json::json!({"type": "text", "text": "x"});
    let good = serde_json::json!({"sessionUpdate": "agent_message_chunk", "content": content});
    assert_eq!(update(good), [""; 0]);
    for bad in [
        serde_json::json!({"sessionUpdate": "agent_message_chunk"}),
        serde_json::json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}),
        serde_json::json!({"sessionUpdate": "tool_call", "toolCallId": 7, "title": "x"}),
        serde_json::json!({"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "done"}),
    ] {
        assert!(!update(bad.clone()).is_empty(), "{bad}");
    }
}
