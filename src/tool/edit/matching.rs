//! Where an old text stands in a file: exactly, or but for one thing that a model cannot see.
//!
//! The steps run in the order of [`Step`]; a later one only if the earlier ones found nothing, and never two together. A
//! step that fits at several places finds none. Pure: knows the plain text of a file (`text_file`), not the file.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use crate::limits::EDIT_LINES_SHOWN;
use crate::tool::typography::{self, Folded};

/// How an old text fits a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Character for character; `\r\n` is `\n`.
    Exact,
    /// But for blanks at the ends of whole lines.
    TrailingBlanks,
    /// But for blanks around whole lines, where one indentation stands for one other throughout.
    Indentation,
    /// But for quotes, dashes, special blanks, full-width punctuation and composed letters.
    Typography,
}

impl Step {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TrailingBlanks => "trailing blanks",
            Self::Indentation => "indentation",
            Self::Typography => "typography",
        }
    }
}

/// A place of an old text and what becomes of it, in the plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The replaced part.
    pub range: Range<usize>,
    /// The lines of the new text, without their ends; they stand at the lines of the range and take their place.
    pub lines: Vec<NewLine>,
    /// How many of them at the start and at the end are those that are there.
    pub shared: (usize, usize),
    /// How the old text fits.
    pub step: Step,
}

/// A line of a new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NewLine {
    /// A line that the old text has too: it stays as it is in the file.
    Kept(Range<usize>),
    /// Another one.
    Text(String),
}

/// Why an old text has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Miss {
    /// It stands nowhere.
    Nowhere,
    /// It stands at several places: how, how many, and the lines of the first ones.
    Several {
        /// The step that found them.
        step: Step,
        /// Their number.
        count: usize,
        /// The numbers of their first lines, each once.
        lines: Vec<usize>,
    },
    /// It fits but for its indentation, and this line of the new text has one that cannot be converted.
    Indentation(String),
}

/// Finds old texts in one plain text.
pub(super) struct Matcher<'t> {
    text: &'t str,
    lines: OnceCell<Vec<Range<usize>>>,
    folded: OnceCell<Folded>,
}

impl<'t> Matcher<'t> {
    /// A matcher for a plain text.
    pub fn new(text: &'t str) -> Self {
        Self { text, lines: OnceCell::new(), folded: OnceCell::new() }
    }

    /// The lines, without their ends.
    pub fn lines(&self) -> &[Range<usize>] {
        self.lines.get_or_init(|| lines_of(self.text, 0).collect())
    }

    /// A part of the text.
    pub fn part(&self, range: &Range<usize>) -> &'t str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The number, from 1, of the line that a place is in.
    pub fn line_number(&self, at: usize) -> usize {
        self.lines().partition_point(|line| line.start <= at).max(1)
    }

    /// The one place of an old text; all of them if that is wanted.
    ///
    /// # Errors
    /// See [`Miss`].
    pub fn find(&self, old: &str, new: &str, all: bool) -> Result<Vec<Place>, Miss> {
        if all {
            let places = self.exact(old, false).map(|place| self.place(place, old, new, Step::Exact, None));
            let places: Vec<Place> = places.flatten().collect();
            return if places.is_empty() { Err(Miss::Nowhere) } else { Ok(places) };
        }
        if let Some(range) = one(Step::Exact, self.exact(old, true), self)? {
            return self
                .place(range, old, new, Step::Exact, None)
                .map(|place| vec![place])
                .ok_or(Miss::Nowhere);
        }
        let trailing = self.whole_lines(old, |line| line.trim_end_matches([' ', '\t']));
        if let Some(range) = one(Step::TrailingBlanks, trailing, self)? {
            let place = self.place(range, old, new, Step::TrailingBlanks, None);
            return place.map(|place| vec![place]).ok_or(Miss::Nowhere);
        }
        let around = self.whole_lines(old, |line| line.trim_matches([' ', '\t']));
        let around = around.filter(|range| Indentations::of(old, self.part(range)).is_some());
        if let Some(range) = one(Step::Indentation, around, self)? {
            let indentations = Indentations::of(old, self.part(&range));
            let place = self.place(range, old, new, Step::Indentation, indentations.as_ref());
            let unfit = || Miss::Indentation(first_unfit(old, new, indentations.as_ref()));
            return place.map(|place| vec![place]).ok_or_else(unfit);
        }
        if let Some(range) = one(Step::Typography, self.typographic(old), self)? {
            let place = self.place(range, old, new, Step::Typography, None);
            return place.map(|place| vec![place]).ok_or(Miss::Nowhere);
        }
        Err(Miss::Nowhere)
    }

    /// The places of a text; those that overlap another one too if that is wanted. A text that ends with a line end also
    /// fits the last line without one.
    fn exact<'m>(&'m self, old: &'m str, overlapping: bool) -> impl Iterator<Item = Range<usize>> + 'm {
        let step = if overlapping { 1 } else { old.len().max(1) };
        let within = occurrences(self.text, old, step).map(|at| at..at.saturating_add(old.len()));
        let last = old.strip_suffix('\n').filter(|line| !line.is_empty() && self.text.ends_with(line));
        let last = last.map(|line| self.text.len().saturating_sub(line.len())..self.text.len());
        within.chain(last)
    }

    /// The whole lines that are the lines of an old text, as `seen`. The range has the end of the last one if the old
    /// text has one.
    fn whole_lines<'m>(
        &'m self,
        old: &'m str,
        seen: fn(&str) -> &str,
    ) -> impl Iterator<Item = Range<usize>> + 'm {
        let core = old.strip_suffix('\n').unwrap_or(old);
        let wanted: Vec<&str> = core.split('\n').map(seen).collect();
        // Lines of blanks alone would fit between any two others.
        let is_text = wanted.iter().any(|line| !line.is_empty());
        let windows = self.lines().windows(wanted.len()).filter(move |_| is_text);
        windows.filter_map(move |window| {
            let fits = window.iter().zip(&wanted).all(|(line, wanted)| seen(self.part(line)) == *wanted);
            let (first, last) = (window.first()?, window.last()?);
            let ends = old.len() > core.len() && last.end < self.text.len();
            fits.then(|| first.start..last.end.saturating_add(usize::from(ends)))
        })
    }

    /// The places of an old text with other typography.
    fn typographic(&self, old: &str) -> impl Iterator<Item = Range<usize>> {
        let is_same = self.text.is_ascii() && old.is_ascii();
        let wanted = if is_same { String::new() } else { typography::folded(old) };
        let folded = (!wanted.is_empty()).then(|| self.folded.get_or_init(|| Folded::new(self.text)));
        folded.into_iter().flat_map(move |folded| {
            let length = self.text.len();
            let wanted = wanted.clone();
            let places = occurrences(folded.text(), &wanted, 1).filter_map(|at| {
                Some(folded.original(at, length)?..folded.original(at.saturating_add(wanted.len()), length)?)
            });
            places.collect::<Vec<_>>()
        })
    }

    /// The replacement of a range that an old text fits. `None` if a new line has an indentation that cannot be converted.
    fn place(
        &self,
        range: Range<usize>,
        old: &str,
        new: &str,
        step: Step,
        indentations: Option<&Indentations<'_>>,
    ) -> Option<Place> {
        // The last line stays without an end.
        let has_end = !old.ends_with('\n') || self.part(&range).ends_with('\n');
        let without = |text| if has_end { text } else { str::strip_suffix(text, '\n').unwrap_or(text) };
        let (old, new) = (without(old), without(new));
        let there: Vec<Range<usize>> = lines_of(self.part(&range), range.start).collect();
        let (olds, news): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
        // A range of other lines than the old text has would be a fault of the step; then nothing is kept.
        let (before, after) = if there.len() == olds.len() { shared(&olds, &news) } else { (0, 0) };
        let lines = news.iter().enumerate().map(|(number, line)| {
            let from_end = news.len().saturating_sub(number);
            let kept = if number < before {
                there.get(number)
            } else if from_end <= after {
                there.get(there.len().saturating_sub(from_end))
            } else {
                None
            };
            match (kept, indentations) {
                (Some(kept), _) => Some(NewLine::Kept(kept.clone())),
                (None, Some(indentations)) => indentations.convert(line).map(NewLine::Text),
                (None, None) => Some(NewLine::Text((*line).to_owned())),
            }
        });
        Some(Place { lines: lines.collect::<Option<_>>()?, shared: (before, after), range, step })
    }
}

/// Where a text occurs in another one; the next is looked for `step` bytes after each.
fn occurrences<'m>(text: &'m str, wanted: &'m str, step: usize) -> impl Iterator<Item = usize> + 'm {
    let finder = memchr::memmem::Finder::new(wanted);
    let mut from = 0usize;
    std::iter::from_fn(move || {
        let at = finder.find(text.as_bytes().get(from..)?)?.saturating_add(from);
        from = at.saturating_add(step);
        Some(at)
    })
}

/// The one of some ranges; `None` if there is none.
fn one(
    step: Step,
    mut found: impl Iterator<Item = Range<usize>>,
    matcher: &Matcher<'_>,
) -> Result<Option<Range<usize>>, Miss> {
    let Some(first) = found.next() else { return Ok(None) };
    let (mut count, mut lines) = (1usize, vec![matcher.line_number(first.start)]);
    for other in found {
        count = count.saturating_add(1);
        let line = matcher.line_number(other.start);
        if lines.len() < EDIT_LINES_SHOWN && lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    if count == 1 { Ok(Some(first)) } else { Err(Miss::Several { step, count, lines }) }
}

/// How many lines two texts share at the start and at the end; no line counts twice.
fn shared(olds: &[&str], news: &[&str]) -> (usize, usize) {
    let before = olds.iter().zip(news).take_while(|(old, new)| old == new).count();
    let most = olds.len().min(news.len()).saturating_sub(before);
    let after = olds.iter().rev().zip(news.iter().rev()).take_while(|(old, new)| old == new).count();
    (before, after.min(most))
}

/// The lines of a text that begins at a place, without their ends.
fn lines_of(text: &str, start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut from = start;
    text.split('\n').map(move |line| {
        let range = from..from.saturating_add(line.len());
        from = range.end.saturating_add(1);
        range
    })
}

/// The first line of a new text that has no indentation in the file.
fn first_unfit(old: &str, new: &str, indentations: Option<&Indentations<'_>>) -> String {
    let mut lines = new.split('\n').filter(|line| !old.split('\n').any(|known| known == *line));
    let unfit =
        lines.find(|line| indentations.is_none_or(|indentations| indentations.convert(line).is_none()));
    unfit.unwrap_or_default().to_owned()
}

fn indentation(line: &str) -> &str {
    let text = line.trim_start_matches([' ', '\t']);
    line.get(..line.len().saturating_sub(text.len())).unwrap_or_default()
}

/// Which indentation of the file stands for each of an old text.
#[derive(Debug)]
struct Indentations<'m>(HashMap<&'m str, &'m str>);

impl<'m> Indentations<'m> {
    /// `None` if one stands for two, or two for one.
    fn of(old: &'m str, there: &'m str) -> Option<Self> {
        let mut known: HashMap<&str, &str> = HashMap::new();
        let mut back: HashMap<&str, &str> = HashMap::new();
        for (old, there) in old.split('\n').zip(there.split('\n')) {
            if old.trim_matches([' ', '\t']).is_empty() {
                continue;
            }
            let (old, there) = (indentation(old), indentation(there));
            if *known.entry(old).or_insert(there) != there || *back.entry(there).or_insert(old) != old {
                return None;
            }
        }
        Some(Self(known))
    }

    /// A new line with the indentation that the file has for its own; `None` if that does not follow.
    fn convert(&self, line: &str) -> Option<String> {
        let own = indentation(line);
        let text = line.get(own.len()..).unwrap_or_default();
        if text.is_empty() {
            return Some(String::new());
        }
        let known = self.0.get(own).map(|known| (*known).to_owned());
        let indent = known.or_else(|| self.prefixed(own)).or_else(|| self.in_units(own))?;
        Some(format!("{indent}{text}"))
    }

    /// Where the file has the same blanks before each, or lacks them.
    fn prefixed(&self, own: &str) -> Option<String> {
        let (old, there) = self.0.iter().next()?;
        let made = match (there.strip_suffix(old), old.strip_suffix(there)) {
            (Some(more), _) => {
                let all = self.0.iter().all(|(old, there)| there.strip_suffix(old) == Some(more));
                all.then(|| format!("{more}{own}"))?
            }
            (_, Some(less)) => {
                let all = self.0.iter().all(|(old, there)| old.strip_suffix(there) == Some(less));
                own.strip_prefix(less).filter(|_| all)?.to_owned()
            }
            _ => return None,
        };
        // Blanks and tabs together are an indentation only where the file has such.
        let is_mixed = |indent: &str| indent.contains(' ') && indent.contains('\t');
        (!is_mixed(&made) || self.0.values().any(|there| is_mixed(there))).then_some(made)
    }

    /// Where one tab is always as many blanks: in the file or in the old text.
    fn in_units(&self, own: &str) -> Option<String> {
        let is_only = |text: &str, blank: char| text.chars().all(|c| c == blank);
        let is_from = |from: char, to: char| {
            is_only(own, from) && self.0.iter().all(|(old, there)| is_only(old, from) && is_only(there, to))
        };
        let to_tabs = is_from(' ', '\t');
        if !to_tabs && !is_from('\t', ' ') {
            return None;
        }
        let (old, there) = self.0.iter().find(|(old, there)| !old.is_empty() && !there.is_empty())?;
        let (blanks, tabs) = if to_tabs { (old, there) } else { (there, old) };
        let unit = blanks.len().checked_div(tabs.len()).filter(|unit| *unit > 0)?;
        let is_unit = |(old, there): (&&str, &&str)| {
            let (blanks, tabs) = if to_tabs { (old, there) } else { (there, old) };
            blanks.len() == tabs.len().saturating_mul(unit)
        };
        if !self.0.iter().all(is_unit) {
            return None;
        }
        match to_tabs {
            true => own.len().is_multiple_of(unit).then(|| "\t".repeat(own.len() / unit)),
            false => Some(" ".repeat(own.len().saturating_mul(unit))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text after one edit, or the miss.
    fn edited(text: &str, old: &str, new: &str) -> Result<(String, Step), Miss> {
        let matcher = Matcher::new(text);
        let place = matcher.find(old, new, false)?.remove(0);
        let lines = place.lines.iter().map(|line| match line {
            NewLine::Kept(range) => matcher.part(range).to_owned(),
            NewLine::Text(line) => line.clone(),
        });
        let new = lines.collect::<Vec<_>>().join("\n");
        Ok((format!("{}{new}{}", &text[..place.range.start], &text[place.range.end..]), place.step))
    }

    #[test]
    fn indentation_is_converted_only_where_it_follows() {
        for (text, old, new, expected) in [
            // By a common prefix, which more lines take too.
            ("    a\n    b\n", "a\nb\n", "x\n  y\n", Some("    x\n      y\n")),
            ("a\nb\n", "  a\n  b\n", "  x\n    y\n", Some("x\n  y\n")),
            // By the unit.
            ("f\n\tg\n", "f\n  g", "f\n  if\n    g", Some("f\n\tif\n\t\tg\n")),
            ("f\n    g\n", "f\n\tg", "f\n\t\tg\n\tg", Some("f\n        g\n    g\n")),
            // Three blanks are no unit of two; blanks behind tabs are none of the file.
            ("f\n\tg\n", "f\n  g", "f\n   h", None),
            ("\tf\n\tg\n", "f\ng", "f\n    h\ng", None),
            // One for two, and two for one.
            ("  a\n    b\n", "a\nb", "c", None),
            ("  a\n  b\n", " a\n   b", " c", None),
        ] {
            let found = edited(text, old, new).ok();
            let expected = expected.map(|text| (text.to_owned(), Step::Indentation));
            assert_eq!(found, expected, "{text:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn no_two_looser_steps_fit_together() {
        for (text, old) in [
            ("  “a”\n", "\"a\"\nb"),
            ("  x = “a”\n", "\tx = \"a\""),
            ("x = “a”  \ny\n", "x = \"a\"\ny"),
            ("a  b\n", "a b"),
            ("Abc\n", "abc"),
        ] {
            assert_eq!(edited(text, old, "new"), Err(Miss::Nowhere), "{text:?} {old:?}");
        }
    }

    #[test]
    fn last_line_without_an_end_counts_as_a_place() {
        assert_eq!(edited("a\nb", "b\n", "c\n").unwrap().0, "a\nc");
        assert!(matches!(edited("x\nx", "x\n", "y\n"), Err(Miss::Several { count: 2, .. })));
        assert_eq!(
            edited("a  \nb ", "a\nb\n", "a\nc\n").unwrap(),
            ("a  \nc".to_owned(), Step::TrailingBlanks)
        );
        assert_eq!(edited("a", "\n", "b"), Err(Miss::Nowhere));
    }
}
