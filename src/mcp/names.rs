//! The names under which models and people meet what servers have.

use crate::limits::MCP_NAME_BYTES;
use crate::sha256;

/// What stands before the names of everything of a server.
const PREFIX: &str = "mcp";

/// Between the parts of a name. No server's name holds it, so that the parts can be told apart.
pub const BETWEEN: &str = "__";

/// How the names of all of a server's tools begin, unless they are shortened.
pub fn tools_begin(server: &str) -> String {
    format!("{PREFIX}{BETWEEN}{server}{BETWEEN}")
}

/// The name by which models call a server's tool, and people its prompt as a slash command: `mcp__server__tool`, at most
/// 64 of `[A-Za-z0-9_-]`. One that is too long or has other characters ends with a digest of the whole.
pub fn offered(server: &str, tool: &str) -> String {
    let whole = format!("{PREFIX}{BETWEEN}{server}{BETWEEN}{tool}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if whole.len() <= MCP_NAME_BYTES && whole.chars().all(is_plain) {
        return whole;
    }
    let digest = sha256::hex(&whole);
    let digest = digest.get(..8).unwrap_or(&digest);
    let plain = whole.chars().map(|c| if is_plain(c) { c } else { '_' });
    let room = MCP_NAME_BYTES.saturating_sub(digest.len()).saturating_sub(1);
    let start: String = plain.take(room).collect();
    format!("{start}_{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_fits_models_and_stays_distinct() {
        assert_eq!(offered("files", "read_file"), "mcp__files__read_file");
        let long = "x".repeat(100);
        let (one, other) = (offered("files", &long), offered("files", &format!("{long}y")));
        assert_ne!(one, other);
        let dotted = [offered("s", "a.b"), offered("s", "a/b"), offered("s", "a_b"), offered("s", "ä")];
        for name in [one, other].iter().chain(&dotted) {
            assert!(name.len() <= MCP_NAME_BYTES && name.starts_with("mcp__"), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')), "{name}");
        }
        let distinct: std::collections::HashSet<&String> = dotted.iter().collect();
        assert_eq!(distinct.len(), dotted.len());
    }
}
