//! Markdown for a terminal while it streams: the marks of headings, emphasis, code and quotes become colours. What is
//! no mark is shown at once; a line that begins like one is held until it is whole. Knows no events.

use crate::cli::style::{Meaning, Painter};

/// The state of a text that streams.
pub(super) struct Markdown {
    painter: Painter,
    /// The beginning of a line that is held.
    held: Option<String>,
    in_fence: bool,
    is_code: bool,
    is_bold: bool,
    /// One `*` came, and the next character decides.
    has_star: bool,
}

impl Markdown {
    pub(super) fn new(painter: Painter) -> Self {
        Self {
            painter,
            held: Some(String::new()),
            in_fence: false,
            is_code: false,
            is_bold: false,
            has_star: false,
        }
    }

    /// Takes more text; returns what can be shown.
    pub(super) fn push(&mut self, text: &str) -> String {
        let (mut out, mut run) = (String::new(), String::new());
        // A painted line shows hidden characters as codes, tabs with them.
        for c in text.replace('\t', "    ").chars() {
            match &mut self.held {
                Some(held) if c == '\n' => {
                    let line = std::mem::take(held);
                    out.push_str(&self.line(&line));
                    out.push('\n');
                }
                Some(held) => {
                    held.push(c);
                    if !may_be_block(held, self.in_fence) {
                        let held = self.held.take().unwrap_or_default();
                        held.chars().for_each(|c| self.inline(c, &mut run, &mut out));
                    }
                }
                None if c == '\n' => {
                    self.end_line(&mut run, &mut out);
                    out.push('\n');
                }
                None => self.inline(c, &mut run, &mut out),
            }
        }
        self.flush(&mut run, &mut out);
        out
    }

    /// What is held, at the end of the text.
    pub(super) fn end(&mut self) -> String {
        let mut out = String::new();
        if let Some(held) = self.held.take().filter(|held| !held.is_empty()) {
            out = self.line(&held);
        }
        let mut run = String::new();
        self.end_line(&mut run, &mut out);
        self.in_fence = false;
        out
    }

    /// A line that was held to its end.
    fn line(&mut self, line: &str) -> String {
        let bare = line.trim_start();
        if bare.starts_with("```") {
            self.in_fence = !self.in_fence;
            return self.painter.paint(Meaning::Faint, line);
        }
        if self.in_fence {
            return self.painter.paint(Meaning::Name, line);
        }
        if bare.starts_with('#') {
            return self.painter.paint(Meaning::Heading, line);
        }
        if bare.starts_with('>') || bare.starts_with('|') {
            return self.painter.paint(Meaning::Faint, line);
        }
        let (mut out, mut run) = (String::new(), String::new());
        line.chars().for_each(|c| self.inline(c, &mut run, &mut out));
        self.end_line(&mut run, &mut out);
        self.held = Some(String::new());
        out
    }

    fn end_line(&mut self, run: &mut String, out: &mut String) {
        if std::mem::take(&mut self.has_star) {
            run.push('*');
        }
        self.flush(run, out);
        (self.is_code, self.is_bold) = (false, false);
        self.held = Some(String::new());
    }

    fn inline(&mut self, c: char, run: &mut String, out: &mut String) {
        if self.in_fence {
            return run.push(c);
        }
        if std::mem::take(&mut self.has_star) {
            if c == '*' {
                self.flush(run, out);
                self.is_bold = !self.is_bold;
                return;
            }
            run.push('*');
        }
        match c {
            '`' => {
                self.flush(run, out);
                self.is_code = !self.is_code;
            }
            '*' if !self.is_code => self.has_star = true,
            c => run.push(c),
        }
    }

    fn flush(&mut self, run: &mut String, out: &mut String) {
        let run = std::mem::take(run);
        if run.is_empty() {
            return;
        }
        match (self.in_fence || self.is_code, self.is_bold) {
            (true, _) => out.push_str(&self.painter.paint(Meaning::Name, &run)),
            (false, true) => out.push_str(&self.painter.paint(Meaning::Heading, &run)),
            (false, false) => out.push_str(&self.painter.plain(&run)),
        }
    }
}

/// Whether a line that begins so may turn out to be a block that is shown as a whole.
fn may_be_block(beginning: &str, in_fence: bool) -> bool {
    let bare = beginning.trim_start();
    if in_fence {
        return "```".starts_with(bare) || bare.starts_with("```");
    }
    bare.is_empty() || bare.starts_with(['#', '>', '|']) || "```".starts_with(bare) || bare.starts_with("```")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Plan\nSay `x * 2` and **do** it, 3 * 4.\n```rust\nlet a = \"**\";\n```\n> quoted\n- one\n";

    fn shown(painter: Painter, size: usize) -> String {
        let (mut markdown, mut out) = (Markdown::new(painter), String::new());
        let chars: Vec<char> = TEXT.chars().collect();
        for part in chars.chunks(size) {
            out.push_str(&markdown.push(&part.iter().collect::<String>()));
        }
        out + &markdown.end()
    }

    #[test]
    fn text_is_the_same_however_it_is_cut() {
        let whole = shown(Painter::bare(), 1000);
        assert_eq!(
            whole,
            "# Plan\nSay x * 2 and do it, 3 * 4.\n```rust\nlet a = \"**\";\n```\n> quoted\n- one\n"
        );
        for size in 1..20 {
            assert_eq!(shown(Painter::bare(), size), whole, "{size}");
        }
    }

    #[test]
    fn marks_become_colours() {
        let text = shown(Painter::coloured(), 1000);
        for part in [
            "\u{1b}[1m# Plan\u{1b}[0m",
            "\u{1b}[36mx * 2\u{1b}[0m",
            "\u{1b}[1mdo\u{1b}[0m",
            "\u{1b}[2m> quoted",
        ] {
            assert!(text.contains(part), "{part:?}: {text:?}");
        }
    }
}
