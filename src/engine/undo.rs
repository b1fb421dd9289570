//! The changes of files that can be undone or redone: entries in, files out. Pure.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::limits::UNDO_TURNS;
use crate::message::{SessionId, TurnId};
use crate::store::record::{FileChange, FilesEvent, FilesRecord};
use crate::store::{Entry, EntryBody};
use crate::tool::undo::{Action, Exchange, Exchanged, Mixed};

/// A turn's change of a file, as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Changed {
    change: FileChange,
    /// Whether somebody else changed it between two edits of the turn.
    is_mixed: bool,
}

/// A turn that changed files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TurnFiles {
    turn: TurnId,
    files: Vec<Changed>,
}

/// The turns that changed files.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    done: VecDeque<TurnFiles>,
    undone: VecDeque<TurnFiles>,
}

impl Changes {
    /// Takes in an entry of the journal of `session`. A fork does not undo what its source did.
    pub fn apply(&mut self, entry: &Entry, session: &SessionId) {
        let EntryBody::Files(record) = &entry.body else { return };
        if record.session_id != *session {
            return;
        }
        match record.event {
            FilesEvent::Changed => {
                // What was undone before has no place behind this.
                self.undone.clear();
                self.add(record);
            }
            FilesEvent::Undone => shift(&mut self.done, &mut self.undone, record),
            FilesEvent::Redone => shift(&mut self.undone, &mut self.done, record),
        }
    }

    fn add(&mut self, record: &FilesRecord) {
        if self.done.back().is_none_or(|turn| turn.turn != record.turn_id) {
            self.done.push_back(TurnFiles { turn: record.turn_id.clone(), files: Vec::new() });
            if self.done.len() > UNDO_TURNS {
                self.done.pop_front();
            }
        }
        let Some(turn) = self.done.back_mut() else { return };
        for change in &record.files {
            match turn.files.iter_mut().find(|known| known.change.path == change.path) {
                Some(known) => {
                    known.is_mixed |= known.change.after != change.before;
                    known.change.after = change.after.clone();
                }
                None => turn.files.push(Changed { change: change.clone(), is_mixed: false }),
            }
        }
        turn.files.retain(|known| known.is_mixed || known.change.before != known.change.after);
        if turn.files.is_empty() {
            self.done.pop_back();
        }
    }

    /// The turn that is undone next, or redone, and what that does to its files.
    pub fn next(&self, undoes: bool) -> Option<(TurnId, Vec<Exchange>)> {
        let turn = if undoes { self.done.back() } else { self.undone.back() }?;
        let exchange = |changed: &Changed| {
            let FileChange { path, before, after, mode } = changed.change.clone();
            let (from, to) = if undoes { (after, before) } else { (before, after) };
            let from = if changed.is_mixed { Err(Mixed) } else { Ok(from) };
            Exchange { path: PathBuf::from(path), from, to, mode }
        };
        Some((turn.turn.clone(), turn.files.iter().map(exchange).collect()))
    }

    /// The record of a turn of which some files were undone or redone.
    pub fn record(&self, session: &SessionId, undoes: bool, done: &[Exchanged]) -> Option<FilesRecord> {
        let turn = if undoes { self.done.back() } else { self.undone.back() }?;
        let as_done = |changed: &Changed| {
            let path = changed.change.path.as_str();
            let file = done.iter().find(|file| file.path.as_os_str() == path)?;
            let is_done = file.action != Action::Skipped;
            is_done.then(|| FileChange { mode: file.mode, ..changed.change.clone() })
        };
        Some(FilesRecord {
            session_id: session.clone(),
            turn_id: turn.turn.clone(),
            event: if undoes { FilesEvent::Undone } else { FilesEvent::Redone },
            files: turn.files.iter().filter_map(as_done).collect(),
        })
    }
}

/// Moves the files of a record from the newest turn here to there. The others of the turn were left alone, and are no
/// longer known.
fn shift(from: &mut VecDeque<TurnFiles>, to: &mut VecDeque<TurnFiles>, record: &FilesRecord) {
    if from.back().is_none_or(|turn| turn.turn != record.turn_id) {
        return;
    }
    let Some(mut turn) = from.pop_back() else { return };
    turn.files.retain_mut(|known| {
        let done = record.files.iter().find(|done| done.path == known.change.path);
        known.change.mode = done.and_then(|done| done.mode);
        done.is_some()
    });
    if !turn.files.is_empty() {
        to.push_back(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, before: &str, after: &str) -> FileChange {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        FileChange { path: path.to_owned(), before: text(before), after: text(after), mode: None }
    }

    fn apply(changes: &mut Changes, turn: &str, event: FilesEvent, files: Vec<FileChange>) {
        let record = FilesRecord { session_id: "s".into(), turn_id: turn.into(), event, files };
        let body = EntryBody::Files(Box::new(record));
        changes
            .apply(&Entry { id: "e".into(), parent: None, ts: "".into(), request: None, body }, &"s".into());
    }

    /// The next turn, with its files as `path from>to`.
    fn next(changes: &Changes, undoes: bool) -> String {
        let Some((turn, files)) = changes.next(undoes) else { return String::new() };
        let files = files.iter().map(|file| {
            let from = file.from.clone().map_or("?".to_owned(), Option::unwrap_or_default);
            format!(" {} {from}>{}", file.path.display(), file.to.clone().unwrap_or_default())
        });
        files.fold(turn.to_string(), |all, file| all + &file)
    }

    #[test]
    fn turns_are_undone_and_redone_in_order() {
        let mut changes = Changes::default();
        assert_eq!(next(&changes, true), "");
        apply(&mut changes, "1", FilesEvent::Changed, vec![change("a", "", "x")]);
        apply(&mut changes, "2", FilesEvent::Changed, vec![change("a", "x", "y"), change("b", "m", "n")]);
        apply(&mut changes, "2", FilesEvent::Changed, vec![change("a", "y", "z")]);
        assert_eq!(next(&changes, true), "2 a z>x b n>m");
        assert_eq!(next(&changes, false), "");
        // The other file was left alone.
        apply(&mut changes, "2", FilesEvent::Undone, vec![change("a", "x", "z")]);
        assert_eq!(
            (next(&changes, true), next(&changes, false)),
            ("1 a x>".to_owned(), "2 a x>z".to_owned())
        );
        apply(&mut changes, "2", FilesEvent::Redone, vec![change("a", "x", "z")]);
        assert_eq!((next(&changes, true), next(&changes, false)), ("2 a z>x".to_owned(), String::new()));
        apply(&mut changes, "2", FilesEvent::Undone, vec![change("a", "x", "z")]);
        apply(&mut changes, "3", FilesEvent::Changed, vec![change("c", "", "k")]);
        assert_eq!((next(&changes, true), next(&changes, false)), ("3 c k>".to_owned(), String::new()));
    }

    #[test]
    fn change_of_somebody_else_in_a_turn_is_seen() {
        let mut changes = Changes::default();
        apply(&mut changes, "1", FilesEvent::Changed, vec![change("a", "x", "y")]);
        apply(&mut changes, "1", FilesEvent::Changed, vec![change("a", "theirs", "z")]);
        assert_eq!(next(&changes, true), "1 a ?>x");
    }

    #[test]
    fn change_that_was_taken_back_is_none() {
        let mut changes = Changes::default();
        apply(&mut changes, "1", FilesEvent::Changed, vec![change("a", "x", "y")]);
        apply(&mut changes, "1", FilesEvent::Changed, vec![change("a", "y", "x")]);
        assert_eq!(next(&changes, true), "");
    }
}
