//! Commands as clients of the EDN wire: of the engine that has their session, in the daemon or in an editor's bridge, or
//! else of an engine of this program's own. Knows no op but those that find a session.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use edn_bridge::client::{Client, Hello, Refused};
use edn_bridge::config::Settings;
use edn_bridge::limits::REPL_EVENTS;
use edn_bridge::message::SessionId;
use edn_bridge::store::Durability;
use edn_bridge::value::{Map, Owned, Value};
use edn_bridge::wire::transport::socket::{self, Purpose};

use super::served::Own;
use super::{Failure, Options, daemon};

/// A connection, and its engine if that is our own.
pub(super) struct Attached {
    /// The connection.
    pub(super) client: Arc<Client>,
    /// Its events.
    pub(super) events: Receiver<Owned>,
    /// The engine.
    pub(super) own: Option<Own>,
}

impl Attached {
    /// Attaches to the bridge that has the session, else to the newest of the project, else to an engine
    /// of our own, which opens the session from disk.
    pub(super) fn new(
        name: &str,
        settings: Settings,
        durability: Durability,
        session: Option<&str>,
    ) -> Result<Self, Failure> {
        let project = socket::connect(Purpose::Clients, &settings.state_dir, Some(&settings.cwd));
        let elsewhere =
            session.map(|_| socket::connect(Purpose::Clients, &settings.state_dir, None)).unwrap_or_default();
        for socket::RunningProcess { stream, .. } in project.into_iter().chain(elsewhere) {
            let Ok((client, events)) = open(name, stream) else { continue };
            if session.is_none_or(|session| has(&client, session)) {
                return Ok(Self { client: Arc::new(client), events, own: None });
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
            return Ok(Self::talks(Client::connect(stream, &hello)?, Some(own)));
        };
        let daemon = daemon::join(options, &settings, session)?;
        let elsewhere = || socket::connect(Purpose::Clients, &settings.state_dir, None);
        let elsewhere = std::iter::once_with(elsewhere).flatten().map(|process| process.stream);
        for stream in daemon.into_iter().chain(elsewhere) {
            let Ok(opened) = Client::connect(stream, &hello) else { continue };
            if has(&opened.0, session) && switch(&opened.0, session).is_ok() {
                return Ok(Self::talks(opened, None));
            }
        }
        let (own, stream) = Own::start(settings, options.durability())?;
        let opened = Client::connect(stream, &hello)?;
        switch(&opened.0, session).map_err(|refused| Failure::Failed(refused.message))?;
        Ok(Self::talks(opened, Some(own)))
    }

    fn talks((client, events): (Client, Receiver<Owned>), own: Option<Own>) -> Self {
        Self { client: Arc::new(client), events, own }
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

/// Shakes hands. The second part yields the events.
pub(super) fn open(name: &str, stream: UnixStream) -> Result<(Client, Receiver<Owned>), Refused> {
    Client::connect(stream, &hello(name))
}

/// Whether a session is live there.
pub(super) fn has(client: &Client, session: &str) -> bool {
    client.ask("get_state", named(session)).is_ok()
}

/// Moves the connection to a session.
fn switch(client: &Client, session: &str) -> Result<(), Refused> {
    client.ask("switch_session", named(session)).map(drop)
}

fn named(session: &str) -> Owned {
    Value::from(Map::new().with("session-id", session.to_owned()))
}
