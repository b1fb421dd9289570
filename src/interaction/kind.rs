//! The kinds of questions and the valid answers of each. Knows neither clients nor askers.

use crate::session::ApiError;
use crate::value::{Map, Value};

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// A free text.
    Ask,
    /// Whether a tool call may run.
    Approve,
    /// A choice from a list.
    Select,
    /// Confirmation that a login was completed elsewhere.
    DeviceCode,
    /// A secret.
    Password,
    /// Yes or no.
    Confirm,
    /// Whether one call outside a stage's tools may run.
    GrantStageTool,
    /// Whether a subagent may be started with its tools.
    ApproveSubagentEnvelope,
}

impl QuestionKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Approve => "approve",
            Self::Select => "select",
            Self::DeviceCode => "auth.device-code",
            Self::Password => "auth.password",
            Self::Confirm => "confirm",
            Self::GrantStageTool => "grant-stage-tool",
            Self::ApproveSubagentEnvelope => "approve-subagent-envelope",
        }
    }

    /// Whether the answer is secret, or almost. Other clients do not see it.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::DeviceCode | Self::Password)
    }

    /// The answer without a person if everything is allowed (`--yolo`); `None` if only a person can know.
    pub fn unattended(self) -> Option<Map<'static>> {
        Some(match self {
            Self::Ask => Map::new().with("text", ""),
            Self::Approve => Map::new().with("outcome", "approve").with("scope", "once"),
            Self::GrantStageTool | Self::ApproveSubagentEnvelope => Map::new().with("outcome", "approve"),
            Self::Select => Map::new().with("index", 0),
            Self::Confirm => Map::new().with("ok", true),
            Self::DeviceCode | Self::Password => return None,
        })
    }

    /// The answer that approves the request once, or refuses it; `None` if yes or no is not a valid answer.
    pub fn decision(self, approve: bool) -> Option<Map<'static>> {
        let outcome = Map::new().with("outcome", if approve { "approve" } else { "deny" });
        match self {
            Self::Approve if approve => Some(outcome.with("scope", "once")),
            Self::Approve | Self::GrantStageTool | Self::ApproveSubagentEnvelope => Some(outcome),
            Self::Confirm => Some(Map::new().with("ok", approve)),
            Self::DeviceCode => Some(Map::new().with("done", approve)),
            Self::Ask | Self::Select | Self::Password => None,
        }
    }

    /// Checks an answer against the question.
    ///
    /// # Errors
    /// `request/invalid-params`, with the key and the expected value.
    pub fn check(self, payload: &Map<'_>, value: &Map<'_>) -> Result<(), ApiError> {
        let invalid =
            |key: &str, expected: &str| Err(ApiError::invalid_param(&format!("value :{key}"), expected));
        let text = |key| value.get_keyword(key).and_then(Value::as_str);
        let one_of = |key, names: &[&str]| match text(key) {
            Some(name) if names.contains(&name) => Ok(()),
            _ => Err(ApiError::invalid_param(
                &format!("value :{key}"),
                &format!("one of {}", names.join(", ")),
            )),
        };
        match self {
            Self::Ask if text("text").is_none() => invalid("text", "a string"),
            Self::Password if text("secret").is_none() => invalid("secret", "a string"),
            Self::Confirm if value.get_keyword("ok").and_then(Value::as_bool).is_none() => {
                invalid("ok", "true or false")
            }
            Self::DeviceCode if value.get_keyword("done").and_then(Value::as_bool).is_none() => {
                invalid("done", "true or false")
            }
            Self::Select => {
                let options = payload.get_keyword("options").and_then(Value::as_slice).map_or(0, <[_]>::len);
                let fits = |value: &Value<'_>| {
                    value.as_i64().and_then(|n| usize::try_from(n).ok()).is_some_and(|n| n < options)
                };
                let multi = payload.get_keyword("multi").and_then(Value::as_bool) == Some(true);
                match (value.get_keyword("index"), value.get_keyword("indices").and_then(Value::as_slice)) {
                    (Some(index), None) if fits(index) => Ok(()),
                    (None, Some(indices)) if multi && indices.iter().all(fits) => Ok(()),
                    _ => invalid("index", "the place of an option, from 0"),
                }
            }
            Self::Approve => {
                one_of("outcome", &["approve", "deny"])?;
                match text("outcome") {
                    Some("approve") => one_of("scope", &["once", "session", "rule"]),
                    _ => Ok(()),
                }
            }
            Self::GrantStageTool => one_of("outcome", &["approve", "deny", "defer"]),
            Self::ApproveSubagentEnvelope => one_of("outcome", &["approve", "deny"]),
            Self::Ask | Self::Password | Self::Confirm | Self::DeviceCode => Ok(()),
        }
    }
}
