//! Login and logout, for an op of a frontend or for the slash command.
//!
//! The op starts a login and returns the page; a second op completes it. The command has no second request,
//! so it waits: for the browser, for the device, or for a key from a typed question. Does not know how a
//! login works.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::auth::{ForeignLogin, LoginError, LoginStep, Logins, StartedLogin};
use crate::catalogue::ErrorCode;
use crate::clock::rfc3339;
use crate::engine::handle::Handle;
use crate::engine::services::Services;
use crate::event::question::{Answer, QuestionContent};
use crate::facts::{LoginFacts, ProviderName};
use crate::http::Url;
use crate::interaction::{Origin, Question, Resolution};
use crate::mcp::Servers;
use crate::secret::Secret;
use crate::session::{ApiError, Call, Reply};

/// Begins and ends the logins of connections.
pub struct LoginDesk<'s>(pub &'s Arc<Services>);

impl LoginDesk<'_> {
    /// Starts a login of the connection, with the named provider or the default one.
    pub(super) fn begin(&self, call: &Call, provider: Option<String>, reply: Reply<LoginFacts>) {
        let (Some(logins), Ok(handle)) =
            (self.0.configuration.newest().providers.logins(), self.0.tree.get(&call.session))
        else {
            return reply.fail(ApiError::failed("There are no logins here."));
        };
        let using = handle.snapshot().facts.model_provider.clone();
        let connection = call.connection;
        let chosen = choose(&logins, provider, &using).map_err(|names| unnamed(&names));
        let provider = match chosen.and_then(|provider| known(&logins, &provider).map(|()| provider)) {
            Ok(provider) => provider,
            Err(error) => return reply.fail(refused(error)),
        };
        let stop = logins.announce(connection);
        let shared = self.0.clone();
        self.0.tasks.spawn_on(
            async move {
                let desk = LoginDesk(&shared);
                let begun = desk.begin_at(&logins, &handle, connection, &provider, stop).await;
                reply.send(begun.map(|begun| facts(&begun)).map_err(refused));
            },
            &self.0.executor,
        );
    }

    /// Completes the connection's login.
    pub(super) fn complete(&self, call: &Call, input: Option<String>, reply: Reply<ProviderName>) {
        let Some(logins) = self.0.configuration.newest().providers.logins() else {
            return reply.fail(refused(LoginError::NonePending));
        };
        let connection = call.connection;
        let input = input.map(Secret::new);
        // The currently pending login: this request cannot complete a login that starts after it.
        let pending = match logins.waiting(connection) {
            Ok(pending) => pending,
            Err(error) => return reply.fail(refused(error)),
        };
        self.0.tasks.spawn_on(
            async move {
                let done = logins.complete(connection, pending, input).await;
                reply.send(done.map(|(id, name)| ProviderName { id, name }).map_err(refused));
            },
            &self.0.executor,
        );
    }

    /// Deletes a provider's login.
    pub(super) fn forget(&self, call: &Call, provider: String, reply: Reply<bool>) {
        if let Some(name) = provider.strip_prefix(SERVER) {
            let Ok(session) = self.0.tree.get(&call.session) else {
                return reply.fail(refused(LoginError::NonePending));
            };
            let (shared, name) = (self.0.clone(), name.to_owned());
            let logout = async move {
                // Nobody may have needed them yet.
                shared.mcp.folder(&session).await;
                let forgotten = match LoginDesk(&shared).server(&session, &name) {
                    Ok(ServerLogin { servers, server }) => {
                        let forgotten = servers.logout(&server).await;
                        forgotten.map_err(|error| LoginError::Failed(error.to_string()))
                    }
                    Err(error) => Err(error),
                };
                reply.send(forgotten.map_err(refused));
            };
            self.0.tasks.spawn_on(logout, &self.0.executor);
            return;
        }
        let Some(logins) = self.0.configuration.newest().providers.logins() else {
            return reply.ok(false);
        };
        self.0.tasks.spawn_on(
            async move { reply.send(logins.logout(&provider).await.map_err(refused)) },
            &self.0.executor,
        );
    }

    /// Gives up the pending login of a connection that has ended.
    pub(super) fn forget_connection(&self, connection: u64) {
        if let Some(logins) = self.0.configuration.newest().providers.logins() {
            logins.gone(connection);
        }
    }

    /// `/login [provider]`: starts a login, and waits for its end.
    pub(super) fn command(&self, call: Call, provider: Option<&str>) {
        let (Some(logins), Ok(handle)) =
            (self.0.configuration.newest().providers.logins(), self.0.tree.get(&call.session))
        else {
            return self.0.tell(&call, "error", "There are no logins here.".to_owned());
        };
        let snapshot = handle.snapshot();
        let using = snapshot.facts.model_provider.clone();
        let chosen = choose(&logins, provider.map(str::to_owned), &using);
        let usable = match &chosen {
            Ok(provider) => known(&logins, provider),
            Err(names) if names.is_empty() => Err(unnamed(names)),
            Err(_) => Ok(()),
        };
        if let Err(error) = usable {
            return self.0.tell(&call, "error", error.to_string());
        }
        // An abort gives it up from now on.
        let stop = logins.announce(call.connection);
        let origin = Origin {
            session: handle.id.clone(),
            offset: snapshot.offset,
            turn: None,
            cause: Some(call.cause()),
            correlation: self.0.clock.id("login-").into(),
            subagent: None,
        };
        let shared = self.0.clone();
        self.0.tasks.spawn_on(
            async move {
                let chosen = match chosen {
                    Ok(provider) => Ok(provider),
                    Err(names) => LoginDesk(&shared).ask_provider(names, origin.clone(), &stop).await,
                };
                let begun = match chosen {
                    Ok(provider) => {
                        let desk = LoginDesk(&shared);
                        desk.begin_at(&logins, &handle, call.connection, &provider, stop).await
                    }
                    Err(error) => {
                        if !stop.is_cancelled() {
                            logins.gone(call.connection);
                        }
                        Err(error)
                    }
                };
                let begun = match begun {
                    Ok(begun) => begun,
                    Err(error) => return shared.tell(&call, "error", error.to_string()),
                };
                shared.tell(&call, "login_start", invitation(&begun));
                match LoginDesk(&shared).see_through(&logins, &call, &begun, origin).await {
                    Ok(Some(_)) => {
                        shared.tell(&call, "text", format!("You are logged in at {}.", begun.name))
                    }
                    // The login continues with the frontend.
                    Ok(None) => {}
                    Err(error) => shared.tell(&call, "error", error.to_string()),
                }
            },
            &self.0.executor,
        );
    }

    /// Starts a login at a provider, or at an MCP server of the session (`mcp:name`).
    async fn begin_at(
        &self,
        logins: &Logins,
        session: &Handle,
        connection: u64,
        provider: &str,
        stop: CancellationToken,
    ) -> Result<StartedLogin, LoginError> {
        let Some(server) = provider.strip_prefix(SERVER) else {
            return logins.begin(connection, provider, stop).await;
        };
        // Only the one that it is for is asked, when the login begins.
        self.0.mcp.folder(session).await;
        match self.server(session, server) {
            Ok(login) => logins.begin_foreign(connection, provider, Arc::new(login), stop).await,
            Err(error) => {
                logins.gone(connection);
                Err(error)
            }
        }
    }

    fn server(&self, session: &Handle, name: &str) -> Result<ServerLogin, LoginError> {
        let used = self.0.mcp.used(session);
        let names: Vec<String> = used.iter().map(|(_, server)| format!("{SERVER}{}", server.name)).collect();
        let found = used.into_iter().find(|(_, server)| *server.name == *name);
        let (servers, server) = found.ok_or_else(|| {
            LoginError::Unknown(format!("There is no server of that name. Servers: {}.", names.join(", ")))
        })?;
        Ok(ServerLogin { servers, server: server.name })
    }

    /// Lets the person choose one of several providers.
    async fn ask_provider(
        &self,
        names: Vec<String>,
        origin: Origin,
        stop: &CancellationToken,
    ) -> Result<String, LoginError> {
        let prompt = "Log in at which provider?".to_owned();
        let content = Arc::new(QuestionContent::Select { prompt, options: names.clone() });
        let question = Question {
            content,
            warnings: Arc::default(),
            origin,
            timeout: None,
            unattended: false,
            journalled: false,
        };
        match self.0.questions.ask(question, stop).await {
            Resolution::Accepted { answer: Answer::Option(place), .. } => {
                names.get(place).cloned().ok_or_else(|| unnamed(&names))
            }
            Resolution::Headless => Err(unnamed(&names)),
            _ => Err(LoginError::cancelled()),
        }
    }

    /// Waits for a login's end, and asks the person for the necessary input. `None` if no client can be
    /// asked.
    async fn see_through(
        &self,
        logins: &Logins,
        call: &Call,
        begun: &StartedLogin,
        origin: Origin,
    ) -> Result<Option<(Arc<str>, Arc<str>)>, LoginError> {
        let over = CancellationToken::new();
        let complete = |input: Option<Secret>| {
            let pending = logins.waiting(call.connection);
            async move { logins.complete(call.connection, pending?, input).await }
        };
        let ask = |content| {
            let (content, warnings) = (Arc::new(content), Arc::default());
            let question =
                Question { content, warnings, origin, timeout: None, unattended: false, journalled: false };
            self.0.questions.ask(question, &over)
        };
        if let (Some(code), Some(ends)) = (&begun.code, begun.ends) {
            let shown = ask(QuestionContent::DeviceCode {
                provider: begun.name.to_string(),
                url: begun.url.clone(),
                code: code.clone(),
                expires_at: rfc3339(ends),
            });
            let ended = complete(None);
            tokio::pin!(shown, ended);
            return tokio::select! {
                ended = &mut ended => {
                    over.cancel();
                    shown.await;
                    ended.map(Some).map_err(given_up)
                }
                answer = &mut shown => match answer {
                    // A person who has not done it will not; polling would only time out.
                    Resolution::Accepted { answer: Answer::Done(false), .. } => {
                        logins.gone(call.connection);
                        Err(LoginError::cancelled())
                    }
                    Resolution::Cancelled { .. } => {
                        logins.gone(call.connection);
                        Err(LoginError::cancelled())
                    }
                    _ => ended.await.map(Some),
                },
            };
        }
        if begun.ends_by_itself {
            return complete(None).await.map(Some).map_err(given_up);
        }
        let prompt = format!("What {} shows you at {}", begun.name, begun.url);
        let pending = logins.waiting(call.connection)?;
        let asked = ask(QuestionContent::Password { prompt });
        tokio::pin!(asked);
        let answer = tokio::select! {
            answer = &mut asked => answer,
            () = pending.given_up() => {
                over.cancel();
                asked.await
            }
        };
        match answer {
            Resolution::Accepted { answer: Answer::Secret(secret), .. } => {
                complete(Some(secret)).await.map(Some)
            }
            Resolution::Headless => Ok(None),
            _ => {
                logins.gone(call.connection);
                Err(LoginError::cancelled())
            }
        }
    }
}

/// What stands before the name of an MCP server, where a provider is named.
const SERVER: &str = "mcp:";

/// Whether a login can be started there. MCP servers are looked for when it is.
fn known(logins: &Logins, provider: &str) -> Result<(), LoginError> {
    if provider.starts_with(SERVER) { Ok(()) } else { logins.known(provider) }
}

/// A login at an MCP server.
struct ServerLogin {
    servers: Servers,
    server: Arc<str>,
}

impl ForeignLogin for ServerLogin {
    fn begin<'a>(&'a self, redirect: &'a Url) -> LoginStep<'a, Url> {
        Box::pin(async move {
            self.servers.begin_login(&self.server, redirect).await.map_err(|error| error.to_string())
        })
    }

    fn finish<'a>(&'a self, address: &'a Url) -> LoginStep<'a, ()> {
        Box::pin(async move {
            let finished = self.servers.finish_login(&self.server, address.as_str()).await;
            finished.map_err(|error| error.to_string())
        })
    }
}

/// The named provider, or else that of the session's model, or else the only one.
///
/// # Errors
/// The names of the providers, if there is none or several.
fn choose(logins: &Logins, named: Option<String>, using: &str) -> Result<String, Vec<String>> {
    if let Some(named) = named {
        return Ok(named);
    }
    if logins.has(using) {
        return Ok(using.to_owned());
    }
    let mut names: Vec<String> = logins.names().map(|name| name.to_string()).collect();
    match names.pop() {
        Some(only) if names.is_empty() => Ok(only),
        last => Err(names.into_iter().chain(last).collect()),
    }
}

/// A login that is pending no more was given up.
fn given_up(error: LoginError) -> LoginError {
    match error {
        LoginError::NonePending => LoginError::cancelled(),
        error => error,
    }
}

fn unnamed(names: &[String]) -> LoginError {
    LoginError::Unknown(format!("Name a provider to log in at: {}.", names.join(", ")))
}

/// A login, as the op tells it.
fn facts(begun: &StartedLogin) -> LoginFacts {
    LoginFacts {
        provider: ProviderName { id: begun.provider.as_ref().into(), name: begun.name.as_ref().into() },
        url: begun.url.clone(),
        uses_callback: begun.uses_callback,
        code: begun.code.clone(),
        expires_at: begun.ends.map(rfc3339),
    }
}

fn invitation(begun: &StartedLogin) -> String {
    match &begun.code {
        Some(code) => format!("Open {} and enter {code}.", begun.url),
        None if begun.uses_callback => format!("Open {} and log in.", begun.url),
        None => format!("Open {} and paste what it shows you.", begun.url),
    }
}

fn refused(error: LoginError) -> ApiError {
    let code = match error {
        LoginError::NonePending => ErrorCode::NoPendingLogin,
        LoginError::Unknown(_) | LoginError::Input(_) => ErrorCode::InvalidParams,
        LoginError::Failed(_) => ErrorCode::Failed,
    };
    ApiError::new(code, error.to_string())
}
