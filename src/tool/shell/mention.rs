//! Finds the words of rules anywhere in a command, in any context: after `sudo`, `env`, `xargs` or `sh -c`, in a
//! substitution, with the program's path or version, with options before a subcommand.
//!
//! For rules that deny, where a false alarm costs a question and a miss costs a file. All rules are looked for together
//! in one pass over the command's words, each with the set of positions that it may have reached. Knows neither tools nor
//! decisions.

use std::collections::HashMap;

use super::{base, folded, stem};
use crate::limits::{RULE_WORDS, SHELL_BYTES};
use crate::meter::{Exhausted, Meter};

/// The words of some rules.
pub struct Mentions {
    rules: Vec<Wanted>,
    /// The rules by the names of their programs, which ignore the case, and the position behind that name.
    names: HashMap<String, Vec<(usize, usize)>>,
}

/// The words of one rule behind its program.
struct Wanted {
    id: usize,
    words: Vec<String>,
}

/// The positions that one rule has reached: bit `n` says that its word `n` is awaited.
#[derive(Clone, Copy, Default)]
struct Positions {
    /// Behind a word of the rule, or behind the value of an option.
    plain: u64,
    /// Behind an option, which may have a value.
    option: u64,
}

impl Mentions {
    /// Rules by their ids. Words of a rule beyond [`RULE_WORDS`] are not looked for: what is denied is more then.
    pub fn new(rules: impl IntoIterator<Item = (usize, Vec<String>)>) -> Self {
        let mut all = Self { rules: Vec::new(), names: HashMap::new() };
        for (id, mut words) in rules {
            words.truncate(RULE_WORDS);
            let place = all.rules.len();
            let mut words = words.into_iter();
            let Some(name) = words.next() else { continue };
            let words: Vec<String> = words.collect();
            if let Some(first) = words.first() {
                // A program of its own: `git-push`.
                all.names.entry(folded(&format!("{name}-{first}"))).or_default().push((place, 1));
            }
            all.names.entry(folded(&name)).or_default().push((place, 0));
            all.rules.push(Wanted { id, words });
        }
        all
    }

    /// The ids of the rules whose words are in the first [`SHELL_BYTES`] of a command.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn found(&self, command: &str, meter: &mut Meter) -> Result<Vec<usize>, Exhausted> {
        if self.rules.is_empty() {
            return Ok(Vec::new());
        }
        let command = start(command);
        meter.spend(command.len(), 0)?;
        let mut found = vec![false; self.rules.len()];
        let mut active: HashMap<usize, Positions> = HashMap::new();
        let words = command.split(|c: char| c.is_whitespace() || ";|&()<>{}`$\n".contains(c));
        for word in words {
            let word: String = word.chars().filter(|c| !"'\"\\".contains(*c)).collect();
            if word.is_empty() {
                continue;
            }
            let waiting = active.keys().filter_map(|place| self.rules.get(*place));
            meter.spend(waiting.fold(1usize, |sum, rule| sum.saturating_add(rule.words.len())), 0)?;
            active.retain(|place, positions| match self.rules.get(*place) {
                Some(rule) if positions.pass(&word, &rule.words) => {
                    found.get_mut(*place).into_iter().for_each(|found| *found = true);
                    false
                }
                _ => positions.plain | positions.option != 0,
            });
            for name in names(&word) {
                meter.spend(name.len().saturating_add(1), 0)?;
                let Some(rules) = self.names.get(&folded(name)) else { continue };
                meter.spend(rules.len(), 0)?;
                for (place, position) in rules {
                    let length = self.rules.get(*place).map_or(0, |rule| rule.words.len());
                    match found.get_mut(*place) {
                        Some(true) | None => {}
                        Some(found) if *position >= length => *found = true,
                        Some(_) => active.entry(*place).or_default().plain |= 1 << position,
                    }
                }
            }
        }
        Ok(self.rules.iter().zip(found).filter(|(_, found)| *found).map(|(rule, _)| rule.id).collect())
    }
}

impl Positions {
    /// Goes on by one word, and says whether that was the last word of the rule. Between two words of the rule may be
    /// options, each with a value.
    fn pass(&mut self, word: &str, wanted: &[String]) -> bool {
        let here = self.plain | self.option;
        let (mut plain, mut option) = (0, 0);
        if is_option(word) {
            option = here;
        } else {
            plain = self.option;
        }
        for (at, _) in wanted.iter().enumerate().filter(|(_, wanted)| *wanted == word) {
            if here & (1 << at) != 0 {
                if at.saturating_add(1) == wanted.len() {
                    return true;
                }
                plain |= 1 << at.saturating_add(1);
            }
        }
        *self = Self { plain, option };
        false
    }
}

/// The names that a word may be: with and without folders and version, parts of it, and what is glued to an option
/// (`--filter=rm`, `-Irm`).
fn names(word: &str) -> impl Iterator<Item = &str> {
    let glued = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let glued = glued.and_then(|rest| rest.get(rest.chars().next()?.len_utf8()..));
    let parts = word.split(['=', ',', ':']);
    [word].into_iter().chain(glued).chain(parts).flat_map(|word| [word, base(word), stem(word)])
}

/// An option, or the version of a program before its subcommand (`cargo +nightly`).
fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+'])
}

/// The start of a command that is looked through.
fn start(command: &str) -> &str {
    let mut end = command.len().min(SHELL_BYTES);
    while !command.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    command.get(..end).unwrap_or(command)
}
