//! The entries that a run writes to its session's journal. Does not know when one is due.

use super::{Run, StageEnd};
use crate::engine::change::Change;
use crate::store::EntryBody;
use crate::store::record::{RunEvent, WorkflowRecord};

impl Run {
    pub(super) fn record(&self, event: RunEvent) -> WorkflowRecord {
        WorkflowRecord::new(&self.session.id, &self.id, &self.workflow.name, event)
    }

    pub(super) fn ended(&self, id: &str, ended: &StageEnd) -> WorkflowRecord {
        WorkflowRecord {
            stage: Some(id.to_owned()),
            outcome: Some(ended.outcome.to_string()),
            result: Some(ended.result.clone()),
            attempts: Some(ended.attempts),
            cap_hit: Some(ended.cap_hit),
            why: ended.why.clone(),
            ..self.record(RunEvent::StageEnded)
        }
    }

    pub(super) async fn write(&self, record: WorkflowRecord) {
        let entries = vec![EntryBody::Workflow(Box::new(record))];
        if let Err(error) = self.session.request(|ack| Change::Append { entries, ack }).await {
            tracing::warn!(%error, "the journal does not say how far the workflow is");
        }
    }
}
