//! What the editor shows: the active file and its selection.
//!
//! Checks and bounds plain data, and turns them into text for the model. If the editor sent only the range of
//! the selection, reads its text from the file. Does not know sessions.

use std::path::Path;

use crate::limits::{EDITOR_PATH_BYTES, EDITOR_TEXT_BYTES};
use crate::tool::walk::Barred;
use crate::tool::{self, path};
use crate::value::{Map, Value};

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
    /// The editor's name for the language.
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

/// An invalid param, and its expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// The key of the params.
    pub key: &'static str,
    /// The expected value.
    pub expected: &'static str,
}

const RANGE: &str = "{:path string :range {:start {:line n :column n} :end {:line n :column n}}}";

impl Editor {
    /// Reads the params of `context_update`. Ignores unknown keys.
    ///
    /// # Errors
    /// The first param with the wrong shape.
    pub fn from_params(params: &Map<'_>) -> Result<Self, Wrong> {
        let folder = |key: &'static str| match present(params.get_keyword(key)) {
            None => Ok(None),
            Some(value) => match path_text(Some(value)) {
                Some(text) => Ok(Some(text)),
                None => Err(Wrong { key, expected: "the path of a folder" }),
            },
        };
        let file = |value: &Value<'_>| {
            let language = present(value.get("language-id"));
            Some(File {
                path: path_text(value.get("path"))?,
                language: match language {
                    None => None,
                    Some(language) => Some(tool::one_line(language.as_str()?, 100)),
                },
            })
        };
        let active_file = match present(params.get_keyword("active-file")) {
            None => None,
            Some(value) => Some(
                file(value)
                    .ok_or(Wrong { key: "active-file", expected: "{:path string :language-id string?}" })?,
            ),
        };
        let selection = match present(params.get_keyword("selection")) {
            None => None,
            Some(value) => Some(selection(value).ok_or(Wrong { key: "selection", expected: RANGE })?),
        };
        Ok(Self { cwd: folder("cwd")?, workspace_root: folder("workspace-root")?, active_file, selection })
    }

    /// Whether there is nothing to tell the model.
    pub fn is_empty(&self) -> bool {
        self.active_file.is_none() && self.selection.is_none()
    }

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
        let read = tool::read_file(&path, first, usize::try_from(lines).ok(), &Barred::default(), &|| false);
        if !read.is_error && read.images.is_empty() {
            (selection.text, selection.cut) = cut(&read.text, EDITOR_TEXT_BYTES);
        }
    }

    /// The text for the model, with about `room` bytes of the selection.
    pub fn shown(&self, room: usize) -> String {
        let mut text = "<editor>\n".to_owned();
        if self.is_empty() {
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

    /// The value in the shape of `context_update`.
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

fn present<'v, 'a>(value: Option<&'v Value<'a>>) -> Option<&'v Value<'a>> {
    value.filter(|value| !matches!(value, Value::Nil))
}

fn path_text(value: Option<&Value<'_>>) -> Option<String> {
    let text = value?.as_str()?;
    let fits = !text.is_empty() && text.len() <= EDITOR_PATH_BYTES && !text.contains(['\0', '\n']);
    fits.then(|| text.to_owned())
}

fn selection(value: &Value<'_>) -> Option<Selection> {
    let count = |value: &Value<'_>, key| value.get(key).and_then(Value::as_i64)?.try_into().ok();
    let place = |key: &str| {
        let place = value.get("range")?.get(key)?;
        Some(Position { line: count(place, "line")?, column: count(place, "column")? })
    };
    let (one, other) = (place("start")?, place("end")?);
    let (text, cut) = match present(value.get("selected-text")) {
        None => (None, false),
        Some(text) => cut(text.as_str()?, EDITOR_TEXT_BYTES),
    };
    // A backward selection equals the forward one.
    let (start, end) = (one.min(other), one.max(other));
    Some(Selection { path: path_text(value.get("path"))?, start, end, text, cut })
}

/// The start of a text, and whether it was truncated.
fn cut(text: &str, most: usize) -> (Option<String>, bool) {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (text.get(..end).map(str::to_owned), end < text.len())
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
    use crate::edn;

    fn read(text: &str) -> Result<Editor, Wrong> {
        let value = edn::read_one(text.as_bytes()).unwrap().into_owned();
        Editor::from_params(value.as_map().unwrap())
    }

    const RANGE: &str = ":range {:start {:line 4 :column 0} :end {:line 2 :column 0}}";

    #[test]
    fn what_the_editor_says_is_checked_and_told() {
        let editor = read(&format!(
            "{{:cwd \"/w\" :active-file {{:path \"a.rs\" :language-id \"rust\"}} :extensions {{:x 1}}
              :selection {{:path \"a.rs\" {RANGE} :selected-text \"a ``` b\"}}}}"
        ))
        .unwrap();
        let shown = editor.shown(1000);
        assert!(shown.contains("shows a.rs (rust).\n"), "{shown}");
        assert!(shown.contains("lines 3 to 5 of a.rs:\n````\na ``` b\n````\n"), "{shown}");
        assert_eq!(Editor::from_params(editor.to_value().as_map().unwrap()), Ok(editor));
        assert!(read("{}").unwrap().is_empty());
        assert!(read("{:active-file nil :selection nil}").unwrap().is_empty());
    }

    #[test]
    fn what_has_another_shape_is_named() {
        for (text, key) in [
            ("{:cwd 7}", "cwd"),
            ("{:workspace-root \"\"}", "workspace-root"),
            ("{:active-file {}}", "active-file"),
            ("{:active-file {:path \"a\\nb\"}}", "active-file"),
            ("{:selection {:path \"a\"}}", "selection"),
            (
                "{:selection {:path \"a\" :range {:start {:line -1 :column 0} :end {:line 1 :column 0}}}}",
                "selection",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().key, key, "{text}");
        }
    }

    #[test]
    fn what_is_selected_is_bounded_and_read_where_it_was_not_sent() {
        let long = "x".repeat(EDITOR_TEXT_BYTES * 2);
        let editor =
            read(&format!("{{:selection {{:path \"a\" {RANGE} :selected-text {long:?}}}}}")).unwrap();
        assert!(editor.selection.as_ref().unwrap().cut);
        let shown = editor.shown(100);
        assert!(shown.len() < 400 && shown.contains("goes on"), "{shown}");

        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "1\n2\n3\n4\n5\n6\n").unwrap();
        let mut editor = read(&format!("{{:selection {{:path \"a\" {RANGE}}}}}")).unwrap();
        let mut refused = editor.clone();
        refused.read_selection(dir.path(), &|_| Err("no".to_owned()));
        assert_eq!(refused.selection.unwrap().text, None);
        editor.read_selection(dir.path(), &|_| Ok(()));
        let text = editor.selection.unwrap().text.unwrap();
        assert!(text.contains("3\t3") && text.contains("5\t5") && !text.contains("6\t6"), "{text}");
    }
}
