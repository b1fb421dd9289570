//! What is known of some agents: their own folders, for logins, settings and histories, and what they need in the sandbox.
//! Each agent may write to its own folders.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::secret::Secret;

/// A known agent.
pub(super) struct KnownAgent {
    /// A word of its command line.
    word: &'static str,
    folders: &'static [OwnFolder],
    /// Variables without which it does not work in the sandbox, with why at each agent.
    in_sandbox: &'static [(&'static str, &'static str)],
}

/// A folder of an agent's own.
struct OwnFolder {
    /// The variable that names it, or the one that it is in.
    variable: &'static str,
    /// What that is below the home folder where the variable is not set.
    at_home: &'static str,
    /// Its name there; empty where the variable names the folder itself.
    name: &'static str,
}

const fn own(variable: &'static str, at_home: &'static str, name: &'static str) -> OwnFolder {
    OwnFolder { variable, at_home, name }
}

const AGENTS: &[KnownAgent] = &[
    KnownAgent {
        word: "claude",
        folders: &[
            own("CLAUDE_CONFIG_DIR", ".claude", ""),
            own("XDG_CACHE_HOME", ".cache", "claude-cli-nodejs"),
        ],
        in_sandbox: &[],
    },
    KnownAgent {
        word: "codex",
        folders: &[own("CODEX_HOME", ".codex", "")],
        // Its own sandbox makes namespaces, which ours forbids; its older one is Landlock, which works within ours.
        in_sandbox: &[("CODEX_CONFIG", r#"{"features":{"use_legacy_landlock":true}}"#)],
    },
    KnownAgent {
        word: "gemini",
        folders: &[own("GEMINI_CLI_HOME", "", ".gemini")],
        // It opens a terminal for each command, which the sandbox forbids; commands work without one too.
        in_sandbox: &[("GEMINI_PTY_INFO", "child_process")],
    },
    KnownAgent {
        word: "opencode",
        folders: &[
            own("XDG_DATA_HOME", ".local/share", "opencode"),
            own("XDG_STATE_HOME", ".local/state", "opencode"),
            own("XDG_CONFIG_HOME", ".config", "opencode"),
            own("XDG_CACHE_HOME", ".cache", "opencode"),
        ],
        in_sandbox: &[],
    },
];

/// The agents, by the names that they give themselves, that say the command of a call as its title, whole and alone.
pub(super) const TITLES_COMMANDS: [&str; 1] = ["gemini-cli"];

impl KnownAgent {
    /// The agents that a command line names.
    pub(super) fn of(command: &[String]) -> impl Iterator<Item = &'static Self> {
        let names = |word: &str| {
            command
                .iter()
                .any(|part| Path::new(part).iter().any(|name| name.to_string_lossy().contains(word)))
        };
        AGENTS.iter().filter(move |agent| names(agent.word))
    }

    /// The variables that it gets where the configuration does not name them: those that name its folders, if they are
    /// set here, and what it needs in the sandbox.
    pub(super) fn variables(&self, environment: &Environment, is_confined: bool) -> Vec<(String, Secret)> {
        let set = self.folders.iter().filter_map(|folder| {
            let value = environment.get(folder.variable).filter(|value| !value.is_empty())?;
            Some((folder.variable.to_owned(), Secret::new(value)))
        });
        let needed = self.in_sandbox.iter().filter(|_| is_confined);
        let needed = needed.map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned())));
        set.chain(needed).collect()
    }

    /// Its folders, for a program with these variables. Missing ones are made: what is not there cannot be written to.
    pub(super) fn folders(&self, variable: impl Fn(&str) -> Option<String>, home: &Path) -> Vec<PathBuf> {
        let folder = |folder: &OwnFolder| {
            // A relative one is none: the agents pass over it too, or mean one in the project.
            let named = variable(folder.variable).map(PathBuf::from).filter(|path| path.is_absolute());
            named.unwrap_or_else(|| home.join(folder.at_home)).join(folder.name)
        };
        let folders: Vec<PathBuf> = self.folders.iter().map(folder).collect();
        for folder in &folders {
            if let Err(error) = std::fs::create_dir_all(folder) {
                tracing::debug!(%error, "a folder of an agent cannot be made");
            }
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_agent_has_its_own_folders() {
        let home = tempfile::tempdir().unwrap();
        let named = home.path().join("elsewhere");
        let of = |words: &[&str], variable: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let value = |name: &str| (name == variable).then(|| named.display().to_string());
            KnownAgent::of(&words).flat_map(|agent| agent.folders(value, home.path())).collect::<Vec<_>>()
        };
        let claude = of(&["npx", "-y", "@agentclientprotocol/claude-agent-acp"], "");
        assert_eq!(claude.first(), Some(&home.path().join(".claude")));
        assert!(claude.iter().all(|folder| folder.is_dir()));
        assert_eq!(of(&["/usr/bin/gemini", "--acp"], ""), [home.path().join(".gemini")]);
        assert_eq!(of(&["codex-acp"], "CODEX_HOME"), [named.clone().join("")]);
        let opencode = of(&["opencode", "acp"], "XDG_CONFIG_HOME");
        assert!(opencode.contains(&named.join("opencode")), "{opencode:?}");
        assert!(opencode.contains(&home.path().join(".local/share/opencode")), "{opencode:?}");
        assert!(of(&["my-agent", "--acp"], "").is_empty());
    }

    #[test]
    fn known_agent_gets_what_it_needs_in_the_sandbox() {
        let names = |word: &str, is_confined: bool| {
            let words = [word.to_owned()];
            let pairs = KnownAgent::of(&words)
                .flat_map(|agent| agent.variables(&Environment::default(), is_confined));
            pairs.map(|(name, _)| name).filter(|name| !name.starts_with("XDG_")).collect::<Vec<_>>()
        };
        assert_eq!(names("gemini", true), ["GEMINI_PTY_INFO"]);
        assert_eq!(names("codex-acp", true), ["CODEX_CONFIG"]);
        assert!(names("gemini", false).is_empty() && names("my-agent", true).is_empty());
    }
}
