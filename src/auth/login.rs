//! Logins that were begun and wait for a person.
//!
//! A connection has one at a time. A page in a browser, a code for a device, or a key to be pasted: whichever
//! a provider has. Each ends by itself: with tokens, a refusal, or its time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::callback::{Callback, Given};
use super::credentials::{Credentials, Kept, Tokens};
use super::oauth::{Asked, Device, Login, OauthError};
use super::{KeySource, oauth};
use crate::clock::Clock;
use crate::http::Http;
use crate::limits::LOGIN_PATIENCE;
use crate::secret::Secret;

/// A login that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The name that a person reads.
    pub name: Arc<str>,
    /// Where the person goes.
    pub url: String,
    /// Whether the browser comes back by itself.
    pub uses_callback: bool,
    /// What the person types there, for a device.
    pub code: Option<String>,
    /// When it ends, for a device.
    pub ends: Option<Timestamp>,
    /// Whether it ends without anything being pasted.
    pub ends_by_itself: bool,
}

/// Why a login was not begun or not completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// There is no login of that provider.
    #[error("{0}")]
    Unknown(String),
    /// The connection has begun none, or it has ended.
    #[error("No login was begun on this connection.")]
    NonePending,
    /// What was pasted is missing or no code; what it should be.
    #[error("What is pasted must be {0}.")]
    Input(&'static str),
    /// It went wrong; why.
    #[error("{0}")]
    Failed(String),
}

/// The logins of a process.
pub struct Logins {
    providers: Vec<(Arc<str>, Arc<str>, KeySource)>,
    credentials: Credentials,
    http: Arc<Http>,
    clock: Arc<dyn Clock>,
    pending: Mutex<HashMap<u64, Pending>>,
}

/// How a login ended; `None` while it has not.
type Outcome = Option<Result<(), LoginError>>;

/// A login that was begun and waits for its end.
#[derive(Clone)]
pub struct Pending {
    provider: Arc<str>,
    name: Arc<str>,
    stop: CancellationToken,
    way: Way,
}

#[derive(Clone)]
enum Way {
    /// A key is pasted.
    Key,
    /// A page or a device: a task waits for it.
    Task {
        state: Option<Arc<str>>,
        by_itself: bool,
        input: mpsc::Sender<Secret>,
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
    /// The logins of these providers, each with its name in the configuration and the one for a person.
    pub fn new(
        providers: Vec<(Arc<str>, Arc<str>, KeySource)>,
        credentials: Credentials,
        http: Arc<Http>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { providers, credentials, http, clock, pending: Mutex::default() }
    }

    /// Whether there is a login of that provider.
    pub fn has(&self, provider: &str) -> bool {
        self.providers
            .iter()
            .any(|(id, _, source)| **id == *provider && (source.login.is_some() || source.url.is_some()))
    }

    /// The providers that have a login.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let with = |source: &KeySource| source.login.is_some() || source.url.is_some();
        self.providers.iter().filter(move |(_, _, source)| with(source)).map(|(id, ..)| id)
    }

    /// Begins a login; one that the connection had begun before is given up.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn begin(&self, connection: u64, provider: &str) -> Result<Begun, LoginError> {
        let found = self.providers.iter().find(|(id, ..)| **id == *provider);
        let (id, name, source) = found.ok_or_else(|| {
            let names: Vec<&str> = self.names().map(|name| &**name).collect();
            LoginError::Unknown(format!("There is no provider {provider:?}. Logins: {}.", names.join(", ")))
        })?;
        self.gone(connection);
        let stop = CancellationToken::new();
        let (begun, way) = match (&source.login, &source.url) {
            (Some(login), _) if login.has_page() => self.page(id, name, login, &stop).await?,
            (Some(login), _) => self.device(id, name, login, &stop).await?,
            (None, Some(url)) => (self.begun(id, name, url.clone()), Way::Key),
            (None, None) => {
                let text = format!("{name} has no login: describe one in the configuration under :login.");
                return Err(LoginError::Unknown(text));
            }
        };
        let pending = Pending { provider: id.clone(), name: name.clone(), stop, way };
        self.pending().insert(connection, pending);
        Ok(begun)
    }

    /// The connection's login that waits now.
    ///
    /// # Errors
    /// [`LoginError::NonePending`] where none does.
    pub fn waiting(&self, connection: u64) -> Result<Pending, LoginError> {
        self.pending().get(&connection).cloned().ok_or(LoginError::NonePending)
    }

    /// Completes a login of the connection, with what the person pasted or without: then it waits for the
    /// browser or the device.
    ///
    /// # Errors
    /// See [`LoginError`]. After [`LoginError::Input`] the login still waits.
    pub async fn complete(
        &self,
        connection: u64,
        pending: Pending,
        input: Option<Secret>,
    ) -> Result<(Arc<str>, Arc<str>), LoginError> {
        let ended = match &pending.way {
            Way::Key => {
                let key = input.map(|key| key.expose().trim().to_owned()).filter(|key| !key.is_empty());
                let key = key.filter(|key| key.chars().all(|c| c.is_ascii_graphic()));
                let key = Secret::new(key.ok_or(LoginError::Input("the key"))?);
                keep(&self.credentials, &pending.provider, Kept::Key(key)).await
            }
            Way::Task { state, by_itself, input: sender, outcome } => {
                match input.filter(|input| !input.expose().trim().is_empty()) {
                    None if !by_itself => {
                        return Err(LoginError::Input("the code that the page shows, or its address"));
                    }
                    None => {}
                    Some(text) => {
                        let given = Given::pasted(text.expose());
                        let given =
                            given.ok_or(LoginError::Input("the code that the page shows, or its address"))?;
                        if given.state.is_some() && given.state.as_deref() != state.as_deref() {
                            return Err(LoginError::Input("the code of this login, not of another"));
                        }
                        match given.code {
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
        // Unless it was given up: what is there now is another, which waits on.
        let mut all = self.pending();
        if !pending.stop.is_cancelled()
            && all.get(&connection).is_some_and(|now| {
                now.provider == pending.provider && (ended.is_ok() || matches!(now.way, Way::Task { .. }))
            })
        {
            all.remove(&connection);
        }
        drop(all);
        ended.map(|()| (pending.provider, pending.name))
    }

    /// Forgets a provider's login; says whether there was one.
    ///
    /// # Errors
    /// [`LoginError::Failed`] where it cannot be forgotten.
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

    /// Gives up what a connection had begun.
    pub fn gone(&self, connection: u64) {
        if let Some(pending) = self.pending().remove(&connection) {
            pending.stop.cancel();
        }
    }

    fn begun(&self, id: &Arc<str>, name: &Arc<str>, url: String) -> Begun {
        let (provider, name) = (id.clone(), name.clone());
        Begun { provider, name, url, uses_callback: false, code: None, ends: None, ends_by_itself: false }
    }

    async fn page(
        &self,
        id: &Arc<str>,
        name: &Arc<str>,
        login: &Login,
        stop: &CancellationToken,
    ) -> Result<(Begun, Way), LoginError> {
        let callback = Callback::listen(login.redirect()).await;
        let redirect =
            callback.as_ref().map(|callback| callback.url.clone()).or_else(|| login.redirect().cloned());
        let redirect = redirect.ok_or_else(|| {
            LoginError::Failed("No port is free for the browser to come back to.".to_owned())
        })?;
        let asked = login.ask(redirect).map_err(|error| failed(name, &error))?;
        let by_itself = callback.is_some();
        let begun = Begun {
            uses_callback: by_itself,
            ends_by_itself: by_itself,
            ..self.begun(id, name, asked.url.to_string())
        };
        let state: Arc<str> = asked.state.secret().as_str().into();
        let (input, pasted) = mpsc::channel(1);
        let (login, http, clock) = (login.clone(), self.http.clone(), self.clock.clone());
        let work = async move {
            let Asked { state, verifier, redirect, .. } = asked;
            let code = code(callback, state.secret().clone(), pasted).await?;
            login.exchange(&code, verifier, redirect, &http, clock.as_ref()).await
        };
        let outcome = self.spawn(id, name, stop, work);
        Ok((begun, Way::Task { state: Some(state), by_itself, input, outcome }))
    }

    async fn device(
        &self,
        id: &Arc<str>,
        name: &Arc<str>,
        login: &Login,
        stop: &CancellationToken,
    ) -> Result<(Begun, Way), LoginError> {
        let device: Device =
            login.device(&self.http, self.clock.as_ref()).await.map_err(|error| failed(name, &error))?;
        let begun = Begun {
            code: Some(device.code.clone()),
            ends: Some(device.ends),
            ends_by_itself: true,
            ..self.begun(id, name, device.url.clone())
        };
        let (input, _) = mpsc::channel(1);
        let (login, http, clock) = (login.clone(), self.http.clone(), self.clock.clone());
        let work = async move { login.wait(&device, &http, clock.as_ref()).await };
        let outcome = self.spawn(id, name, stop, work);
        Ok((begun, Way::Task { state: None, by_itself: true, input, outcome }))
    }

    /// Runs what waits for a person, and keeps what it gives.
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
                    Ok(Ok(tokens)) => keep(&credentials, &id, Kept::Tokens(tokens)).await,
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

/// The code, from the browser or from what was pasted, whichever is first.
async fn code(
    callback: Option<Callback>,
    state: String,
    mut pasted: mpsc::Receiver<Secret>,
) -> Result<Secret, OauthError> {
    let browser = async {
        match &callback {
            Some(callback) => callback.wait(&state).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        code = browser => code.map_err(|why| OauthError::Refused(format!("{why}."))),
        Some(code) = pasted.recv() => Ok(code),
        else => Err(OauthError::Refused("it was given up.".to_owned())),
    }
}

async fn keep(credentials: &Credentials, provider: &Arc<str>, kept: Kept) -> Result<(), LoginError> {
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
