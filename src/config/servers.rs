//! What has been agreed to of MCP servers, as digests by folder: the command lines of projects' servers that have been
//! started, and the tools that a rule has let run. What changes is asked about. Knows no server.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::error::ConfigError;
use super::files::{contents, replace};
use crate::edn;
use crate::limits::{CONFIG_BYTES, KNOWN_SERVER_FOLDERS};
use crate::value::{Map, Value};

/// Digests by folder and name. One file beside that of trusted folders.
#[derive(Debug)]
pub struct KnownDigests {
    path: PathBuf,
    /// The key of an entry under which they stand.
    key: &'static str,
    /// One change is read and written at a time.
    one: Mutex<()>,
}

impl KnownDigests {
    /// Those of the command lines and addresses of servers, by the server's name.
    pub fn servers(state_dir: &std::path::Path) -> Self {
        Self { path: state_dir.join("servers.edn"), key: "servers", one: Mutex::new(()) }
    }

    /// Those of servers' tools that a rule has let run, by the name for models.
    pub fn tools(state_dir: &std::path::Path) -> Self {
        Self { path: state_dir.join("tools.edn"), key: "tools", one: Mutex::new(()) }
    }

    /// Those of a folder. `None` if the file is there and cannot be read: then nobody knows what is known. Reads the disk.
    pub fn of(&self, folder: &str) -> Option<BTreeMap<String, String>> {
        let entries = self.entries()?;
        let entry = entries.iter().find(|entry| entry.get("folder").and_then(Value::as_str) == Some(folder));
        let digests = entry.and_then(|entry| entry.get(self.key)?.as_map());
        let text = |value: &Value<'_>| value.as_str().map(str::to_owned);
        let digests = digests.into_iter().flat_map(Map::iter);
        Some(digests.filter_map(|(name, digest)| Some((text(name)?, text(digest)?))).collect())
    }

    fn entries(&self) -> Option<Vec<Value<'static>>> {
        let bytes = match contents(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
            read => read.ok()?,
        };
        let value = edn::read_one(&bytes).ok()?;
        Some(value.as_slice()?.iter().cloned().map(Value::into_owned).collect())
    }

    /// Adds digests to those of a folder. A file that cannot be read is replaced.
    ///
    /// # Errors
    /// If they cannot be written down.
    pub fn add(&self, folder: &str, digests: BTreeMap<String, String>) -> Result<(), ConfigError> {
        if digests.is_empty() {
            return Ok(());
        }
        let _alone = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.of(folder).unwrap_or_default();
        known.extend(digests);
        let mut entries = self.entries().unwrap_or_default();
        entries.retain(|entry| entry.get("folder").and_then(Value::as_str) != Some(folder));
        let mut digests = Map::new();
        for (name, digest) in known {
            digests.insert(Value::from(name), Value::from(digest));
        }
        let entry = Map::new().with("folder", folder.to_owned()).with(self.key, Value::from(digests));
        entries.push(Value::from(entry));
        // The oldest go first. A server that is not known is started as a new one, in a trusted folder alone; a tool that is
        // not known is one that its rule lets run for the first time.
        let over = entries.len().saturating_sub(KNOWN_SERVER_FOLDERS);
        entries.drain(..over);
        while edn::to_string(&Value::vector(entries.iter().cloned())).len()
            > usize::try_from(CONFIG_BYTES / 2).unwrap_or(0)
            && entries.len() > 1
        {
            entries.remove(0);
        }
        replace(&self.path, &Value::vector(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests_are_kept_by_folder() {
        let dir = tempfile::tempdir().unwrap();
        let known = KnownDigests::servers(dir.path());
        let digests = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
            of.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect()
        };
        assert_eq!(known.of("/p"), Some(BTreeMap::new()));
        known.add("/p", digests(&[("a", "1"), ("b", "2")])).unwrap();
        known.add("/q", digests(&[("a", "3")])).unwrap();
        known.add("/p", digests(&[("b", "4")])).unwrap();
        let again = KnownDigests::servers(dir.path());
        assert_eq!(again.of("/p"), Some(digests(&[("a", "1"), ("b", "4")])));
        assert_eq!(again.of("/q"), Some(digests(&[("a", "3")])));
        for n in 0..KNOWN_SERVER_FOLDERS {
            known.add(&format!("/{n}"), digests(&[("a", "1")])).unwrap();
        }
        assert_eq!(known.of("/p"), Some(BTreeMap::new()), "the oldest are gone");
        std::fs::write(dir.path().join("servers.edn"), "[{:folder \"/q\"").unwrap();
        assert_eq!(known.of("/q"), None, "what cannot be read says nothing");
        known.add("/q", digests(&[("a", "5")])).unwrap();
        assert_eq!(known.of("/q"), Some(digests(&[("a", "5")])));
        assert_eq!(KnownDigests::tools(dir.path()).of("/q"), Some(BTreeMap::new()), "tools are no servers");
    }
}
