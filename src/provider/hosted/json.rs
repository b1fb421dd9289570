//! Converts values to JSON and back: a tool's schema and a model's arguments. Knows no protocol.

use serde_json::Value as Json;

use super::lenient::RawJson;
use crate::json;
use crate::message::{Arguments, UnreadableArguments};
use crate::value::{Map, Value};

/// Access to fields of JSON, without a panic if it is not an object.
pub trait Object {
    /// Sets a field.
    fn put(&mut self, key: &str, value: impl Into<Json>);

    /// A field that is text.
    fn text(&self, key: &str) -> Option<&str>;
}

impl Object for Json {
    fn put(&mut self, key: &str, value: impl Into<Json>) {
        if let Self::Object(fields) = self {
            fields.insert(key.to_owned(), value.into());
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

/// A value as JSON. A keyword becomes its name; anything that JSON lacks becomes text.
pub fn from_value(value: &Value<'_>) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::from(*number),
        Value::Float(number) => Json::from(*number),
        Value::Str(text) => Json::from(&**text),
        Value::Keyword(name) | Value::Symbol(name) => Json::from(&**name),
        Value::List(items) | Value::Vector(items) => items.iter().map(from_value).collect(),
        Value::Set(items) => items.iter().map(from_value).collect(),
        Value::Map(map) => {
            let entry = |(key, value): (&Value<'_>, &Value<'_>)| {
                let name = key.as_keyword().or_else(|| key.as_str()).map(str::to_owned);
                (name.unwrap_or_else(|| key.to_string()), from_value(value))
            };
            Json::Object(map.iter().map(entry).collect())
        }
        other => Json::from(other.to_string()),
    }
}

/// JSON as a value. An object's keys become keywords if possible.
pub fn to_value(json: Json) -> Value<'static> {
    json::keyed(json)
}

/// The arguments of a call, or a piece of them, as text: servers send text, and small ones the object itself. Empty for none.
pub fn written(arguments: Option<RawJson>) -> String {
    match arguments {
        Some(text) if text.0.starts_with('"') => serde_json::from_str(&text.0).unwrap_or_default(),
        Some(object) if &*object.0 != "null" => object.0.into(),
        _ => String::new(),
    }
}

/// A call's arguments from the model's text: empty for none.
pub fn arguments(written: &str) -> Arguments {
    if written.trim().is_empty() {
        return Value::from(Map::new()).into();
    }
    let (why, at) = match serde_json::from_str(written) {
        Ok(json @ Json::Object(_)) => return to_value(json).into(),
        Ok(Json::Null) => return Value::from(Map::new()).into(),
        Ok(_) => ("it is another kind of value".to_owned(), written.len()),
        Err(error) => {
            let lines = written.split_inclusive('\n').take(error.line().saturating_sub(1));
            (error.to_string(), lines.map(str::len).sum::<usize>().saturating_add(error.column()))
        }
    };
    Arguments::Unreadable(Box::new(UnreadableArguments { text: written.to_owned(), why, at }))
}

/// Whether a call's arguments are complete: JSON that ends.
pub fn is_whole(written: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(written).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    #[test]
    fn arguments_round_trip_through_json() {
        for (written, expected) in [
            ("", "{}"),
            (" ", "{}"),
            ("null", "{}"),
            (
                r#"{"path":"a.rs","n":3,"x":1.5,"all":[true,null]}"#,
                r#"{:all [true nil] :n 3 :path "a.rs" :x 1.5}"#,
            ),
            (r#"{"a b":1,"":{"c/d":2},"1":3}"#, r#"{"" {"c/d" 2} "1" 3 "a b" 1}"#),
            (r#"{"n":18446744073709551615}"#, "{:n 1.8446744073709552e19}"),
        ] {
            let value = arguments(written);
            assert_eq!(*value, edn::read_one(expected.as_bytes()).unwrap(), "{written} gave {value:?}");
            assert_eq!(edn::read_one(value.to_string().as_bytes()).unwrap(), *value);
        }
        for (written, at) in [
            ("[1]", 3),
            ("7", 1),
            (r#"{"path": "half"#, 14),
            ("{\"a\": 1,\n\"b\": }", 15),
            (r#"{"a":1E400}"#, 10),
            (r#"{"a":1}{"a":2}"#, 8),
        ] {
            let arguments = arguments(written);
            let unreadable = arguments.unreadable().expect(written);
            assert_eq!((unreadable.text.as_str(), unreadable.at), (written, at), "{}", unreadable.why);
            assert!(arguments.as_map().unwrap().is_empty(), "nothing of it can be used by mistake");
        }
    }

    #[test]
    fn values_are_written_as_json() {
        let value = edn::read_one(br#"{:type "object" "k" [:a b #{1} 2.5 nil] :n 3N}"#).unwrap();
        let json = from_value(&value);
        assert_eq!(json["type"], "object");
        assert_eq!(json["k"], serde_json::json!(["a", "b", [1], 2.5, null]));
    }
}
