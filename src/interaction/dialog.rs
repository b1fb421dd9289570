//! Converts questions into plain dialogs (confirm, select, input) and their results into answers. Only people
//! read a dialog, so hidden characters are codes there. Knows no connection.

use std::sync::Arc;

use crate::event::question::{Answer, ApprovalScope, QuestionContent};
use crate::event::{Dialog, DialogOption, DialogShape};
use crate::session::{ApiError, DialogResult};
use crate::visible;

/// The question as a dialog; `None` if the answer is a secret, which a dialog must not carry.
pub(super) fn dialog(id: &Arc<str>, question: &QuestionContent, warnings: &[String]) -> Option<Dialog> {
    let (shape, title, message) = match question {
        QuestionContent::Password { .. } => return None,
        QuestionContent::Ask { prompt } => (DialogShape::Input, shown(prompt), None),
        QuestionContent::Confirm { prompt, default } => {
            (DialogShape::Confirm { default: Some(*default) }, shown(prompt), None)
        }
        QuestionContent::Select { prompt, .. } => {
            (DialogShape::Select(options(question)), shown(prompt), None)
        }
        QuestionContent::DeviceCode { provider, url, code, .. } => {
            let message = format!("Open {} and enter the code {}, then confirm.", shown(url), shown(code));
            (DialogShape::Confirm { default: None }, format!("Log in to {}", shown(provider)), Some(message))
        }
        QuestionContent::Approve(approval) => {
            let diff = approval.diff.as_ref();
            let message = approval.command.as_deref().or(diff.map(|diff| diff.text.as_str())).map(shown);
            let is_cut = diff.is_some_and(|diff| diff.cut.is_some());
            let cut = if is_cut { " (the diff is cut)" } else { "" };
            let title = format!("Allow: {}?{cut}", shown(&approval.summary));
            (DialogShape::Select(options(question)), title, message)
        }
        QuestionContent::GrantStageTool(request) => {
            let title = format!("Allow {} in this stage?", shown(&request.tool));
            let message = format!("{}\n{}", shown(&request.args_summary), shown(&request.reason));
            (DialogShape::Select(options(question)), title, Some(message))
        }
        QuestionContent::ApproveSubagentEnvelope(request) => {
            let message = format!(
                "{}\nTools: {}\n{}\nDepth: {}",
                shown(&request.task_summary),
                shown(&request.tools.join(", ")),
                shown(&request.who()),
                request.depth
            );
            (DialogShape::Select(options(question)), "Start a subagent?".to_owned(), Some(message))
        }
    };
    let lines: Vec<String> = warnings.iter().map(|warning| format!("Warning: {warning}")).collect();
    let message = match (lines.is_empty(), message) {
        (true, message) => message,
        (false, message) => Some(lines.into_iter().chain(message).collect::<Vec<_>>().join("\n")),
    };
    Some(Dialog { id: id.clone(), shape, title, message, subagent: None })
}

/// A text as a person sees all of it.
fn shown(text: &str) -> String {
    visible::text(text).into_owned()
}

fn options(question: &QuestionContent) -> Vec<DialogOption> {
    let option = |value: &str, label: String| DialogOption { value: value.to_owned(), label };
    if let QuestionContent::Select { options, .. } = question {
        let numbered = options.iter().enumerate();
        return numbered.map(|(place, label)| option(&place.to_string(), shown(label))).collect();
    }
    let mut choices = vec![option("once", "Allow once".to_owned())];
    if let QuestionContent::Approve(approval) = question {
        choices.push(option("session", "Allow for this session".to_owned()));
        if let Some(rule) = &approval.suggested_rule {
            choices.push(option("rule", shown(&format!("Always allow: {}", rule.to_value()))));
        }
    }
    choices.push(option("deny", "Deny".to_owned()));
    if let QuestionContent::GrantStageTool(_) = question {
        choices.push(option("defer", "Not in this attempt".to_owned()));
    }
    choices
}

/// The answer for a dialog's result.
///
/// # Errors
/// `request/invalid-params` if the dialog has no such result.
pub(super) fn answer(question: &QuestionContent, result: DialogResult) -> Result<Answer, ApiError> {
    let invalid = |expected: &str| Err(ApiError::invalid_param("result", expected));
    let (text, flag) = match result {
        DialogResult::Text(text) => (Some(text), None),
        DialogResult::Flag(flag) => (None, Some(flag)),
    };
    let chosen = text.as_deref().unwrap_or_default();
    match question {
        QuestionContent::Password { .. } => invalid("given by a connection that answers interactions"),
        QuestionContent::Ask { .. } => {
            text.map_or_else(|| invalid("a string"), |text| Ok(Answer::Text(text)))
        }
        QuestionContent::Confirm { .. } => {
            flag.map_or_else(|| invalid("true or false"), |yes| Ok(Answer::Confirm(yes)))
        }
        QuestionContent::DeviceCode { .. } => {
            flag.map_or_else(|| invalid("true or false"), |done| Ok(Answer::Done(done)))
        }
        QuestionContent::Select { options, .. } => {
            // The option's place, or its label if the frontend returned that: as it was shown, or as it is.
            let place = chosen.parse().ok().filter(|place: &usize| *place < options.len());
            let is_chosen = |label: &String| label == chosen || visible::text(label) == chosen;
            let place = place.or_else(|| options.iter().position(is_chosen));
            place.map_or_else(|| invalid("the value of an option"), |place| Ok(Answer::Option(place)))
        }
        QuestionContent::Approve(_)
        | QuestionContent::GrantStageTool(_)
        | QuestionContent::ApproveSubagentEnvelope(_) => {
            let is_call = matches!(question, QuestionContent::Approve(_));
            let is_grant = matches!(question, QuestionContent::GrantStageTool(_));
            let approve = |scope| Answer::Approve { scope, rule: None, content: None };
            let scope = ApprovalScope::ALL.into_iter().find(|scope| scope.as_str() == chosen);
            match (chosen, scope) {
                ("deny", _) => Ok(Answer::Deny),
                ("defer", _) if is_grant => Ok(Answer::Defer),
                (_, Some(scope)) if is_call => Ok(approve(Some(scope))),
                (_, Some(ApprovalScope::Once)) => Ok(approve(None)),
                _ => invalid("the value of an option"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::question::{EnvelopeRequest, GrantRequest};

    fn asked(question: &QuestionContent) -> Dialog {
        dialog(&"i".into(), question, &[]).unwrap()
    }

    #[test]
    fn dialog_of_confirm_has_its_default() {
        for default in [true, false] {
            let question = QuestionContent::Confirm { prompt: "Go?".to_owned(), default };
            assert_eq!(asked(&question).shape, DialogShape::Confirm { default: Some(default) });
        }
    }

    #[test]
    fn dialog_of_grant_has_its_reason_and_can_be_deferred() {
        let question = QuestionContent::GrantStageTool(GrantRequest {
            stage_execution: "x".to_owned(),
            attempt: 0,
            proposal: "p".to_owned(),
            tool: "bash".into(),
            args_digest: String::new(),
            args_summary: "$ ls".to_owned(),
            reason: "The stage has only read.".to_owned(),
        });
        let dialog = asked(&question);
        assert_eq!(dialog.message.as_deref(), Some("$ ls\nThe stage has only read."));
        let DialogShape::Select(options) = dialog.shape else { panic!("a grant is one of several") };
        let values: Vec<&str> = options.iter().map(|option| option.value.as_str()).collect();
        assert_eq!(values, ["once", "deny", "defer"]);
        let result = DialogResult::Text("defer".to_owned());
        assert!(matches!(answer(&question, result), Ok(Answer::Defer)));
        let approval = QuestionContent::Approve(Default::default());
        assert!(answer(&approval, DialogResult::Text("defer".to_owned())).is_err());
    }

    #[test]
    fn dialog_of_envelope_has_model_and_depth() {
        let question = QuestionContent::ApproveSubagentEnvelope(EnvelopeRequest {
            subagent: "s-2".into(),
            parent: "s-1".into(),
            depth: 1,
            tools: vec!["read".to_owned(), "search".to_owned()],
            task_summary: "Look.".to_owned(),
            model: ("p".into(), "m".into()),
            agent: None,
        });
        let message = asked(&question).message.unwrap();
        assert_eq!(message, "Look.\nTools: read, search\nModel: p m\nDepth: 1");
    }
}
