//! Tables for people: columns under headings, as wide as their text and no wider than the terminal. In a pipe there are no
//! headings and nothing is cut, so that a script can use the rows; `--json` is better for it.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::style::{Meaning, Painter, width};

/// Between columns.
const GAP: usize = 2;

/// The least columns that are left of a text that is cut.
const LEAST: usize = 12;

/// The least columns that are left of any text on a very narrow terminal.
const FEWEST: usize = 4;

/// Rows of texts under headings.
pub(super) struct Table {
    headings: Vec<&'static str>,
    /// The columns that are numbers.
    right: Vec<usize>,
    /// The column that is cut if the terminal is too narrow.
    cut: usize,
    /// Columns that are typed again, such as ids: no use if they are cut.
    kept: &'static [usize],
    /// Columns that are left out where the others do not fit otherwise, the first ones first.
    spare: &'static [usize],
    /// Whether no text is cut: where the terminal is too narrow, it breaks the rows, which have no columns then.
    is_whole: bool,
    rows: Vec<Vec<(String, Option<Meaning>)>>,
}

impl Table {
    /// An empty table; the column `cut` is the one that gives way.
    pub(super) fn new(headings: &[&'static str], cut: usize, right: &[usize]) -> Self {
        Self {
            headings: headings.to_vec(),
            right: right.to_vec(),
            cut,
            kept: &[],
            spare: &[],
            is_whole: false,
            rows: Vec::new(),
        }
    }

    /// The same with columns that stay whole, and columns that are left out for them on a narrow terminal.
    #[must_use]
    pub(super) const fn keeping(mut self, kept: &'static [usize], spare: &'static [usize]) -> Self {
        (self.kept, self.spare) = (kept, spare);
        self
    }

    /// The same without a cut text, for values that are read rather than looked over.
    #[must_use]
    pub(super) const fn whole(mut self) -> Self {
        self.is_whole = true;
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Meaning>)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether it has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text of the table for standard output.
    pub(super) fn text(&self) -> String {
        self.laid_out(Painter::stdout(), width())
    }

    /// Its text for so many columns; without a number, for a pipe.
    pub(super) fn laid_out(&self, painter: Painter, columns: Option<usize>) -> String {
        let rows: Vec<Vec<(String, Option<Meaning>)>> = self
            .rows
            .iter()
            .map(|row| {
                row.iter().map(|(text, meaning)| (painter.plain(text).into_owned(), *meaning)).collect()
            })
            .collect();
        let mut widths: Vec<usize> =
            self.headings.iter().map(|heading| if columns.is_some() { heading.width() } else { 0 }).collect();
        for row in &rows {
            for (wide, (text, _)) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(text.width());
            }
        }
        let mut shown: Vec<usize> = (0..widths.len()).collect();
        match columns {
            Some(columns) if !self.is_whole => self.fit(columns, &mut widths, &mut shown),
            Some(columns) if all(&shown, &|at| widths.get(at).copied().unwrap_or_default()) > columns => {
                widths.iter_mut().skip(1).for_each(|wide| *wide = 0);
            }
            _ => {}
        }
        let mut text = String::new();
        if columns.is_some() {
            let headings: Vec<_> =
                self.headings.iter().map(|heading| ((*heading).to_owned(), Some(Meaning::Heading))).collect();
            self.line(&headings, &shown, &widths, painter, &mut text);
        }
        for row in &rows {
            self.line(row, &shown, &widths, painter, &mut text);
        }
        text
    }

    /// Makes the columns fit: leaves out spare ones, and cuts texts.
    fn fit(&self, columns: usize, widths: &mut [usize], shown: &mut Vec<usize>) {
        let wide = |at: usize| widths.get(at).copied().unwrap_or_default();
        let is_whole = |at: &usize| self.right.contains(at) || self.kept.contains(at);
        let least = |at: usize| if is_whole(&at) { wide(at) } else { wide(at).min(LEAST) };
        for spare in self.spare {
            if all(shown, &least) <= columns {
                break;
            }
            shown.retain(|at| at != spare);
        }
        let mut over = all(shown, &wide).saturating_sub(columns);
        if let Some(wide) = widths.get_mut(self.cut).filter(|_| shown.contains(&self.cut)) {
            let given = over.min(wide.saturating_sub(LEAST));
            (*wide, over) = (wide.saturating_sub(given), over.saturating_sub(given));
        }
        // Where that is not enough, the widest text gives way; where all are short, also what should stay whole.
        for gives in [&|at: &usize| !is_whole(at), &|at: &usize| !self.right.contains(at)]
            as [&dyn Fn(&usize) -> bool; 2]
        {
            while over > 0 {
                let texts = widths.iter_mut().enumerate().filter(|(at, _)| shown.contains(at) && gives(at));
                let Some((_, wide)) =
                    texts.max_by_key(|(_, wide)| **wide).filter(|(_, wide)| **wide > FEWEST)
                else {
                    break;
                };
                (*wide, over) = (wide.saturating_sub(1), over.saturating_sub(1));
            }
        }
    }

    fn line(
        &self,
        row: &[(String, Option<Meaning>)],
        shown: &[usize],
        widths: &[usize],
        painter: Painter,
        out: &mut String,
    ) {
        let mut line = String::new();
        let mut blanks = 0;
        for (at, ((cell, meaning), wide)) in row.iter().zip(widths).enumerate() {
            if !shown.contains(&at) {
                continue;
            }
            let cell = if self.is_whole { cell.clone() } else { fitting(cell, *wide) };
            let room = wide.saturating_sub(cell.width());
            let (before, after) = if self.right.contains(&at) { (room, 0) } else { (0, room) };
            blanks += before;
            if !cell.is_empty() {
                let shown = meaning.map_or_else(|| cell.clone(), |meaning| painter.paint(meaning, &cell));
                let _ = write!(line, "{:blanks$}{shown}", "");
                blanks = 0;
            }
            blanks += after + GAP;
        }
        out.push_str(&line);
        out.push('\n');
    }
}

/// The columns of a row.
fn all(shown: &[usize], of: &dyn Fn(usize) -> usize) -> usize {
    let gaps = GAP.saturating_mul(shown.len().saturating_sub(1));
    shown.iter().fold(gaps, |all, at| all.saturating_add(of(*at)))
}

/// The text, or as much of it as fits before an ellipsis.
pub(super) fn fitting(text: &str, wide: usize) -> String {
    if text.width() <= wide {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        let mut next = cut.clone();
        next.push(c);
        if next.width().saturating_add(1) > wide {
            break;
        }
        cut = next;
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "N", "NAME"], 2, &[1]);
        for (id, n, name) in
            [("s-1", "7", "A long name of a session"), ("s-22", "12", "日本語の名前です、長い")]
        {
            table.row([(id.to_owned(), None), (n.to_owned(), None), (name.to_owned(), None)]);
        }
        table
    }

    #[test]
    fn columns_fit_the_terminal_and_numbers_stand_right() {
        let text = table().laid_out(Painter::bare(), Some(26));
        assert_eq!(text, "ID     N  NAME\ns-1    7  A long name of …\ns-22  12  日本語の名前で…\n");
        for columns in 0..60 {
            let text = table().laid_out(Painter::bare(), Some(columns));
            let widest = text.lines().map(|line| line.width()).max().unwrap();
            // The fewest columns of two texts, the number, and the gaps.
            assert!(widest <= columns.max(4 + 2 + 2 + 2 + 4), "{columns}: {text}");
        }
    }

    #[test]
    fn ids_stay_whole_and_spare_columns_go() {
        let cell = |text: &str| (text.to_owned(), None);
        let mut table = Table::new(&["MODEL", "STATE", "NAME"], 2, &[]).keeping(&[0], &[2, 1]);
        table.row(["claude-opus-4-1-20250805", "ready", "Claude Opus 4.1 of August"].map(cell));
        let at = |columns| table.laid_out(Painter::bare(), Some(columns)).lines().nth(1).unwrap().to_owned();
        assert_eq!(at(60), "claude-opus-4-1-20250805  ready  Claude Opus 4.1 of August");
        assert_eq!(at(50), "claude-opus-4-1-20250805  ready  Claude Opus 4.1 …");
        assert_eq!(at(40), "claude-opus-4-1-20250805  ready");
        assert_eq!(at(30), "claude-opus-4-1-20250805");
        assert_eq!(at(20), "claude-opus-4-1-202…");
        let whole = table.laid_out(Painter::bare(), None);
        assert_eq!(whole, "claude-opus-4-1-20250805  ready  Claude Opus 4.1 of August\n");
    }

    #[test]
    fn whole_rows_are_never_cut() {
        let at = |columns| {
            let mut table = Table::new(&["KEY", "VALUE", "FROM"], 1, &[]).whole();
            for (key, value, from) in [("cwd", "/home/me/project", "default"), ("mode", "ask", "default")] {
                table.row([key, value, from].map(|text| (text.to_owned(), None)));
            }
            table.laid_out(Painter::bare(), Some(columns))
        };
        assert_eq!(
            at(31),
            "KEY   VALUE             FROM\ncwd   /home/me/project  default\nmode  ask               default\n"
        );
        assert_eq!(at(30), "KEY   VALUE  FROM\ncwd   /home/me/project  default\nmode  ask  default\n");
    }

    #[test]
    fn rows_of_a_pipe_are_whole_and_have_no_headings() {
        let text = table().laid_out(Painter::bare(), None);
        assert_eq!(text, "s-1    7  A long name of a session\ns-22  12  日本語の名前です、長い\n");
    }
}
