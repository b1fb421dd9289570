//! The texts of a conversation for who exports them: JSON as OpenTelemetry has it. Used only if the person asked for texts.

use crate::json;
use crate::message::Role;
use crate::provider::ModelRequest;
use crate::value::{Map, Value};

/// The messages of a request that came since the model's last answer.
pub fn input(request: &ModelRequest) -> String {
    let newest = request.messages.iter().rev().take_while(|message| message.role != Role::Assistant);
    let mut messages: Vec<_> = newest.map(|message| one(message.role.as_str(), &message.text())).collect();
    messages.reverse();
    value(&Value::vector(messages))
}

/// The text of an answer.
pub fn output(text: &str) -> String {
    value(&Value::vector([one("assistant", text)]))
}

/// A value as JSON.
pub fn value(value: &Value<'_>) -> String {
    let mut text = Vec::new();
    json::write(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn one(role: &'static str, text: &str) -> Value<'static> {
    let part = Map::new().with("type", "text").with("content", text.to_owned());
    Value::from(Map::new().with("role", role).with("parts", Value::vector([Value::from(part)])))
}
