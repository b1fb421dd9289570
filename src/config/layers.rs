//! The values of the files, each taken over those before: what a file may say, and what a project that is not trusted may
//! not. Reads no file itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::control::ControlPolicy;
use super::daemon::DaemonPolicy;
use super::error::ConfigError;
use super::fetch::FetchSettings;
use super::realm::RealmPolicy;
use super::source_position::FileText;
use super::telemetry::TelemetryPolicy;
use super::trust::Sealed;
use crate::files::Seal;
use crate::http::host::HostPattern;
use crate::limits::{ORPHAN_GRACE_MAX_MS, RULES};
use crate::message::{Mode, ThinkingLevel};
use crate::similar;
use crate::value::{Map, Value};

/// What a file may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Provider,
    Model,
    Mode,
    Permissions,
    Models,
    Providers,
    Hooks,
    Fetch,
    Mcp,
    Agents,
    Interaction,
    Sandbox,
    Commands,
    Tools,
    Control,
    Daemon,
    Telemetry,
    Realm,
    Hidden,
}

/// The settings by name, also for the nearest name to a mistyped one.
const SETTINGS: [(&str, Setting); 19] = [
    ("provider", Setting::Provider),
    ("model", Setting::Model),
    ("mode", Setting::Mode),
    ("permissions", Setting::Permissions),
    ("models", Setting::Models),
    ("providers", Setting::Providers),
    ("hooks", Setting::Hooks),
    ("fetch", Setting::Fetch),
    ("mcp", Setting::Mcp),
    ("agents", Setting::Agents),
    ("interaction", Setting::Interaction),
    ("sandbox", Setting::Sandbox),
    ("commands", Setting::Commands),
    ("tools", Setting::Tools),
    ("control", Setting::Control),
    ("daemon", Setting::Daemon),
    ("telemetry", Setting::Telemetry),
    ("realm", Setting::Realm),
    ("hidden", Setting::Hidden),
];

/// A value and the file that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced {
    /// The key, such as `mode` or `permissions`.
    pub key: String,
    /// The value.
    pub value: Value<'static>,
    /// The file.
    pub from: PathBuf,
}

/// A hook as a file writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct HookValue {
    /// What is written.
    pub value: Value<'static>,
    /// The project that it belongs to; `None` for one of the user's.
    pub root: Option<PathBuf>,
    /// The files of the project that its command names, as they were trusted; of a hook of the user's the code among them,
    /// as it was when the configuration was read.
    pub seal: Seal,
}

/// The MCP servers of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ServersValue {
    /// What is written, a map by name.
    pub value: Value<'static>,
    /// The file.
    pub from: PathBuf,
    /// The project that they belong to; `None` for the user's.
    pub root: Option<PathBuf>,
    /// The same as of a hook, by server.
    pub seals: Vec<(String, Seal)>,
}

/// A rule for tools, as a file has it.
#[derive(Debug, Clone)]
pub struct RuleValue {
    /// The rule.
    pub value: Value<'static>,
    /// Where it stands, for a person.
    pub place: String,
}

/// How much of what runs programs was taken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    hooks: usize,
    mcp: usize,
    agents: usize,
    providers: usize,
}

/// What the files say together.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The provider of new sessions.
    pub provider: Option<String>,
    /// The model of new sessions.
    pub model: Option<String>,
    /// The thinking level of new sessions, if one was chosen in the program.
    pub thinking: Option<ThinkingLevel>,
    /// The mode of new sessions.
    pub mode: Option<Mode>,
    /// Rules for tools, the user's first.
    pub rules: Vec<RuleValue>,
    /// Folders that commands may write to.
    pub writable: Vec<PathBuf>,
    /// Variables of the model's commands; `None` takes one back.
    pub commands: Vec<(String, Option<String>)>,
    /// Whether models may be offered the search of their providers, if a file says it.
    pub web_search: Option<bool>,
    /// The hosts that may be on this machine or in a private network, for what is fetched.
    pub private_hosts: Vec<HostPattern>,
    /// Whether `fetch` goes through the proxy that the environment names, from the user's file alone.
    pub fetch_proxy: bool,
    /// How long a question stays open after its last client has left, if a file says it.
    pub orphan_grace: Option<Duration>,
    /// Whether editors use the daemon, from the user's file alone.
    pub daemon: DaemonPolicy,
    /// Where spans and metrics are sent, from the user's file alone.
    pub telemetry: TelemetryPolicy,
    /// Who may control sessions, from the user's file alone.
    pub control: ControlPolicy,
    /// How this machine takes part in a realm, from the user's file alone.
    pub realm: Option<RealmPolicy>,
    /// Commands at the boundaries of turns, the user's first.
    pub hooks: Vec<HookValue>,
    /// MCP servers, the user's first.
    pub mcp: Vec<ServersValue>,
    /// Agents that answer turns, the user's first.
    pub agents: Vec<ServersValue>,
    /// What the project was trusted with, where it is.
    pub sealed: Option<Sealed>,
    /// Why the project is not trusted though it was, for a person.
    pub distrust: Option<String>,
    /// Further models.
    pub models: Vec<Value<'static>>,
    /// Further servers of models, or changes to those that are known.
    pub providers: Vec<(String, Value<'static>)>,
    /// The same as of a hook for the commands that print keys, by provider. A later one counts.
    pub provider_seals: Vec<(String, Seal)>,
    /// Where each value came from, in the order in which they were taken.
    pub sources: Vec<Sourced>,
    /// The variables that the files name at any `{:variable …}`: their values are secrets of whom they are named for.
    pub named_variables: Vec<String>,
    /// Further variables that programs do not inherit, from `:hidden`.
    pub hidden_variables: Vec<String>,
    /// What was passed over, with why; that of the user's file first.
    pub passed_over: Vec<String>,
    /// How much of what was passed over stands in the user's file.
    pub own_passed_over: usize,
    /// How many of the rules do.
    pub own_rules: usize,
    /// What of it stands in the file of a project that is trusted, and cannot be used: what was read of it before is
    /// worth more.
    pub broken: Vec<String>,
}

impl Layers {
    /// The file that a value was taken from, where one says it.
    pub fn origin(&self, key: &str) -> Option<&Path> {
        self.sources.iter().rev().find(|sourced| sourced.key == key).map(|sourced| sourced.from.as_path())
    }
}

impl Layers {
    /// Takes a model and a thinking level that were chosen in the program. A choice that is not understood is passed over.
    pub(super) fn take_choice(&mut self, path: &Path, choice: &Value<'static>) {
        let text = |key: &str| choice.get(key).and_then(Value::as_str).map(str::to_owned);
        let level = text("thinking").as_deref().and_then(ThinkingLevel::parse);
        if level.is_some() {
            self.thinking = level;
        }
        let (Some(provider), Some(model)) = (text("provider"), text("model")) else {
            if level.is_none() {
                self.passed_over.push(format!("{}: {choice} is no choice of a model", path.display()));
            }
            return;
        };
        for (key, value) in [("provider", &provider), ("model", &model)] {
            let (key, value) = (key.to_owned(), Value::from(value.clone()));
            self.sources.push(Sourced { key, value, from: path.to_owned() });
        }
        self.provider = Some(provider);
        self.model = Some(model);
    }

    /// Takes the values of the user's file over those before. Returns what cannot be taken.
    pub(super) fn take_user(&mut self, file: FileText<'_>, map: &Map<'static>) -> Vec<ConfigError> {
        map.iter().for_each(|(_, value)| variables(value, &mut self.named_variables));
        let wrong = map.iter().filter_map(|(key, value)| self.take_own(file, key, value).err()).collect();
        (self.own_passed_over, self.own_rules) = (self.passed_over.len(), self.rules.len());
        wrong
    }

    /// Takes one value of the user's file.
    fn take_own(
        &mut self,
        file: FileText<'_>,
        key: &Value<'static>,
        value: &Value<'static>,
    ) -> Result<(), ConfigError> {
        let shape = |expected| ConfigError::Shape { place: file.place(key), key: key.to_string(), expected };
        match key.as_keyword() {
            Some("control") => self.control = ControlPolicy::read(value).map_err(shape)?,
            Some("daemon") => self.daemon = DaemonPolicy::read(value).map_err(shape)?,
            Some("telemetry") => self.telemetry = TelemetryPolicy::read(value).map_err(shape)?,
            Some("realm") => {
                let policy = RealmPolicy::read(value).map_err(shape)?;
                // The address may hold a password.
                let value = Value::from(Map::new().with("host", policy.host.to_string()));
                self.realm = Some(policy);
                self.sources.push(Sourced { key: "realm".to_owned(), value, from: file.path.to_owned() });
                return Ok(());
            }
            Some("fetch") => {
                let FetchSettings { private, proxy } = FetchSettings::read(value).map_err(shape)?;
                self.private_hosts.extend(private);
                self.fetch_proxy = proxy.unwrap_or(self.fetch_proxy);
            }
            _ => return self.take(file, key, value, true),
        }
        let key = key.as_keyword().unwrap_or_default().to_owned();
        self.sources.push(Sourced { key, value: value.clone(), from: file.path.to_owned() });
        Ok(())
    }

    /// Takes the values of the project's file over those before. One that cannot be used is passed over.
    pub(super) fn take_project(&mut self, file: FileText<'_>, map: &Map<'static>, trusted: bool) {
        for (key, value) in map.iter() {
            variables(value, &mut self.named_variables);
            if let Err(error) = self.take(file, key, value, trusted) {
                self.pass_over(&error, trusted);
            }
        }
    }

    /// How much was taken until now.
    pub(super) fn taken(&self) -> Taken {
        Taken {
            hooks: self.hooks.len(),
            mcp: self.mcp.len(),
            agents: self.agents.len(),
            providers: self.providers.len(),
        }
    }

    /// Seals the files that commands name, of what was taken since then; `root` is the folder of the project that it
    /// belongs to.
    pub(super) fn seal(&mut self, since: Taken, root: Option<&Path>, seal: impl Fn(&Value<'_>) -> Seal) {
        for hook in self.hooks.iter_mut().skip(since.hooks) {
            hook.seal = seal(&hook.value);
            hook.root = root.map(Path::to_owned);
        }
        let agents = self.agents.iter_mut().skip(since.agents);
        for servers in self.mcp.iter_mut().skip(since.mcp).chain(agents) {
            let all = servers.value.as_map().into_iter().flat_map(Map::iter);
            // An entry that only switches the server of an earlier file says nothing of its files.
            let all = all.filter(|(_, server)| server.get("command").or_else(|| server.get("url")).is_some());
            let sealed = all.filter_map(|(name, server)| {
                let name = name.as_str().or_else(|| name.as_keyword())?;
                Some((name.to_owned(), seal(server)))
            });
            servers.seals = sealed.collect();
            servers.root = root.map(Path::to_owned);
        }
        let providers = self.providers.iter().skip(since.providers);
        let with_command = providers
            .filter(|(_, provider)| provider.get("key-command").or_else(|| provider.get("login")).is_some());
        self.provider_seals.extend(with_command.map(|(name, provider)| (name.clone(), seal(provider))));
    }

    pub(super) fn pass_over(&mut self, error: &ConfigError, trusted: bool) {
        self.passed_over.push(error.to_string());
        if trusted {
            self.broken.push(error.to_string());
        }
    }

    /// Notes the keys of a setting that it does not have.
    fn note_unknown(&mut self, file: FileText<'_>, setting: &Value<'_>, value: &Value<'_>, known: &[&str]) {
        for (key, _) in value.as_map().into_iter().flat_map(Map::iter) {
            if key.as_keyword().is_some_and(|key| known.contains(&key)) {
                continue;
            }
            let place = file.place_of(&[setting.clone(), key.clone()]);
            let near = near(key.as_keyword().or_else(|| key.as_str()).unwrap_or_default(), known);
            self.passed_over.push(format!("{place}: {setting} has no {key}{near}"));
        }
    }

    /// Takes one value.
    fn take(
        &mut self,
        file: FileText<'_>,
        key: &Value<'static>,
        value: &Value<'static>,
        trusted: bool,
    ) -> Result<(), ConfigError> {
        let path = file.path;
        let Some(name) = key.as_keyword() else {
            self.passed_over.push(format!("{}: {key} is no keyword", file.place(key)));
            return Ok(());
        };
        let shape = |expected| ConfigError::Shape { place: file.place(key), key: key.to_string(), expected };
        let text = || {
            let text = value.as_str().or_else(|| value.as_keyword()).map(str::to_owned);
            text.ok_or_else(|| shape("a string or a keyword"))
        };
        let list = |value: Option<&Value<'static>>, expected| match value {
            None | Some(Value::Nil) => Ok(Vec::new()),
            Some(value) => value.as_slice().map(<[_]>::to_vec).ok_or_else(|| shape(expected)),
        };
        let Some((_, setting)) = SETTINGS.into_iter().find(|(known, _)| *known == name) else {
            let near = near(name, &SETTINGS.map(|(known, _)| known));
            self.passed_over.push(format!("{}: there is no setting {key}{near}", file.place(key)));
            return Ok(());
        };
        let mut refused = false;
        match setting {
            Setting::Mode => {
                let wanted =
                    Mode::parse(&text()?).ok_or_else(|| shape("ask, accept-edits, read-only or yolo"))?;
                match trusted || wanted <= self.mode.unwrap_or_default() {
                    true => self.mode = Some(wanted),
                    false => refused = true,
                }
            }
            Setting::Permissions => {
                if value.as_map().is_none() {
                    return Err(shape("{:rules [rule …]}"));
                }
                self.note_unknown(file, key, value, &["rules"]);
                let rules = list(value.get("rules"), "{:rules [rule …]}")?;
                let all = rules.len();
                // A rule that allows widens; one that asks or denies does not.
                let narrows = |rule: &Value<'_>| {
                    rule.get("decision")
                        .is_some_and(|d| d.as_keyword() != Some("allow") && d.as_str() != Some("allow"))
                };
                let keys = [key.clone(), Value::keyword("rules")];
                let numbered = rules.into_iter().enumerate();
                let taken: Vec<_> = numbered.filter(|(_, rule)| trusted || narrows(rule)).collect();
                refused = taken.len() < all;
                if taken.len() > RULES {
                    return Err(shape("at most 1,000 rules"));
                }
                let places = file.elements(&keys);
                let placed = |(at, value)| RuleValue { value, place: file.at(places.get(at)) };
                self.rules.extend(taken.into_iter().map(placed));
            }
            Setting::Control | Setting::Daemon | Setting::Realm | Setting::Telemetry => {
                let why = match setting {
                    Setting::Telemetry => "only the user's own configuration says where figures are sent",
                    Setting::Realm => "only the user's own configuration says which realm this machine is in",
                    _ => "only the user's own configuration says who may control sessions, and who runs them",
                };
                self.passed_over.push(format!("{}: {key}: {why}", file.place(key)));
                return Ok(());
            }
            _ if !trusted => refused = true,
            Setting::Provider => self.provider = Some(text()?),
            Setting::Model => self.model = Some(text()?),
            Setting::Models => self.models.extend(list(Some(value), "a vector of maps")?),
            Setting::Hooks => {
                let hooks = list(Some(value), "a vector of maps")?.into_iter();
                self.hooks.extend(hooks.map(|value| HookValue { value, root: None, seal: Seal::default() }));
            }
            Setting::Providers => {
                let providers = value.as_map().ok_or_else(|| shape("a map of maps"))?;
                for (name, provider) in providers.iter() {
                    let name = name.as_str().or_else(|| name.as_keyword());
                    let name = name.ok_or_else(|| shape("a map of maps, each under its name"))?;
                    self.providers.push((name.to_owned(), provider.clone()));
                }
            }
            Setting::Fetch => {
                let FetchSettings { private, proxy } = FetchSettings::read(value).map_err(shape)?;
                self.private_hosts.extend(private);
                if proxy.is_some() {
                    let why = "only the user's own configuration says whether fetch goes through a proxy";
                    self.passed_over.push(format!("{}: {key} :proxy: {why}", file.place(key)));
                }
            }
            Setting::Mcp | Setting::Agents => {
                let servers = value.as_map().ok_or_else(|| shape("a map of maps"))?;
                let names = Value::vector(servers.iter().map(|(name, _)| name.clone()));
                let (value, from) = (value.clone(), path.to_owned());
                let all = if setting == Setting::Mcp { &mut self.mcp } else { &mut self.agents };
                all.push(ServersValue { value, from, root: None, seals: Vec::new() });
                // Arguments, variables and headers may hold secrets.
                self.sources.push(Sourced { key: name.to_owned(), value: names, from: path.to_owned() });
                return Ok(());
            }
            Setting::Hidden => {
                let expected = "a vector of names of variables";
                for name in list(Some(value), expected)? {
                    self.hidden_variables.push(name.as_str().ok_or_else(|| shape(expected))?.to_owned());
                }
            }
            Setting::Interaction => {
                let millis = value.get("orphan-grace-ms").and_then(Value::as_i64);
                let millis = millis.and_then(|millis| u64::try_from(millis).ok());
                let millis = millis.filter(|millis| *millis <= ORPHAN_GRACE_MAX_MS);
                let expected = "{:orphan-grace-ms n}, with n at most a day";
                self.note_unknown(file, key, value, &["orphan-grace-ms"]);
                self.orphan_grace = Some(Duration::from_millis(millis.ok_or_else(|| shape(expected))?));
            }
            Setting::Commands => {
                let expected = "{:environment {\"NAME\" \"value\", \"OTHER\" nil}}";
                self.note_unknown(file, key, value, &["environment"]);
                let variables =
                    value.get("environment").and_then(Value::as_map).ok_or_else(|| shape(expected))?;
                for (name, value) in variables.iter() {
                    let name = name.as_str().or_else(|| name.as_keyword()).filter(|name| !name.is_empty());
                    let name =
                        name.filter(|name| !name.contains(['=', '\0'])).ok_or_else(|| shape(expected))?;
                    let value = match value {
                        Value::Nil => None,
                        value => Some(value.as_str().ok_or_else(|| shape(expected))?.to_owned()),
                    };
                    self.commands.retain(|(known, _)| known != name);
                    self.commands.push((name.to_owned(), value));
                }
            }
            Setting::Tools => {
                let expected = "{:web-search true} or {:web-search false}";
                self.note_unknown(file, key, value, &["web-search"]);
                let enabled = value.get("web-search").and_then(Value::as_bool);
                self.web_search = Some(enabled.ok_or_else(|| shape(expected))?);
            }
            Setting::Sandbox => {
                if value.as_map().is_none() {
                    return Err(shape("{:writable [folder …]}"));
                }
                self.note_unknown(file, key, value, &["writable"]);
                for folder in list(value.get("writable"), "{:writable [folder …]}")? {
                    let folder = folder.as_str().ok_or_else(|| shape("{:writable [folder …]}"))?;
                    // Resolved now: later a command may have made a link of it.
                    self.writable.push(Path::new(folder).canonicalize().unwrap_or_else(|_| folder.into()));
                }
            }
        }
        if refused {
            self.passed_over.push(format!(
                "{}: {key} would widen what is allowed, and the project is not trusted",
                file.place(key)
            ));
        } else {
            let (key, from) = (name.to_owned(), path.to_owned());
            self.sources.push(Sourced { key, value: value.clone(), from });
        }
        Ok(())
    }
}

/// Collects the names at each `{:variable …}` of a value. The reader bounds how deep a value is.
fn variables(value: &Value<'_>, names: &mut Vec<String>) {
    if let Some(name) = value.get("variable").and_then(Value::as_str) {
        names.push(name.to_owned());
    }
    let parts = value.as_slice().unwrap_or_default().iter();
    let values = value.as_map().into_iter().flat_map(Map::iter).map(|(_, value)| value);
    parts.chain(values).for_each(|value| variables(value, names));
}

/// The nearest of some names, as the end of a sentence; empty if none is similar. Two that are equally near are both told.
fn near(name: &str, known: &[&str]) -> String {
    let near = similar::names(name, known.iter().copied());
    let likeness = |at: usize| near.get(at).map(|other| similar::likeness(name, other));
    match near.as_slice() {
        [] => String::new(),
        [one, other, ..] if likeness(1) >= likeness(0) => format!("; did you mean :{one} or :{other}?"),
        [one, ..] => format!("; did you mean :{one}?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_agents_get_the_nearest_setting() {
        let (mut layers, map) = (Layers::default(), Map::new().with("agnets", 1));
        let file = FileText { path: Path::new("c.edn"), bytes: b"" };
        assert!(layers.take_user(file, &map).is_empty());
        assert!(layers.passed_over[0].ends_with("there is no setting :agnets; did you mean :agents?"));
    }
}
