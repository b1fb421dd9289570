//! One revision of the configuration for sessions: rules, hooks, workflows, models, their servers, and
//! writable folders.
//!
//! The journal's record of it is a manifest. A session keeps one revision until a boundary between two stages, and then
//! switches to the newest: no stage, and no group of calls, starts under one configuration and ends under another. Does
//! not read files itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::agent::{AgentSetup, AgentSetups};
use crate::clock::rfc3339;
use crate::config::{ConfigError, KeptFiles, Layers, ServersValue, Settings, programs_below};
use crate::context::Project;
use crate::engine::providers::Providers;
use crate::engine::rules;
use crate::environment::Environment;
use crate::facts::SessionFacts;
use crate::files::{self, Seal};
use crate::hook::{self, HookError, Hooks};
use crate::limits::{WORKFLOW_BYTES, WORKFLOWS};
use crate::mcp;
use crate::message::Mode;
use crate::peer::Source;
use crate::provider::choice::NamedModel;
use crate::provider::learned_limits::LearnedLimits;
use crate::provider::models::Models;
use crate::runner::sandbox::Sandbox;
use crate::session::ApiError;
use crate::similar;
use crate::store::{EntryBody, record};
use crate::tool::permission::Rule;
use crate::value::{Map, Value};
use crate::workflow::{self, Workflow};

/// One reading of the configuration.
#[derive(Default)]
pub struct ConfigRevision {
    /// 1 for the reading at the start of the process, then counted up.
    pub revision: u64,
    /// When it was read, RFC 3339 in UTC.
    pub read_at: Arc<str>,
    /// The values for new sessions, and the writable folders in addition to the workspace.
    pub settings: Settings,
    /// The known models.
    pub models: Models,
    /// Their providers.
    pub providers: Providers,
    /// The variables of programs, without those that hold keys.
    pub environment: Environment,
    /// The permission rules of the command line, which hold for the process.
    pub option_rules: Vec<Rule>,
    /// The permission rules of the configuration's files.
    pub rules: Vec<Rule>,
    /// The hooks, in order.
    pub hooks: Hooks,
    /// The MCP servers. What of them cannot be used is left out, and reported with the reading.
    pub mcp: mcp::Settings,
    /// The files that their commands name, as they must be when these run.
    pub mcp_seals: BTreeMap<String, Seal>,
    /// The files in the folder that the user's own configuration runs.
    pub programs: Vec<PathBuf>,
    /// The agents that answer turns.
    pub agents: AgentSetups,
    /// The workflows by name. An unusable one has its error as a text, because a list of workflows shows it to a person
    /// and nobody acts on it.
    pub workflows: BTreeMap<String, Result<Arc<Workflow>, String>>,
    /// Why the project is no longer trusted, until a person was told.
    pub distrust: Mutex<Option<String>>,
}

/// Why a configuration cannot be used as a whole. What spoils one part of it alone is a problem, not an error.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// A file cannot be read, or has the wrong shape.
    #[error(transparent)]
    Files(#[from] ConfigError),
    /// A hook is invalid. A guard that is passed over guards nothing.
    #[error("the configuration's :hooks: {0}")]
    Hooks(#[from] HookError),
}

/// The maps of layers, each with where it stands.
fn sourced<'l>(layers: &'l [ServersValue]) -> impl Iterator<Item = (Source, &'l Value<'l>)> {
    layers.iter().map(|layer| {
        let source = match layer.root {
            Some(_) => Source::Project(layer.from.clone()),
            None => Source::User(layer.from.clone()),
        };
        (source, &layer.value)
    })
}

/// The external agents that a configuration names.
pub fn agents_of(layers: &Layers) -> AgentSetups {
    let mut agents = AgentSetups::read(sourced(&layers.agents));
    for agent in &mut agents.agents {
        let mut seals = layers.agents.iter().rev().flat_map(|all| &all.seals);
        let seal = seals.find(|(name, _)| **name == *agent.name);
        agent.seal = seal.map(|(_, seal)| seal.clone()).unwrap_or_default();
    }
    agents
}

/// The built-in workflows.
const BUNDLED: [(&str, &str); 2] = [
    ("review-diff", include_str!("../../examples/workflows/review-diff.edn")),
    ("fix-test", include_str!("../../examples/workflows/fix-test.edn")),
];

/// The files in a folder that the user's own hooks, servers, agents and key commands name.
fn programs(settings: &Settings, layers: &Layers) -> Vec<PathBuf> {
    let hooks = layers.hooks.iter().filter(|hook| hook.root.is_none()).map(|hook| hook.value.clone());
    let servers = layers.mcp.iter().chain(&layers.agents).filter(|servers| servers.root.is_none());
    let servers = servers.flat_map(|servers| servers.value.as_map().into_iter().flat_map(Map::iter));
    let providers = layers.providers.iter().map(|(_, provider)| provider.clone());
    let commands = hooks.chain(servers.map(|(_, server)| server.clone())).chain(providers);
    commands.flat_map(|command: Value<'static>| programs_below(&settings.cwd, &command)).collect()
}

/// The workflows of the program, of the user and, if it is trusted, of the project. A later one replaces an
/// earlier one of the same name.
fn workflows(settings: &Settings, layers: &Layers) -> BTreeMap<String, Result<Arc<Workflow>, String>> {
    let mut workflows = BTreeMap::new();
    for (name, text) in BUNDLED {
        let read = workflow::read(name, text.as_bytes()).map(Arc::new);
        workflows.insert(name.to_owned(), read.map_err(|error| format!("{name}.edn:{error}")));
    }
    // One byte more than permitted, to detect a file that is too long.
    let most = u64::try_from(WORKFLOW_BYTES.saturating_add(1)).unwrap_or(u64::MAX);
    let known = &settings.files;
    let project = known.project.as_deref().filter(|_| layers.sealed.is_some());
    for folder in [known.user.as_deref(), project].into_iter().flatten().filter_map(Path::parent) {
        let entries = std::fs::read_dir(folder.join("workflows")).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "edn"));
        paths.sort();
        if paths.len() > WORKFLOWS {
            tracing::warn!("{}: only the first {WORKFLOWS} workflows are read", folder.display());
        }
        for path in paths.into_iter().take(WORKFLOWS) {
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            let text = path.canonicalize().and_then(|real| files::read(&real, most));
            let text = text.map_err(|error| format!("{}: {error}", path.display()));
            let text = text.and_then(|text| {
                match (&layers.sealed, project.and_then(Path::parent) == Some(folder)) {
                    // Reads the trusted content.
                    (Some(sealed), true)
                        if !sealed.holds(
                            &Path::new(".edn-bridge/workflows").join(format!("{name}.edn")),
                            &text,
                        ) =>
                    {
                        Err(format!("{}: it has changed since the project was trusted", path.display()))
                    }
                    _ => Ok(text),
                }
            });
            let read = text.and_then(|text| {
                let read = workflow::read(name, &text).map(Arc::new);
                read.map_err(|error| format!("{}:{error}", path.display()))
            });
            workflows.insert(name.to_owned(), read);
        }
    }
    workflows
}

/// The names that settings have for new sessions.
pub fn named_model(settings: &Settings) -> NamedModel {
    NamedModel {
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        is_apart: settings.model_is_apart,
    }
}

impl ConfigRevision {
    /// The sandbox of a session's commands. It does not apply in the mode `yolo`.
    pub fn sandbox(&self, mode: Mode, cwd: &Path, roots: &[PathBuf]) -> Option<Sandbox> {
        (mode != Mode::Yolo).then(|| {
            let allowed = self.settings.writable.iter().cloned();
            let KeptFiles { guarded, hidden } = self.settings.kept();
            let folders = allowed.chain([cwd.to_owned()]).chain(roots.iter().cloned());
            Sandbox::new(folders).guarding(guarded).hiding(hidden)
        })
    }

    /// The revision with that number and time, and the unusable models and servers, for a person.
    ///
    /// # Errors
    /// An invalid hook.
    pub fn new(
        revision: u64,
        read_at: Timestamp,
        settings: Settings,
        layers: &Layers,
        providers: Providers,
    ) -> Result<(Self, Vec<String>), ConfigurationError> {
        let sources = layers.hooks.iter().map(|hook| hook::Source {
            value: &hook.value,
            root: hook.root.as_deref(),
            seal: hook.seal.clone(),
        });
        let hooks = Hooks::read(sources)?;
        let (models, wrong) = Models::new(&settings.models);
        let limits = LearnedLimits::open(settings.state_dir.join("learned-limits.edn"));
        let models = models.with_limits(limits, providers.addresses());
        let wrong = wrong.into_iter().map(|wrong| format!("the configuration's :models: {wrong}"));
        let servers = providers.problems();
        let servers = servers.map(|wrong| format!("the configuration's :providers: {wrong}"));
        let of_tools = mcp::Settings::read(sourced(&layers.mcp));
        let unusable = of_tools.problems.iter().map(|wrong| format!("the configuration's :mcp: {wrong}"));
        let agents = agents_of(layers);
        let no_agents = agents.problems.iter().map(|wrong| format!("the configuration's :agents: {wrong}"));
        let problems = layers.distrust.iter().cloned().chain(wrong).chain(servers).chain(unusable);
        let problems: Vec<String> = problems.chain(no_agents).collect();
        // One that is named and not listed can be chosen again.
        let models = match providers.choice(&named_model(&settings), &models, None) {
            Ok(choice) if providers.get(&choice.provider).is_some() => {
                models.with(&choice.provider, &choice.model)
            }
            _ => models,
        };
        let config = Self {
            revision,
            read_at: rfc3339(read_at),
            option_rules: rules::usable(&settings.overrides.rules),
            rules: rules::configured(layers),
            hooks,
            mcp: of_tools,
            mcp_seals: layers.mcp.iter().flat_map(|servers| servers.seals.clone()).collect(),
            agents,
            programs: programs(&settings, layers),
            workflows: workflows(&settings, layers),
            models,
            distrust: Mutex::new(layers.distrust.clone()),
            environment: settings.environment.hiding(
                providers.key_variables().into_iter().chain(layers.named_variables.iter().cloned()),
                &layers.hidden_variables,
            ),
            providers,
            settings,
        };
        Ok((config, problems))
    }

    /// The external agent of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn agent(&self, name: &str) -> Result<AgentSetup, ApiError> {
        if let Some(setup) = self.agents.get(name) {
            return Ok(setup.clone());
        }
        let names = self.agents.agents.iter().map(|agent| &*agent.name);
        let mut error = ApiError::not_found("agent", name);
        match similar::names(name, names).first() {
            Some(near) => error.message.push_str(&format!(" Did you mean {near}?")),
            None => error.message.push_str(" Agents are named at :agents in the configuration."),
        }
        Err(error)
    }

    /// Its content on one line.
    pub fn summary(&self) -> String {
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        let mut summary = format!(
            "{}, {}, {}",
            counted(self.rules.len(), "rule"),
            counted(self.hooks.len(), "hook"),
            counted(self.workflows.len(), "workflow")
        );
        let Settings { models, providers, writable, .. } = &self.settings;
        for (count, what) in [
            (models.len(), "configured model"),
            (providers.len(), "configured provider"),
            (writable.len(), "writable folder"),
            (self.mcp.servers.len(), "MCP server"),
            (self.agents.agents.len(), "agent"),
        ] {
            if count > 0 {
                summary.push_str(&format!(", {}", counted(count, what)));
            }
        }
        for wrong in self.workflows.values().filter_map(|read| read.as_ref().err()) {
            summary.push_str(&format!("; not usable: {wrong}"));
        }
        summary
    }

    /// Fills in the facts about the session's model.
    pub fn describe_model(&self, facts: &mut SessionFacts) {
        // An agent says itself which model it has.
        if facts.agent.is_some() {
            return;
        }
        let model = self.models.describe(&facts.model_provider, &facts.model_id);
        facts.context_window = model.context_window;
        facts.model_reasoning = model.thinking_by.is_some();
        facts.thinking_levels = model.thinking.clone();
    }

    /// The entry of a session that switches to it.
    pub fn entry(&self, project: &Project) -> EntryBody {
        let Settings { models, providers, writable, .. } = &self.settings;
        EntryBody::Manifest(Box::new(record::Manifest {
            revision: self.revision,
            rules: self.rules.len(),
            workflows: self.workflows.keys().cloned().collect(),
            hooks: self.hooks.iter().map(|hook| hook.id.to_string()).collect(),
            skills: project.skills.keys().cloned().collect(),
            models: models.len(),
            providers: providers.iter().map(|(name, _)| name.clone()).collect(),
            writable: writable.iter().map(|folder| folder.to_string_lossy().into_owned()).collect(),
        }))
    }
}
