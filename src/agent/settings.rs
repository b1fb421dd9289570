//! What a configuration says of agents: `:agents {"name" {:command […] :env {…} …}}`.
//!
//! Starts nothing and looks nothing up: keys and variables are named here and read when an agent is started.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::edn;
use crate::environment::Environment;
use crate::files::Seal;
use crate::limits::AGENTS;
use crate::peer::{
    self, Read, Source, Unfit, Variable, at_home, command_line, is_name, of_text, short_line, source_of,
    unknown_key,
};
use crate::sha256;
use crate::value::Value;

/// An agent as it is configured.
#[derive(Debug, Clone)]
pub struct AgentSetup {
    /// Its name: letters, digits, `-` and single `_`, at most 32 bytes.
    pub name: Arc<str>,
    /// Where it was configured.
    pub source: Source,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The folder that it runs in, instead of the project's.
    pub cwd: Option<PathBuf>,
    /// Variables of its program, in addition to those that every program gets.
    pub environment: Vec<(String, Variable)>,
    /// Folders that it may write to, in addition to those of commands and its own.
    pub writable: Vec<PathBuf>,
    /// Whether it runs in the sandbox, where there is one. `false` counts only in the user's own file.
    pub sandbox: bool,
    /// Whether it is told that files can be read through this program.
    pub reads: bool,
    /// The names of the MCP servers that it is given; `None` for all that it may have.
    pub servers: Option<Vec<String>>,
    /// The files that its command names, as they must be when it starts. Whoever reads the configuration fills it in.
    pub seal: Seal,
}

/// Why what is written of an agent cannot be used, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentSetupError {
    /// The whole is no map of names.
    #[error(
        ":agents must be a map of agents, each a map under its name, such as {{\"claude\" {{:command [\"…\"]}}}}."
    )]
    NoMap,
    /// A name cannot be one.
    #[error(
        "{0:?} cannot be the name of an agent: use at most 32 letters, digits, - and single _, a letter or digit first \
         and last."
    )]
    Name(String),
    /// A key or a value.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// There are too many.
    #[error("The agent {0:?} is left out: at most {AGENTS} agents are used.")]
    TooMany(String),
}

/// The keys of an agent.
const KEYS: [&str; 10] =
    ["command", "cwd", "env", "writable", "sandbox", "read-files", "servers", "description", "type", "watch"];

/// What an agent is called in an error.
const AGENT: &str = "agent";

/// The agents of a project: what all layers of its configuration say together.
#[derive(Debug, Clone, Default)]
pub struct AgentSetups {
    /// The agents, in the order in which they were first named.
    pub agents: Vec<AgentSetup>,
    /// What was left out, with its source and why, for a person.
    pub problems: Vec<String>,
}

impl AgentSetups {
    /// Reads the `:agents` maps of layers, the weakest first. An agent of a later layer replaces one of the same name. What
    /// cannot be used is left out and reported.
    pub fn read<'v>(layers: impl IntoIterator<Item = (Source, &'v Value<'v>)>) -> Self {
        let mut setups = Self::default();
        for (source, value) in layers {
            let Some(map) = value.as_map() else {
                setups.problems.push(format!("{source}: {}", AgentSetupError::NoMap));
                continue;
            };
            for (name, value) in map.iter() {
                if let Err(error) = setups.take(&source, name, value) {
                    setups.problems.push(format!("{source}: {error}"));
                }
            }
        }
        setups
    }

    fn take(&mut self, source: &Source, name: &Value<'_>, value: &Value<'_>) -> Result<(), AgentSetupError> {
        let text = name.as_str().or_else(|| name.as_keyword());
        let text = text.ok_or_else(|| AgentSetupError::Name(name.to_string()))?;
        let agent = AgentSetup::read(text, value, source.clone())?;
        if let Some(known) = self.agents.iter_mut().find(|known| *known.name == *text) {
            *known = agent;
        } else if self.agents.len() < AGENTS {
            self.agents.push(agent);
        } else {
            return Err(AgentSetupError::TooMany(text.to_owned()));
        }
        Ok(())
    }

    /// The agent of that name.
    pub fn get(&self, name: &str) -> Option<&AgentSetup> {
        self.agents.iter().find(|agent| *agent.name == *name)
    }
}

impl AgentSetup {
    /// Reads what a configuration says of an agent.
    ///
    /// # Errors
    /// See [`AgentSetupError`].
    pub fn read(name: &str, value: &Value<'_>, source: Source) -> Result<Self, AgentSetupError> {
        if !is_name(name) {
            return Err(AgentSetupError::Name(name.chars().take(80).collect()));
        }
        let map = value.as_map().ok_or_else(|| Unfit::Shape {
            what: AGENT,
            name: name.to_owned(),
            key: "its name".to_owned(),
            expected: "a map",
        })?;
        if let Some((key, near)) = unknown_key(map, &KEYS) {
            return Err(Unfit::Key { what: AGENT, name: name.to_owned(), key, near }.into());
        }
        let read = Read { what: AGENT, name, map };
        let command = read.command("command")?;
        let command =
            command.ok_or_else(|| read.shape("command", "a vector of the program and its arguments"))?;
        let (writable, environment) = (read.folders("writable")?, read.variables("env")?);
        let sandbox = read.truth("sandbox")?.unwrap_or(true);
        let takes_key = environment.iter().any(|(_, value)| matches!(value, Variable::KeyOf { .. }));
        if !matches!(source, Source::User(_)) {
            // What widens, and the user's keys.
            for (is_there, key) in [
                (!sandbox, ":sandbox false"),
                (!writable.is_empty(), ":writable"),
                (takes_key, ":key-of at :env"),
            ] {
                if is_there {
                    return Err(Unfit::UserOnly { what: AGENT, name: name.to_owned(), key }.into());
                }
            }
        }
        Ok(Self {
            name: name.into(),
            source,
            command,
            cwd: read.text("cwd")?.map(at_home),
            environment,
            writable,
            sandbox,
            reads: read.truth("read-files")?.unwrap_or(false),
            servers: read.texts("servers")?,
            seal: Seal::default(),
        })
    }

    /// A digest of what decides which program runs, and with what: where it changes, what was trusted is another agent. It
    /// is made of secrets too, so that it belongs into private files alone.
    pub fn digest(&self) -> String {
        let words = edn::to_string(&Value::vector(self.command.iter().map(String::as_str)));
        let text = format!("{}\n{words}\n{:?}\n{}", self.name, self.cwd, of_text(&self.environment));
        sha256::hex(text)
    }

    /// Whether a process of this agent is one of the other.
    pub fn starts_as(&self, other: &Self) -> bool {
        self.digest() == other.digest()
            && self.sandbox == other.sandbox
            && self.writable == other.writable
            && self.reads == other.reads
            && self.seal == other.seal
    }

    /// What it gets beside its command line: what it is (`variable A`), and its value or where that comes from.
    pub fn details(&self) -> Vec<(String, String)> {
        let variables = self.environment.iter();
        let mut all: Vec<(String, String)> = variables
            .map(|(name, value)| (format!("variable {}", short_line(name)), source_of(name, value)))
            .collect();
        if let Some(cwd) = &self.cwd {
            all.push(("folder".to_owned(), short_line(&cwd.display().to_string())));
        }
        all
    }

    /// Its command line, and under it a line for each of its details.
    pub fn described(&self) -> String {
        peer::described(&self.shown(), &self.details(), &self.source)
    }

    /// Why its program cannot be started in a project's folder, as far as that can be seen without starting it. Reads the
    /// disk.
    pub fn missing(&self, root: &Path, environment: &Environment) -> Option<String> {
        let folder = self.cwd.as_ref().map_or_else(|| root.to_owned(), |folder| root.join(folder));
        peer::missing(&self.command, &folder, environment)
    }

    /// Its command line as it may be shown.
    pub fn shown(&self) -> String {
        command_line(&self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(text: &str) -> Result<AgentSetup, AgentSetupError> {
        let value = edn::read_one(text.as_bytes()).unwrap();
        AgentSetup::read("a", &value, Source::Project("/p".into()))
    }

    #[test]
    fn agent_reads_with_what_it_says() {
        let text = r#"{"claude" {:command ["npx" "claude-agent-acp"] :env {"A" "1" "K" {:key-of "anthropic"}}
                                 :writable ["~/x"] :sandbox false :read-files true}
                       "bad name" {:command ["a"]}}"#;
        let value = edn::read_one(text.as_bytes()).unwrap();
        let setups = AgentSetups::read([(Source::User("/u".into()), &value)]);
        assert_eq!(setups.problems.len(), 1, "{:?}", setups.problems);
        let agent = setups.get("claude").unwrap();
        assert_eq!((agent.environment.len(), agent.sandbox, agent.reads), (2, false, true));
        assert_eq!(agent.shown(), "npx claude-agent-acp");
        assert!(setups.get("other").is_none());
    }

    #[test]
    fn agent_that_cannot_be_used_says_why() {
        for (text, expected) in [
            ("{}", "The agent \"a\" needs a vector of the program and its arguments at :command."),
            ("{:command []}", "the program and its arguments at :command"),
            ("{:comand [\"a\"]}", "Did you mean :command?"),
            ("{:command [\"a\"] :sandbox false}", "only the user's own configuration may say :sandbox false"),
            ("{:command [\"a\"] :writable [\"/\"]}", "may say :writable"),
            ("{:command [\"a\"] :env {\"A\" {:key-of \"x\"}}}", "may say :key-of at :env"),
            ("[]", "needs a map"),
        ] {
            let told = project(text).unwrap_err().to_string();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }

    #[test]
    fn digest_changes_with_what_runs() {
        let digest = |text: &str| project(text).unwrap().digest();
        let base = digest(r#"{:command ["a" "b"] :env {"A" "1"}}"#);
        assert_eq!(base, digest(r#"{:env {"A" "1"} :command ["a" "b"] :read-files true}"#));
        for other in [
            r#"{:command ["a b"] :env {"A" "1"}}"#,
            r#"{:command ["a" "b"] :env {"A" "2"}}"#,
            r#"{:command ["a" "b"] :cwd "/x" :env {"A" "1"}}"#,
        ] {
            assert_ne!(base, digest(other), "{other}");
        }
    }
}
