//! What the engine asks of single clients and waits for: calls of the tools that they offer, texts of the files that they
//! have open. Each request goes to one connection, and only that connection answers it, with an `A`. Does not know what a
//! wire calls it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::engine::hub::Hub;
use crate::event::Body;
use crate::session::ApiError;
use crate::tool::Telling;

/// Receives the newest output of a request.
pub type ProgressSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The requests that wait for their client.
pub struct ClientRequests<A> {
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<Arc<str>, Open<A>>>,
}

/// A request that waits.
struct Open<A> {
    connection: u64,
    answer: oneshot::Sender<A>,
    progress: ProgressSink,
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFailure {
    /// The client left.
    Left,
    /// The call was ended.
    Ended,
    /// The time was over.
    TimedOut,
}

impl<A> ClientRequests<A> {
    pub fn new(hub: Arc<Hub>, clock: Arc<dyn Clock>) -> Self {
        Self { hub, clock, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Arc<str>, Open<A>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to a client and waits for its answer. `request` makes its event, with the id that the answer
    /// names, and `event` passes on the events of the call.
    ///
    /// # Errors
    /// See [`RequestFailure`]. The client is told, unless it has left.
    pub async fn ask(
        &self,
        connection: u64,
        request: impl FnOnce(Arc<str>) -> Body,
        event: &Telling,
        progress: ProgressSink,
        stop: &CancellationToken,
        timeout: Duration,
    ) -> Result<A, RequestFailure> {
        let id: Arc<str> = self.clock.id("r-").into();
        let (answer, answered) = oneshot::channel();
        self.open().insert(id.clone(), Open { connection, answer, progress });
        let waiting = OpenRequestGuard { requests: self, id: id.clone() };
        // Looked up after the request is in the list: who leaves later takes it from there.
        let client = self.hub.client(connection).ok_or(RequestFailure::Left)?;
        // There are few at once, so that nobody has to wait for room.
        let deliver = |body| {
            event(body, &mut |event| {
                let _ = client.deliver(event);
            });
        };
        deliver(request(id.clone()));
        let unanswered = tokio::select! {
            biased;
            () = stop.cancelled() => RequestFailure::Ended,
            answer = answered => return answer.map_err(|_| RequestFailure::Left),
            () = tokio::time::sleep(timeout) => RequestFailure::TimedOut,
        };
        drop(waiting);
        let reason = if unanswered == RequestFailure::Ended { "ended" } else { "timed-out" };
        deliver(Body::RequestCancelled { request: id, reason });
        Err(unanswered)
    }

    /// Answers a request of a connection.
    ///
    /// # Errors
    /// `request/not-found` if that connection has no such request any more.
    pub fn answer(&self, connection: u64, request: &str, answer: A) -> Result<(), ApiError> {
        let mut open = self.open();
        match open.get(request) {
            Some(found) if found.connection == connection => {}
            _ => return Err(not_found(request)),
        }
        let found = open.remove(request);
        drop(open);
        let taken = found.is_some_and(|found| found.answer.send(answer).is_ok());
        if taken { Ok(()) } else { Err(not_found(request)) }
    }

    /// Shows the newest output of a request of a connection.
    ///
    /// # Errors
    /// `request/not-found` if that connection has no such request any more.
    pub fn progress(&self, connection: u64, request: &str, text: &str) -> Result<(), ApiError> {
        let open = self.open();
        let found = open.get(request).filter(|found| found.connection == connection);
        let progress = found.map(|found| found.progress.clone()).ok_or_else(|| not_found(request))?;
        drop(open);
        progress(text);
        Ok(())
    }

    /// A connection is gone, and with it the answers to its requests.
    pub fn left(&self, connection: u64) {
        self.open().retain(|_, request| request.connection != connection);
    }
}

fn not_found(request: &str) -> ApiError {
    ApiError::not_found("open request", request)
}

/// Takes a request out of the list once nobody waits for it.
struct OpenRequestGuard<'r, A> {
    requests: &'r ClientRequests<A>,
    id: Arc<str>,
}

impl<A> Drop for OpenRequestGuard<'_, A> {
    fn drop(&mut self) {
        self.requests.open().remove(&self.id);
    }
}
