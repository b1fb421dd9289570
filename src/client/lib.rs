//! A client of the EDN wire.
//!
//! [`frame`] writes requests and reads the parts of answers and events. [`Lines`] reads a server's lines with a
//! deadline. [`Client`] asks and waits for answers, from any number of threads. The command line, the REPL, the
//! contract runner, the tests and the benchmarks use this package; it knows no server's insides and needs nothing but
//! the codec.

mod asking;
pub mod frame;
mod lines;
pub mod local;

pub use asking::{Client, Hello, Refused};
pub use lines::{Lines, TimedOut};

/// The version of the protocol that this client speaks.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The longest request, without its line feed: what a server reads at once.
pub const LONGEST_REQUEST: usize = edn_codec::limits::MAX_BYTES;

/// The longest line that a client takes from a server: a frame with the longest request and its envelope.
pub const LONGEST_LINE: u64 = 64 * 1024 * 1024;
