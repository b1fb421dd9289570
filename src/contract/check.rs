//! The definition of a check, and its environment.
//!
//! A check starts servers, talks to them, and ends with a finding. It keeps no state between runs and shares
//! no server with another check.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::launch::{Config, Launch, Wish};
use super::peer::{Peer, Transcript};
use super::rules::Ledger;
use crate::value::Value;

/// One check.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name, to which obligations are bound: `room.what-is-tried`.
    pub name: &'static str,
    /// What holds if it passes.
    pub about: &'static str,
    /// Its requirements; without them it does not apply.
    pub needs: &'static [Need],
    /// The check itself.
    pub run: fn(&Probe<'_>) -> Result<(), Stop>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A requirement of a check, to the server or the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The check sets the model's answers.
    Script,
    /// The check sets the state folder.
    State,
    /// The check sets the user's configuration.
    Config,
    /// The server accepts further clients, in addition to the one on its pipes.
    Guests,
    /// The server supports the op.
    Op(&'static str),
    /// The server grants the feature.
    Feature(&'static str),
}

/// Why a check ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A requirement failed.
    Failed(String),
    /// The check does not apply to this server.
    NotApplicable(String),
}

impl Stop {
    /// A failed requirement.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}

/// Fails with a message if a condition is false.
pub fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Stop::Failed(why())) }
}

/// The server's abilities, requested once per run.
#[derive(Debug, Clone, Default)]
pub struct Abilities {
    /// `:supported-ops` of the error for an unknown op.
    pub ops: Vec<String>,
    /// Features that it grants if all are requested.
    pub features: Vec<String>,
    /// Whether it accepts further clients, once that was tried.
    pub guests: OnceCell<bool>,
}

/// The environment of a run.
pub struct Probe<'a> {
    launch: &'a dyn Launch,
    patience: Duration,
    name: &'static str,
    abilities: &'a OnceCell<Abilities>,
    ledger: Rc<RefCell<Ledger>>,
    transcript: Rc<RefCell<Transcript>>,
    notes: RefCell<BTreeSet<String>>,
}

impl std::fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The features of the protocol, for a handshake.
pub const ALL_FEATURES: &[&str] = &["interactor", "flow-credit"];

impl<'a> Probe<'a> {
    /// The environment of one check. The checks of a run share `abilities`.
    pub(super) fn new(
        launch: &'a dyn Launch,
        patience: Duration,
        name: &'static str,
        abilities: &'a OnceCell<Abilities>,
        ledger: Rc<RefCell<Ledger>>,
    ) -> Self {
        let transcript = Rc::default();
        Self { launch, patience, name, abilities, ledger, transcript, notes: RefCell::default() }
    }

    /// Starts a server and sends nothing.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&self, script: Option<&str>) -> Result<Peer, Stop> {
        self.start_as(Wish { script, state: self.name, config: None })
    }

    fn start_as(&self, wish: Wish<'_>) -> Result<Peer, Stop> {
        let link = self
            .launch
            .launch(wish)
            .map_err(|error| Stop::failed(format!("the server does not start: {error}")))?;
        Ok(Peer::new(link, self.patience, self.ledger.clone(), self.transcript.clone()))
    }

    /// Starts a server with the model's answers and the user's configuration, shakes hands with a request for
    /// features, and subscribes to every topic.
    ///
    /// # Errors
    /// If one of that fails.
    pub fn configured(&self, script: &str, config: &Config, features: &[&str]) -> Result<Peer, Stop> {
        let wish = Wish { script: Some(script), state: self.name, config: Some(config) };
        let mut peer = self.start_as(wish)?;
        shake_hands(&mut peer, "1.0", features)?;
        peer.ask_ok("subscribe", "{}")?;
        Ok(peer)
    }

    /// Rewrites the configuration of this check's server.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn configure(&self, config: &Config) -> Result<(), Stop> {
        let written = self.launch.configure(self.name, config);
        written.map_err(|error| Stop::failed(format!("the configuration cannot be written: {error}")))
    }

    /// Opens another connection to this check's server and shakes hands with a request for features.
    ///
    /// # Errors
    /// If that fails. The check does not apply to a server that accepts no further clients.
    pub fn guest(&self, features: &[&str]) -> Result<Peer, Stop> {
        let mut peer = self.unready_guest()?;
        shake_hands(&mut peer, "1.0", features)?;
        Ok(peer)
    }

    /// Opens another connection to this check's server and sends nothing.
    ///
    /// # Errors
    /// See [`Probe::guest`].
    pub fn unready_guest(&self) -> Result<Peer, Stop> {
        self.join()?.ok_or_else(|| Stop::NotApplicable("the server lets no further client in".to_owned()))
    }

    fn join(&self) -> Result<Option<Peer>, Stop> {
        let now = Instant::now();
        let deadline = now.checked_add(self.patience).unwrap_or(now);
        let link = self.launch.join(self.name, deadline);
        let link = link.map_err(|error| Stop::failed(format!("a further client cannot connect: {error}")))?;
        Ok(link.map(|link| Peer::new(link, self.patience, self.ledger.clone(), self.transcript.clone())))
    }

    /// Starts a server and shakes hands.
    ///
    /// # Errors
    /// If one of that fails.
    pub fn ready(&self) -> Result<Peer, Stop> {
        self.ready_with(None, &[])
    }

    /// Starts a server with the model's answers, and shakes hands with a request for features.
    ///
    /// # Errors
    /// If one of that fails.
    pub fn ready_with(&self, script: Option<&str>, features: &[&str]) -> Result<Peer, Stop> {
        let mut peer = self.start(script)?;
        shake_hands(&mut peer, "1.0", features)?;
        Ok(peer)
    }

    /// Like [`Probe::ready_with`], and subscribes to every topic.
    ///
    /// # Errors
    /// If one of that fails.
    pub fn subscribed(&self, script: Option<&str>) -> Result<Peer, Stop> {
        let mut peer = self.ready_with(script, &[])?;
        peer.ask_ok("subscribe", "{}")?;
        Ok(peer)
    }

    /// Notes this server's behaviour where the contract leaves it open.
    pub fn note(&self, text: impl Into<String>) {
        self.notes.borrow_mut().insert(text.into());
    }

    /// Why the requirements of a check are not met, if they are not.
    pub(super) fn lacks(&self, needs: &[Need]) -> Result<Option<String>, Stop> {
        for need in needs {
            let lack = match need {
                Need::Script if !self.launch.takes_script() => Some(
                    "the command line has no {script}, so the model cannot be told what to answer".to_owned(),
                ),
                Need::State if !self.launch.takes_state() => Some(
                    "the command line has no {state}, so a second start may not find the same state"
                        .to_owned(),
                ),
                Need::Config if !self.launch.takes_config() => Some(
                    "the command line has no {config}, so the server cannot be told what its user configured"
                        .to_owned(),
                ),
                Need::Guests if !self.takes_guests()? => {
                    Some("no socket for further clients appears in run/ of the state folder".to_owned())
                }
                Need::Op(op) if !self.abilities()?.ops.iter().any(|name| name == op) => {
                    Some(format!("the server does not list the op {op}"))
                }
                Need::Feature(feature) if !self.abilities()?.features.iter().any(|name| name == feature) => {
                    Some(format!("the server does not grant the feature {feature}"))
                }
                _ => None,
            };
            if lack.is_some() {
                return Ok(lack);
            }
        }
        Ok(None)
    }

    /// The server's abilities.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn abilities(&self) -> Result<&Abilities, Stop> {
        if let Some(found) = self.abilities.get() {
            return Ok(found);
        }
        let mut peer = self.start(None)?;
        let data = shake_hands(&mut peer, "1.0", ALL_FEATURES)?;
        let mut features = texts(data.get("server-info").and_then(|info| info.get("features")));
        let mut plists = self.start(None)?;
        let id = plists.new_id();
        plists.send_as(&id, "handshake", &client_info("1.0", &["plist-frames"]));
        if let Ok(data) = plists.answer_ok(&id) {
            features.extend(texts(data.get("server-info").and_then(|info| info.get("features"))));
        }
        let refused = peer.ask_error("no_such_op", "{}", "request/op-not-supported")?;
        let ops = texts(refused.frame.get("data").and_then(|data| data.get("supported-ops")));
        Ok(self.abilities.get_or_init(|| Abilities { ops, features, guests: OnceCell::new() }))
    }

    /// Whether the server accepts further clients. Tried only if a check needs to know, because a server that
    /// does not costs a time-out.
    fn takes_guests(&self) -> Result<bool, Stop> {
        let known = &self.abilities()?.guests;
        if let Some(known) = known.get() {
            return Ok(*known);
        }
        let mut peer = self.start(None)?;
        shake_hands(&mut peer, "1.0", &[])?;
        let found = self.join()?.is_some();
        Ok(*known.get_or_init(|| found))
    }

    /// The transcript and the notes.
    pub(super) fn finish(self) -> (Vec<String>, Vec<String>) {
        (self.transcript.borrow().show(), self.notes.into_inner().into_iter().collect())
    }
}

/// Shakes hands and returns the response's `:data`.
///
/// # Errors
/// If the answer is not a response.
pub fn shake_hands(peer: &mut Peer, version: &str, features: &[&str]) -> Result<Value<'static>, Stop> {
    peer.ask_ok("handshake", &client_info(version, features))
}

/// The params of a handshake.
pub fn client_info(version: &str, features: &[&str]) -> String {
    format!(
        "{{:client-info {{:name \"contract\" :version \"1\" :protocol-version {version:?} :features {features:?}}}}}"
    )
}

/// The strings of a vector.
pub fn texts(value: Option<&Value<'_>>) -> Vec<String> {
    let items = value.and_then(Value::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A string under a key, or an empty one.
pub fn text<'v>(value: &'v Value<'_>, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
