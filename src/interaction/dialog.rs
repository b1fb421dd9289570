//! Converts questions into plain dialogs (confirm, select, input) and their results into answers. Only people
//! read a dialog, so hidden characters are codes there. Knows no connection.

use std::sync::Arc;

use super::kind::QuestionKind;
use super::warning;
use crate::event::{Dialog, DialogOption, DialogShape};
use crate::session::ApiError;
use crate::value::{Map, Value};
use crate::visible;

/// The question as a dialog; `None` if the answer is a secret, which a dialog must not carry.
pub(super) fn dialog(id: &Arc<str>, kind: QuestionKind, question: &Map<'static>) -> Option<Dialog> {
    let text = |key: &str| shown(question.get_keyword(key).and_then(Value::as_str).unwrap_or_default());
    let select = || DialogShape::Select(options(kind, question));
    let (shape, title, message) = match kind {
        QuestionKind::Password => return None,
        QuestionKind::Ask => (DialogShape::Input, text("prompt"), None),
        QuestionKind::Confirm => (DialogShape::Confirm, text("prompt"), None),
        QuestionKind::Select => (select(), text("prompt"), None),
        QuestionKind::DeviceCode => {
            let message = format!("Open {} and enter the code {}, then confirm.", text("url"), text("code"));
            (DialogShape::Confirm, format!("Log in to {}", text("provider")), Some(message))
        }
        QuestionKind::Approve => {
            let shown = [text("command"), text("diff")].into_iter().find(|text| !text.is_empty());
            let cut = if question.get_keyword("diff-size").is_some() { " (the diff is cut)" } else { "" };
            (select(), format!("Allow: {}?{cut}", text("call-summary")), shown)
        }
        QuestionKind::GrantStageTool => {
            (select(), format!("Allow {} in this stage?", text("tool")), Some(text("args-summary")))
        }
        QuestionKind::ApproveSubagentEnvelope => {
            let tools =
                question.get_keyword("requested-envelope").map(ToString::to_string).unwrap_or_default();
            let message = format!("{}\nTools: {}", text("prompt-summary"), shown(&tools));
            (select(), "Start a subagent?".to_owned(), Some(message))
        }
    };
    let warnings = question.get_keyword(warning::KEY).and_then(Value::as_slice).unwrap_or_default();
    let lines: Vec<String> =
        warnings.iter().filter_map(Value::as_str).map(|warning| format!("Warning: {warning}")).collect();
    let message = match (lines.is_empty(), message) {
        (true, message) => message,
        (false, message) => Some(lines.into_iter().chain(message).collect::<Vec<_>>().join("\n")),
    };
    let placeholder = question.get_keyword("placeholder").and_then(Value::as_str).map(shown);
    Some(Dialog { id: id.clone(), shape, title, message, placeholder })
}

/// A text as a person sees all of it.
fn shown(text: &str) -> String {
    visible::text(text).into_owned()
}

/// The same of an option's text, which is a string where the option is as it should be.
fn shown_value(value: &Value<'static>) -> Value<'static> {
    value.as_str().map_or_else(|| value.clone(), |text| Value::from(shown(text)))
}

fn options(kind: QuestionKind, question: &Map<'static>) -> Vec<DialogOption> {
    if kind == QuestionKind::Select {
        let options = question.get_keyword("options").and_then(Value::as_slice).unwrap_or_default();
        let shown = options.iter().enumerate().map(|(place, option)| DialogOption {
            value: place.to_string(),
            label: option.get("label").map_or(Value::Nil, shown_value),
            description: option.get("description").map(shown_value),
        });
        return shown.collect();
    }
    let option = |value: &str, label: String| DialogOption {
        value: value.to_owned(),
        label: Value::from(label),
        description: None,
    };
    let mut choices = vec![option("once", "Allow once".to_owned())];
    if kind == QuestionKind::Approve {
        choices.push(option("session", "Allow for this session".to_owned()));
        if let Some(rule) = question.get_keyword("suggested-rule") {
            choices.push(option("rule", shown(&format!("Always allow: {rule}"))));
        }
    }
    choices.push(option("deny", "Deny".to_owned()));
    choices
}

/// The answer for a dialog's result.
///
/// # Errors
/// `request/invalid-params` if the dialog has no such result.
pub(super) fn answer(
    kind: QuestionKind,
    question: &Map<'static>,
    result: &Value<'static>,
) -> Result<Map<'static>, ApiError> {
    let invalid = |expected: &str| Err(ApiError::invalid_param("result", expected));
    match kind {
        QuestionKind::Password => invalid("given by a connection that answers interactions"),
        QuestionKind::Ask => match result.as_str() {
            Some(text) => Ok(Map::new().with("text", text.to_owned())),
            None => invalid("a string"),
        },
        QuestionKind::Confirm | QuestionKind::DeviceCode => match result.as_bool() {
            Some(yes) => Ok(Map::new().with(if kind == QuestionKind::Confirm { "ok" } else { "done" }, yes)),
            None => invalid("true or false"),
        },
        QuestionKind::Select => {
            // The option's index, or its own value if the frontend returned that.
            let chosen = result.as_str().unwrap_or_default();
            let options = question.get_keyword("options").and_then(Value::as_slice).unwrap_or_default();
            let place = chosen.parse().ok().filter(|place: &usize| *place < options.len());
            match place.or_else(|| {
                // As it was shown, or as it is.
                let is_chosen = |label: &str| label == chosen || visible::text(label) == chosen;
                options
                    .iter()
                    .position(|option| option.get("label").and_then(Value::as_str).is_some_and(is_chosen))
            }) {
                Some(place) => Ok(Map::new().with("index", Value::from(place))),
                None => invalid("the value of an option"),
            }
        }
        QuestionKind::Approve | QuestionKind::GrantStageTool | QuestionKind::ApproveSubagentEnvelope => {
            match result.as_str() {
                Some("deny") => Ok(Map::new().with("outcome", "deny")),
                Some("once") if kind != QuestionKind::Approve => Ok(Map::new().with("outcome", "approve")),
                Some(scope @ ("once" | "session" | "rule")) if kind == QuestionKind::Approve => {
                    Ok(Map::new().with("outcome", "approve").with("scope", scope.to_owned()))
                }
                _ => invalid("the value of an option"),
            }
        }
    }
}
