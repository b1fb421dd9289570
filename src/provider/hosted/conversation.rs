//! A conversation in the common form of hosted models: turns of both sides, each with parts.
//!
//! Each protocol writes the same parts in its own shape; the common work is done here. Adjacent messages of
//! one side are joined, a call's result belongs to the user's side, empty messages are dropped, and the last
//! turn is the user's. Knows no protocol.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::message::{Arguments, Block, Message, Role};
use crate::value::Value;

/// A turn of one side.
#[derive(Debug)]
pub struct Utterance<'a> {
    /// Whether it is the model's.
    pub by_model: bool,
    /// Its parts, in order.
    pub parts: Vec<ContentPart<'a>>,
}

/// One part of what was said.
#[derive(Debug)]
pub enum ContentPart<'a> {
    /// Text that is not blank.
    Text(Cow<'a, str>),
    /// The model's thinking, as displayed.
    Thinking(&'a str),
    /// An image.
    Image(EncodedImage<'a>),
    /// A call.
    Call {
        /// Its id, in an alphabet that all providers accept.
        id: Cow<'a, str>,
        /// The tool.
        name: &'a str,
        /// The arguments.
        arguments: &'a Arguments,
    },
    /// A call's result.
    Result {
        /// The call's id.
        id: Cow<'a, str>,
        /// The tool.
        name: &'a str,
        /// Whether it failed.
        failed: bool,
        /// The text; never empty.
        text: String,
        /// Images of the result.
        images: Vec<EncodedImage<'a>>,
    },
    /// Data from the same model's message that it needs back. It precedes the message's other parts.
    Replay(&'a Value<'static>),
}

/// An image in base64.
#[derive(Debug, Clone, Copy)]
pub struct EncodedImage<'a> {
    /// The MIME type.
    pub mime_type: &'a str,
    /// The bytes.
    pub data: &'a str,
}

impl EncodedImage<'_> {
    /// The image as a data URL.
    pub fn url(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data)
    }
}

/// The user's text after an answer that broke off.
const GO_ON: &str = "Go on.";

/// The text of a result without text.
const NOTHING: &str = "(no output)";

/// The conversation for a provider's model.
pub fn of<'a>(messages: &'a [Arc<Message>], provider: &str, model: &str) -> Vec<Utterance<'a>> {
    let mut utterances: Vec<Utterance<'a>> = Vec::new();
    for message in messages {
        let by_model = message.role == Role::Assistant;
        let parts = parts(message, provider, model);
        if parts.is_empty() {
            continue;
        }
        match utterances.last_mut() {
            Some(last) if last.by_model == by_model => last.parts.extend(parts),
            _ => utterances.push(Utterance { by_model, parts }),
        }
    }
    if utterances.last().is_none_or(|last| last.by_model) {
        utterances.push(Utterance { by_model: false, parts: vec![ContentPart::Text(GO_ON.into())] });
    }
    utterances
}

fn parts<'a>(message: &'a Message, provider: &str, model: &str) -> Vec<ContentPart<'a>> {
    if message.role == Role::Tool {
        let images = message.content.iter().filter_map(image).collect();
        let text = message.text();
        return vec![ContentPart::Result {
            id: call_id(message.tool_call_id.as_deref().unwrap_or_default()),
            name: message.tool_name.as_deref().unwrap_or_default(),
            failed: message.is_error == Some(true),
            text: if text.trim().is_empty() { NOTHING.to_owned() } else { text },
            images,
        }];
    }
    let mut parts = Vec::new();
    if let Some(replay) = &message.replay
        && replay.get("provider").and_then(Value::as_str) == Some(provider)
        && replay.get("model").and_then(Value::as_str) == Some(model)
        && let Some(data) = replay.get("data")
    {
        parts.push(ContentPart::Replay(data));
    }
    for block in &message.content {
        match block {
            Block::Text(text) if !text.trim().is_empty() => {
                parts.push(ContentPart::Text(Cow::Borrowed(text)))
            }
            Block::Thinking(text) if !text.trim().is_empty() => parts.push(ContentPart::Thinking(text)),
            Block::Text(_) | Block::Thinking(_) => {}
            Block::ToolCall { id, name, arguments } => {
                parts.push(ContentPart::Call { id: call_id(id), name, arguments });
            }
            Block::Image { .. } => parts.extend(image(block).map(ContentPart::Image)),
        }
    }
    // A message with nothing but data to replay is dropped.
    if parts.iter().all(|part| matches!(part, ContentPart::Replay(_) | ContentPart::Thinking(_))) {
        parts.clear();
    }
    parts
}

fn image(block: &Block) -> Option<EncodedImage<'_>> {
    match block {
        Block::Image { mime_type, data } => Some(EncodedImage { mime_type, data }),
        _ => None,
    }
}

/// A call's id in a form that every provider accepts. An id from another provider may have another alphabet
/// or length; call and result then get the same replacement.
fn call_id(id: &str) -> Cow<'_, str> {
    const LONGEST: usize = 40;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.len() <= LONGEST && id.chars().all(fits) {
        return id.into();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("call_{:016x}", hasher.finish()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::EntryId;
    use crate::value::Map;

    fn message(role: Role, content: Vec<Block>) -> Message {
        Message::new(EntryId::from("e"), role, content, "".into())
    }

    fn text(role: Role, text: &str) -> Arc<Message> {
        Arc::new(message(role, vec![Block::Text(text.into())]))
    }

    fn shape(utterances: &[Utterance<'_>]) -> String {
        let part = |part: &ContentPart<'_>| match part {
            ContentPart::Text(text) => text.to_string(),
            ContentPart::Thinking(text) => format!("<{text}>"),
            ContentPart::Image(image) => image.mime_type.to_owned(),
            ContentPart::Call { id, name, .. } => format!("{name}#{id}"),
            ContentPart::Result { id, failed, text, images, .. } => {
                format!("#{id}={text}{}{}", if *failed { "!" } else { "" }, "+".repeat(images.len()))
            }
            ContentPart::Replay(data) => format!("({data})"),
        };
        let side = |utterance: &Utterance<'_>| {
            let parts: Vec<String> = utterance.parts.iter().map(part).collect();
            format!("{}: {}", if utterance.by_model { "model" } else { "user" }, parts.join(" "))
        };
        utterances.iter().map(side).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn conversation_alternates_and_ends_with_user() {
        let call = Block::ToolCall {
            id: "functions.read:0".into(),
            name: "read".into(),
            arguments: Value::from(Map::new()).into(),
        };
        let mut result = message(
            Role::Tool,
            vec![Block::Text("".into()), Block::Image { mime_type: "image/png".into(), data: "AA".into() }],
        );
        result.tool_call_id = Some("functions.read:0".into());
        result.is_error = Some(true);
        let messages = [
            text(Role::User, "a"),
            text(Role::System, "b"),
            text(Role::Assistant, "  "),
            Arc::new(message(Role::Assistant, vec![Block::Thinking("t".into()), call])),
            Arc::new(result),
            text(Role::User, "c"),
            text(Role::Assistant, "half"),
        ];
        let id = call_id("functions.read:0").into_owned();
        assert_eq!(id.len(), 21);
        assert_eq!(
            shape(&of(&messages, "p", "m")),
            format!(
                "user: a b | model: <t> read#{id} | user: #{id}=(no output)!+ c | model: half | user: Go on."
            )
        );
        assert_eq!(shape(&of(&[], "p", "m")), "user: Go on.");
        assert_eq!(call_id("toolu_01A-b"), "toolu_01A-b");
    }

    #[test]
    fn replay_data_returns_to_same_model_only() {
        let mut answer = message(Role::Assistant, vec![Block::Text("x".into())]);
        answer.replay =
            Some(Value::from(Map::new().with("provider", "p").with("model", "m").with("data", "sig")));
        let messages = [text(Role::User, "a"), Arc::new(answer), text(Role::User, "b")];
        assert_eq!(shape(&of(&messages, "p", "m")), "user: a | model: (\"sig\") x | user: b");
        for (provider, model) in [("q", "m"), ("p", "n")] {
            assert_eq!(shape(&of(&messages, provider, model)), "user: a | model: x | user: b");
        }
    }
}
