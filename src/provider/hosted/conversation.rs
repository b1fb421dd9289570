//! A conversation in the common form of hosted models: turns of both sides, each with parts.
//!
//! Each protocol writes the same parts in its own shape; the common work is done here. Adjacent messages of
//! one side are joined, a call's result belongs to the user's side, empty messages are dropped, and the last
//! turn is the user's. Knows no protocol.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::account::Account;
use crate::message::{Arguments, Block, Message, Replay, Role, image};
use crate::provider::takes::{ImagePlaces, Takes};
use crate::value::Value;

/// The model that a conversation is written for.
#[derive(Debug)]
pub struct Target<'t> {
    /// The provider's name.
    pub provider: &'t str,
    /// The model's id.
    pub model: &'t str,
    /// The facts about its requests.
    pub takes: Takes,
    /// The account that the request is made with.
    pub account: Account<'t>,
    /// The number of messages, from the first, whose replays are left out, because the server refused them.
    pub withheld: usize,
    /// Whether the images of results follow them as the user's, for want of another place.
    pub images_follow: bool,
}

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
    /// The target's own thinking, as displayed.
    Thinking(&'a str),
    /// An image.
    Image(EncodedImage<'a>),
    /// A call.
    Call {
        /// Its id, in the target's form.
        id: Cow<'a, str>,
        /// The tool, in the target's form.
        name: Cow<'a, str>,
        /// The arguments.
        arguments: &'a Arguments,
    },
    /// A call's result.
    Result {
        /// The call's id.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// Whether it failed.
        failed: bool,
        /// The text; never empty.
        text: String,
        /// Images of the result.
        images: Vec<EncodedImage<'a>>,
    },
    /// Data that the target needs back at this place; see the protocols.
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

impl ContentPart<'_> {
    /// Whether it is a call of the server's own tools, or another part that only the server knows.
    fn is_server_part(&self) -> bool {
        matches!(self, Self::Replay(data) if data.get("raw").is_some())
    }
}

/// The user's text after an answer that broke off.
const GO_ON: &str = "Go on.";

/// The text of a result without text.
const NOTHING: &str = "(no output)";

/// Longest part of a file's name in the words for an image, in characters.
const SHOWN_NAME: usize = 80;

/// The conversation for a model.
pub fn of<'a>(messages: &'a [Arc<Message>], target: &Target<'_>) -> Vec<Utterance<'a>> {
    let mut utterances: Vec<Utterance<'a>> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let by_model = message.role == Role::Assistant;
        let parts = parts(message, target, place >= target.withheld);
        if parts.is_empty() {
            continue;
        }
        match utterances.last_mut() {
            Some(last) if last.by_model == by_model => last.parts.extend(parts),
            _ => utterances.push(Utterance { by_model, parts }),
        }
    }
    let is_paused =
        utterances.last().and_then(|last| last.parts.last()).is_some_and(ContentPart::is_server_part);
    if utterances.last().is_none_or(|last| last.by_model) && !is_paused {
        utterances.push(Utterance { by_model: false, parts: vec![ContentPart::Text(GO_ON.into())] });
    }
    withhold_images(&mut utterances, target);
    if !target.takes.user_after_result {
        utterances.iter_mut().for_each(join_notes);
    }
    utterances
}

fn parts<'a>(message: &'a Message, target: &Target<'_>, with_replays: bool) -> Vec<ContentPart<'a>> {
    let takes = &target.takes;
    if message.role == Role::Tool {
        let images = message.content.iter().filter_map(image).collect();
        let text = message.text();
        return vec![ContentPart::Result {
            id: takes.id(message.tool_call_id.as_deref().unwrap_or_default()),
            name: takes.name(message.tool_name.as_deref().unwrap_or_default()),
            failed: message.is_error == Some(true),
            text: if text.trim().is_empty() { NOTHING.to_owned() } else { text },
            images,
        }];
    }
    let mut parts = Vec::new();
    let replays = message.replays.iter().filter(|_| with_replays);
    let mut replays = replays.filter_map(|replay| Some((replay, own(replay, target)?))).peekable();
    let is_own = replays.peek().is_some();
    let blocks = message.content.iter().map(Some).chain([None]);
    for (place, block) in blocks.enumerate() {
        while let Some((_, data)) = replays.next_if(|(replay, _)| replay.place <= place) {
            parts.push(ContentPart::Replay(data));
        }
        let Some(block) = block else { break };
        match block {
            Block::Text(text) if !text.trim().is_empty() => {
                parts.push(ContentPart::Text(Cow::Borrowed(text)))
            }
            Block::Thinking(text) if is_own && !text.trim().is_empty() => {
                parts.push(ContentPart::Thinking(text));
            }
            Block::Text(_) | Block::Thinking(_) => {}
            Block::ToolCall { id, name, arguments } => {
                parts.push(ContentPart::Call { id: takes.id(id), name: takes.name(name), arguments });
            }
            Block::Image { .. } => parts.extend(image(block).map(ContentPart::Image)),
        }
    }
    // A message with nothing but thinking is dropped.
    let is_thinking = |part: &ContentPart<'_>| {
        matches!(part, ContentPart::Replay(_) | ContentPart::Thinking(_)) && !part.is_server_part()
    };
    if parts.iter().all(is_thinking) {
        parts.clear();
    }
    parts
}

/// The data of a replay, if it is the target's own: of its provider, model, address and account.
fn own<'a>(replay: &'a Replay, target: &Target<'_>) -> Option<&'a Value<'static>> {
    let is = |key: &str, wanted: &str| replay.data.get(key).and_then(Value::as_str) == Some(wanted);
    let is_own = is("provider", target.provider)
        && is("model", target.model)
        // Journals of version 0.1 name no account.
        && replay.data.get("account").is_none_or(|mark| target.account.is(mark));
    replay.data.get("data").filter(|_| is_own)
}

/// Removes thinking from the end of the model's parts: a server refuses it without what it led to, which an interrupt or a hook
/// may have taken away.
pub fn without_loose_thinking<'p, 'a>(parts: &'p [ContentPart<'a>]) -> &'p [ContentPart<'a>] {
    let is_loose = |part: &ContentPart<'_>| match part {
        ContentPart::Replay(data) => data.get("raw").is_none() && data.get("citations").is_none(),
        ContentPart::Thinking(_) => true,
        _ => false,
    };
    let end = parts.iter().rposition(|part| !is_loose(part)).map_or(0, |last| last.saturating_add(1));
    parts.get(..end).unwrap_or_default()
}

fn image(block: &Block) -> Option<EncodedImage<'_>> {
    match block {
        Block::Image { mime_type, data } => Some(EncodedImage { mime_type, data }),
        _ => None,
    }
}

/// Puts words in the place of each image that the target does not take, and of the oldest ones where there are too many.
fn withhold_images(utterances: &mut [Utterance<'_>], target: &Target<'_>) {
    let takes = &target.takes;
    // The file that a call is about, for the images of its result.
    let mut files: HashMap<String, String> = HashMap::new();
    for part in utterances.iter().flat_map(|utterance| &utterance.parts) {
        if let ContentPart::Call { id, arguments, .. } = part
            && let Some(path) = arguments.get("path").and_then(Value::as_str)
        {
            files.insert(id.to_string(), path.to_owned());
        }
    }
    let mut left = takes.most_images;
    for utterance in utterances.iter_mut().rev() {
        let has_results = utterance.parts.iter().any(|part| matches!(part, ContentPart::Result { .. }));
        let is_alone = takes.user_after_result || !has_results;
        for part in utterance.parts.iter_mut().rev() {
            match part {
                ContentPart::Image(image) => {
                    if let Some(words) = withheld(image, None, is_alone, takes, &mut left) {
                        *part = ContentPart::Text(words.into());
                    }
                }
                ContentPart::Result { id, text, images, .. } => {
                    let is_taken = takes.images == ImagePlaces::Results || (target.images_follow && is_alone);
                    let file = files.get(&**id).map(String::as_str);
                    let mut words = Vec::new();
                    let keep = |image: &EncodedImage<'_>| {
                        let withheld = withheld(image, file, is_taken, takes, &mut left);
                        words.extend(withheld.clone());
                        withheld.is_none()
                    };
                    // The newest are the last.
                    images.reverse();
                    images.retain(keep);
                    images.reverse();
                    for line in words.into_iter().rev() {
                        text.push('\n');
                        text.push_str(&line);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The words for an image that the target does not take: `[image a.png, 640 × 480: why]`.
fn withheld(
    image: &EncodedImage<'_>,
    file: Option<&str>,
    is_place: bool,
    takes: &Takes,
    left: &mut usize,
) -> Option<String> {
    let sides = image::sides(image.data);
    let longer = sides.map(|(width, height)| width.max(height));
    let why = match () {
        () if takes.images == ImagePlaces::None => "this model takes none".to_owned(),
        () if !is_place => "this model takes none in or after a tool's result".to_owned(),
        () if image.data.len() > takes.image_bytes => {
            format!("larger than the {} KB in base64 that this model takes", takes.image_bytes / 1024)
        }
        () if longer > Some(takes.image_side) => {
            format!("longer than the {} pixels that this model takes", takes.image_side)
        }
        () => match left.checked_sub(1) {
            Some(rest) => {
                *left = rest;
                return None;
            }
            None => format!("this model takes the newest {} images alone", takes.most_images),
        },
    };
    let name = file.and_then(|file| file.rsplit('/').next()).unwrap_or_default();
    let name: String = name.chars().filter(|character| !character.is_control()).take(SHOWN_NAME).collect();
    let name = if name.is_empty() { name } else { format!(" {name}") };
    let sides = sides.map(|(width, height)| format!(", {width} × {height}")).unwrap_or_default();
    Some(format!("[image{name}{sides}: {why}]"))
}

/// Puts what the user says right after results into the last of them.
fn join_notes(utterance: &mut Utterance<'_>) {
    let Some(last) = utterance.parts.iter().rposition(|part| matches!(part, ContentPart::Result { .. }))
    else {
        return;
    };
    let after: Vec<_> = utterance.parts.drain(last.saturating_add(1)..).collect();
    let Some(ContentPart::Result { text, .. }) = utterance.parts.last_mut() else { return };
    for part in after {
        if let ContentPart::Text(note) = part {
            text.push_str("\n\n<note>\n");
            text.push_str(&note);
            text.push_str("\n</note>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::EntryId;
    use crate::value::Map;

    fn target<'t>(provider: &'t str, model: &'t str) -> Target<'t> {
        let takes = Takes::of("openai", [provider, ""], model, [&[], &[]]);
        let account = Account::new("http://a", "key");
        Target { provider, model, takes, account, withheld: 0, images_follow: true }
    }

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
        let id = target("p", "m").takes.id("functions.read:0").into_owned();
        assert_eq!(
            shape(&of(&messages, &target("p", "m"))),
            format!(
                "user: a b | model: read#{id} | user: #{id}=(no output)!+ c | model: half | user: Go on."
            )
        );
        assert_eq!(shape(&of(&[], &target("p", "m"))), "user: Go on.");
    }

    #[test]
    fn replays_return_to_their_origin_only_each_at_its_place() {
        let own = Account::new("http://a", "key");
        let replay = |place: usize, data: &'static str, account: &Account<'_>| {
            let data = Map::new()
                .with("provider", "p")
                .with("model", "m")
                .with("account", account.mark(&[]))
                .with("data", data);
            Replay { place, is_attached: false, data: Value::from(data) }
        };
        let mut answer = message(Role::Assistant, vec![Block::Text("x".into()), Block::Text("y".into())]);
        answer.replays = vec![replay(0, "0", &own), replay(1, "1", &own), replay(2, "2", &own)];
        let foreign = [
            replay(0, "0", &Account::new("http://a", "another key")),
            replay(1, "1", &Account::new("http://b", "key")),
        ];
        let conversation =
            |answer: &Message| [text(Role::User, "a"), Arc::new(answer.clone()), text(Role::User, "b")];
        let to = |answer: &Message, target: &Target<'_>| shape(&of(&conversation(answer), target));
        assert_eq!(to(&answer, &target("p", "m")), "user: a | model: (\"0\") x (\"1\") y (\"2\") | user: b");
        for (provider, model) in [("q", "m"), ("p", "n")] {
            assert_eq!(to(&answer, &target(provider, model)), "user: a | model: x y | user: b");
        }
        for (withheld, expected) in [(1, "(\"0\") x (\"1\") y (\"2\")"), (2, "x y")] {
            let refused = Target { withheld, ..target("p", "m") };
            assert_eq!(to(&answer, &refused), format!("user: a | model: {expected} | user: b"));
        }
        answer.replays = foreign.into();
        assert_eq!(to(&answer, &target("p", "m")), "user: a | model: x y | user: b");
    }
}
