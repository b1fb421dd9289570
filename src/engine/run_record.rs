//! What a session's journal says of a workflow's run. Runs nothing.

use std::sync::Arc;

use crate::engine::interrupted::UnendedQuestion;
use crate::message::SessionId;
use crate::session::ApiError;
use crate::store::record::{AnswerRecord, QuestionRecord, RunEvent, WorkflowRecord};
use crate::store::{Entry, EntryBody};
use crate::value::Value;
use crate::workflow::FAILED;

/// How the id of a run begins.
pub const RUN_PREFIX: &str = "w-";

/// The facts about a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunRecord {
    /// The run.
    pub id: String,
    /// The workflow.
    pub workflow: String,
    /// Its arguments.
    pub arguments: String,
    /// The running step; empty if there is none.
    pub step: String,
    /// The results of the earlier steps.
    pub results: Vec<(String, Value<'static>)>,
    /// Its outcome; empty for an unfinished run.
    pub ended: String,
    /// Why it did not succeed; empty if it did.
    pub why: String,
    /// The questions of the running step, oldest first.
    pub asked: Vec<UnendedQuestion>,
    /// Whether the running step has got beyond its gate: it has said something to the model.
    has_acted: bool,
    /// Whether it left its process before the step.
    pub is_handed_over: bool,
}

/// The newest run of a session from its entries; if a workflow is named, the newest of that.
pub fn newest<'e>(
    entries: impl IntoIterator<Item = &'e Arc<Entry>>,
    session: &SessionId,
    named: Option<&str>,
) -> Option<RunRecord> {
    let mut newest: Option<RunRecord> = None;
    for entry in entries {
        // A fork also has entries of its source session; runs of that session do not run here.
        let record = match &entry.body {
            EntryBody::Workflow(record) => record,
            body => {
                if let Some(begun) = &mut newest {
                    begun.take_in(body, session, &entry.ts);
                }
                continue;
            }
        };
        if record.session_id != *session {
            continue;
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let begun = newest.as_mut().filter(|begun| begun.id == record.run_id);
        match (record.event, begun) {
            (RunEvent::Started, _) if named.is_none_or(|name| name == record.workflow) => {
                // A resumed run has the results of the earlier one.
                let resumes = text(&record.resumes);
                let results = newest.take().filter(|begun| begun.id == resumes).map(|begun| begun.results);
                newest = Some(RunRecord {
                    id: record.run_id.clone(),
                    workflow: record.workflow.clone(),
                    arguments: text(&record.arguments),
                    results: results.unwrap_or_default(),
                    ..RunRecord::default()
                });
            }
            (RunEvent::StageStarted, Some(begun)) => {
                begun.step = text(&record.stage);
                begun.asked.clear();
                begun.has_acted = false;
            }
            (RunEvent::HandedOver, Some(begun)) => begun.is_handed_over = true,
            (RunEvent::StageEnded, Some(begun)) => {
                let stage = text(&record.stage);
                begun.results.retain(|(id, _)| *id != stage);
                begun.results.push((stage, record.result.clone().unwrap_or(Value::Nil)));
            }
            (RunEvent::Ended, Some(begun)) => {
                (begun.ended, begun.why) = (text(&record.outcome), text(&record.why));
            }
            (RunEvent::Interrupted, Some(begun)) => begun.ended = "interrupted".to_owned(),
            _ => {}
        }
    }
    newest
}

/// The entry that marks a run as interrupted.
pub fn cut_off(session: &SessionId, begun: &RunRecord) -> EntryBody {
    EntryBody::Workflow(Box::new(WorkflowRecord {
        stage: Some(begun.step.clone()),
        ..WorkflowRecord::new(session, &begun.id, &begun.workflow, RunEvent::Interrupted)
    }))
}

impl RunRecord {
    fn take_in(&mut self, body: &EntryBody, session: &SessionId, at: &Arc<str>) {
        match body {
            EntryBody::Message(_) => self.has_acted = true,
            EntryBody::Question(question)
                if question.session_id == *session && *question.turn_id.as_str() == *self.id =>
            {
                let (question, at) = (QuestionRecord::clone(question), at.clone());
                self.asked.push(UnendedQuestion { question, at, answer: None });
            }
            EntryBody::Answer(answer) if answer.session_id == *session => {
                let asked = self.asked.iter_mut();
                for asked in asked.filter(|asked| asked.question.question_id == answer.question_id) {
                    asked.answer = Some(AnswerRecord::clone(answer));
                }
            }
            _ => {}
        }
    }

    /// Whether it continues with a person's answer: it was cut off at a question before the step had done anything.
    pub fn waits_for_a_person(&self) -> bool {
        self.ended.is_empty() && !self.has_acted && !self.asked.is_empty()
    }

    /// The report to a person about an interrupted run.
    pub fn report(&self) -> String {
        let done: Vec<&str> = self.results.iter().map(|(id, _)| id.as_str()).collect();
        let done = if done.is_empty() { "nothing".to_owned() } else { done.join(", ") };
        format!(
            "The workflow {0} was interrupted in the stage {1}; done before: {done}. Nothing was done again. \
             /workflow {0} --resume continues the stage {1}.",
            self.workflow, self.step
        )
    }

    /// Whether it can be resumed: it stopped within a step.
    ///
    /// # Errors
    /// The reason why not.
    pub fn resumable(self) -> Result<Self, ApiError> {
        match self.ended.as_str() {
            "interrupted" | "aborted" | FAILED if !self.step.is_empty() => Ok(self),
            "" => Err(ApiError::failed("The workflow runs.")),
            outcome => Err(ApiError::failed(format!(
                "The last run of {} ended: {outcome}. There is nothing to continue with.",
                self.workflow
            ))),
        }
    }
}
