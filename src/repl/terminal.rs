//! The REPL at a terminal: multi-line editing, completion, brackets, colour, history. Does not interpret
//! forms.

use std::borrow::Cow;
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use nu_ansi_term::{Color, Style};
use reedline::{
    ColumnarMenu, Completer, EditCommand, Emacs, ExternalPrinter, FileBackedHistory, Highlighter, KeyCode,
    KeyModifiers, MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, Span, StyledText, Suggestion, ValidationResult, Validator,
    default_emacs_keybindings,
};
use rustix::fs::OFlags;

use super::show::{TokenKind, stretches};
use super::{Aside, CompletionName, Outcome, Repl};
use crate::limits::REPL_HISTORY;
use crate::private;

const MENU: &str = "names";

/// Prints output above the line that is being edited.
#[derive(Clone, Default)]
pub struct Screen(ExternalPrinter<String>);

impl Screen {
    /// A handle for other threads. Output that arrives faster than it can be shown is dropped.
    pub fn aside(&self) -> Aside {
        let sender = self.0.sender();
        Arc::new(move |text: &str| {
            let _ = sender.try_send(text.to_owned());
        })
    }
}

/// Reads, evaluates and prints until the person quits.
///
/// # Errors
/// If the terminal or the history file is unusable.
pub fn run(
    mut repl: Repl,
    screen: Screen,
    names: Vec<CompletionName>,
    history: &Path,
    colours: bool,
    mut print: impl FnMut(&Outcome),
) -> std::io::Result<()> {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    keys.add_binding(
        KeyModifiers::ALT,
        KeyCode::Enter,
        ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    );
    own(history)?;
    let mut editor = Reedline::create()
        // A single match is inserted at once, and so is the common prefix of several.
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_history(Box::new(
            FileBackedHistory::with_file(REPL_HISTORY, history.to_owned()).map_err(std::io::Error::other)?,
        ))
        .with_completer(Box::new(Names(names)))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(
            ColumnarMenu::default().with_name(MENU).with_columns(1),
        )))
        .with_highlighter(Box::new(Colours))
        .with_ansi_colors(colours)
        .with_validator(Box::new(Brackets))
        .with_external_printer(screen.0.clone())
        .with_edit_mode(Box::new(Emacs::new(keys)));
    loop {
        match editor.read_line(&Sign("eql"))? {
            Signal::Success(text) => match repl.evaluate(&text) {
                Outcome::Quit => return Ok(()),
                outcome => print(&outcome),
            },
            Signal::CtrlD => return Ok(()),
            _ => {}
        }
    }
}

/// Creates the history file for this user alone, because inputs may be private.
pub(super) fn own(history: &Path) -> std::io::Result<()> {
    if let Some(folder) = history.parent() {
        private::make_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(0o600);
    let file = private::open_regular(history, options, OFlags::empty())?;
    file.set_permissions(Permissions::from_mode(0o600))
}

struct Names(Vec<CompletionName>);

impl Completer for Names {
    fn complete(&mut self, line: &str, pos: usize) -> Vec<Suggestion> {
        let before = line.get(..pos).unwrap_or_default();
        let start =
            before.rfind(|c: char| c.is_whitespace() || "[](){}\",".contains(c)).map_or(0, |at| at + 1);
        let word = before.get(start..).unwrap_or_default();
        if word.is_empty() {
            return Vec::new();
        }
        // Names that start with the word come first, then those with the word after their namespace's slash.
        let begins = self.0.iter().filter(|known| known.name.starts_with(word));
        let bare = word.trim_start_matches(':');
        let holds = self.0.iter().filter(|known| !known.name.starts_with(word) && known.name.contains(bare));
        let suggestion = |known: &CompletionName| Suggestion {
            value: known.name.clone(),
            description: Some(known.doc.clone()),
            span: Span::new(start, pos),
            append_whitespace: true,
            ..Suggestion::default()
        };
        begins.chain(holds).map(suggestion).collect()
    }
}

struct Brackets;

impl Validator for Brackets {
    fn validate(&self, line: &str) -> ValidationResult {
        if Repl::is_whole(line) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

struct Colours;

impl Highlighter for Colours {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        let matching = matching_bracket(line, cursor);
        let mut styled = StyledText::new();
        let mut at = 0usize;
        for (kind, stretch) in stretches(line) {
            let style = match kind {
                TokenKind::Keyword => Style::new().fg(Color::Cyan),
                TokenKind::Text => Style::new().fg(Color::Green),
                TokenKind::Constant => Style::new().fg(Color::Yellow),
                TokenKind::Comment => Style::new().fg(Color::DarkGray),
                TokenKind::Bracket if matching.is_some_and(|(one, other)| at == one || at == other) => {
                    Style::new().bold().reverse()
                }
                TokenKind::Bracket | TokenKind::Plain => Style::new(),
            };
            styled.push((style, stretch.to_owned()));
            at = at.saturating_add(stretch.len());
        }
        styled
    }
}

/// The bracket at or before the cursor, and its partner.
fn matching_bracket(line: &str, cursor: usize) -> Option<(usize, usize)> {
    let mut at = 0usize;
    let mut brackets = Vec::new();
    for (kind, stretch) in stretches(line) {
        if kind == TokenKind::Bracket {
            brackets.push((at, stretch));
        }
        at = at.saturating_add(stretch.len());
    }
    let mut open = Vec::new();
    for (at, bracket) in brackets {
        if matches!(bracket, "[" | "(" | "{") {
            open.push(at);
        } else if let Some(opened) = open.pop() {
            let touches = |place: usize| place == cursor || place.saturating_add(1) == cursor;
            if touches(at) || opened == cursor {
                return Some((opened, at));
            }
        }
    }
    None
}

/// What stands before a line.
pub(super) struct Sign(pub(super) &'static str);

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        self.0.into()
    }
    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }
    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }
    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "   | ".into()
    }
    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(search {:?}) ", search.term).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_in_a_query() {
        let known = |name: &str| CompletionName { name: name.to_owned(), doc: String::new() };
        let mut names = Names(vec![known(":psi.turn/text"), known(":psi.turn/phase"), known("prompt")]);
        let mut complete = |line: &str| {
            names
                .complete(line, line.len())
                .into_iter()
                .map(|found| (found.span.start, found.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(complete("[{:a [:psi.turn/p"), [(6, ":psi.turn/phase".to_owned())]);
        assert_eq!(complete("(pro"), [(1, "prompt".to_owned())]);
        assert_eq!(complete("[:phase"), [(1, ":psi.turn/phase".to_owned())]);
        assert_eq!(complete("["), []);
    }

    #[test]
    fn brackets_match_outside_strings() {
        assert_eq!(matching_bracket("[a (b)]", 0), Some((0, 6)));
        assert_eq!(matching_bracket("[a (b)]", 7), Some((0, 6)));
        assert_eq!(matching_bracket("[a \"]\" (b)]", 7), Some((7, 9)));
        assert_eq!(matching_bracket("[a", 1), None);
    }
}
