//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn a task beside it. This room knows the store, the
//! providers and projections; it never sees EDN text or a frame, and reaches frontends only as
//! [`crate::session::Client`]s.

mod actions;
mod actor;
mod agent;
mod api;
mod change;
mod commands;
mod configuration;
mod control;
mod control_audit;
mod conversation;
mod editor_view;
mod entries;
mod execution;
mod handle;
mod history;
mod host;
mod hub;
mod incoming;
mod invocation;
mod jobs;
mod ledger;
mod listing;
mod login;
mod native;
mod open;
mod parentage;
mod process_snapshot;
mod progress;
mod prompt;
mod providers;
mod queue;
mod remember;
mod retry;
mod revision;
mod rules;
mod run_record;
mod running;
mod services;
mod session_tree;
mod snapshot;
mod stage;
mod subagent;
mod turn_control;
mod workflow;

pub use handle::Handle;
pub use host::Engine;
pub use providers::Providers;
pub use snapshot::Snapshot;
