//! Keys and logins: the source of a provider's secret.
//!
//! A key comes from the user's command, from the system's secret store, from a login, or from the
//! environment, in this order: explicit configuration wins over the environment. Knows where secrets are kept
//! and how they are renewed; does not know their purpose.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::environment::{Environment, Variables};
use crate::files::Seal;
use crate::http::Http;
use crate::limits::{OBTAINED_KEYS, TOKEN_EARLY};
use crate::secret::Secret;

mod callback;
mod command;
pub mod credentials;
mod login;
mod oauth;

pub use command::{KeyError, run as printed_by};
pub use credentials::{Credentials, ProviderEntry};
pub use login::{ForeignLogin, LoginError, LoginStep, Logins, Pending, StartedLogin};
pub use oauth::{Login, call as exchange};

/// The possible sources of a provider's key.
#[derive(Debug, Clone, Default)]
pub struct KeySource {
    /// Environment variables; the first one that is set counts.
    pub variables: Vec<String>,
    /// A command that prints it.
    pub command: Option<Vec<String>>,
    /// Whether it is in the system's secret store.
    pub store: bool,
    /// The page where a person gets one.
    pub url: Option<String>,
    /// The login of the provider.
    pub login: Option<Login>,
    /// Where the variables stand, and what the commands get.
    pub environment: Environment,
    /// The files that the commands name, as they must be when these run.
    pub seal: Seal,
}

impl KeySource {
    /// Reads variables from this environment, and runs commands with it.
    pub fn read_from(&mut self, environment: &Environment) {
        self.environment = environment.clone();
        if let Some(login) = &mut self.login {
            login.environment = environment.clone();
        }
    }

    /// Runs the commands only while the files that they name are as they were.
    pub fn sealed_by(&mut self, seal: &Seal) {
        self.seal = seal.clone();
        if let Some(login) = &mut self.login {
            login.seal = seal.clone();
        }
    }
}

/// Where the key of a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// Nowhere.
    None,
    /// None is needed.
    NotNeeded,
    /// A source that the configuration names: `:key-command` or `:key-store`.
    Configured(&'static str),
    /// A login.
    Login,
    /// A variable of the environment, by its name.
    Variable(String),
}

/// The credential for a server.
#[derive(Debug, Clone)]
pub enum Credential {
    /// None: the server needs none.
    None,
    /// A key.
    Key(Secret),
    /// A token of a login.
    Token(Secret),
}

/// The key of one provider.
#[derive(Clone)]
pub struct Keys(Arc<Shared>);

struct Shared {
    provider: Arc<str>,
    name: Arc<str>,
    source: KeySource,
    credentials: Credentials,
    http: Arc<Http>,
    clock: Arc<dyn Clock>,
    /// The keys from the command or the secret store, newest last, so that each runs once for an environment.
    obtained: Mutex<Vec<(Option<Variables>, Secret)>>,
    /// Serialises slow requests for a key.
    asking: tokio::sync::Mutex<()>,
}

impl Keys {
    /// The key of a provider, by its name in the configuration and its name for people. Searches nothing yet.
    pub fn new(
        provider: Arc<str>,
        name: Arc<str>,
        source: KeySource,
        credentials: Credentials,
        http: Arc<Http>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Arc::new(Shared {
            provider,
            name,
            source,
            credentials,
            http,
            clock,
            obtained: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }))
    }

    /// Whether there is a key or a configured source, or none is needed. Runs no command.
    pub fn are_there(&self) -> bool {
        self.place(None, || self.is_logged_in()) != KeyPlace::None
    }

    /// Whether a command or the system's secret store gives the key: the source stands for the account, because the key may
    /// change.
    pub fn are_obtained(&self) -> bool {
        self.0.source.command.is_some() || self.0.source.store
    }

    /// Whether the provider has a login.
    fn is_logged_in(&self) -> bool {
        self.0.credentials.has(&self.0.provider)
    }

    /// Where the key is, in the order of [`Keys::get`], for whoever has variables of their own. Runs no command.
    pub fn place(&self, own: Option<Variables>, is_logged_in: impl FnOnce() -> bool) -> KeyPlace {
        let source = &self.0.source;
        if source.command.is_some() {
            return KeyPlace::Configured(":key-command");
        }
        if source.store {
            return KeyPlace::Configured(":key-store");
        }
        if is_logged_in() {
            return KeyPlace::Login;
        }
        match self.variable(&source.environment.with(own)) {
            Some((name, _)) => KeyPlace::Variable(name.clone()),
            None if self.is_free() => KeyPlace::NotNeeded,
            None => KeyPlace::None,
        }
    }

    /// The source of the key, in the order of [`Keys::get`]; `None` if there is none or none is needed. Runs
    /// no command.
    pub fn origin(&self) -> Option<String> {
        match self.place(None, || self.is_logged_in()) {
            KeyPlace::None | KeyPlace::NotNeeded => None,
            KeyPlace::Configured(key) => Some(key.to_owned()),
            KeyPlace::Login => Some(format!("/login {}", self.0.provider)),
            KeyPlace::Variable(name) => Some(name),
        }
    }

    /// The key.
    ///
    /// `again` means that the server refused the last key: it is then renewed or requested again, if
    /// possible. `own` are the variables of whoever needs it, if there are any.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub async fn get(&self, again: bool, own: Option<Variables>) -> Result<Credential, KeyError> {
        let source = &self.0.source;
        let environment = source.environment.with(own);
        if source.command.is_some() || source.store {
            return self.ask(again, &environment).await.map(Credential::Key);
        }
        match self.kept().await? {
            Some(ProviderEntry::Key(key)) => return Ok(Credential::Key(key)),
            Some(ProviderEntry::Tokens(tokens)) => {
                if !again && !tokens.ends_within(self.0.clock.now(), TOKEN_EARLY) {
                    return Ok(Credential::Token(tokens.access));
                }
                return self.renew(&tokens.access).await.map(Credential::Token);
            }
            None => {}
        }
        match self.variable(&environment) {
            Some((_, key)) => Ok(Credential::Key(key)),
            None if self.is_free() => Ok(Credential::None),
            None => Err(KeyError::Missing(format!("There is no key for {}. {}", self.0.name, self.advice()))),
        }
    }

    /// How a person can provide a key.
    pub fn advice(&self) -> String {
        let source = &self.0.source;
        let mut ways = Vec::new();
        if source.command.is_some() {
            ways.push("check what its :key-command prints".to_owned());
        } else if source.store {
            ways.push("check its entry in the system's secret store".to_owned());
        } else {
            if let Some(variable) = source.variables.first() {
                ways.push(format!("set {variable}"));
            }
            ways.push("set :key-command in the configuration".to_owned());
            if source.login.is_some() || source.url.is_some() {
                let name = &self.0.provider;
                ways.push(format!(
                    "log in with /login {name}, on the command line with edn-bridge login {name}"
                ));
            }
        }
        let mut text = ways.join(", or ");
        if let Some(first) = text.get(..1).map(str::to_uppercase) {
            text.replace_range(..1, &first);
        }
        format!("{text}.")
    }

    /// Whether the provider has no key source and therefore needs no key.
    fn is_free(&self) -> bool {
        let source = &self.0.source;
        source.variables.is_empty() && source.login.is_none() && source.url.is_none()
    }

    /// The first variable that is set, and its key.
    fn variable(&self, environment: &Environment) -> Option<(&String, Secret)> {
        self.0.source.variables.iter().find_map(|name| {
            let key = environment.get(name).filter(|key| !key.trim().is_empty())?;
            Some((name, Secret::new(key.trim().to_owned())))
        })
    }

    /// Runs the command or reads the secret store, once for an environment.
    async fn ask(&self, again: bool, environment: &Environment) -> Result<Secret, KeyError> {
        let variables = environment.variables();
        let obtained = || {
            let all = self.0.obtained.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().find(|(known, _)| *known == variables).map(|(_, key)| key.clone())
        };
        let before = obtained();
        if let (Some(key), false) = (&before, again) {
            return Ok(key.clone());
        }
        let _one = self.0.asking.lock().await;
        // Another caller may have got the key meanwhile.
        if let Some(key) =
            obtained().filter(|key| before.as_ref().is_none_or(|old| old.expose() != key.expose()))
        {
            return Ok(key);
        }
        let source = &self.0.source;
        let key = match &source.command {
            Some(command) => {
                let setting = format!(":key-command of {}", self.0.name);
                command::run(command, &source.seal, &setting, environment).await
            }
            None => command::secret_store(&self.0.provider, &self.0.name, environment).await,
        }?;
        let mut all = self.0.obtained.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| *known != variables);
        let over = all.len().saturating_add(1).saturating_sub(OBTAINED_KEYS);
        all.drain(..over);
        all.push((variables, key.clone()));
        Ok(key)
    }

    async fn kept(&self) -> Result<Option<ProviderEntry>, KeyError> {
        let (credentials, provider) = (self.0.credentials.clone(), self.0.provider.clone());
        let read = tokio::task::spawn_blocking(move || credentials.get(&provider)).await;
        match read {
            Ok(Ok(kept)) => Ok(kept),
            Ok(Err(error)) => Err(KeyError::Missing(error.to_string())),
            Err(_) => Ok(None),
        }
    }

    /// Renews a login's tokens, unless another process has done so meanwhile.
    async fn renew(&self, old: &Secret) -> Result<Secret, KeyError> {
        let _one = self.0.asking.lock().await;
        let (credentials, provider) = (self.0.credentials.clone(), self.0.provider.clone());
        let locked = tokio::task::spawn_blocking(move || {
            let lock = credentials.lock()?;
            let kept = credentials.get(&provider)?;
            Ok::<_, credentials::CredentialsError>((lock, kept))
        });
        let failed = |error: String| KeyError::Missing(error);
        let (lock, kept) = match locked.await {
            Ok(locked) => locked.map_err(|error| failed(error.to_string()))?,
            Err(error) => return Err(KeyError::Passing(error.to_string())),
        };
        let Some(ProviderEntry::Tokens(tokens)) = kept else {
            return Err(failed(format!("The login at {} was ended. {}", self.0.name, self.advice())));
        };
        if tokens.access.expose() != old.expose() {
            return Ok(tokens.access);
        }
        let (Some(login), Some(refresh)) = (&self.0.source.login, &tokens.refresh) else {
            return Err(failed(format!("The login at {} has ended. {}", self.0.name, self.advice())));
        };
        let fresh = match login.refresh(refresh, &self.0.http, self.0.clock.as_ref()).await {
            Ok(fresh) => fresh,
            Err(oauth::OauthError::Passing(why)) => {
                return Err(KeyError::Passing(format!("its login could not be renewed: {why}")));
            }
            Err(oauth::OauthError::Refused(why)) => {
                return Err(failed(format!(
                    "The login at {} could not be renewed: {why} {}",
                    self.0.name,
                    self.advice()
                )));
            }
        };
        let access = fresh.access.clone();
        let (credentials, provider) = (self.0.credentials.clone(), self.0.provider.clone());
        let written = tokio::task::spawn_blocking(move || {
            credentials.put_locked(&lock, &provider, ProviderEntry::Tokens(fresh))
        });
        match written.await {
            Ok(Ok(())) => Ok(access),
            // This call can use it, even if no other can.
            Ok(Err(error)) => {
                tracing::error!(%error, "the renewed login could not be saved");
                Ok(access)
            }
            Err(error) => Err(KeyError::Passing(error.to_string())),
        }
    }
}
