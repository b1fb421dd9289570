//! What a session does: turns, tools, permissions, models, agents and servers of others, and what it keeps on disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

mod agents;
mod ahead;
mod boundary;
mod canary;
mod client_tools;
mod context;
mod crash;
mod edit_cases;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/acp_wire/editor.rs"]
mod editor;
mod embedded_model;
mod fetch;
mod few_threads;
mod hooks;
mod hosted;
mod interaction_board;
mod interaction_races;
mod local_server;
mod logins;
mod mcp_engine;
mod mcp_peers;
mod mcp_servers;
#[path = "../mcp_support/mod.rs"]
mod mcp_support;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/acp_wire/official.rs"]
mod official;
#[cfg(feature = "otel")]
mod otel;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/ui_wire/peer.rs"]
mod peer;
mod permission_tricks;
mod proposals;
mod reload;
mod replay;
mod rules;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/ui_wire/schema.rs"]
mod schema;
mod state_folder;
mod store_fork;
mod store_journal;
mod store_sessions;
#[path = "../store_support/mod.rs"]
mod store_support;
mod subagents;
#[path = "../support/mod.rs"]
mod support;
mod survive;
mod tool_calls;
mod turn_loop;
mod workflows;
