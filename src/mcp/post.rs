//! A message to a server over HTTP, and what comes back. `rmcp` has this too, but bounds the bytes of an answer alone; here
//! an answer that would cost too much memory is not read into values: it fails its call. Keeps what `rmcp` makes of each
//! status. Holds no login and keeps no session.

use std::borrow::Cow;

use futures_util::{StreamExt as _, TryStreamExt as _};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::SseStream;

use super::lenient;
use super::pipes::values;
use crate::http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use crate::http::{RequestBuilder, RequestError, Response, StatusCode};
use crate::limits::MAX_FRAME_VALUES;

type Failed = StreamableHttpError<RequestError>;

/// Bytes of an answer that nobody understands which are shown.
const PREVIEW: usize = 256;

/// A message on its way, and what is known of its answer.
pub(super) struct Post<'m> {
    pub(super) message: &'m ClientJsonRpcMessage,
    /// Whether it belongs to a session of the server, and may be sent again in a new one if that is lost.
    pub(super) may_begin_anew: bool,
    pub(super) limits: StreamableHttpResponseLimits,
}

/// Adds the headers that a configuration names.
///
/// # Errors
/// One that the protocol itself sets.
pub(super) fn with_headers(
    mut request: RequestBuilder,
    headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
) -> Result<RequestBuilder, Failed> {
    for (name, value) in headers {
        let is_ours = |own: &&str| name.as_str().eq_ignore_ascii_case(own);
        if ["accept", HEADER_SESSION_ID, HEADER_LAST_EVENT_ID].iter().any(is_ours) {
            return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
        }
        request = request.header(name, value);
    }
    Ok(request)
}

impl Post<'_> {
    /// Sends it, and reads the answer within its bounds.
    ///
    /// # Errors
    /// What the server or the way to it refuses.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<StreamableHttpPostResponse, Failed> {
        let body = serde_json::to_vec(self.message).map_err(StreamableHttpError::Deserialize)?;
        let request = request
            .header(ACCEPT, format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}"))
            .header(CONTENT_TYPE, JSON_MIME_TYPE)
            .body(body);
        let response = request.send().await.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        challenge(&response)?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return match self.asked() {
                None => Ok(StreamableHttpPostResponse::Accepted),
                Some(_) => {
                    let words = Cow::Owned(format!("HTTP {status} to a request, which wants an answer"));
                    Err(StreamableHttpError::UnexpectedServerResponse(words))
                }
            };
        }
        if status == StatusCode::NOT_FOUND && self.may_begin_anew {
            return Err(StreamableHttpError::SessionExpired);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
        match status.is_success() {
            true => self.succeeded(response, kind).await,
            false => self.failed(response, is_of(kind.as_deref(), JSON_MIME_TYPE)).await,
        }
    }

    async fn succeeded(
        &self,
        response: Response,
        kind: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let awaits_nothing = self.asked().is_none();
        // Some servers say nothing with a 200 where the protocol wants a 202.
        if awaits_nothing && response.content_length() == Some(0) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = response.headers().get(HEADER_SESSION_ID);
        let session = session.and_then(|session| session.to_str().ok()).map(str::to_owned);
        if is_of(kind.as_deref(), EVENT_STREAM_MIME_TYPE) {
            let stream = bounded(response, self.limits.max_sse_event_size);
            return Ok(StreamableHttpPostResponse::Sse(stream, session));
        }
        if is_of(kind.as_deref(), JSON_MIME_TYPE) {
            let body = whole(response, self.limits.max_json_response_size).await?;
            return match read(&body, self.asked()) {
                Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                Err(_) if awaits_nothing => Ok(StreamableHttpPostResponse::Accepted),
                Err(Unread::TooMany) => Ok(StreamableHttpPostResponse::Json(self.too_many(), session)),
                Err(Unread::Wrong(error)) => {
                    let start =
                        String::from_utf8_lossy(body.get(..body.len().min(PREVIEW)).unwrap_or_default());
                    let words = Cow::Owned(format!("what is no message of the protocol ({error}): {start}"));
                    Err(StreamableHttpError::UnexpectedServerResponse(words))
                }
            };
        }
        match awaits_nothing {
            true => Ok(StreamableHttpPostResponse::Accepted),
            false => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    async fn failed(&self, response: Response, is_json: bool) -> Result<StreamableHttpPostResponse, Failed> {
        let status = response.status();
        let mut of_status =
            (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()).then(|| {
                let retry = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok());
                HttpStatusError::new(status.as_u16(), retry.map(str::to_owned))
            });
        if (!is_json || status == StatusCode::TOO_MANY_REQUESTS)
            && let Some(error) = of_status.take()
        {
            return Err(error.into());
        }
        let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let mut said = None;
        let body = match is_json && !is_login {
            // An error of the protocol may come with any status.
            true => match whole(response, self.limits.max_json_response_size).await {
                Ok(body) => {
                    let is_error = |message: &_| matches!(message, JsonRpcMessage::Error(_));
                    said = read(&body, None).ok().filter(is_error);
                    body
                }
                Err(error) => return Err(of_status.map_or(error, Failed::from)),
            },
            false => start(response, self.limits.max_error_response_size).await,
        };
        let asked = self.asked();
        let is_own = matches!(&said, Some(JsonRpcMessage::Error(error)) if error.id.as_ref() == asked);
        // Before the request was handled, the session was found missing: servers say so with a 400 to nobody, too.
        if status == StatusCode::BAD_REQUEST && self.may_begin_anew && asked.is_some() && !is_own {
            return Err(StreamableHttpError::SessionExpired);
        }
        if let Some(JsonRpcMessage::Error(error)) = &mut said
            && error.id.is_none()
        {
            error.id = asked.cloned();
        }
        let most = body.len().min(self.limits.max_error_response_size);
        let words = String::from_utf8_lossy(body.get(..most).unwrap_or_default()).into_owned();
        if let Some(refused) = self.discovery_refused(status, said.as_ref(), &words) {
            return Ok(StreamableHttpPostResponse::Json(refused, None));
        }
        match (said, of_status) {
            (Some(said), _) => Ok(StreamableHttpPostResponse::Json(said, None)),
            (None, Some(error)) => Err(error.into()),
            (None, None) => {
                let words = Cow::Owned(format!("HTTP {status}: {words}"));
                Err(StreamableHttpError::UnexpectedServerResponse(words))
            }
        }
    }

    /// What an older server makes of a question for discovery: it refuses it with a status, and with an answer to nobody.
    fn discovery_refused(
        &self,
        status: StatusCode,
        said: Option<&ServerJsonRpcMessage>,
        words: &str,
    ) -> Option<ServerJsonRpcMessage> {
        let JsonRpcMessage::Request(request) = self.message else { return None };
        let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let is_it = matches!(request.request, ClientRequest::DiscoverRequest(_));
        if !is_it || !status.is_client_error() || is_login {
            return None;
        }
        let error = match said {
            Some(JsonRpcMessage::Error(error)) => error.error.clone(),
            _ => {
                let message = format!("server/discover was refused with HTTP {status}: {words}");
                ErrorData::new(ErrorCode::INVALID_REQUEST, message, None)
            }
        };
        Some(JsonRpcMessage::error(error, Some(request.id.clone())))
    }

    /// The request's id; `None` for what wants no answer.
    fn asked(&self) -> Option<&RequestId> {
        match self.message {
            JsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        }
    }

    /// The answer in place of one that is not read.
    fn too_many(&self) -> ServerJsonRpcMessage {
        let id = self.asked().cloned();
        let message = format!("it sent a message of more than {MAX_FRAME_VALUES} values");
        JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, message, None), id)
    }
}

/// Why a text is no message.
enum Unread {
    TooMany,
    Wrong(serde_json::Error),
}

/// The message of a text. One with too many values is not read; one that is nested too deep cannot be.
fn read(body: &[u8], asked: Option<&RequestId>) -> Result<ServerJsonRpcMessage, Unread> {
    match values(body) > MAX_FRAME_VALUES {
        true => Err(Unread::TooMany),
        false => serde_json::from_slice(&lenient::mend(body, asked)).map_err(Unread::Wrong),
    }
}

/// Looks whether the server wants something before it answers.
///
/// # Errors
/// If it asks for a login or a wider scope, or in a way that cannot be read.
fn challenge(response: &Response) -> Result<(), Failed> {
    let Some(wanted) = response.headers().get(WWW_AUTHENTICATE) else { return Ok(()) };
    let text = || {
        let words = "its www-authenticate header cannot be read";
        wanted.to_str().map_err(|_| Failed::UnexpectedServerResponse(words.into())).map(str::to_owned)
    };
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(text()?))),
        StatusCode::FORBIDDEN => {
            let text = text()?;
            let scope = scope(&text);
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(text, scope)))
        }
        _ => Ok(()),
    }
}

/// The scopes that a challenge names, such as `scope="files:read files:write"`.
fn scope(challenge: &str) -> Option<String> {
    const KEY: &str = "scope=";
    let at = challenge.to_ascii_lowercase().find(KEY)?;
    let value = challenge.get(at.saturating_add(KEY.len())..)?;
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => value.split([',', ';', ' ']).next().filter(|value| !value.is_empty())?,
    };
    Some(value.to_owned())
}

/// Whether a type, whatever its parameters, is that one.
fn is_of(kind: Option<&str>, expected: &str) -> bool {
    let essence = kind.and_then(|kind| kind.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(expected))
}

/// The whole of an answer.
///
/// # Errors
/// If it is longer than `most`, or breaks off.
async fn whole(response: Response, most: usize) -> Result<Vec<u8>, Failed> {
    let too_long = || StreamableHttpError::ResponseBodyTooLarge { max_size: most };
    if response
        .content_length()
        .is_some_and(|length| usize::try_from(length).map_or(true, |length| length > most))
    {
        return Err(too_long());
    }
    let mut stream = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(bytes) = stream.try_next().await.map_err(StreamableHttpError::Client)? {
        if bytes.len() > most.saturating_sub(body.len()) {
            return Err(too_long());
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

/// The start of an answer, for its words.
async fn start(response: Response, most: usize) -> Vec<u8> {
    let mut stream = response.bytes_stream();
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = stream.try_next().await {
        let room = most.saturating_sub(body.len());
        body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        if body.len() >= most {
            break;
        }
    }
    body
}

/// Why a stream ends.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("an event of its stream has more than {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Lost(RequestError),
}

/// How much of a stream is kept until its event is whole: the event's lines so far, and the one that is not.
#[derive(Default)]
struct EventSize {
    event: usize,
    line: usize,
    is_comment: bool,
    follows_cr: bool,
}

impl EventSize {
    fn see(&mut self, byte: u8) {
        let ends_line_already = std::mem::take(&mut self.follows_cr) && byte == b'\n';
        match byte {
            _ if ends_line_already => {}
            b'\r' | b'\n' => {
                self.follows_cr = byte == b'\r';
                match (self.line, self.is_comment) {
                    (0, _) => self.event = 0,
                    // What only keeps the stream alive is kept nowhere.
                    (_, true) => {}
                    (line, false) => self.event = self.event.saturating_add(line).saturating_add(1),
                }
                self.line = 0;
            }
            _ => {
                self.is_comment = if self.line == 0 { byte == b':' } else { self.is_comment };
                self.line = self.line.saturating_add(1);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.event.saturating_add(self.line)
    }
}

/// The events of an answer, each of at most so many bytes.
fn bounded(response: Response, most: usize) -> BoxedSseResponse {
    let mut size = EventSize::default();
    let bounded = response.bytes_stream().map(move |bytes| {
        let bytes = bytes.map_err(StreamError::Lost)?;
        for byte in bytes.iter() {
            size.see(*byte);
            if size.bytes() > most {
                return Err(StreamError::TooLong(most));
            }
        }
        Ok(bytes)
    });
    SseStream::from_bytes_stream(bounded).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_is_found_in_a_challenge() {
        for (challenge, expected) in [
            (
                r#"Bearer error="insufficient_scope", scope="files:read files:write""#,
                Some("files:read files:write"),
            ),
            ("Bearer Scope=read:data, error=x", Some("read:data")),
            (r#"Bearer error="invalid_token""#, None),
            (r#"Bearer scope="unclosed"#, None),
            ("Bearer scope=", None),
        ] {
            assert_eq!(scope(challenge).as_deref(), expected, "{challenge}");
        }
    }

    #[test]
    fn type_is_known_with_its_parameters() {
        assert!(is_of(Some("Application/JSON; charset=utf-8"), JSON_MIME_TYPE));
        assert!(!is_of(Some("application/jsonl"), JSON_MIME_TYPE) && !is_of(None, JSON_MIME_TYPE));
    }

    #[test]
    fn event_is_as_long_as_its_lines_together() {
        let longest = |text: &str| {
            let mut size = EventSize::default();
            let seen = text.bytes().map(|byte| {
                size.see(byte);
                size.bytes()
            });
            seen.max().unwrap_or(0)
        };
        for (text, expected) in [
            ("data: a\n\ndata: b\n\n", 8),
            ("data: a\r\n\r\ndata: b\r\n\r\n", 8),
            ("data: a\r\rdata: b\r\r", 8),
            ("data: a\r\ndata: b\r\n\r\n", 16),
            ("data: a\ndata: b\n", 16),
            (": ping\n: ping\n: ping\n", 6),
            ("data: a\n: ping\ndata: b\n\n", 16),
        ] {
            assert_eq!(longest(text), expected, "{text:?}");
        }
    }

    #[test]
    fn message_with_too_many_values_or_levels_is_not_read() {
        let with = |inner: String| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{inner}}}"#);
        let list = |count: usize| with(format!(r#"{{"a":[{}0]}}"#, "0,".repeat(count)));
        assert!(read(list(1000).as_bytes(), None).is_ok());
        assert!(matches!(read(list(MAX_FRAME_VALUES).as_bytes(), None), Err(Unread::TooMany)));
        let deep = |levels: usize| with(format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels)));
        assert!(read(deep(50).as_bytes(), None).is_ok());
        assert!(matches!(read(deep(1000).as_bytes(), None), Err(Unread::Wrong(_))));
    }
}
