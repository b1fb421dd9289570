//! JSON text as values of the checks' language, and back. An object is a map with keywords as keys. Knows no protocol.

use edn_codec::{Value, to_string};
use serde_json::{Number, Value as Json};

use crate::expression::Form;

/// Reads one JSON value.
///
/// # Errors
/// Why it is not JSON.
pub(crate) fn read(text: &[u8]) -> Result<Form, String> {
    serde_json::from_slice(text).map(value).map_err(|error| error.to_string())
}

fn value(json: Json) -> Form {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(truth),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::int(whole),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::vector(items.into_iter().map(value)),
        Json::Object(map) => {
            Value::map(map.into_iter().map(|(key, below)| (Value::keyword(key), value(below))))
        }
    }
}

/// A value as JSON text. What JSON does not have is EDN text in a string.
pub fn write(form: &Form) -> String {
    json(form).to_string()
}

fn json(form: &Form) -> Json {
    match form {
        Value::Nil => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(whole) => Json::from(*whole),
        Value::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::Map(map) => Json::Object(map.iter().map(|(key, below)| (name(key), json(below))).collect()),
        other => match other.as_slice() {
            Some(items) => Json::Array(items.iter().map(json).collect()),
            None => Json::String(name(other)),
        },
    }
}

fn name(form: &Form) -> String {
    form.as_str().or_else(|| form.as_keyword()).map_or_else(|| to_string(form), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_reads_back_as_written() {
        for text in [r#"{"a":[1,-2.5,true,null,"t\n"],"b c":{}}"#, "7", "[]", "\"x\""] {
            assert_eq!(write(&read(text.as_bytes()).unwrap()), text);
        }
        assert!(read(b"{").is_err());
    }
}
