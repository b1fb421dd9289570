//! Errors of `rmcp` as words of ours. Its own words hold addresses with their queries, and whole messages.

use std::error::Error;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{AuthError, DynamicTransportError};

use crate::http::{HttpError, RequestError};

/// Why a connection or a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server wants a login, or more rights than the one that there is: with the challenge of its answer.
    Login(String),
    /// The server answered with an error.
    Refused(ErrorData),
    /// It answered, and its answer cannot be read.
    Unreadable,
    /// The connection is lost.
    Lost,
    /// Anything else, in words that end a sentence.
    Other(String),
}

/// The message of the error that a transport gives in place of an answer that cannot be read. `rmcp` carries nothing else
/// from a transport to a caller; a server that sends these words says the same of itself.
pub(super) const UNREADABLE: &str = "its answer is none of the protocol's";

type HttpClientError = StreamableHttpError<RequestError>;

/// Why a server did not greet.
pub(super) fn of_start(error: ClientInitializeError) -> Failure {
    if let Some(challenge) = error.auth_challenge() {
        return Failure::Login(challenge.to_owned());
    }
    match error {
        ClientInitializeError::JsonRpcError(error) => Failure::Refused(error),
        ClientInitializeError::TransportError { error, .. } => of_transport(&error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(*fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let named = server_supported.iter().take(5).map(|version| version.as_str().to_owned());
            let named = named.collect::<Vec<_>>().join(", ");
            Failure::Other(format!(
                "it speaks only revisions of the protocol that are not known here: {named}"
            ))
        }
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::Cancelled => Failure::Lost,
        _ => Failure::Other("it does not greet as the protocol has it".to_owned()),
    }
}

/// Why a request failed.
pub(super) fn of_request(error: ServiceError) -> Failure {
    if let Some(challenge) = error.auth_challenge() {
        return Failure::Login(challenge.to_owned());
    }
    match error {
        ServiceError::McpError(error) if error.message == UNREADABLE => Failure::Unreadable,
        ServiceError::McpError(error) => Failure::Refused(error),
        ServiceError::TransportSend(error) => of_transport(&error),
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => Failure::Lost,
        ServiceError::UnexpectedResponse => Failure::Unreadable,
        _ => Failure::Other("it does not answer as the protocol has it".to_owned()),
    }
}

fn of_transport(error: &DynamicTransportError) -> Failure {
    let error: &(dyn Error + 'static) = error.error.as_ref();
    if wants_login(error) {
        return Failure::Login(String::new());
    }
    match error.downcast_ref::<HttpClientError>() {
        Some(error) => of_http(error),
        None => Failure::Other(innermost(error)),
    }
}

/// Whether there is a login, or was one, that no longer counts.
fn wants_login(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if matches!(error.downcast_ref::<AuthError>(), Some(AuthError::AuthorizationRequired)) {
            return true;
        }
        next = error.source();
    }
    false
}

fn of_http(error: &HttpClientError) -> Failure {
    match error {
        StreamableHttpError::TransportChannelClosed | StreamableHttpError::UnexpectedEndOfStream => {
            Failure::Lost
        }
        StreamableHttpError::Client(error) => Failure::Other(innermost(error)),
        StreamableHttpError::HttpStatus(error) => {
            Failure::Other(format!("it answered with HTTP {}", error.status))
        }
        StreamableHttpError::UnexpectedServerResponse(text) => Failure::Other(format!("it answered: {text}")),
        StreamableHttpError::UnexpectedContentType(_) => {
            Failure::Other("its answer is neither JSON nor a stream of events".to_owned())
        }
        StreamableHttpError::Auth(error) => Failure::Other(innermost(error)),
        error => Failure::Other(innermost(error)),
    }
}

/// The innermost cause. The outer errors name addresses.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    loop {
        if let Some(error) = innermost.downcast_ref::<RequestError>() {
            let error = HttpError::from(error);
            return error.advice().map_or_else(
                || error.to_string(),
                |advice| format!("{error}. {}", advice.trim_end_matches('.')),
            );
        }
        match innermost.source() {
            Some(inner) => innermost = inner,
            None => return innermost.to_string(),
        }
    }
}
