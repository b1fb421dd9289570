//! What is known of servers as facts for clients, bounded. Asks no server.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::facts::mcp::{McpPrompt, McpResource, McpServer, McpTool};
use crate::limits::{MCP_LISTED_RESOURCES, MCP_LISTED_TEXT_BYTES};
use crate::mcp::{Server, ServerFacts, ServerTransport, State};
use crate::tool::one_line;

/// A server for clients; `off` is what the session has switched off.
pub fn listed(server: &ServerFacts, off: &BTreeSet<Arc<str>>) -> McpServer {
    let line = |text: &str| one_line(text, MCP_LISTED_TEXT_BYTES);
    let tools = server.tools.iter().map(|tool| McpTool {
        name: tool.name.clone(),
        tool: tool.tool.clone(),
        title: tool.title.clone(),
        description: line(&tool.description),
        read_only: tool.read_only,
        enabled: !off.contains(&tool.name),
    });
    let prompts = server.prompts.iter().map(|prompt| McpPrompt {
        name: prompt.command.clone(),
        prompt: prompt.name.clone(),
        title: prompt.title.clone(),
        description: line(&prompt.description),
        arguments: prompt
            .arguments
            .iter()
            .map(|argument| (argument.name.clone(), argument.required))
            .collect(),
    });
    let resources = server.resources.iter().map(|resource| McpResource {
        uri: resource.uri.clone(),
        name: resource.name.clone(),
        description: line(&resource.description),
        mime_type: resource.mime_type.clone(),
        is_template: false,
    });
    let templates = server.templates.iter().map(|template| McpResource {
        uri: template.uri.clone(),
        name: template.name.clone(),
        description: line(&template.description),
        mime_type: template.mime_type.clone(),
        is_template: true,
    });
    McpServer {
        name: server.name.clone(),
        source: server.source.as_str(),
        transport: server.transport,
        target: server.target.clone(),
        enabled: server.state != State::Off && !off.contains(&server.name),
        state: server.state.as_str(),
        revision: server.revision.clone(),
        title: server.title.clone(),
        tools: tools.collect(),
        prompts: prompts.collect(),
        resources: resources.chain(templates).take(MCP_LISTED_RESOURCES).collect(),
        resource_count: server.resources.len().saturating_add(server.templates.len()),
        completes: server.completes,
        last_error: server.last_error.clone(),
        connected_at: server.connected.map(rfc3339),
        problems: server.passed_over.to_vec(),
    }
}

/// A server that nothing is known of but its configuration.
pub fn configured(server: &Server, off: &BTreeSet<Arc<str>>) -> McpServer {
    let transport = match &server.way {
        ServerTransport::Command(_) => "stdio",
        ServerTransport::Http(_) => "http",
    };
    McpServer {
        name: server.name.clone(),
        source: server.source.as_str(),
        transport,
        target: server.shown().into(),
        enabled: server.enabled && !off.contains(&server.name),
        state: if server.enabled { State::Idle.as_str() } else { State::Off.as_str() },
        ..McpServer::default()
    }
}
