//! How a server is reached: its program is started, or its address asked, in the era that it speaks.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Calls;
use super::connection::{Connection, greet, mode};
use super::facts::Era;
use super::failure::Failure;
use super::handler::Handler;
use super::http_client::ServerClient;
use super::oauth::{Authorized, restored};
use super::pipes::Pipes;
use super::protocol_cache;
use super::secrets::Values;
use super::server_context::ServerContext;
use super::settings::{Server, ServerTransport};
use crate::http::Url;
use crate::http::header::{HeaderName, HeaderValue};
use crate::limits::{HTTP_ERROR_BYTES, MCP_JSON_BYTES, MCP_LINE_BYTES, MCP_OPEN_REQUESTS, MCP_START_WAIT};
use crate::peer::{self, PeerProgram, Redactor, Started, Stderr, Tokens};

/// A connection that could not be made, with the words that may be shown.
pub(super) struct NotConnected {
    pub(super) failure: Failure,
    pub(super) noted: Arc<Redactor>,
    pub(super) stderr: Option<Arc<Stderr>>,
}

/// Connects to a server, in the era that it spoke last or in the one that is found out.
///
/// # Errors
/// See [`NotConnected`].
pub(super) async fn connect(
    server: &Arc<Server>,
    place: &Arc<ServerContext>,
    tokens: &Arc<Tokens>,
    tasks: &TaskTracker,
    login: Option<Authorized>,
) -> Result<Connection, NotConnected> {
    let none = |failure| NotConnected { failure, noted: Arc::default(), stderr: None };
    let values = Values::of(server, place).await.map_err(|why| none(Failure::Other(why)))?;
    let digest = server.digest();
    let now = place.clock.now();
    let known = {
        let (state_dir, digest) = (place.state_dir.clone(), digest.clone());
        let read = tokio::task::spawn_blocking(move || protocol_cache::known(&state_dir, &digest, now)).await;
        read.ok().flatten()
    };
    let attempt = Attempt { server, place, tokens, tasks, values: &values, login };
    let begun = Instant::now();
    // A wrong era shows at once; what takes long has another reason.
    let may_be_era =
        |failure: &Failure| !matches!(failure, Failure::Login(_)) && begun.elapsed() < MCP_START_WAIT / 2;
    let connected = match attempt.make(known).await {
        Err(first) if known.is_some() && may_be_era(&first.failure) => attempt.make(None).await,
        first => first,
    };
    let connected = match connected {
        // Some servers end at a question that they do not know, or answer with a page of HTML.
        Err(second) if may_be_era(&second.failure) => {
            attempt.make(Some(Era::Handshake)).await.map_err(|third| match third.failure {
                // The first answer says more than that there was none.
                Failure::Lost => second,
                _ => third,
            })
        }
        connected => connected,
    };
    let era = connected.as_ref().ok().map(|connection| connection.era);
    if era != known {
        let state_dir = place.state_dir.clone();
        let _ =
            tokio::task::spawn_blocking(move || protocol_cache::keep(&state_dir, &digest, era, now)).await;
    }
    connected
}

struct Attempt<'a> {
    server: &'a Arc<Server>,
    place: &'a Arc<ServerContext>,
    tokens: &'a Arc<Tokens>,
    tasks: &'a TaskTracker,
    values: &'a Values,
    /// The login of this process, if there was one.
    login: Option<Authorized>,
}

impl Attempt<'_> {
    async fn make(&self, era: Option<Era>) -> Result<Connection, NotConnected> {
        let noted = Arc::new(Redactor::new(self.values.secrets(self.server)).with(self.tokens.clone()));
        let stderr = Arc::new(Stderr::default());
        let connected = match &self.server.way {
            ServerTransport::Command(_) => self.program(era, &noted, &stderr).await,
            ServerTransport::Http(url) => self.http(era, url, &noted).await,
        };
        connected.map_err(|failure| NotConnected { failure, noted, stderr: Some(stderr) })
    }

    fn handler(&self, noted: &Arc<Redactor>) -> Handler {
        let root = Url::from_directory_path(&self.place.root).map_or_else(|()| String::new(), String::from);
        Handler {
            calls: Arc::new(Calls::new(self.server.name.clone(), noted.clone())),
            root: root.trim_end_matches('/').into(),
            may_sample: self.server.sampling,
            changed: Arc::new(Notify::new()),
        }
    }

    async fn program(
        &self,
        era: Option<Era>,
        noted: &Arc<Redactor>,
        stderr: &Arc<Stderr>,
    ) -> Result<Connection, Failure> {
        // At each start: a file may change at any time after it was looked at.
        self.server.seal.verify().await.map_err(|broken| Failure::Other(broken.to_string()))?;
        let variables = &self.values.environment;
        let ServerTransport::Command(command) = &self.server.way else {
            return Err(Failure::Other("it has no command".to_owned()));
        };
        let root = &self.place.root;
        let program = PeerProgram {
            what: "server",
            name: self.server.name.clone(),
            command,
            folder: self.server.cwd.as_ref().map_or_else(|| root.clone(), |folder| root.join(folder)),
            environment: &self.place.environment,
            variables,
            confine: self.place.confine.as_ref().filter(|_| self.server.sandbox),
            writable: &self.server.writable,
        };
        let started = peer::start(program, noted, stderr.clone(), self.tasks).await;
        let Started { child, read, write } = started.map_err(Failure::Other)?;
        let (handler, end) = (self.handler(noted), CancellationToken::new());
        let pipes = Pipes::new(read, write, noted.clone());
        match greet(pipes, handler.clone(), mode(era), end.clone()).await {
            Ok(service) => {
                let (child, noted) = (Some(child), noted.clone());
                Ok(Connection::new(service, handler, child, noted, end, self.tasks))
            }
            Err(failure) => {
                // Its input is closed: what it has to say of its end, it says now.
                child.end().await;
                Err(failure)
            }
        }
    }

    async fn http(&self, era: Option<Era>, url: &Url, noted: &Arc<Redactor>) -> Result<Connection, Failure> {
        let client = self.place.http.client(url).map_err(|error| Failure::Other(error.to_string()))?;
        let mut headers = HashMap::new();
        for (name, value) in &self.values.headers {
            let unfit = |_| Failure::Other(format!("the header {name} has no value that can be sent"));
            let mut value = HeaderValue::from_str(value.expose()).map_err(unfit)?;
            value.set_sensitive(true);
            let name = HeaderName::from_bytes(name.as_bytes());
            headers.insert(
                name.map_err(|_| Failure::Other("a header has no name that can be sent".to_owned()))?,
                value,
            );
        }
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
        config = config.custom_headers(headers).max_concurrent_requests(MCP_OPEN_REQUESTS);
        config = config.max_sse_event_size(MCP_LINE_BYTES).max_json_response_size(MCP_JSON_BYTES);
        config = config.max_error_response_size(HTTP_ERROR_BYTES);
        let (handler, end) = (self.handler(noted), CancellationToken::new());
        // Who has configured a header of that name wants no login.
        let has_own = self.values.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let login = match (&self.login, has_own) {
            (_, true) => None,
            (Some(login), false) => Some(login.clone()),
            (None, false) => restored(url, self.place, self.tokens, client).await.map_err(Failure::Other)?,
        };
        let service = match login {
            Some(login) => {
                let transport = StreamableHttpClientTransport::with_client(login, config);
                greet(transport, handler.clone(), mode(era), end.clone()).await?
            }
            None => {
                let transport =
                    StreamableHttpClientTransport::with_client(ServerClient::new(client.clone()), config);
                greet(transport, handler.clone(), mode(era), end.clone()).await?
            }
        };
        Ok(Connection::new(service, handler, None, noted.clone(), end, self.tasks))
    }
}
