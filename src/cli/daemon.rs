//! The daemon: one process for a user and a state folder that runs what editors begin, and outlives them.
//!
//! `serve` finds it or starts it, and passes it the editor's own pipes ([`attach`]); nothing is copied in between. The
//! daemon ([`host`]) has an engine for each project and set of options ([`realm`]), as a process of its own would. The
//! two talk in a few lines of EDN ([`line`]) over `run/daemon.sock`. Who holds the lock `daemon.lock` is the daemon.

mod at_work_list;
mod attach;
mod commands;
mod daemon_files;
mod engines;
mod host;
mod line;

pub(super) use attach::{Use, join, serve};
pub(super) use commands::{DaemonCommand, run, seen};
pub(super) use engines::Engines;
pub(super) use line::Handover;
