//! Commands as clients of the EDN wire: of the engine that has their session, in the daemon or in an editor's bridge, or
//! else of an engine of this program's own. Knows no op but those that find a session.

use std::fmt::Display;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use edn_bridge::client::{Client, Hello, Refused};
use edn_bridge::config::Settings;
use edn_bridge::limits::{BRIDGE_PATIENCE, REPL_EVENTS};
use edn_bridge::message::SessionId;
use edn_bridge::store::Durability;
use edn_bridge::value::{Map, Owned, Value};
use edn_bridge::wire::transport::socket::{self, Purpose, RunningProcess};

use super::failure::Failure;
use super::options::Options;
use super::served::Own;
use super::{daemon, out};

/// A connection, and its engine if that is our own.
pub(super) struct EngineClient {
    /// The connection.
    pub(super) client: Arc<Client>,
    /// Its events.
    pub(super) events: Receiver<Owned>,
    /// The engine.
    pub(super) own: Option<Own>,
}

impl EngineClient {
    /// Attaches to the bridge that has the session, else to the newest of the project, else to an engine
    /// of our own, which opens the session from disk.
    pub(super) fn new(
        name: &str,
        settings: Settings,
        durability: Durability,
        session: Option<&str>,
    ) -> Result<Self, Failure> {
        let project = socket::connect(Purpose::Clients, &settings.state_dir, Some(&settings.cwd));
        let mut elsewhere =
            session.map(|_| socket::connect(Purpose::Clients, &settings.state_dir, None)).unwrap_or_default();
        elsewhere.retain(|process| project.iter().all(|known| known.path != process.path));
        for RunningProcess { path, stream } in project.into_iter().chain(elsewhere) {
            let Some(bridge) = Running::reach(&hello(name), stream, path.display()) else { continue };
            if session.is_none_or(|session| bridge.has(session)) {
                return Ok(bridge.attached());
            }
        }
        let (own, stream) = Own::start(settings, durability)?;
        let (client, events) = open(name, stream)?;
        if let Some(session) = session {
            switch(&client, session)?;
        }
        Ok(Self { client: Arc::new(client), events, own: Some(own) })
    }

    /// A conversation, which has all of its events. In a session that somebody has open it takes place there: in the daemon
    /// with this process's variables, in an editor's bridge with those of the editor. Else an engine of our own has it.
    pub(super) fn talking(
        name: &str,
        options: &Options,
        settings: Settings,
        session: Option<&SessionId>,
        features: &[&str],
    ) -> Result<Self, Failure> {
        let hello = Hello { features, kept_events: None, ..hello(name) };
        let Some(session) = session.map(SessionId::as_str) else {
            let (own, stream) = Own::start(settings, options.durability())?;
            return Ok(Self::talks(Client::connect(stream, &hello)?, own));
        };
        let daemon = daemon::join(options, &settings, Some(session))?;
        let elsewhere = || socket::connect(Purpose::Clients, &settings.state_dir, None);
        let elsewhere = std::iter::once_with(elsewhere).flatten();
        let elsewhere = elsewhere.map(|process| (process.stream, process.path.display().to_string()));
        for (stream, place) in
            daemon.map(|stream| (stream, "the daemon".to_owned())).into_iter().chain(elsewhere)
        {
            let Some(bridge) = Running::reach(&hello, stream, place) else { continue };
            if bridge.has(session) && switch(&bridge.client, session).is_ok() {
                return Ok(bridge.attached());
            }
        }
        let (own, stream) = Own::start(settings.clone(), options.durability())?;
        let opened = Client::connect(stream, &hello)?;
        let Err(refused) = switch(&opened.0, session) else { return Ok(Self::talks(opened, own)) };
        Self::talks(opened, own).end();
        // A session of the realm is opened by the process that is in it.
        let Some(bridge) = Running::in_realm(&hello, options, &settings)? else {
            return Err(Failure::Failed(refused.message));
        };
        switch(&bridge.client, session).map_err(|refused| Failure::Failed(refused.message))?;
        Ok(bridge.attached())
    }

    fn talks((client, events): (Client, Receiver<Owned>), own: Own) -> Self {
        Self { client: Arc::new(client), events, own: Some(own) }
    }

    pub(super) fn end(self) {
        drop((self.client, self.events));
        if let Some(own) = self.own {
            own.end();
        }
    }
}

/// How a command introduces itself.
pub(super) const fn hello(name: &str) -> Hello<'_> {
    Hello { name, version: env!("CARGO_PKG_VERSION"), features: &[], kept_events: Some(REPL_EVENTS) }
}

/// Shakes hands with an engine of our own. The second part yields the events.
pub(super) fn open(name: &str, stream: UnixStream) -> Result<(Client, Receiver<Owned>), Refused> {
    Client::connect(stream, &hello(name))
}

/// A connection to a bridge of another process.
pub(super) struct Running {
    /// The connection.
    pub(super) client: Client,
    /// Its events.
    pub(super) events: Receiver<Owned>,
    place: String,
}

impl Running {
    /// Shakes hands. `None` if the bridge has gone, speaks another version, or does not answer, which is said.
    pub(super) fn reach(hello: &Hello<'_>, stream: UnixStream, place: impl Display) -> Option<Self> {
        let place = place.to_string();
        match Client::connect_within(stream, hello, BRIDGE_PATIENCE) {
            Ok((client, events)) => Some(Self { client, events, place }),
            Err(refused) => {
                say_if_late(&refused, &place);
                None
            }
        }
    }

    /// The one that speaks for this machine in its realm: the daemon, or an editor's bridge. `None` where no realm is
    /// configured, or none of them is in it.
    pub(super) fn in_realm(
        hello: &Hello<'_>,
        options: &Options,
        settings: &Settings,
    ) -> Result<Option<Self>, Failure> {
        if settings.realm.is_none() {
            return Ok(None);
        }
        let daemon = daemon::join(options, settings, None)?.map(|stream| (stream, "the daemon".to_owned()));
        let bridges = socket::connect(Purpose::Clients, &settings.state_dir, None);
        let bridges = bridges.into_iter().map(|process| (process.stream, process.path.display().to_string()));
        let mut bridges = daemon.into_iter().chain(bridges);
        Ok(bridges.find_map(|(stream, place)| {
            Self::reach(hello, stream, place).filter(|bridge| is_in_realm(&bridge.client))
        }))
    }

    /// Whether a session is live there.
    pub(super) fn has(&self, session: &str) -> bool {
        let answer = self.client.ask_within("get_state", named(session), BRIDGE_PATIENCE);
        answer.inspect_err(|refused| say_if_late(refused, &self.place)).is_ok()
    }

    fn attached(self) -> EngineClient {
        EngineClient { client: Arc::new(self.client), events: self.events, own: None }
    }
}

/// Whether the process behind a connection is in the realm.
pub(super) fn is_in_realm(client: &Client) -> bool {
    let query = Map::new().with("query", "[:psi.realm/host]".to_owned());
    let answer = client.ask_within("query_eql", Value::from(query), BRIDGE_PATIENCE).ok();
    let host = |answer: &Owned| answer.get("result")?.get("psi.realm/host")?.as_str().map(drop);
    answer.as_ref().and_then(host).is_some()
}

/// Says which bridge does not answer: a stopped one is passed over.
fn say_if_late(refused: &Refused, place: &str) {
    if refused.code.is_empty() && refused.is_retryable {
        let _ = writeln!(out::stderr(), "edn-bridge: a bridge does not answer, and is passed over: {place}");
    }
}

/// Moves the connection to a session.
fn switch(client: &Client, session: &str) -> Result<(), Refused> {
    client.ask("switch_session", named(session)).map(drop)
}

fn named(session: &str) -> Owned {
    Value::from(Map::new().with("session-id", session.to_owned()))
}
