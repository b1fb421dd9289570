//! This program's HTTP client as a transport's: what `rmcp` does not bound of a server over HTTP. A message with too many
//! values fails its call before it is read, in a stream (here) and alone (`post`); a stream that ends again and again is not
//! asked for all the time; and a flood of notifications is read slowly.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::json;

use super::lenient;
use super::pipes::{Shape, unreadable, values};
use super::post::{Post, with_headers};
use super::rate_limit::Pace;
use crate::http::header::{HeaderName, HeaderValue};
use crate::http::{Client, RequestError};
use crate::limits::{
    MAX_FRAME_VALUES, MCP_LINE_BYTES, MCP_OPEN_REQUESTS, MCP_STREAM_PAUSE, MCP_STREAMS, MCP_TOLD,
    MCP_TOLD_PAUSE,
};

/// The client of one server.
#[derive(Clone)]
pub(super) struct ServerClient {
    client: Client,
    /// How fast its streams are asked for.
    streams: Pace,
    /// How fast what it says of itself is read.
    told: Pace,
    /// The requests whose session was lost: each is sent once more, in a new one.
    expired: Arc<Mutex<HashSet<RequestId>>>,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failed = StreamableHttpError<RequestError>;

impl ServerClient {
    pub(super) fn new(client: Client) -> Self {
        let streams = Pace::new(MCP_STREAMS, MCP_STREAM_PAUSE);
        Self { client, streams, told: Pace::new(MCP_TOLD, MCP_TOLD_PAUSE), expired: Arc::default() }
    }

    fn expired(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.expired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream that is read no faster than a server may cost this process something, and of which only messages are left:
    /// servers keep it alive with what is none. An answer that cannot be read, or would cost too much to read, fails its
    /// call. In the answer to a request, `asked`, an error for nobody is this request's.
    fn bounded(&self, stream: BoxedSseResponse, asked: Option<RequestId>) -> BoxedSseResponse {
        let told = self.told.clone();
        let bounded = stream.then(move |event| {
            let (told, asked) = (told.clone(), asked.clone());
            async move {
                let mut event = event?;
                let is_message = event.event.as_deref().is_none_or(|kind| matches!(kind, "" | "message"));
                // An event without data still says where the stream goes on from.
                let data = event.data.take().filter(|data| is_message && !data.trim().is_empty());
                let shape = data.as_ref().and_then(|data| serde_json::from_str::<Shape>(data).ok());
                let is_answer = shape.as_ref().is_some_and(|shape| shape.method.is_none());
                if !is_answer {
                    told.wait().await;
                }
                event.data = data.and_then(|data| message(data, shape?, asked.as_ref()));
                Ok(event)
            }
        });
        bounded.boxed()
    }
}

/// The text of an event's message; `None` for one that is none.
fn message(data: String, shape: Shape, asked: Option<&RequestId>) -> Option<String> {
    if values(data.as_bytes()) > MAX_FRAME_VALUES {
        let message = format!("it sent a message of more than {MAX_FRAME_VALUES} values");
        let error = json!({"code": -32603, "message": message});
        return Some(json!({"jsonrpc": "2.0", "id": shape.id, "error": error}).to_string());
    }
    let mended = String::from_utf8(lenient::mend(data.as_bytes(), asked).into_owned()).ok()?;
    match serde_json::from_str::<ServerJsonRpcMessage>(&mended) {
        Ok(_) => Some(mended),
        Err(_) if shape.method.is_some() => None,
        Err(_) => serde_json::to_string(&unreadable(shape.id?)).ok(),
    }
}

impl StreamableHttpClient for ServerClient {
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
        let mut request = with_headers(self.client.post(uri.as_ref()), headers)?;
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let is_again = asked.as_ref().is_some_and(|id| self.expired().remove(id));
        let post = Post { message: &message, may_begin_anew: session.is_some() && !is_again, limits };
        match post.send(request).await {
            Ok(StreamableHttpPostResponse::Sse(stream, session)) => {
                Ok(StreamableHttpPostResponse::Sse(self.bounded(stream, asked), session))
            }
            Err(StreamableHttpError::SessionExpired) => {
                let mut expired = self.expired();
                if expired.len() >= MCP_OPEN_REQUESTS {
                    expired.clear();
                }
                expired.extend(asked);
                Err(StreamableHttpError::SessionExpired)
            }
            answer => answer,
        }
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
        self.streams.wait().await;
        let got =
            self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most);
        got.await.map(|stream| self.bounded(stream, None))
    }
}
