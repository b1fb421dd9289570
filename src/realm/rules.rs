//! The rules that keep a session whole on several machines, without clocks and calls: what an [`Owner`] may append, how
//! long a [`Lease`] counts, what a [`Replica`] takes in.
//!
//! Who drives them makes the calls, reads the clock and tells them what came back. A program and a simulation drive the
//! same rules. They know entries by their ids only.

mod conflict;
mod lease;
mod owner;
mod replica;

pub use conflict::LogConflict;
pub use lease::{Lease, LeaseStanding, LeaseTerms};
pub use owner::{Appended, NotNow, Owner, Settled};
pub use replica::{Offer, Replica};
