//! The bounds that the reader keeps unless its caller gives others, each with its reason.
//!
//! Plain numbers: [`Options::default`](crate::Options::default) is made of them.

/// Deepest nesting of collections, tags, metadata and discards in one form. People nest a dozen levels; a value this
/// deep is still written, compared and dropped on a small stack.
pub const MAX_DEPTH: usize = 256;

/// Longest input of one read, in bytes (16 MiB): large enough for an image as text, small enough to be held whole.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Longest number, in decimal digits. Reading a number costs the square of its length, so this bounds the cost of
/// one byte of it; the longest keys in use have about 5,000 digits.
pub const MAX_DIGITS: usize = 8 * 1024;

/// Most values in one collection, an entry of a map counting two. A value takes 24 bytes: such a collection
/// holds 96 MiB.
pub const MAX_ELEMENTS: usize = 4 * 1024 * 1024;

/// Most values in one form, at all levels: elements, keys, and what is discarded. The largest collection and as
/// much again.
pub const MAX_VALUES: usize = 2 * MAX_ELEMENTS;
