//! Requests over HTTP: the clients that the providers and the logins share.
//!
//! Nothing is set up before the first request, so that a process that asks no server pays for none of it.
//! Redirects are not followed: a key must not travel to where a server points. Knows addresses, bytes and
//! time limits; does not know what is asked or answered.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

pub use reqwest::header;
pub use reqwest::{Client, Error as RequestError, RequestBuilder, Response, StatusCode, Url};

use crate::limits::{HTTP_CONNECT, HTTP_KEEP};
use error::cause_of;
pub use error::{CertificateFault, HttpError};

mod error;
pub mod host;
pub mod web;

/// The clients of a process, one for each way to a server.
#[derive(Debug, Default)]
pub struct Http {
    /// To this machine: no proxy, no encryption.
    loopback: OnceLock<Client>,
    /// Without encryption.
    plain: OnceLock<Client>,
    /// With encryption, judged by the system's certificates.
    encrypted: OnceLock<Client>,
}

impl Http {
    /// The client for an address.
    ///
    /// # Errors
    /// An address that is neither `http` nor `https`, or a system without certificates.
    pub fn client(&self, url: &Url) -> Result<&Client, HttpError> {
        let (place, build): (_, fn() -> reqwest::ClientBuilder) = match url.scheme() {
            "http" if is_loopback(url) => (&self.loopback, || certificates(false).no_proxy()),
            "http" => (&self.plain, || certificates(false)),
            "https" => (&self.encrypted, || certificates(true)),
            other => {
                return Err(HttpError::Impossible(format!("{other}: is no address of the web")));
            }
        };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let client = build()
            .user_agent(concat!("edn-bridge/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(HTTP_CONNECT)
            .pool_idle_timeout(HTTP_KEEP)
            .http1_only()
            .build()
            .map_err(|error| HttpError::Impossible(cause_of(&error)))?;
        Ok(place.get_or_init(|| client))
    }
}

/// A client's beginning. Without encryption no certificate is read.
fn certificates(needed: bool) -> reqwest::ClientBuilder {
    // Fails where one is chosen already, and then that one is it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder();
    if needed { builder } else { builder.tls_certs_only([]) }
}

/// Whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The address of a page that a person may be sent to: of the web, and of nothing that a browser would run or
/// open on this machine.
pub fn page(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.host_str().is_some()).then_some(url)
}

/// An address as it may be shown: without a user, a password, a query and a fragment. Each of them may be a key.
#[must_use]
pub fn shown(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Where an address cannot have them, it has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// A text of a configuration as it may be shown: an address without what may be a key, anything else as it is.
pub fn without_keys(text: &str) -> Cow<'_, str> {
    match Url::parse(text.trim()) {
        Ok(url) if url.has_host() && shown(&url) != url => shown(&url).to_string().into(),
        // An address that cannot be read may hold a key all the same.
        Err(_) if text.contains("://") && text.contains(['@', '?']) => {
            "an address that cannot be read".into()
        }
        _ => text.into(),
    }
}

/// Sends a request and waits for the answer's head.
///
/// # Errors
/// See [`HttpError`].
pub async fn send(request: RequestBuilder, patience: Duration) -> Result<Response, HttpError> {
    match tokio::time::timeout(patience, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err((&error).into()),
        Err(_) => Err(HttpError::Silent(patience)),
    }
}

/// The next bytes of an answer; `None` at its end.
///
/// # Errors
/// See [`HttpError`].
pub async fn more(
    response: &mut Response,
    patience: Duration,
) -> Result<Option<impl AsRef<[u8]>>, HttpError> {
    match tokio::time::timeout(patience, response.chunk()).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err((&error).into()),
        Err(_) => Err(HttpError::Silent(patience)),
    }
}

/// The whole of a short answer, at most `limit` bytes of it. All of that has to come within
/// `patience`: one that comes a byte at a time is not waited for either.
///
/// # Errors
/// See [`HttpError`].
pub async fn whole(response: &mut Response, limit: usize, patience: Duration) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    let read = async {
        while let Some(bytes) = more(response, patience).await? {
            let room = limit.saturating_sub(body.len());
            let bytes = bytes.as_ref();
            body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            if body.len() >= limit {
                break;
            }
        }
        Ok(())
    };
    match tokio::time::timeout(patience, read).await {
        Ok(read) => read.map(|()| body),
        Err(_) => Err(HttpError::Silent(patience)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_names() {
        for (url, expected) in [
            ("http://localhost:11434/v1", true),
            ("http://127.0.0.1/", true),
            ("http://127.8.8.8/", true),
            ("http://[::1]:8080/", true),
            ("http://localhost.example.com/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn shown_address_has_no_user_password_or_query() {
        for (given, expected) in [
            ("https://user:pass@h.example:8443/v1?key=k#f", "https://h.example:8443/v1"),
            ("http://user@127.0.0.1/v1", "http://127.0.0.1/v1"),
            ("wss://h.example/?token=t", "wss://h.example/"),
            ("https://h.example/v1", "https://h.example/v1"),
            ("https://h.example", "https://h.example"),
            ("http://user:pa ss@[::1/?key=k", "an address that cannot be read"),
            ("gpt-5", "gpt-5"),
            ("what is a@b?", "what is a@b?"),
        ] {
            assert_eq!(without_keys(given), expected, "{given}");
        }
    }

    #[test]
    fn page_of_another_scheme_is_no_page() {
        for (given, expected) in [
            ("https://p.example/device", true),
            ("http://127.0.0.1:1/x", true),
            ("javascript:alert(1)", false),
            ("file:///etc/passwd", false),
            ("data:text/html,x", false),
            ("//p.example", false),
            ("", false),
        ] {
            assert_eq!(page(given).is_some(), expected, "{given}");
        }
    }

    #[test]
    fn only_the_web_is_asked() {
        let http = Http::default();
        assert!(http.client(&Url::parse("file:///etc/passwd").unwrap()).is_err());
        assert!(http.client(&Url::parse("http://127.0.0.1:1/").unwrap()).is_ok());
    }
}
