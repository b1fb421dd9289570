//! The answer that is owed to another host.

use std::sync::Arc;

use serde::Serialize;

use super::call::{RemoteAnswer, written};
use crate::catalogue::ErrorCode;
use crate::edn;
use crate::engine::served_requests::{End, ServedRequests};
use crate::federation::Federation;
use crate::limits::JOURNAL_LINE_BYTES;
use crate::session::{ApiError, Reply};

/// The answer that is owed to another host.
pub struct PendingReply {
    pub(super) federation: Arc<Federation>,
    pub(super) request: Arc<str>,
    pub(super) executor: tokio::runtime::Handle,
    /// Where the answer is kept until it is asked for, if the request was answered when it began.
    pub(super) end: Option<End>,
}

impl PendingReply {
    pub(super) fn reply<T: Serialize + Send + 'static>(self) -> Reply<T> {
        Reply::new(move |result| self.send(result))
    }

    pub(super) fn send<T: Serialize>(self, result: Result<T, ApiError>) {
        let text = text_of(RemoteAnswer::of(result));
        let Self { federation, request, executor, end } = self;
        match end {
            Some(end) => end.is(text),
            None => drop(executor.spawn(async move { federation.answer(&request, &text, false).await })),
        }
    }
}

/// An answer as text. One that cannot be written, or is too long to cross, is a refusal, so that nobody waits for it.
pub(super) fn text_of<T: Serialize>(answer: RemoteAnswer<T>) -> Arc<str> {
    let text = edn::to_value(&answer).map(|value| written(&value));
    let why = match text {
        Ok(text) if text.len() <= JOURNAL_LINE_BYTES => return text.into(),
        Ok(text) => format!("it takes {} bytes, which is more than {JOURNAL_LINE_BYTES}", text.len()),
        Err(error) => error.to_string(),
    };
    let error =
        ApiError::failed(format!("It is done, but its answer cannot be sent to another host: {why}."));
    edn::to_value(&RemoteAnswer::<()>::of(Err(error))).map(|value| written(&value)).unwrap_or_default().into()
}

impl PendingReply {
    /// Sends how an earlier request has ended, once it has.
    pub(super) async fn send_end(self, taken: &ServedRequests, of: &str) {
        let Some(ended) = taken.end_of(of).await else {
            let message = "The session's owner does not know any more how that ended: its process is another one now, or \
                           too much has ended since. It may be done, in part or as a whole.";
            return self.send::<()>(Err(ApiError::new(ErrorCode::RealmInDoubt, message)));
        };
        if self.federation.answer(&self.request, &ended, true).await {
            taken.forget(of);
        }
    }
}
