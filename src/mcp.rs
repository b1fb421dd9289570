//! Servers of tools, prompts and resources that speak the Model Context Protocol.
//!
//! The only room that knows `rmcp`: what leaves it is plain data of this program. A server is started when it is first
//! needed ([`Servers::ready`], or a call), in its own process below the `runner`, or asked over HTTP. Both eras of the
//! protocol are spoken: the one with a handshake (2025-11-25 and older), and the one that discovers (2026-07-28).
//!
//! What a server says is data of somebody else: bounded, and never an instruction of the user. Does not know sessions,
//! rules or the wire: what a server asks of a person goes to the [`Answerer`] that a caller has brought.

mod ask;
mod calls;
mod connect;
mod connection;
mod convert;
mod eras;
mod error;
mod facts;
mod failure;
mod handler;
mod lists;
mod names;
mod oauth;
mod pace;
mod pipes;
mod place;
mod post;
mod questions;
mod secrets;
mod serve;
mod servers;
mod settings;
mod shown;
mod slot;
mod template;
mod tool;
mod web;

pub use ask::{
    Answer, Answerer, Answering, Ask, Choice, Declines, Field, FieldKind, Format, Question, SampleMessage,
    Sampled, Sampling,
};
pub use error::McpError;
pub use facts::{
    Argument, Completion, Content, Era, Prompt, PromptMessage, PromptText, Resource, ServerFacts, State,
    Template, ToolFacts,
};
pub use names::{offered, tools_begin};
pub use place::Place;
pub use questions::{form, form_answer, page};
pub use serve::{Answered, OfferedResource, OfferedTool, Offers, serve, unparsable};
pub use servers::Servers;
pub use settings::{Client, Server, ServerError, Settings, Way};
