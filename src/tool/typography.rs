//! Typographic characters as those of a keyboard, and composed letters: two texts that differ in nothing else are equal
//! when folded. Knows where each folded place stands in the text that it was made of.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

/// Characters that count as one of a keyboard. Full-width punctuation is a range of its own (see [`keyboard`]).
const PAIRS: &[(char, &str)] = &[
    ('\'', "\u{2018}\u{2019}\u{201a}\u{201b}\u{2032}\u{b4}"),
    ('"', "\u{201c}\u{201d}\u{201e}\u{201f}\u{2033}\u{ab}\u{bb}"),
    ('-', "\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{2212}"),
    (
        ' ',
        "\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\
         \u{205f}\u{3000}",
    ),
    (',', "\u{3001}"),
    ('.', "\u{3002}"),
    ('[', "\u{3010}"),
    (']', "\u{3011}"),
];

/// The character of a keyboard that another one stands for.
fn keyboard(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    if matches!(c, '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff5e}')
    {
        return u32::from(c).checked_sub(0xfee0).and_then(char::from_u32).unwrap_or(c);
    }
    PAIRS.iter().find(|(_, others)| others.contains(c)).map_or(c, |(key, _)| *key)
}

/// Whether a blank looks like the usual one and is another.
pub(super) fn is_special_blank(c: char) -> bool {
    !c.is_ascii() && keyboard(c) == ' '
}

/// A folded text.
#[derive(Debug)]
pub(super) struct Folded {
    text: String,
    /// Where the texts stop and start to be the same again: the place in each, and whether they are the same from there on.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    folded: usize,
    original: usize,
    is_same: bool,
}

/// A text with nothing but characters of a keyboard, and composed letters.
pub(super) fn folded(text: &str) -> String {
    Folded::new(text).text
}

/// The name of a file with composed letters and usual blanks: names that look alike are equal.
pub(super) fn folded_name(name: &str) -> String {
    name.nfc().map(|c| if is_special_blank(c) { ' ' } else { c }).collect()
}

impl Folded {
    /// Folds a text.
    pub fn new(text: &str) -> Self {
        let mut made = Self {
            text: String::with_capacity(text.len()),
            steps: vec![Step { folded: 0, original: 0, is_same: true }],
        };
        let mut chars = text.char_indices().peekable();
        while let Some((start, first)) = chars.next() {
            let mut end = start.saturating_add(first.len_utf8());
            while let Some((at, next)) = chars.next_if(|(_, next)| joins(*next)) {
                end = at.saturating_add(next.len_utf8());
            }
            let part = text.get(start..end).unwrap_or_default();
            if part.len() == 1 {
                made.push(start, part, true);
                continue;
            }
            let folded: String = part.nfc().map(keyboard).collect();
            made.push(start, &folded, folded == part);
        }
        made
    }

    fn push(&mut self, original: usize, folded: &str, is_same: bool) {
        if !is_same || self.steps.last().is_some_and(|step| !step.is_same) {
            self.steps.push(Step { folded: self.text.len(), original, is_same });
        }
        self.text.push_str(folded);
    }

    /// The folded text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The place in the original of a place in the folded text; `None` within what was folded as a whole.
    pub fn original(&self, at: usize, original_length: usize) -> Option<usize> {
        if at == self.text.len() {
            return Some(original_length);
        }
        let step = self.steps.get(self.steps.partition_point(|step| step.folded <= at).checked_sub(1)?)?;
        match at.checked_sub(step.folded)? {
            0 => Some(step.original),
            within if step.is_same => Some(step.original.saturating_add(within)),
            _ => None,
        }
    }
}

/// Whether a character belongs to the one before it.
fn joins(c: char) -> bool {
    // The second and third parts of Korean syllables have no class.
    !c.is_ascii() && (canonical_combining_class(c) != 0 || matches!(c, '\u{1160}'..='\u{11ff}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn typographic_characters_fold_to_those_of_a_keyboard() {
        for (text, expected) in [
            ("‘a’ “b” «c»", "'a' \"b\" \"c\""),
            ("1–5—x", "1-5-x"),
            ("10\u{a0}kg", "10 kg"),
            ("re\u{301}sume\u{301}", "r\u{e9}sum\u{e9}"),
            ("甲，乙（丙）：！", "甲,乙(丙):!"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("Ａ１", "Ａ１"),
        ] {
            assert_eq!(folded(text), expected);
        }
        assert!(is_special_blank('\u{202f}') && !is_special_blank(' ') && !is_special_blank('–'));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever part of a folded text has a place in the original is what that part folds to.
        #[test]
        fn folded_part_is_that_of_its_original(text in "[a '“”–e\u{301}\u{e9}，甲\n]{0,30}") {
            let folded = Folded::new(&text);
            for from in 0..=folded.text().len() {
                for to in from..=folded.text().len() {
                    let (Some(part), Some(start), Some(end)) = (
                        folded.text().get(from..to),
                        folded.original(from, text.len()),
                        folded.original(to, text.len()),
                    ) else { continue };
                    let Some(original) = text.get(start..end) else { continue };
                    prop_assert!(part.is_empty() || super::folded(original) == part || from == to, "{part:?} {original:?}");
                }
            }
        }
    }
}
