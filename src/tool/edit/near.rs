//! Why an old text has no place in a file, for the model: what was copied wrongly, and the lines that are nearest to it.
//!
//! Explains and never repairs: the model sends the right text itself. Pure: knows the plain text of a file.

use std::collections::HashMap;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput, TokenSource};

use super::matching::Matcher;
use crate::limits::{NEAR_CHARS, NEAR_LINES, NEAR_PLACES, NEAR_TIMES, TOOL_LINE_BYTES};
use crate::tool::cut;
use crate::tool::typography::is_special_blank;

/// An edit whose old text has no place.
pub(super) struct Missed<'e> {
    /// Its old text, plain.
    pub old: &'e str,
    /// Its new text, plain.
    pub new: &'e str,
    /// The new texts of the other edits, with their numbers.
    pub others: Vec<(usize, &'e str)>,
}

/// A cause that is recognised: what it is, and the old text without it. Where that stands in the file, it is the cause.
struct Cause {
    says: &'static str,
    without: fn(&str) -> Option<String>,
}

/// The mistakes of models in copying.
const CAUSES: &[Cause] = &[
    Cause { says: "it has the line numbers of a read; leave them out", without: without_numbers },
    Cause {
        says: "it has escaped characters (\\n, \\t, \\\") for the characters themselves",
        without: unescaped,
    },
    Cause {
        says: "it has HTML entities (&lt;, &amp;) for the characters themselves",
        without: without_entities,
    },
    Cause { says: "it has a code fence around it", without: without_fence },
];

/// The sentences about a miss.
pub(super) fn explain(matcher: &Matcher<'_>, text: &str, missed: &Missed<'_>) -> String {
    let mut told = String::new();
    for cause in CAUSES {
        let Some(old) = (cause.without)(missed.old).filter(|old| old != missed.old) else { continue };
        if let Some(lines) = place_of(matcher, text, &old) {
            told.push_str(&format!(" Cause: {}. The text stands at {}.", cause.says, shown_lines(&lines)));
            return told + &listing(matcher, &lines);
        }
    }
    if missed.old.lines().any(is_ellipsis) {
        told.push_str(
            " Cause: an ellipsis stands for lines that it leaves out; copy all of them, or edit less.",
        );
    }
    let is_of = |other: &&(usize, &str)| !missed.old.trim().is_empty() && other.1.contains(missed.old);
    if let Some((number, _)) = missed.others.iter().find(is_of) {
        told.push_str(&format!(
            " Cause: it stands in the new text of edit {number}. All edits of a call are made on the file as it is now; \
             join the two."
        ));
    }
    if let Some(lines) = whole_lines(matcher, missed.new) {
        told.push_str(&format!(
            " Perhaps it was made before: the new text is there already, {}.",
            shown_lines(&lines)
        ));
        return told;
    }
    match nearest(matcher, text, missed.old) {
        Some(lines) => told + &difference(matcher, missed.old, &lines),
        None => told + " No part of the file is like it; read the file again.",
    }
}

/// `line 3`, or `lines 3-5`, of a range of line indices.
fn shown_lines(lines: &Range<usize>) -> String {
    let first = lines.start.saturating_add(1);
    match lines.len() {
        0 | 1 => format!("line {first}"),
        _ => format!("lines {first}-{}", lines.end),
    }
}

/// The lines in which a text stands, exactly or but for blanks around its lines.
fn place_of(matcher: &Matcher<'_>, text: &str, old: &str) -> Option<Range<usize>> {
    let old = old.trim_end_matches('\n');
    if old.trim().is_empty() {
        return None;
    }
    if let Some(at) = memchr::memmem::find(text.as_bytes(), old.as_bytes()) {
        let first = matcher.line_number(at).saturating_sub(1);
        return Some(first..first.saturating_add(old.split('\n').count()));
    }
    whole_lines(matcher, old)
}

/// The lines that are those of a text but for blanks around each.
fn whole_lines(matcher: &Matcher<'_>, wanted: &str) -> Option<Range<usize>> {
    let wanted: Vec<&str> = wanted.trim_matches('\n').split('\n').map(str::trim).collect();
    if wanted.iter().all(|line| line.is_empty()) {
        return None;
    }
    let fits = |window: &[Range<usize>]| {
        window.iter().zip(&wanted).all(|(line, wanted)| matcher.part(line).trim() == *wanted)
    };
    let first = matcher.lines().windows(wanted.len()).position(fits)?;
    Some(first..first.saturating_add(wanted.len()))
}

fn without_numbers(old: &str) -> Option<String> {
    let strip = |line: &str| {
        let rest = line.trim_start();
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == digits.len() {
            return line.is_empty().then(String::new);
        }
        let after = digits.strip_prefix('\t').or_else(|| {
            let mark = digits.trim_start_matches(' ').strip_prefix(['|', ':', '│', '→'])?;
            Some(mark.strip_prefix(' ').unwrap_or(mark))
        });
        after.map(str::to_owned)
    };
    old.split('\n').map(strip).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n"))
}

fn unescaped(old: &str) -> Option<String> {
    let mut text = String::with_capacity(old.len());
    let mut chars = old.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => {}
                Some(other @ ('"' | '\'' | '\\' | '/')) => text.push(other),
                Some(other) => text.extend(['\\', other]),
                None => text.push('\\'),
            },
            c => text.push(c),
        }
    }
    Some(text)
}

fn without_entities(old: &str) -> Option<String> {
    let mut text = old.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&nbsp;", " "),
    ] {
        text = text.replace(entity, character);
    }
    Some(text.replace("&amp;", "&"))
}

fn without_fence(old: &str) -> Option<String> {
    let (first, rest) = old.trim().split_once('\n')?;
    let inner = rest.trim_end().strip_suffix("```").unwrap_or(rest);
    first.starts_with("```").then(|| inner.to_owned())
}

/// Whether a line is nothing but an ellipsis, perhaps in a comment.
fn is_ellipsis(line: &str) -> bool {
    let rest = line.trim().trim_start_matches(['/', '#', '-', '*', ';', ' ']);
    matches!(rest.trim_end_matches(['*', '/', ' ']), "..." | "…" | "[...]" | "[…]" | "(...)")
}

/// A line without its blanks.
fn squeezed(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The lines that are nearest to an old text, if any are like it.
fn nearest(matcher: &Matcher<'_>, text: &str, old: &str) -> Option<Range<usize>> {
    let old = old.trim_matches('\n');
    let wanted: Vec<String> = old.split('\n').map(squeezed).collect();
    let mut known: HashMap<&str, Vec<usize>> = HashMap::new();
    let lines: Vec<String> = matcher.lines().iter().map(|line| squeezed(matcher.part(line))).collect();
    for (at, line) in lines.iter().enumerate() {
        let places = known.entry(line.as_str()).or_default();
        if places.len() < NEAR_TIMES {
            places.push(at);
        }
    }
    // Where the old text would begin, if one of its lines is that line of the file.
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in wanted.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        for start in known.get(line.as_str()).into_iter().flatten().filter_map(|at| at.checked_sub(number)) {
            let vote = votes.entry(start).or_default();
            *vote = vote.saturating_add(line.len());
        }
    }
    // The line of the old text that says most, and the lines of the file that have most of its pairs of characters.
    if let Some((number, longest)) = wanted.iter().enumerate().max_by_key(|(_, line)| line.len())
        && !known.contains_key(longest.as_str())
    {
        let pairs = pairs(longest);
        let alike = lines.iter().enumerate().filter_map(|(at, line)| {
            let share = likeness(&pairs, line);
            (share > 0.5).then_some((share, at.checked_sub(number)?))
        });
        let mut alike: Vec<(f64, usize)> = alike.collect();
        alike.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (_, start) in alike.into_iter().take(NEAR_PLACES) {
            let vote = votes.entry(start).or_default();
            *vote = vote.saturating_add(longest.len() / 2);
        }
    }
    let mut places: Vec<(usize, usize)> = votes.into_iter().map(|(start, vote)| (vote, start)).collect();
    places.sort_by(|(vote, start), (other, later)| other.cmp(vote).then(start.cmp(later)));
    let count = matcher.lines().len();
    let windows = places.into_iter().take(NEAR_PLACES).flat_map(|(_, start)| {
        let sizes = [wanted.len(), wanted.len().saturating_sub(1).max(1), wanted.len().saturating_add(1)];
        sizes.map(|size| start.min(count)..start.saturating_add(size).min(count))
    });
    let mut best: Option<(f64, Range<usize>)> = None;
    for window in windows.filter(|window| !window.is_empty()) {
        let share = same_share(old, text_of(matcher, text, &window));
        if best.as_ref().is_none_or(|(most, _)| share > *most) {
            best = Some((share, window));
        }
    }
    best.filter(|(share, _)| *share >= 0.55).map(|(_, window)| window)
}

/// The text of some lines.
fn text_of<'t>(matcher: &Matcher<'_>, text: &'t str, lines: &Range<usize>) -> &'t str {
    let all = matcher.lines();
    let ends = (all.get(lines.start), all.get(lines.end.saturating_sub(1)));
    let (Some(first), Some(last)) = ends else { return "" };
    text.get(first.start..last.end).unwrap_or_default()
}

fn pairs(line: &str) -> HashMap<(char, char), usize> {
    let mut pairs = HashMap::new();
    for pair in line.chars().take(NEAR_CHARS).zip(line.chars().skip(1)) {
        let count: &mut usize = pairs.entry(pair).or_default();
        *count = count.saturating_add(1);
    }
    pairs
}

/// Which share of its pairs of characters a line has in common with another one.
fn likeness(wanted: &HashMap<(char, char), usize>, line: &str) -> f64 {
    let (mut common, mut all) = (0u32, 0u32);
    let mut left = wanted.clone();
    for pair in line.chars().take(NEAR_CHARS).zip(line.chars().skip(1)) {
        all = all.saturating_add(1);
        if let Some(count) = left.get_mut(&pair).filter(|count| **count > 0) {
            *count = count.saturating_sub(1);
            common = common.saturating_add(1);
        }
    }
    let wanted: u32 = wanted.values().map(|count| u32::try_from(*count).unwrap_or(u32::MAX)).sum();
    2.0 * f64::from(common) / f64::from(wanted.saturating_add(all).max(1))
}

/// The characters of a text, for a diff.
struct Characters<'t>(&'t str);

impl<'t> TokenSource for Characters<'t> {
    type Token = char;
    type Tokenizer = std::iter::Take<std::str::Chars<'t>>;

    fn tokenize(&self) -> Self::Tokenizer {
        self.0.chars().take(NEAR_CHARS)
    }

    fn estimate_tokens(&self) -> u32 {
        u32::try_from(self.0.len().min(NEAR_CHARS)).unwrap_or(u32::MAX)
    }
}

/// Which share of two texts is the same.
fn same_share(one: &str, other: &str) -> f64 {
    let input = InternedInput::new(Characters(one), Characters(other));
    let diff = Diff::compute(Algorithm::Myers, &input);
    let total = input.before.len().saturating_add(input.after.len());
    let changed = diff.count_removals().saturating_add(diff.count_additions());
    let total = f64::from(u32::try_from(total).unwrap_or(u32::MAX).max(1));
    1.0 - f64::from(changed) / total
}

/// A line with its blanks visible: `·` for one at the start or the end, `→` for a tab, `⍽` for a special one.
fn visible(line: &str) -> String {
    let line = cut(line, TOOL_LINE_BYTES);
    let start = line.len().saturating_sub(line.trim_start_matches([' ', '\t']).len());
    let end = line.trim_end_matches([' ', '\t']).len();
    let shown = line.char_indices().map(|(at, c)| match c {
        '\t' => '→',
        ' ' if at < start || at >= end => '·',
        c if is_special_blank(c) => '⍽',
        c => c,
    });
    shown.collect()
}

/// Some lines with their numbers.
fn listing(matcher: &Matcher<'_>, lines: &Range<usize>) -> String {
    let mut told = String::new();
    for number in lines.clone().take(NEAR_LINES) {
        let line = matcher.lines().get(number).map(|line| matcher.part(line)).unwrap_or_default();
        told.push_str(&format!("\n{:>6}  {}", number.saturating_add(1), visible(line)));
    }
    told
}

/// The nearest lines beside the old text, with the first difference marked.
fn difference(matcher: &Matcher<'_>, old: &str, lines: &Range<usize>) -> String {
    let olds: Vec<&str> = old.trim_matches('\n').split('\n').collect();
    let there =
        |number: usize| matcher.lines().get(number).map(|line| matcher.part(line)).unwrap_or_default();
    let differs = lines.clone().zip(&olds).find(|(number, old)| there(*number) != **old);
    let first =
        differs.map_or_else(|| lines.start.saturating_add(olds.len().min(lines.len())), |(number, _)| number);
    let (own, found) = (olds.get(first.saturating_sub(lines.start)).copied(), there(first));
    let (shown, own) = (visible(found), own.map_or_else(|| "(no line)".to_owned(), visible));
    let column = shown.chars().zip(own.chars()).take_while(|(one, other)| one == other).count();
    let mut told = format!(
        " The nearest text is {}; the first difference is in line {} (· is a blank at the start or end of a line, → a tab, \
         ⍽ a special blank):",
        shown_lines(lines),
        first.saturating_add(1)
    );
    let from = first.saturating_sub(NEAR_LINES / 2).max(lines.start);
    let until = from.saturating_add(NEAR_LINES).min(lines.end.max(first.saturating_add(1)));
    for number in from..until {
        told.push_str(&format!("\n{:>6}  {}", number.saturating_add(1), visible(there(number))));
        if number == first {
            told.push_str(&format!("\n yours  {own}\n        {}^", " ".repeat(column)));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, old: &str, new: &str) -> String {
        explain(&Matcher::new(text), text, &Missed { old, new, others: Vec::new() })
    }

    #[test]
    fn cause_is_told_only_where_the_text_stands_without_it() {
        let text = "def f\n\tp = \"1\"\nif a < b && c\n";
        for (old, cause, place) in [
            ("     1\tdef f\n     2\t\tp = \"1\"\n", "line numbers", "lines 1-2"),
            ("3 | if a < b && c", "line numbers", "line 3"),
            ("def f\\n\\tp = \\\"1\\\"", "escaped", "lines 1-2"),
            ("if a &lt; b &amp;&amp; c", "entities", "line 3"),
            ("```c\nif a < b && c\n```", "code fence", "line 3"),
        ] {
            let told = told(text, old, "x");
            assert!(told.contains(cause) && told.contains(place), "{old:?}: {told}");
        }
        for old in ["1\tother thing altogether", "q &lt; z zz zzz", "```c\nnothing like that at all\n```"] {
            assert!(!told(text, old, "x").contains("Cause"), "{old}");
        }
    }

    #[test]
    fn nearest_lines_are_shown_with_the_first_difference() {
        let text = "a\nm = {\n\tone: 1,\n\ttwo: 2\n}\nz\n";
        let told = told(text, "m = {\n\tone: 1\n\ttwo: 2\n}", "");
        assert!(told.contains("lines 2-5") && told.contains("first difference is in line 3"), "{told}");
        assert!(told.contains("\n     3  →one: 1,\n yours  →one: 1\n               ^\n     4  "), "{told}");
        // A line more, or one less.
        assert!(super::tests::told("a one\nb two\nc three\n", "a one\nc three\n", "").contains("lines 1-"));
        let none = super::tests::told("alpha(x) { return x.a }\n", "zero = [1, 2, 3]", "");
        assert!(none.contains("No part of the file"), "{none}");
    }

    #[test]
    fn large_file_of_like_lines_is_searched_in_bounded_time() {
        let text = "let value = compute(value, other);\n".repeat(100_000);
        let begun = std::time::Instant::now();
        let told = told(&text, "let value = computed(value, another);\nlet x = 1;\n", "");
        assert!(told.contains("line"), "{told}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
