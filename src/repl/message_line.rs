//! A line of a conversation at a terminal: editing over several lines, history, completion of slash commands and of files
//! after `@`. Knows no session.

use std::path::{Path, PathBuf};

use reedline::{
    ColumnarMenu, Completer, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder as _,
    Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion, default_emacs_keybindings,
};

use super::terminal::{Sign, own};
use crate::limits::REPL_HISTORY;
use crate::visible;

const MENU: &str = "words";

/// Files that are offered after `@`.
const FILES: usize = 200;

/// A slash command, for completion.
#[derive(Debug, Clone)]
pub struct Word {
    /// Its name, without the slash.
    pub name: String,
    /// Its purpose.
    pub about: String,
}

/// Reads messages.
pub struct MessageLine(Reedline);

impl MessageLine {
    /// An editor for messages about the files of a folder.
    ///
    /// # Errors
    /// If the history file is unusable.
    pub fn new(commands: Vec<Word>, folder: PathBuf, history: &Path, colours: bool) -> std::io::Result<Self> {
        let mut keys = default_emacs_keybindings();
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        keys.add_binding(
            KeyModifiers::ALT,
            KeyCode::Enter,
            ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
        );
        own(history)?;
        let history = FileBackedHistory::with_file(REPL_HISTORY, history.to_owned());
        let editor = Reedline::create()
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_history(Box::new(history.map_err(std::io::Error::other)?))
            .with_completer(Box::new(Words { commands, folder }))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(
                ColumnarMenu::default().with_name(MENU).with_columns(1),
            )))
            .use_bracketed_paste(true)
            .with_ansi_colors(colours)
            .with_edit_mode(Box::new(Emacs::new(keys)));
        Ok(Self(editor))
    }

    /// Begins the next message with a text, which can be edited.
    pub fn begin(&mut self, text: String) {
        if !text.is_empty() {
            self.0.run_edit_commands(&[EditCommand::InsertString(text)]);
        }
    }

    /// The next message; `None` at the end of the input.
    ///
    /// # Errors
    /// If the terminal is unusable.
    pub fn read(&mut self) -> std::io::Result<Option<String>> {
        loop {
            match self.0.read_line(&Sign("you"))? {
                Signal::Success(text) => return Ok(Some(text)),
                Signal::CtrlD => return Ok(None),
                // C-c empties the line.
                _ => {}
            }
        }
    }
}

struct Words {
    commands: Vec<Word>,
    folder: PathBuf,
}

impl Completer for Words {
    fn complete(&mut self, line: &str, pos: usize) -> Vec<Suggestion> {
        let before = line.get(..pos).unwrap_or_default();
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at.saturating_add(1));
        let word = before.get(start..).unwrap_or_default();
        let suggestion = |value: String, about: Option<String>, goes_on: bool| Suggestion {
            value,
            description: about,
            span: Span::new(start, pos),
            append_whitespace: !goes_on,
            ..Suggestion::default()
        };
        if let Some(name) = word.strip_prefix('/').filter(|_| start == 0) {
            let fitting = self.commands.iter().filter(|command| command.name.starts_with(name));
            return fitting
                .map(|command| {
                    let about = visible::line(&command.about).into_owned();
                    suggestion(format!("/{}", command.name), Some(about), false)
                })
                .collect();
        }
        let Some(path) = word.strip_prefix('@') else { return Vec::new() };
        files(&self.folder, path)
            .into_iter()
            .map(|(path, is_folder)| suggestion(format!("@{path}"), None, is_folder))
            .collect()
    }
}

/// The files and folders whose path below the folder begins so, folders with a slash. None outside of it.
fn files(folder: &Path, beginning: &str) -> Vec<(String, bool)> {
    let (above, name) = beginning.rsplit_once('/').map_or(("", beginning), |(above, name)| (above, name));
    if Path::new(beginning).is_absolute() || above.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder.join(above)).into_iter().flatten().flatten();
    let mut found: Vec<(String, bool)> = entries
        .filter_map(|entry| {
            let is_folder = entry.file_type().ok()?.is_dir();
            let file = entry.file_name().into_string().ok()?;
            // What cannot be seen or cannot be typed as one word is not offered.
            let is_plain = visible::line(&file) == file && !file.contains(char::is_whitespace);
            let is_meant = file.starts_with(name) && (!file.starts_with('.') || name.starts_with('.'));
            (is_plain && is_meant).then(|| {
                let slash = if is_folder { "/" } else { "" };
                let path = if above.is_empty() { file } else { format!("{above}/{file}") };
                (format!("{path}{slash}"), is_folder)
            })
        })
        .take(FILES)
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_are_completed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        for file in ["src/main.rs", "src/map.rs", "README.md", ".hidden", "two words"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let word = |name: &str| Word { name: name.to_owned(), about: String::new() };
        let mut words = Words { commands: vec![word("help"), word("model")], folder: dir.path().to_owned() };
        let mut complete = |line: &str| -> Vec<String> {
            words.complete(line, line.len()).into_iter().map(|found| found.value).collect()
        };
        assert_eq!(complete("/he"), ["/help"]);
        assert_eq!(complete("say /he"), Vec::<String>::new());
        assert_eq!(complete("look at @"), ["@README.md", "@src/"]);
        assert_eq!(complete("@src/ma"), ["@src/main.rs", "@src/map.rs"]);
        assert_eq!(complete("@.h"), ["@.hidden"]);
        assert_eq!(complete("@../"), Vec::<String>::new());
        assert_eq!(complete("@/etc/"), Vec::<String>::new());
    }
}
