//! What is kept of answered control requests: their number by result, and in the audit file two records each, written
//! behind the acknowledgement.
//!
//! The journal has the truth; the audit says who asked. Never a path or a text, unless the policy wants texts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::interaction::audit::Audit;
use crate::limits::{CONTROL_AUDIT_REFUSALS, CONTROL_AUDIT_WAITING};
use crate::session::control::{ControlAck, ControlRequest, ControlResult};
use crate::value::Map;

/// How control requests were answered since the process started.
#[derive(Debug, Default)]
pub struct ControlCounts([AtomicU64; ControlResult::ALL.len()]);

impl ControlCounts {
    /// Counts a request with that result.
    pub fn count(&self, result: ControlResult) {
        let place = ControlResult::ALL.iter().position(|known| *known == result);
        if let Some(count) = place.and_then(|place| self.0.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of each result.
    pub fn all(&self) -> Vec<(ControlResult, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        ControlResult::ALL.into_iter().zip(counts).collect()
    }
}

/// Writes the records of control requests, on a task of its own that begins with the first.
pub struct ControlAudit {
    audit: Arc<Audit>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    executor: tokio::runtime::Handle,
    records: OnceLock<Sender<Vec<Map<'static>>>>,
    /// Refusals that were not written one by one.
    skipped: Arc<AtomicU64>,
    /// The second of the last refusals, and their number in it.
    refused: Mutex<(Duration, u64)>,
}

impl ControlAudit {
    /// An audit into that file.
    pub fn new(
        audit: Audit,
        clock: Arc<dyn Clock>,
        tasks: TaskTracker,
        executor: tokio::runtime::Handle,
    ) -> Self {
        let audit = Arc::new(audit);
        let (records, skipped, refused) = Default::default();
        Self { audit, clock, tasks, executor, records, skipped, refused }
    }

    /// Records a request and its acknowledgement. Refusals of a flood are only counted.
    pub fn record(&self, request: &ControlRequest, ack: &ControlAck, text: Option<&str>) {
        if ack.result == ControlResult::Rejected && !self.has_room() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut asked = keys("control/request", request, ack);
        asked.put_some("retry-count", request.retry_count);
        asked.put_some("text", text.map(str::to_owned));
        let mut acked = keys("control/ack", request, ack);
        acked.put_some("detail", ack.detail.clone());
        let records = self.records.get_or_init(|| self.start());
        if records.try_send(vec![asked, acked]).is_err() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether another refusal is written in this second.
    fn has_room(&self) -> bool {
        let now = self.clock.passed();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(refused.0) >= Duration::from_secs(1) {
            *refused = (now, 0);
        }
        refused.1 = refused.1.saturating_add(1);
        refused.1 <= CONTROL_AUDIT_REFUSALS
    }

    fn start(&self) -> Sender<Vec<Map<'static>>> {
        let (sender, receiver) = mpsc::channel(CONTROL_AUDIT_WAITING);
        let (audit, skipped) = (self.audit.clone(), self.skipped.clone());
        self.tasks.spawn_on(write(receiver, audit, skipped), &self.executor);
        sender
    }
}

async fn write(mut receiver: Receiver<Vec<Map<'static>>>, audit: Arc<Audit>, skipped: Arc<AtomicU64>) {
    while let Some(records) = receiver.recv().await {
        let missed = i64::try_from(skipped.swap(0, Ordering::Relaxed)).unwrap_or(i64::MAX);
        let missed = (missed > 0).then(|| Map::new().with("kind", "control/skipped").with("count", missed));
        let audit = audit.clone();
        let append = move || {
            for record in missed.into_iter().chain(records) {
                if let Err(error) = audit.append(record) {
                    tracing::warn!(%error, "the audit does not have a control request");
                }
            }
        };
        let _ = tokio::task::spawn_blocking(append).await;
    }
}

/// What every record has.
fn keys(kind: &'static str, request: &ControlRequest, ack: &ControlAck) -> Map<'static> {
    let mut record = Map::new();
    record.put("kind", kind);
    record.put("at", ack.acked_at.to_string());
    record.put("type", request.kind.as_str());
    for (key, text) in [
        ("request-id", &request.request_id),
        ("team", &request.team),
        ("session-id", &request.session_id),
        ("agent-id", &request.agent_id),
        ("sender", &request.sender),
    ] {
        record.put(key, text.clone());
    }
    record.put("result", ack.result.as_str());
    record.put("duplicate", ack.duplicate);
    record
}
