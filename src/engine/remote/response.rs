//! Questions and answers as they cross. A secret does not.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::question::{Answer, ApprovalScope, QuestionContent};
use crate::facts::rule::Rule;
use crate::interaction::Resolution;
use crate::message::TurnId;
use crate::session::{AnswerFields, Response};

/// An answer to a question. A secret does not cross.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RemoteResponse {
    id: String,
    accepted: bool,
    note: Option<String>,
    text: Option<String>,
    ok: Option<bool>,
    index: Option<usize>,
    outcome: Option<String>,
    scope: Option<String>,
    rule: Option<Rule>,
    content: Option<String>,
}

/// An open question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RemoteQuestion {
    pub id: Arc<str>,
    pub turn: Option<TurnId>,
    pub content: QuestionContent,
}

impl RemoteResponse {
    pub(super) fn read(self) -> Response {
        let Self { id, accepted, note, text, ok, index, outcome, scope, rule, content } = self;
        let answer =
            AnswerFields { text, ok, index, outcome, scope, rule, content, ..AnswerFields::default() };
        Response { interaction_id: id, accepted, answer, note }
    }
}

/// What the owner is told of how a question ended here; `None` if nobody has answered.
pub(super) fn response(id: &str, resolution: Resolution) -> Option<RemoteResponse> {
    let mut response = RemoteResponse { id: id.to_owned(), ..RemoteResponse::default() };
    let word = |scope: ApprovalScope| Some(scope.as_str().to_owned());
    match resolution {
        Resolution::Accepted { answer, note } => {
            response.accepted = true;
            response.note = note;
            response.outcome = answer.outcome().map(str::to_owned);
            match answer {
                Answer::Text(text) => response.text = Some(text),
                Answer::Option(index) => response.index = Some(index),
                Answer::Confirm(ok) => response.ok = Some(ok),
                Answer::Approve { scope, rule, content } => {
                    response.scope = scope.and_then(word);
                    response.rule = rule;
                    response.content = content.map(|content| content.to_string());
                }
                Answer::Forbid { scope, rule } => {
                    response.scope = word(scope);
                    response.rule = rule;
                }
                Answer::Deny | Answer::Defer => {}
                // A secret stays on its machine.
                Answer::Secret(_) | Answer::Done(_) => return None,
            }
        }
        Resolution::Cancelled { note } => response.note = note,
        Resolution::Headless | Resolution::TimedOut | Resolution::Withdrawn => return None,
    }
    Some(response)
}
