//! Answers of people as entries of a journal, and back. Does not know who asks.

use std::sync::Arc;

use crate::event::question::{Answer, ApprovalScope};
use crate::facts::rule::Rule;
use crate::interaction::Resolution;
use crate::message::SessionId;
use crate::store::record::AnswerRecord;

/// The outcomes of answers that have no word of their own.
const ACCEPTED: &str = "accepted";
const CANCELLED: &str = "cancelled";
const YES: &str = "yes";
const NO: &str = "no";

/// The entry of an answer. Other ends of a question have none.
pub fn record(
    session: &SessionId,
    question: &Arc<str>,
    by: Arc<str>,
    resolution: &Resolution,
) -> Option<AnswerRecord> {
    let mut record = AnswerRecord {
        session_id: session.clone(),
        question_id: question.clone(),
        by,
        outcome: CANCELLED.into(),
        text: None,
        option: None,
        scope: None,
        rule: None,
        content: None,
        note: None,
    };
    match resolution {
        Resolution::Accepted { answer, note } => {
            record.outcome = answer.outcome().unwrap_or(ACCEPTED).into();
            record.note.clone_from(note);
            let kept = |rule: &Option<Rule>| rule.as_ref().map(Rule::to_value);
            match answer {
                Answer::Text(text) => record.text = Some(text.clone()),
                Answer::Option(place) => record.option = Some(*place),
                Answer::Approve { scope, rule, content } => {
                    record.scope = scope.map(|scope| scope.as_str().into());
                    record.rule = kept(rule);
                    record.content.clone_from(content);
                }
                Answer::Forbid { scope, rule } => {
                    record.scope = Some(scope.as_str().into());
                    record.rule = kept(rule);
                }
                Answer::Deny | Answer::Defer => {}
                Answer::Confirm(yes) => record.outcome = if *yes { YES } else { NO }.into(),
                // No session waits for these.
                Answer::Secret(_) | Answer::Done(_) => return None,
            }
        }
        Resolution::Cancelled { note } => record.note.clone_from(note),
        Resolution::Headless | Resolution::TimedOut | Resolution::Withdrawn => return None,
    }
    Some(record)
}

/// The answer of an entry; `None` if only a newer program knows it.
pub fn resolution(record: &AnswerRecord) -> Option<Resolution> {
    let named = |scope: &ApprovalScope| record.scope.as_deref() == Some(scope.as_str());
    let scope = ApprovalScope::ALL.into_iter().find(named);
    if scope.is_none() && record.scope.is_some() {
        return None;
    }
    let rule = match record.rule.as_ref().map(Rule::from_value) {
        None => None,
        Some(Ok(rule)) => Some(rule),
        Some(Err(_)) => return None,
    };
    let answer = match (&*record.outcome, &record.text, record.option, scope) {
        (CANCELLED, ..) => return Some(Resolution::Cancelled { note: record.note.clone() }),
        ("approve", ..) => Answer::Approve { scope, rule, content: record.content.clone() },
        ("deny", .., Some(scope)) => Answer::Forbid { scope, rule },
        ("deny", ..) => Answer::Deny,
        ("defer", ..) => Answer::Defer,
        (YES, ..) => Answer::Confirm(true),
        (NO, ..) => Answer::Confirm(false),
        (ACCEPTED, Some(text), ..) => Answer::Text(text.clone()),
        (ACCEPTED, None, Some(place), _) => Answer::Option(place),
        _ => return None,
    };
    Some(Resolution::Accepted { answer, note: record.note.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Entry, EntryBody};

    #[test]
    fn answers_come_back_from_the_journal_as_they_were() {
        let rule = || {
            let tool = Some("bash".to_owned());
            Some(Rule { tool, command: Some("x".to_owned()), exact: true, ..Rule::allowing() })
        };
        let accepted = |answer| Resolution::Accepted { answer, note: Some("n".to_owned()) };
        let approve = |scope, rule, content| accepted(Answer::Approve { scope, rule, content });
        for (number, resolution) in [
            accepted(Answer::Text("t".to_owned())),
            accepted(Answer::Option(3)),
            approve(None, None, None),
            approve(Some(ApprovalScope::Rule), rule(), None),
            approve(Some(ApprovalScope::Once), None, Some("text".into())),
            accepted(Answer::Deny),
            accepted(Answer::Forbid { scope: ApprovalScope::Session, rule: rule() }),
            accepted(Answer::Defer),
            accepted(Answer::Confirm(true)),
            accepted(Answer::Confirm(false)),
            Resolution::Cancelled { note: None },
        ]
        .into_iter()
        .enumerate()
        {
            let record = record(&"s".into(), &"i".into(), "c".into(), &resolution).unwrap();
            let body = EntryBody::Answer(Box::new(record));
            let entry = Entry { id: "e".into(), parent: None, ts: "t".into(), request: None, body };
            let read = Entry::read(&entry.line()).unwrap();
            assert_eq!(read, entry, "{number}");
            let EntryBody::Answer(record) = read.body else { panic!("{read:?}") };
            assert_eq!(format!("{:?}", super::resolution(&record)), format!("{:?}", Some(resolution)));
        }
        for resolution in [Resolution::Headless, Resolution::TimedOut, Resolution::Withdrawn] {
            assert_eq!(record(&"s".into(), &"i".into(), "c".into(), &resolution), None);
        }
    }
}
