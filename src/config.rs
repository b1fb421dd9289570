//! What the user chose: where state is kept, which model answers, what tools may do.
//!
//! Values come in layers, each over the one before: the user's file, the project's file, the environment,
//! the command line. A project's file that the user has not trusted may narrow what is allowed, and nothing
//! else. Knows files and plain data; not who uses the values.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::edn;
use crate::value::{Map, Value};

/// The settings of a process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where sessions, models and other state are kept.
    pub state_dir: PathBuf,
    /// The folder that new sessions work in, absolute.
    pub cwd: PathBuf,
    /// The provider of new sessions.
    pub provider: Arc<str>,
    /// The model of new sessions, by its id at the provider.
    pub model: Arc<str>,
    /// A GGUF file for the embedded model.
    pub model_file: Option<PathBuf>,
    /// A script for the scripted provider.
    pub script: Option<PathBuf>,
    /// What tools may do without asking.
    pub mode: Arc<str>,
    /// What the configuration files say, for those values that they alone have.
    pub files: Files,
    /// Folders that commands may write to beside the workspace.
    pub writable: Vec<PathBuf>,
    /// Models beside those that the program knows, as configuration writes them.
    pub models: Vec<Value<'static>>,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not EDN.
    #[error("{}:{source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: edn::Error,
    },
    /// A value has another shape than it must.
    #[error("{}: {key} must be {expected}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
}

/// Where the configuration stands.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The user's file.
    pub user: Option<PathBuf>,
    /// The project's file.
    pub project: Option<PathBuf>,
    /// The file that lists the trusted projects.
    pub trust: Option<PathBuf>,
}

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

/// What the files say together.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The provider of new sessions.
    pub provider: Option<String>,
    /// The model of new sessions.
    pub model: Option<String>,
    /// The mode of new sessions.
    pub mode: Option<String>,
    /// Rules for tools, the user's first.
    pub rules: Vec<Value<'static>>,
    /// Folders that commands may write to.
    pub writable: Vec<PathBuf>,
    /// Further models.
    pub models: Vec<Value<'static>>,
    /// Where each value came from, in the order in which they were taken.
    pub sources: Vec<Sourced>,
    /// What was passed over, with why.
    pub passed_over: Vec<String>,
}

/// The modes, narrowest first.
const MODES: [&str; 4] = ["read-only", "ask", "accept-edits", "yolo"];

impl Files {
    /// Where the files of a project stand: the user's file is the named one, else the usual one.
    pub fn find(named: Option<&Path>, cwd: &Path, state_dir: &Path) -> Self {
        let usual = || dirs::config_dir().map(|dir| dir.join("edn-bridge").join("config.edn"));
        Self {
            user: named.map(Path::to_owned).or_else(usual),
            project: Some(cwd.join(".edn-bridge").join("config.edn")),
            trust: Some(state_dir.join("trusted.edn")),
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// See [`ConfigError`]. A file that is not there says nothing.
    pub fn read(&self) -> Result<Layers, ConfigError> {
        let mut layers = Layers::default();
        if let Some(path) = &self.user
            && let Some(map) = read(path)?
        {
            layers.take(path, &map, true)?;
        }
        if let Some(path) = &self.project
            && let Some(map) = read(path)?
        {
            layers.take(path, &map, self.is_trusted())?;
        }
        Ok(layers)
    }

    /// The project that the files are for.
    fn folder(&self) -> Option<String> {
        let folder = self.project.as_ref()?.parent()?.parent()?;
        Some(folder.canonicalize().ok()?.to_str()?.to_owned())
    }

    /// Whether the user trusts the project.
    pub fn is_trusted(&self) -> bool {
        let (Some(folder), Some(trust)) = (self.folder(), &self.trust) else { return false };
        trusted(trust).contains(&folder)
    }

    /// Trusts the project, or no longer.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn set_trusted(&self, yes: bool) -> Result<(), ConfigError> {
        let (Some(folder), Some(trust)) = (self.folder(), &self.trust) else { return Ok(()) };
        let failed = |source| ConfigError::Io { path: trust.clone(), source };
        let mut folders = trusted(trust);
        folders.retain(|known| *known != folder);
        if yes {
            folders.push(folder);
        }
        let mut text = Vec::new();
        edn::write_pretty(&Value::vector(folders.into_iter().map(Value::from)), 100, &mut text);
        if let Some(dir) = trust.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let beside = trust.with_extension("new");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, trust)).map_err(failed)
    }
}

/// The folders that the user trusts. A file that cannot be read trusts none.
fn trusted(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let Ok(value) = edn::read_one(&bytes) else { return Vec::new() };
    let folders = value.as_slice().unwrap_or_default();
    folders.iter().filter_map(|folder| folder.as_str().map(str::to_owned)).collect()
}

fn read(path: &Path) -> Result<Option<Map<'static>>, ConfigError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ConfigError::Io { path: path.to_owned(), source }),
    };
    let value = edn::read_one(&bytes)
        .map_err(|source| ConfigError::Syntax { path: path.to_owned(), source })?
        .into_owned();
    match value {
        Value::Map(map) => Ok(Some(map)),
        _ => Err(ConfigError::Shape {
            path: path.to_owned(),
            key: "the configuration".to_owned(),
            expected: "a map",
        }),
    }
}

impl Layers {
    /// Takes a file's values over those before.
    fn take(&mut self, path: &Path, map: &Map<'static>, trusted: bool) -> Result<(), ConfigError> {
        for (key, value) in map.iter() {
            let Some(name) = key.as_keyword() else {
                self.passed_over.push(format!("{}: {key} is no keyword", path.display()));
                continue;
            };
            let shape =
                |expected| ConfigError::Shape { path: path.to_owned(), key: key.to_string(), expected };
            let text = || {
                let text = value.as_str().or_else(|| value.as_keyword()).map(str::to_owned);
                text.ok_or_else(|| shape("a string or a keyword"))
            };
            let list = |value: Option<&Value<'static>>| match value {
                None | Some(Value::Nil) => Ok(Vec::new()),
                Some(value) => value.as_slice().map(<[_]>::to_vec).ok_or_else(|| shape("a map of vectors")),
            };
            let mut refused = false;
            match name {
                "mode" => {
                    let mode = text()?;
                    let place = |mode: &str| MODES.iter().position(|known| *known == mode);
                    let wanted = place(&mode).ok_or_else(|| shape("ask, accept-edits, read-only or yolo"))?;
                    let before = self.mode.as_deref().and_then(place).unwrap_or(1);
                    match trusted || wanted <= before {
                        true => self.mode = Some(mode),
                        false => refused = true,
                    }
                }
                "permissions" => {
                    let rules = list(value.get("rules"))?;
                    let all = rules.len();
                    // A rule that allows widens; one that asks or denies does not.
                    let narrows = |rule: &Value<'_>| {
                        rule.get("decision")
                            .is_some_and(|d| d.as_keyword() != Some("allow") && d.as_str() != Some("allow"))
                    };
                    let taken: Vec<_> = rules.into_iter().filter(|rule| trusted || narrows(rule)).collect();
                    refused = taken.len() < all;
                    self.rules.extend(taken);
                }
                "provider" | "model" | "sandbox" | "models" if !trusted => refused = true,
                "provider" => self.provider = Some(text()?),
                "model" => self.model = Some(text()?),
                "models" => self.models.extend(list(Some(value))?),
                "sandbox" => {
                    for folder in list(value.get("writable"))? {
                        let folder = folder.as_str().ok_or_else(|| shape("{:writable [folder …]}"))?;
                        self.writable.push(PathBuf::from(folder));
                    }
                }
                _ => {
                    self.passed_over.push(format!("{}: there is no setting {key}", path.display()));
                    continue;
                }
            }
            if refused {
                self.passed_over.push(format!(
                    "{}: {key} would widen what is allowed, and the project is not trusted",
                    path.display()
                ));
            } else {
                let (key, from) = (name.to_owned(), path.to_owned());
                self.sources.push(Sourced { key, value: value.clone(), from });
            }
        }
        Ok(())
    }
}

/// The state folder where none is named: `$XDG_STATE_HOME/edn-bridge`, by default below
/// `~/.local/state`. `None` where there is no home folder.
pub fn default_state_dir() -> Option<PathBuf> {
    Some(dirs::state_dir().or_else(dirs::data_local_dir)?.join("edn-bridge"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Project {
        dir: tempfile::TempDir,
        files: Files,
    }

    fn project(user: &str, project: &str) -> Project {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("p");
        std::fs::create_dir_all(cwd.join(".edn-bridge")).unwrap();
        std::fs::write(dir.path().join("user.edn"), user).unwrap();
        std::fs::write(cwd.join(".edn-bridge/config.edn"), project).unwrap();
        let files = Files::find(Some(&dir.path().join("user.edn")), &cwd, &dir.path().join("state"));
        Project { dir, files }
    }

    const WIDE: &str = "{:mode :yolo :provider \"evil\" :sandbox {:writable [\"/\"]} :models [{}]
        :permissions {:rules [{:decision :allow :tool \"bash\"} {:decision :deny :tool \"write\"}]}}";

    #[test]
    fn a_project_that_is_not_trusted_can_only_narrow() {
        let it = project(
            "{:mode :accept-edits :model \"m\" :permissions {:rules [{:decision :allow :tool \"edit\"}]}}",
            WIDE,
        );
        let layers = it.files.read().unwrap();
        assert_eq!(
            (layers.mode.as_deref(), layers.provider, layers.model.as_deref()),
            (Some("accept-edits"), None, Some("m"))
        );
        assert_eq!((layers.rules.len(), layers.writable.len(), layers.models.len()), (2, 0, 0));
        assert_eq!(layers.passed_over.len(), 5, "{:?}", layers.passed_over);
        it.files.set_trusted(true).unwrap();
        let layers = it.files.read().unwrap();
        assert_eq!((layers.mode.as_deref(), layers.provider.as_deref()), (Some("yolo"), Some("evil")));
        assert_eq!((layers.rules.len(), layers.writable.len(), layers.models.len()), (3, 1, 1));
        it.files.set_trusted(false).unwrap();
        assert!(!it.files.is_trusted());
        let narrow = project("{:mode :yolo}", "{:mode :read-only}");
        assert_eq!(narrow.files.read().unwrap().mode.as_deref(), Some("read-only"));
        drop(it.dir);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        for (user, expected) in [
            ("{:mode :wild}", ":mode must be"),
            ("{:mode", "user.edn:"),
            ("[]", "must be a map"),
            ("{:permissions {:rules 1}}", ":permissions must be"),
        ] {
            let error = project(user, "{}").files.read().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("user.edn"), "{error}");
        }
        let layers = project("{:colour :red}", "{}").files.read().unwrap();
        assert_eq!(layers.passed_over.len(), 1);
    }
}
