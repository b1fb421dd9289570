//! What a project's configuration would do if it were trusted, for a person who decides that. Runs nothing of it.

use std::collections::HashSet;
use std::path::Path;

use crate::agent::AgentSetups;
use crate::config::{Files, ProjectFiles, unwatched};
use crate::edn;
use crate::facts::permissions::{ProjectEffect, TrustPreview};
use crate::files;
use crate::hook::{Hook, Hooks, Source};
use crate::http::without_keys;
use crate::limits::{PREVIEW_TEXT_CHARS, TRUST_RUNS, WORKFLOW_BYTES};
use crate::mcp;
use crate::peer;
use crate::secret::{Secret, mask_command};
use crate::tool::permission::{Decision, Rule};
use crate::value::{Map, Value};
use crate::workflow::{self, Check, Stage, Step, Workflow};

/// The preview of a project. Everything in it is of one content: what `files` has the digests of.
pub(super) fn preview(project: &Files) -> TrustPreview {
    let Some(ProjectFiles { root, configuration, sealed, state }) = project.content() else {
        return TrustPreview { state: "none", ..TrustPreview::default() };
    };
    let mut seen = Preview { runs: Vec::new(), problems: sealed.wrong().into_iter().collect() };
    if let Some(bytes) = &configuration {
        match edn::read_one(bytes) {
            Ok(Value::Map(map)) => {
                seen.configuration(&root, &map);
                seen.problems.extend(unwatched(&root, &Value::Map(map)));
            }
            Ok(_) => seen.problems.push(".edn-bridge/config.edn is not a map".to_owned()),
            Err(error) => seen.problems.push(format!(".edn-bridge/config.edn: {error}")),
        }
    }
    let most = u64::try_from(WORKFLOW_BYTES.saturating_add(1)).unwrap_or(u64::MAX);
    for (path, _) in sealed.iter() {
        let Some(name) =
            path.strip_prefix(".edn-bridge/workflows/").and_then(|name| name.strip_suffix(".edn"))
        else {
            continue;
        };
        let read = root.join(path).canonicalize().and_then(|real| files::read(&real, most));
        match read {
            Ok(bytes) if sealed.holds(Path::new(path), &bytes) => match workflow::read(name, &bytes) {
                Ok(workflow) => seen.workflow(&workflow),
                Err(error) => seen.problems.push(format!("{path}:{error}")),
            },
            Ok(_) => seen.problems.push(format!("{path} is being changed, or is too long")),
            Err(error) => seen.problems.push(format!("{path}: {error}")),
        }
    }
    if seen.runs.len() > TRUST_RUNS {
        seen.problems.push(format!("only the first {TRUST_RUNS} of {} things are listed", seen.runs.len()));
        seen.runs.truncate(TRUST_RUNS);
    }
    let Preview { runs, mut problems } = seen;
    if problems.len() > TRUST_RUNS {
        let more = problems.len().saturating_sub(TRUST_RUNS);
        problems.truncate(TRUST_RUNS);
        problems.push(format!("{more} more"));
    }
    problems.iter_mut().for_each(shorten);
    let files = sealed.iter().map(|(path, digest)| (path.to_owned(), digest.to_owned())).collect();
    TrustPreview { state, runs, problems, files }
}

/// The agents that a project's configuration names, trusted or not.
pub fn agents_of_project(project: &Files) -> AgentSetups {
    let Some(ProjectFiles { root, configuration: Some(bytes), .. }) = project.content() else {
        return AgentSetups::default();
    };
    match edn::read_one(&bytes) {
        Ok(Value::Map(map)) => {
            let from = || peer::Source::Project(root.join(".edn-bridge/config.edn"));
            AgentSetups::read(map.get_keyword("agents").map(|value| (from(), value)))
        }
        _ => AgentSetups::default(),
    }
}

/// What was found so far.
struct Preview {
    runs: Vec<ProjectEffect>,
    problems: Vec<String>,
}

impl Preview {
    fn add(&mut self, kind: &'static str, name: impl Into<String>, text: &str) {
        let (mut text, mut name) = (mask_command(text).into_owned(), name.into());
        shorten(&mut text);
        shorten(&mut name);
        self.runs.push(ProjectEffect { kind, name, text });
    }

    fn configuration(&mut self, root: &Path, map: &Map<'_>) {
        let hooks = map.get_keyword("hooks").and_then(Value::as_slice).unwrap_or_default().iter();
        let inside = |key: &str, list: &str| {
            map.get_keyword(key).and_then(|value| value.get(list)?.as_slice()).unwrap_or_default().iter()
        };
        let sources = hooks.map(|value| Source { root: Some(root), ..Source::users(value) });
        match Hooks::read(sources) {
            Ok(hooks) => hooks.iter().for_each(|hook| self.hook(hook)),
            Err(error) => self.problems.push(format!("the hooks of .edn-bridge/config.edn: {error}")),
        }
        let providers = map.get_keyword("providers").and_then(Value::as_map).into_iter().flat_map(Map::iter);
        for (name, provider) in providers {
            let name = name.as_str().or_else(|| name.as_keyword()).unwrap_or_default();
            if let Some(command) = provider.get("key-command").and_then(Value::as_slice) {
                self.add("key command", name, &words(command));
            }
            if let Some(address) = provider.get("base-url").and_then(Value::as_str) {
                self.add("provider", name, &without_keys(address));
            }
            // Whose keys go there.
            for key in ["key-variables", "key-store", "login"] {
                if let Some(value) = provider.get(key).filter(|value| !value.is_nil()) {
                    self.add("provider", format!("{name}, :{key}"), &value.to_string());
                }
            }
            for (header, _) in provider.get("headers").and_then(Value::as_map).into_iter().flat_map(Map::iter)
            {
                self.add("provider", format!("{name}, header"), &header.to_string());
            }
        }
        let variables = map.get_keyword("commands").and_then(|value| value.get("environment")?.as_map());
        for (name, value) in variables.into_iter().flat_map(Map::iter) {
            let name = name.as_str().or_else(|| name.as_keyword()).unwrap_or_default();
            let text = match value.as_str() {
                Some(text) => peer::source_of(name, &peer::Variable::Text(Secret::new(text.to_owned()))),
                None => "taken away".to_owned(),
            };
            self.add("variable of commands", name, &text);
        }
        if let Some(value) = map.get_keyword("mcp") {
            let from = root.join(".edn-bridge/config.edn");
            let mcp = mcp::Settings::read([(peer::Source::Project(from), value)]);
            for server in &mcp.servers {
                self.add("server", &*server.name, &server.shown());
                // On lines of their own, so that no long command line hides them.
                for (what, text) in server.details() {
                    self.add("server", format!("{}, {what}", server.name), &text);
                }
            }
            self.problems.extend(mcp.problems);
        }
        if let Some(value) = map.get_keyword("agents") {
            let from = root.join(".edn-bridge/config.edn");
            let agents = AgentSetups::read([(peer::Source::Project(from), value)]);
            for agent in &agents.agents {
                self.add("agent", &*agent.name, &agent.shown());
                for (what, text) in agent.details() {
                    self.add("agent", format!("{}, {what}", agent.name), &text);
                }
            }
            self.problems.extend(agents.problems);
        }
        for value in inside("permissions", "rules") {
            match Rule::read(value) {
                Ok(rule) if rule.decision == Decision::Allow => self.add("rule", "", &rule.text()),
                Ok(_) => {}
                Err(error) => self.problems.push(format!("a rule of .edn-bridge/config.edn: {error}")),
            }
        }
        for folder in inside("sandbox", "writable").filter_map(Value::as_str) {
            self.add("writable folder", folder, "commands may write to it");
        }
        for host in inside("fetch", "private").filter_map(Value::as_str) {
            self.add("private host", host, "what is fetched may come from it");
        }
        for key in ["mode", "provider", "model"] {
            let value = map.get_keyword(key).and_then(|value| value.as_str().or_else(|| value.as_keyword()));
            if let Some(value) = value {
                self.add("setting", key, value);
            }
        }
    }

    fn hook(&mut self, hook: &Hook) {
        let name = format!("{} ({} {})", hook.id, hook.point.as_str(), hook.stage.as_str());
        self.add("hook", name, &peer::command_line(&hook.command));
    }

    fn workflow(&mut self, workflow: &Workflow) {
        self.add("workflow", &*workflow.name, &workflow.doc);
        let mut known = HashSet::new();
        let mut checks = |stage: &Stage| {
            for check in stage.gate.iter().chain(&stage.asserts) {
                if let Check::Command { command, .. } = check
                    && known.insert((stage.id.clone(), command.clone()))
                {
                    self.add("check", format!("{}, stage {}", workflow.name, stage.id), command);
                }
            }
        };
        for step in &workflow.stages {
            match step {
                Step::Stage(stage) => checks(stage),
                Step::Parallel { siblings, join, .. } => {
                    siblings.iter().chain(join).for_each(|stage| checks(stage));
                }
            }
        }
    }
}

/// Leaves the start of a long text, and says how long it is: what follows may be what counts.
fn shorten(text: &mut String) {
    if let Some((cut, _)) = text.char_indices().nth(PREVIEW_TEXT_CHARS) {
        let all = text.chars().count();
        text.truncate(cut);
        text.push_str(&format!("… ({all} characters)"));
    }
}

fn words(command: &[Value<'_>]) -> String {
    let words: Vec<String> = command.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    peer::command_line(&words)
}
