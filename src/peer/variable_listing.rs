//! What a person is shown of the variables of a program before it may start. A value that looks like a key is left out.

use std::borrow::Cow;

use super::settings::{Source, Variable};
use super::variables::names_key;
use crate::http;
use crate::limits::{MCP_DETAILS, PEER_DETAIL_CHARS};
use crate::secret;
use crate::visible;

/// Where a value comes from, or the value itself.
pub fn source_of(name: &str, value: &Variable) -> String {
    let after = |prefix: &str, of: String| match prefix {
        "" => of,
        prefix => format!("{} and {of}", short_line(&format!("\"{prefix}\""))),
    };
    match value {
        Variable::Text(text) => {
            let text = text.expose();
            let named = format!("{name}={text}");
            let is_key = names_key(name) || matches!(secret::mask(&named), Cow::Owned(_));
            // A path is no key, whatever the name says, and may be that of a program.
            if is_key && !text.starts_with(['/', '~', '.']) {
                return "a text that is not shown".to_owned();
            }
            short_line(&format!("\"{}\"", secret::mask(&http::without_keys(text))))
        }
        Variable::Variable { name, prefix } => after(prefix, format!("the variable {}", short_line(name))),
        Variable::KeyOf { provider, prefix } => after(prefix, format!("the key of {}", short_line(provider))),
    }
}

/// The description of a server or an agent before it is started: its command line or address, a line for each of its details,
/// and how many of these are left out.
pub fn described(shown: &str, details: &[(String, String)], source: &Source) -> String {
    let mut text = visible::line(shown).into_owned();
    for (what, value) in details.iter().take(MCP_DETAILS) {
        text.push_str(&format!("\n{what}: {value}"));
    }
    let more = details.len().saturating_sub(MCP_DETAILS);
    if more > 0 {
        text.push_str(&format!("\nand {more} more, which {source} lists"));
    }
    text
}

/// A text as one line that is not too long.
pub fn short_line(text: &str) -> String {
    let line = visible::line(text);
    match line.char_indices().nth(PEER_DETAIL_CHARS) {
        None => line.into_owned(),
        Some((cut, _)) => {
            let all = line.chars().count();
            format!("{}… ({all} characters)", line.get(..cut).unwrap_or_default())
        }
    }
}
