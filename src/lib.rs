//! The rooms of the program: each is a module of this list, with its folder. It contains no logic.
//! `docs/architecture.md` says what each is for; `tests/house/layering.rs` holds which may use which.
//!
//! Data flows one way: bytes are cut into lines, a line becomes a request of its [`wire`], and the wire calls
//! [`session`]'s API. The [`engine`] writes entries to the [`store`], answers only then, and gives events to every
//! [`session::Client`]. A connection's outbox writes answers and events in the words of its wire, as EDN or JSON. The
//! program's commands (`src/cli`) and the contract runner (`src/contract`, a package) are not in the library.

// Plain data, and tables of names.
pub mod acp;
pub mod catalogue;
pub mod delivery;
pub mod event;
pub mod facts;
pub mod limits;
pub mod message;
pub mod slash;

// The system: files, programs, time, the network, text.
pub mod claims;
pub mod clock;
pub mod crash;
pub mod descriptors;
pub mod diff;
pub mod environment;
pub mod files;
pub mod git;
pub mod glob;
pub mod heap;
pub mod http;
pub mod json;
pub mod jsonrpc;
pub mod memory;
pub mod meter;
pub mod private;
pub mod project;
pub mod runner;
pub mod secret;
pub mod sha256;
pub mod similar;
pub mod telemetry;
pub mod visible;

// What a session is made of.
pub mod agent;
pub mod auth;
pub mod config;
pub mod context;
pub mod export;
pub mod federation;
pub mod hook;
pub mod interaction;
pub mod mcp;
pub mod peer;
pub mod provider;
pub mod realm;
pub mod store;
pub mod tool;
pub mod workflow;

// Sessions, and how they are reached.
pub mod engine;
pub mod projection;
pub mod query;
pub mod repl;
pub mod session;
pub mod wire;

/// A client of the EDN wire, a package of its own (`src/client`).
pub use edn_bridge_client as client;
/// The EDN codec, a package of its own (`src/edn`), and its plain data.
pub use edn_codec::{self as edn, value};
