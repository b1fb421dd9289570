//! Counts the files in which one type has inherent methods.
//!
//! A type with methods all over a room has no boundary: each of its methods may use everything that it holds. Methods of
//! traits do not count, because a trait says what they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::circles::{House, is_word, tokens};

/// The files with methods of each type, which is named with the file that defines it.
pub type Spread = BTreeMap<String, BTreeSet<String>>;

/// Where the types of a package have methods, given its files.
pub fn spread(sources: &[(PathBuf, String)]) -> Spread {
    let house = House::read(sources);
    let mut spread = Spread::new();
    for (path, text) in sources {
        let Some(path) = path.to_str() else { continue };
        // A module's own tests may add what they need.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
        for name in types_with_methods(&tokens(text)) {
            let definer = house.definer(path, &name).unwrap_or_else(|| path.to_owned());
            spread.entry(format!("{name} of {definer}")).or_default().insert(path.to_owned());
        }
    }
    spread
}

/// The types for which a text has an `impl` without a trait, and with a method in it.
fn types_with_methods(tokens: &[String]) -> BTreeSet<String> {
    let at = |place: usize| tokens.get(place).map_or("", String::as_str);
    let mut found = BTreeSet::new();
    for place in (0..tokens.len()).filter(|place| at(*place) == "impl") {
        // Elsewhere it is the type of a parameter or of a result.
        let begins = place == 0 || matches!(at(place - 1), "}" | ";" | "]" | "{" | "unsafe");
        let Some(open) = (place..tokens.len()).find(|place| at(*place) == "{").filter(|_| begins) else {
            continue;
        };
        let mut depth = 0usize;
        // What stands outside angle brackets.
        let mut head = Vec::new();
        for place in place + 1..open {
            match at(place) {
                "where" if depth == 0 => break,
                "<" => depth += 1,
                ">" if at(place - 1) != "-" => depth = depth.saturating_sub(1),
                word if depth == 0 => head.push(word),
                _ => {}
            }
        }
        if head.contains(&"for") {
            continue;
        }
        let mut depth = 0usize;
        let has_method = tokens[open..]
            .iter()
            .map_while(|token| {
                match token.as_str() {
                    "{" => depth += 1,
                    "}" => depth -= 1,
                    _ => {}
                }
                (depth > 0).then_some(token)
            })
            .any(|token| token == "fn");
        let name = head.iter().rfind(|word| is_word(word)).filter(|_| has_method);
        found.extend(name.map(ToString::to_string));
    }
    found
}
