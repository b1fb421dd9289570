//! Records of answered control requests: their number by result, and in the audit file two records each, which are on
//! disk before the acknowledgement.
//!
//! The journal has the truth; the audit says who asked. Never a path or a text, unless the policy wants texts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::interaction::audit::Audit;
use crate::limits::{CONTROL_AUDIT_DRAIN, CONTROL_AUDIT_REFUSALS, CONTROL_AUDIT_WAITING};
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

/// Writes the records of control requests, on a task of its own that begins with the first. What comes while it writes
/// is written together: one write and one sync for all requests of that moment.
pub struct ControlAudit {
    audit: Arc<Audit>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    executor: tokio::runtime::Handle,
    queue: OnceLock<Sender<Written>>,
    /// Requests without records: refusals of a flood, and those whose records could not be written.
    skipped: Arc<AtomicU64>,
    /// The second of the last refusals, and their number in it.
    refused: Mutex<(Duration, u64)>,
}

/// The records of one request, and who waits until they are on disk or cannot be written.
struct Written {
    records: Vec<Map<'static>>,
    done: oneshot::Sender<()>,
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
        let (queue, skipped, refused) = Default::default();
        Self { audit, clock, tasks, executor, queue, skipped, refused }
    }

    /// Records a request and its acknowledgement, and returns once both are on disk. Waits at most `patience`: a request
    /// that a session has taken is not refused because the disk is slow, and its records are written when it answers.
    /// Refusals of a flood are only counted.
    pub async fn record(
        &self,
        request: &ControlRequest,
        ack: &ControlAck,
        text: Option<&str>,
        patience: Duration,
    ) {
        if ack.result == ControlResult::Rejected && !self.has_room() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut asked = keys("control/request", request, ack);
        asked.put_some("retry-count", request.retry_count);
        asked.put_some("text", text.map(str::to_owned));
        let mut acked = keys("control/ack", request, ack);
        acked.put("session-id", ack.session_id.clone());
        acked.put_some("detail", ack.detail.clone());
        let queue = self.queue.get_or_init(|| self.start());
        if tokio::time::timeout(patience, write(queue, vec![asked, acked])).await.is_err() {
            tracing::warn!(request = %request.request_id, "the audit is late: a control request is acknowledged before it is in it");
        }
    }

    /// Waits, for a bounded time, until everything that was recorded is on disk: at the end of the process.
    pub async fn finish(&self) {
        let Some(queue) = self.queue.get() else { return };
        if tokio::time::timeout(CONTROL_AUDIT_DRAIN, write(queue, Vec::new())).await.is_err() {
            tracing::error!("the audit lacks control requests: it could not be written before the end");
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

    fn start(&self) -> Sender<Written> {
        let (sender, receiver) = mpsc::channel(CONTROL_AUDIT_WAITING);
        let (audit, skipped) = (self.audit.clone(), self.skipped.clone());
        self.tasks.spawn_on(run(receiver, audit, skipped), &self.executor);
        sender
    }
}

/// Has records written, and returns once they are, or cannot be.
async fn write(queue: &Sender<Written>, records: Vec<Map<'static>>) {
    let (done, written) = oneshot::channel();
    if queue.send(Written { records, done }).await.is_ok() {
        // An error means that the process ends.
        let _ = written.await;
    }
}

async fn run(mut queue: Receiver<Written>, audit: Arc<Audit>, skipped: Arc<AtomicU64>) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, CONTROL_AUDIT_WAITING).await > 0 {
        let (records, waiting): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|written| (written.records, written.done)).unzip();
        let requests = records.iter().filter(|records| !records.is_empty()).count();
        let missed = skipped.swap(0, Ordering::Relaxed);
        let mark = (missed > 0).then(|| {
            let count = i64::try_from(missed).unwrap_or(i64::MAX);
            Map::new().with("kind", "control/skipped").with("count", count)
        });
        if requests > 0 || mark.is_some() {
            let audit = audit.clone();
            let append = move || audit.append_all(mark.into_iter().chain(records.into_iter().flatten()));
            let appended = tokio::task::spawn_blocking(append).await;
            if let Err(error) = appended.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                tracing::error!(%error, requests, "the audit lacks control requests");
                // The next records that can be written say how many are missing.
                let missing = u64::try_from(requests).unwrap_or(u64::MAX).saturating_add(missed);
                skipped.fetch_add(missing, Ordering::Relaxed);
            }
        }
        for done in waiting {
            let _ = done.send(());
        }
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
