//! The control wire: lines of JSON, each with its answer.
//!
//! Serves programs of the same user that send texts and interrupts to live sessions: [`message`] reads and writes
//! lines, [`serve`] serves connections. A connection is no client of the engine: it attaches to nothing, receives no
//! events and keeps no turn alive. All rules are behind [`Control`](crate::session::Control).

pub mod message;
pub mod serve;
