//! Templates of addresses (RFC 6570), as far as a person can complete them: text with variables in braces, `{name}` and
//! `{+name}`. A template with other expressions is completed up to the first of those. Asks no server.

use std::fmt::Write as _;

/// Where a person is in a template with what they have typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Before a text of the template: the address with it.
    Text(String),
    /// In a variable.
    Variable(Variable),
}

/// A variable that a person types.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// Its name.
    pub(super) name: String,
    /// What was typed of it.
    pub(super) value: String,
    /// The variables before it with their values.
    pub(super) given: Vec<(String, String)>,
    /// The address before it.
    before: String,
    /// Whether it may have the separators of an address in it.
    is_open: bool,
}

/// A part of a template.
enum Part<'t> {
    Text(&'t str),
    Variable { name: &'t str, is_open: bool },
}

/// The next part, and the rest. `None` at the end, or where it is of a kind that nobody can complete.
fn next(template: &str) -> Option<(Part<'_>, &str)> {
    if template.is_empty() {
        return None;
    }
    let Some(inside) = template.strip_prefix('{') else {
        let end = template.find('{').unwrap_or(template.len());
        return Some((Part::Text(template.get(..end)?), template.get(end..)?));
    };
    let (expression, rest) = inside.split_once('}')?;
    let (name, is_open) = match expression.strip_prefix('+') {
        Some(name) => (name, true),
        None => (expression, false),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%');
    let is_plain = !name.is_empty() && name.chars().all(is_name);
    is_plain.then_some((Part::Variable { name, is_open }, rest))
}

/// Where a person is who has typed the start of an address; `None` if it is no address of the template, or all of it.
pub(super) fn place(template: &str, typed: &str) -> Option<Typed> {
    let (mut rest, mut left, mut given) = (template, typed, Vec::new());
    while let Some((part, after)) = next(rest) {
        rest = after;
        match part {
            Part::Text(text) => match left.strip_prefix(text) {
                Some(more) => left = more,
                None if text.starts_with(left) => {
                    let before = typed.strip_suffix(left).unwrap_or(typed);
                    return Some(Typed::Text(format!("{before}{text}")));
                }
                None => return None,
            },
            Part::Variable { name, is_open } => {
                let end = match next(after) {
                    // All of the text behind it, or its start at the end of what was typed.
                    Some((Part::Text(text), _)) => left.find(text).or_else(|| {
                        let at = left.find(['/', '?', '#']).filter(|_| !is_open)?;
                        left.get(at..).is_some_and(|rest| text.starts_with(rest)).then_some(at)
                    }),
                    _ => None,
                };
                let (value, more) = left.split_at_checked(end.unwrap_or(left.len()))?;
                if !is_open && value.contains(['/', '?', '#']) {
                    return None;
                }
                if end.is_none() {
                    let before = typed.strip_suffix(value).unwrap_or(typed).to_owned();
                    let (name, value) = (name.to_owned(), decoded(value));
                    return Some(Typed::Variable(Variable { name, value, given, before, is_open }));
                }
                given.push((name.to_owned(), decoded(value)));
                left = more;
            }
        }
    }
    None
}

impl Variable {
    /// The address with a value for the variable.
    pub(super) fn with(&self, value: &str) -> String {
        let mut address = self.before.clone();
        for byte in value.bytes() {
            let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            if is_plain || self.is_open && b":/?#[]@!$&'()*+,;=%".contains(&byte) {
                address.push(char::from(byte));
            } else {
                let _ = write!(address, "%{byte:02X}");
            }
        }
        address
    }
}

/// A typed value without its codes.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let code = after.split_at_checked(2).filter(|_| *byte == b'%');
        let code = code.and_then(|(code, after)| {
            let code = std::str::from_utf8(code).ok().filter(|code| !code.starts_with('+'))?;
            Some((u8::from_str_radix(code, 16).ok()?, after))
        });
        match code {
            Some((code, after)) => {
                bytes.push(code);
                rest = after;
            }
            None => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_in_a_template_is_found_by_what_was_typed() {
        let text = |text: &str| Some(Typed::Text(text.to_owned()));
        let variable = |name: &str, value: &str, given: &[(&str, &str)], before: &str, is_open| {
            let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let (name, value, before) = (name.to_owned(), value.to_owned(), before.to_owned());
            Some(Typed::Variable(Variable { name, value, given, before, is_open }))
        };
        let two = "repo://{owner}/{name}/issues";
        for (template, typed, expected) in [
            (two, "", text("repo://")),
            (two, "re", text("repo://")),
            (two, "rex", None),
            (two, "repo://", variable("owner", "", &[], "repo://", false)),
            (two, "repo://a%20b", variable("owner", "a b", &[], "repo://", false)),
            (two, "repo://ann/x", variable("name", "x", &[("owner", "ann")], "repo://ann/", false)),
            (two, "repo://ann/x/", text("repo://ann/x/issues")),
            (two, "repo://ann/x/is", text("repo://ann/x/issues")),
            (two, "repo://ann/x/issues", None),
            ("file:///{+path}", "file:///a/b", variable("path", "a/b", &[], "file:///", true)),
            ("file:///{path}", "file:///a/b", None),
            ("x://a{?q,r}", "x:", text("x://a")),
            ("x://a{?q,r}", "x://a", None),
            ("x://{a", "x://", None),
            ("x://{}", "x://", None),
            ("x://{a}{b}", "x://é%4", variable("a", "é%4", &[], "x://", false)),
        ] {
            assert_eq!(place(template, typed), expected, "{template} {typed}");
        }
    }

    #[test]
    fn value_is_written_as_an_address_takes_it() {
        let with = |is_open, value: &str| {
            let variable = Variable {
                name: "v".to_owned(),
                value: String::new(),
                given: Vec::new(),
                before: "x://".to_owned(),
                is_open,
            };
            variable.with(value)
        };
        assert_eq!(with(false, "a b/é"), "x://a%20b%2F%C3%A9");
        assert_eq!(with(true, "a b/c"), "x://a%20b/c");
        assert_eq!(decoded("a%20b%2f%C3%A9%+1%"), "a b/é%+1%");
    }
}
