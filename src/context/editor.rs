//! What the editor shows: the active file and its selection.
//!
//! Turns it into text for the model. If the editor sent only the range of
//! the selection, reads its text from the file. Does not know sessions.

use std::path::Path;

use crate::facts::editor::{Editor, cut};
use crate::limits::EDITOR_TEXT_BYTES;
use crate::tool::walk::DeniedPaths;
use crate::tool::{self, path};

impl Editor {
    /// Reads the selected text if the editor sent only the range, as far as the caller permits.
    pub fn read_selection(&mut self, cwd: &Path, may_read: &dyn Fn(&Path) -> Result<(), String>) {
        let Some(selection) = &mut self.selection else { return };
        if selection.text.is_some() || selection.start == selection.end {
            return;
        }
        let Ok(path) = path::resolve(cwd, &selection.path) else { return };
        if may_read(&path).is_err() {
            return;
        }
        let first = usize::try_from(selection.start.line).unwrap_or(usize::MAX).saturating_add(1);
        let lines = selection.end.line.saturating_sub(selection.start.line).saturating_add(1);
        let read =
            tool::read_file(&path, first, usize::try_from(lines).ok(), &DeniedPaths::default(), &|| false);
        if !read.is_error && read.images.is_empty() {
            (selection.text, selection.cut) = cut(&read.text, EDITOR_TEXT_BYTES);
        }
    }

    /// The text for the model, with about `room` bytes of the selection.
    pub fn shown(&self, room: usize) -> String {
        let mut text = "<editor>\n".to_owned();
        if !self.shows_file() {
            text.push_str("The user's editor shows no file in particular now.\n");
        }
        if let Some(file) = &self.active_file {
            let language = file.language.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
            text.push_str(&format!("The user's editor shows {}{language}.\n", file.path));
        }
        if let Some(selection) = &self.selection {
            let (start, end) = (selection.start, selection.end);
            let (from, to) = (start.line.saturating_add(1), end.line.saturating_add(1));
            if start == end {
                let column = start.column.saturating_add(1);
                text.push_str(&format!("The cursor is at {}:{from}:{column}.\n", selection.path));
            } else {
                text.push_str(&format!("The user has selected lines {from} to {to} of {}", selection.path));
                match &selection.text {
                    None => text.push_str(".\n"),
                    Some(selected) => {
                        let (kept, cut) = cut(selected, room);
                        let kept = kept.unwrap_or_default();
                        let fence = fence(&kept);
                        text.push_str(&format!(":\n{fence}\n{}\n{fence}\n", kept.trim_end_matches('\n')));
                        if cut || selection.cut {
                            text.push_str("[… the selection goes on: read the file for the rest …]\n");
                        }
                    }
                }
            }
        }
        text.push_str("</editor>\n");
        text
    }
}

/// A fence that does not occur in the text.
fn fence(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    fence
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::editor::{File, Position, Selection};

    /// Lines 3 to 5 of a file.
    fn selected(text: Option<&str>) -> Editor {
        let [start, end] = [2, 4].map(|line| Position { line, column: 0 });
        let selection = Some(Selection::new("a".to_owned(), end, start, text));
        Editor { selection, ..Editor::default() }
    }

    #[test]
    fn shown_editor_names_file_and_fences_selection() {
        let active_file = Some(File::new("a.rs".to_owned(), Some("rust")));
        let shown = Editor { active_file, ..selected(Some("a ``` b")) }.shown(1000);
        assert!(shown.contains("shows a.rs (rust).\n"), "{shown}");
        assert!(shown.contains("lines 3 to 5 of a:\n````\na ``` b\n````\n"), "{shown}");
    }

    #[test]
    fn selection_is_bounded_and_read_if_it_was_not_sent() {
        let shown = selected(Some(&"x".repeat(EDITOR_TEXT_BYTES * 2))).shown(100);
        assert!(shown.len() < 400 && shown.contains("goes on"), "{shown}");

        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "1\n2\n3\n4\n5\n6\n").unwrap();
        let mut editor = selected(None);
        let mut refused = editor.clone();
        refused.read_selection(dir.path(), &|_| Err("no".to_owned()));
        assert_eq!(refused.selection.unwrap().text, None);
        editor.read_selection(dir.path(), &|_| Ok(()));
        let text = editor.selection.unwrap().text.unwrap();
        assert!(text.contains("3\t3") && text.contains("5\t5") && !text.contains("6\t6"), "{text}");
    }
}
