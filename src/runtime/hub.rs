//! The connections, and how events reach them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use tokio::sync::watch;

use crate::event::Event;
use crate::interaction::Audience;
use crate::message::SessionId;
use crate::runtime::mailbox::Handle;
use crate::session::{Client, Pressure};

/// All attached connections. The list is replaced, never changed: an event goes out without a lock, so
/// that no client holds up who comes or goes.
#[derive(Default)]
pub struct Hub {
    clients: ArcSwap<Vec<(u64, Arc<dyn Client>)>>,
    events: AtomicU64,
}

impl Hub {
    /// Adds a connection.
    pub fn attach(&self, connection: u64, client: Arc<dyn Client>) {
        self.clients.rcu(|clients| {
            let mut clients = clients.to_vec();
            clients.push((connection, client.clone()));
            clients
        });
    }

    /// Removes a connection.
    pub fn detach(&self, connection: u64) {
        self.clients.rcu(|clients| {
            let rest = clients.iter().filter(|(id, _)| *id != connection);
            rest.cloned().collect::<Vec<_>>()
        });
    }

    /// All connections, in the order in which they came.
    pub fn clients(&self) -> Vec<(u64, Arc<dyn Client>)> {
        self.clients.load().to_vec()
    }

    /// Whether no other connection is attached.
    pub fn is_last(&self, connection: u64) -> bool {
        self.clients.load().iter().all(|(id, _)| *id == connection)
    }

    /// One connection.
    pub fn client(&self, connection: u64) -> Option<Arc<dyn Client>> {
        let clients = self.clients.load();
        clients.iter().find(|(id, _)| *id == connection).map(|(_, client)| client.clone())
    }

    /// Events that were handed to connections.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Hands an event to every connection, without waiting: for snapshots, which replace each other,
    /// and for what one session says rarely.
    pub fn announce(&self, event: &Event) {
        self.events.fetch_add(1, Ordering::Relaxed);
        let clients = self.clients.load_full();
        for (_, client) in clients.iter() {
            let _ = client.deliver(event);
        }
    }

    /// Hands an event to every connection that is `meant`, and says which of them are full: see [`room`].
    pub fn hand_out(&self, event: &Event, meant: impl Fn(u64) -> bool) -> Vec<watch::Receiver<bool>> {
        self.events.fetch_add(1, Ordering::Relaxed);
        let clients = self.clients.load_full();
        let meant = clients.iter().filter(|(connection, _)| meant(*connection));
        let full = meant.filter_map(|(_, client)| match client.deliver(event) {
            Pressure::Fine => None,
            Pressure::Full(full) => Some(full),
        });
        full.collect()
    }
}

/// Waits until those that are full have room again.
pub async fn room(full: Vec<watch::Receiver<bool>>) {
    for mut full in full {
        // An error means that the connection is gone, and with it the reason to wait.
        let _ = full.wait_for(|full| !full).await;
    }
}

/// Those who are asked and told about questions: all connections, each session's in its order.
pub struct Listeners {
    hub: Arc<Hub>,
    sessions: Arc<DashMap<SessionId, Handle>>,
}

impl Listeners {
    /// Of these connections and live sessions.
    pub fn new(hub: Arc<Hub>, sessions: Arc<DashMap<SessionId, Handle>>) -> Self {
        Self { hub, sessions }
    }
}

impl Audience for Listeners {
    /// All connections, in the order in which they came.
    fn clients(&self) -> Vec<(u64, Arc<dyn Client>)> {
        self.hub.clients()
    }

    fn in_order(&self, session: &SessionId, tell: &mut dyn FnMut(Option<u64>)) {
        match self.sessions.get(session).map(|handle| handle.clone()) {
            Some(handle) => handle.in_order(tell),
            None => tell(None),
        }
    }
}
