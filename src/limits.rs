//! Every bound of the program, with the reason for each number.
//!
//! Knows nothing else of the house: plain numbers, so that a reader can see in one place how much
//! the process may hold, and a test can show that each bound is kept.

/// Longest line, in bytes without its line feed, that the wire takes (16 MiB). From the wire
/// contract: large enough for a pasted image, small enough to be held whole.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Deepest nesting of collections, tags and discards in one form. From the wire contract.
pub const MAX_DEPTH: usize = 256;

/// Longest number in EDN, in characters. Reading a number costs the square of its length, so that what a
/// byte of it costs is bounded by this; the longest keys in use have about 5,000 digits.
pub const MAX_NUMBER_DIGITS: usize = 8 * 1024;

/// Most values in one EDN collection, an entry of a map counting two. A value takes 24 bytes: such a
/// collection holds 96 MiB.
pub const MAX_ELEMENTS: usize = 4 * 1024 * 1024;
