//! Trust in a project: it holds for the content that was there when the user gave it, not for a path.
//!
//! Kept are the digests of what trust lets run: the project's configuration, its workflows, and the files that
//! its hooks, MCP servers and external agents name, also by a folder, a module or a variable, or at `:watch`, and the code in
//! folders that they load from. What these run in turn (a script that a script calls) is not looked at. Knows files and
//! digests; does not know its callers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::command_files::{candidates, code_below, named};
use crate::files::{self, Seal};
use crate::limits::{TRUSTED_FILE_BYTES, TRUSTED_FILES};
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
            let digest =
                files::whole(&path).map_or_else(|| UNREADABLE.to_owned(), |bytes| sha256::hex(&bytes));
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

    /// The files that the commands of a hook, a server, an agent or a provider name.
    pub fn named_by(&self, root: &Path, hook: &Value<'_>) -> Seal {
        let sealed = candidates(root, hook).into_iter().filter_map(|path| {
            let inside = path.strip_prefix(root).ok()?;
            let digest = self.0.get(&*inside.to_string_lossy())?.clone();
            Some((path, digest))
        });
        Seal::trusted(sealed.collect())
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

/// The code in folders that commands of a session may write to, as far as a hook, a server, an agent or a provider of the
/// user's own configuration names it, as it is now.
pub fn users_code(folders: &[PathBuf], hook: &Value<'_>) -> Seal {
    Seal::now(folders.iter().flat_map(|folder| code_below(folder, hook)))
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

#[cfg(test)]
mod tests {
    use super::super::command_files::unwatched;
    use super::*;
    use crate::edn;

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
            assert_eq!(before.named_by(root, server.unwrap()).paths().count(), 1, "{hooks:?}");
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
            // A value of a variable, whatever the file is called.
            (r#"{:mcp {:t {:command ["bash"] :env {"BASH_ENV" "tools/env"}}}}"#, "tools/env"),
            (r#"{:mcp {:t {:command ["bash"] :env {"BASH_ENV" "./tools/dev.env"}}}}"#, "tools/dev.env"),
            (
                r#"{:mcp {:t {:command ["g"] :env {"GIT_CONFIG_GLOBAL" "tools/gitconfig"}}}}"#,
                "tools/gitconfig",
            ),
            (r#"{:mcp {:t {:command ["m"] :env {"MAKEFILES" "a.mk tools/pre"}}}}"#, "tools/pre"),
            (r#"{:mcp {:t {:command ["java"] :env {"JDK_JAVA_OPTIONS" "@tools/args"}}}}"#, "tools/args"),
            (r#"{:mcp {:t {:command ["java" "@tools/args"]}}}"#, "tools/args"),
            // A folder that code is loaded from.
            (r#"{:mcp {:t {:command ["p"] :env {"PYTHONPATH" "lib"}}}}"#, "lib/sitecustomize.py"),
            (
                r#"{:mcp {:t {:command ["p"] :env {"PERL5LIB" "/x:tools" "PERL5OPT" "-MA::S"}}}}"#,
                "tools/A/S.pm",
            ),
            (r#"{:mcp {:t {:command ["n"] :env {"NODE_OPTIONS" "--require ./hook"}}}}"#, "hook/m.js"),
            (r#"{:mcp {:t {:command ["p"] :cwd "a" :env {"RUBYLIB" "lib"}}}}"#, "a/lib/s.rb"),
            (r#"{:mcp {:t {:command ["perl" "-Itools" "-Ms"]}}}"#, "tools/s.pm"),
            (r#"{:mcp {:t {:command ["perl" "-I" "tools" "-MA::S"]}}}"#, "tools/A/S.pm"),
            (r#"{:mcp {:t {:command ["java" "--class-path=lib:l" "Main"]}}}"#, "lib/Main.class"),
            // A package runs before its module.
            (r#"{:hooks [{:command ["python3" "-m" "pkg.s"]}]}"#, "pkg/__init__.py"),
            (r#"{:hooks [{:command ["python3" "-m" "pkg.s"]}]}"#, "pkg/s/__main__.py"),
            (r#"{:hooks [{:command ["python3" "-m" "pkg.s"]}]}"#, "pkg/s/__init__.py"),
            (r#"{:mcp {:t {:cwd "a" :command ["python3" "-m" "p.q.s"]}}}"#, "a/p/q/__init__.py"),
            // An option and its value in one word.
            (r#"{:hooks [{:command ["timeout" "9" "python3" "-ms"]}]}"#, "s.py"),
            (r#"{:hooks [{:command ["sed" "-ftools/p.sed"]}]}"#, "tools/p.sed"),
            // A file that is run unnamed.
            (r#"{:hooks [{:command ["make" "-C" "tools"]}]}"#, "tools/Makefile"),
            (r#"{:hooks [{:command ["nice" "/usr/bin/gmake" "-Ctools"]}]}"#, "tools/GNUmakefile"),
            (r#"{:hooks [{:command ["npm" "run" "x"]}]}"#, "package.json"),
        ] {
            check(hooks, path);
        }
    }

    #[test]
    fn what_a_program_writes_is_not_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let check = |hooks: &str, path: &str| {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "1").unwrap();
            let sealed = Sealed::of(&root, Some(hooks.as_bytes()));
            assert!(!sealed.iter().any(|(sealed, _)| sealed == path), "{hooks} {path}");
        };
        let absolute =
            format!(r#"{{:mcp {{:t {{:command ["s"] :env {{"STARTED" "{}/started"}}}}}}}}"#, root.display());
        check(&absolute, "started");
        for (hooks, path) in [
            (r#"{:mcp {:t {:command ["s"] :env {"FILE" "logs/s.log"}}}}"#, "logs/s.log"),
            (r#"{:mcp {:t {:command ["s"] :env {"DATABASE" "data.db"}}}}"#, "data.db"),
            (r#"{:mcp {:t {:command ["p"] :env {"PYTHONPATH" "lib"}}}}"#, "lib/__pycache__/s.pyc"),
            (r#"{:mcp {:t {:command ["n"] :env {"NODE_ENV" "test"}}}}"#, "test/a.js"),
        ] {
            check(hooks, path);
        }
    }

    #[test]
    fn file_behind_a_link_is_sealed_as_it_is_walked() {
        for hooks in [
            r#"{:hooks [{:command ["sh" "l/../s.sh"]}]}"#,
            r#"{:hooks [{:cwd "l" :command ["sh" "../s.sh"]}]}"#,
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            for inside in ["a/b", "c/d"] {
                std::fs::create_dir_all(root.join(inside)).unwrap();
            }
            std::os::unix::fs::symlink("a/b", root.join("l")).unwrap();
            for name in ["s.sh", "a/s.sh"] {
                std::fs::write(root.join(name), "1").unwrap();
            }
            let before = Sealed::of(&root, Some(hooks.as_bytes()));
            let changes = || before.changes(&Sealed::of(&root, Some(hooks.as_bytes())));
            assert_eq!(changes(), [""; 0], "{hooks}");
            std::fs::write(root.join("a/s.sh"), "2").unwrap();
            assert_eq!(changes(), ["l/../s.sh has changed"], "{hooks}");
            std::fs::write(root.join("a/s.sh"), "1").unwrap();
            // The link leads to another file.
            std::fs::write(root.join("c/s.sh"), "2").unwrap();
            std::fs::remove_file(root.join("l")).unwrap();
            std::os::unix::fs::symlink("c/d", root.join("l")).unwrap();
            assert_eq!(changes(), ["l/../s.sh has changed"], "{hooks}");
            // A file outside is not the project's.
            std::fs::remove_file(root.join("l")).unwrap();
            std::os::unix::fs::symlink("/dev", root.join("l")).unwrap();
            assert_eq!(changes(), ["l/../s.sh is gone"], "{hooks}");
        }
    }

    #[test]
    fn folder_with_more_code_than_trust_covers_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("lib")).unwrap();
        for name in 0..=TRUSTED_FILES / 4 {
            std::fs::write(root.join(format!("lib/{name}.py")), "1").unwrap();
        }
        let hooks = br#"{:hooks [{:id "h" :command ["server"] :env {"PYTHONPATH" "lib"}}]}"#;
        assert_eq!(Sealed::of(&root, Some(hooks)).iter().count(), 1);
        let told = unwatched(&root, &edn::read_one(hooks).unwrap());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("the hook h: its code in lib is not watched"), "{told:?}");
    }
}
