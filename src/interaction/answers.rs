//! The valid answers of each kind of question. Knows neither clients nor askers.

use crate::event::question::{Answer, ApprovalScope, QuestionContent, QuestionKind};
use crate::session::{AnswerFields, ApiError};

/// The answer without a person if everything is allowed (`--yolo`); `None` if only a person can know.
pub(super) fn unattended(kind: QuestionKind) -> Option<Answer> {
    let approve = |scope| Answer::Approve { scope, rule: None };
    Some(match kind {
        QuestionKind::Ask => Answer::Text(String::new()),
        QuestionKind::Approve => approve(Some(ApprovalScope::Once)),
        QuestionKind::GrantStageTool | QuestionKind::ApproveSubagentEnvelope => approve(None),
        QuestionKind::Select => Answer::Option(0),
        QuestionKind::Confirm => Answer::Confirm(true),
        QuestionKind::DeviceCode | QuestionKind::Password => return None,
    })
}

/// Reads the answer to a question from what a client gave.
///
/// # Errors
/// `request/invalid-params`, with the key and the expected value.
pub(super) fn read(content: &QuestionContent, fields: AnswerFields) -> Result<Answer, ApiError> {
    let invalid = |key: &str, expected: &str| ApiError::invalid_param(&format!("value :{key}"), expected);
    let yes_or_no = |key: &str, flag: Option<bool>| flag.ok_or_else(|| invalid(key, "true or false"));
    let outcome = |names: &[&str]| match fields.outcome.as_deref() {
        Some(name) if names.contains(&name) => Ok(name.to_owned()),
        _ => Err(invalid("outcome", &format!("one of {}", names.join(", ")))),
    };
    match content {
        QuestionContent::Ask { .. } => {
            fields.text.map(Answer::Text).ok_or_else(|| invalid("text", "a string"))
        }
        QuestionContent::Password { .. } => {
            fields.secret.map(Answer::Secret).ok_or_else(|| invalid("secret", "a string"))
        }
        QuestionContent::Confirm { .. } => yes_or_no("ok", fields.ok).map(Answer::Confirm),
        QuestionContent::DeviceCode { .. } => yes_or_no("done", fields.done).map(Answer::Done),
        QuestionContent::Select { options, .. } => {
            let place = fields.index.filter(|place| *place < options.len());
            place.map(Answer::Option).ok_or_else(|| invalid("index", "the place of an option, from 0"))
        }
        QuestionContent::Approve(_) if outcome(&["approve", "deny"])? == "approve" => {
            let names = ApprovalScope::ALL.map(ApprovalScope::as_str).join(", ");
            let scope = scope(&fields).ok_or_else(|| invalid("scope", &format!("one of {names}")))?;
            Ok(Answer::Approve { scope: Some(scope), rule: fields.rule })
        }
        // Without a scope, a refusal is for this call.
        QuestionContent::Approve(_) => Ok(match scope(&fields) {
            Some(scope @ (ApprovalScope::Session | ApprovalScope::Rule)) => {
                Answer::Forbid { scope, rule: fields.rule }
            }
            Some(ApprovalScope::Once) | None => Answer::Deny,
        }),
        QuestionContent::GrantStageTool(_) => outcome(&["approve", "deny", "defer"]).map(granted),
        QuestionContent::ApproveSubagentEnvelope(_) => outcome(&["approve", "deny"]).map(granted),
    }
}

/// The scope that a client gave.
fn scope(fields: &AnswerFields) -> Option<ApprovalScope> {
    let named = |scope: &ApprovalScope| fields.scope.as_deref() == Some(scope.as_str());
    ApprovalScope::ALL.into_iter().find(named)
}

/// The answer with that outcome to a question without scopes.
fn granted(outcome: String) -> Answer {
    match outcome.as_str() {
        "approve" => Answer::Approve { scope: None, rule: None },
        "defer" => Answer::Defer,
        _ => Answer::Deny,
    }
}
