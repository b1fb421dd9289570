//! Checks of the contract that this server does not pass yet, each with what is to come for it. A check
//! that passes must leave the list: a test says so. A topic stands here until something real emits it.
//! Now none does.

/// The check, and what it waits for.
pub const OPEN: &[(&str, &str)] = &[];
