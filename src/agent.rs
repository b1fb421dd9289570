//! External agents that speak the Agent Client Protocol: the side of an editor.
//!
//! An agent is a program that answers turns itself: it calls models, runs tools and keeps its own conversation. This room
//! has what a configuration says of one ([`AgentSetup`]), its process and the lines to it ([`AgentConnection`]), and says
//! what it tells and asks in plain types ([`AgentUpdate`], [`AgentAsk`]). `v1` reads and writes the shapes of version 1; the
//! tables that both sides of the protocol use are in the room `acp`.
//!
//! What an agent says is data of somebody else: bounded, and no instruction. Does not know sessions, rules or the wire.

mod connection;
mod known;
mod settings;
mod update;
mod v1;

pub use connection::{AgentConnection, AgentFault, AgentPlace, AgentTurn, FromAgent, Responder};
pub use settings::{AgentSetup, AgentSetupError, AgentSetups};
pub use update::{
    AgentAsk, AgentCan, AgentReply, AgentServer, AgentServerWay, AgentSession, AgentUpdate, AgentVoice,
    CallNews, CallPart, OfferedAnswer, PromptPart, SessionNews, pairs,
};
