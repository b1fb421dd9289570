//! The files in a project's folder that the commands of a hook, an MCP server, an external agent or a provider name: by
//! their words and variables, as modules, unnamed as those that their programs run, in folders that these load code from, and
//! by the globs at `:watch`.
//!
//! Knows commands as the configuration has them, and the folder; does not know who trusts what.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::edn;
use crate::files;
use crate::glob::{PathGlob, PathGlobs};
use crate::limits::{TRUSTED_FILE_BYTES, TRUSTED_FILES, TRUSTED_FOLDERS, WATCHED_ENTRIES, WATCHED_STEPS};
use crate::meter::Meter;
use crate::value::{Map, Value};

/// The programs that run code which stands in other files: shells, interpreters, build tools and test runners.
const INTERPRETERS: &[&str] = &[
    "ant",
    "ash",
    "awk",
    "bash",
    "bazel",
    "bb",
    "bun",
    "bundle",
    "bunx",
    "busybox",
    "cargo",
    "clj",
    "clojure",
    "cmake",
    "cmd",
    "composer",
    "csh",
    "ctest",
    "dash",
    "deno",
    "dotnet",
    "elixir",
    "emacs",
    "env",
    "erl",
    "escript",
    "expect",
    "fish",
    "gawk",
    "gmake",
    "gnumake",
    "go",
    "gradle",
    "gradlew",
    "groovy",
    "guile",
    "hatch",
    "iex",
    "irb",
    "java",
    "jbang",
    "jest",
    "jruby",
    "julia",
    "just",
    "ksh",
    "lein",
    "lua",
    "luajit",
    "make",
    "mawk",
    "meson",
    "mill",
    "mise",
    "mix",
    "mocha",
    "mvn",
    "mvnw",
    "nawk",
    "ninja",
    "nix",
    "node",
    "nodejs",
    "nox",
    "npm",
    "npx",
    "nu",
    "nvim",
    "osascript",
    "pdm",
    "perl",
    "php",
    "pipenv",
    "pipx",
    "pixi",
    "pnpm",
    "pnpx",
    "poetry",
    "powershell",
    "pre-commit",
    "prove",
    "pwsh",
    "py",
    "py.test",
    "pypy",
    "pytest",
    "python",
    "racket",
    "rake",
    "raku",
    "rscript",
    "rspec",
    "ruby",
    "run-parts",
    "runghc",
    "runhaskell",
    "rye",
    "sbcl",
    "sbt",
    "scala",
    "scala-cli",
    "sh",
    "stack",
    "swift",
    "task",
    "tclsh",
    "tcsh",
    "tox",
    "ts-node",
    "tsx",
    "uv",
    "uvx",
    "vim",
    "vitest",
    "xargs",
    "yarn",
    "zig",
    "zsh",
];

/// The programs that run the one that their words name, after options and values of their own.
const WRAPPERS: &[&str] = &[
    "caffeinate",
    "chrt",
    "command",
    "doas",
    "env",
    "exec",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "setarch",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "unbuffer",
    "xargs",
];

/// The files that a program runs although no word names them.
const RUN_UNNAMED: &[(&[&str], &[&str])] = &[
    (&["gmake", "gnumake", "make"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (&["rake"], &["rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb"]),
    (&["bun", "npm", "pnpm", "yarn"], &["package.json"]),
];

/// The options that name a folder, or several with a colon between them, to load code from.
const LOAD_OPTIONS: &[&str] =
    &["-I", "-L", "-cp", "-classpath", "--class-path", "--module-path", "-pa", "-pz"];

/// Words in the name of a variable whose value names folders to load code from. Other values that are the name of a
/// folder, such as `NODE_ENV=test`, are no reason to seal it.
const LOAD_VARIABLES: &[&str] =
    &["CONFIG_HOME", "GEM_HOME", "LIB", "OPT", "PATH", "PYTHONHOME", "TEMPLATE_DIR", "ZDOTDIR"];

/// What a name of a file may lack: an interpreter finds a module by its name alone.
const MODULES: &[&str] = &[
    ".py",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".rb",
    ".pl",
    ".pm",
    ".lua",
    ".sh",
    "/__main__.py",
    "/__init__.py",
    "/index.js",
    "/index.ts",
    "/main.js",
    "/package.json",
];

/// The commands of a hook, a server, an agent or a provider: what it runs, and what prints its key.
fn commands<'h>(hook: &'h Value<'_>) -> impl Iterator<Item = impl Iterator<Item = &'h str>> {
    let keys = ["command", "key-command", "client-secret-command"].map(|key| hook.get(key));
    let of_login = hook.get("login").and_then(|login| login.get("client-secret-command"));
    let all = keys.into_iter().chain([of_login]).flatten().filter_map(Value::as_slice);
    all.map(|command| command.iter().filter_map(Value::as_str))
}

/// The words of its commands: as they stand, and their parts.
fn words(hook: &Value<'_>) -> Vec<String> {
    parts(commands(hook).flatten())
}

/// The words of the texts of its variables, each with the variable's name.
fn words_of_variables<'h>(hook: &'h Value<'_>) -> Vec<(&'h str, String)> {
    let variables = hook.get("env").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let words = variables.flat_map(|(name, value)| {
        let name = name.as_str().or_else(|| name.as_keyword()).unwrap_or_default();
        parts(value.as_str().into_iter()).into_iter().map(move |word| (name, word))
    });
    words.collect()
}

/// Whether a file that a variable names may be a log or a state that its program writes: sealing it would end the trust at
/// each run. Its ending says so; or a path of this machine alone names it, which is no path of a shared project, at a
/// variable whose name says nothing of code or settings.
fn may_be_written(variable: &str, word: &str, path: &Path) -> bool {
    const DATA: &[&str] = &["csv", "db", "jsonl", "log", "pid", "sqlite", "sqlite3"];
    const SETTINGS: &[&str] =
        &["CONF", "ENV", "GEMFILE", "INIT", "MAKEFILES", "OPT", "PROFILE", "RC", "STARTUP"];
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let variable = variable.to_ascii_uppercase();
    let says_settings = || SETTINGS.iter().any(|part| variable.contains(part));
    ending.is_some_and(|ending| DATA.contains(&ending.as_str())) || word.starts_with('/') && !says_settings()
}

/// Whether a file is code: a program, a script or a library.
fn is_code(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const ENDINGS: &[&str] = &[
        "bash", "bat", "bb", "beam", "cjs", "class", "clj", "cljc", "cljs", "cmd", "cts", "dll", "dylib",
        "el", "elc", "ex", "exs", "fish", "groovy", "jar", "jl", "js", "jsx", "ksh", "kts", "lisp", "lua",
        "mjs", "mk", "mts", "node", "php", "pl", "pm", "ps1", "pth", "py", "pyc", "pyd", "pyz", "r", "rake",
        "raku", "rakumod", "rb", "scm", "sh", "so", "ss", "tcl", "ts", "tsx", "wasm", "zsh",
    ];
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let is_program = || path.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    let begins_as_script =
        || path.canonicalize().and_then(|real| files::read(&real, 2)).is_ok_and(|start| start == b"#!");
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) || is_program() || begins_as_script()
}

/// Whether a file is a text or data by its name, which a command may read and hardly runs.
fn is_document(path: &Path) -> bool {
    const ENDINGS: &[&str] = &[
        "adoc", "csv", "css", "html", "json", "lock", "log", "md", "org", "rst", "svg", "toml", "txt", "xml",
        "yaml", "yml",
    ];
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

fn parts<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut all = Vec::new();
    for text in texts {
        // A word may be a text for a shell, or an option with a value; a blank may be quoted.
        const QUOTED_BLANK: char = '\u{1}';
        let text = text.replace("\\ ", &QUOTED_BLANK.to_string());
        let ends = |c: char| c.is_whitespace() || "=:,;&|()<>{}[]$'\"`".contains(c);
        let quoted = text.split(['\'', '"']);
        let parts = std::iter::once(text.as_str()).chain(quoted).chain(text.split(ends));
        // `@tools/args` is a file of further words, `-Itools` an option with its value.
        let parts = parts.flat_map(|part| [Some(part), part.strip_prefix('@'), value_of_option(part)]);
        let parts = parts.flatten().filter(|part| !part.is_empty());
        all.extend(parts.map(|part| part.replace(QUOTED_BLANK, " ")));
    }
    all.sort();
    all.dedup();
    all
}

/// The value of an option of one letter that is written in the same word.
fn value_of_option(word: &str) -> Option<&str> {
    let mut letters = word.strip_prefix('-')?.chars();
    letters.next().filter(char::is_ascii_alphabetic).map(|_| letters.as_str())
}

/// The paths below the project's folder that a path may mean: without `.` and `..` as its text reads; and with them, if a link
/// before a `..` leads to another place of the project. What is read there is what runs, also when the link has changed.
fn below(root: &Path, path: &Path) -> Vec<PathBuf> {
    let (mut plain, mut climbs) = (PathBuf::new(), false);
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
                climbs = true;
            }
            part => plain.push(part),
        }
    }
    let is_inside = |path: &Path| path != root && path.starts_with(root);
    let real = climbs.then(|| path.canonicalize().ok()).flatten().filter(|real| is_inside(real));
    let is_elsewhere = real.is_some() && real != plain.canonicalize().ok();
    let walked = is_elsewhere.then(|| path.components().collect::<PathBuf>());
    is_inside(&plain).then_some(plain).into_iter().chain(walked).collect()
}

/// The paths below the project's folder that the command of a hook or a server may mean: each of its words, below the
/// project's folder, below its `:cwd` and below each folder that is a word itself. What stands before a slash may be a
/// variable, so that the rest is looked for too.
pub fn candidates(root: &Path, hook: &Value<'_>) -> Vec<PathBuf> {
    let (words, of_variables) = (words(hook), words_of_variables(hook));
    let mut folders = vec![root.to_owned()];
    let cwd = hook.get("cwd").and_then(Value::as_str);
    let all = words.iter().chain(of_variables.iter().map(|(_, word)| word));
    for word in cwd.into_iter().chain(all.map(String::as_str)) {
        for rest in rests(word) {
            let found = folders.clone().into_iter().flat_map(|folder| below(root, &folder.join(rest)));
            let found: Vec<_> = found.filter(|path| path.is_dir() && !folders.contains(path)).collect();
            folders.extend(found);
        }
        folders.truncate(TRUSTED_FOLDERS);
    }
    let mut paths = files_unnamed(&folders, &words);
    paths.extend(words.iter().flat_map(|word| files_named(root, &folders, word)));
    for (variable, word) in &of_variables {
        let named = files_named(root, &folders, word);
        paths.extend(named.into_iter().filter(|path| is_code(path) || !may_be_written(variable, word, path)));
    }
    paths.extend(load_folders(root, hook).iter().filter_map(|folder| code_in(root, folder)).flatten());
    paths.extend(watched(root, hook));
    paths.sort();
    paths.dedup();
    paths
}

/// The files below some folders that a word names, by a path or as a module.
fn files_named(root: &Path, folders: &[PathBuf], word: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for rest in rests(word) {
        // The module a.b of Python is the file a/b.py, and a/__init__.py runs before it.
        let module = rest.replace('.', "/");
        let packages = module.match_indices('/').filter_map(|(at, _)| module.get(..at));
        let packages: Vec<_> = packages.map(|package| format!("{package}/__init__.py")).collect();
        for folder in folders {
            let named = std::iter::once(rest.to_owned()).chain(packages.iter().cloned());
            let named = named
                .chain(MODULES.iter().flat_map(|end| [format!("{rest}{end}"), format!("{module}{end}")]));
            let found = named.flat_map(|name| below(root, &folder.join(name)));
            paths.extend(found.filter(|path| path.is_file()));
        }
    }
    paths
}

/// The files below some folders that the programs among some words run unnamed.
fn files_unnamed(folders: &[PathBuf], words: &[String]) -> Vec<PathBuf> {
    let is_word = |program: &&str| words.iter().any(|word| base(word) == **program);
    let run = RUN_UNNAMED.iter().filter(|(programs, _)| programs.iter().any(is_word));
    let names = run.flat_map(|(_, names)| names.iter());
    let paths = names.flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.filter(|path| path.is_file()).collect()
}

/// The folders of the project that an option or a variable of a command names to load code from: `-Ilib`,
/// `PYTHONPATH=lib:tools`.
fn load_folders(root: &Path, hook: &Value<'_>) -> Vec<PathBuf> {
    let mut words = commands(hook).flatten().flat_map(str::split_whitespace).peekable();
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        for option in LOAD_OPTIONS {
            match word.strip_prefix(option) {
                Some("") => values.extend(words.peek().copied()),
                Some(value) if option.len() == 2 || value.starts_with('=') => values.push(value),
                _ => {}
            }
        }
    }
    let values = parts(values.into_iter());
    let of_variables = words_of_variables(hook).into_iter().filter(|(name, _)| {
        let name = name.to_ascii_uppercase();
        LOAD_VARIABLES.iter().any(|part| name.contains(part))
    });
    let cwd = hook.get("cwd").and_then(Value::as_str).map(|cwd| root.join(cwd));
    let words: Vec<_> = values.into_iter().chain(of_variables.map(|(_, word)| word)).collect();
    let mut folders: Vec<_> = std::iter::once(root.to_owned())
        .chain(cwd)
        .flat_map(|folder| words.iter().map(move |word| folder.join(word)))
        .flat_map(|path| below(root, &path))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The code below a folder that code is loaded from; `None` if it is more than trust covers.
fn code_in(root: &Path, folder: &Path) -> Option<Vec<PathBuf>> {
    // Several folders have room in what a trust covers.
    const MOST: usize = TRUSTED_FILES / 4;
    let (mut found, mut folders, mut seen) = (Vec::new(), vec![folder.to_owned()], HashSet::new());
    let mut left = WATCHED_ENTRIES;
    while let Some(folder) = folders.pop() {
        // A link may lead in a circle, or out of the project.
        let Ok(real) = folder.canonicalize() else { continue };
        if !real.starts_with(root) || !seen.insert(real) {
            continue;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().take(left.saturating_add(1));
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        left = left.checked_sub(paths.len())?;
        // Always the same of two ways to a folder.
        paths.sort();
        for path in paths {
            if path.is_dir() {
                // Python writes there at each run.
                folders.extend((!path.ends_with("__pycache__")).then_some(path));
            } else if path.is_file() && is_code(&path) {
                let is_small = path.metadata().is_ok_and(|found| found.len() < TRUSTED_FILE_BYTES);
                if !is_small || found.len() >= MOST {
                    return None;
                }
                found.push(path);
            }
        }
    }
    Some(found)
}

/// A word, and what follows each of its slashes.
fn rests(word: &str) -> impl Iterator<Item = &str> {
    let after = word.match_indices('/').filter_map(move |(at, _)| word.get(at.saturating_add(1)..));
    std::iter::once(word).chain(after).filter(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

/// The files that the globs at `:watch` name. More than [`TRUSTED_FILES`] are too many to be trusted.
fn watched(root: &Path, hook: &Value<'_>) -> Vec<PathBuf> {
    let globs = hook.get("watch").and_then(Value::as_slice).unwrap_or_default();
    matching(root, globs.iter().filter_map(Value::as_str))
}

/// The files of a project that some globs name, from the project's folder.
fn matching<'g>(root: &Path, globs: impl Iterator<Item = &'g str>) -> Vec<PathBuf> {
    let globs = globs.map(|glob| glob.trim_start_matches("./"));
    let globs: Vec<String> = globs.filter(|glob| PathGlob::new(glob).is_ok()).map(str::to_owned).collect();
    if globs.is_empty() {
        return Vec::new();
    }
    let set = PathGlobs::compiled(globs);
    let mut meter = Meter::new(WATCHED_STEPS, usize::MAX);
    let (mut found, mut folders, mut seen) = (Vec::new(), vec![root.to_owned()], 0usize);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen = seen.saturating_add(1);
            if seen > WATCHED_ENTRIES || found.len() > TRUSTED_FILES {
                return found;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(_) => match path.strip_prefix(root).map(|inside| set.is_match(inside, &mut meter)) {
                    Ok(Ok(true)) => found.push(path),
                    Ok(Err(_)) => return found,
                    Ok(Ok(false)) | Err(_) => {}
                },
                Err(_) => {}
            }
        }
    }
    found
}

/// The hooks, servers, agents and providers of a project's configuration, each with its kind and name.
fn all<'v>(configuration: &'v Value<'v>) -> impl Iterator<Item = (String, &'v Value<'v>)> {
    let hooks = configuration.get("hooks").and_then(Value::as_slice).unwrap_or_default().iter();
    let name =
        |value: &Value<'_>| value.as_str().or_else(|| value.as_keyword()).unwrap_or_default().to_owned();
    let hooks =
        hooks.map(move |hook| (format!("the hook {}", hook.get("id").map(name).unwrap_or_default()), hook));
    let of = |key, kind| {
        let all = configuration.get(key).and_then(Value::as_map).into_iter().flat_map(Map::iter);
        all.map(move |(key, value)| (format!("the {kind} {}", name(key)), value))
    };
    hooks.chain(of("mcp", "MCP server")).chain(of("agents", "agent")).chain(of("providers", "provider"))
}

/// The files of a project that the commands of its configuration name.
pub fn named(root: &Path, configuration: &[u8]) -> Vec<PathBuf> {
    let Ok(value) = edn::read_one(configuration) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = all(&value).flat_map(|(_, hook)| candidates(root, hook)).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The code below a folder that a command of the user's own configuration names. Other files may be what it writes.
pub fn code_below(root: &Path, command: &Value<'_>) -> Vec<PathBuf> {
    candidates(root, command).into_iter().filter(|path| is_code(path)).take(TRUSTED_FILES).collect()
}

/// The files below a folder that a command of the user's own configuration names, also those that are not there yet.
pub fn programs_below(root: &Path, command: &Value<'_>) -> Vec<PathBuf> {
    let words = words(command);
    let named = words.iter().filter(|word| word.contains('/'));
    let named = named.flat_map(|word| below(root, &root.join(word)));
    candidates(root, command).into_iter().chain(named).collect()
}

/// The hooks, servers and providers of a project's configuration whose code trust does not watch: their program is a shell or
/// an interpreter, also behind a wrapper, and no word of the command is a file of the project that may be code, or one is a
/// pattern for code; or they load code from a folder with more than trust covers. Each as a sentence.
pub fn unwatched(root: &Path, configuration: &Value<'_>) -> Vec<String> {
    let found = all(configuration).flat_map(|(what, hook)| {
        let runs_others = runs_others(hook);
        let (words, sealed) = (words(hook), if runs_others { candidates(root, hook) } else { Vec::new() });
        let is_named = !files_unnamed(&[root.to_owned()], &words).is_empty()
            || sealed.iter().any(|path| !is_document(path));
        let unnamed = (runs_others && !is_named)
            .then(|| format!("{what}: its code is not watched; :watch [\"tools/**\"] seals it"));
        let is_pattern = |word: &&String| word.contains(['*', '?']) && !word.contains(char::is_whitespace);
        let patterns = words.iter().filter(is_pattern).filter(|_| runs_others && is_named);
        let patterns = patterns.filter(|pattern| {
            let found = matching(root, std::iter::once(pattern.as_str()));
            found.iter().any(|path| is_code(path) && !sealed.contains(path))
        });
        let patterns: Vec<String> = patterns
            .map(|pattern| format!("{what}: the code that {pattern} stands for is not watched; :watch [{pattern:?}] seals it"))
            .collect();
        let folders = load_folders(root, hook);
        let too_large = folders.into_iter().filter(|folder| code_in(root, folder).is_none());
        let too_large = too_large.map(move |folder| {
            let folder = folder.strip_prefix(root).unwrap_or(&folder).display();
            format!("{what}: its code in {folder} is not watched, because it is too much; :watch seals a part of it")
        });
        unnamed.into_iter().chain(patterns).chain(too_large).collect::<Vec<_>>()
    });
    found.collect()
}

/// Whether a command runs a shell or an interpreter. A wrapper (`timeout 9 python3`) may run each of its later words.
fn runs_others(hook: &Value<'_>) -> bool {
    commands(hook).any(|mut words| {
        let Some(program) = words.next() else { return false };
        is_interpreter(program) || WRAPPERS.contains(&base(program).as_str()) && words.any(is_interpreter)
    })
}

/// Whether a program is a shell or an interpreter, also with a version at its end (`python3.12`).
fn is_interpreter(program: &str) -> bool {
    let name = base(program);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    INTERPRETERS.contains(&name.as_str()) || INTERPRETERS.contains(&plain)
}

/// The name of a program, without its folder.
fn base(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    name.strip_suffix(".exe").unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_globs_at_watch_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.sh"), "a").unwrap();
        let deep = format!("{}a{}", "{".repeat(15_000), "}".repeat(15_000));
        let value = format!("{{:watch [\"{deep}\" \"*.sh\"]}}");
        let value = edn::read_one(value.as_bytes()).unwrap();
        assert_eq!(watched(folder.path(), &value), [folder.path().join("a.sh")]);
    }

    #[test]
    fn interpreter_without_sealed_word_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.py"), "1").unwrap();
        let value = edn::read_one(
            br#"{:hooks [{:id "h" :command ["python3.12" "-c" "import x"]} {:id "i" :command ["python3" "a.py"]}]
                 :mcp {"t" {:command ["/usr/bin/env" "sh"]} "u" {:command ["server"]} "v" {:command ["sh"] :watch ["*.py"]}}}"#,
        )
        .unwrap();
        let told = unwatched(folder.path(), &value);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("the hook h: its code is not watched"), "{told:?}");
        assert!(told[1].starts_with("the MCP server t"), "{told:?}");
        for command in [
            r#""timeout" "9" "python3" "-mx""#,
            r#""nice" "python3" "-mx""#,
            r#""sudo" "-u" "x" "nice" "-n" "5" "pytest""#,
            r#""env" "A=1" "setsid" "rake""#,
            r#""gmake""#,
            r#""/usr/bin/pytest" "-q""#,
        ] {
            let value = format!("{{:hooks [{{:id \"h\" :command [{command}]}}]}}");
            let value = edn::read_one(value.as_bytes()).unwrap();
            assert_eq!(unwatched(folder.path(), &value).len(), 1, "{command}");
        }
        // A text that is read is not the code, and a pattern is no file that could be sealed.
        std::fs::write(folder.path().join("README.md"), "").unwrap();
        std::fs::write(folder.path().join("package.json"), "{}").unwrap();
        std::fs::create_dir(folder.path().join("tools")).unwrap();
        std::fs::write(folder.path().join("tools/x.sh"), "").unwrap();
        for (command, expected) in [
            (r#""sh" "-c" "run-parts tools; cat README.md""#, ": its code is not watched"),
            (r#""go" "run" ".""#, ": its code is not watched"),
            (
                r#""sh" "-c" "python3 a.py; sh ./tools/*.sh""#,
                ": the code that ./tools/*.sh stands for is not watched",
            ),
        ] {
            let value = format!("{{:hooks [{{:id \"h\" :command [{command}]}}]}}");
            let value = edn::read_one(value.as_bytes()).unwrap();
            let told = unwatched(folder.path(), &value);
            assert!(told.len() == 1 && told[0].contains(expected), "{command}: {told:?}");
        }
        for command in [
            r#""sh" "-c" "python3 a.py; cat *.md""#,
            r#""npm" "run" "x""#,
            r#""sh" "-c" "python3 a.py; sh tools/*.sh" ] :watch ["tools/*.sh""#,
        ] {
            let value = format!("{{:hooks [{{:id \"h\" :command [{command}]}}]}}");
            let value = edn::read_one(value.as_bytes()).unwrap();
            assert_eq!(unwatched(folder.path(), &value), [""; 0], "{command}");
        }
        let value = edn::read_one(br#"{:hooks [{:id "h" :command ["timeout" "9" "server"]}]}"#).unwrap();
        assert_eq!(unwatched(folder.path(), &value), [""; 0]);
    }
}
