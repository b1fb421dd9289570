//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn a task beside it. This room knows the store, the
//! providers and projections; it never sees EDN text or a frame, and reaches frontends only as
//! [`crate::session::Client`]s.

mod actions;
mod agent;
mod api;
mod change;
mod commands;
mod configuration;
mod control;
mod conversation;
mod execution;
mod history;
mod host;
mod hub;
mod invocation;
mod jobs;
mod listing;
mod live;
mod login;
mod mailbox;
mod manifest;
mod moment;
mod native;
mod open;
mod parentage;
mod progress;
mod prompt;
mod providers;
mod queue;
mod remember;
mod retry;
mod rules;
mod run_record;
mod services;
mod snapshot;
mod stage;
mod subagent;
mod tree;
mod workflow;

pub use host::Runtime;
pub use mailbox::Handle;
pub use providers::Providers;
pub use snapshot::Snapshot;
