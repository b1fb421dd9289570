//! What a check needs from the run: it starts servers, joins them and finds out what they can do.
//!
//! Knows requirements and the transcript of one check, but not what it tries.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use edn_codec::{Value, to_string};

use crate::catalogue::Catalogue;
use crate::expression::Form;
use crate::launch::{Config, Launch, Link, Wish};
use crate::peer::{Answer, Peer, Transcript};
use crate::rules::Ledger;
use crate::stop::Stop;
use crate::suite::Need;
use crate::wire::{Wire, client_info};

/// What the checks of one run share.
pub struct Run<'a> {
    /// Starts the servers.
    pub launch: &'a dyn Launch,
    /// How long a check waits for one answer or event.
    pub patience: Duration,
    /// The wire of the servers.
    pub wire: Wire,
    /// The names of the protocol.
    pub catalogue: Rc<Catalogue>,
    /// The findings of the rules.
    pub ledger: Rc<RefCell<Ledger>>,
    /// The server's abilities, requested once.
    pub abilities: OnceCell<Abilities>,
}

/// The server's abilities.
#[derive(Debug)]
pub struct Abilities {
    /// The ops that it serves.
    pub ops: Vec<String>,
    /// Features that it grants if all are requested, or its capabilities.
    features: Vec<String>,
    /// Whether it accepts further clients, once that was tried.
    guests: OnceCell<bool>,
}

/// The environment of one check.
pub struct Probe<'a> {
    run: &'a Run<'a>,
    name: &'a str,
    transcript: Rc<RefCell<Transcript>>,
    notes: RefCell<BTreeSet<String>>,
}

/// The features of the protocol with map frames, for a handshake.
const MAP_FEATURES: [&str; 3] = ["interactor", "replay", "flow-credit"];

impl<'a> Probe<'a> {
    /// The environment of the check of that name.
    pub fn new(run: &'a Run<'a>, name: &'a str) -> Self {
        Self { run, name, transcript: Rc::default(), notes: RefCell::default() }
    }

    /// Starts a server with the model's answers and the user's configuration, and sends nothing.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&self, script: Option<&str>, config: Option<&Config>) -> Result<Peer, Stop> {
        let link = self.run.launch.launch(Wish { script, state: self.name, config });
        link.map(|link| self.peer(link))
            .map_err(|error| Stop::failed(format!("the server does not start: {error}")))
    }

    fn peer(&self, link: Link) -> Peer {
        let run = self.run;
        Peer::new(
            link,
            run.patience,
            run.wire,
            run.catalogue.clone(),
            run.ledger.clone(),
            self.transcript.clone(),
        )
    }

    /// Rewrites the configuration of this check's server.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn configure(&self, config: &Config) -> Result<(), Stop> {
        let written = self.run.launch.configure(self.name, config);
        written.map_err(|error| Stop::failed(format!("the configuration cannot be written: {error}")))
    }

    /// Opens another connection to this check's server and sends nothing.
    ///
    /// # Errors
    /// If that fails. The check does not apply to a server that accepts no further clients.
    pub fn guest(&self) -> Result<Peer, Stop> {
        self.join()?.ok_or_else(|| Stop::NotApplicable("the server lets no further client in".to_owned()))
    }

    fn join(&self) -> Result<Option<Peer>, Stop> {
        let now = Instant::now();
        let deadline = now.checked_add(self.run.patience).unwrap_or(now);
        let link = self.run.launch.join(self.name, deadline);
        let link = link.map_err(|error| Stop::failed(format!("a further client cannot connect: {error}")))?;
        Ok(link.map(|link| self.peer(link)))
    }

    /// Notes this server's behaviour where the contract leaves it open.
    pub fn note(&self, text: String) {
        self.notes.borrow_mut().insert(text);
    }

    /// Why the requirements of a check are not met, if they are not.
    ///
    /// # Errors
    /// If the server does not say what it can do.
    pub fn lacks(&self, needs: &BTreeSet<Need>) -> Result<Option<String>, Stop> {
        let launch = self.run.launch;
        for need in needs {
            let lack = match need {
                Need::Script if !launch.takes_script() => {
                    "the command line has no {script}, so the model cannot be told what to answer".to_owned()
                }
                Need::State if !launch.takes_state() => {
                    "the command line has no {state}, so a second start may not find the same state"
                        .to_owned()
                }
                Need::Config if !launch.takes_config() => {
                    "the command line has no {config}, so the server cannot be told what its user configured"
                        .to_owned()
                }
                Need::Op(op) if !self.abilities()?.ops.contains(op) => {
                    format!("the server does not list the op {op}")
                }
                Need::Feature(feature) if !self.abilities()?.features.contains(feature) => {
                    format!("the server does not grant the feature {feature}")
                }
                Need::Guests if !self.takes_guests()? => {
                    "no socket for further clients appears in run/ of the state folder".to_owned()
                }
                _ => continue,
            };
            return Ok(Some(lack));
        }
        Ok(None)
    }

    /// The server's abilities.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn abilities(&self) -> Result<&Abilities, Stop> {
        if let Some(known) = self.run.abilities.get() {
            return Ok(known);
        }
        let (ops, features) = match self.run.wire {
            Wire::Edn => self.ops()?,
            Wire::Ui => self.methods()?,
        };
        Ok(self.run.abilities.get_or_init(|| Abilities { ops, features, guests: OnceCell::new() }))
    }

    /// What a server of the UI protocol serves: what has a capability says so itself, and the rest is tried.
    fn methods(&self) -> Result<(Vec<String>, Vec<String>), Stop> {
        let mut peer = self.start(None, None)?;
        let (op, params) = Wire::Ui.greeting(Value::Nil);
        let result = peer.ask_ok(op, &to_string(&params))?;
        let capabilities = result.get("server_capabilities").and_then(Value::as_map);
        let is_set = |(name, value): (&Form, &Form)| {
            name.as_keyword().filter(|_| value == &Value::Bool(true)).map(str::to_owned)
        };
        let capabilities: Vec<String> =
            capabilities.into_iter().flat_map(|map| map.iter()).filter_map(is_set).collect();
        let mut ops = Vec::new();
        let catalogue = &self.run.catalogue;
        for op in &catalogue.ops {
            let probe = catalogue.probes.iter().find(|(name, _)| *name == op.name);
            let is_served = match (&op.capability, probe) {
                (Some(capability), _) => capabilities.contains(capability),
                (None, Some((name, params))) => match peer.ask(name, &to_string(params))? {
                    Answer::Error(error) => error.code != "-32601",
                    Answer::Ok(_) => true,
                },
                (None, None) => true,
            };
            ops.extend(is_served.then(|| op.name.clone()));
        }
        Ok((ops, capabilities))
    }

    /// What a server of the EDN wire supports, and the features that it grants.
    fn ops(&self) -> Result<(Vec<String>, Vec<String>), Stop> {
        let mut peer = self.start(None, None)?;
        let mut features = granted(&peer.ask_ok("handshake", &handshake(&MAP_FEATURES))?);
        let mut plists = self.start(None, None)?;
        let id = plists.send("handshake", &handshake(&["plist-frames"]));
        if let Ok(data) = plists.answer_ok(&id) {
            features.extend(granted(&data));
        }
        let refused = peer.ask_error("no_such_op", "{}", "request/op-not-supported")?;
        let ops = texts(refused.frame.get("data").and_then(|data| data.get("supported-ops")));
        Ok((ops, features))
    }

    /// Whether the server accepts further clients. Tried only if a check needs to know, because a server that
    /// does not costs a time-out.
    fn takes_guests(&self) -> Result<bool, Stop> {
        let known = &self.abilities()?.guests;
        if let Some(known) = known.get() {
            return Ok(*known);
        }
        let mut peer = self.start(None, None)?;
        peer.ask_ok("handshake", &handshake(&[]))?;
        let found = self.join()?.is_some();
        Ok(*known.get_or_init(|| found))
    }

    /// The transcript and the notes.
    pub fn finish(self) -> (Vec<String>, Vec<String>) {
        (self.transcript.borrow().show(), self.notes.into_inner().into_iter().collect())
    }
}

/// The params of a handshake of this version, as text.
fn handshake(features: &[&'static str]) -> String {
    to_string(&client_info("1.0", Value::vector(features.iter().copied())))
}

/// The features of a handshake's response.
fn granted(data: &Form) -> Vec<String> {
    texts(data.get("server-info").and_then(|info| info.get("features")))
}

/// The strings of a vector.
fn texts(value: Option<&Form>) -> Vec<String> {
    let items = value.and_then(Value::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
