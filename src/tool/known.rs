//! The texts of files that a model has seen, by their digests: `write` replaces no other. Does not know sessions, nor
//! where a text was shown.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::KNOWN_TEXTS;

/// Who wants to replace a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A model, which sees files only by what it is shown.
    Model,
    /// An external agent, which may also read files by itself. What it has read here and what has changed since is
    /// refused once; then the agent has been warned.
    Agent,
    /// An external agent, whose change a person has seen and allowed.
    PermittedAgent,
}

/// A text of a file that a model was shown, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenText {
    /// The digest of the whole text.
    pub digest: String,
    /// Whether all of it was shown.
    pub is_whole: bool,
}

/// The digest of the text that was last shown of each file, by resolved path.
#[derive(Debug, Default)]
pub struct KnownTexts(Mutex<HashMap<PathBuf, String>>);

impl KnownTexts {
    fn texts(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a text was shown. A part of a text that somebody has changed since does not show the change: the text that
    /// was known before stays the known one.
    pub fn shown(&self, path: &Path, seen: SeenText) {
        let mut texts = self.texts();
        if !seen.is_whole && texts.get(path).is_some_and(|known| *known != seen.digest) {
            return;
        }
        // Files that are forgotten are read again.
        if texts.len() >= KNOWN_TEXTS && !texts.contains_key(path) {
            texts.clear();
        }
        texts.insert(path.to_owned(), seen.digest);
    }

    /// Notes that a text became another one by a change of the model. Who did not know the old one does not know the new
    /// one either. Returns whether the new one is known.
    pub fn changed(&self, path: &Path, old: &str, new: String) -> bool {
        match self.texts().get_mut(path).filter(|known| *known == old) {
            Some(known) => *known = new,
            None => return false,
        }
        true
    }

    /// Whether a text of this digest may be replaced as a whole.
    pub fn may_replace(&self, path: &Path, digest: &str, writer: Writer) -> bool {
        let mut texts = self.texts();
        let known = texts.get(path).map(|known| known == digest);
        match (writer, known) {
            (Writer::PermittedAgent, _) | (_, Some(true)) | (Writer::Agent, None) => true,
            (Writer::Model, _) => false,
            (Writer::Agent, Some(false)) => {
                texts.remove(path);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_that_was_shown_last_is_replaced() {
        let known = KnownTexts::default();
        let path = Path::new("/a");
        let may = |digest: &str, writer| known.may_replace(path, digest, writer);
        assert!(!may("1", Writer::Model) && may("1", Writer::Agent));
        let seen = |digest: &str, is_whole| SeenText { digest: digest.to_owned(), is_whole };
        known.shown(path, seen("1", false));
        assert!(may("1", Writer::Model) && !may("2", Writer::Model) && may("2", Writer::PermittedAgent));
        assert!(!known.changed(path, "2", "3".to_owned()));
        assert!(!may("3", Writer::Model) && may("1", Writer::Model));
        assert!(known.changed(path, "1", "3".to_owned()));
        assert!(may("3", Writer::Model));
        known.shown(path, seen("5", false));
        assert!(!may("5", Writer::Model), "a part of it need not show what somebody has changed");
        known.shown(path, seen("5", true));
        assert!(may("5", Writer::Model));
        // An agent is refused once.
        assert!(!may("4", Writer::Agent) && may("4", Writer::Agent));
        for number in 0..=KNOWN_TEXTS {
            known.shown(Path::new(&format!("/{number}")), seen("", true));
        }
        assert!(known.texts().len() <= KNOWN_TEXTS);
    }
}
