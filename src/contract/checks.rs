//! The checks, one room of the contract per file.
//!
//! A check provokes one reaction and examines it. It notes behaviour that the contract leaves open and skips
//! what the server does not offer. It never waits for time to pass, only for a frame that must come.
//! server does not offer it passes over; it never waits for time to pass, only for what is due.

mod commands;
mod envelope;
mod events;
mod framing;
mod grants;
mod guests;
mod hooks;
mod logins;
mod models;
mod persistence;
mod plists;
mod query;
mod questions;
mod room;
mod sessions;
mod subagents;
mod tools;
mod turns;
mod workflows;

use super::check::Check;

pub use commands::{CHOICES, DIRECT};
pub use query::{
    GRAPH_ATTRIBUTES, MEMORY_ATTRIBUTES, ROOT_ATTRIBUTES, SESSION_ATTRIBUTES, SESSION_INFO_ATTRIBUTES,
    TOOL_SUMMARY_ATTRIBUTES, TURN_ATTRIBUTES,
};

/// All checks, in the order in which they run.
pub const CHECKS: &[&[Check]] = &[
    framing::CHECKS,
    envelope::CHECKS,
    events::CHECKS,
    sessions::CHECKS,
    query::CHECKS,
    turns::CHECKS,
    models::CHECKS,
    commands::CHECKS,
    tools::CHECKS,
    questions::CHECKS,
    grants::CHECKS,
    hooks::CHECKS,
    subagents::CHECKS,
    workflows::CHECKS,
    logins::CHECKS,
    guests::CHECKS,
    plists::CHECKS,
    persistence::CHECKS,
];
