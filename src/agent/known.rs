//! The folders of known agents' own: their logins, settings and histories. Each agent may write to its own.

use std::path::{Path, PathBuf};

/// A word of the command line, and the folders below the home folder.
const FOLDERS: &[(&str, &[&str])] = &[
    ("claude", &[".claude", ".cache/claude-cli-nodejs"]),
    ("codex", &[".codex"]),
    ("gemini", &[".gemini"]),
    ("opencode", &[".local/share/opencode", ".local/state/opencode", ".config/opencode", ".cache/opencode"]),
];

/// The folders of the agent with that command line, which are made where they are missing: what is not there cannot be
/// written to.
pub(super) fn own_folders(command: &[String], home: &Path) -> Vec<PathBuf> {
    let is_of = |word: &str| {
        command.iter().any(|part| Path::new(part).iter().any(|name| name.to_string_lossy().contains(word)))
    };
    let folders = FOLDERS.iter().filter(|(word, _)| is_of(word)).flat_map(|(_, folders)| folders.iter());
    let folders: Vec<PathBuf> = folders.map(|folder| home.join(folder)).collect();
    for folder in &folders {
        if let Err(error) = std::fs::create_dir_all(folder) {
            tracing::debug!(%error, "a folder of an agent cannot be made");
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_agent_has_its_own_folders() {
        let home = tempfile::tempdir().unwrap();
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            own_folders(&words, home.path())
        };
        let claude = of(&["npx", "-y", "@agentclientprotocol/claude-agent-acp"]);
        assert_eq!(claude.first(), Some(&home.path().join(".claude")));
        assert!(claude.iter().all(|folder| folder.is_dir()));
        assert_eq!(of(&["/usr/bin/gemini", "--acp"]), [home.path().join(".gemini")]);
        assert!(of(&["my-agent", "--acp"]).is_empty());
    }
}
