//! The valid answers of each kind of question. Knows neither clients nor askers.

use crate::event::question::{Answer, Approval, ApprovalScope, ProposedText, QuestionContent, QuestionKind};
use crate::limits::TOOL_FILE_BYTES;
use crate::session::{AnswerFields, ApiError};

/// The answer without a person if everything is allowed (`--yolo`): a permission is given. `None` for a question that only
/// a person can answer.
pub(super) fn unattended(kind: QuestionKind) -> Option<Answer> {
    let approve = |scope| Answer::Approve { scope, rule: None, content: None };
    Some(match kind {
        QuestionKind::Approve => approve(Some(ApprovalScope::Once)),
        QuestionKind::GrantStageTool | QuestionKind::ApproveSubagentEnvelope => approve(None),
        QuestionKind::Ask
        | QuestionKind::Select
        | QuestionKind::Confirm
        | QuestionKind::DeviceCode
        | QuestionKind::Password => return None,
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
    refuse_misplaced_text(content, &fields)?;
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
        QuestionContent::Approve(approval) if outcome(&["approve", "deny"])? == "approve" => {
            let names = ApprovalScope::ALL.map(ApprovalScope::as_str).join(", ");
            let scope = scope(&fields).ok_or_else(|| invalid("scope", &format!("one of {names}")))?;
            let proposed = approval.proposal.as_ref();
            // The proposal as it was is no edit.
            let is_edit =
                |text: &String| proposed.is_some_and(|ProposedText { text: old, .. }| text != &**old);
            let content = fields.content.filter(is_edit).map(Into::into);
            Ok(Answer::Approve { scope: Some(scope), rule: fields.rule, content })
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

/// Refuses a text for a file where it would have no effect, or another one than the person means.
///
/// # Errors
/// `request/invalid-params`.
fn refuse_misplaced_text(content: &QuestionContent, fields: &AnswerFields) -> Result<(), ApiError> {
    let Some(text) = &fields.content else { return Ok(()) };
    let is_for_one_call =
        fields.outcome.as_deref() == Some("approve") && scope(fields) == Some(ApprovalScope::Once);
    let most = usize::try_from(TOOL_FILE_BYTES).unwrap_or(usize::MAX);
    let expected = match content {
        QuestionContent::Approve(Approval { proposal: Some(_), .. }) if !is_for_one_call => {
            "left out, unless :outcome is approve and :scope is once".to_owned()
        }
        QuestionContent::Approve(Approval { proposal: Some(_), .. }) if text.len() > most => {
            format!("a text of at most {most} bytes")
        }
        QuestionContent::Approve(Approval { proposal: Some(_), .. }) => return Ok(()),
        _ => "left out, since the question has no :proposal".to_owned(),
    };
    Err(ApiError::invalid_param("value :content", &expected))
}

/// Refuses a text for a file in an answer that cancels the question.
///
/// # Errors
/// `request/invalid-params`.
pub(super) fn cancelled(fields: &AnswerFields) -> Result<(), ApiError> {
    match fields.content {
        None => Ok(()),
        Some(_) => Err(ApiError::invalid_param("value :content", "left out, unless :status is accepted")),
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
        "approve" => Answer::Approve { scope: None, rule: None, content: None },
        "defer" => Answer::Defer,
        _ => Answer::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_above_the_file_limit_is_refused() {
        let proposal = ProposedText { old: None, text: "".into(), base: None, handle: None };
        let question = QuestionContent::Approve(Approval { proposal: Some(proposal), ..Approval::default() });
        let most = usize::try_from(TOOL_FILE_BYTES).unwrap();
        for (bytes, fits) in [(most, true), (most + 1, false)] {
            let fields = AnswerFields {
                outcome: Some("approve".to_owned()),
                scope: Some("once".to_owned()),
                content: Some("x".repeat(bytes)),
                ..AnswerFields::default()
            };
            assert_eq!(read(&question, fields).is_ok(), fits, "{bytes}");
        }
    }
}
