//! MCP servers as EDN data.

use crate::facts::mcp::{McpPrompt, McpResource, McpServer, McpState, McpTool};
use crate::value::{Map, Value};

/// A server, in full.
pub fn server(server: &McpServer) -> Map<'_> {
    let mut map = Map::new();
    map.put("name", server.name.as_ref());
    map.put("source", server.source);
    map.put("transport", server.transport);
    map.put("target", server.target.as_ref());
    map.put("enabled", server.enabled);
    map.put("state", server.state);
    map.put_some("protocol-version", server.revision.as_deref());
    map.put_some("title", server.title.as_deref());
    map.put("tools", Value::vector(server.tools.iter().map(tool)));
    map.put("prompts", Value::vector(server.prompts.iter().map(prompt)));
    map.put("resources", Value::vector(server.resources.iter().map(resource)));
    map.put("resource-count", Value::from(server.resource_count));
    map.put("completes", server.completes);
    map.put_some("last-error", server.last_error.as_deref());
    map.put_some("connected-at", server.connected_at.as_deref());
    map.put("problems", Value::vector(server.problems.iter().map(|problem| Value::from(problem.as_str()))));
    map
}

/// A tool of a server.
pub fn tool(tool: &McpTool) -> Map<'_> {
    let mut map = Map::new();
    map.put("name", tool.name.as_ref());
    map.put("tool", tool.tool.as_ref());
    map.put_some("title", tool.title.as_deref());
    map.put("description", tool.description.as_str());
    map.put("read-only", tool.read_only);
    map.put("enabled", tool.enabled);
    map
}

fn prompt(prompt: &McpPrompt) -> Map<'_> {
    let argument = |(name, required): &(std::sync::Arc<str>, bool)| {
        Map::new().with("name", name.to_string()).with("required", *required)
    };
    let mut map = Map::new();
    map.put("name", prompt.name.as_ref());
    map.put("prompt", prompt.prompt.as_ref());
    map.put_some("title", prompt.title.as_deref());
    map.put("description", prompt.description.as_str());
    map.put("arguments", Value::vector(prompt.arguments.iter().map(argument)));
    map
}

fn resource(resource: &McpResource) -> Map<'_> {
    let mut map = Map::new();
    map.put("uri", resource.uri.as_ref());
    map.put("name", resource.name.as_ref());
    map.put("description", resource.description.as_str());
    map.put_some("mime-type", resource.mime_type.as_deref());
    map.put_some("template", resource.is_template.then_some(true));
    map
}

/// The state of a server.
pub fn state(state: &McpState) -> Map<'_> {
    let mut map = Map::new();
    map.put("name", state.name.as_ref());
    map.put("enabled", state.enabled);
    map.put("state", state.state);
    map.put("tools", Value::from(state.tools));
    map.put_some("last-error", state.last_error.as_deref());
    map
}
