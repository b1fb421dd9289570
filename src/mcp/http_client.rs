//! This program's HTTP client as a transport's: what `rmcp` does not bound of a server over HTTP. A message with too many
//! values fails its call before it is read, in a stream (here) and alone (`post`); a stream that ends again and again is not
//! asked for all the time; and a flood of notifications is read slowly.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use rmcp::model::{ClientJsonRpcMessage, RequestId};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::json;

use super::pipes::values;
use super::post::{Post, with_headers};
use super::rate_limit::Pace;
use crate::http::header::{HeaderName, HeaderValue};
use crate::http::{Client, RequestError};
use crate::limits::{
    MAX_FRAME_VALUES, MCP_LINE_BYTES, MCP_STREAM_PAUSE, MCP_STREAMS, MCP_TOLD, MCP_TOLD_PAUSE,
};

/// The client of one server.
#[derive(Clone)]
pub(super) struct ServerClient {
    client: Client,
    /// How fast its streams are asked for.
    streams: Pace,
    /// How fast what it says of itself is read.
    told: Pace,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failed = StreamableHttpError<RequestError>;

impl ServerClient {
    pub(super) fn new(client: Client) -> Self {
        let streams = Pace::new(MCP_STREAMS, MCP_STREAM_PAUSE);
        Self { client, streams, told: Pace::new(MCP_TOLD, MCP_TOLD_PAUSE) }
    }

    /// A stream that is read no faster than a server may cost this process something. A message that would cost too much
    /// to read fails its call.
    fn bounded(&self, stream: BoxedSseResponse) -> BoxedSseResponse {
        let told = self.told.clone();
        let bounded = stream.then(move |event| {
            let told = told.clone();
            async move {
                let mut event = event?;
                let head = event.data.as_deref().and_then(|data| serde_json::from_str::<Head>(data).ok());
                let is_answer = head.as_ref().is_some_and(|head| head.method.is_none());
                if !is_answer {
                    told.wait().await;
                }
                if event.data.as_ref().is_some_and(|data| values(data.as_bytes()) > MAX_FRAME_VALUES) {
                    let message = format!("it sent a message of more than {MAX_FRAME_VALUES} values");
                    let (id, error) =
                        (head.and_then(|head| head.id), json!({"code": -32603, "message": message}));
                    event.data = Some(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
                }
                Ok(event)
            }
        });
        bounded.boxed()
    }
}

/// What a message is: an answer has no method.
#[derive(serde::Deserialize)]
struct Head {
    id: Option<RequestId>,
    method: Option<serde::de::IgnoredAny>,
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
        let post = Post { message: &message, has_session: session.is_some(), limits };
        Ok(match post.send(request).await? {
            StreamableHttpPostResponse::Sse(stream, session) => {
                StreamableHttpPostResponse::Sse(self.bounded(stream), session)
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
        self.streams.wait().await;
        let got =
            self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most);
        got.await.map(|stream| self.bounded(stream))
    }
}
