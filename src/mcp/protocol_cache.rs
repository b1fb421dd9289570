//! Which era of the protocol a server spoke last, kept in the state folder: asking again may take seconds.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::facts::Era;
use crate::edn;
use crate::files;
use crate::limits::{CONFIG_BYTES, MCP_ERA_SECONDS, MCP_ERAS};
use crate::private;
use crate::value::{Map, Value};

/// The file of a state folder.
fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("mcp-eras.edn")
}

/// One change at a time in this process. Another process may win: then it is asked for once more.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn read(state_dir: &Path) -> Map<'static> {
    let bytes = files::read(&file(state_dir), CONFIG_BYTES).unwrap_or_default();
    match edn::read_one(&bytes).map(Value::into_owned) {
        Ok(Value::Map(all)) => all,
        // Whatever it was, it is written anew.
        _ => Map::new(),
    }
}

/// The era of a server, by the digest of what it is, if it was learnt lately. Blocks.
pub(super) fn known(state_dir: &Path, digest: &str, now: Timestamp) -> Option<Era> {
    let all = read(state_dir);
    let entry = all.get(&Value::from(digest))?;
    let age = now.as_second().saturating_sub(entry.get("learnt")?.as_i64()?);
    if !(0..MCP_ERA_SECONDS).contains(&age) {
        return None;
    }
    let name = entry.get("era")?.as_keyword()?;
    [Era::Handshake, Era::Discover].into_iter().find(|era| era.as_str() == name)
}

/// Keeps the era of a server, or forgets it. Blocks.
pub(super) fn keep(state_dir: &Path, digest: &str, era: Option<Era>, now: Timestamp) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = read(state_dir);
    match era {
        Some(era) => {
            let mut entry = Map::new();
            entry.put("era", Value::keyword(era.as_str()));
            entry.put("learnt", now.as_second());
            all.insert(digest.to_owned(), entry);
        }
        None => drop(all.remove(&Value::from(digest))),
    }
    while all.len() > MCP_ERAS {
        let learnt = |entry: &Value<'_>| entry.get("learnt").and_then(Value::as_i64).unwrap_or(i64::MIN);
        let oldest = all.iter().min_by_key(|(_, entry)| learnt(entry)).map(|(digest, _)| digest.clone());
        let Some(oldest) = oldest else { break };
        all.remove(&oldest);
    }
    let mut text = Vec::new();
    edn::write_pretty(&Value::from(all), 100, &mut text);
    let written =
        private::make_folder(state_dir).and_then(|()| private::replace_soon(&file(state_dir), &text));
    if let Err(error) = written {
        tracing::debug!(%error, "the era of a server is not remembered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn era_is_remembered_for_a_time_and_bounded() {
        let state = tempfile::tempdir().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(known(state.path(), "a", at(0)), None);
        keep(state.path(), "a", Some(Era::Discover), at(0));
        keep(state.path(), "b", Some(Era::Handshake), at(1));
        assert_eq!(known(state.path(), "a", at(5)), Some(Era::Discover));
        assert_eq!(known(state.path(), "b", at(5)), Some(Era::Handshake));
        assert_eq!(known(state.path(), "a", at(MCP_ERA_SECONDS)), None);
        keep(state.path(), "b", None, at(2));
        assert_eq!(known(state.path(), "b", at(5)), None);
        for n in 0..MCP_ERAS {
            keep(state.path(), &format!("d{n}"), Some(Era::Handshake), at(10));
        }
        assert_eq!(known(state.path(), "a", at(11)), None);
        assert_eq!(read(state.path()).len(), MCP_ERAS);
        std::fs::write(file(state.path()), "{\"a").unwrap();
        assert_eq!(known(state.path(), "a", at(5)), None);
        keep(state.path(), "a", Some(Era::Discover), at(0));
        assert_eq!(known(state.path(), "a", at(5)), Some(Era::Discover));
    }
}
