//! What went wrong with a program, in words that may be shown: without its secrets.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::limits::PEER_ERROR_CHARS;
use crate::secret::{self, Secret};
use crate::visible;

/// A text cut to a length in bytes, with a mark where something is missing.
pub fn cut(text: &str, most: usize) -> Arc<str> {
    if text.len() <= most {
        return text.into();
    }
    let end = (0..=most.saturating_sub('…'.len_utf8())).rev().find(|end| text.is_char_boundary(*end));
    format!("{}…", text.get(..end.unwrap_or(0)).unwrap_or_default()).into()
}

/// A text of a program that may be shown: without its keys, and cut after that, so that no half of a key is left.
pub fn shown(noted: &Noted, text: &str, most: usize) -> Arc<str> {
    cut(&noted.redact(text), most)
}

/// The secrets of a program, and the last thing that went wrong.
#[derive(Debug, Default)]
pub struct Noted {
    /// Those that are taken out of everything.
    certain: Vec<Secret>,
    /// Those that are taken out of errors and the log alone: a folder's name in a variable is no key.
    possible: Vec<Secret>,
    last: Mutex<Option<Arc<str>>>,
}

impl Noted {
    /// Nothing so far, of a program with these secrets.
    pub fn new((certain, possible): (Vec<Secret>, Vec<Secret>)) -> Self {
        Self { certain, possible, last: Mutex::default() }
    }

    /// A text of the program without the keys that it was given.
    pub fn redact(&self, text: &str) -> String {
        without(&self.certain, text)
    }

    /// Whether a text has one of these keys in it.
    pub fn is_in(&self, text: &str) -> bool {
        self.redact(text) != text
    }

    /// JSON of the program without the keys that it was given.
    pub fn redact_json(&self, json: Json) -> Json {
        match json {
            Json::String(text) => Json::String(self.redact(&text)),
            Json::Array(items) => items.into_iter().map(|item| self.redact_json(item)).collect(),
            Json::Object(fields) => {
                fields.into_iter().map(|(key, value)| (self.redact(&key), self.redact_json(value))).collect()
            }
            plain => plain,
        }
    }

    /// The same for errors and the log: without any value that it was given, and without what has the form of a key.
    pub fn masked(&self, text: &str) -> String {
        let text = without(&self.possible, &without(&self.certain, text));
        secret::mask(&text).into_owned()
    }

    /// The same as one sentence: bounded, in one line.
    pub fn words(&self, text: impl Display) -> String {
        let masked = self.masked(&text.to_string());
        let line = masked.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut cut: String = line.chars().take(PEER_ERROR_CHARS).collect();
        if cut.len() < line.len() {
            cut.push('…');
        }
        visible::line(&cut).into_owned()
    }

    /// Notes something, if nothing was noted before it: the first cause explains the others.
    pub fn note(&self, text: impl Display) {
        let words = self.words(text);
        self.last.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(words.into());
    }

    /// What was noted.
    pub fn last(&self) -> Option<Arc<str>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn without(secrets: &[Secret], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text).into_owned())
}
