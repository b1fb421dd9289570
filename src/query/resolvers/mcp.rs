//! `:psi.mcp/servers` and `:psi.mcp-server/*`: the MCP servers of a session. Starts none.

use crate::facts::mcp::McpServer;
use crate::projection;
use crate::query::graph::{Input, Resolver};
use crate::query::table::{join, rest, table, text};
use crate::value::Value;

table! {
    SERVER of McpServer {
        "psi.mcp-server/name" "The server's name in the configuration." => |server| text(&server.name);
        "psi.mcp-server/source" "Who configured it: :user, :project or :client." => |server| Value::keyword(server.source);
        "psi.mcp-server/transport" "How it is asked: :stdio or :http." => |server| Value::keyword(server.transport);
        "psi.mcp-server/target" "Its command or address, without what may be a secret." => |server| text(&server.target);
        "psi.mcp-server/enabled" "Whether the session uses it." => |server| server.enabled;
        "psi.mcp-server/state"
            "Its state: :off, :refused, :idle, :starting, :ready, :needs-login, :failed or :given-up."
            => |server| Value::keyword(server.state);
        "psi.mcp-server/protocol-version" "The revision of the protocol that it speaks, or nil before it is known."
            => |server| server.revision.as_deref().map(str::to_owned);
        "psi.mcp-server/title" "What it calls itself, or nil." => |server| server.title.as_deref().map(str::to_owned);
        "psi.mcp-server/tools" "Its tools: {:name :tool :title :description :read-only :enabled}."
            => |server| Value::vector(server.tools.iter().map(|tool| projection::mcp::tool(tool).into_owned()));
        "psi.mcp-server/prompts" "The slash commands of its prompts."
            => |server| Value::vector(server.prompts.iter().map(|prompt| text(&prompt.name)));
        "psi.mcp-server/resource-count" "How many resources and templates it has." => |server| server.resource_count;
        "psi.mcp-server/last-error" "Why the last start, connection or call failed, or nil."
            => |server| server.last_error.as_deref().map(str::to_owned);
        "psi.mcp-server/connected-at" "When it last connected, RFC 3339 in UTC, or nil."
            => |server| server.connected_at.as_deref().map(str::to_owned);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.mcp/servers",
        &[],
        &[join("psi.mcp/servers", "The MCP servers of the session, by name.", SERVER.outputs)],
        |env, _| SERVER.list("psi.mcp/servers", &env.world.mcp_servers()),
    ),
    Resolver::batch(
        "psi.mcp-server/by-name",
        &[Input::Required("psi.mcp-server/name")],
        rest(SERVER.outputs),
        |env, inputs| SERVER.lookup(inputs, &env.world.mcp_servers()),
    ),
];
