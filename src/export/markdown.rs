//! Formats a transcript as Markdown. Hidden characters become codes, because a terminal or an editor may display
//! it. Writes no file.

use std::fmt::Write as _;

use super::transcript::{CUT_OFF, Transcript, ended, heading};
use crate::message::{Block, Role};
use crate::visible;

/// The whole transcript.
pub(super) fn document(transcript: &Transcript) -> String {
    let mut out = String::new();
    let title = transcript.title.replace('\n', " ");
    let cwd = visible::line(&transcript.cwd);
    let _ = writeln!(out, "# {title}\n");
    let _ = writeln!(out, "Session {} · {} · `{cwd}`", transcript.session, transcript.created_at);
    for (message, is_cut_off) in transcript.marked() {
        let _ = write!(out, "\n## {} · {}\n", heading(message), message.timestamp);
        for block in &message.content {
            out.push('\n');
            match block {
                Block::Text(text) if message.role == Role::Tool => fenced(&mut out, "", text),
                Block::Text(text) => {
                    out.push_str(text.trim_end());
                    out.push('\n');
                }
                Block::Thinking { text, .. } => {
                    for line in text.trim_end().lines() {
                        let _ = writeln!(out, "> {line}");
                    }
                }
                Block::ToolCall { name, arguments, .. } => {
                    let _ = writeln!(out, "`{}`:\n", visible::line(name));
                    let language = if arguments.unreadable().is_some() { "" } else { "edn" };
                    fenced(&mut out, language, &arguments.text());
                }
                Block::Sources(sources) => out.push_str(&sources.markdown()),
                Block::Image { mime_type, data } => {
                    let _ = writeln!(out, "(An image, {mime_type}, {} bytes of base64.)", data.len());
                }
            }
        }
        if let Some(error) = &message.error_message {
            let _ = writeln!(out, "\n**Failed:** {error}");
        }
        if let Some(ended) = ended(message) {
            let _ = writeln!(out, "\n**{ended}**");
        }
        if is_cut_off {
            let _ = writeln!(out, "\n**{CUT_OFF}**");
        }
    }
    visible::text(&out).into_owned()
}

/// A code block whose fence is longer than any in the text, so that the text cannot end it.
fn fenced(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    let _ = writeln!(out, "{fence}{language}\n{}\n{fence}", text.trim_end());
}
