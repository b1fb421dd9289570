//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn a task beside it. This room knows the store, the
//! providers and projections; it never sees EDN text or a frame, and reaches frontends only as
//! [`crate::session::Client`]s.

mod actions;
mod actor;
mod agent;
mod answered_rules;
mod api;
mod change;
mod client_requests;
mod client_tools;
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
mod in_flight;
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
mod replay;
mod retry;
mod revision;
mod rulebook;
mod rules;
mod run_record;
mod running;
mod services;
mod session_tree;
mod shelf;
mod shell_start;
mod shells;
mod snapshot;
mod stage;
mod subagent;
mod trust_preview;
mod turn_control;
mod undo;
mod workflow;

pub use handle::Handle;
pub use host::Engine;
pub use providers::Providers;
pub use snapshot::Snapshot;
