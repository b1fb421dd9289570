//! Sessions on several machines: what each implementation of a realm promises.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    dead_code,
    reason = "tests"
)]

#[cfg(feature = "realm")]
#[path = "realm/believer.rs"]
mod believer;
#[path = "realm/doubt.rs"]
mod doubt;
#[cfg(feature = "realm")]
#[path = "realm/engine.rs"]
mod engine;
#[cfg(feature = "realm")]
#[path = "realm/engines.rs"]
mod engines;
#[cfg(feature = "realm")]
#[path = "realm/faults.rs"]
mod faults;
#[path = "realm/local.rs"]
mod local;
#[cfg(feature = "nats")]
#[path = "realm/nats.rs"]
mod nats;
#[cfg(feature = "nats")]
#[path = "realm/nats_cluster.rs"]
mod nats_cluster;
#[cfg(feature = "nats")]
#[path = "realm/nats_server.rs"]
mod nats_server;
#[cfg(feature = "postgres")]
#[path = "realm/postgres.rs"]
mod postgres;
#[path = "realm/promises.rs"]
mod promises;
#[cfg(feature = "realm")]
#[path = "realm/proxy.rs"]
mod proxy;
#[cfg(feature = "realm")]
#[path = "realm/server.rs"]
mod server;
#[cfg(feature = "postgres")]
#[path = "realm/standby.rs"]
mod standby;
#[cfg(feature = "postgres")]
#[path = "realm/tls.rs"]
mod tls;
