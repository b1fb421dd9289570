//! The servers of tools of sessions. A session uses those of its folder's configuration, which all sessions of the folder
//! share, and its own, which a client named for it alone.
//!
//! `pool` holds the servers of folders, and withholds those that a person must look at first; `session` is what a session
//! keeps of them; `desk` puts both together for turns and clients; `answerer` asks the person, or the model, what a server
//! wants to know in the course of a call; `prompt` and `listed` turn what servers have into texts and facts. Nothing here
//! knows the protocol: the room `mcp` does.

mod answerer;
mod desk;
mod listed;
mod pool;
mod prompt;
mod resources;
mod session;

pub(super) use answerer::SessionAnswerer;
pub(super) use pool::McpPool;
pub(super) use prompt::commands;
pub(super) use session::SessionMcp;
