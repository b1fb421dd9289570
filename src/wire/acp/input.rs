//! The message that an editor sends to a session. Pure.

use crate::message::image::Image;
use crate::session::Prompt;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::request::Part;

/// The message of these parts. A file that stands in the prompt by its address is referred to, as if the person had
/// written `@"path"`; a text that comes along is added at the end.
///
/// # Errors
/// For a part that cannot be used, and if nothing is said.
pub fn prompt(parts: Vec<Part>) -> Result<Prompt, Fault> {
    let refused = |message: String| Err(Fault::new(Code::InvalidParams, message));
    let (mut prompt, mut further) = (Prompt::default(), String::new());
    for part in parts {
        match part {
            Part::Text(text) => prompt.message.push_str(&text),
            Part::Link(name, uri) => {
                apart(&mut prompt.message);
                match path(&uri) {
                    Some(path) => prompt.message.push_str(&format!("@\"{path}\"")),
                    None if name.is_empty() || name == uri => prompt.message.push_str(&uri),
                    None => prompt.message.push_str(&format!("[{name}]({uri})")),
                }
            }
            Part::Embedded(uri, text) => {
                let name = path(&uri).unwrap_or(uri);
                further.push_str(&format!("\n\n{name}:\n{}", fenced(&text)));
            }
            Part::Image(mime_type, data) => match Image::from_base64(&mime_type, &data) {
                Ok(image) => prompt.images.push(image),
                Err(error) => return refused(format!("An image is refused: {error}.")),
            },
            Part::Other(what) => {
                return refused(format!("The prompt has {what}, which is not among the capabilities."));
            }
        }
    }
    prompt.message.push_str(&further);
    if prompt.message.trim().is_empty() && prompt.images.is_empty() {
        return refused("The prompt says nothing: it needs a text or an image.".to_owned());
    }
    Ok(prompt)
}

/// Ends a word.
fn apart(text: &mut String) {
    if text.chars().next_back().is_some_and(|last| !last.is_whitespace()) {
        text.push(' ');
    }
}

/// The path in a file's address, if it can be quoted.
fn path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let rest = rest.split(['#', '?']).next().unwrap_or_default();
    let path = decoded(rest)?;
    let is_usable = path.starts_with('/') && !path.contains(['"', '\n']);
    is_usable.then_some(path)
}

/// A text without its percent signs; `None` if that is none.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// A text as a block of Markdown that it cannot end.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one_message() {
        let text = |text: &str| Part::Text(text.to_owned());
        let link = |name: &str, uri: &str| Part::Link(name.to_owned(), uri.to_owned());
        for (parts, expected) in [
            (
                vec![text("Look at"), link("a b", "file:///p/a%20b#L1"), text(" now")],
                "Look at @\"/p/a b\" now",
            ),
            (vec![link("site", "https://x.example")], "[site](https://x.example)"),
            (vec![link("", "https://x.example")], "https://x.example"),
            (vec![link("f", "file:///a%22b")], "[f](file:///a%22b)"),
            (
                vec![Part::Embedded("file:///p/a".to_owned(), "```".to_owned()), text("What?")],
                "What?\n\n/p/a:\n````\n```\n````",
            ),
        ] {
            assert_eq!(prompt(parts).unwrap().message, expected);
        }
        for parts in [vec![], vec![text(" ")], vec![Part::Other("audio")]] {
            assert!(prompt(parts).is_err());
        }
    }
}
