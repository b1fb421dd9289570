//! Servers of the Model Context Protocol: their tools, prompts and resources.
//!
//! The only room that knows `rmcp`: what leaves it is plain data of this program. A server is started when it is first
//! needed ([`Servers::ready`], or a call), in its own process below the `runner`, or asked over HTTP. Both eras of the
//! protocol are spoken: the one with a handshake (2025-11-25 and older), and the one that discovers (2026-07-28).
//!
//! What a server says is data of somebody else: bounded, and never an instruction of the user. Does not know sessions,
//! rules or the wire: what a server asks of a person goes to the [`Answerer`] that a caller has brought.

mod calls;
mod connect;
mod connection;
mod consent_text;
mod convert;
mod elicit;
mod error;
mod facts;
mod failure;
mod handler;
mod http_client;
mod lenient;
mod lists;
mod names;
mod oauth;
mod pipes;
mod post;
mod protocol_cache;
mod questions;
mod rate_limit;
mod secrets;
mod serve;
mod server_context;
mod servers;
mod settings;
mod slot;
mod template;
mod tool;

pub use elicit::{
    Answerer, Answering, Ask, Choice, Declines, ElicitReply, Field, FieldKind, Format, Question,
    SampleMessage, Sampled, Sampling,
};
pub use error::McpError;
pub use facts::{
    Argument, Completion, Content, Era, Prompt, PromptMessage, PromptText, Resource, ServerFacts, State,
    Template, ToolFacts,
};
pub use names::{offered, tools_begin};
pub use questions::{form, form_answer, page};
pub use serve::{OfferedResource, OfferedTool, Offers, ToolResponse, serve, too_long, unparsable};
pub use server_context::ServerContext;
pub use servers::Servers;
pub use settings::{Client, Server, ServerError, ServerTransport, Settings};
