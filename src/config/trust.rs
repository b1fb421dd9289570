//! Trust in a project: it holds for the content that was there when the user gave it, not for a path.
//!
//! Kept are the digests of what trust lets run: the project's configuration, its workflows, and the files that
//! its hooks, MCP servers and external agents name, also by a folder, a module or a variable, or at `:watch`. What these run
//! in turn (a script that a script calls) is not looked at. Knows files and digests; does not know its callers.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::edn;
use crate::files;
use crate::glob::{PathGlob, PathGlobs};
use crate::limits::{TRUSTED_FILE_BYTES, TRUSTED_FILES, TRUSTED_FOLDERS, WATCHED_ENTRIES, WATCHED_STEPS};
use crate::meter::Meter;
use crate::sha256;
use crate::value::{Map, Value};

/// The files of a project that trust lets run, each with its digest; by their paths from the project's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealed(BTreeMap<String, String>);

/// Whether the user trusts a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Not, or no longer.
    None,
    /// As it is now.
    Granted(Sealed),
    /// As it was: these files have changed, are new or are gone.
    Changed(Vec<String>),
    /// Granted by a version that kept no digests. Nobody may have seen the current content.
    Earlier,
}

/// The digest of a file that cannot be read whole.
const UNREADABLE: &str = "unreadable";

impl Sealed {
    /// The content of a project's folder now, with its configuration as it was read.
    pub fn of(root: &Path, configuration: Option<&[u8]>) -> Self {
        let mut all = BTreeMap::new();
        if let Some(bytes) = configuration {
            all.insert(".edn-bridge/config.edn".to_owned(), sha256::hex(bytes));
        }
        let workflows = std::fs::read_dir(root.join(".edn-bridge/workflows")).into_iter().flatten().flatten();
        let workflows = workflows.map(|entry| entry.path());
        let workflows = workflows.filter(|path| path.extension().is_some_and(|ending| ending == "edn"));
        let named = configuration.map(|bytes| named(root, bytes)).unwrap_or_default();
        for path in workflows.chain(named).take(TRUSTED_FILES.saturating_add(1)) {
            let Ok(inside) = path.strip_prefix(root) else { continue };
            let read = path.canonicalize().and_then(|real| files::read(&real, TRUSTED_FILE_BYTES));
            let whole = read
                .ok()
                .filter(|bytes| u64::try_from(bytes.len()).is_ok_and(|length| length < TRUSTED_FILE_BYTES));
            let digest = whole.map_or_else(|| UNREADABLE.to_owned(), |bytes| sha256::hex(&bytes));
            all.insert(inside.to_string_lossy().into_owned(), digest);
        }
        Self(all)
    }

    /// Why it cannot be trusted, if so.
    pub fn wrong(&self) -> Option<String> {
        if self.0.len() > TRUSTED_FILES {
            return Some(format!("its configuration and workflows name more than {TRUSTED_FILES} files"));
        }
        let unreadable = self.0.iter().find(|(_, digest)| *digest == UNREADABLE);
        unreadable
            .map(|(path, _)| format!("{path} cannot be read, or is larger than {TRUSTED_FILE_BYTES} bytes"))
    }

    /// How it differs from what a person was shown, if it does: paths and digests. The programs of hooks need not
    /// have been shown.
    pub fn differs(&self, shown: &BTreeMap<String, String>) -> Option<String> {
        let is_program = |path: &str| !path.starts_with(".edn-bridge/");
        let other = self.0.iter().find_map(|(path, digest)| match shown.get(path) {
            Some(seen) if seen == digest => None,
            Some(_) => Some(format!("{path} has changed since it was shown")),
            None if is_program(path) => None,
            None => Some(format!("{path} was not shown")),
        });
        let gone = || shown.keys().find(|path| !self.0.contains_key(*path));
        other.or_else(|| gone().map(|path| format!("{path} was shown and is gone")))
    }

    /// The files, each with its digest.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, digest)| (path.as_str(), digest.as_str()))
    }

    /// Whether a file was there with this content.
    pub fn holds(&self, inside: &Path, bytes: &[u8]) -> bool {
        self.0.get(&*inside.to_string_lossy()).is_some_and(|digest| *digest == sha256::hex(bytes))
    }

    /// The files that the command of a hook or a server names, with their digests.
    pub fn named_by(&self, root: &Path, hook: &Value<'_>) -> Vec<(PathBuf, String)> {
        let sealed = candidates(root, hook).into_iter().filter_map(|path| {
            let inside = path.strip_prefix(root).ok()?;
            let digest = self.0.get(&*inside.to_string_lossy())?.clone();
            Some((path, digest))
        });
        sealed.collect()
    }

    /// What is otherwise now: changed, new or gone.
    fn changes(&self, now: &Self) -> Vec<String> {
        let mut all: Vec<&String> = self.0.keys().chain(now.0.keys()).collect();
        all.sort();
        all.dedup();
        let changes = all.into_iter().filter_map(|path| match (self.0.get(path), now.0.get(path)) {
            (Some(before), Some(now)) if before == now && now != UNREADABLE => None,
            (Some(_), Some(_)) => Some(format!("{path} has changed")),
            (None, _) => Some(format!("{path} is new")),
            (_, None) => Some(format!("{path} is gone")),
        });
        changes.collect()
    }

    /// The entry of the list of trusted folders.
    pub fn entry(&self, folder: &str) -> Value<'static> {
        let mut files = Map::new();
        for (path, digest) in &self.0 {
            files.insert(Value::from(path.clone()), Value::from(digest.clone()));
        }
        Value::from(Map::new().with("folder", folder.to_owned()).with("files", Value::from(files)))
    }

    fn read(files: &Value<'_>) -> Self {
        let files = files.as_map().into_iter().flat_map(Map::iter);
        let text = |value: &Value<'_>| value.as_str().map(str::to_owned);
        Self(files.filter_map(|(path, digest)| Some((text(path)?, text(digest)?))).collect())
    }
}

/// The folder of an entry of the list; earlier versions wrote the folder alone.
pub fn folder<'v>(entry: &'v Value<'_>) -> Option<&'v str> {
    entry.as_str().or_else(|| entry.get("folder")?.as_str())
}

impl Trust {
    /// The trust that an entry of the list grants to the current content.
    pub fn of(entry: &Value<'_>, now: Sealed) -> Self {
        let Some(files) = entry.get("files") else { return Self::Earlier };
        let changes = Sealed::read(files).changes(&now);
        if changes.is_empty() { Self::Granted(now) } else { Self::Changed(changes) }
    }

    /// Whether the current content is trusted.
    pub fn is_given(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// In one word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Granted(_) => "trusted",
            Self::Changed(_) => "changed",
            Self::Earlier => "earlier",
        }
    }

    /// Why the project is not trusted though it was, for a person.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::None | Self::Granted(_) => None,
            Self::Changed(changes) => Some(format!(
                "this project was trusted, and since then {}: it counts as not trusted until you look at it and trust \
                 it again (/trust)",
                changes.join(", ")
            )),
            Self::Earlier => Some(
                "this project was trusted by a version that did not keep what it was trusted with: look at its \
                 .edn-bridge and trust it again (/trust)"
                    .to_owned(),
            ),
        }
    }
}

/// The programs that run code which stands in other files.
const INTERPRETERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bb",
    "bun",
    "bunx",
    "busybox",
    "cargo",
    "clojure",
    "cmd",
    "csh",
    "dash",
    "deno",
    "dotnet",
    "elixir",
    "emacs",
    "env",
    "fish",
    "gawk",
    "go",
    "gradle",
    "groovy",
    "guile",
    "java",
    "jbang",
    "julia",
    "just",
    "ksh",
    "lua",
    "luajit",
    "make",
    "mvn",
    "nix",
    "node",
    "nodejs",
    "npm",
    "npx",
    "nu",
    "osascript",
    "perl",
    "php",
    "pipx",
    "pnpm",
    "poetry",
    "powershell",
    "pwsh",
    "py",
    "pypy",
    "python",
    "raku",
    "ruby",
    "rscript",
    "rye",
    "sbcl",
    "scala",
    "sh",
    "swift",
    "tclsh",
    "tcsh",
    "ts-node",
    "tsx",
    "uv",
    "uvx",
    "xargs",
    "yarn",
    "zsh",
];

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

/// The words of a command: as they stand, and their parts.
fn words(hook: &Value<'_>) -> Vec<String> {
    let command = hook.get("command").and_then(Value::as_slice).unwrap_or_default();
    parts(command.iter().filter_map(Value::as_str))
}

/// The words of the texts of its variables.
fn words_of_variables(hook: &Value<'_>) -> Vec<String> {
    let variables = hook.get("env").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    parts(variables.filter_map(|(_, value)| value.as_str()))
}

/// Whether a file that a variable names is code. A log or a state that a program writes is none: sealing it would end the
/// trust at each run.
fn is_code(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const ENDINGS: &[&str] = &[
        "bash", "bat", "bb", "cjs", "clj", "cmd", "dll", "dylib", "ex", "exs", "fish", "jar", "js", "ksh",
        "lua", "mjs", "php", "pl", "pm", "ps1", "pth", "py", "pyc", "pyz", "rb", "sh", "so", "ts", "tsx",
        "zsh",
    ];
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let is_program = || path.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    let begins_as_script = || {
        let mut start = [0; 2];
        std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
    };
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) || is_program() || begins_as_script()
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
        all.extend(parts.filter(|part| !part.is_empty()).map(|part| part.replace(QUOTED_BLANK, " ")));
    }
    all.sort();
    all.dedup();
    all
}

/// A path without `.` and `..`, as far as that can be told without the disk; `None` if it is not below the folder.
fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    (plain != root && plain.starts_with(root)).then_some(plain)
}

/// The paths below the project's folder that the command of a hook or a server may mean: each of its words, below the
/// project's folder, below its `:cwd` and below each folder that is a word itself. What stands before a slash may be a
/// variable, so that the rest is looked for too.
fn candidates(root: &Path, hook: &Value<'_>) -> Vec<PathBuf> {
    let (words, of_variables) = (words(hook), words_of_variables(hook));
    let mut folders = vec![root.to_owned()];
    let cwd = hook.get("cwd").and_then(Value::as_str);
    for word in cwd.into_iter().chain(words.iter().chain(&of_variables).map(String::as_str)) {
        for rest in rests(word) {
            let found = folders.clone().into_iter().filter_map(|folder| below(root, &folder.join(rest)));
            let found: Vec<_> = found.filter(|path| path.is_dir() && !folders.contains(path)).collect();
            folders.extend(found);
        }
        folders.truncate(TRUSTED_FOLDERS);
    }
    let mut paths = files_named(root, &folders, &words);
    paths.extend(files_named(root, &folders, &of_variables).into_iter().filter(|path| is_code(path)));
    paths.extend(watched(root, hook));
    paths.sort();
    paths.dedup();
    paths
}

/// The files below some folders that words name, by a path or as a module.
fn files_named(root: &Path, folders: &[PathBuf], words: &[String]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for rest in words.iter().flat_map(|word| rests(word)) {
        // The module a.b of Python is the file a/b.py.
        let module = rest.replace('.', "/");
        for folder in folders {
            let named = std::iter::once(rest.to_owned());
            let named = named
                .chain(MODULES.iter().flat_map(|end| [format!("{rest}{end}"), format!("{module}{end}")]));
            let found = named.filter_map(|name| below(root, &folder.join(name)));
            paths.extend(found.filter(|path| path.is_file()));
        }
    }
    paths
}

/// A word, and what follows each of its slashes.
fn rests(word: &str) -> impl Iterator<Item = &str> {
    let after = word.match_indices('/').filter_map(move |(at, _)| word.get(at.saturating_add(1)..));
    std::iter::once(word).chain(after).filter(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

/// The files that the globs at `:watch` name. More than [`TRUSTED_FILES`] are too many to be trusted.
fn watched(root: &Path, hook: &Value<'_>) -> Vec<PathBuf> {
    let globs = hook.get("watch").and_then(Value::as_slice).unwrap_or_default();
    let globs = globs.iter().filter_map(Value::as_str).map(|glob| glob.trim_start_matches("./"));
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

/// The hooks, servers and agents of a project's configuration, each with its kind and name.
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
    hooks.chain(of("mcp", "MCP server")).chain(of("agents", "agent"))
}

/// The files of a project that the hooks and servers of its configuration name.
fn named(root: &Path, configuration: &[u8]) -> Vec<PathBuf> {
    let Ok(value) = edn::read_one(configuration) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = all(&value).flat_map(|(_, hook)| candidates(root, hook)).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The hooks and servers of a project's configuration whose code trust does not watch: their program is a shell or an
/// interpreter, and no word of the command is a file of the project. Each as a sentence.
pub fn unwatched(root: &Path, configuration: &Value<'_>) -> Vec<String> {
    let is_unwatched = |hook: &Value<'_>| {
        let program = hook.get("command").and_then(Value::as_slice).and_then(|words| words.first()?.as_str());
        program.is_some_and(runs_others) && candidates(root, hook).is_empty()
    };
    let found = all(configuration).filter(|(_, hook)| is_unwatched(hook));
    found
        .map(|(what, _)| format!("{what}: its code is not watched; :watch [\"tools/**\"] seals it"))
        .collect()
}

/// Whether a program is a shell or an interpreter, also with a version at its end (`python3.12`).
fn runs_others(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    INTERPRETERS.contains(&name) || INTERPRETERS.contains(&plain)
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
    fn only_what_was_shown_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join(".edn-bridge/workflows")).unwrap();
        std::fs::write(root.join(".edn-bridge/workflows/w.edn"), "w").unwrap();
        std::fs::write(root.join("check.sh"), "1").unwrap();
        let configuration = br#"{:hooks [{:command ["./check.sh"]}]}"#;
        let sealed = Sealed::of(root, Some(configuration));
        let paths = [".edn-bridge/config.edn", ".edn-bridge/workflows/w.edn", "check.sh"];
        let contents: [&[u8]; 3] = [configuration, b"w", b"1"];
        let shown = |of: &[usize]| -> BTreeMap<String, String> {
            of.iter().map(|at| (paths[*at].to_owned(), sha256::hex(contents[*at]))).collect()
        };
        assert_eq!(sealed.differs(&shown(&[0, 1])), None);
        assert_eq!(sealed.differs(&shown(&[0, 1, 2])), None);
        assert!(sealed.differs(&shown(&[0])).unwrap().contains("w.edn was not shown"));
        for path in paths {
            let mut other = shown(&[0, 1, 2]);
            other.insert(path.to_owned(), sha256::hex(b"other"));
            assert!(sealed.differs(&other).unwrap().contains("has changed"), "{path}");
        }
        let mut more = shown(&[0, 1]);
        more.insert(".edn-bridge/workflows/v.edn".to_owned(), String::new());
        assert!(sealed.differs(&more).unwrap().contains("is gone"));
    }

    #[test]
    fn a_file_that_a_word_of_a_hook_contains_is_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["a.sh", "b.sh", "c.edn", "d.py", "e.js", "f.py"] {
            std::fs::write(root.join(name), "1").unwrap();
        }
        let hooks = br#"{:hooks [{:command ["bash" "-c" "./a.sh && exec sh 'b.sh'"]}
                                 {:command ["python3" "d.py" "--with=c.edn" "" "."]}]
                         :mcp {"e" {:command ["node" "./e.js"]}}
                         :agents {"f" {:command ["python3" "f.py"]}}}"#;
        let before = Sealed::of(root, Some(hooks));
        assert_eq!(before.wrong(), None);
        for name in ["a.sh", "b.sh", "c.edn", "d.py", "e.js", "f.py"] {
            std::fs::write(root.join(name), "2").unwrap();
            let now = Sealed::of(root, Some(hooks));
            assert_eq!(before.changes(&now).len(), 1, "{name}");
            std::fs::write(root.join(name), "1").unwrap();
        }
    }

    #[test]
    fn files_named_by_folder_module_or_variable_are_sealed() {
        let check = |hooks: &str, path: &str| {
            let folder = tempfile::tempdir().unwrap();
            let (root, hooks) = (folder.path(), hooks.as_bytes());
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "1").unwrap();
            let before = Sealed::of(root, Some(hooks));
            std::fs::write(root.join(path), "2").unwrap();
            let told = before.changes(&Sealed::of(root, Some(hooks)));
            assert_eq!(told, [format!("{path} has changed")], "{hooks:?}");
            // What a server is started from, too.
            let value = edn::read_one(hooks).unwrap();
            let server = value
                .get("mcp")
                .and_then(|all| all.get("t"))
                .or_else(|| value.get("hooks")?.as_slice()?.first());
            assert_eq!(before.named_by(root, server.unwrap()).len(), 1, "{hooks:?}");
        };
        for (hooks, path) in [
            (r#"{:mcp {:t {:command ["python3" "s.py"] :cwd "tools"}}}"#, "tools/s.py"),
            (r#"{:mcp {:t {:command ["./s.sh"] :cwd "tools"}}}"#, "tools/s.sh"),
            (r#"{:mcp {:t {:command ["../s.sh"] :cwd "tools/../tools"}}}"#, "s.sh"),
            (r#"{:mcp {:t {:command ["bash"] :env {"BASH_ENV" "tools/s.sh"}}}}"#, "tools/s.sh"),
            (r#"{:mcp {:t {:command ["node" "x"] :env {"NODE_OPTIONS" "--require ./a/s.js"}}}}"#, "a/s.js"),
            (r#"{:hooks [{:command ["python3" "-m" "s"]}]}"#, "s.py"),
            (r#"{:hooks [{:command ["python3" "-m" "pkg.s"]}]}"#, "pkg/s.py"),
            (r#"{:hooks [{:command ["python3" "-ms"] :watch ["*.py"]}]}"#, "s.py"),
            (r#"{:hooks [{:command ["python3" "-m" "s"] :env {"PYTHONPATH" "lib"}}]}"#, "lib/s/__main__.py"),
            (r#"{:hooks [{:command ["sh" "-c" "cd tools && ./s.sh"]}]}"#, "tools/s.sh"),
            (r#"{:hooks [{:command ["sh" "-c" "$PWD/tools/s.sh"]}]}"#, "tools/s.sh"),
            (r#"{:hooks [{:command ["sh" "-c" "${PWD}/tools/s.sh"]}]}"#, "tools/s.sh"),
            (r#"{:hooks [{:command ["sh" "-c" "\"$(pwd)\"/s.sh"]}]}"#, "s.sh"),
            (r#"{:hooks [{:command ["sh" "-c" "'my s.sh' x"]}]}"#, "my s.sh"),
            (r#"{:hooks [{:command ["sh" "-c" "./my\\ s.sh x"]}]}"#, "my s.sh"),
            (r#"{:hooks [{:command ["make" "x"] :watch ["tools/**"]}]}"#, "tools/a/b.sh"),
        ] {
            check(hooks, path);
        }
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
    }
}
