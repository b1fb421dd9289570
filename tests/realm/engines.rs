//! The servers that a realm can be kept in, as tests see them.

use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;

use edn_bridge::message::SessionId;
use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{HostId, Realm, connect};
use edn_bridge::secret::Secret;
use rustix::process::{Pid, Signal, kill_process};

use crate::promises::host;

/// A server of a test's own, which ends with it.
pub trait Engine: Sized {
    /// One with a realm; `None` if its program is not installed, which is said.
    fn start() -> Option<Self>;

    fn port(&self) -> u16;

    /// Its address, by way of another port of this machine.
    fn url_at(&self, port: u16) -> Secret;

    /// Starts it again, and waits until it answers.
    fn begin(&mut self);

    /// Kills it as a power failure would, apart from the system's own memory.
    fn kill(&mut self);

    /// Ends it in good order.
    fn stop(&mut self);

    /// Its first process. It runs.
    fn process(&self) -> &Child;

    /// Has all of it stand still until what this returns is dropped.
    fn pause(&self) -> Paused {
        let first = Pid::from_child(self.process());
        let mut paused = Paused(vec![first]);
        kill_process(first, Signal::STOP).unwrap();
        // One that stands still starts no more.
        let children =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", first.as_raw_nonzero()));
        let children = children.unwrap();
        paused.0.extend(children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        for &child in &paused.0[1..] {
            // It may have ended just before.
            let _ = kill_process(child, Signal::STOP);
        }
        paused
    }

    /// Whether nothing of a deleted session is left but that it was deleted.
    fn is_gone(&self, session: &SessionId) -> bool;

    /// Asserts that the entries of a session follow each other, and that each is there once.
    fn assert_whole(&self, session: &str);

    /// Asks a host something about `s-1`. No hint tells of it.
    fn put_request(&self, id: &str, host: &str);

    /// What a request about `s-1` is answered with; nothing, if it is not answered.
    fn answer_of(&self, id: &str) -> String;

    /// Has a session changed. No hint tells of it.
    fn change(&self, session: &str);

    /// Has a host's lease be over, as if the engine's clock had jumped ahead. No hint tells of it.
    fn end_lease(&self, host: &str);

    /// Where it keeps everything.
    fn store(&self) -> PathBuf;

    fn url(&self) -> Secret {
        self.url_at(self.port())
    }

    /// A host that has not entered the realm.
    fn realm(&self, me: HostId) -> Arc<dyn Realm> {
        connect(&self.url(), me, "test", LeaseTerms::default()).unwrap()
    }

    /// A host that has entered the realm.
    async fn host(&self, name: &str) -> Arc<dyn Realm> {
        self.host_at(name, self.port()).await
    }

    async fn host_at(&self, name: &str, port: u16) -> Arc<dyn Realm> {
        let realm = connect(&self.url_at(port), host(name, "1"), "test", LeaseTerms::default()).unwrap();
        realm.renew().await.unwrap();
        realm
    }

    /// Two hosts that have entered the realm: `laptop` and `desk`.
    async fn two_hosts(&self) -> (Arc<dyn Realm>, Arc<dyn Realm>) {
        (self.host("laptop").await, self.host("desk").await)
    }
}

/// The processes of a server that stands still.
pub struct Paused(Vec<Pid>);

impl Drop for Paused {
    fn drop(&mut self) {
        for &process in &self.0 {
            let _ = kill_process(process, Signal::CONT);
        }
    }
}

/// Makes each function a test with each engine. They are defined in the module that this stands in.
#[macro_export]
macro_rules! on_each_engine {
    ($($test:ident)*) => {
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[test] fn $test() { super::$test::<$crate::server::Server>(); })*
        }
        #[cfg(feature = "nats")]
        mod nats {
            $(#[test] fn $test() { super::$test::<$crate::nats_server::NatsServer>(); })*
        }
    };
}
