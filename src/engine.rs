//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn is a task beside it. A call enters at `api`. A line of a person passes
//! `commands`, which parts slash commands from texts. A session's `handle` brings a `change` to its `actor`, which waits
//! for the journal, publishes a `snapshot`, and starts the turn's task (`agent`, `native`). Events go out through `handle`
//! and `hub` to each [`Client`](crate::session::Client). `services` is what all sessions share; `host` puts the parts
//! together. This room knows the store, the providers and projections. It knows no frame; it reads and writes EDN only for
//! files of its own and for people.

mod actions;
mod actor;
mod agent;
mod answer_records;
mod api;
mod busy;
mod change;
mod client_files;
mod client_requests;
mod client_tools;
mod commands;
mod compacted;
mod configuration;
mod control;
mod control_audit;
mod conversation;
mod drivers;
mod editor_view;
mod entries;
mod execution;
mod external;
mod follower;
mod granted_rules;
mod handle;
mod history;
mod host;
mod hub;
mod idempotency;
mod incoming;
mod interrupted;
mod jobs;
mod listing;
mod live_forward;
mod live_output;
mod login;
mod long_text;
mod mcp;
mod native;
mod open;
mod parent_session;
mod process_snapshot;
mod progress;
mod project_notes;
mod providers;
mod queue;
mod remote;
mod replay;
mod retry;
mod revision;
mod rulebook;
mod rules;
mod run_record;
mod running;
mod sent_prompt;
mod served_requests;
mod services;
mod session_admin;
mod session_tree;
mod share;
mod snapshot;
mod stage;
mod subagent;
mod system_prompt;
mod takeover;
mod template_expansion;
mod trust_preview;
mod turn_activity;
mod turn_control;
mod undo;
mod user_shell_start;
mod user_shells;
mod withheld;
mod workflow;
pub mod working_sessions;

pub use handle::Handle;
pub use host::Engine;
pub use providers::Providers;
pub use remote::take_request;
pub use revision::{agents_of, named_model};
pub use share::federate;
pub use snapshot::SessionSnapshot;
pub use takeover::take_over;
pub use trust_preview::agents_of_project;
