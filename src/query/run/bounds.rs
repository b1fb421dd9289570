//! The bounds of an answer, and which of them was reached. Does not know what is counted.

use std::time::Instant;

use crate::limits::{MAX_QUERY_VALUES, QUERIES_BYTES, QUERY_BYTES, QUERY_MILLIS};

/// A bound was reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The answer is too large.
    #[error(
        "The answer holds more than {MAX_QUERY_VALUES} values or {QUERY_BYTES} bytes; ask for less, or with :limit."
    )]
    TooLarge,
    /// All answers together are too large.
    #[error("Answers to other queries hold nearly {QUERIES_BYTES} bytes; ask again.")]
    Crowded,
    /// The answer takes too long.
    #[error("The answer takes more than {QUERY_MILLIS} ms; ask for less.")]
    TooLong,
}

/// The bounds of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The maximum of values.
    pub values: usize,
    /// The deadline; `None` for none.
    pub deadline: Option<Instant>,
}
