//! What a session's journal says of a workflow's run. Runs nothing.

use std::sync::Arc;

use crate::message::SessionId;
use crate::session::ApiError;
use crate::store::{Entry, EntryBody};
use crate::value::{Map, Value};
use crate::workflow::FAILED;

/// The type of a run's entries.
pub const WORKFLOW: &str = "workflow";

/// The facts about an unfinished run.
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
}

/// The newest run of a session from its entries; if a workflow is named, the newest of that.
pub fn newest(entries: &[Arc<Entry>], session: &SessionId, named: Option<&str>) -> Option<RunRecord> {
    let mut newest: Option<RunRecord> = None;
    for entry in entries {
        let EntryBody::Other { kind, data } = &entry.body else { continue };
        let text = |key: &str| data.get_keyword(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        // A fork also has entries of its source session; runs of that session do not run here.
        if &**kind != WORKFLOW || text("session-id") != session.as_str() {
            continue;
        }
        match (text("event").as_str(), &mut newest) {
            ("started", newest) if named.is_none_or(|name| name == text("workflow")) => {
                // A resumed run has the results of the earlier one.
                let resumes = text("resumes");
                let results = newest.take().filter(|begun| begun.id == resumes).map(|begun| begun.results);
                *newest = Some(RunRecord {
                    id: text("run-id"),
                    workflow: text("workflow"),
                    arguments: text("arguments"),
                    results: results.unwrap_or_default(),
                    ..RunRecord::default()
                });
            }
            ("stage-started", Some(begun)) if begun.id == text("run-id") => begun.step = text("stage"),
            ("stage-ended", Some(begun)) if begun.id == text("run-id") => {
                let result = data.get_keyword("result").cloned().unwrap_or(Value::Nil);
                let stage = text("stage");
                begun.results.retain(|(id, _)| *id != stage);
                begun.results.push((stage, result));
            }
            ("ended", Some(begun)) if begun.id == text("run-id") => begun.ended = text("outcome"),
            ("interrupted", Some(begun)) if begun.id == text("run-id") => {
                begun.ended = "interrupted".to_owned()
            }
            _ => {}
        }
    }
    newest
}

/// The entry that marks a run as interrupted.
pub fn cut_off(session: &SessionId, begun: &RunRecord) -> EntryBody {
    let mut record = Map::new();
    record.put("session-id", session.to_value());
    record.put("run-id", begun.id.clone());
    record.put("workflow", begun.workflow.clone());
    record.put("event", "interrupted");
    record.put("stage", begun.step.clone());
    EntryBody::Other { kind: WORKFLOW.into(), data: record }
}

impl RunRecord {
    /// The report to a person about an interrupted run.
    pub fn report(&self) -> String {
        let done: Vec<&str> = self.results.iter().map(|(id, _)| id.as_str()).collect();
        let done = if done.is_empty() { "nothing".to_owned() } else { done.join(", ") };
        format!(
            "The workflow {0} was interrupted in the stage {1}; done before: {done}. Nothing was done again. \
             /workflow {0} --resume goes on with the stage {1}.",
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
                "The last run of {} ended: {outcome}. There is nothing to go on with.",
                self.workflow
            ))),
        }
    }
}
