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

#[cfg(feature = "postgres")]
#[path = "realm/believer.rs"]
mod believer;
#[cfg(feature = "postgres")]
#[path = "realm/engine.rs"]
mod engine;
#[cfg(feature = "postgres")]
#[path = "realm/faults.rs"]
mod faults;
#[path = "realm/local.rs"]
mod local;
#[path = "realm/promises.rs"]
mod promises;
#[cfg(feature = "postgres")]
#[path = "realm/proxy.rs"]
mod proxy;
#[cfg(feature = "postgres")]
#[path = "realm/server.rs"]
mod server;
#[cfg(feature = "postgres")]
#[path = "realm/standby.rs"]
mod standby;
#[cfg(feature = "postgres")]
#[path = "realm/tls.rs"]
mod tls;
