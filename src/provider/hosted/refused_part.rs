//! The part of a conversation that a server names when it refuses a request. Knows the ways to write a place, and no protocol.

use super::history::{HistoryIndex, Source};
use crate::message::{Block, Message};
use std::sync::Arc;

/// The lists of messages in a request.
const LISTS: [&str; 3] = ["messages", "input", "contents"];

/// The lists of parts in a message.
const PARTS: [&str; 3] = ["content", "parts", "output"];

/// The place that words name, such as `messages.12.content.0` or `input[3]`: the number of a message, and of its part.
pub fn place(words: &str) -> Option<(usize, Option<usize>)> {
    LISTS.iter().find_map(|list| {
        words.match_indices(list).find_map(|(at, list)| {
            let (message, rest) = index(words.get(at.saturating_add(list.len())..)?)?;
            let rest = rest.trim_start_matches('.');
            let part = PARTS.iter().find_map(|list| index(rest.strip_prefix(list)?));
            Some((message, part.map(|(part, _)| part)))
        })
    })
}

/// A number in front of a text, as `.12` or `[12]`, and the rest.
fn index(text: &str) -> Option<(usize, &str)> {
    let text = text.strip_prefix('.').unwrap_or(text);
    let inner = text.strip_prefix('[').unwrap_or(text);
    let end = inner.find(|c: char| !c.is_ascii_digit()).unwrap_or(inner.len());
    let (digits, rest) = inner.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest.strip_prefix(']').unwrap_or(rest)))
}

/// The message of the conversation at a place of the request.
pub fn message(index: &HistoryIndex, place: (usize, Option<usize>)) -> Option<usize> {
    index.sources(place.0, place.1).first().map(|source| source.message)
}

/// The images at a place of the request: each the numbers of its message and of its block there.
pub fn images(
    index: &HistoryIndex,
    place: (usize, Option<usize>),
    messages: &[Arc<Message>],
) -> Vec<(usize, usize)> {
    let is_image = |(message, block): &(usize, usize)| {
        let content = messages.get(*message).map(|message| message.content.as_slice());
        matches!(content.and_then(|content| content.get(*block)), Some(Block::Image { .. }))
    };
    let blocks = |Source { message, block }| match block {
        Some(block) => vec![(message, block)],
        None => {
            let count = messages.get(message).map_or(0, |message| message.content.len());
            (0..count).map(|block| (message, block)).collect()
        }
    };
    index.sources(place.0, place.1).into_iter().flat_map(blocks).filter(is_image).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_read_in_every_form() {
        for (words, expected) in [
            ("messages.12.content.0.image.source: too large", Some((12, Some(0)))),
            ("Invalid 'messages[3].content[1].image_url.url'.", Some((3, Some(1)))),
            ("messages.[4].content", Some((4, None))),
            ("messages[1]: unknown variant `image_url`", Some((1, None))),
            ("Invalid 'input[3]': bad", Some((3, None))),
            ("input[7].output[1]", Some((7, Some(1)))),
            ("* GenerateContentRequest.contents[4].parts[0].inline_data: bad", Some((4, Some(0)))),
            ("the messages are wrong; see messages[2]", Some((2, None))),
            ("input token count exceeds", None),
            ("messages: at least one message is required", None),
            ("", None),
        ] {
            assert_eq!(place(words), expected, "{words}");
        }
    }
}
