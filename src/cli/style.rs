//! Colours on a terminal: whether a stream gets them, and which meaning has which colour. Knows no command.

use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

use edn_bridge::visible;
use nu_ansi_term::{Color, Style};

/// When a stream gets colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

static WHEN: OnceLock<ColorWhen> = OnceLock::new();

/// Sets what the command line says. The first call counts.
pub(super) fn choose(when: ColorWhen) {
    let _ = WHEN.set(when);
}

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A heading.
    Heading,
    /// It is as it should be.
    Well,
    /// Something to look at.
    Note,
    /// It does not work.
    Bad,
    /// An identifier.
    Name,
    /// Of less interest.
    Faint,
}

/// A stream that people may read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Painter {
    is_terminal: bool,
    has_colours: bool,
}

impl Painter {
    /// That of standard output.
    pub(super) fn stdout() -> Self {
        Self::of(std::io::stdout().is_terminal())
    }

    /// That of standard error.
    pub(super) fn stderr() -> Self {
        Self::of(std::io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let has_colours = match WHEN.get().copied().unwrap_or_default() {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb,
        };
        Self { is_terminal, has_colours }
    }

    /// One that changes nothing.
    #[cfg(test)]
    pub(super) const fn bare() -> Self {
        Self { is_terminal: false, has_colours: false }
    }

    /// One that colours everything.
    #[cfg(test)]
    pub(super) const fn coloured() -> Self {
        Self { is_terminal: false, has_colours: true }
    }

    /// Whether it gets colours.
    pub(super) const fn has_colours(self) -> bool {
        self.has_colours
    }

    /// Whether a person reads it, on a terminal that can move its cursor.
    pub(super) fn is_live(self) -> bool {
        self.is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// A text in the colour of its meaning; hidden characters become codes on a terminal, as everywhere.
    pub(super) fn paint(self, meaning: Meaning, text: &str) -> String {
        let text = self.plain(text);
        if !self.has_colours || text.is_empty() {
            return text.into_owned();
        }
        let style = match meaning {
            Meaning::Heading => Style::new().bold(),
            Meaning::Well => Color::Green.normal(),
            Meaning::Note => Color::Yellow.normal(),
            Meaning::Bad => Color::Red.bold(),
            Meaning::Name => Color::Cyan.normal(),
            Meaning::Faint => Style::new().dimmed(),
        };
        style.paint(text).to_string()
    }

    /// A text that must stay in its row on a terminal.
    pub(super) fn plain(self, text: &str) -> Cow<'_, str> {
        if self.is_terminal { visible::line(text) } else { Cow::Borrowed(text) }
    }
}

/// The columns of standard output; `None` if it is no terminal.
pub(super) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
