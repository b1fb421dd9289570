//! A client of the EDN wire: requests and their answers, events, frames, lines with deadlines.
#![doc = include_str!("README.md")]

mod asking;
pub mod frame;
mod lines;
pub mod local;
pub mod turn;

pub use asking::{Client, Hello, Refused};
pub use lines::{Lines, TimedOut};

/// The version of the protocol that this client speaks.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The longest request, without its line feed: what a server reads at once.
pub const LONGEST_REQUEST: usize = edn_codec::limits::MAX_BYTES;

/// The longest line that a client takes from a server: a frame with the longest request and its envelope.
pub const LONGEST_LINE: u64 = 64 * 1024 * 1024;
