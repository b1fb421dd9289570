//! The map of the house. It contains no logic.
//!
//! Data flows one way: bytes are cut into lines, a line becomes a request of its [`wire`], and the wire calls
//! [`session`]'s API. The [`engine`] writes entries to the [`store`], answers only then, and gives events to every
//! [`session::Client`]. A connection's outbox writes answers and events in the words of its wire, as EDN or JSON. The
//! program's commands (`src/cli`) and the contract runner (`src/contract`, a package) are not in the library.

pub mod acp;
pub mod agent;
pub mod auth;
pub mod catalogue;
pub mod claims;
pub mod clock;
pub mod command;
pub mod config;
pub mod context;
pub mod crash;
pub mod delivery;
pub mod descriptors;
pub mod engine;
pub mod environment;
pub mod event;
pub mod export;
pub mod facts;
pub mod files;
pub mod git;
pub mod heap;
pub mod hook;
pub mod http;
pub mod interaction;
pub mod json;
pub mod jsonrpc;
pub mod limits;
pub mod mcp;
pub mod memory;
pub mod message;
pub mod peer;
pub mod private;
pub mod project;
pub mod projection;
pub mod provider;
pub mod query;
pub mod repl;
pub mod runner;
pub mod secret;
pub mod session;
pub mod sha256;
pub mod similar;
pub mod store;
pub mod tool;
pub mod visible;
pub mod wire;
pub mod workflow;

/// A client of the EDN wire, a package of its own (`src/client`).
pub use edn_bridge_client as client;
/// The EDN codec, a package of its own (`src/edn`), and its plain data.
pub use edn_codec::{self as edn, value};
