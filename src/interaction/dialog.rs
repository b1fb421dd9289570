//! Questions for connections that know only plain dialogs: confirm, select, input.

use super::kind::Kind;
use crate::session::ApiError;
use crate::value::{Map, Value};

/// The payload of `ui/dialog-requested`; `None` where a dialog must not carry the question, because its
/// answer is a secret.
pub(super) fn payload(id: &str, kind: Kind, question: &Map<'static>) -> Option<Map<'static>> {
    let text = |key: &str| question.get_keyword(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut dialog = Map::new();
    dialog.put("dialog-id", id.to_owned());
    let (shape, title, message) = match kind {
        Kind::Password => return None,
        Kind::Ask => ("input", text("prompt"), None),
        Kind::Confirm => ("confirm", text("prompt"), None),
        Kind::Select => ("select", text("prompt"), None),
        Kind::DeviceCode => {
            let message = format!("Open {} and enter the code {}, then confirm.", text("url"), text("code"));
            ("confirm", format!("Log in to {}", text("provider")), Some(message))
        }
        Kind::Approve => {
            let shown = [text("command"), text("diff")].into_iter().find(|text| !text.is_empty());
            ("select", format!("Allow: {}?", text("call-summary")), shown)
        }
        Kind::GrantStageTool => {
            ("select", format!("Allow {} in this stage?", text("tool")), Some(text("args-summary")))
        }
        Kind::ApproveSubagentEnvelope => {
            let tools =
                question.get_keyword("requested-envelope").map(ToString::to_string).unwrap_or_default();
            let message = format!("{}\nTools: {tools}", text("prompt-summary"));
            ("select", "Start a subagent?".to_owned(), Some(message))
        }
    };
    dialog.put("kind", shape);
    dialog.put("title", title);
    dialog.put_some("message", message);
    if shape == "select" {
        dialog.put("options", options(kind, question));
    }
    if let Some(placeholder) = question.get_keyword("placeholder").and_then(Value::as_str) {
        dialog.put("placeholder", placeholder.to_owned());
    }
    Some(dialog)
}

fn options(kind: Kind, question: &Map<'static>) -> Value<'static> {
    if kind == Kind::Select {
        let options = question.get_keyword("options").and_then(Value::as_slice).unwrap_or_default();
        return Value::vector(options.iter().enumerate().map(|(place, option)| {
            let mut shown = Map::new();
            shown.put("value", place.to_string());
            shown.put("label", option.get("label").cloned().unwrap_or(Value::Nil));
            shown.put_some("description", option.get("description").cloned());
            Value::from(shown)
        }));
    }
    let mut choices = vec![("once", "Allow once".to_owned())];
    if kind == Kind::Approve {
        choices.push(("session", "Allow for this session".to_owned()));
        if let Some(rule) = question.get_keyword("suggested-rule") {
            choices.push(("rule", format!("Always allow: {rule}")));
        }
    }
    choices.push(("deny", "Deny".to_owned()));
    Value::vector(
        choices
            .into_iter()
            .map(|(value, label)| Value::from(Map::new().with("value", value).with("label", label))),
    )
}

/// The answer that a dialog's result stands for.
///
/// # Errors
/// `request/invalid-params` where the result is none of the dialog's.
pub(super) fn answer(
    kind: Kind,
    question: &Map<'static>,
    result: &Value<'static>,
) -> Result<Map<'static>, ApiError> {
    let invalid = |expected: &str| Err(ApiError::invalid_param("result", expected));
    match kind {
        Kind::Password => invalid("given by a connection that answers interactions"),
        Kind::Ask => match result.as_str() {
            Some(text) => Ok(Map::new().with("text", text.to_owned())),
            None => invalid("a string"),
        },
        Kind::Confirm | Kind::DeviceCode => match result.as_bool() {
            Some(yes) => Ok(Map::new().with(if kind == Kind::Confirm { "ok" } else { "done" }, yes)),
            None => invalid("true or false"),
        },
        Kind::Select => {
            // The option's place, or its own value where the frontend gave that back.
            let chosen = result.as_str().unwrap_or_default();
            let options = question.get_keyword("options").and_then(Value::as_slice).unwrap_or_default();
            let place = chosen.parse().ok().filter(|place: &usize| *place < options.len());
            match place.or_else(|| {
                options.iter().position(|option| option.get("label").and_then(Value::as_str) == Some(chosen))
            }) {
                Some(place) => Ok(Map::new().with("index", Value::from(place))),
                None => invalid("the value of an option"),
            }
        }
        Kind::Approve | Kind::GrantStageTool | Kind::ApproveSubagentEnvelope => match result.as_str() {
            Some("deny") => Ok(Map::new().with("outcome", "deny")),
            Some("once") if kind != Kind::Approve => Ok(Map::new().with("outcome", "approve")),
            Some(scope @ ("once" | "session" | "rule")) if kind == Kind::Approve => {
                Ok(Map::new().with("outcome", "approve").with("scope", scope.to_owned()))
            }
            _ => invalid("the value of an option"),
        },
    }
}
