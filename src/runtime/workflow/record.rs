//! The entries that a run writes to its session's journal.

use super::{Ended, Run};
use crate::runtime::change::Change;
use crate::runtime::run_record::WORKFLOW;
use crate::store::EntryBody;
use crate::value::Map;

impl Run {
    pub(super) fn record(&self, event: &str) -> Map<'static> {
        let mut record = Map::new();
        record.put("session-id", self.session.id.to_value());
        record.put("run-id", self.id.to_string());
        record.put("workflow", self.workflow.name.to_string());
        record.put("event", event.to_owned());
        record
    }

    pub(super) fn ended(&self, id: &str, ended: &Ended) -> Map<'static> {
        let mut record = self.record("stage-ended");
        record.put("stage", id.to_owned());
        record.put("outcome", ended.outcome.to_string());
        record.put("result", ended.result.clone());
        record.put("attempts", i64::from(ended.attempts));
        record.put("cap-hit", ended.cap_hit);
        record.put_some("why", ended.why.clone());
        record
    }

    pub(super) async fn write(&self, record: Map<'static>) {
        let body = EntryBody::Other { kind: WORKFLOW.into(), data: record };
        let entries = vec![body];
        if let Err(error) = self.session.request(|ack| Change::Append { entries, ack }).await {
            tracing::warn!(%error, "the journal does not say how far the workflow is");
        }
    }
}
