//! Guarded files run later, or decide what runs. Writing one always needs approval.
//!
//! A file is guarded if a program acts on it automatically: when the folder is opened or entered, at a
//! commit, on a server, at the next start. A file that a person runs by hand (a Makefile, a script) is not
//! guarded. Knows names and the given folders; knows neither rules nor modes.

use std::path::{Path, PathBuf};

use crate::http::Url;
use crate::http::host::HostPattern;
use crate::tool::path::within;
use crate::tool::shell::folded;
use crate::visible;

/// The folders of a session: its workspace, and folders that belong to no project. All paths are resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ground {
    /// The workspace.
    pub workspace: PathBuf,
    /// Further folders that a client has given the session, which are treated like the workspace.
    pub roots: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The program's own files and folders: its configuration and its state.
    pub own: Vec<PathBuf>,
    /// Those of them that may hold secrets: they are not read without approval either, and not searched.
    pub hidden: Vec<PathBuf>,
    /// The hosts that may be on this machine or in a private network.
    pub private: Vec<HostPattern>,
}

impl From<&Path> for Ground {
    fn from(workspace: &Path) -> Self {
        Self { workspace: workspace.to_owned(), ..Self::default() }
    }
}

/// The guarded names of files and folders, in lower case, each with the program that acts on it. A name with
/// a slash is a suffix of a path or of one of its folders; `*` begins or ends a name that is open there.
const NAMES: &[(&str, &str)] = &[
    (".agents", "agents take skills and commands from it"),
    (".aider.conf.yml", "an agent's settings, commands among them"),
    (".amazonq", "an agent takes its settings from it"),
    (".appveyor.yml", "a server runs what it says"),
    (".augment", "an agent takes its settings from it"),
    (".autoenv*", "a shell runs it"),
    (".azure-pipelines", "a server runs what it says"),
    (".bash_login", "a shell runs it"),
    (".bash_logout", "a shell runs it"),
    (".bash_profile", "a shell runs it"),
    (".bashrc", "a shell runs it"),
    (".build.yml", "a server runs what it says"),
    (".buildkite", "a server runs what it says"),
    (".builds", "a server runs what it says"),
    (".cargo", "cargo takes the compiler, wrappers and aliases from it"),
    (".circleci", "a server runs what it says"),
    (".cirrus.yml", "a server runs what it says"),
    (".claude", "an agent takes hooks, permissions and commands from it"),
    (".clinerules", "an agent obeys it"),
    ("*.code-workspace", "an editor runs its tasks"),
    (".codex", "an agent takes its settings from it"),
    (".config/autostart", "the desktop starts it"),
    (".config/mise*", "mise runs what it says when the folder is entered"),
    (".config/systemd", "the system starts it"),
    (".continue", "an agent takes its settings from it"),
    (".crush.json", "an agent takes its settings from it"),
    (".cursor", "an editor takes rules and servers from it"),
    (".cursorrules", "an agent obeys it"),
    (".devcontainer", "an editor runs its commands"),
    (".dir-locals-2.el", "Emacs evaluates it"),
    (".dir-locals.el", "Emacs evaluates it"),
    (".drone.yml", "a server runs what it says"),
    (".edn-bridge", "this program takes hooks, rules and workflows from it"),
    (".emacs", "Emacs runs it"),
    (".emacs.d", "Emacs runs it"),
    (".envrc", "direnv runs it"),
    (".eslintrc*", "an editor's checker runs it"),
    (".exrc", "vi runs it"),
    (".factory", "an agent takes its settings from it"),
    (".fleet", "an editor takes commands and settings from it"),
    (".forgejo/workflows", "a server runs what it says"),
    (".gdbinit", "a debugger runs it"),
    (".gemini", "an agent takes its settings from it"),
    (".ghci", "GHCi runs it"),
    (".git", "git runs its hooks and what its configuration names"),
    ("*.git", "a bare repository: git runs its hooks"),
    (".gitea/workflows", "a server runs what it says"),
    (".github/actions", "a server runs it"),
    (".github/agents", "an agent obeys it"),
    (".github/chatmodes", "an agent obeys it"),
    (".github/copilot-instructions.md", "an agent obeys it"),
    (".github/hooks", "an agent runs it"),
    (".github/instructions", "an agent obeys it"),
    (".github/prompts", "an agent takes commands from it"),
    (".github/workflows", "a server runs it"),
    (".gitlab", "a server runs what it says"),
    (".gitlab-ci.yml", "a server runs it"),
    (".goosehints", "an agent obeys it"),
    (".helix", "an editor takes commands and settings from it"),
    (".hg", "Mercurial runs its hooks and what its configuration names"),
    (".husky", "git runs its hooks"),
    (".idea", "an editor runs its tasks"),
    (".irbrc", "Ruby runs it"),
    (".jj", "Jujutsu runs what its configuration names"),
    (".junie", "an agent obeys it"),
    (".kateproject", "an editor takes commands and settings from it"),
    (".kilocode", "an agent takes its settings from it"),
    (".kiro", "an editor runs its hooks"),
    (".lazy.lua", "an editor runs it"),
    (".lefthook.yml", "git's hooks run what it names"),
    (".lldbinit", "a debugger runs it"),
    (".lvimrc", "an editor runs it"),
    (".mcp.json", "agents start the servers that it names"),
    (".mise", "mise runs what it says when the folder is entered"),
    (".mise.toml", "mise runs what it says when the folder is entered"),
    (".mvn", "Maven takes extensions from it"),
    (".neoconf.json", "an editor takes commands and settings from it"),
    (".nova", "an editor takes commands and settings from it"),
    (".npmrc", "npm takes its shell and its registry from it"),
    (".nvim", "an editor runs it"),
    (".nvim.lua", "an editor runs it"),
    (".nvimrc", "an editor runs it"),
    (".ocamlinit", "OCaml runs it"),
    (".opencode", "an agent takes commands from it"),
    (".overcommit.yml", "git's hooks run what it names"),
    (".pdbrc*", "a debugger runs it"),
    (".perldb", "a debugger runs it"),
    (".pnpmfile.*", "pnpm runs it"),
    (".pre-commit-config.yaml", "git's hooks run what it names"),
    (".prettierrc*", "an editor's formatter runs it"),
    (".profile", "a shell runs it"),
    (".pryrc", "Ruby runs it"),
    ("*.pth", "every Python that starts there runs it"),
    (".pylintrc", "an editor's checker runs what it names"),
    (".qwen", "an agent takes its settings from it"),
    (".roo", "an agent takes its settings from it"),
    (".roomodes", "an agent takes its settings from it"),
    (".roorules", "an agent obeys it"),
    (".rprofile", "R runs it"),
    (".rules", "an agent obeys it"),
    (".rust-analyzer.toml", "a language server takes commands from it"),
    (".semaphore", "a server runs what it says"),
    (".ssh", "it says who may log in, and what is run then"),
    (".stylelintrc*", "an editor's checker runs it"),
    (".trae", "an agent takes its settings from it"),
    (".travis.yml", "a server runs what it says"),
    (".vim", "an editor runs it"),
    (".vimrc", "an editor runs it"),
    (".vs", "an editor takes commands and settings from it"),
    (".vscode", "an editor runs its tasks and settings"),
    (".windsurf", "an editor takes rules from it"),
    (".windsurfrules", "an agent obeys it"),
    (".woodpecker", "a server runs what it says"),
    (".woodpecker.yml", "a server runs what it says"),
    (".yarn", "yarn runs what is in it"),
    (".yarnrc", "yarn runs the program that it names"),
    (".yarnrc.yml", "yarn runs what it names"),
    (".ycm_extra_conf.py", "an editor runs it"),
    (".zed", "an editor runs its tasks"),
    (".zlogin", "a shell runs it"),
    (".zprofile", "a shell runs it"),
    (".zshenv", "a shell runs it"),
    (".zshrc", "a shell runs it"),
    ("_darcs", "Darcs runs what its settings name"),
    ("_vimrc", "an editor runs it"),
    ("agent.md", "an agent obeys it"),
    ("agents.md", "agents obey it"),
    ("agents.override.md", "an agent obeys it"),
    ("appveyor.yml", "a server runs what it says"),
    ("azure-pipelines.yml", "a server runs what it says"),
    ("bitbucket-pipelines.yml", "a server runs what it says"),
    ("build.rs", "an editor's language server runs it when a file is saved"),
    ("claude.local.md", "an agent obeys it"),
    ("claude.md", "an agent obeys it"),
    ("crush.json", "an agent takes its settings from it"),
    ("eslint.config.*", "an editor's checker runs it"),
    ("gemini.md", "an agent obeys it"),
    ("jenkinsfile", "a server runs it"),
    ("lefthook.yml", "git's hooks run what it names"),
    ("mise.toml", "mise runs what it says when the folder is entered"),
    ("netlify.toml", "a server runs what it says"),
    ("opencode.json", "an agent takes its settings from it"),
    ("opencode.jsonc", "an agent takes its settings from it"),
    ("prettier.config.*", "an editor's formatter runs it"),
    ("qwen.md", "an agent obeys it"),
    ("rust-analyzer.toml", "a language server takes commands from it"),
    ("rust-toolchain", "rustup takes the compiler from it"),
    ("rust-toolchain.toml", "rustup takes the compiler from it"),
    ("sitecustomize.py", "every Python that starts there runs it"),
    ("stylelint.config.*", "an editor's checker runs it"),
    (".tool-versions", "asdf and mise take programs from where it says"),
    ("usercustomize.py", "every Python that starts there runs it"),
    ("warp.md", "an agent obeys it"),
];

impl Ground {
    /// The workspace and the further folders.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.workspace.as_path()).chain(self.roots.iter().map(PathBuf::as_path))
    }

    /// Whether a path is in the workspace or in a further folder.
    pub fn holds(&self, path: &Path) -> bool {
        self.folders().any(|folder| within(path, folder))
    }

    /// Whether a path may hold the program's own secrets.
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| within(path, hidden))
    }

    /// Whether the configuration lets an address be on this machine or in a private network.
    pub fn may_be_private(&self, url: &Url) -> bool {
        self.private.iter().any(|pattern| pattern.names(url))
    }
}

/// The words for the program's own files.
pub const OWN: &str = "this program's own settings and state";

/// The program that acts on a file to be written; `None` if the file is not guarded.
pub fn reason(path: &Path, ground: &Ground) -> Option<&'static str> {
    if ground.own.iter().any(|own| within(path, own)) {
        return Some(OWN);
    }
    let mut around = ground.folders().filter(|folder| within(path, folder));
    let Some(folder) = around.next() else { return Some("outside the workspace") };
    let inside = path.strip_prefix(folder).unwrap_or(path);
    if let Some(home) = ground.home.as_deref().filter(|home| within(home, folder)) {
        let Ok(at_home) = path.strip_prefix(home) else {
            return Some("outside the home folder, which is in the workspace");
        };
        if at_home.to_string_lossy().starts_with('.') {
            return Some("a hidden file of the home folder");
        }
    }
    let names: Vec<String> =
        inside.components().map(|part| seen(&part.as_os_str().to_string_lossy())).collect();
    let found = NAMES.iter().find(|(guarded, _)| {
        let parts: Vec<&str> = guarded.split('/').collect();
        names.windows(parts.len()).any(|window| {
            window.iter().zip(&parts).all(|(name, part)| {
                match (part.strip_prefix('*'), part.strip_suffix('*')) {
                    (Some(end), _) => name.ends_with(end),
                    (_, Some(begin)) => name.starts_with(begin),
                    _ => name == part || is_short(name, part),
                }
            })
        })
    });
    // A folder of any name is a repository if it contains this file and a few others.
    let repository = names.last().is_some_and(|name| name == "head");
    let repository =
        repository.then_some("it makes a folder a repository: git runs what its configuration names");
    found.map(|(_, reason)| *reason).or(repository)
}

/// A name as the most careless file systems see it: some ignore the case of letters and characters that are not
/// drawn, some the dots and blanks at the end.
fn seen(name: &str) -> String {
    let drawn: String = name.chars().filter(|c| !visible::is_ignored(*c)).collect();
    folded(&drawn).trim_end_matches(['.', ' ']).to_owned()
}

/// Whether a name is the short one that the file systems of DOS give to another: `git~1` for `.git`.
fn is_short(name: &str, whole: &str) -> bool {
    let letters = || whole.chars().filter(|c| *c != '.').take(6);
    name.split_once('~').is_some_and(|(start, count)| {
        !count.is_empty() && count.chars().all(|c| c.is_ascii_digit()) && start.chars().eq(letters())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_guarded(path: &str, ground: &Ground) -> bool {
        reason(Path::new(path), ground).is_some()
    }

    #[test]
    fn what_runs_later_is_guarded_wherever_it_stands() {
        let ground = Ground::from(Path::new("/w"));
        for (name, _) in NAMES {
            let name = name.replace('*', "x");
            for path in [format!("/w/{name}"), format!("/w/sub/{}", name.to_uppercase())] {
                assert!(is_guarded(&path, &ground), "{path}");
            }
            assert!(!is_guarded(&format!("/w/x{name}x"), &ground), "{name}");
        }
        for path in [
            "/w/.claude/settings.json",
            "/w/.claude/commands/x.md",
            "/w/.agents/skills/x/SKILL.md",
            "/w/x.git/hooks/post-update",
            "/w/worktree/.git",
            "/w/.cargo/config.toml",
            "/w/.g\u{200c}it/config",
            "/w/.g\u{ad}it/config",
            "/w/.git\u{fe0f}/config",
            "/w/.g\u{e0100}it/hooks/x",
            "/w/.\u{e0067}git/hooks/x",
            "/w/.v\u{17f}code/tasks.json",
            "/w/.git./config",
            "/w/.envrc ",
            "/w/git~1/config",
            "/w/docs/HEAD",
            "/w/.hg/hgrc",
            "/w/.eslintrc.cjs",
            "/w/sub/eslint.config.mjs",
            "/elsewhere/a",
        ] {
            assert!(is_guarded(path, &ground), "{path}");
        }
        for path in [
            "/w/src/main.rs",
            "/w/Makefile",
            "/w/.gitignore",
            "/w/.github/CODEOWNERS",
            "/w/git/a",
            "/w/.git..x",
            "/w/src/Head/a.rs",
        ] {
            assert!(!is_guarded(path, &ground), "{path}");
        }
    }

    #[test]
    fn a_home_folder_as_workspace_guards_its_hidden_files() {
        let mut ground = Ground::from(Path::new("/home/u"));
        ground.home = Some("/home/u".into());
        ground.own = vec!["/home/u/state".into()];
        for path in ["/home/u/.bashrc", "/home/u/.config/any/thing", "/home/u/state/rules.edn"] {
            assert!(is_guarded(path, &ground), "{path}");
        }
        assert!(!is_guarded("/home/u/notes/a.txt", &ground));
        ground.workspace = "/".into();
        for path in ["/etc/cron.d/x", "/home/u/.profile", "/home/u/state/x"] {
            assert!(is_guarded(path, &ground), "{path}");
        }
        assert!(!is_guarded("/home/u/notes/a.txt", &ground));
        // A project in a home folder is a project, even if it contains the program's own files.
        ground.workspace = "/home/u/p".into();
        ground.own = vec!["/home/u/p/state".into()];
        assert!(!is_guarded("/home/u/p/.clang-format", &ground));
        assert!(is_guarded("/home/u/p/state/trusted.edn", &ground));
    }
}
