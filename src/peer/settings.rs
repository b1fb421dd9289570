//! What is alike in the settings of all programs that are talked to: where they stand, names, commands, variables. Looks
//! nothing up.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::limits::MCP_SERVER_NAME_BYTES;
use crate::secret::Secret;
use crate::similar;
use crate::value::{Map, Value};

/// Where a program was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The user's own file.
    User(PathBuf),
    /// The file of a project that is trusted.
    Project(PathBuf),
    /// A client, for its session alone.
    Client(std::sync::Arc<str>),
}

impl Source {
    /// The word on every wire: `user`, `project` or `client`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Project(_) => "project",
            Self::Client(_) => "client",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(path) | Self::Project(path) => path.display().fmt(f),
            Self::Client(name) => f.write_str(name),
        }
    }
}

/// The value of a variable or a header. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub enum Variable {
    /// It stands in the configuration: `"value"`.
    Text(Secret),
    /// That of a variable of the environment, after a text: `{:variable "NAME" :prefix "Bearer "}`.
    Variable {
        /// The variable.
        name: String,
        /// What stands before its value.
        prefix: String,
    },
    /// The key of a provider of models, after a text: `{:key-of "anthropic"}`.
    KeyOf {
        /// The provider.
        provider: String,
        /// What stands before the key.
        prefix: String,
    },
}

/// Why what is written of one program cannot be used, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// An unknown key.
    #[error("The {what} {name:?} has an unknown key {key}.{}", hint(.near))]
    Key {
        /// What it is: `server` or `agent`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The key.
        key: String,
        /// The nearest one.
        near: Option<&'static str>,
    },
    /// A value has the wrong shape.
    #[error("The {what} {name:?} needs {expected} at {key}.")]
    Shape {
        /// What it is: `server` or `agent`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The key.
        key: String,
        /// What it needs.
        expected: &'static str,
    },
    /// Something that only the user's own file may say.
    #[error("The {what} {name:?}: only the user's own configuration may say {key}.")]
    UserOnly {
        /// What it is: `server` or `agent`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The key.
        key: &'static str,
    },
}

fn hint(near: &Option<&'static str>) -> String {
    near.map(|near| format!(" Did you mean :{near}?")).unwrap_or_default()
}

/// A key of a map that is not among those that are known, with the nearest one.
pub fn unknown_key(map: &Map<'_>, known: &[&'static str]) -> Option<(String, Option<&'static str>)> {
    let key = map.iter().map(|(key, _)| key);
    let mut unknown = key.filter(|key| !key.as_keyword().is_some_and(|key| known.contains(&key)));
    let key = unknown.next()?;
    let text = key.as_keyword().or_else(|| key.as_str()).unwrap_or_default();
    let near = similar::nearest(text, 1, known.iter().map(|key| (*key, *key)));
    Some((key.to_string(), near.first().copied()))
}

/// Whether a text can be the name of a program: letters, digits, `-` and single `_`, a letter or digit first and last.
pub fn is_name(name: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (1..=MCP_SERVER_NAME_BYTES).contains(&name.len())
        && !name.contains("__")
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && is_edge(name.chars().next())
        && is_edge(name.chars().last())
}

/// A command line as a person may be shown it, without what looks like a key.
pub fn command_line(words: &[String]) -> String {
    let word = |word: &String| {
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'');
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    crate::secret::mask_command(&words.iter().map(word).collect::<Vec<_>>().join(" ")).into_owned()
}

/// A folder that may begin with `~/`.
pub fn at_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), dirs::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// The variables as a part of a digest. It is made of secrets too.
pub fn of_text<'v>(variables: impl IntoIterator<Item = &'v (String, Variable)>) -> String {
    let mut text = String::new();
    for (name, variable) in variables {
        let value = match variable {
            Variable::Text(secret) => format!("= {:?}", secret.expose()),
            Variable::Variable { name, prefix } => format!("$ {name:?} {prefix:?}"),
            Variable::KeyOf { provider, prefix } => format!("key {provider:?} {prefix:?}"),
        };
        text.push_str(&format!("{name:?} {value}\n"));
    }
    text
}

/// The map of one program.
pub struct Read<'v> {
    /// What it is: `server` or `agent`.
    pub what: &'static str,
    /// Its name.
    pub name: &'v str,
    /// The map.
    pub map: &'v Map<'v>,
}

impl<'v> Read<'v> {
    /// The error of a value of the wrong shape.
    pub fn shape(&self, key: &str, expected: &'static str) -> Unfit {
        Unfit::Shape { what: self.what, name: self.name.to_owned(), key: format!(":{key}"), expected }
    }

    /// A text.
    ///
    /// # Errors
    /// If it is something else.
    pub fn text(&self, key: &str) -> Result<Option<&'v str>, Unfit> {
        match self.map.get_keyword(key) {
            None | Some(Value::Nil) => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| self.shape(key, "a text")),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is something else.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, Unfit> {
        match self.map.get_keyword(key) {
            None | Some(Value::Nil) => Ok(None),
            Some(value) => value.as_bool().map(Some).ok_or_else(|| self.shape(key, "true or false")),
        }
    }

    /// A vector of texts.
    ///
    /// # Errors
    /// If it is something else.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Unfit> {
        let Some(value) = self.map.get_keyword(key) else { return Ok(None) };
        let texts = value.as_slice().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.map(Some).ok_or_else(|| self.shape(key, "a vector of texts"))
    }

    /// A program with its arguments.
    ///
    /// # Errors
    /// If it is something else, or empty.
    pub fn command(&self, key: &str) -> Result<Option<Vec<String>>, Unfit> {
        let Some(command) = self.texts(key)? else { return Ok(None) };
        match !command.is_empty() && command.iter().all(|word| !word.contains('\0')) {
            true => Ok(Some(command)),
            false => Err(self.shape(key, "a vector of the program and its arguments")),
        }
    }

    /// Folders, absolute or such as begin with `~/`.
    ///
    /// # Errors
    /// If they are something else.
    pub fn folders(&self, key: &str) -> Result<Vec<PathBuf>, Unfit> {
        let folders = self.texts(key)?.unwrap_or_default();
        let folders: Vec<PathBuf> = folders.iter().map(|folder| at_home(folder)).collect();
        match folders.iter().all(|folder| folder.is_absolute()) {
            true => Ok(folders),
            false => Err(self.shape(key, "absolute folders, or such as begin with ~/")),
        }
    }

    /// A map of names and values, sorted by name.
    ///
    /// # Errors
    /// If it is something else.
    pub fn variables(&self, key: &str) -> Result<Vec<(String, Variable)>, Unfit> {
        let Some(value) = self.map.get_keyword(key) else { return Ok(Vec::new()) };
        let map = value.as_map().ok_or_else(|| self.shape(key, "a map of names and values"))?;
        let mut all = BTreeMap::new();
        for (name, value) in map.iter() {
            let name = name.as_str().or_else(|| name.as_keyword());
            let name = name.filter(|name| !name.is_empty() && !name.contains(['=', '\0']));
            let name = name.ok_or_else(|| self.shape(key, "names without = in them"))?;
            let expected = "\"value\", {:variable \"NAME\"} or {:key-of \"provider\"} for each name";
            let variable = Variable::read(value).ok_or_else(|| self.shape(key, expected))?;
            all.insert(name.to_owned(), variable);
        }
        Ok(all.into_iter().collect())
    }
}

impl Variable {
    fn read(value: &Value<'_>) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return (!text.contains('\0')).then(|| Self::Text(Secret::new(text.to_owned())));
        }
        let map = value.as_map()?;
        let known = |key: &Value<'_>| matches!(key.as_keyword(), Some("variable" | "key-of" | "prefix"));
        if !map.iter().all(|(key, _)| known(key)) {
            return None;
        }
        let text = |key: &str| map.get_keyword(key).map(|value| value.as_str().map(str::to_owned));
        let prefix = match text("prefix") {
            None => String::new(),
            Some(prefix) => prefix?,
        };
        match (text("variable"), text("key-of")) {
            (Some(name), None) => Some(Self::Variable { name: name?, prefix }),
            (None, Some(provider)) => Some(Self::KeyOf { provider: provider?, prefix }),
            _ => None,
        }
    }
}
