//! Logging in and out, for whoever asks: an op of a frontend, or the slash command.
//!
//! The op begins a login and says where to go; a second one completes it. The command has nobody to send the
//! second, so it waits itself: for the browser, for the device, or for a key that a typed question asks for.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::auth::{Begun, LoginError, Logins};
use crate::catalogue::ErrorCode;
use crate::clock::rfc3339;
use crate::interaction::{Kind, Origin, Question, Resolution};
use crate::runtime::Runtime;
use crate::secret::Secret;
use crate::session::{ApiError, Call, Reply};
use crate::value::{Map, Value};

impl Runtime {
    /// Begins a login of the connection, with the provider named or the one that is meant.
    pub(super) fn begin_login(&self, call: &Call, provider: Option<String>, reply: Reply<Map<'static>>) {
        let (Some(logins), Ok(handle)) =
            (self.shared.manifest.load().providers.logins(), self.shared.session(&call.session))
        else {
            return reply.fail(ApiError::failed("There are no logins here."));
        };
        let using = handle.snapshot().facts.model_provider.clone();
        let connection = call.connection;
        self.shared.tasks.spawn_on(
            async move {
                let begun = match meant(&logins, provider, &using) {
                    Ok(provider) => logins.begin(connection, &provider).await,
                    Err(error) => Err(error),
                };
                reply.send(begun.map(|begun| shown(&begun)).map_err(refused));
            },
            &self.shared.executor,
        );
    }

    /// Completes the connection's login.
    pub(super) fn complete_login(&self, call: &Call, input: Option<String>, reply: Reply<Map<'static>>) {
        let Some(logins) = self.shared.manifest.load().providers.logins() else {
            return reply.fail(refused(LoginError::NonePending));
        };
        let connection = call.connection;
        let input = input.map(Secret::new);
        // The one that waits now: a login that is begun behind this request is not what it completes.
        let pending = match logins.waiting(connection) {
            Ok(pending) => pending,
            Err(error) => return reply.fail(refused(error)),
        };
        self.shared.tasks.spawn_on(
            async move {
                let done = logins.complete(connection, pending, input).await;
                let told = |(id, name): (Arc<str>, Arc<str>)| {
                    Map::new().with("provider", who(&id, &name)).with("logged-in", true)
                };
                reply.send(done.map(told).map_err(refused));
            },
            &self.shared.executor,
        );
    }

    /// Forgets a provider's login.
    pub(super) fn forget_login(&self, _: &Call, provider: String, reply: Reply<bool>) {
        let Some(logins) = self.shared.manifest.load().providers.logins() else { return reply.ok(false) };
        self.shared.tasks.spawn_on(
            async move { reply.send(logins.logout(&provider).await.map_err(refused)) },
            &self.shared.executor,
        );
    }

    /// Gives up what a connection that has ended had begun.
    pub(super) fn forget_connection(&self, connection: u64) {
        if let Some(logins) = self.shared.manifest.load().providers.logins() {
            logins.gone(connection);
        }
    }

    /// `/login [provider]`: begins a login, and waits for its end.
    pub(super) fn login_command(&self, call: Call, provider: Option<&str>) {
        let (Some(logins), Ok(handle)) =
            (self.shared.manifest.load().providers.logins(), self.shared.session(&call.session))
        else {
            return self.tell(&call, "error", "There are no logins here.".to_owned());
        };
        let snapshot = handle.snapshot();
        let provider = provider.map(str::to_owned);
        let using = snapshot.facts.model_provider.clone();
        let origin = Origin {
            session: handle.id.clone(),
            offset: snapshot.offset,
            turn: None,
            correlation: self.shared.clock.id("login-").into(),
            child_of: None,
        };
        let runtime = self.clone();
        self.shared.tasks.spawn_on(
            async move {
                let begun = match meant(&logins, provider, &using) {
                    Ok(provider) => logins.begin(call.connection, &provider).await,
                    Err(error) => Err(error),
                };
                let begun = match begun {
                    Ok(begun) => begun,
                    Err(error) => return runtime.tell(&call, "error", error.to_string()),
                };
                runtime.tell(&call, "login_start", invitation(&begun));
                match runtime.see_through(&logins, &call, &begun, origin).await {
                    Ok(Some(_)) => {
                        runtime.tell(&call, "text", format!("You are logged in at {}.", begun.name))
                    }
                    // It goes on as the frontend goes on.
                    Ok(None) => {}
                    Err(error) => runtime.tell(&call, "error", error.to_string()),
                }
            },
            &self.shared.executor,
        );
    }

    /// Waits for a login's end, and asks the person what it needs. `None` where nobody here can be asked.
    async fn see_through(
        &self,
        logins: &Logins,
        call: &Call,
        begun: &Begun,
        origin: Origin,
    ) -> Result<Option<(Arc<str>, Arc<str>)>, LoginError> {
        let over = CancellationToken::new();
        let complete = |input: Option<&str>| {
            let (pending, input) =
                (logins.waiting(call.connection), input.map(|text| Secret::new(text.to_owned())));
            async move { logins.complete(call.connection, pending?, input).await }
        };
        let ask = |kind, payload| {
            self.shared.board.ask(Question { kind, payload, origin, timeout: None, unattended: false }, &over)
        };
        if let (Some(code), Some(ends)) = (&begun.code, begun.ends) {
            let payload = Map::new()
                .with("provider", begun.name.to_string())
                .with("url", begun.url.clone())
                .with("code", code.clone())
                .with("expires-at", rfc3339(ends).to_string());
            let shown = ask(Kind::DeviceCode, payload);
            let ended = complete(None);
            tokio::pin!(shown, ended);
            return tokio::select! {
                ended = &mut ended => {
                    over.cancel();
                    shown.await;
                    ended.map(Some)
                }
                answer = &mut shown => match answer {
                    // Who did not do it will not; what is polled for would come to its time in vain.
                    Resolution::Accepted { value, .. } if !is_done(&value) => {
                        logins.gone(call.connection);
                        Err(LoginError::Failed("The login was cancelled.".to_owned()))
                    }
                    Resolution::Cancelled { .. } => {
                        logins.gone(call.connection);
                        Err(LoginError::Failed("The login was cancelled.".to_owned()))
                    }
                    _ => ended.await.map(Some),
                },
            };
        }
        if begun.ends_by_itself {
            return complete(None).await.map(Some);
        }
        let prompt = format!("What {} shows you at {}", begun.name, begun.url);
        match ask(Kind::Password, Map::new().with("prompt", prompt)).await {
            Resolution::Accepted { value, .. } => {
                let secret = value.get_keyword("secret").and_then(Value::as_str).unwrap_or_default();
                complete(Some(secret)).await.map(Some)
            }
            Resolution::Headless => Ok(None),
            _ => {
                logins.gone(call.connection);
                Err(LoginError::Failed("The login was cancelled.".to_owned()))
            }
        }
    }
}

fn is_done(answer: &Map<'_>) -> bool {
    answer.get_keyword("done").and_then(Value::as_bool) == Some(true)
}

/// The provider that is meant: the one named, else that of the session's model, else the only one.
fn meant(logins: &Logins, named: Option<String>, using: &str) -> Result<String, LoginError> {
    if let Some(named) = named {
        return Ok(named);
    }
    if logins.has(using) {
        return Ok(using.to_owned());
    }
    let names: Vec<&str> = logins.names().map(|name| &**name).collect();
    match names.as_slice() {
        [only] => Ok((*only).to_owned()),
        names => Err(LoginError::Unknown(format!("Name a provider to log in at: {}.", names.join(", ")))),
    }
}

fn who(id: &str, name: &str) -> Value<'static> {
    Value::from(Map::new().with("id", id.to_owned()).with("name", name.to_owned()))
}

/// A login as the op answers it.
fn shown(begun: &Begun) -> Map<'static> {
    let mut map = Map::new();
    map.put("provider", who(&begun.provider, &begun.name));
    map.put("url", begun.url.clone());
    map.put("uses-callback-server", begun.uses_callback);
    map.put("pending-login", true);
    map.put_some("user-code", begun.code.clone());
    map.put_some("expires-at", begun.ends.map(|ends| rfc3339(ends).to_string()));
    map
}

fn invitation(begun: &Begun) -> String {
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
