//! Pending logins that wait for a person.
//!
//! A connection has one at a time: a page in a browser, a device code, or a pasted key, depending on the
//! provider. Each ends with tokens, a refusal, or a time-out. Does not know the wire.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::callback::{Callback, Code, Redirect};
use super::credentials::{Credentials, ProviderEntry, Tokens};
use super::oauth::{AuthorizationRequest, Device, Login, OauthError};
use super::{KeySource, oauth};
use crate::clock::Clock;
use crate::http::{Http, Url};
use crate::limits::{ERROR_NAME_CHARS, LOGIN_PATIENCE};
use crate::secret::Secret;

/// A started login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedLogin {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The name for people.
    pub name: Arc<str>,
    /// The page for the person.
    pub url: String,
    /// Whether the browser returns the code on its own.
    pub uses_callback: bool,
    /// The device code to type there.
    pub code: Option<String>,
    /// The expiry of a device code.
    pub ends: Option<Timestamp>,
    /// Whether it ends without pasted input.
    pub ends_by_itself: bool,
}

/// Why a login was not started or not completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The provider has no login.
    #[error("{0}")]
    Unknown(String),
    /// The connection has no pending login.
    #[error("No login was begun on this connection.")]
    NonePending,
    /// The pasted input is missing or invalid; contains the expected input.
    #[error("What is pasted must be {0}.")]
    Input(&'static str),
    /// It failed; contains the reason.
    #[error("{0}")]
    Failed(String),
}

impl LoginError {
    /// It was given up.
    pub fn cancelled() -> Self {
        Self::Failed("The login was cancelled.".to_owned())
    }
}

/// The expected input of a login at a page.
const CODE: &str = "the code that the page shows, or its address";

/// A login that somebody else begins and completes, and whose tokens they keep: at an MCP server.
pub trait ForeignLogin: Send + Sync {
    /// Its page, which sends the browser to `redirect` in the end. A failure is a sentence.
    fn begin<'a>(&'a self, redirect: &'a Url) -> LoginStep<'a, Url>;

    /// Completes it with the address that the page sent the browser to. A failure is a sentence.
    fn finish<'a>(&'a self, address: &'a Url) -> LoginStep<'a, ()>;
}

/// A part of a foreign login under way.
pub type LoginStep<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The logins of a process.
pub struct Logins {
    providers: Vec<(Arc<str>, Arc<str>, KeySource)>,
    credentials: Credentials,
    http: Arc<Http>,
    clock: Arc<dyn Clock>,
    pending: Mutex<HashMap<u64, Pending>>,
}

/// The result of a login; `None` while it is pending.
type Outcome = Option<Result<(), LoginError>>;

/// A pending login.
#[derive(Clone)]
pub struct Pending {
    provider: Arc<str>,
    name: Arc<str>,
    stop: CancellationToken,
    way: LoginMethod,
}

impl Pending {
    /// Waits until the login is given up.
    pub async fn given_up(&self) {
        self.stop.cancelled().await;
    }
}

#[derive(Clone)]
enum LoginMethod {
    /// It is not begun yet: its provider is chosen or asked.
    None,
    /// Waits for a pasted key.
    Key,
    /// A page or a device: a task waits for it.
    Task {
        state: Option<Arc<str>>,
        by_itself: bool,
        input: mpsc::Sender<Code>,
        outcome: watch::Receiver<Outcome>,
    },
}

impl Drop for Logins {
    fn drop(&mut self) {
        for pending in self.pending().values() {
            pending.stop.cancel();
        }
    }
}

impl Logins {
    /// The logins of these providers, each with its name in the configuration and its name for people.
    pub fn new(
        providers: Vec<(Arc<str>, Arc<str>, KeySource)>,
        credentials: Credentials,
        http: Arc<Http>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { providers, credentials, http, clock, pending: Mutex::default() }
    }

    /// Whether the provider has a login.
    pub fn has(&self, provider: &str) -> bool {
        self.providers
            .iter()
            .any(|(id, _, source)| **id == *provider && (source.login.is_some() || source.url.is_some()))
    }

    /// The providers with a login.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let with = |source: &KeySource| source.login.is_some() || source.url.is_some();
        self.providers.iter().filter(move |(_, _, source)| with(source)).map(|(id, ..)| id)
    }

    /// Whether a login at that provider can be started.
    ///
    /// # Errors
    /// [`LoginError::Unknown`] if there is no such provider.
    pub fn known(&self, provider: &str) -> Result<(), LoginError> {
        self.find(provider).map(|_| ())
    }

    fn find(&self, provider: &str) -> Result<&(Arc<str>, Arc<str>, KeySource), LoginError> {
        let found = self.providers.iter().find(|(id, ..)| **id == *provider);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.names().map(|name| &**name).collect();
            let provider: String = provider.chars().take(ERROR_NAME_CHARS).collect();
            LoginError::Unknown(format!("There is no provider {provider:?}. Logins: {}.", names.join(", ")))
        })
    }

    /// Announces a login, and gives up an earlier one of the connection. The token says that this one was given up,
    /// which may be before it is begun.
    pub fn announce(&self, connection: u64) -> CancellationToken {
        let stop = CancellationToken::new();
        let (provider, name) = ("".into(), "".into());
        let announced = Pending { provider, name, stop: stop.clone(), way: LoginMethod::None };
        if let Some(earlier) = self.pending().insert(connection, announced) {
            earlier.stop.cancel();
        }
        stop
    }

    /// Starts a login that was announced, unless it was given up since.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn begin(
        &self,
        connection: u64,
        provider: &str,
        stop: CancellationToken,
    ) -> Result<StartedLogin, LoginError> {
        let begun = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(LoginError::cancelled()),
            begun = self.start(provider, &stop) => begun,
        };
        self.enter(connection, stop, begun)
    }

    /// Enters what was begun, unless it was given up since.
    fn enter(
        &self,
        connection: u64,
        stop: CancellationToken,
        begun: Result<(StartedLogin, LoginMethod), LoginError>,
    ) -> Result<StartedLogin, LoginError> {
        let mut all = self.pending();
        if stop.is_cancelled() {
            return Err(LoginError::cancelled());
        }
        match begun {
            Ok((begun, way)) => {
                let (provider, name) = (begun.provider.clone(), begun.name.clone());
                all.insert(connection, Pending { provider, name, stop, way });
                Ok(begun)
            }
            Err(error) => {
                all.remove(&connection);
                Err(error)
            }
        }
    }

    async fn start(
        &self,
        provider: &str,
        stop: &CancellationToken,
    ) -> Result<(StartedLogin, LoginMethod), LoginError> {
        let (id, name, source) = self.find(provider)?;
        match (&source.login, &source.url) {
            (Some(login), _) if login.has_page() => self.page(id, name, login, stop).await,
            (Some(login), _) => self.device(id, name, login, stop).await,
            (None, Some(url)) => Ok((self.begun(id, name, url.clone()), LoginMethod::Key)),
            (None, None) => {
                let text = format!("{name} has no login: describe one in the configuration under :login.");
                Err(LoginError::Unknown(text))
            }
        }
    }

    /// Starts a login that was announced at somebody else, by the name that it has here, unless it was given up since.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn begin_foreign(
        &self,
        connection: u64,
        name: &str,
        login: Arc<dyn ForeignLogin>,
        stop: CancellationToken,
    ) -> Result<StartedLogin, LoginError> {
        let begun = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(LoginError::cancelled()),
            begun = self.foreign(name, login, &stop) => begun,
        };
        self.enter(connection, stop, begun)
    }

    async fn foreign(
        &self,
        name: &str,
        login: Arc<dyn ForeignLogin>,
        stop: &CancellationToken,
    ) -> Result<(StartedLogin, LoginMethod), LoginError> {
        let callback = Callback::listen(None).await;
        let callback = callback.ok_or_else(|| {
            LoginError::Failed("No port is free for the browser to come back to.".to_owned())
        })?;
        let redirect = callback.url.clone();
        let page = login.begin(&redirect).await.map_err(LoginError::Failed)?;
        let state = page.query_pairs().find(|(key, _)| key == "state").map(|(_, state)| state.into_owned());
        let state: Arc<str> = state.unwrap_or_default().into();
        let id: Arc<str> = name.into();
        let begun = StartedLogin {
            uses_callback: true,
            ends_by_itself: true,
            ..self.begun(&id, &id, page.to_string())
        };
        let (input, pasted) = mpsc::channel(1);
        let (sender, outcome) = watch::channel(None);
        let (expected, stop) = (state.to_string(), stop.clone());
        let work = async move {
            let code = code(Some(callback), expected.clone(), pasted).await;
            let Code { code, issuer } = code.map_err(|error| failed(&id, &error))?;
            let mut address = redirect;
            address.query_pairs_mut().append_pair("code", code.expose()).append_pair("state", &expected);
            if let Some(issuer) = issuer {
                address.query_pairs_mut().append_pair("iss", &issuer);
            }
            login.finish(&address).await.map_err(LoginError::Failed)
        };
        tokio::spawn(async move {
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => Err(LoginError::NonePending),
                ended = tokio::time::timeout(LOGIN_PATIENCE, work) => ended.unwrap_or_else(|_| {
                    Err(LoginError::Failed("The login took too long; begin again.".to_owned()))
                }),
            };
            let _ = sender.send(Some(ended));
        });
        Ok((begun, LoginMethod::Task { state: Some(state), by_itself: true, input, outcome }))
    }

    /// The connection's pending login.
    ///
    /// # Errors
    /// [`LoginError::NonePending`] if there is none.
    pub fn waiting(&self, connection: u64) -> Result<Pending, LoginError> {
        let begun = |pending: &&Pending| !matches!(pending.way, LoginMethod::None);
        self.pending().get(&connection).filter(begun).cloned().ok_or(LoginError::NonePending)
    }

    /// Completes a login of the connection, with the person's input or without; without input it waits for
    /// the browser or the device.
    ///
    /// # Errors
    /// See [`LoginError`]. After [`LoginError::Input`] the login is still pending.
    pub async fn complete(
        &self,
        connection: u64,
        pending: Pending,
        input: Option<Secret>,
    ) -> Result<(Arc<str>, Arc<str>), LoginError> {
        let ended = match &pending.way {
            LoginMethod::None => Err(LoginError::NonePending),
            LoginMethod::Key => {
                let key = input.map(|key| key.expose().trim().to_owned()).filter(|key| !key.is_empty());
                let key = key.filter(|key| key.chars().all(|c| c.is_ascii_graphic()));
                let key = Secret::new(key.ok_or(LoginError::Input("the key"))?);
                keep(&self.credentials, &pending.provider, ProviderEntry::Key(key)).await
            }
            LoginMethod::Task { state, by_itself, input: sender, outcome } => {
                match input.filter(|input| !input.expose().trim().is_empty()) {
                    None if !by_itself => return Err(LoginError::Input(CODE)),
                    None => {}
                    Some(text) => {
                        let redirect = Redirect::pasted(text.expose()).ok_or(LoginError::Input(CODE))?;
                        if redirect.state.is_some() && redirect.state.as_deref() != state.as_deref() {
                            return Err(LoginError::Input("the code of this login, not of another"));
                        }
                        match redirect.code {
                            Ok(code) => {
                                let _ = sender.send(code).await;
                            }
                            Err(why) => {
                                return Err(LoginError::Failed(format!("The login was refused: {why}.")));
                            }
                        }
                    }
                }
                let mut outcome = outcome.clone();
                let ended = outcome.wait_for(Option::is_some).await.map(|ended| ended.clone());
                ended.ok().flatten().unwrap_or(Err(LoginError::NonePending))
            }
        };
        // If it was given up, the current one is another login and stays pending.
        let mut all = self.pending();
        if !pending.stop.is_cancelled()
            && all.get(&connection).is_some_and(|now| {
                now.provider == pending.provider
                    && (ended.is_ok() || matches!(now.way, LoginMethod::Task { .. }))
            })
        {
            all.remove(&connection);
        }
        drop(all);
        ended.map(|()| (pending.provider, pending.name))
    }

    /// Deletes a provider's login; returns whether it existed.
    ///
    /// # Errors
    /// [`LoginError::Failed`] if it cannot be deleted.
    pub async fn logout(&self, provider: &str) -> Result<bool, LoginError> {
        let (credentials, provider) = (self.credentials.clone(), provider.to_owned());
        let forgotten = tokio::task::spawn_blocking(move || credentials.forget(&provider)).await;
        match forgotten {
            Ok(forgotten) => {
                forgotten.map_err(|error| LoginError::Failed(format!("It cannot be forgotten: {error}.")))
            }
            Err(error) => Err(LoginError::Failed(error.to_string())),
        }
    }

    /// Gives up a connection's pending login.
    pub fn gone(&self, connection: u64) {
        if let Some(pending) = self.pending().remove(&connection) {
            pending.stop.cancel();
        }
    }

    fn begun(&self, id: &Arc<str>, name: &Arc<str>, url: String) -> StartedLogin {
        let (provider, name) = (id.clone(), name.clone());
        StartedLogin {
            provider,
            name,
            url,
            uses_callback: false,
            code: None,
            ends: None,
            ends_by_itself: false,
        }
    }

    async fn page(
        &self,
        id: &Arc<str>,
        name: &Arc<str>,
        login: &Login,
        stop: &CancellationToken,
    ) -> Result<(StartedLogin, LoginMethod), LoginError> {
        let callback = Callback::listen(login.redirect()).await;
        let redirect =
            callback.as_ref().map(|callback| callback.url.clone()).or_else(|| login.redirect().cloned());
        let redirect = redirect.ok_or_else(|| {
            LoginError::Failed("No port is free for the browser to come back to.".to_owned())
        })?;
        let asked = login.ask(redirect).map_err(|error| failed(name, &error))?;
        let by_itself = callback.is_some();
        let begun = StartedLogin {
            uses_callback: by_itself,
            ends_by_itself: by_itself,
            ..self.begun(id, name, asked.url.to_string())
        };
        let state: Arc<str> = asked.state.secret().as_str().into();
        let (input, pasted) = mpsc::channel(1);
        let (login, http, clock) = (login.clone(), self.http.clone(), self.clock.clone());
        let work = async move {
            let AuthorizationRequest { state, verifier, redirect, .. } = asked;
            let code = code(callback, state.secret().clone(), pasted).await?;
            login.exchange(&code.code, verifier, redirect, &http, clock.as_ref()).await
        };
        let outcome = self.spawn(id, name, stop, work);
        Ok((begun, LoginMethod::Task { state: Some(state), by_itself, input, outcome }))
    }

    async fn device(
        &self,
        id: &Arc<str>,
        name: &Arc<str>,
        login: &Login,
        stop: &CancellationToken,
    ) -> Result<(StartedLogin, LoginMethod), LoginError> {
        let device: Device =
            login.device(&self.http, self.clock.as_ref()).await.map_err(|error| failed(name, &error))?;
        let begun = StartedLogin {
            code: Some(device.code.clone()),
            ends: Some(device.ends),
            ends_by_itself: true,
            ..self.begun(id, name, device.url.clone())
        };
        let (input, _) = mpsc::channel(1);
        let (login, http, clock) = (login.clone(), self.http.clone(), self.clock.clone());
        let work = async move { login.wait(&device, &http, clock.as_ref()).await };
        let outcome = self.spawn(id, name, stop, work);
        Ok((begun, LoginMethod::Task { state: None, by_itself: true, input, outcome }))
    }

    /// Runs the task that waits for a person, and stores its result.
    fn spawn(
        &self,
        id: &Arc<str>,
        name: &Arc<str>,
        stop: &CancellationToken,
        work: impl Future<Output = Result<Tokens, OauthError>> + Send + 'static,
    ) -> watch::Receiver<Outcome> {
        let (sender, outcome) = watch::channel(None);
        let (id, name, stop) = (id.clone(), name.clone(), stop.clone());
        let credentials = self.credentials.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => Err(LoginError::NonePending),
                ended = tokio::time::timeout(LOGIN_PATIENCE, work) => match ended {
                    Ok(Ok(tokens)) => keep(&credentials, &id, ProviderEntry::Tokens(tokens)).await,
                    Ok(Err(error)) => Err(failed(&name, &error)),
                    Err(_) => Err(LoginError::Failed(format!("The login at {name} took too long; begin again."))),
                },
            };
            let _ = sender.send(Some(ended));
        });
        outcome
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The code, from the browser or from pasted input, whichever comes first.
async fn code(
    callback: Option<Callback>,
    state: String,
    mut pasted: mpsc::Receiver<Code>,
) -> Result<Code, OauthError> {
    let browser = async {
        match &callback {
            Some(callback) => callback.wait(&state).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        code = browser => code.map_err(|refused| OauthError::Refused(format!("{refused}."))),
        Some(code) = pasted.recv() => Ok(code),
        else => Err(OauthError::Refused("it was given up.".to_owned())),
    }
}

async fn keep(credentials: &Credentials, provider: &Arc<str>, kept: ProviderEntry) -> Result<(), LoginError> {
    let (credentials, provider) = (credentials.clone(), provider.clone());
    let written = tokio::task::spawn_blocking(move || credentials.put(&provider, kept)).await;
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(LoginError::Failed(format!("The login cannot be saved: {error}."))),
        Err(error) => Err(LoginError::Failed(error.to_string())),
    }
}

fn failed(name: &str, error: &OauthError) -> LoginError {
    let (oauth::OauthError::Refused(why) | oauth::OauthError::Passing(why)) = error;
    LoginError::Failed(format!("The login at {name} failed: {}.", why.trim_end_matches('.')))
}
