//! Contract checks that this server fails so far, each with what is missing. Remove a check from the list
//! once it passes: a test says so. A topic stays here until the server emits it. The list is empty now.

/// The check, and what is missing.
pub const OPEN: &[(&str, &str)] = &[];
