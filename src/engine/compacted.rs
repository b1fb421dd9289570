//! The rest of a compacted conversation besides its summary: the user's own messages, and the files that were read and changed.
//!
//! Pure: entries in, text out. What is kept is chosen when the compaction is written, and read from the journal by the ids of
//! its entries, so that every later request has the same.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalogue::tools::{ToolKind, ToolRow};
use crate::context::delimiters::marked;
use crate::limits::{COMPACT_FILES, COMPACT_SHORTEST_BYTES, COMPACT_TRIES, COMPACT_USER_TOKENS};
use crate::message::{EntryId, Message, Role};
use crate::store::record::Compaction;
use crate::store::{Entry, EntryBody};
use crate::value::Value;

/// Bytes of the user's messages that a compacted conversation keeps. After each compaction that was not enough, a quarter of
/// that, and at last none.
pub fn user_bytes(window: u64, tries: u32) -> u64 {
    let bytes = COMPACT_USER_TOKENS.min(window / 8).saturating_mul(4);
    if tries.saturating_add(1) >= COMPACT_TRIES { 0 } else { bytes >> tries.saturating_mul(2) }
}

/// A compaction of what is on the branch before its first kept entry.
pub fn compaction(
    branch: &imbl::Vector<Arc<Entry>>,
    summary: String,
    first_kept: EntryId,
    tokens_before: u64,
    user_bytes: u64,
) -> Compaction {
    let (mut user_messages, mut files_read, mut files_changed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in branch.iter().take_while(|entry| entry.id != first_kept) {
        let Some(message) = entry.body.message() else { continue };
        if message.role == Role::User {
            user_messages.push(message.id.clone());
        }
        let path = message.details.as_ref().and_then(|details| details.get("path")).and_then(Value::as_str);
        let kind = message.tool_name.as_deref().and_then(ToolRow::of).map(|row| row.kind);
        match (kind, path) {
            (Some(ToolKind::Read), Some(path)) => note(&mut files_read, path),
            (Some(ToolKind::Edit), Some(path)) if message.is_error == Some(false) => {
                note(&mut files_changed, path);
            }
            _ => {}
        }
    }
    Compaction {
        tokens_before,
        user_messages,
        user_bytes,
        files_read,
        files_changed,
        ..Compaction::new(summary, first_kept)
    }
}

/// Adds a path at the end, and drops the oldest one where there are too many.
fn note(paths: &mut Vec<String>, path: &str) {
    paths.retain(|known| known != path);
    paths.push(path.to_owned());
    if paths.len() > COMPACT_FILES {
        paths.remove(0);
    }
}

/// The text for the model that a compaction keeps besides its summary; empty for nothing.
pub fn kept_text(compaction: &Compaction, branch: &imbl::Vector<Arc<Entry>>) -> String {
    let mut parts = Vec::new();
    let texts = user_texts(compaction, branch);
    if !texts.is_empty() {
        let budget = usize::try_from(compaction.user_bytes).unwrap_or(usize::MAX);
        parts.push(format!("The user's messages of the earlier conversation:\n{}", within(&texts, budget)));
    }
    for (what, paths) in [("read", &compaction.files_read), ("changed", &compaction.files_changed)] {
        if !paths.is_empty() {
            parts.push(format!("Files that were {what}, the newest last: {}.", paths.join(", ")));
        }
    }
    parts.join("\n\n")
}

/// The texts of the messages that a compaction keeps, as the model got them, oldest first.
fn user_texts(compaction: &Compaction, branch: &imbl::Vector<Arc<Entry>>) -> Vec<String> {
    if compaction.user_messages.is_empty() {
        return Vec::new();
    }
    let mut rewritten: HashMap<&EntryId, &str> = HashMap::new();
    let mut messages: Vec<&Arc<Message>> = Vec::new();
    for entry in branch {
        match &entry.body {
            EntryBody::Rewritten(other) => {
                rewritten.insert(&other.entry_id, &other.text);
            }
            // Both are in the order of the branch.
            EntryBody::Message(message)
                if compaction.user_messages.get(messages.len()) == Some(&message.id) =>
            {
                messages.push(message);
            }
            _ => {}
        }
    }
    let text = |message: &Arc<Message>| {
        rewritten.get(&message.id).map_or_else(|| message.text(), |text| (*text).to_owned())
    };
    messages.into_iter().map(text).filter(|text| !text.trim().is_empty()).collect()
}

/// Messages within a budget of bytes: the first and the newest come first. What does not fit is shortened in its middle, or
/// left out.
fn within(texts: &[String], budget: usize) -> String {
    let mut kept: Vec<Option<String>> = vec![None; texts.len()];
    let mut left = budget;
    let mut take = |place: usize, most: usize| {
        let (Some(text), Some(slot)) = (texts.get(place), kept.get_mut(place)) else { return };
        let most = most.min(left);
        if text.len() > most && most < COMPACT_SHORTEST_BYTES {
            return;
        }
        let text = shortened(text, most);
        left = left.saturating_sub(text.len());
        *slot = Some(text);
    };
    // Not all of it, so that the newest has room.
    take(0, if texts.len() > 1 { budget / 2 } else { budget });
    for place in (1..texts.len()).rev() {
        take(place, budget);
    }
    let mut out = String::new();
    let mut left_out = 0usize;
    let say_left_out = |out: &mut String, left_out: &mut usize| {
        if *left_out > 0 {
            out.push_str(&format!("[… {left_out} messages left out …]\n"));
            *left_out = 0;
        }
    };
    for text in kept {
        match text {
            Some(text) => {
                say_left_out(&mut out, &mut left_out);
                out.push_str(&format!("{}\n", marked("user-message", &[], text.as_ref())));
            }
            None => left_out = left_out.saturating_add(1),
        }
    }
    say_left_out(&mut out, &mut left_out);
    out.truncate(out.trim_end().len());
    out
}

/// The start and the end of a text of more than so many bytes, with a mark between. The mark comes on top.
pub fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let start = (0..=half).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let from = text.len().saturating_sub(half);
    let end = (from..=text.len()).find(|from| text.is_char_boundary(*from)).unwrap_or(text.len());
    let (head, tail) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    format!("{head}\n[… {} bytes left out …]\n{tail}", end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_newest_messages_come_first_within_budget() {
        let texts: Vec<String> = (0..6).map(|n| format!("{n}").repeat(1000)).collect();
        let all = within(&texts, 6000);
        for text in &texts {
            assert!(all.contains(text.as_str()));
        }
        let some = within(&texts, 3000);
        let whole: Vec<bool> = texts.iter().map(|text| some.contains(text.as_str())).collect();
        assert_eq!(whole, [true, false, false, false, true, true]);
        assert!(some.contains("[… 3 messages left out …]"), "{some}");
        // One that is too long is shortened in its middle, and the newest has room beside it.
        let long = format!("RULE-START {} RULE-END", "x".repeat(10_000));
        let texts = [long, "the newest".to_owned()];
        let some = within(&texts, 2000);
        assert!(some.contains("RULE-START") && some.contains("RULE-END") && some.contains("the newest"));
        assert!(some.len() < 2200, "{}", some.len());
        assert_eq!(within(&texts[1..], 0), "[… 1 messages left out …]");
    }

    #[test]
    fn shortened_text_keeps_both_ends_and_characters() {
        assert_eq!(shortened("short", 5), "short");
        let text = shortened(&"é".repeat(100), 21);
        assert!(text.starts_with("ééééé\n[… 180 bytes left out …]\n") && text.ends_with("ééééé"), "{text}");
    }
}
