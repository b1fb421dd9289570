//! The connections, and how events reach them.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::event::Event;
use crate::interaction::Audience;
use crate::session::{Client, Pressure};

/// All attached connections.
#[derive(Default)]
pub struct Hub {
    clients: RwLock<Vec<(u64, Arc<dyn Client>)>>,
}

impl Hub {
    /// Adds a connection.
    pub fn attach(&self, connection: u64, client: Arc<dyn Client>) {
        self.clients.write().unwrap_or_else(PoisonError::into_inner).push((connection, client));
    }

    /// Removes a connection.
    pub fn detach(&self, connection: u64) {
        let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(id, _)| *id != connection);
    }

    /// Whether no other connection is attached.
    pub fn is_last(&self, connection: u64) -> bool {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        clients.iter().all(|(id, _)| *id == connection)
    }

    /// One connection.
    pub fn client(&self, connection: u64) -> Option<Arc<dyn Client>> {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        clients.iter().find(|(id, _)| *id == connection).map(|(_, client)| client.clone())
    }

    /// Hands an event to every connection, without waiting: for snapshots, which replace each other,
    /// and for what one session says rarely.
    pub fn announce(&self, event: &Event) {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        for (_, client) in clients.iter() {
            let _ = client.deliver(event);
        }
    }

    /// Hands an event to every connection, and says which of them are full: see [`room`].
    pub fn hand_out(&self, event: &Event) -> Vec<watch::Receiver<bool>> {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        let full = clients.iter().filter_map(|(_, client)| match client.deliver(event) {
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

impl Audience for Hub {
    /// All connections, in the order in which they came.
    fn clients(&self) -> Vec<(u64, Arc<dyn Client>)> {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
