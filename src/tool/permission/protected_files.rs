//! Guarded files run later, or decide what runs. Writing one always needs approval.
//!
//! A file is guarded if a program acts on it automatically: when the folder is opened or entered, when a file is
//! saved, at a commit, on a server, at the next start. Every hidden file is taken for one, except a few that are known as
//! harmless. A file that a person runs by hand (a Makefile, a script) is not guarded, nor the sources of the project. Knows names and the given folders; knows neither rules nor modes.

use std::path::{Component, Path, PathBuf};

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
    /// The folder of the session's own outputs below them: these files are read without approval.
    pub outputs: Option<PathBuf>,
    /// The files in the workspace that the user's own configuration runs: its hooks, servers, agents and key commands.
    pub programs: Vec<PathBuf>,
    /// The hosts that may be on this machine or in a private network.
    pub private: Vec<HostPattern>,
}

impl From<&Path> for Ground {
    fn from(workspace: &Path) -> Self {
        Self { workspace: workspace.to_owned(), ..Self::default() }
    }
}

/// Hidden files that no program runs and that name none. Every other hidden file, and every file in a hidden folder, is
/// guarded: a question too many costs a key, a missing name would cost code.
const HARMLESS: &[&str] = &[
    ".clang-format",
    ".dockerignore",
    ".editorconfig",
    ".env.dist",
    ".env.example",
    ".env.sample",
    ".env.template",
    ".eslintignore",
    ".gitignore",
    ".gitkeep",
    ".ignore",
    ".keep",
    ".mailmap",
    ".npmignore",
    ".prettierignore",
    ".stylelintignore",
];

/// The guarded names without a dot at their start, in lower case: one row a program or a kind of program, with all
/// documented names of its files. A name with a slash is a suffix of a path or of one of its folders; `*` begins or ends a
/// name that is open there.
const NAMES: &[(&[&str], &str)] = &[
    // Agents.
    (
        &[
            "agent.md",
            "agents.md",
            "agents.override.md",
            "agents.local.md",
            "claude.md",
            "claude.local.md",
            "codebuff.md",
            "codex.md",
            "copilot-instructions.md",
            "crush.local.md",
            "crush.md",
            "gemini.md",
            "iflow.md",
            "kimi.md",
            "knowledge.md",
            "*.knowledge.md",
            "qwen.md",
            "replit.md",
            "warp.md",
        ],
        "an agent obeys it",
    ),
    (
        &[
            "codebuff.json",
            "crush.json",
            "firebender.json",
            "gemini-extension.json",
            "mcp.json",
            "opencode.json",
            "opencode.jsonc",
        ],
        "an agent takes its settings and the commands of servers from it",
    ),
    // Version control and its hooks.
    (&["*.git"], "a bare repository: git runs its hooks"),
    (&["gitconfig", "*.gitconfig"], "git runs what it names, where its own settings include it"),
    (&["_darcs"], "Darcs runs what its settings name"),
    (&["_fossil_"], "Fossil takes its settings from it"),
    (
        &[
            "captainhook.json",
            "githooks",
            "git-hooks",
            "grumphp.*",
            "hk.pkl",
            "hk.*.pkl",
            "hooks/update",
            "lefthook.*",
            "lefthook-local.*",
            "prek.toml",
            "simple-git-hooks.*",
        ],
        "git's hooks run what it names",
    ),
    // Servers.
    (
        &[
            "action.yaml",
            "action.yml",
            "amplify.yml",
            "app.json",
            "appspec.yaml",
            "appspec.yml",
            "appveyor.yaml",
            "appveyor.yml",
            "atlantis.yaml",
            "azure-pipelines*",
            "bamboo-specs",
            "bitbucket-pipelines.yaml",
            "bitbucket-pipelines.yml",
            "bitrise.yml",
            "buddy.yml",
            "buildkite.*",
            "buildspec*",
            "circle.yml",
            "cloudbuild.*",
            "codefresh.yml",
            "codemagic.yaml",
            "dagger.json",
            "dangerfile*",
            "devfile.yaml",
            "devfile.yml",
            "earthfile",
            "*.gocd.yaml",
            "*.gocd.yml",
            "*.gopipeline.json",
            "goreleaser.yaml",
            "goreleaser.yml",
            "heroku.yml",
            "jenkinsfile*",
            "*.jenkinsfile",
            "netlify.toml",
            "nixpacks.toml",
            "procfile",
            "railway.json",
            "railway.toml",
            "render.yaml",
            "renovate.json",
            "renovate.json5",
            "screwdriver.yaml",
            "shippable.yml",
            "vercel.json",
            "wercker.yml",
            "wrangler.json",
            "wrangler.jsonc",
            "wrangler.toml",
            "zuul.d",
            "zuul.yaml",
        ],
        "a server runs what it says",
    ),
    // What is run when a folder is entered.
    (&["mise.*", "mise"], "mise runs what it says when the folder is entered"),
    (
        &[
            "channels.scm",
            "default.nix",
            "devbox.json",
            "devbox.lock",
            "devenv.*",
            "flake.lock",
            "flake.nix",
            "guix.scm",
            "manifest.scm",
            "pixi.toml",
            "shell.nix",
        ],
        "direnv evaluates it when the folder is entered",
    ),
    (
        &["bin/activate*", "bin/hermit*"],
        "a shell or direnv runs it when the environment that contains it is entered",
    ),
    (
        &["aqua.yaml", "aqua.yml", "aqua-policy.yaml", "aqua-policy.yml"],
        "aqua takes the programs that it installs and starts from it",
    ),
    (&["rust-toolchain", "rust-toolchain.toml"], "rustup takes the compiler from it"),
    (&["lean-toolchain"], "elan takes the compiler from it"),
    // Editors and debuggers.
    (&["*.code-workspace"], "an editor runs its tasks"),
    (
        &["*.geany", "*.kdev4", "*.sublime-project", "*.sublime-settings", "*.sublime-workspace"],
        "an editor takes commands and settings from it",
    ),
    (&["_exrc", "_gvimrc", "_nvimrc", "_vimrc"], "an editor runs it"),
    (
        &[
            "*.gdextension",
            "*.gdnlib",
            "override.cfg",
            "plugin.cfg",
            "project.godot",
            "*.uplugin",
            "*.uproject",
        ],
        "an editor runs the plugins that it names",
    ),
    (&["*.xcodeproj", "*.xcworkspace"], "an editor runs its schemes and build phases"),
    (&["*-gdb.gdb", "*-gdb.py", "*-gdb.scm", "*.dsym"], "a debugger runs it"),
    // Languages: what an interpreter, an editor's checker, formatter or language server runs or takes programs from.
    (
        &[
            "sitecustomize",
            "sitecustomize.*",
            "usercustomize",
            "usercustomize.*",
            "*.pth",
            "*.egg-link",
            "pyvenv.cfg",
            "site-packages",
            "venv",
        ],
        "every Python that starts there runs it",
    ),
    (
        &[
            "conf.py",
            "conftest.py",
            "hatch.toml",
            "ipython_config.py",
            "jupyter_*",
            "mypy.ini",
            "pep8.ini",
            "pipfile",
            "poetry.toml",
            "pylintrc",
            "pylintrc.toml",
            "pyproject.toml",
            "pyrefly.toml",
            "pyrightconfig.json",
            "pytest.ini",
            "pytest.toml",
            "setup.cfg",
            "setup.py",
            "tox.ini",
            "ty.toml",
        ],
        "an editor's checker or test explorer of Python runs it, or what it names",
    ),
    (&["cargo.toml", "build.rs"], "a language server builds, and so runs what it names"),
    (&["rust-analyzer.toml"], "a language server takes commands from it"),
    (
        &["target/debug", "target/release", "target/rust-analyzer"],
        "Cargo runs what it has built there, also from an editor",
    ),
    (
        &[
            "*.config.cjs",
            "*.config.cts",
            "*.config.js",
            "*.config.mjs",
            "*.config.mts",
            "*.config.ts",
            "*.conf.cjs",
            "*.conf.js",
            "*.conf.ts",
            "babel.config.json",
            "commitlint.config.*",
            "eslint.config.*",
            "graphql.config.*",
            "jest.config.json",
            "lint-staged.config.*",
            "postcss.config.*",
            "prettier.config.*",
            "stylelint.config.*",
        ],
        "an editor's checker, formatter or language server runs it, or the plugins that it names",
    ),
    (
        &[
            "bunfig.toml",
            "cspell*",
            "cypress.json",
            "deno.json",
            "deno.jsonc",
            "dprint.json",
            "dprint.jsonc",
            "eslint-internal-rules*",
            "eslint-local-rules*",
            "gruntfile.*",
            "gulpfile.*",
            "jakefile*",
            "jest-preset.*",
            "jsconfig*",
            "lerna.json",
            "node_modules",
            "nx.json",
            "package.json",
            "package.json5",
            "package.yaml",
            "pnpm-workspace.yaml",
            "pnpmfile.*",
            "project.json",
            "redocly.yaml",
            "redocly.yml",
            "rush.json",
            "tsconfig*",
            "tslint.json",
            "tslint.yaml",
            "tslint.yml",
            "vitest.projects.*",
            "vitest.workspace.*",
            "workspace.json",
            "*.workspace.js",
            "*.workspace.ts",
        ],
        "an editor's checkers and servers, and git's hooks, run the plugins and commands that it names",
    ),
    (
        &[
            "build.gradle*",
            "*.gradle",
            "*.gradle.kts",
            "buildsrc",
            "gradle-daemon-jvm.properties",
            "gradle.properties",
            "gradle/wrapper",
            "gradlew*",
            "local.properties",
            "settings.gradle*",
            "*.versions.toml",
        ],
        "an editor imports the build, and so runs it (Gradle)",
    ),
    (&["pom.xml", "mvnw*"], "an editor imports the build, and so runs its plugins (Maven)"),
    (
        &[
            "build.mill*",
            "build.sc",
            "mill",
            "*.mill",
            "mill.bat",
            "package.mill*",
            "project/*.properties",
            "project/*.scala",
            "*.sbt",
        ],
        "an editor imports the build, and so runs it (Scala)",
    ),
    (
        &[
            "bb.edn",
            "boot.properties",
            "build.boot",
            "deps.edn",
            "profile.boot",
            "profiles.clj",
            "project.clj",
            "shadow-cljs.edn",
            "tests.edn",
        ],
        "an editor asks the build for its paths, and so runs it (Clojure)",
    ),
    (
        &["data_readers.clj", "data_readers.cljc", "user.clj"],
        "every Clojure that starts with its folder in the class path runs it, or what it names",
    ),
    (
        &[
            "directory.*.props",
            "directory.*.targets",
            "dotnet-tools.json",
            "global.json",
            "nuget.config",
            "omnisharp.json",
            "*.csproj",
            "*.esproj",
            "*.fsproj",
            "*.proj",
            "*proj.user",
            "*.projitems",
            "*.props",
            "*.pyproj",
            "*.rsp",
            "*.shproj",
            "*.sln",
            "*.slnf",
            "*.slnx",
            "*.sqlproj",
            "*.targets",
            "*.vbproj",
            "*.vcxitems",
            "*.vcxproj",
            "*.wixproj",
        ],
        "a language server runs its build (.NET)",
    ),
    (
        &[
            "cmakelists.txt",
            "*.cmake",
            "cmakepresets.json",
            "cmakeuserpresets.json",
            "meson.build",
            "meson.options",
            "meson_options.txt",
            "platformio.ini",
            "*.pri",
            "*.pro",
            "vcpkg-configuration.json",
            "vcpkg.json",
            "*.wrap",
            "xmake.lua",
        ],
        "an editor configures the build, and so runs it (C, C++)",
    ),
    (
        &["compile_commands.json", "compile_flags.txt"],
        "a language server takes compilers and their options from it",
    ),
    (&["build.zig", "build.zig.zon", "zls.build.json", "zls.json"], "a language server runs the build (Zig)"),
    (
        &["dub.json", "dub.sdl", "dub.selections.json"],
        "a language server asks the build for its paths, and so runs it (D)",
    ),
    (
        &["buildserver.json", "package.swift", "package@swift*"],
        "a language server runs it, or the build server that it names (Swift)",
    ),
    (&["gemfile*", "gems.*", "*.gemspec", "sorbet", "steepfile"], "a language server runs it (Ruby)"),
    (&["irb.rc", "irbrc", "_irbrc", "$irbrc"], "the console of Ruby runs it at its start"),
    (&["config/*.exs", "mix.exs", "mix.lock"], "a language server builds, and so runs it (Elixir)"),
    (
        &["elvis.config", "erlang_ls.config", "rebar.config*"],
        "a language server takes commands and plugins from it (Erlang)",
    ),
    (
        &["cabal.project*", "*.cabal", "hie.yaml", "hie.yml", "setup.hs", "setup.lhs", "stack.yaml"],
        "a language server runs it, or the build that it describes (Haskell)",
    ),
    (
        &["dune", "dune-project", "dune-workspace", "dune.inc"],
        "a language server asks the build, which may run it (OCaml)",
    ),
    (&["lakefile.lean", "lakefile.toml"], "a language server runs it (Lean)"),
    (&["_coqproject", "_rocqproject"], "an editor takes the options of the prover from it"),
    (&["*.nimble", "*.nims", "nim.cfg"], "a language server evaluates it (Nim)"),
    (&["analysis_options.yaml", "pubspec.yaml"], "a language server runs the plugins that it names (Dart)"),
    (&["renv"], "R runs it at its start"),
    (
        &[
            "composer.json",
            "ecs.php",
            "phpactor.*",
            "phpcs.xml*",
            "phpstan*",
            "phpunit.dist.xml",
            "phpunit.xml*",
            "psalm.dist.xml",
            "psalm.xml*",
            "rector.php",
        ],
        "an editor's checker runs what it names (PHP)",
    ),
    (
        &["buf.gen*.yaml", "buf.work.yaml", "buf.yaml"],
        "a language server or an editor's checker runs the plugins that it names (Protobuf)",
    ),
    (&["foundry.toml"], "a language server builds, and so runs what it names (Solidity)"),
    (&["spago.dhall", "spago.yaml"], "a language server builds, and so runs what it names (PureScript)"),
    (&["latexmkrc", "texmf.cnf"], "an editor builds a document with it, and so runs it"),
    (&["ansible.cfg"], "a language server takes plugins from it"),
    (&["psscriptanalyzersettings.psd1", "*profile.ps1"], "PowerShell, or an editor's checker of it, runs it"),
    (&["sgconfig.yaml", "sgconfig.yml"], "an editor's checker loads the libraries that it names"),
    (&["treefmt.nix", "treefmt.toml"], "an editor's formatter runs the programs that it names"),
    (
        &[
            "*.bzl",
            "module.bazel",
            "pants.toml",
            "tools/bazel",
            "workspace",
            "workspace.bazel",
            "workspace.bzlmod",
        ],
        "an editor asks the build for its targets, and so runs it",
    ),
];

/// Names that are guarded as those of a file alone, because folders of these names are common. Written like [`NAMES`].
const FILES: &[(&[&str], &str)] = &[
    // A folder of any name is a repository if it contains these files and a few others.
    (&["config", "head"], "it makes a folder a repository: git runs what its configuration names"),
    (
        &[
            "applypatch-msg",
            "commit-msg",
            "fsmonitor-watchman",
            "p4-changelist",
            "p4-post-changelist",
            "p4-pre-submit",
            "p4-prepare-changelist",
            "post-applypatch",
            "post-checkout",
            "post-commit",
            "post-index-change",
            "post-merge",
            "post-receive",
            "post-rewrite",
            "post-update",
            "pre-applypatch",
            "pre-auto-gc",
            "pre-commit",
            "pre-merge-commit",
            "pre-push",
            "pre-rebase",
            "pre-receive",
            "prepare-commit-msg",
            "proc-receive",
            "push-to-checkout",
            "reference-transaction",
            "sendemail-validate",
        ],
        "git runs it as a hook, in the folder that its settings name",
    ),
    (&["build", "build.bazel"], "an editor asks the build for its targets, and so runs it"),
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
        self.hidden.iter().any(|hidden| within(path, hidden)) && !self.shows(path)
    }

    /// Whether a path is that of a kept output of the session.
    pub fn shows(&self, path: &Path) -> bool {
        self.outputs.as_deref().is_some_and(|outputs| path.parent() == Some(outputs))
            && path.extension().is_some_and(|ending| ending == "txt")
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
    if ground.programs.iter().any(|program| program == path) {
        return Some("the user's own configuration runs it, or what it names");
    }
    let mut around = ground.folders().filter(|folder| within(path, folder));
    let Some(folder) = around.next() else { return Some("outside the workspace") };
    if let Some(reason) = around_workspace(folder, ground.home.as_deref()) {
        return Some(reason);
    }
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
    named(&names).or_else(|| hidden(&names))
}

/// Why each file of a workspace is guarded because of where the workspace stands: programs look for their settings below a
/// hidden folder of the home folder (`~/.emacs.d/init.el`) by names that are not hidden there, and git in its own folder.
fn around_workspace(folder: &Path, home: Option<&Path>) -> Option<&'static str> {
    let name = |part: Component<'_>| seen(&part.as_os_str().to_string_lossy());
    let at_home = home.and_then(|home| folder.strip_prefix(home).ok());
    if at_home.and_then(|at| at.components().next()).is_some_and(|part| name(part).starts_with('.')) {
        return Some(
            "it is in a hidden folder of the home folder: programs take commands and settings from such files",
        );
    }
    folder
        .components()
        .any(|part| name(part) == ".git")
        .then_some("it is in git's own folder: git runs its hooks and what its settings name")
}

/// What acts on a file whose path has one of the guarded names.
fn named(names: &[String]) -> Option<&'static str> {
    let fits = |guarded: &str| {
        let parts: Vec<&str> = guarded.split('/').collect();
        names
            .windows(parts.len())
            .any(|window| window.iter().zip(&parts).all(|(name, part)| is_of(name, part)))
    };
    let is_file = |guarded: &str| names.last().is_some_and(|name| is_of(name, guarded));
    let of_any = NAMES.iter().find(|(all, _)| all.iter().any(|guarded| fits(guarded)));
    let of_file = || FILES.iter().find(|(all, _)| all.iter().any(|guarded| is_file(guarded)));
    of_any.or_else(of_file).map(|(_, reason)| *reason)
}

/// Why a hidden file is guarded, and one in a hidden folder; `None` if it is neither, or harmless.
fn hidden(names: &[String]) -> Option<&'static str> {
    let (name, folders) = names.split_last()?;
    if folders.iter().any(|folder| folder.starts_with('.')) {
        return Some("it is in a hidden folder: programs take commands and settings from such files");
    }
    if name.starts_with('.') && !HARMLESS.contains(&name.as_str()) {
        return Some("a hidden file: programs take commands and settings from such files");
    }
    names.iter().any(|name| is_short(name)).then_some("it may be the short name of a guarded file")
}

/// Whether a name is of a pattern: the same, or with a `*` at one end, or one between two texts.
fn is_of(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((begin, end)) => {
            name.len() >= begin.len().saturating_add(end.len())
                && name.starts_with(begin)
                && name.ends_with(end)
        }
    }
}

/// A name as the most careless file systems see it: some ignore the case of letters and characters that are not
/// drawn, some the dots and blanks at the end.
fn seen(name: &str) -> String {
    let drawn: String = name.chars().filter(|c| !visible::is_ignored(*c)).collect();
    folded(&drawn).trim_end_matches(['.', ' ']).to_owned()
}

/// Whether a name may be the short one that the file systems of DOS give to another: `git~1` for `.git`.
fn is_short(name: &str) -> bool {
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    stem.split_once('~').is_some_and(|(start, count)| {
        (1..=6).contains(&start.chars().count())
            && !count.is_empty()
            && count.chars().all(|c| c.is_ascii_digit())
            && ending.chars().count() <= 3
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
        for name in NAMES.iter().flat_map(|(names, _)| *names) {
            let name = name.replace('*', "x");
            for path in [format!("/w/{name}"), format!("/w/sub/{}", name.to_uppercase())] {
                assert!(is_guarded(&path, &ground), "{path}");
            }
            // Another name, which is none of those that a longer one of the table begins with.
            assert!(!is_guarded(&format!("/w/x{name}q"), &ground), "{name}");
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
            "/w/fixture/config",
            "/w/tools/hooks/pre-commit",
            "/w/gitconfig",
            "/w/env/bin/activate",
            "/w/env/bin/activate.fish",
            "/w/jest.config.json",
            "/w/babel.config.json",
            "/w/tslint.json",
            "/w/eslint-local-rules.js",
            "/w/eslint-local-rules/index.js",
            "/w/buf.yaml",
            "/w/buf.gen.yaml",
            "/w/subprojects/x.wrap",
            "/w/irb.rc",
            "/w/_irbrc",
            "/w/src/user.clj",
            "/w/profiles.clj",
            "/w/build.boot",
            "/w/buildServer.json",
            "/w/a/a.csproj.user",
            "/w/a.projitems",
            "/w/gradle/libs.versions.toml",
            "/w/gradle/gradle-daemon-jvm.properties",
            "/w/sub/package.mill",
            "/w/phpunit.dist.xml",
            "/w/a.gdextension",
            "/w/platformio.ini",
            "/w/dub.json",
            "/w/aqua.yaml",
            "/w/guix.scm",
            "/w/buildkite.yml",
            "/w/atlantis.yaml",
            "/w/vitest.workspace.json",
            "/w/redocly.yaml",
            "/w/sub/BUILD",
            "/w/sub/BUILD.bazel",
            "/w/.hg/hgrc",
            "/w/.eslintrc.cjs",
            "/w/envrc~1",
            "/w/AGENTS~1.MD",
            "/w/.github/CODEOWNERS",
            "/w/.github/.gitignore",
            "/w/.env",
            "/w/.git..x",
            "/w/sub/eslint.config.mjs",
            "/w/sitecustomize/__init__.py",
            "/w/sub/mise.dev.toml",
            "/w/node_modules/eslint/index.js",
            "/elsewhere/a",
        ] {
            assert!(is_guarded(path, &ground), "{path}");
        }
        for path in [
            "/w/src/main.rs",
            "/w/Makefile",
            "/w/.gitignore",
            "/w/sub/.env.example",
            "/w/git/a",
            "/w/git~a/b",
            "/w/Rakefile",
            "/w/justfile",
            "/w/src/Head/a.rs",
            "/w/build/a.txt",
            "/w/config/a.rs",
            "/w/src/activate.rs",
            "/w/src/user.rs",
        ] {
            assert!(!is_guarded(path, &ground), "{path}");
        }
    }

    #[test]
    fn names_of_files_are_guarded_once_and_not_as_folders() {
        let ground = Ground::from(Path::new("/w"));
        for name in FILES.iter().flat_map(|(names, _)| *names) {
            assert!(is_guarded(&format!("/w/sub/{}", name.to_uppercase()), &ground), "{name}");
            assert!(!is_guarded(&format!("/w/{name}/a.txt"), &ground), "{name}");
        }
        let mut names: Vec<&str> = NAMES.iter().chain(FILES).flat_map(|(names, _)| *names).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn workspace_in_a_hidden_folder_of_the_home_is_guarded_whole() {
        let mut ground = Ground::from(Path::new("/home/u/.emacs.d"));
        ground.home = Some("/home/u".into());
        for (workspace, file) in [
            ("/home/u/.emacs.d", "init.el"),
            ("/home/u/.config/git", "ignore"),
            ("/home/u/.config/fish/functions", "a.fish"),
            ("/home/u/.ssh", "authorized_keys"),
            ("/home/u/\u{200c}.ssh", "known_hosts"),
            ("/srv/p/.git", "info/attributes"),
            ("/srv/p/.GIT/modules/m", "packed-refs"),
        ] {
            ground.workspace = workspace.into();
            assert!(is_guarded(&format!("{workspace}/{file}"), &ground), "{workspace}");
        }
        for workspace in ["/home/u/p", "/home/u/p/.worktrees/a", "/tmp/.tmp1", "/home/uu/.p"] {
            ground.workspace = workspace.into();
            assert!(!is_guarded(&format!("{workspace}/init.el"), &ground), "{workspace}");
        }
        // A further folder of the session, too.
        ground.workspace = "/home/u/p".into();
        ground.roots = vec!["/home/u/.emacs.d".into()];
        assert!(is_guarded("/home/u/.emacs.d/init.el", &ground));
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
