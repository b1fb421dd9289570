//! MCP servers: what a session has of them, and what a person switches. Knows neither their protocol nor a wire.

use std::sync::Arc;

use crate::facts::mcp::{McpCompletion, McpServer};
use crate::secret::Secret;
use crate::session::call::{Call, Reply};

/// The servers of a session: those of its folder's configuration, and its own. A switch is on disk before the reply, and
/// counts from the next round of the model on.
pub trait McpServers: Send + Sync {
    /// The servers, by name. Starts none.
    fn mcp_servers(&self, call: Call, reply: Reply<Vec<McpServer>>);

    /// Switches a server, or one of its tools, on or off for the session. The reply is the server.
    fn set_mcp(&self, call: Call, switch: McpSwitch, reply: Reply<McpServer>);

    /// Starts a server again, for every session that uses it. The reply comes once it answers, or does not.
    fn restart_mcp(&self, call: Call, server: String, reply: Reply<McpServer>);

    /// Gives a live session servers of its own, in place of those that it had, from the next round of the model on.
    fn bring_mcp(&self, call: Call, servers: SessionServers, reply: Reply<()>);

    /// The client closes the session: the session's own servers end with the calls that use them, and its further folders
    /// are its no more, unless another client is in the session.
    fn leave_mcp(&self, call: Call, reply: Reply<()>);

    /// What may follow what was typed. Starts the servers, and waits some seconds for them.
    fn complete_mcp(&self, call: Call, typed: McpTyped, reply: Reply<McpCompletion>);
}

/// What is switched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSwitch {
    /// The server.
    pub server: String,
    /// One of its tools, by the name for models or that at the server; without it, the whole server.
    pub tool: Option<String>,
    /// Whether the session uses it from now on.
    pub enabled: bool,
}

/// What a person has typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTyped {
    /// The start of an argument of a prompt.
    Argument {
        /// The prompt, by its slash command without the slash.
        prompt: String,
        /// The argument.
        argument: String,
        /// What was typed of it.
        value: String,
        /// The arguments before it, with their values.
        before: Vec<(String, String)>,
    },
    /// The start of a reference to a resource, `server:uri` without its `@`.
    Reference(String),
}

/// A server that a client names for one session: the user's word. It is never written down.
#[derive(Debug, Clone)]
pub struct SessionServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub way: SessionServerWay,
}

/// How a session's own server is reached.
#[derive(Debug, Clone)]
pub enum SessionServerWay {
    /// A program, asked over its standard input and output.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables of its environment.
        env: Vec<(String, Secret)>,
    },
    /// An address, asked over HTTP.
    Url {
        /// The address.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, Secret)>,
    },
}

/// The servers of a new session's own, shared.
pub type SessionServers = Arc<[SessionServer]>;
