//! What an editor shows: the active file and its selection, as bounded plain data. Reads no file.

use crate::limits::{EDITOR_PATH_BYTES, EDITOR_TEXT_BYTES};
use crate::value::{Map, Value};

/// Characters of an editor's name for a language.
const LANGUAGE: usize = 100;

/// What the editor shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Editor {
    /// The folder of the editor's buffer.
    pub cwd: Option<String>,
    /// The editor's root folder of the project.
    pub workspace_root: Option<String>,
    /// The active file.
    pub active_file: Option<File>,
    /// The selection.
    pub selection: Option<Selection>,
}

/// A file in the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: String,
    /// The editor's name for the language, on one line.
    pub language: Option<String>,
}

/// A selected part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The file's path.
    pub path: String,
    /// The start, from 0.
    pub start: Position,
    /// The end, from 0, exclusive.
    pub end: Position,
    /// The text, if the editor sent it, at most [`EDITOR_TEXT_BYTES`].
    pub text: Option<String>,
    /// Whether the text is truncated.
    pub cut: bool,
}

/// A position in a file, from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl File {
    /// A file with that path.
    pub fn new(path: String, language: Option<&str>) -> Self {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { path, language: language.map(|text| line(text).chars().take(LANGUAGE).collect()) }
    }
}

impl Selection {
    /// The part between two positions. A backward selection equals the forward one.
    pub fn new(path: String, one: Position, other: Position, text: Option<&str>) -> Self {
        let (text, cut) = text.map_or((None, false), |text| cut(text, EDITOR_TEXT_BYTES));
        Self { path, start: one.min(other), end: one.max(other), text, cut }
    }
}

impl Editor {
    /// Whether nothing is known of it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it shows a file, so that there is something to tell the model. Folders alone are nothing.
    pub fn shows_file(&self) -> bool {
        self.active_file.is_some() || self.selection.is_some()
    }

    /// The value for clients and the journal.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put_some("cwd", self.cwd.clone());
        map.put_some("workspace-root", self.workspace_root.clone());
        if let Some(file) = &self.active_file {
            let mut active = Map::new();
            active.put("path", file.path.clone());
            active.put_some("language-id", file.language.clone());
            map.put("active-file", Value::from(active));
        }
        if let Some(selection) = &self.selection {
            let place = |position: Position| {
                let mut map = Map::new();
                map.put("line", Value::int(i64::from(position.line)));
                map.put("column", Value::int(i64::from(position.column)));
                Value::from(map)
            };
            let range = Map::new().with("start", place(selection.start)).with("end", place(selection.end));
            let mut selected = Map::new();
            selected.put("path", selection.path.clone());
            selected.put("range", Value::from(range));
            selected.put_some("selected-text", selection.text.clone());
            if selection.cut {
                selected.put("cut", true);
            }
            map.put("selection", Value::from(selected));
        }
        Value::from(map)
    }
}

/// Whether a text can be the path of a file in an editor.
pub fn is_path(text: &str) -> bool {
    !text.is_empty() && text.len() <= EDITOR_PATH_BYTES && !text.contains(['\0', '\n'])
}

/// The start of a text, and whether it was truncated.
pub fn cut(text: &str, most: usize) -> (Option<String>, bool) {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (text.get(..end).map(str::to_owned), end < text.len())
}
