//! Questions both ways: what an editor is asked, in plain types, and what its answer means. Decides nothing.

use std::path::PathBuf;

use crate::event::question::{Approval, QuestionContent, QuestionKind};
use crate::event::{Choice, QuestionAsked};
use crate::session::AnswerFields;
use crate::wire::acp::map::Can;
use crate::wire::acp::update::{
    CallContent, CallKind, CallState, EditorAnswer, Form, Permission, PermissionKind, ShownCall,
};

/// A request to the editor.
#[derive(Debug, Clone, PartialEq)]
pub enum EditorRequest {
    /// A permission, or a choice among a few options.
    Permission(Box<Permission>),
    /// A form, with what it is about.
    Form(String, Form),
}

/// Whether an editor can answer a question of that kind.
pub const fn can_answer(can: Can, kind: QuestionKind) -> bool {
    match kind {
        QuestionKind::Ask => can.forms,
        // A form is no place for a secret.
        QuestionKind::Password => false,
        _ => true,
    }
}

/// The request for a question; `None` for one that the editor cannot show.
pub fn request(asked: &QuestionAsked, can: Can) -> Option<EditorRequest> {
    let by = |title: String| match &asked.subagent {
        Some(subagent) => format!("{title} ({})", subagent.label),
        None => title,
    };
    let mut warned = String::new();
    for warning in asked.warnings.iter() {
        warned.push_str("\n\nWarning: ");
        warned.push_str(warning);
    }
    let about = |title: String, text: String| {
        let content = Some(vec![CallContent::Text(format!("{text}{warned}").trim_start().to_owned())]);
        let content =
            content.filter(|content| !matches!(content.first(), Some(CallContent::Text(t)) if t.is_empty()));
        ShownCall {
            id: asked.id.clone(),
            title: Some(by(title)),
            kind: Some(CallKind::Other),
            state: Some(CallState::Pending),
            content,
            ..ShownCall::default()
        }
    };
    let yes_or_no = |call: ShownCall, yes: &str, no: &str| {
        let options = vec![
            (YES, yes.to_owned(), PermissionKind::AllowOnce),
            (NO, no.to_owned(), PermissionKind::RejectOnce),
        ];
        EditorRequest::Permission(Box::new(Permission { call, options, numbered: Vec::new() }))
    };
    Some(match asked.content.as_ref() {
        QuestionContent::Approve(approval) => {
            let mut options = vec![
                (ONCE, "Allow".to_owned(), PermissionKind::AllowOnce),
                (SESSION, "Allow such calls in this session".to_owned(), PermissionKind::AllowAlways),
            ];
            if let Some(rule) = &approval.suggested_rule {
                options.push((RULE, format!("From now on: {}", rule.text()), PermissionKind::AllowAlways));
            }
            options.push((NO, "Deny".to_owned(), PermissionKind::RejectOnce));
            let call = call(approval, by(title(approval)), &warned);
            EditorRequest::Permission(Box::new(Permission { call, options, numbered: Vec::new() }))
        }
        QuestionContent::GrantStageTool(grant) => {
            let title = format!("Allow {} once outside its stage?", grant.tool);
            yes_or_no(about(title, format!("{}\n\n{}", grant.args_summary, grant.reason)), "Allow", "Deny")
        }
        QuestionContent::ApproveSubagentEnvelope(envelope) => {
            let text = format!(
                "{}\n\nTools: {}\n{}",
                envelope.task_summary,
                envelope.tools.join(", "),
                envelope.who()
            );
            yes_or_no(about("Start a subagent?".to_owned(), text), "Start it", "Deny")
        }
        QuestionContent::Confirm { prompt, default } if can.forms => {
            EditorRequest::Form(by(format!("{prompt}{warned}")), Form::Flag(*default))
        }
        QuestionContent::Confirm { prompt, .. } => {
            yes_or_no(about(prompt.clone(), String::new()), "Yes", "No")
        }
        QuestionContent::Select { prompt, options } => {
            let about = || about(prompt.clone(), String::new());
            pick(by(format!("{prompt}{warned}")), options.clone(), can, about)
        }
        QuestionContent::Ask { prompt } if can.forms => {
            EditorRequest::Form(by(format!("{prompt}{warned}")), Form::Text)
        }
        QuestionContent::DeviceCode { provider, url, code, .. } => {
            let text = format!("Log in to {provider}: enter the code {code} on the page.");
            match can.pages {
                true => EditorRequest::Form(format!("{text}{warned}"), Form::Page(url.clone())),
                false => {
                    let text = format!("Open {url} and enter the code {code}.");
                    yes_or_no(about(format!("Log in to {provider}"), text), "Done", "Cancel")
                }
            }
        }
        QuestionContent::Ask { .. } | QuestionContent::Password { .. } => return None,
    })
}

/// The request for a choice of a slash command.
pub fn choice(choice: &Choice, can: Can) -> EditorRequest {
    let names = choice.items.iter().map(|item| item.label.clone()).collect();
    let about = || ShownCall {
        id: choice.request.clone(),
        title: Some(choice.prompt.to_owned()),
        kind: Some(CallKind::Other),
        state: Some(CallState::Pending),
        ..ShownCall::default()
    };
    pick(choice.prompt.to_owned(), names, can, about)
}

fn pick(title: String, names: Vec<String>, can: Can, about: impl FnOnce() -> ShownCall) -> EditorRequest {
    if can.forms {
        return EditorRequest::Form(title, Form::Choice(names));
    }
    let options = vec![(NO, "Cancel".to_owned(), PermissionKind::RejectOnce)];
    EditorRequest::Permission(Box::new(Permission { call: about(), options, numbered: names }))
}

const YES: &str = "yes";
const NO: &str = "deny";
const ONCE: &str = "allow";
const SESSION: &str = "allow-session";
const RULE: &str = "allow-rule";

fn title(approval: &Approval) -> String {
    match (&approval.command, approval.summary.is_empty()) {
        (Some(command), _) => command.lines().next().unwrap_or_default().to_owned(),
        (None, false) => approval.summary.to_string(),
        (None, true) => approval.tool.to_string(),
    }
}

/// The call that is to be approved, as an update of it: with the change that it makes, or its command.
fn call(approval: &Approval, title: String, warned: &str) -> ShownCall {
    let mut content = Vec::new();
    let path = approval.path.as_ref().map(PathBuf::from);
    match (&approval.proposal, &path, &approval.diff, &approval.command) {
        (Some(proposal), Some(path), ..) => content.push(CallContent::Diff {
            path: path.clone(),
            old: proposal.old.clone(),
            new: proposal.text.clone(),
        }),
        (_, _, Some(diff), _) => content.push(CallContent::Text(fenced("diff", &diff.text))),
        (.., Some(command)) => content.push(CallContent::Text(fenced("sh", command))),
        _ => {}
    }
    if !warned.is_empty() {
        content.push(CallContent::Text(warned.trim_start().to_owned()));
    }
    ShownCall {
        id: approval.call.clone(),
        tool: Some(approval.tool.clone()),
        title: Some(title),
        kind: Some(CallKind::of(&approval.tool)),
        state: Some(CallState::Pending),
        content: Some(content),
        places: Some(path.into_iter().collect()),
        ..ShownCall::default()
    }
}

/// A text as a block of Markdown that it cannot end.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}{language}\n{text}\n{fence}")
}

/// The answer that was given to a question; `None` if the question is cancelled by it.
pub fn answer(kind: QuestionKind, said: &EditorAnswer) -> Option<AnswerFields> {
    let mut fields = AnswerFields::default();
    let option = if let EditorAnswer::Option(option) = said { option.as_str() } else { "" };
    match kind {
        QuestionKind::Approve => {
            let scope = match option {
                ONCE | NO => "once",
                SESSION => "session",
                RULE => "rule",
                _ => return None,
            };
            fields.outcome = Some(if option == NO { "deny" } else { "approve" }.to_owned());
            fields.scope = Some(scope.to_owned());
        }
        QuestionKind::GrantStageTool | QuestionKind::ApproveSubagentEnvelope => {
            let outcome = match option {
                YES => "approve",
                NO => "deny",
                _ => return None,
            };
            fields.outcome = Some(outcome.to_owned());
        }
        QuestionKind::Confirm => {
            fields.ok = Some(match said {
                EditorAnswer::Flag(yes) => *yes,
                EditorAnswer::Option(option) if option == YES => true,
                EditorAnswer::Option(option) if option == NO => false,
                _ => return None,
            });
        }
        QuestionKind::DeviceCode => match said {
            EditorAnswer::Done => fields.done = Some(true),
            EditorAnswer::Option(option) if option == YES => fields.done = Some(true),
            _ => return None,
        },
        QuestionKind::Select => fields.index = Some(index(said)?),
        QuestionKind::Ask => match said {
            EditorAnswer::Text(text) => fields.text = Some(text.clone()),
            _ => return None,
        },
        QuestionKind::Password => return None,
    }
    Some(fields)
}

/// The place of a picked option, from 0. Its id is the place as it was told, and no other writing of the number.
pub fn index(said: &EditorAnswer) -> Option<usize> {
    let (EditorAnswer::Option(id) | EditorAnswer::Text(id)) = said else { return None };
    id.parse().ok().filter(|place: &usize| place.to_string() == *id)
}

/// The ids of numbered options.
pub fn numbers(names: &[String]) -> impl Iterator<Item = (String, &str)> {
    names.iter().enumerate().map(|(place, name)| (place.to_string(), name.as_str()))
}
