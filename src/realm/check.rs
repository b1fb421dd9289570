//! What a look at an engine found.

use std::sync::Arc;
use std::time::Duration;

/// What `realm check` and `doctor` say of an engine.
#[derive(Debug, Clone)]
pub struct RealmCheck {
    /// Where it is, without user and password.
    pub place: Arc<str>,
    /// Its name.
    pub engine: &'static str,
    /// Its version.
    pub version: Arc<str>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// The time of a question and its answer.
    pub round_trip: Duration,
    /// The time of something that is on the engine's disk afterwards.
    pub append: Duration,
    /// What a person should know.
    pub notes: Vec<RealmNote>,
}

/// Something of an engine that a person may want otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealmNote {
    /// What is so, in sentences.
    pub what: &'static str,
    /// What to do about it, in a sentence.
    pub advice: &'static str,
}
