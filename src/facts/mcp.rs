//! MCP servers, as clients see them. Knows neither how a server is asked nor its protocol.

use std::sync::Arc;

/// An MCP server, prompts and resources. Its texts are the server's own: data, for people to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServer {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Who configured it: `user`, `project` or `client`.
    pub source: &'static str,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// Its command or address, without what may be a secret.
    pub target: Arc<str>,
    /// Whether the session uses it.
    pub enabled: bool,
    /// Its state in one word: `off`, `refused`, `idle`, `starting`, `ready`, `needs-login`, `failed` or `given-up`.
    pub state: &'static str,
    /// The revision of the protocol that it speaks, once it is known.
    pub revision: Option<Arc<str>>,
    /// What it calls itself.
    pub title: Option<Arc<str>>,
    /// Its tools, those that may be offered to a model.
    pub tools: Vec<McpTool>,
    /// Its prompts.
    pub prompts: Vec<McpPrompt>,
    /// Its resources, the first ones.
    pub resources: Vec<McpResource>,
    /// How many resources it has.
    pub resource_count: usize,
    /// Whether it completes arguments.
    pub completes: bool,
    /// Why the last start, connection or call failed, as a sentence.
    pub last_error: Option<Arc<str>>,
    /// When it last connected, RFC 3339 in UTC.
    pub connected_at: Option<Arc<str>>,
    /// What of it is not offered, with why.
    pub problems: Vec<String>,
}

/// A tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpTool {
    /// Its name for models: `mcp__server__tool`.
    pub name: Arc<str>,
    /// Its name at the server.
    pub tool: Arc<str>,
    /// Its title.
    pub title: Option<Arc<str>>,
    /// What it does, on one line.
    pub description: String,
    /// Whether the server says that it changes nothing.
    pub read_only: bool,
    /// Whether the session offers it to its model.
    pub enabled: bool,
}

/// A prompt of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPrompt {
    /// Its slash command, without the slash: `mcp__server__prompt`.
    pub name: Arc<str>,
    /// Its name at the server.
    pub prompt: Arc<str>,
    /// Its title.
    pub title: Option<Arc<str>>,
    /// What it is for, on one line.
    pub description: String,
    /// Its arguments, in order, each with whether it must be given.
    pub arguments: Vec<(Arc<str>, bool)>,
}

/// A resource of a server, or a template of addresses of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpResource {
    /// Its address at the server, or the template (RFC 6570).
    pub uri: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it is, on one line.
    pub description: String,
    /// Its type, such as `text/plain`.
    pub mime_type: Option<Arc<str>>,
    /// Whether the address is a template.
    pub is_template: bool,
}

/// The state of the servers of a session, for an event: of each its name, whether the session uses it, its state, the
/// number of its tools, and its last error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpStates {
    /// The servers, by name.
    pub servers: Vec<McpState>,
}

/// The state of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpState {
    /// Its name.
    pub name: Arc<str>,
    /// Whether the session uses it.
    pub enabled: bool,
    /// Its state, as in [`McpServer::state`].
    pub state: &'static str,
    /// How many tools it has.
    pub tools: usize,
    /// Why the last start, connection or call failed.
    pub last_error: Option<Arc<str>>,
}

impl From<&McpServer> for McpState {
    fn from(server: &McpServer) -> Self {
        Self {
            name: server.name.clone(),
            enabled: server.enabled,
            state: server.state,
            tools: server.tools.len(),
            last_error: server.last_error.clone(),
        }
    }
}

/// What may follow what a person has typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpCompletion {
    /// Values, the best first.
    pub values: Vec<String>,
    /// Whether there are more.
    pub more: bool,
}
