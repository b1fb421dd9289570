//! A conversation in the common form of hosted models: turns of both sides, each with parts.
//!
//! Each protocol writes the same parts in its own shape; the common work is done here. Adjacent messages of
//! one side are joined, a call's result belongs to the user's side, each call has exactly one result, empty messages are
//! dropped, the user begins, and the last turn is the user's. Each part knows where it comes from. Knows no protocol.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::account::Account;
use super::json;
use crate::message::{Arguments, Block, Message, Replay, Role, WithheldPart, image};
use crate::provider::ModelRequest;
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
    /// Parts of the conversation that the server refused.
    pub withheld_parts: &'t [WithheldPart],
    /// Whether the images of results follow them as the user's, for want of another place.
    pub images_follow: bool,
}

/// A turn of one side.
#[derive(Debug)]
pub struct Utterance<'a> {
    /// Whether it is the model's.
    pub by_model: bool,
    /// Its parts, in order.
    pub parts: Vec<HistoryPart<'a>>,
}

/// One part of a turn, and its source.
#[derive(Debug)]
pub struct HistoryPart<'a> {
    /// Where it comes from; `None` for words that are added.
    pub source: Option<Source>,
    /// The part.
    pub content: ContentPart<'a>,
}

/// The place of a part in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The number of its message.
    pub message: usize,
    /// The number of its block there; `None` for a result, which is the whole message.
    pub block: Option<usize>,
}

/// The way back from a written request: for each of its messages, the sources of its parts.
#[derive(Debug, Default)]
pub struct HistoryIndex(Vec<Vec<Option<Source>>>);

impl HistoryIndex {
    /// The next message of the request, with the sources of its parts.
    pub fn message(&mut self, sources: Vec<Option<Source>>) {
        self.0.push(sources);
    }

    /// Where a part of the request comes from, or all of a message's parts.
    pub fn sources(&self, message: usize, part: Option<usize>) -> Vec<Source> {
        let parts = self.0.get(message).map(Vec::as_slice).unwrap_or_default();
        let one = part.and_then(|part| parts.get(part)).map(std::slice::from_ref);
        one.unwrap_or(parts).iter().flatten().copied().collect()
    }
}

/// The content of a part.
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
    /// Whether the server refused it.
    is_refused: bool,
}

impl<'a> EncodedImage<'a> {
    /// An image with the type that its bytes have, whatever it was said to be.
    fn new(mime_type: &'a str, data: &'a str, is_refused: bool) -> Self {
        Self { mime_type: image::type_of_base64(data).unwrap_or(mime_type), data, is_refused }
    }

    /// The image as a data URL.
    pub fn url(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data)
    }
}

impl Target<'_> {
    /// The tools of the server that search the web, as the request offers them.
    pub fn search(&self, request: &ModelRequest) -> Vec<Json> {
        let offered = self.takes.search.iter().filter(|_| request.web_search);
        offered.map(json::from_value).collect()
    }

    /// Whether the server refused a block of a message, or all of it.
    fn refused(&self, message: &Message, block: Option<usize>) -> bool {
        self.withheld_parts.iter().any(|part| part.entry == message.id && part.block == block)
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

/// The user's text before an answer that begins a conversation.
const START: &str = "(The start of the conversation is left out.)";

/// The text of a result without text.
const NOTHING: &str = "(no output)";

/// The result of a call without one.
const INTERRUPTED: &str = "The call was interrupted and has no result.";

/// The words for a message, or a result, that the server refused.
const LEFT_OUT: &str = "[left out: the server of this model refused it]";

/// Longest part of a file's name in the words for an image, in characters.
const SHOWN_NAME: usize = 80;

/// The conversation for a model.
pub fn of<'a>(messages: &'a [Arc<Message>], target: &Target<'_>) -> Vec<Utterance<'a>> {
    let mut writer = Writer::default();
    for (place, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            writer.result(place, message, target);
            continue;
        }
        writer.settle();
        let parts = if target.refused(message, None) {
            let source = Some(Source { message: place, block: None });
            vec![HistoryPart { source, content: ContentPart::Text(LEFT_OUT.into()) }]
        } else {
            parts(place, message, target, &mut writer)
        };
        writer.say(message.role == Role::Assistant, parts);
    }
    writer.settle();
    let mut utterances = writer.utterances;
    remove_open_searches(&mut utterances);
    let last = utterances.last().and_then(|last| last.parts.last());
    let is_paused = last.is_some_and(|last| last.content.is_server_part());
    let words = |words: &'static str| Utterance {
        by_model: false,
        parts: vec![HistoryPart { source: None, content: ContentPart::Text(words.into()) }],
    };
    if utterances.first().is_some_and(|first| first.by_model) {
        utterances.insert(0, words(START));
    }
    if utterances.last().is_none_or(|last| last.by_model) && !is_paused {
        utterances.push(words(GO_ON));
    }
    withhold_images(&mut utterances, target);
    if !target.takes.user_after_result {
        utterances.iter_mut().for_each(join_notes);
    }
    utterances
}

/// A conversation that is being written.
#[derive(Default)]
struct Writer<'a> {
    utterances: Vec<Utterance<'a>>,
    /// The calls without a result so far.
    open: Vec<OpenCall<'a>>,
    /// The ids of all calls, as they are written.
    ids: HashSet<String>,
}

/// A call that has no result yet.
struct OpenCall<'a> {
    /// Its id in the conversation.
    id: &'a str,
    /// Its id in the request.
    written: Cow<'a, str>,
    name: Cow<'a, str>,
}

impl<'a> Writer<'a> {
    /// Adds parts of one side.
    fn say(&mut self, by_model: bool, parts: Vec<HistoryPart<'a>>) {
        match self.utterances.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.by_model == by_model => last.parts.extend(parts),
            _ => self.utterances.push(Utterance { by_model, parts }),
        }
    }

    /// A call's id and name in the target's form. Two calls never have one id, as they may after a change of model.
    fn call(&mut self, id: &'a str, name: &'a str, takes: &Takes) -> (Cow<'a, str>, Cow<'a, str>) {
        let mut written = takes.id(id);
        let mut count = 1;
        while !self.ids.insert(written.to_string()) {
            count += 1;
            written = takes.id(&format!("{id} {count}")).into_owned().into();
        }
        let name = takes.name(name);
        self.open.push(OpenCall { id, written: written.clone(), name: name.clone() });
        (written, name)
    }

    /// Adds a result, if its call is open: every server refuses another.
    fn result(&mut self, place: usize, message: &'a Message, target: &Target<'_>) {
        let id = message.tool_call_id.as_deref().unwrap_or_default();
        let Some(at) = self.open.iter().position(|call| call.id == id) else { return };
        let call = self.open.remove(at);
        let is_refused = target.refused(message, None);
        let text = if is_refused { LEFT_OUT.to_owned() } else { message.text() };
        let images = message.content.iter().enumerate().filter(|_| !is_refused);
        let content = ContentPart::Result {
            id: call.written,
            name: call.name,
            failed: message.is_error == Some(true),
            text: if text.trim().is_empty() { NOTHING.to_owned() } else { text },
            images: images.filter_map(|(n, block)| image(block, target.refused(message, Some(n)))).collect(),
        };
        self.say(false, vec![HistoryPart { source: Some(Source { message: place, block: None }), content }]);
    }

    /// Gives a result to each call that has none: a crash, or an early end of the turn, may have left it.
    fn settle(&mut self) {
        for OpenCall { written: id, name, .. } in std::mem::take(&mut self.open) {
            let text = INTERRUPTED.to_owned();
            let content = ContentPart::Result { id, name, failed: true, text, images: Vec::new() };
            self.say(false, vec![HistoryPart { source: None, content }]);
        }
    }
}

fn parts<'a>(
    place: usize,
    message: &'a Message,
    target: &Target<'_>,
    writer: &mut Writer<'a>,
) -> Vec<HistoryPart<'a>> {
    let takes = &target.takes;
    let mut parts = Vec::new();
    let replays = message.replays.iter().filter(|_| place >= target.withheld);
    let mut replays = replays.filter_map(|replay| Some((replay, own(replay, target)?))).peekable();
    let is_own = replays.peek().is_some();
    let blocks = message.content.iter().map(Some).chain([None]);
    for (n, block) in blocks.enumerate() {
        let source = Some(Source { message: place, block: Some(n) });
        while let Some((_, data)) = replays.next_if(|(replay, _)| replay.place <= n) {
            parts.push(HistoryPart { source, content: ContentPart::Replay(data) });
        }
        let Some(block) = block else { break };
        let content = match block {
            Block::Text(text) if !text.trim().is_empty() => ContentPart::Text(Cow::Borrowed(text)),
            Block::Thinking { text, .. } if is_own && !text.trim().is_empty() => ContentPart::Thinking(text),
            // The data of the server's own searches goes back to it.
            Block::Sources(sources) if !is_own => {
                ContentPart::Text(format!("\n\n{}", sources.plain()).into())
            }
            Block::Text(_) | Block::Thinking { .. } | Block::Sources(_) => continue,
            Block::ToolCall { id, name, arguments } => {
                let (id, name) = writer.call(id, name, takes);
                ContentPart::Call { id, name, arguments }
            }
            Block::Image { mime_type, data } => {
                ContentPart::Image(EncodedImage::new(mime_type, data, target.refused(message, Some(n))))
            }
        };
        parts.push(HistoryPart { source, content });
    }
    // A message with nothing but thinking is dropped.
    if parts.iter().all(is_thinking) {
        parts.clear();
    }
    parts
}

/// Whether a part is nothing without the parts that it led to.
fn is_thinking(part: &HistoryPart<'_>) -> bool {
    matches!(part.content, ContentPart::Replay(_) | ContentPart::Thinking(_))
        && !part.content.is_server_part()
}

fn image(block: &Block, is_refused: bool) -> Option<EncodedImage<'_>> {
    match block {
        Block::Image { mime_type, data } => Some(EncodedImage::new(mime_type, data, is_refused)),
        _ => None,
    }
}

/// Removes the searches of a server that have no result, because their answer was cut off. The last turn may end with one that
/// its server will continue.
fn remove_open_searches(utterances: &mut Vec<Utterance<'_>>) {
    let field = |part: &HistoryPart<'_>, key: &str| match &part.content {
        ContentPart::Replay(data) => {
            let raw: Json = serde_json::from_str(data.get("raw")?.as_str()?).ok()?;
            let is_call = raw.get("type").and_then(Json::as_str) == Some("server_tool_use");
            let place = match key {
                "id" if is_call => "/id",
                "id" => "/toolCall/id",
                _ if is_call => return None,
                _ if raw.get("toolResponse").is_some() => "/toolResponse/id",
                _ => "/tool_use_id",
            };
            raw.pointer(place)?.as_str().map(str::to_owned)
        }
        _ => None,
    };
    let last = utterances.len().saturating_sub(1);
    let mut has_gap = false;
    for (n, utterance) in utterances.iter_mut().enumerate().filter(|(_, utterance)| utterance.by_model) {
        let mut known: HashSet<String> =
            utterance.parts.iter().filter_map(|part| field(part, "tool_use_id")).collect();
        known.extend(utterance.parts.last().filter(|_| n == last).and_then(|part| field(part, "id")));
        utterance.parts.retain(|part| field(part, "id").is_none_or(|id| known.contains(&id)));
        if utterance.parts.iter().all(is_thinking) {
            utterance.parts.clear();
            has_gap = true;
        }
    }
    if has_gap {
        let mut joined = Writer::default();
        std::mem::take(utterances).into_iter().for_each(|one| joined.say(one.by_model, one.parts));
        *utterances = joined.utterances;
    }
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
pub fn without_loose_thinking<'p, 'a>(parts: &'p [HistoryPart<'a>]) -> &'p [HistoryPart<'a>] {
    let is_loose = |part: &HistoryPart<'_>| match &part.content {
        ContentPart::Replay(data) => data.get("raw").is_none() && data.get("citations").is_none(),
        ContentPart::Thinking(_) => true,
        _ => false,
    };
    let end = parts.iter().rposition(|part| !is_loose(part)).map_or(0, |last| last.saturating_add(1));
    parts.get(..end).unwrap_or_default()
}

/// Puts words in the place of each image that the target does not take, and of the oldest ones where there are too many.
fn withhold_images(utterances: &mut [Utterance<'_>], target: &Target<'_>) {
    let takes = &target.takes;
    // The file that a call is about, for the images of its result.
    let mut files: HashMap<String, String> = HashMap::new();
    for part in utterances.iter().flat_map(|utterance| &utterance.parts) {
        if let ContentPart::Call { id, arguments, .. } = &part.content
            && let Some(path) = arguments.get("path").and_then(Value::as_str)
        {
            files.insert(id.to_string(), path.to_owned());
        }
    }
    let kept = withhold_by(utterances, target, &files, takes.image_side);
    // Where there are many, each may have fewer pixels.
    if kept > takes.many_images {
        withhold_by(utterances, target, &files, takes.many_image_side);
    }
}

/// Withholds images that are longer than a side too, and returns the number of those that are left.
fn withhold_by(
    utterances: &mut [Utterance<'_>],
    target: &Target<'_>,
    files: &HashMap<String, String>,
    side: usize,
) -> usize {
    let takes = &target.takes;
    let mut left = takes.most_images;
    for utterance in utterances.iter_mut().rev() {
        let is_result = |part: &HistoryPart<'_>| matches!(part.content, ContentPart::Result { .. });
        let is_alone = takes.user_after_result || !utterance.parts.iter().any(is_result);
        for part in utterance.parts.iter_mut().rev() {
            match &mut part.content {
                ContentPart::Image(image) => {
                    if let Some(words) = withheld(image, None, is_alone, takes, side, &mut left) {
                        part.content = ContentPart::Text(words.into());
                    }
                }
                ContentPart::Result { id, text, images, .. } => {
                    let is_taken = takes.images == ImagePlaces::Results || (target.images_follow && is_alone);
                    let file = files.get(&**id).map(String::as_str);
                    let mut words = Vec::new();
                    let keep = |image: &EncodedImage<'_>| {
                        let withheld = withheld(image, file, is_taken, takes, side, &mut left);
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
    takes.most_images.saturating_sub(left)
}

/// The words for an image that the target does not take: `[image a.png, 640 × 480: why]`.
fn withheld(
    image: &EncodedImage<'_>,
    file: Option<&str>,
    is_place: bool,
    takes: &Takes,
    most_side: usize,
    left: &mut usize,
) -> Option<String> {
    let sides = image::sides(image.data);
    let longer = sides.map(|(width, height)| width.max(height));
    let why = match () {
        () if image.is_refused => "the server of this model refused it".to_owned(),
        () if !image::TYPES.contains(&image.mime_type) => "no model takes its type".to_owned(),
        () if takes.images == ImagePlaces::None => "this model takes none".to_owned(),
        () if !is_place => "this model takes none in or after a tool's result".to_owned(),
        () if image.data.len() > takes.image_bytes => {
            format!("larger than the {} KB in base64 that this model takes", takes.image_bytes / 1024)
        }
        () if longer > Some(most_side) => {
            format!("longer than the {most_side} pixels that this model takes")
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
    let is_result = |part: &HistoryPart<'_>| matches!(part.content, ContentPart::Result { .. });
    let Some(last) = utterance.parts.iter().rposition(is_result) else { return };
    let after: Vec<_> = utterance.parts.drain(last.saturating_add(1)..).collect();
    let Some(ContentPart::Result { text, .. }) = utterance.parts.last_mut().map(|part| &mut part.content)
    else {
        return;
    };
    for part in after {
        if let ContentPart::Text(note) = part.content {
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
        Target { provider, model, takes, account, withheld: 0, withheld_parts: &[], images_follow: true }
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
            let parts: Vec<String> = utterance.parts.iter().map(|one| part(&one.content)).collect();
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
            Arc::new(message(Role::Assistant, vec![Block::thinking("t"), call])),
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
