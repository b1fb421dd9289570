//! Lines that stand for code which a model has left out. Whoever writes one deletes the code that it stands for.

use std::collections::HashSet;

/// How such a line begins, after its indentation.
const MARKS: &[&str] =
    &["//", "/*", "{/*", "#", "--", "<!--", ";", "%", "(*", "\"\"\"", "'", "[", "(", "<", "*"];

/// How it ends.
const ENDS: &[&str] = &["*/}", "*/", "-->", "*)", "\"\"\"", "]", ")", ">"];

/// Its words, in lower case.
const PHRASES: &[&str] = &[
    "existing code",
    "existing content",
    "existing implementation",
    "existing imports",
    "existing methods",
    "existing tests",
    "previous code",
    "previous content",
    "original code",
    "rest of",
    "remaining code",
    "remaining content",
    "remaining methods",
    "remaining implementation",
    "other code",
    "other methods",
    "other functions",
    "other imports",
    "unchanged",
    "same as before",
    "no changes",
    "code continues",
    "omitted for brevity",
    "keep the rest",
    "keep existing",
    "implementation here",
    "code here",
];

/// Words in such a line. A longer one is a sentence, which may be meant.
const WORDS: usize = 8;

/// The first line of a new text that is a placeholder and stands nowhere in the old one.
pub(super) fn find<'n>(new: &'n str, old: &str) -> Option<&'n str> {
    let mut lines = new.lines().map(str::trim).filter(|line| is_placeholder(line)).peekable();
    lines.peek()?;
    let known: HashSet<&str> = old.lines().map(str::trim).collect();
    lines.find(|line| !known.contains(line))
}

/// Whether a line is a comment mark, an ellipsis and a phrase, and nothing else.
fn is_placeholder(line: &str) -> bool {
    if !line.contains("...") && !line.contains('…') {
        return false;
    }
    let Some(rest) = MARKS.iter().find_map(|mark| line.strip_prefix(mark)) else { return false };
    let rest = ENDS.iter().find_map(|end| rest.strip_suffix(end)).unwrap_or(rest);
    let rest =
        rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, '/' | '#' | '-' | '*' | ';' | ':'));
    let (starts, ends) = (rest.starts_with(['.', '…']), rest.ends_with(['.', '…']));
    let says = rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '…')).to_lowercase();
    (starts || ends)
        && says.split_whitespace().count() <= WORDS
        && !says.contains(['=', '{', '}', ';'])
        && PHRASES.iter().any(|phrase| says.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_for_left_out_code_is_found() {
        for (line, expected) in [
            ("  // ... existing code ...", true),
            ("# ... rest of the file ...", true),
            ("/* … unchanged … */", true),
            ("<!-- ... remaining content ... -->", true),
            ("{/* ... existing imports ... */}", true),
            ("-- rest of the query...", true),
            ("[... rest of the code stays ...]", true),
            // These are code, prose or other comments.
            ("// existing code", false),
            ("... existing code ...", false),
            ("// ...", false),
            ("print('... rest of the list ...')", false),
            ("// The loop waits for the rest of the answer, which comes in parts...", false),
            ("f(...rest); // of", false),
        ] {
            assert_eq!(find(&format!("a\n{line}\nb"), "a").is_some(), expected, "{line}");
        }
        assert_eq!(find("// ... rest of it ...", "x\n  // ... rest of it ...\n"), None);
    }
}
