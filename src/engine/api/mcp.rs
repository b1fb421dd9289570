//! MCP servers, for clients. Finds the session and the server, and leaves the rest to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::services::Services;
use crate::facts::mcp::{McpCompletion, McpServer};
use crate::limits::MCP_COMPLETIONS;
use crate::session::{ApiError, Call, McpServers, McpSwitch, McpTyped, Reply, SessionServers};

impl McpServers for Engine {
    fn mcp_servers(&self, call: Call, reply: Reply<Vec<McpServer>>) {
        self.with_own(&call, reply, |handle, reply| reply.ok(self.shared.mcp.listed(&handle)));
    }

    fn bring_mcp(&self, call: Call, servers: SessionServers, reply: Reply<()>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| reply.send(shared.mcp.bring(&handle, &servers)));
    }

    fn leave_mcp(&self, call: Call, reply: Reply<()>) {
        self.with(&call.clone(), reply, |handle, reply| {
            self.shared.mcp.leave(&handle, call.connection);
            reply.ok(());
        });
    }

    fn set_mcp(&self, call: Call, switch: McpSwitch, reply: Reply<McpServer>) {
        let shared = self.shared.clone();
        self.with_own(&call.clone(), reply, |handle, reply| {
            let known = match shared.mcp.listed_one(&handle, &switch.server) {
                Ok(known) => known,
                Err(error) => return reply.fail(error),
            };
            let name = match &switch.tool {
                None if known.state == "off" && switch.enabled => {
                    return reply.fail(ApiError::failed(format!(
                        "The configuration switches the server {} off: take :enabled false out, then /reload.",
                        known.name
                    )));
                }
                None => known.name.clone(),
                Some(tool) => {
                    let found = known.tools.iter().find(|known| *known.name == **tool || *known.tool == **tool);
                    match found {
                        Some(found) => found.name.clone(),
                        // One that was switched off before its server was there can be switched on again.
                        None if handle.snapshot().facts.mcp_off.contains(tool.as_str()) => tool.as_str().into(),
                        None => return reply.fail(ApiError::not_found("tool of the server", tool)),
                    }
                }
            };
            let session = handle.clone();
            let done = Reply::new(move |done: Result<(), ApiError>| {
                reply.send(done.and_then(|()| {
                    shared.mcp.tell(&session);
                    shared.mcp.listed_one(&session, &switch.server)
                }));
            });
            handle.tell(Change::SetMcp { call, name, enabled: switch.enabled, reply: done });
        });
    }

    fn restart_mcp(&self, call: Call, server: String, reply: Reply<McpServer>) {
        let shared = self.shared.clone();
        self.with_own(&call, reply, |handle, reply| {
            self.shared.tasks.spawn(async move { reply.send(shared.mcp.restart(&handle, &server).await) });
        });
    }

    fn complete_mcp(&self, call: Call, typed: McpTyped, reply: Reply<McpCompletion>) {
        let shared = self.shared.clone();
        self.with_own(&call, reply, |handle, reply| {
            self.shared.tasks.spawn(async move {
                shared.mcp.ready(&handle).await;
                reply.send(complete(&shared, &handle, typed).await);
            });
        });
    }
}

/// What may follow what was typed.
async fn complete(
    shared: &Arc<Services>,
    handle: &Handle,
    typed: McpTyped,
) -> Result<McpCompletion, ApiError> {
    let used = shared.mcp.used(handle);
    match typed {
        McpTyped::Argument { prompt, argument, value, before } => {
            let found = used.iter().find_map(|(set, server)| {
                let known = server.prompts.iter().find(|known| *known.command == *prompt)?;
                Some((set, server, known))
            });
            let (set, server, known) =
                found.ok_or_else(|| ApiError::not_found("prompt of a server", &prompt))?;
            let completed =
                set.complete_argument(&server.name, &known.name, &argument, &value, &before).await;
            let completed = completed.map_err(|error| ApiError::failed(error.to_string()))?;
            Ok(McpCompletion { values: completed.values, more: completed.more })
        }
        McpTyped::Reference(start) => {
            let mut values = BTreeSet::new();
            let mut more = false;
            for (set, server) in &used {
                let head = format!("{}:", server.name);
                // What is typed of an address, also where that is only the start of the server's name.
                let typed = match start.strip_prefix(&head) {
                    Some(typed) => typed,
                    None if head.starts_with(&start) => "",
                    None => continue,
                };
                let completed = set.complete_address(&server.name, typed).await;
                let completed = completed.map_err(|error| ApiError::failed(error.to_string()))?;
                more |= completed.more;
                values.extend(completed.values.iter().map(|address| format!("{head}{address}")));
            }
            more |= values.len() > MCP_COMPLETIONS;
            Ok(McpCompletion { values: values.into_iter().take(MCP_COMPLETIONS).collect(), more })
        }
    }
}
