//! Lays out values for people: within a width, as tables where that reads better, in colour on a terminal.
//! Knows no connection.

use crate::edn;
use crate::value::{Map, Owned, Value};
use crate::visible;

/// The layout of values.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns.
    pub width: usize,
    /// For a terminal: tables, and codes for what could steer it. Otherwise plain EDN.
    pub terminal: bool,
    /// Whether a terminal gets colours.
    pub colours: bool,
}

/// The maximum width of a table cell; longer values are cut.
const CELL: usize = 48;

impl Layout {
    /// A value.
    pub fn value(&self, value: &Owned) -> String {
        let mut out = Vec::new();
        edn::write_pretty(value, self.width, &mut out);
        let out = String::from_utf8_lossy(&out);
        if self.terminal { self.painted(&visible::text(&out)) } else { out.into_owned() }
    }

    /// The `:data` of a query's answer: the result, and what is missing.
    pub fn answer(&self, data: &Owned) -> String {
        let result = data.get("result").unwrap_or(&Value::Nil);
        let mut text = match self.table_of(result) {
            Some(table) => table,
            None => self.value(result),
        };
        for key in ["missing", "errors"] {
            if let Some(rest) = data.get(key) {
                text.push_str(&self.text(format!("\n;; {key}: {rest}")));
            }
        }
        text
    }

    /// A table, if the result is one list of flat maps.
    fn table_of(&self, result: &Owned) -> Option<String> {
        let mut entries = result.as_map().filter(|_| self.terminal)?.iter();
        let (key, rows) = entries.next()?;
        let rows = rows.as_slice().filter(|rows| rows.len() > 1 && entries.next().is_none())?;
        let rows: Vec<&Map<'static>> = rows.iter().map(Value::as_map).collect::<Option<_>>()?;
        Some(format!("{}\n{}", self.painted(&visible::text(&key.to_string())), table(&rows, self.width)))
    }

    /// An event on one line, as a comment.
    pub fn event(&self, event: &Owned) -> String {
        let topic = event.get("event").and_then(Value::as_str).unwrap_or_default();
        let payload = event.get("data").or(event.get("payload")).unwrap_or(&Value::Nil);
        let text = payload.get("text").or(payload.get("message")).and_then(Value::as_str);
        let shown = match text {
            Some(text) => format!(";; {topic} {}", text.replace('\n', "\n;;   ")),
            None => format!(";; {topic} {payload}"),
        };
        self.text(shown)
    }

    fn painted(&self, text: &str) -> String {
        if self.colours { paint(text) } else { text.to_owned() }
    }

    /// A text that is no value: a terminal is shown codes for what could steer it.
    pub fn text(&self, text: String) -> String {
        if self.terminal { visible::text(&text).into_owned() } else { text }
    }
}

fn table(rows: &[&Map<'static>], width: usize) -> String {
    let mut names: Vec<&Owned> = Vec::new();
    for row in rows {
        for (key, _) in row.iter() {
            if !names.contains(&key) {
                names.push(key);
            }
        }
    }
    let title = |name: &Owned| match name.as_keyword() {
        Some(name) => visible::line(name.rsplit('/').next().unwrap_or(name)).into_owned(),
        None => visible::line(&name.to_string()).into_owned(),
    };
    let cell = |row: &Map<'static>, name: &Owned| match row.get(name) {
        None | Some(Value::Nil) => String::new(),
        Some(Value::Str(text)) => cut(&visible::line(&text.replace('\n', " "))),
        Some(value) => cut(&visible::line(&value.to_string())),
    };
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| names.iter().map(|name| cell(row, name)).collect()).collect();
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let longest = cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
            longest.unwrap_or(0).max(title(name).chars().count())
        })
        .collect();
    let line = |cells: Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        line.trim_end().chars().take(width).collect::<String>()
    };
    let head = line(names.iter().map(|name| title(name)).collect());
    let rule = "─"
        .repeat(widths.iter().sum::<usize>().saturating_add(2 * widths.len().saturating_sub(1)).min(width));
    [head, rule].into_iter().chain(cells.into_iter().map(line)).collect::<Vec<_>>().join("\n")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL {
        return text.to_owned();
    }
    text.chars().take(CELL - 1).chain(['…']).collect()
}

/// The kind of a stretch of EDN text, for colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword.
    Keyword,
    /// A string.
    Text,
    /// A number, `true`, `false` or `nil`.
    Constant,
    /// A comment.
    Comment,
    /// A bracket.
    Bracket,
    /// Anything else.
    Plain,
}

/// Cuts EDN text, which may be incomplete, into stretches.
pub fn stretches(text: &str) -> Vec<(TokenKind, &str)> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word =
            || rest.find(|c: char| c.is_whitespace() || "[](){}\",;".contains(c)).unwrap_or(rest.len());
        let (kind, length) = match first {
            '"' => {
                let mut escaped = false;
                let end = rest.char_indices().skip(1).find(|(_, c)| {
                    let ends = *c == '"' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    ends
                });
                (TokenKind::Text, end.map_or(rest.len(), |(at, _)| at + 1))
            }
            ';' => (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '[' | ']' | '(' | ')' | '{' | '}' => (TokenKind::Bracket, 1),
            ':' => (TokenKind::Keyword, word()),
            c if c.is_whitespace() || c == ',' => (TokenKind::Plain, c.len_utf8()),
            _ => {
                let length = word().max(first.len_utf8());
                let text = rest.get(..length).unwrap_or_default();
                let digits = text.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
                let constant = digits || matches!(text, "true" | "false" | "nil");
                (if constant { TokenKind::Constant } else { TokenKind::Plain }, length)
            }
        };
        let (stretch, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        all.push((kind, stretch));
        rest = after;
    }
    all
}

fn paint(text: &str) -> String {
    let mut out = String::new();
    for (kind, stretch) in stretches(text) {
        let colour = match kind {
            TokenKind::Keyword => "36",
            TokenKind::Text => "32",
            TokenKind::Constant => "33",
            TokenKind::Comment => "90",
            TokenKind::Bracket | TokenKind::Plain => {
                out.push_str(stretch);
                continue;
            }
        };
        out.push_str(&format!("\u{1b}[{colour}m{stretch}\u{1b}[0m"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_is_broken_into_lines() {
        let value =
            edn::read_one(b"{:a [1 2 3] :b {:c \"some text\" :d [10 20 30 40]}}").unwrap().into_owned();
        let shown = Layout { width: 24, terminal: false, colours: false }.value(&value);
        assert_eq!(shown, "{:a [1 2 3]\n :b {:c \"some text\"\n     :d [10 20 30 40]}}");
        assert_eq!(edn::read_one(shown.as_bytes()).unwrap().into_owned(), value);
        assert_eq!(
            Layout { width: 80, terminal: false, colours: false }.value(&value),
            edn::to_string(&value)
        );
    }

    #[test]
    fn list_of_maps_becomes_table_on_terminal() {
        let data =
            edn::read_one(b"{:result {:l [{:a/x 1 :a/name \"one\"} {:a/x 20}]}}").unwrap().into_owned();
        let shown = Layout { width: 80, terminal: true, colours: false }.answer(&data);
        assert!(shown.ends_with("x   name\n────────\n1   one\n20"), "{shown}");
        assert!(!Layout { width: 80, terminal: false, colours: false }.answer(&data).contains('─'));
    }

    #[test]
    fn stretches_cover_the_whole_text() {
        for text in ["[:a \"b \\\" c\" 1.5 nil ; x\n (d) \"open", "é\u{1F600}:ü", ""] {
            assert_eq!(stretches(text).iter().map(|(_, stretch)| *stretch).collect::<String>(), text);
        }
    }
}
