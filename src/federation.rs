//! The sessions that this machine shares with others: journals whose appends wait for the realm, copies of what other
//! hosts own, the lease of this host, and the lists of all.
//!
//! A shared journal has its entries twice: in the realm, which decides, and in a file of this machine, which is read. An
//! entry is acknowledged once the realm has it. [`Federation`] is what a process has of a realm; [`FederatedJournals`] are
//! the journals of an engine with it. The rules are those of [`realm::rules`](crate::realm::rules). Knows entries; knows
//! neither how a session lives nor what a call between hosts says.

mod failover;
mod host_state;
mod journals;
mod membership;
mod shared_journal;
mod slot;

pub use failover::FailoverCandidate;
pub use host_state::{RealmMember, Terms};
pub use journals::FederatedJournals;
pub use membership::{Federation, Heard, Notice};
pub use slot::SlotText;
