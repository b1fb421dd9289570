//! Holds a line against the generated JSON schema. Knows as much of JSON Schema as that file uses.

use std::sync::LazyLock;

use serde_json::Value;

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../spec/ui-protocol.schema.json")).unwrap());

/// What is wrong with a line of the runtime; `method` tells what a request asked.
pub fn check_line(line: &Value, method: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = check(line, &SCHEMA);
    if let (Some(id), Some(result)) = (line["id"].as_str(), line.get("result"))
        && let Some(method) = method(id)
    {
        let result_schema = &SCHEMA["$defs"][&method];
        assert!(result_schema.is_object(), "{method} is not in the schema");
        wrong.extend(check(result, result_schema));
    }
    wrong
}

/// What is wrong with a value.
pub fn check(value: &Value, schema: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, rule) in schema.as_object().unwrap() {
        let fits = match key.as_str() {
            "$schema" | "title" | "$defs" => true,
            "type" => match rule {
                Value::Array(names) => names.iter().any(|name| is_type(value, name)),
                name => is_type(value, name),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
            "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
            "maximum" => value.as_i64().is_none_or(|number| number <= rule.as_i64().unwrap()),
            "required" => {
                let names = rule.as_array().unwrap().iter();
                value
                    .as_object()
                    .is_none_or(|map| names.clone().all(|name| map.contains_key(name.as_str().unwrap())))
            }
            "properties" => {
                for (name, below) in rule.as_object().unwrap() {
                    if let Some(found) = value.get(name) {
                        wrong.extend(check(found, below).into_iter().map(|why| format!("{name}: {why}")));
                    }
                }
                true
            }
            "additionalProperties" => {
                let values =
                    value.as_object().map(|map| map.values().collect::<Vec<_>>()).unwrap_or_default();
                values.iter().all(|value| check(value, rule).is_empty())
            }
            "items" => {
                value.as_array().is_none_or(|items| items.iter().all(|item| check(item, rule).is_empty()))
            }
            "anyOf" => rule.as_array().unwrap().iter().any(|one| check(value, one).is_empty()),
            other => panic!("{other} is not known"),
        };
        if !fits {
            wrong.push(format!("{key} {rule} of {value}").chars().take(300).collect());
        }
    }
    wrong
}

fn is_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is not known"),
    }
}

#[test]
fn schema_refuses_lines_of_other_shapes() {
    let none = |_: &str| None;
    for (line, fits) in [
        (
            r#"{"jsonrpc":"2.0","method":"run.context","params":{"run_id":"r","context_left_percent":57}}"#,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"run.context","params":{"run_id":"r","context_left_percent":57.0}}"#,
            false,
        ),
        (r#"{"jsonrpc":"2.0","method":"run.status","params":{"run_id":"r","status":"done"}}"#, false),
        (r#"{"jsonrpc":"2.0","method":"other","params":{}}"#, false),
        (
            r#"{"jsonrpc":"2.0","method":"agent.event","params":{"run_id":"r","seq":0,"event":{"type":"final","content":"x"}}}"#,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"agent.event","params":{"run_id":"r","seq":0,"event":{"type":"final"}}}"#,
            false,
        ),
        (r#"{"jsonrpc":"1.0","id":"1","result":{}}"#, false),
    ] {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(check_line(&line, none).is_empty(), fits, "{line}");
    }
}
