//! The MCP servers of sessions. A session uses those of its folder's configuration, which all sessions of the folder
//! share, and its own, which a client named for it alone.
//!
//! [`McpDesk`] owns all of it. `pool` holds the servers of folders, and withholds those that a person must look at first;
//! `session` is what a session keeps of them; `allowed` knows the tools that rules have let run; `desk` puts them together
//! for turns and clients; `answerer` asks the person, or the model, what a server wants to know in the course of a call;
//! `prompt`, `resources` and `listed` turn what servers have into texts and facts. Nothing here knows the protocol: the room
//! `mcp` does.

mod elicitation;
mod pool;
mod prompt;
mod registry;
mod resources;
mod server_facts;
mod session;
mod tool_approvals;

pub(super) use elicitation::SessionAnswerer;
pub(super) use prompt::commands;
pub(super) use registry::{McpDesk, McpPlace, server_origin};
pub(super) use session::SessionMcp;
