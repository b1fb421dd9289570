//! The wires: frames and lines over pipes and sockets, questions to the graph, and clients that are slow or broken.

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

mod acp_wire;
mod control_wire;
#[path = "acp_wire/editor.rs"]
mod editor;
mod endpoint;
#[path = "../endpoint_support/mod.rs"]
mod endpoint_support;
#[path = "acp_wire/official.rs"]
mod official;
#[path = "ui_wire/peer.rs"]
mod peer;
mod query_clojure;
mod query_engine;
mod query_graph;
mod query_language;
mod query_process;
#[path = "../query_support/mod.rs"]
mod query_support;
#[path = "ui_wire/schema.rs"]
mod schema;
mod slow_clients;
mod socket;
mod socket_races;
#[path = "../support/mod.rs"]
mod support;
mod transcripts;
mod ui_wire;
mod wire;
