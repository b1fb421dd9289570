//! The contract: the specs, the checks that hold them, and the mistakes that each check finds.

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

mod contract_command;
mod contract_fairness;
mod contract_mutations;
mod mutant;
mod open;
mod server;
mod spec;
mod spec_contract;
mod ui;
