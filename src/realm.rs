//! Sessions on several machines of one user: hosts that share an engine, in which each session has one owner at a time.
//!
//! [`Realm`] is to several machines what [`Journals`](crate::store::Journals) is to one process: its calls wait for a
//! network instead of a disk, and add to a journal what several machines need: a lease by host, an epoch by session that
//! fences off who owned it before, hints, requests to the owner. [`LocalRealm`] is the journal of one machine,
//! with the lock of its file as the lease. The [`rules`] of an owner, a lease and a replica are a part of their own that
//! reads no clock and makes no call, so that a simulation drives the same code as a program.
//!
//! Knows entries, headers and texts; what a slot, a request or an answer says is for the rooms above.

mod calls;
mod check;
#[cfg(feature = "realm")]
mod engine;
mod error;
mod lease_renewal;
mod local;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
pub mod rules;
#[cfg(feature = "realm")]
mod subscriptions;
#[cfg(feature = "realm")]
mod texts;
#[cfg(feature = "realm")]
mod tls;
mod types;
mod writer;

pub use calls::{Hints, Realm, RealmCall, Requests, Utterances};
pub use check::{RealmCheck, RealmNote};
#[cfg(feature = "realm")]
pub use engine::{check, connect, init};
pub use error::{Doubt, RealmError};
pub use lease_renewal::{LeaseState, keep};
pub use local::LocalRealm;
#[cfg(feature = "nats")]
pub use nats::NatsRealm;
#[cfg(feature = "postgres")]
pub use postgres::PostgresRealm;
pub use types::{
    Claim, Host, HostId, HostName, Incarnation, Opened, OwnedBy, Posted, RealmFilter, RealmHint, RealmHit,
    RealmPage, RealmRequest, RealmSlot, Tail,
};
pub use writer::{RealmWriter, Written};
