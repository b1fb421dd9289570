//! The UI wire: JSON-RPC lines of codelia's UI protocol, for terminal interfaces.
//!
//! [`methods`] is the table of what is served, [`run_events`] that of the events, both with [`shape`]s; checks, the
//! reference page and the schema come from them. [`frames`] writes lines. [`connection_state`] keeps the runs
//! and the open question of one connection, which is [`link`]. [`encoder`] turns events into lines, and [`questions`] questions;
//! [`questions`] reads their answers too. [`route`] calls the session API. [`history`] replays old runs, and [`tools`] passes
//! calls to the interface. A wire like any: no rule of the engine stands here.

pub mod codes;
mod connection_state;
mod encoder;
mod frames;
mod history;
mod input;
pub mod link;
mod lookups;
pub mod methods;
mod questions;
pub mod reference;
mod request;
mod route;
pub mod run_events;
mod run_lines;
pub mod service;
pub mod shape;
mod shell;
mod subtasks;
mod tools;
