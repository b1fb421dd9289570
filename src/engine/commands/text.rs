//! The texts of commands about the program, a project and a session. Runs nothing.

use crate::catalogue::{COMMANDS, CommandSpec};
use crate::context::Project;
use crate::engine::snapshot::SessionSnapshot;
use crate::facts::mcp::McpServer;
use crate::facts::{HostFacts, JobFacts, SessionFacts};
use crate::limits::HISTORY_MESSAGES;
use crate::projection;
use crate::provider::models::Models;
use crate::tool;
use crate::tool::toolbox::Toolbox;

pub(super) fn help(commands: &[&CommandSpec]) -> String {
    let width = commands.iter().map(|command| command.usage.len()).max().unwrap_or_default();
    let lines = commands.iter().map(|command| format!("{:width$}  {}", command.usage, command.doc));
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn templates(project: &Project) -> String {
    let lines = project.templates.values().map(|template| {
        let taken = COMMANDS.iter().any(|command| command.name == template.name);
        let note = if taken { " (hidden by the command of that name)" } else { "" };
        format!("{}  {}{note}\n    {}", template.usage(), template.description, template.path.display())
    });
    let lines: Vec<String> = lines.collect();
    let text = match lines.is_empty() {
        true => {
            "There are no prompt templates. They stand as name.md in .edn-bridge/prompts of the project, or \
            in prompts beside the user's configuration."
                .to_owned()
        }
        false => lines.join("\n"),
    };
    text + &problems(project)
}

pub(super) fn skills(project: &Project) -> String {
    let lines = project.skills.values().map(|skill| {
        let note = if skill.for_model { "" } else { " (not told to the model)" };
        format!("{}  {}{note}\n    {}", skill.name, skill.description, skill.path.display())
    });
    let lines: Vec<String> = lines.collect();
    let text = match lines.is_empty() {
        true => {
            "There are no skills. They stand as name/SKILL.md in .edn-bridge/skills of the project, or in \
            skills beside the user's configuration."
                .to_owned()
        }
        false => lines.join("\n"),
    };
    text + &problems(project)
}

pub(super) fn problems(project: &Project) -> String {
    let lines = project.problems.iter();
    let lines = lines.map(|problem| format!("\n{}: {}", problem.path.display(), problem.message));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n\nCannot be used:{lines}") }
}

/// Whether the model may search the web: as set just now, chosen before, or configured.
pub(super) fn search(facts: &SessionFacts, configured: bool, set: Option<bool>, can: bool) -> String {
    let state = match set.or(facts.web_search) {
        Some(true) => "Web search is on for this session.",
        Some(false) => "Web search is off for this session.",
        None if configured => "Web search is on by the configuration; you are asked before it is offered.",
        None => "Web search is off. /search on offers the model its provider's search in this session.",
    };
    match can {
        true => state.to_owned(),
        false => format!(
            "{state} {} of {} has no search of its own, as far as is known.",
            facts.model_id, facts.model_provider
        ),
    }
}

pub(super) fn tools(tools: &Toolbox, offered: bool, model: &str) -> String {
    if !offered {
        return format!("The model {model} has no use for tools; it is offered none.");
    }
    let specs = tools.specs();
    let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
    let lines = specs.iter().map(|spec| format!("{:width$}  {}", spec.name, spec.description));
    lines.collect::<Vec<_>>().join("\n")
}

/// The MCP servers: each with its state, its tools and what went wrong.
pub(super) fn servers(servers: &[McpServer]) -> String {
    if servers.is_empty() {
        return "There are no MCP servers. They stand under :mcp of the configuration; edn-bridge mcp add adds one."
            .to_owned();
    }
    servers.iter().map(server).collect::<Vec<_>>().join("\n")
}

pub(super) fn server(server: &McpServer) -> String {
    let state = if server.enabled || server.state == "off" { server.state } else { "off for this session" };
    let mut text =
        format!("{}  {state}  ({}, {})  {}", server.name, server.source, server.transport, server.target);
    if let Some(title) = &server.title {
        text.push_str(&format!("\n    it calls itself {title}"));
    }
    for tool in &server.tools {
        let note = if tool.enabled { "" } else { " (off for this session)" };
        text.push_str(&format!("\n    {}{note}  {}", tool.name, tool.description));
    }
    for prompt in &server.prompts {
        text.push_str(&format!("\n    /{}  {}", prompt.name, prompt.description));
    }
    if server.resource_count > 0 {
        text.push_str(&format!(
            "\n    {} resources, named as @{}:address",
            server.resource_count, server.name
        ));
    }
    for problem in &server.problems {
        text.push_str(&format!("\n    not offered: {problem}"));
    }
    if let Some(error) = &server.last_error {
        text.push_str(&format!("\n    last error: {error}"));
    }
    text
}

/// The outcome of a choice. Of a model that the catalogue does not list, it says what is assumed, and a name that may be meant.
pub(super) fn model_set(models: &Models, provider: &str, id: &str) -> String {
    let set = format!("Model set to {provider} {id}");
    if models.find(provider, id).is_some() {
        return set;
    }
    let window = models.describe(provider, id).context_window;
    let near = models.similar(provider, id);
    let near = near.map(|near| format!(" Did you mean {provider}/{near}?")).unwrap_or_default();
    format!(
        "{set}. The catalogue does not list it: a window of {window} tokens is assumed, and its price is unknown.{near}"
    )
}

pub(super) fn status(snapshot: &SessionSnapshot) -> String {
    let facts = &snapshot.facts;
    let stats = projection::usage_parts(facts).join(" ");
    let model = match facts.has_model() {
        true => format!("{} {}", facts.model_provider, facts.model_id),
        false => "none yet".to_owned(),
    };
    format!(
        "Session: {}\nModel: {model}\nThinking: {}\nMode: {}\nPhase: {}\nMessages: {}\nUsage: {stats}",
        facts.display_name(),
        facts.effective_thinking().as_str(),
        facts.mode,
        facts.phase.as_str(),
        facts.message_count,
    )
}

/// A background job on one line.
/// The hosts of the realm, a line for each.
pub(super) fn hosts(hosts: &[HostFacts]) -> String {
    let line = |host: &HostFacts| {
        let here = if host.is_here { ", this one" } else { "" };
        let state = match host.is_alive {
            true => "there".to_owned(),
            false => format!("lost for {} s", host.lost_ms / 1000),
        };
        format!("{}{here}: {state}, sessions: {}, build {}", host.name, host.sessions, host.build)
    };
    hosts.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(super) fn job_line(job: &JobFacts) -> String {
    let exit = job.exit_code.map(|code| format!(" (exit {code})")).unwrap_or_default();
    format!("{}  {}{exit}  {}", job.id, job.status.as_str(), tool::one_line(&job.command, 100))
}

/// A background job with its times and its latest output.
pub(super) fn job(job: &JobFacts) -> String {
    let ended = job.ended_at.as_deref().map(|at| format!("\nEnded: {at}")).unwrap_or_default();
    let output = if job.output.is_empty() { "(no output yet)" } else { &*job.output };
    format!("{}\nStarted: {}{ended}\n\n{output}", job_line(job), job.started_at)
}

pub(super) fn history(snapshot: &SessionSnapshot) -> String {
    let mut lines: Vec<String> = snapshot
        .messages()
        .rev()
        .take(HISTORY_MESSAGES)
        .map(|message| {
            let start: String = message.text().chars().take(100).collect();
            format!("{:9}  {}", message.role.as_str(), start.replace('\n', " "))
        })
        .collect();
    lines.push("Message history".to_owned());
    lines.reverse();
    lines.join("\n")
}

pub(super) fn worktree(snapshot: &SessionSnapshot) -> String {
    let branch = snapshot.facts.git_branch.as_deref().unwrap_or("no repository");
    format!("{} ({branch})", snapshot.facts.cwd)
}
