//! The connections, and the delivery of events to them. Does not know what an event means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::event::Event;
use crate::limits::{SLEEPING_CLIENT, SLOW_CLIENT};
use crate::message::SessionId;
use crate::session::{Client, Pressure};

/// All attached connections. The list is replaced, never modified: events are sent without a lock, so that no
/// client delays others that connect or leave.
#[derive(Default)]
pub struct Hub {
    clients: ArcSwap<Vec<(u64, Arc<dyn Client>)>>,
    events: AtomicU64,
    /// Whether turns go on without clients.
    outlives_clients: bool,
}

impl Hub {
    /// The clients of an engine that outlives them: a client that sleeps holds up no turn, though nobody else is there.
    pub fn of_many() -> Self {
        Self { outlives_clients: true, ..Self::default() }
    }

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

    /// All connections, oldest first.
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

    /// The number of events that went to connections.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Sends an event to every connection without waiting: for snapshots, which replace each other, and for
    /// rare events of a session.
    pub fn announce(&self, event: &Event) {
        self.events.fetch_add(1, Ordering::Relaxed);
        let clients = self.clients.load_full();
        for (_, client) in clients.iter() {
            let _ = client.deliver(event);
        }
    }

    /// Sends an event to every connection among the recipients, and returns the connections that are full;
    /// see [`Hub::room`].
    pub fn hand_out(&self, event: &Event, is_recipient: impl Fn(u64) -> bool) -> Vec<Full> {
        self.events.fetch_add(1, Ordering::Relaxed);
        let clients = self.clients.load_full();
        let recipients = clients.iter().filter(|(connection, _)| is_recipient(*connection));
        let full = recipients.filter_map(|(connection, client)| match client.deliver(event) {
            Pressure::Fine => None,
            Pressure::Full(full) => Some(Full {
                connection: *connection,
                client: client.clone(),
                full,
                session: event.session.clone(),
            }),
        });
        full.collect()
    }

    /// Waits until all full outboxes have room. If another client of the session or of all sessions has room,
    /// waits at most [`SLOW_CLIENT`] and marks the full ones as behind, so that one stalled client stalls
    /// only its own turn. Where the engine outlives its clients, not even that for longer than [`SLEEPING_CLIENT`].
    pub async fn room(&self, full: Vec<Full>) {
        let mut waited = Duration::ZERO;
        loop {
            let all = async {
                for one in &full {
                    // An error means that the connection is gone, and with it the reason to wait.
                    let _ = one.full.clone().wait_for(|full| !full).await;
                }
            };
            if tokio::time::timeout(SLOW_CLIENT, all).await.is_ok() {
                return;
            }
            waited = waited.saturating_add(SLOW_CLIENT);
            let still = || full.iter().filter(|one| *one.full.borrow());
            let waits = |(id, client): &(u64, Arc<dyn Client>)| {
                still().all(|one| one.connection != *id && client.watches(one.session.as_ref()))
                    && !client.is_behind()
            };
            let is_asleep = self.outlives_clients && waited >= SLEEPING_CLIENT;
            if is_asleep || self.clients.load().iter().any(waits) {
                return still().for_each(|one| one.client.fall_behind());
            }
        }
    }
}

/// A connection with a full outbox.
pub struct Full {
    connection: u64,
    client: Arc<dyn Client>,
    /// Whether it is still full.
    full: watch::Receiver<bool>,
    /// The session of the event that has filled it.
    session: Option<SessionId>,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::event::Body;

    /// A client that can be full.
    struct Slow {
        watches: bool,
        full: watch::Sender<bool>,
        behind: AtomicBool,
    }

    impl Slow {
        fn new(full: bool) -> Arc<Self> {
            Self::watching(true, full)
        }

        fn watching(watches: bool, full: bool) -> Arc<Self> {
            Arc::new(Self { watches, full: watch::Sender::new(full), behind: AtomicBool::new(false) })
        }
    }

    impl Client for Slow {
        fn watches(&self, _: Option<&SessionId>) -> bool {
            self.watches
        }

        fn lists_sessions(&self) -> bool {
            false
        }

        fn deliver(&self, _: &Event) -> Pressure {
            if *self.full.borrow() { Pressure::Full(self.full.subscribe()) } else { Pressure::Fine }
        }

        fn fall_behind(&self) {
            self.behind.store(true, Ordering::Relaxed);
            self.full.send_replace(false);
        }

        fn is_behind(&self) -> bool {
            self.behind.load(Ordering::Relaxed)
        }

        fn focus(&self, _: SessionId) {}

        fn focused(&self) -> SessionId {
            SessionId::from("s")
        }

        fn is_interactor(&self) -> bool {
            false
        }

        fn close(&self) {}
    }

    fn hub(clients: &[&Arc<Slow>]) -> Hub {
        let hub = Hub::default();
        for (place, client) in clients.iter().enumerate() {
            hub.attach(u64::try_from(place).unwrap(), (*client).clone());
        }
        hub
    }

    /// Waits like a turn after an event; the clock advances while everybody waits.
    async fn after_an_event(hub: &Hub) -> Duration {
        let body = Body::AssistantDelta("x".into());
        let event =
            Event { session: None, offset: 0, turn: None, entry: None, cause: None, piece: None, body };
        let begun = tokio::time::Instant::now();
        hub.room(hub.hand_out(&event, |_| true)).await;
        begun.elapsed()
    }

    /// Checks that `slow`, which has room after an hour, is awaited and does not fall behind.
    async fn waited_for(slow: &Arc<Slow>, hub: &Hub) {
        let room = async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            slow.full.send_replace(false);
        };
        let (waited, ()) = tokio::join!(after_an_event(hub), room);
        assert!(waited >= Duration::from_secs(3600), "{waited:?}");
        assert!(!slow.is_behind());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_alone_is_waited_for_as_long_as_it_takes() {
        let slow = Slow::new(true);
        waited_for(&slow, &hub(&[&slow])).await;
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_sleeps_is_left_behind_by_a_daemon() {
        let slow = Slow::new(true);
        let daemons = Hub { outlives_clients: true, ..hub(&[&slow]) };
        assert_eq!(after_an_event(&daemons).await, SLEEPING_CLIENT);
        assert!(slow.is_behind());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_subscribed_to_nothing_does_not_wait_for_the_turn() {
        let (slow, indifferent) = (Slow::new(true), Slow::watching(false, false));
        waited_for(&slow, &hub(&[&slow, &indifferent])).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_behind_does_not_wait_for_the_turn() {
        let (slow, behind) = (Slow::new(true), Slow::new(false));
        behind.fall_behind();
        waited_for(&slow, &hub(&[&slow, &behind])).await;
    }

    #[tokio::test(start_paused = true)]
    async fn while_another_has_room_who_is_slow_is_left_behind_soon() {
        let (slow, quick) = (Slow::new(true), Slow::new(false));
        assert_eq!(after_an_event(&hub(&[&slow, &quick])).await, SLOW_CLIENT);
        assert!(slow.is_behind() && !quick.is_behind());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_room_again_in_time_is_not_left_behind() {
        let (slow, quick) = (Slow::new(true), Slow::new(false));
        let hub = hub(&[&slow, &quick]);
        let room = async {
            tokio::time::sleep(SLOW_CLIENT / 2).await;
            slow.full.send_replace(false);
        };
        let (waited, ()) = tokio::join!(after_an_event(&hub), room);
        assert_eq!(waited, SLOW_CLIENT / 2);
        assert!(!slow.is_behind());
    }

    #[tokio::test(start_paused = true)]
    async fn other_full_client_falls_behind_when_one_reads_again() {
        let (one, other) = (Slow::new(true), Slow::new(true));
        let hub = hub(&[&one, &other]);
        let room = async {
            tokio::time::sleep(SLOW_CLIENT * 5 / 2).await;
            one.full.send_replace(false);
        };
        let (waited, ()) = tokio::join!(after_an_event(&hub), room);
        assert_eq!(waited, SLOW_CLIENT * 3);
        assert!(!one.is_behind() && other.is_behind());
    }
}
