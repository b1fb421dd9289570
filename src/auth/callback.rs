//! The local server that receives a login's code from the browser.
//!
//! Listens on this machine alone, answers one page, and takes nothing but the code that belongs to the login
//! that was begun.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::http::{self, Url};
use crate::limits::{CALLBACK_BROWSERS, CALLBACK_HEAD_BYTES, CALLBACK_PATIENCE};
use crate::secret::Secret;

/// The default path.
const PATH: &str = "/callback";

/// A server that waits for a browser.
pub struct Callback {
    listener: TcpListener,
    /// Where the browser is to be sent.
    pub url: Url,
}

/// The login page refused the login; contains its reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoginRefused(pub String);

/// What a login page sends the browser back with.
#[derive(Debug, Clone)]
pub struct Code {
    /// The code.
    pub code: Secret,
    /// Who has issued it, where the page says so (RFC 9207).
    pub issuer: Option<String>,
}

/// The answer of a login page.
pub struct Redirect {
    /// The code, unless the page refused the login.
    pub code: Result<Code, LoginRefused>,
    /// The state that the login sent to the page.
    pub state: Option<String>,
}

impl Redirect {
    /// Reads pasted text: the address of the redirect, a part of it, or the code alone.
    pub fn pasted(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(url) = Url::parse(text) {
            return Self::from_query(&url);
        }
        // Some pages show both in one.
        let (code, state) = text.split_once('#').map_or((text, None), |(code, state)| (code, Some(state)));
        let fits = !code.is_empty() && !code.contains(char::is_whitespace);
        let code = || Code { code: Secret::new(code.to_owned()), issuer: None };
        fits.then(|| Self { code: Ok(code()), state: state.map(str::to_owned) })
    }

    fn from_query(url: &Url) -> Option<Self> {
        let value =
            |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned());
        let code = match (value("code"), value("error")) {
            (Some(code), _) if !code.is_empty() => Ok(Code { code: Secret::new(code), issuer: value("iss") }),
            (_, Some(error)) => {
                let why = value("error_description");
                Err(LoginRefused(why.map_or(error.clone(), |why| format!("{why} ({error})"))))
            }
            _ => return None,
        };
        Some(Self { code, state: value("state") })
    }
}

impl Callback {
    /// Begins to listen, at a port of its own or where the configuration says. `None` where that is not on
    /// this machine or taken: then the person pastes the code.
    pub async fn listen(redirect: Option<&Url>) -> Option<Self> {
        let host = match redirect {
            None => "127.0.0.1".to_owned(),
            Some(url) if url.scheme() == "http" && http::is_loopback(url) => {
                url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned()
            }
            Some(_) => return None,
        };
        let port = redirect.and_then(Url::port).unwrap_or(0);
        let listener = TcpListener::bind((host.as_str(), port)).await.ok()?;
        let url = match redirect {
            Some(url) if url.port().is_some() => url.clone(),
            Some(url) => {
                let mut url = url.clone();
                url.set_port(Some(listener.local_addr().ok()?.port())).ok()?;
                url
            }
            None => {
                Url::parse(&format!("http://127.0.0.1:{}{PATH}", listener.local_addr().ok()?.port())).ok()?
            }
        };
        Some(Self { listener, url })
    }

    /// Waits for the browser. Other requests are answered and ignored. All connections are served concurrently,
    /// so that a silent one does not delay the one with the code.
    pub async fn wait(&self, state: &str) -> Result<Code, LoginRefused> {
        let (path, state): (Arc<str>, Arc<str>) = (self.url.path().into(), state.into());
        // Those that are left when it ends are hung up on.
        let mut browsers = JoinSet::new();
        let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                biased;
                Some(served) = browsers.join_next() => {
                    if let Ok(Some(code)) = served {
                        return code;
                    }
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            let Ok((browser, _)) = accepted else {
                // Out of descriptors, say: a moment later there may be some.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            oldest.retain(|browser| !browser.is_finished());
            if oldest.len() >= CALLBACK_BROWSERS
                && let Some(first) = oldest.pop_front()
            {
                first.abort();
            }
            let served = tokio::time::timeout(CALLBACK_PATIENCE, serve(browser, path.clone(), state.clone()));
            oldest.push_back(browsers.spawn(async move { served.await.ok().flatten() }));
        }
    }
}

async fn serve(
    mut browser: TcpStream,
    path: Arc<str>,
    state: Arc<str>,
) -> Option<Result<Code, LoginRefused>> {
    let browser = &mut browser;
    let target = target(browser).await?;
    let asked = Url::parse(&format!("http://localhost{target}")).ok()?;
    if asked.path() != &*path {
        answer(browser, "404 Not Found", "There is nothing here.").await;
        return None;
    }
    match Redirect::from_query(&asked).filter(|redirect| redirect.state.as_deref() == Some(&*state)) {
        None => {
            answer(browser, "400 Bad Request", "This does not belong to a login that was begun here.").await;
            None
        }
        Some(redirect) => {
            let text = match redirect.code {
                Ok(_) => "You are logged in as soon as your editor says so. You can close this page.",
                Err(_) => "The login was refused. You can close this page.",
            };
            answer(browser, "200 OK", text).await;
            Some(redirect.code)
        }
    }
}

/// What a browser asks for: the second word of its first line.
async fn target(browser: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0u8; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = browser.read(&mut part).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(part.get(..count)?);
        if head.len() > CALLBACK_HEAD_BYTES {
            return None;
        }
    }
    let head = std::str::from_utf8(&head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let target = (words.next() == Some("GET")).then(|| words.next())??;
    target.starts_with('/').then(|| target.to_owned())
}

async fn answer(browser: &mut TcpStream, status: &str, text: &str) {
    let page = format!("<!doctype html><title>edn-bridge</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = browser.write_all(head.as_bytes()).await;
    let _ = browser.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_whatever_was_pasted() {
        for (text, expected) in [
            (" abc ", Some(("abc", None))),
            ("abc#st", Some(("abc", Some("st")))),
            ("http://localhost:1/cb?code=a%2Bb&state=st", Some(("a+b", Some("st")))),
            ("https://x.example/cb?state=st", None),
            ("", None),
            ("two words", None),
        ] {
            let redirect = Redirect::pasted(text)
                .map(|redirect| (redirect.code.unwrap().code.expose().to_owned(), redirect.state));
            let expected = expected.map(|(code, state)| (code.to_owned(), state.map(str::to_owned)));
            assert_eq!(redirect, expected, "{text:?}");
        }
        let refused =
            Redirect::pasted("http://localhost/cb?error=access_denied&error_description=No").unwrap();
        assert_eq!(refused.code.unwrap_err().to_string(), "No (access_denied)");
    }

    #[tokio::test]
    async fn only_the_browser_of_this_login_is_believed() {
        let callback = Callback::listen(None).await.unwrap();
        let address = ("127.0.0.1", callback.url.port().unwrap());
        let ask = async |line: &str| {
            let mut browser = TcpStream::connect(address).await.unwrap();
            browser.write_all(format!("{line}\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut page = String::new();
            browser.read_to_string(&mut page).await.unwrap();
            page
        };
        let browsers = async {
            for (line, expected) in [
                ("GET /favicon.ico HTTP/1.1", "404"),
                ("GET /callback?code=stolen&state=other HTTP/1.1", "400"),
                ("GET /callback?code=stolen HTTP/1.1", "400"),
                ("POST /callback?code=x&state=right HTTP/1.1", ""),
                ("GET /callback?code=good&state=right HTTP/1.1", "200"),
            ] {
                let page = ask(line).await;
                assert!(page.contains(expected) && !page.contains("good"), "{line}: {page}");
            }
        };
        let (code, ()) = tokio::join!(callback.wait("right"), browsers);
        assert_eq!(code.unwrap().code.expose(), "good");
        let far = Url::parse("https://example.com/cb").unwrap();
        assert!(Callback::listen(Some(&far)).await.is_none());
    }

    #[tokio::test]
    async fn idle_connections_hold_no_login_up() {
        let callback = Callback::listen(None).await.unwrap();
        let address = ("127.0.0.1", callback.url.port().unwrap());
        let browsers = async {
            // More than are served at once, and none of them says a word.
            let mut idle = Vec::new();
            for _ in 0..CALLBACK_BROWSERS + 8 {
                idle.push(TcpStream::connect(address).await.unwrap());
            }
            // The oldest make room: they are hung up on, while the others stay.
            for mut first in idle.drain(..8) {
                assert_eq!(first.read(&mut [0]).await.unwrap_or(0), 0, "nothing is said to it");
            }
            let mut browser = TcpStream::connect(address).await.unwrap();
            browser.write_all(b"GET /callback?code=good&state=right HTTP/1.1\r\n\r\n").await.unwrap();
            let mut page = String::new();
            browser.read_to_string(&mut page).await.unwrap();
            assert!(page.contains("200 OK"), "{page}");
            idle
        };
        let both = async { tokio::join!(callback.wait("right"), browsers) };
        // One that was waited for would take all of that by itself.
        let (code, _idle) = tokio::time::timeout(CALLBACK_PATIENCE, both).await.unwrap();
        assert_eq!(code.unwrap().code.expose(), "good");
    }
}
