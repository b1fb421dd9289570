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

#[path = "realm/local.rs"]
mod local;
#[path = "realm/promises.rs"]
mod promises;
