//! What the interface asks of the graph: skills, and what the model is told.

use crate::facts::mcp::McpServer;
use crate::session::{Client as _, GraphQuery, QueryAnswer};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{flag, text};
use crate::wire::ui::request::Ask;

const SKILLS: &str = "[{:psi.agent-session/skills [:psi.skill/name :psi.skill/description :psi.skill/path \
                       :psi.skill/folder :psi.skill/scope :psi.skill/modified-ms]} \
                       :psi.agent-session/context-problems]";

const CONTEXT: &str = "[{:psi.agent-session/skills [:psi.skill/name :psi.skill/description :psi.skill/path \
                        :psi.skill/folder :psi.skill/scope :psi.skill/modified-ms]} \
                        :psi.agent-session/context-problems \
                        {:psi.agent-session/prompt-parts [:psi.prompt-part/kind :psi.prompt-part/source \
                        :psi.prompt-part/bytes :psi.prompt-part/modified-ms]}]";

/// Serves `skills.list`.
pub fn skills_list(ask: &Ask<'_>) {
    let reply = ask.reply(|answer: QueryAnswer| Ok(catalogue(&answer.result)));
    let query = GraphQuery { text: SKILLS.to_owned(), entity: None, strict: false };
    ask.api().query(ask.call(), query, reply);
}

fn field<'v>(value: &'v Value<'_>, key: &str) -> Option<&'v str> {
    let value = value.get(key)?;
    value.as_str().or_else(|| value.as_keyword())
}

/// The skills, and the files that cannot be used.
fn catalogue(result: &Value<'_>) -> Map<'static> {
    let rows = |key| result.get(key).and_then(Value::as_slice).unwrap_or_default();
    let skills = rows("psi.agent-session/skills").iter().map(|skill| {
        let text = |key| field(skill, key).unwrap_or_default().to_owned();
        let scope = if field(skill, "psi.skill/scope") == Some("user") { "user" } else { "repo" };
        let name = text("psi.skill/name");
        let mut shown = Map::new().with("id", format!("{scope}:{name}")).with("name", name);
        shown.put("description", text("psi.skill/description"));
        shown.put("path", text("psi.skill/path"));
        shown.put("dir", text("psi.skill/folder"));
        shown.put("scope", scope);
        shown.put("mtime_ms", millis(skill, "psi.skill/modified-ms"));
        shown
    });
    let errors = rows("psi.agent-session/context-problems").iter().map(|problem| {
        let text = |key| field(problem, key).unwrap_or_default().to_owned();
        Map::new().with("path", text("path")).with("message", text("message"))
    });
    let mut all = Map::new().with("skills", Value::vector(skills)).with("errors", Value::vector(errors));
    all.put("truncated", false);
    all
}

fn millis(value: &Value<'_>, key: &str) -> Value<'static> {
    Value::int(value.get(key).and_then(Value::as_i64).unwrap_or(0))
}

/// Serves `mcp.list`: the servers that the session uses, or all that are configured. Starts none.
pub fn mcp_list(ask: &Ask<'_>) {
    let all = text(ask.params, "scope") == Some("configured");
    let reply = ask.reply(move |servers: Vec<McpServer>| {
        let is_loaded = |server: &McpServer| server.enabled && !matches!(server.state, "off" | "refused");
        let wanted = servers.iter().filter(|server| all || is_loaded(server));
        let servers = wanted.map(|server| {
            let mut shown = Map::new().with("id", server.name.to_string());
            shown.put("transport", server.transport);
            shown.put("source", if server.source == "project" { "project" } else { "global" });
            shown.put("enabled", is_loaded(server));
            shown.put(
                "state",
                match server.state {
                    // One that nobody has used yet connects when it is used.
                    _ if !server.enabled => "disabled",
                    "starting" | "idle" => "connecting",
                    "needs-login" => "auth_required",
                    "ready" => "ready",
                    "failed" | "given-up" => "error",
                    _ => "disabled",
                },
            );
            shown.put("tools", Value::from(server.tools.len()));
            shown.put_some("last_error", server.last_error.as_deref().map(str::to_owned));
            shown.put_some("last_connected_at", server.connected_at.as_deref().map(str::to_owned));
            shown
        });
        Ok(Map::new().with("servers", Value::vector(servers)))
    });
    ask.api().mcp_servers(ask.call(), reply);
}

/// Serves `context.inspect`.
pub fn context_inspect(ask: &Ask<'_>) {
    // Before the facts: they have what the desk no longer has.
    let session = ask.connection.focused();
    let shown = ask.ui.desk.lock().shown.clone().filter(|(place, _)| *place == session);
    let Some(facts) = ask.facts() else { return };
    let editor = shown.map(|(_, editor)| editor).or_else(|| facts.editor.clone());
    let editor = editor.filter(|editor| !editor.is_empty());
    let wants = |key| flag(ask.params, key) != Some(false);
    let (agents, skills) = (wants("include_agents"), wants("include_skills"));
    let reply = ask.reply(move |answer: QueryAnswer| {
        let cwd = facts.cwd.to_string();
        let mut result = Map::new().with("runtime_working_dir", cwd.clone());
        result.put("runtime_sandbox_root", cwd.clone());
        if let Some(editor) = &editor {
            let mut shown = Map::new();
            shown.put_some("cwd", editor.cwd.clone());
            shown.put_some("workspace_root", editor.workspace_root.clone());
            shown.put_some("active_file_path", editor.active_file.as_ref().map(|file| file.path.clone()));
            result.put("ui_context", shown);
        }
        let place = |map: Map<'static>| map.with("root_dir", cwd.clone()).with("working_dir", cwd.clone());
        if agents {
            let parts = answer.result.get("psi.agent-session/prompt-parts").and_then(Value::as_slice);
            let files: Vec<&Value<'_>> = parts
                .unwrap_or_default()
                .iter()
                .filter(|part| field(part, "psi.prompt-part/kind") == Some("instructions"))
                .collect();
            let file = |part: &&Value<'_>| {
                let source = field(part, "psi.prompt-part/source").unwrap_or_default().to_owned();
                let mut file = Map::new().with("path", source);
                file.put("mtime_ms", millis(part, "psi.prompt-part/modified-ms"));
                file.put("size_bytes", millis(part, "psi.prompt-part/bytes"));
                file
            };
            let mut shown = place(Map::new().with("enabled", true));
            shown.put("covered_dirs", Value::vector([cwd.clone()]));
            shown.put("initial_files", Value::vector(files.iter().map(file)));
            shown.put("loaded_files", Value::vector(files.iter().map(file)));
            result.put("agents", shown);
        }
        if skills {
            let mut shown = place(Map::new()).with("catalog", catalogue(&answer.result));
            shown.put("loaded_versions", Value::vector::<Value<'_>>([]));
            result.put("skills", shown);
        }
        Ok(result)
    });
    let query = GraphQuery { text: CONTEXT.to_owned(), entity: None, strict: false };
    ask.api().query(ask.call(), query, reply);
}
