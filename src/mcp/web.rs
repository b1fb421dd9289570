//! This program's HTTP client as a transport's: what `rmcp` does not bound of a server over HTTP. A message of a stream with
//! too many values fails its call before it is read, and a stream that ends again and again is not asked for all the time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use rmcp::model::{ClientJsonRpcMessage, RequestId};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use tokio::time::{Instant, sleep_until};

use super::pipes::values;
use crate::http::header::{HeaderName, HeaderValue};
use crate::http::{Client, RequestError};
use crate::limits::{MAX_FRAME_VALUES, MCP_LINE_BYTES, MCP_STREAM_PAUSE, MCP_STREAMS};

/// The client of one server.
#[derive(Clone)]
pub(super) struct Guarded {
    client: Client,
    /// When its streams would be asked for that were asked for, if each waited for its pause.
    due: Arc<Mutex<Option<Instant>>>,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failed = StreamableHttpError<RequestError>;

impl Guarded {
    pub(super) fn new(client: Client) -> Self {
        Self { client, due: Arc::default() }
    }

    /// Waits where streams are asked for faster than a server may want it: some at once, then one after each pause.
    async fn pause(&self) {
        let at = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let next = due.unwrap_or(now).max(now) + MCP_STREAM_PAUSE;
            *due = Some(next);
            next.checked_sub(MCP_STREAM_PAUSE * MCP_STREAMS).filter(|at| *at > now)
        };
        if let Some(at) = at {
            sleep_until(at).await;
        }
    }
}

/// The id of a message.
#[derive(serde::Deserialize)]
struct Named {
    id: Option<RequestId>,
}

/// A stream without messages that would cost too much to read: their calls fail.
fn bounded(stream: BoxedSseResponse) -> BoxedSseResponse {
    let bounded = stream.map(|event| {
        event.map(|mut event| {
            if let Some(data) = &event.data
                && values(data.as_bytes()) > MAX_FRAME_VALUES
            {
                let id = serde_json::from_str::<Named>(data).ok().and_then(|named| named.id);
                let message = format!("it sent a message of more than {MAX_FRAME_VALUES} values");
                let error = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}});
                event.data = Some(error.to_string());
            }
            event
        })
    });
    bounded.boxed()
}

impl StreamableHttpClient for Guarded {
    type Error = RequestError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let post =
            self.client.post_message_with_response_limits(uri, message, session, token, headers, limits);
        Ok(match post.await? {
            StreamableHttpPostResponse::Sse(stream, session) => {
                StreamableHttpPostResponse::Sse(bounded(stream), session)
            }
            answer => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, Failed> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, MCP_LINE_BYTES)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<BoxedSseResponse, Failed> {
        self.pause().await;
        let got =
            self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most);
        got.await.map(bounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Http, Url};

    #[tokio::test(start_paused = true)]
    async fn stream_that_ends_at_once_is_asked_for_seldom() {
        let (http, url) = (Http::default(), Url::parse("http://127.0.0.1:1/").unwrap());
        let guarded = Guarded::new(http.client(&url).unwrap().clone());
        let begun = Instant::now();
        for _ in 0..MCP_STREAMS {
            guarded.pause().await;
        }
        assert_eq!(begun.elapsed(), std::time::Duration::ZERO, "a few at once");
        for _ in 0..10 {
            guarded.pause().await;
        }
        assert_eq!(begun.elapsed(), MCP_STREAM_PAUSE * 10);
        tokio::time::advance(MCP_STREAM_PAUSE * MCP_STREAMS * 2).await;
        let rested = Instant::now();
        guarded.pause().await;
        assert_eq!(rested.elapsed(), std::time::Duration::ZERO, "it has rested");
    }
}
