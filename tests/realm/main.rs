//! Sessions on several machines: what each implementation of a realm promises.

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

#[cfg(feature = "realm")]
mod believer;
mod doubt;
#[cfg(feature = "realm")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/acp_wire/editor.rs"]
mod editor;
#[cfg(feature = "realm")]
mod engine;
#[cfg(feature = "realm")]
mod engines;
#[cfg(feature = "realm")]
mod faults;
mod federation;
#[cfg(feature = "realm")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../daemon/fixture.rs"]
mod fixture;
mod local;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod nats_cluster;
#[cfg(feature = "nats")]
mod nats_server;
#[cfg(feature = "realm")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/acp_wire/official.rs"]
mod official;
#[cfg(feature = "realm")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/ui_wire/peer.rs"]
mod peer;
#[cfg(feature = "postgres")]
mod postgres;
mod promises;
#[cfg(feature = "realm")]
mod proxy;
mod realm_simulation;
#[cfg(feature = "realm")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../wire/ui_wire/schema.rs"]
mod schema;
#[cfg(feature = "realm")]
mod server;
#[cfg(feature = "postgres")]
mod standby;
#[cfg(feature = "realm")]
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "postgres")]
mod tls;
