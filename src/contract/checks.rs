//! The checks, one room of the contract a file.

mod framing;

use super::check::Check;

/// All checks, in the order in which they run.
pub const CHECKS: &[Check] = &[];
