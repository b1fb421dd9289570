//! What went wrong with a program, in words that may be shown: without its secrets.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::limits::{PEER_ERROR_CHARS, PEER_TOKENS};
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
pub fn shown(noted: &Redactor, text: &str, most: usize) -> Arc<str> {
    cut(&noted.redact(text), most)
}

/// The tokens of a server's logins, and keys that the program was given later: those that are met last. They change while
/// a connection lasts.
#[derive(Debug, Default)]
pub struct Tokens(Mutex<VecDeque<Secret>>);

impl Tokens {
    /// Learns those of a login that is kept or read: JSON text.
    pub fn learn(&self, login: &str) {
        let mut found = Vec::new();
        gather(&serde_json::from_str(login).unwrap_or_default(), &mut found);
        self.add(found.into_iter().map(Secret::new));
    }

    /// Learns these.
    fn add(&self, tokens: impl IntoIterator<Item = Secret>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for token in tokens {
            if !known.iter().any(|known| known.expose() == token.expose()) {
                known.push_back(token);
            }
        }
        let over = known.len().saturating_sub(PEER_TOKENS);
        known.drain(..over);
    }

    fn without(&self, text: String) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(text, |text, token| token.redact(&text).into_owned())
    }
}

/// The texts that stand under the name of a token or a secret.
fn gather(login: &Json, found: &mut Vec<String>) {
    match login {
        Json::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name.ends_with("_token") || name.ends_with("_secret") => {
                        found.push(text.to_owned());
                    }
                    _ => gather(value, found),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| gather(item, found)),
        _ => {}
    }
}

/// The secrets of a program, and the last thing that went wrong.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Those that are taken out of everything.
    certain: Vec<Secret>,
    /// Those that are taken out of errors and the log alone: a folder's name in a variable is no key.
    possible: Vec<Secret>,
    tokens: Arc<Tokens>,
    last: Mutex<Option<Arc<str>>>,
}

impl Redactor {
    /// Nothing so far, of a program with these secrets.
    pub fn new((certain, possible): (Vec<Secret>, Vec<Secret>)) -> Self {
        Self { certain, possible, tokens: Arc::default(), last: Mutex::default() }
    }

    /// The same, whose logins' tokens are secrets too.
    pub fn with(self, tokens: Arc<Tokens>) -> Self {
        Self { tokens, ..self }
    }

    /// Learns a key that the program was given later.
    pub fn learn(&self, key: &Secret) {
        self.tokens.add([key.clone()]);
    }

    /// A text of the program without the keys that it was given.
    pub fn redact(&self, text: &str) -> String {
        self.tokens.without(without(&self.certain, text))
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
        let text = without(&self.possible, &self.redact(text));
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
