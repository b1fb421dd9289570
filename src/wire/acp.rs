//! The ACP wire: the Agent Client Protocol, for editors.
//!
//! An editor has one connection, and opens sessions in any folder on it: each is a client of the engine of its folder
//! ([`engines`], [`link`]). [`map`] says in the plain types of [`update`] what an event tells; [`v1`] writes those in the shapes
//! of version 1, and reads what the editor sends; [`v2`] does it in those of version 2; [`version`] knows which one an editor
//! gets, and [`dialect`] which module that is. [`connection_state`] keeps what was told and asked, [`questions`] has the
//! questions, [`options`] the settings, [`replay`] the history, [`input`] the message; [`route`] calls the session API. In
//! this room, only [`v1`], [`v2`] and what [`both`] write alike know the types of the protocol (crate
//! `agent-client-protocol-schema`). A wire like any: no rule of the engine stands here.

mod both;
pub mod codes;
mod connection_state;
mod dialect;
mod encoder;
pub mod engines;
mod input;
pub mod link;
pub mod map;
pub mod methods;
mod options;
mod prompts;
mod questions;
mod replay;
pub mod request;
mod route;
pub mod service;
pub mod update;
pub mod v1;
pub mod v2;
pub mod version;
