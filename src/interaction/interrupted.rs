//! The open questions on disk: a claim for each, of the process that asks.
//!
//! A killed process leaves its claims. The next process that starts finds them there, so that these questions get their
//! audit record too. They contain what the audit contains, and no text. Does not know how questions end.

use std::io;
use std::path::Path;

use crate::claims::{Claim, Claims};
use crate::edn;
use crate::limits::OPEN_QUESTIONS;
use crate::value::{Map, Value};

/// The claims of a state folder: at most as many are looked at as one process can have.
#[derive(Debug)]
pub struct QuestionNotes(Claims);

/// A claim of a question: of this process while it is open, or one that a killed process left.
pub type QuestionNote = Claim;

impl QuestionNotes {
    /// The claims of a state folder. Touches nothing on disk.
    pub fn new(state_dir: &Path) -> Self {
        Self(Claims::new(state_dir.join("questions"), OPEN_QUESTIONS))
    }

    /// Writes down that a question is open.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, id: &str, record: Map<'static>) -> io::Result<QuestionNote> {
        let mut line = Vec::new();
        edn::write_canonical(&Value::from(record), &mut line);
        self.0.claim(id, &line)
    }

    /// The notes of processes that are gone. What is no record is passed over.
    pub fn left(&self) -> Vec<(QuestionNote, Map<'static>)> {
        let read = |line: &[u8]| Some(edn::read_one(line).ok()?.as_map()?.clone().into_owned());
        self.0.left().into_iter().filter_map(|(note, line)| Some((note, read(&line)?))).collect()
    }
}
