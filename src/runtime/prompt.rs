//! The system prompt.

use crate::projection::SessionFacts;

/// What the model is told before the conversation. Short: a small model's window is mostly its own.
pub fn system(facts: &SessionFacts) -> String {
    format!(
        "You are a coding assistant inside a text editor. Answer the user's request directly and briefly, \
         in Markdown, with code in fenced blocks. Say so when you do not know. \
         The user works in the folder {}.",
        facts.cwd
    )
}
