//! Text in a page: escaped, and with a code for each hidden character. Knows nothing of messages.

use crate::visible;

/// Appends text for the content of elements, with a marked code for each hidden character. Characters that
/// change the direction of a line, or are invisible, could make a transcript read differently from what ran.
pub(super) fn shown(text: &str, out: &mut String) {
    let mut from = 0usize;
    for (at, c, _) in visible::hidden(text) {
        escape(text.get(from..at).unwrap_or_default(), out);
        out.push_str("<span class=\"x\">");
        visible::push_code(c, out);
        out.push_str("</span>");
        from = at.saturating_add(c.len_utf8());
    }
    escape(text.get(from..).unwrap_or_default(), out);
}

/// Appends text, escaped for the content of elements and for quoted attributes.
pub(super) fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not permitted in a page, whatever a terminal makes of it.
            c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}
