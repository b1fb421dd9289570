//! Every bound of the program, with the reason for each number.
//!
//! Knows nothing else of the house: plain numbers, so that a reader can see in one place how much
//! the process may hold, and a test can show that each bound is kept.

/// Longest line, in bytes without its line feed, that the wire takes (16 MiB). From the wire
/// contract: large enough for a pasted image, small enough to be held whole.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Deepest nesting of collections, tags and discards in one form. From the wire contract.
pub const MAX_DEPTH: usize = 256;
