//! The changes of files that can be undone or redone: entries in, files out. Pure.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::limits::UNDO_TURNS;
use crate::message::{Message, SessionId, TurnId};
use crate::store::record::{FileChange, FilesEvent, FilesRecord};
use crate::store::{Entry, EntryBody};
use crate::tool::undo::{Action, Exchange, Exchanged};

/// A turn's change of a file, as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Changed {
    change: FileChange,
    /// What the turn may have left: two texts if it was cut off in the change, and none if somebody else changed the file
    /// between two edits of the turn.
    left: Vec<Option<String>>,
}

/// A turn that changed files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TurnFiles {
    turn: TurnId,
    files: Vec<Changed>,
}

/// The turns that changed files.
#[derive(Debug, Clone, Default)]
pub struct UndoHistory {
    done: VecDeque<TurnFiles>,
    undone: VecDeque<TurnFiles>,
    /// Changes whose calls have no result yet.
    begun: Vec<FilesRecord>,
}

impl UndoHistory {
    /// Takes in an entry of the journal of `session`. A fork does not undo what its source did.
    pub fn apply(&mut self, entry: &Entry, session: &SessionId) {
        let record = match &entry.body {
            EntryBody::Files(record) if record.session_id == *session => record,
            EntryBody::Message(message) => return self.end(message),
            _ => return,
        };
        match record.event {
            FilesEvent::Changing => {
                if self.begun.first().is_some_and(|begun| begun.turn_id != record.turn_id) {
                    self.cut_off();
                }
                // A call tries again where somebody else was faster.
                self.begun.retain(|begun| begun.call_id != record.call_id || !same_files(begun, record));
                self.begun.push(FilesRecord::clone(record));
            }
            FilesEvent::Changed | FilesEvent::Unchanged | FilesEvent::Unknown => {
                self.begun.retain(|begun| begun.call_id != record.call_id);
                if record.event != FilesEvent::Unchanged {
                    self.add(record, record.event == FilesEvent::Unknown);
                }
            }
            FilesEvent::Undone => {
                self.cut_off();
                shift(&mut self.done, &mut self.undone, record);
            }
            FilesEvent::Redone => {
                self.cut_off();
                shift(&mut self.undone, &mut self.done, record);
            }
        }
    }

    /// A call has a result: it changed its file, or failed and did not.
    fn end(&mut self, message: &Message) {
        let Some(call) = &message.tool_call_id else { return };
        let is_of = |begun: &FilesRecord| {
            begun.call_id.as_ref() == Some(call) && Some(&begun.turn_id) == message.turn_id.as_ref()
        };
        let Some(place) = self.begun.iter().position(is_of) else { return };
        let record = self.begun.remove(place);
        if message.is_error != Some(true) {
            self.add(&record, false);
        }
    }

    /// No turn runs any more: calls without a result may have changed their files.
    fn cut_off(&mut self) {
        for record in std::mem::take(&mut self.begun) {
            self.add(&record, true);
        }
    }

    fn add(&mut self, record: &FilesRecord, is_cut_off: bool) {
        // What was undone before has no place behind this.
        self.undone.clear();
        if self.done.back().is_none_or(|turn| turn.turn != record.turn_id) {
            self.done.push_back(TurnFiles { turn: record.turn_id.clone(), files: Vec::new() });
            if self.done.len() > UNDO_TURNS {
                self.done.pop_front();
            }
        }
        let Some(turn) = self.done.back_mut() else { return };
        for change in &record.files {
            let mut left = vec![change.after.clone()];
            if is_cut_off {
                left.push(change.before.clone());
            }
            match turn.files.iter_mut().find(|known| known.change.path == change.path) {
                Some(known) => {
                    known.left = if known.left.contains(&change.before) { left } else { Vec::new() };
                    known.change.after = change.after.clone();
                }
                None => turn.files.push(Changed { change: change.clone(), left }),
            }
        }
        turn.files.retain(|known| known.left != [known.change.before.clone()]);
        if turn.files.is_empty() {
            self.done.pop_back();
        }
    }

    /// The turn that is undone next, or redone, and what that does to its files. No turn may run.
    pub fn next(&mut self, undoes: bool) -> Option<(TurnId, Vec<Exchange>)> {
        self.cut_off();
        let turn = if undoes { self.done.back() } else { self.undone.back() }?;
        let exchange = |changed: &Changed| {
            let FileChange { path, before, after, mode } = changed.change.clone();
            let (from, to) = if undoes { (changed.left.clone(), before) } else { (vec![before], after) };
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
            call_id: None,
            event: if undoes { FilesEvent::Undone } else { FilesEvent::Redone },
            files: turn.files.iter().filter_map(as_done).collect(),
        })
    }
}

/// Whether two records are of the same files.
fn same_files(one: &FilesRecord, other: &FilesRecord) -> bool {
    one.files.iter().map(|file| &file.path).eq(other.files.iter().map(|file| &file.path))
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

    fn take(changes: &mut UndoHistory, body: EntryBody) {
        changes
            .apply(&Entry { id: "e".into(), parent: None, ts: "".into(), request: None, body }, &"s".into());
    }

    fn apply(changes: &mut UndoHistory, turn: &str, event: FilesEvent, files: Vec<FileChange>) {
        let call_id = (event == FilesEvent::Changing).then(|| "c".into());
        let record = FilesRecord { session_id: "s".into(), turn_id: turn.into(), call_id, event, files };
        take(changes, EntryBody::Files(Box::new(record)));
    }

    /// A call that changes files, with its result.
    fn call(changes: &mut UndoHistory, turn: &str, files: Vec<FileChange>, is_error: bool) {
        apply(changes, turn, FilesEvent::Changing, files);
        let mut message = Message::new("m".into(), crate::message::Role::Tool, Vec::new(), "".into());
        message.turn_id = Some(turn.into());
        message.tool_call_id = Some("c".into());
        message.is_error = Some(is_error);
        take(changes, EntryBody::Message(std::sync::Arc::new(message)));
    }

    /// The next turn, with its files as `path from>to`.
    fn next(changes: &mut UndoHistory, undoes: bool) -> String {
        let Some((turn, files)) = changes.next(undoes) else { return String::new() };
        let files = files.iter().map(|file| {
            let from: Vec<&str> = file.from.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
            let from = if from.is_empty() { "?".to_owned() } else { from.join("|") };
            format!(" {} {from}>{}", file.path.display(), file.to.clone().unwrap_or_default())
        });
        files.fold(turn.to_string(), |all, file| all + &file)
    }

    #[test]
    fn turns_are_undone_and_redone_in_order() {
        let mut changes = UndoHistory::default();
        assert_eq!(next(&mut changes, true), "");
        call(&mut changes, "1", vec![change("a", "", "x")], false);
        call(&mut changes, "2", vec![change("a", "x", "y"), change("b", "m", "n")], false);
        call(&mut changes, "2", vec![change("a", "y", "z")], false);
        assert_eq!(next(&mut changes, true), "2 a z>x b n>m");
        assert_eq!(next(&mut changes, false), "");
        // The other file was left alone.
        apply(&mut changes, "2", FilesEvent::Undone, vec![change("a", "x", "z")]);
        assert_eq!(
            (next(&mut changes, true), next(&mut changes, false)),
            ("1 a x>".to_owned(), "2 a x>z".to_owned())
        );
        apply(&mut changes, "2", FilesEvent::Redone, vec![change("a", "x", "z")]);
        assert_eq!(
            (next(&mut changes, true), next(&mut changes, false)),
            ("2 a z>x".to_owned(), String::new())
        );
        apply(&mut changes, "2", FilesEvent::Undone, vec![change("a", "x", "z")]);
        call(&mut changes, "3", vec![change("c", "", "k")], false);
        assert_eq!(
            (next(&mut changes, true), next(&mut changes, false)),
            ("3 c k>".to_owned(), String::new())
        );
    }

    #[test]
    fn change_of_somebody_else_in_a_turn_is_seen() {
        let mut changes = UndoHistory::default();
        call(&mut changes, "1", vec![change("a", "x", "y")], false);
        call(&mut changes, "1", vec![change("a", "theirs", "z")], false);
        assert_eq!(next(&mut changes, true), "1 a ?>x");
    }

    #[test]
    fn change_that_was_taken_back_is_none() {
        let mut changes = UndoHistory::default();
        call(&mut changes, "1", vec![change("a", "x", "y")], false);
        call(&mut changes, "1", vec![change("a", "y", "x")], false);
        assert_eq!(next(&mut changes, true), "");
    }

    #[test]
    fn failed_call_changed_nothing() {
        let mut changes = UndoHistory::default();
        call(&mut changes, "1", vec![change("a", "x", "y")], true);
        assert_eq!(next(&mut changes, true), "");
    }

    #[test]
    fn call_without_result_may_have_changed_its_file() {
        let mut changes = UndoHistory::default();
        call(&mut changes, "1", vec![change("a", "x", "y")], false);
        // It tried again, since somebody else was faster.
        apply(&mut changes, "1", FilesEvent::Changing, vec![change("b", "m", "n")]);
        apply(&mut changes, "1", FilesEvent::Changing, vec![change("b", "k", "n")]);
        assert_eq!(next(&mut changes.clone(), true), "1 a y>x b n|k>k");
        apply(&mut changes, "2", FilesEvent::Changing, vec![change("a", "y", "z")]);
        assert_eq!(next(&mut changes, true), "2 a z|y>y");
        apply(&mut changes, "2", FilesEvent::Undone, vec![change("a", "y", "z")]);
        assert_eq!(
            (next(&mut changes, true), next(&mut changes, false)),
            ("1 a y>x b n|k>k".to_owned(), "2 a y>z".to_owned())
        );
    }

    #[test]
    fn call_without_a_message_is_ended_by_a_record() {
        let mut changes = UndoHistory::default();
        for (event, expected) in [
            (FilesEvent::Changed, "1 a y>x"),
            (FilesEvent::Unchanged, ""),
            (FilesEvent::Unknown, "1 a y|x>x"),
        ] {
            apply(&mut changes, "1", FilesEvent::Changing, vec![change("a", "x", "y")]);
            let record = FilesRecord {
                session_id: "s".into(),
                turn_id: "1".into(),
                call_id: Some("c".into()),
                event,
                files: vec![change("a", "x", "y")],
            };
            let mut ended = std::mem::take(&mut changes);
            take(&mut ended, EntryBody::Files(Box::new(record)));
            assert_eq!(next(&mut ended, true), expected, "{event:?}");
        }
    }
}
