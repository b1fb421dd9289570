//! The notes of `/remember`: one file per project, which grows by a line for each note and each removal.
//!
//! Knows folders, notes and the codec. Does not know who writes or shows a note.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::edn;
pub use crate::facts::Note;
use crate::limits::{NOTE_BYTES, NOTES, NOTES_BYTES};
use crate::private;
use crate::project;

/// The line of a removed note.
#[derive(Serialize, Deserialize)]
struct Forgotten {
    forget: Arc<str>,
    timestamp: Arc<str>,
}

/// Why a note could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system refused an operation.
    #[error("Cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The note is empty.
    #[error("There is nothing to remember: the note is empty.")]
    Empty,
    /// The note is too long.
    #[error("A note has at most {NOTE_BYTES} bytes, not {0}.")]
    TooLong(usize),
    /// There are too many notes.
    #[error("This project has {NOTES} notes, which is as many as are kept. Remove some first.")]
    TooMany,
}

/// The notes of all projects.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    /// The parsed notes of each project's file.
    known: Mutex<HashMap<PathBuf, CachedNotes>>,
}

/// The notes of a file, with its length and time at that moment.
#[derive(Debug)]
struct CachedNotes {
    length: u64,
    time: SystemTime,
    notes: Arc<Vec<Note>>,
}

impl Memory {
    /// The memory below `state_dir`. Touches nothing on disk.
    pub fn new(state_dir: &Path) -> Self {
        Self { folder: state_dir.join("memory"), known: Mutex::new(HashMap::new()) }
    }

    /// The file of a project's notes.
    pub fn path(&self, cwd: &Path) -> PathBuf {
        self.folder.join(format!("{}.edn", project::name(cwd)))
    }

    /// Keeps a note for a project. It is on disk when this returns.
    ///
    /// # Errors
    /// See [`MemoryError`]; nothing was kept then.
    pub fn remember(&self, cwd: &Path, note: &Note) -> Result<(), MemoryError> {
        if note.text.trim().is_empty() {
            return Err(MemoryError::Empty);
        }
        if note.text.len() > NOTE_BYTES {
            return Err(MemoryError::TooLong(note.text.len()));
        }
        if self.notes(cwd)?.len() >= NOTES {
            return Err(MemoryError::TooMany);
        }
        self.append(&self.path(cwd), note)
    }

    /// Removes a note; returns whether it existed.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn forget(&self, cwd: &Path, id: &str, ts: &str) -> Result<bool, MemoryError> {
        if !self.notes(cwd)?.iter().any(|note| &*note.id == id) {
            return Ok(false);
        }
        self.append(&self.path(cwd), &Forgotten { forget: id.into(), timestamp: ts.into() })?;
        Ok(true)
    }

    /// A project's notes, oldest first. Reads the file again only if it has changed.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn notes(&self, cwd: &Path) -> Result<Arc<Vec<Note>>, MemoryError> {
        let path = self.path(cwd);
        let failed = |source| MemoryError::Io { path: path.clone(), source };
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::default()),
            Err(error) => return Err(failed(error)),
        };
        let (length, time) = (metadata.len(), metadata.modified().map_err(failed)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&path)
            && (known.length, known.time) == (length, time)
        {
            return Ok(known.notes.clone());
        }
        let mut bytes = Vec::new();
        private::open_to_read(&path)
            .and_then(|file| file.take(NOTES_BYTES).read_to_end(&mut bytes))
            .map_err(failed)?;
        let notes = Arc::new(read(&bytes));
        known.insert(path.clone(), CachedNotes { length, time, notes: notes.clone() });
        Ok(notes)
    }

    /// The notes with all words of a text. Those with the most occurrences come first, and newer ones before
    /// older ones.
    ///
    /// # Errors
    /// Those of [`Memory::notes`].
    pub fn search(&self, cwd: &Path, text: &str) -> Result<Vec<Note>, MemoryError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let notes = self.notes(cwd)?;
        let mut found: Vec<(usize, &Note)> = notes
            .iter()
            .rev()
            .filter_map(|note| {
                let lower = note.text.to_lowercase();
                let counts = words.iter().map(|word| lower.matches(word.as_str()).count());
                let counts: Vec<usize> = counts.collect();
                (!counts.contains(&0)).then(|| (counts.iter().sum(), note))
            })
            .collect();
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        Ok(found.into_iter().map(|(_, note)| note.clone()).collect())
    }

    /// The newest notes as a part of a prompt: as many as fit into `room` bytes, oldest first. `None` if
    /// there are none or none fits.
    pub fn for_prompt(&self, cwd: &Path, room: usize) -> Option<String> {
        const HEADING: &str = "The user asked you to remember:";
        let notes = self.notes(cwd).ok()?;
        let mut left = room.checked_sub(HEADING.len())?;
        let fitting = notes.iter().rev().map_while(|note| {
            left = left.checked_sub(note.text.len().saturating_add(3))?;
            Some(note)
        });
        let fitting: Vec<&Note> = fitting.collect();
        if fitting.is_empty() {
            return None;
        }
        let mut text = HEADING.to_owned();
        for note in fitting.into_iter().rev() {
            text.push_str("\n- ");
            text.push_str(&note.text);
        }
        Some(text)
    }

    fn append(&self, path: &Path, line: &impl Serialize) -> Result<(), MemoryError> {
        let written = (|| {
            let mut line = edn::to_vec(line).map_err(io::Error::other)?;
            line.push(b'\n');
            private::make_folder(&self.folder)?;
            let mut file = private::open(path)?;
            // Two processes may write at once. Writing a line is short, so waiting is fine.
            flock(&file, FlockOperation::LockExclusive)?;
            let end = file.seek(SeekFrom::End(0))?;
            if end > 0 {
                // Ends a truncated line, so that it does not swallow this one.
                let mut last = [0];
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
                if last != *b"\n" {
                    line.insert(0, b'\n');
                }
            }
            let done = file.write_all(&line).and_then(|()| file.sync_all());
            if done.is_err() {
                let _ = file.set_len(end);
            }
            done?;
            File::open(&self.folder)?.sync_all()
        })();
        written.map_err(|source: io::Error| MemoryError::Io { path: path.to_owned(), source })
    }
}

/// The notes that result from the lines. Skips invalid lines.
fn read(bytes: &[u8]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(note) = edn::from_slice::<Note>(line) {
            notes.push(note);
        } else if let Ok(gone) = edn::from_slice::<Forgotten>(line) {
            notes.retain(|note| note.id != gone.forget);
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(id: &str, text: &str) -> Note {
        Note { id: id.into(), ts: "2026-01-01T00:00:00.000Z".into(), text: text.into(), session: None }
    }

    fn ids(notes: &[Note]) -> Vec<&str> {
        notes.iter().map(|note| &*note.id).collect()
    }

    #[test]
    fn notes_are_kept_per_project_searched_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        assert_eq!(memory.notes(a).unwrap().len(), 0);
        memory.remember(a, &note("m1", "Tests run with make\n\"check\"")).unwrap();
        memory.remember(a, &note("m2", "The make file makes make targets")).unwrap();
        memory.remember(b, &note("m3", "elsewhere")).unwrap();
        // Another process sees the same notes.
        let other = Memory::new(dir.path());
        assert_eq!(ids(&other.notes(a).unwrap()), ["m1", "m2"]);
        assert_eq!(ids(&other.search(a, "MAKE").unwrap()), ["m2", "m1"]);
        assert_eq!(ids(&other.search(a, "tests check").unwrap()), ["m1"]);
        assert_eq!(ids(&other.search(a, "elsewhere").unwrap()), [""; 0]);
        assert!(other.forget(a, "m1", "t").unwrap());
        assert!(!other.forget(a, "m1", "t").unwrap());
        assert_eq!(ids(&memory.notes(a).unwrap()), ["m2"]);
        assert_eq!(&*memory.notes(b).unwrap(), &[note("m3", "elsewhere")]);
    }

    #[test]
    fn truncated_note_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        let a = Path::new("/a");
        memory.remember(a, &note("m1", "one")).unwrap();
        let mut file = File::options().append(true).open(memory.path(a)).unwrap();
        file.write_all(b"{:id \"m2\" :te").unwrap();
        memory.remember(a, &note("m3", "three")).unwrap();
        assert_eq!(ids(&memory.notes(a).unwrap()), ["m1", "m3"]);
    }

    #[test]
    fn unkeepable_note_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        let a = Path::new("/a");
        assert!(matches!(memory.remember(a, &note("m", " \n")), Err(MemoryError::Empty)));
        let long = "x".repeat(NOTE_BYTES + 1);
        assert!(matches!(memory.remember(a, &note("m", &long)), Err(MemoryError::TooLong(_))));
        assert!(!memory.path(a).exists());
    }

    #[test]
    fn prompt_has_newest_notes_that_fit() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        let a = Path::new("/a");
        assert_eq!(memory.for_prompt(a, 1000), None);
        for (id, text) in [("m1", "first"), ("m2", "second"), ("m3", "third")] {
            memory.remember(a, &note(id, text)).unwrap();
        }
        let heading = "The user asked you to remember:";
        let all = format!("{heading}\n- first\n- second\n- third");
        assert_eq!(memory.for_prompt(a, all.len()).unwrap(), all);
        assert_eq!(memory.for_prompt(a, all.len() - 1).unwrap(), format!("{heading}\n- second\n- third"));
        assert_eq!(memory.for_prompt(a, heading.len() + 1), None);
    }
}
