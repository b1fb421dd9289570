//! The parts of an answer, in the order in which the model gave them. Does not know the journal.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::event::ToolCall;
use crate::message::{Block, Replay, Sources};
use crate::value::Value;

/// One part.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Thinking(Thought),
    Call(Box<ToolCall>),
    /// An image, which only external agents give.
    Image(Block),
    /// The web pages that the answer rests on.
    Sources(Arc<Sources>),
    /// Data that goes back to the provider.
    Replay {
        data: Value<'static>,
        is_attached: bool,
    },
}

/// Thinking, and how long it took.
#[derive(Debug, Clone, Default)]
struct Thought {
    text: String,
    /// When its first piece came, by a clock of the caller's.
    began: Duration,
    /// When it was over; `None` while it goes on.
    ended: Option<Duration>,
}

/// The parts of one answer.
#[derive(Debug, Clone, Default)]
pub struct AnswerParts(Vec<Part>);

impl AnswerParts {
    /// Adds text: more of the last part, if that is text.
    pub fn text(&mut self, piece: String) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push_str(&piece),
            _ => self.0.push(Part::Text(piece)),
        }
    }

    /// Adds thinking: more of the last part, if that is thinking. `now` is by any clock that does not go back.
    pub fn thinking(&mut self, piece: String, now: Duration) {
        match self.0.last_mut() {
            Some(Part::Thinking(thought)) => {
                thought.text.push_str(&piece);
                thought.ended = None;
            }
            _ => self.0.push(Part::Thinking(Thought { text: piece, began: now, ended: None })),
        }
    }

    /// The thinking that goes on, if any, is over.
    pub fn end_thinking(&mut self, now: Duration) {
        if let Some(Part::Thinking(thought)) =
            self.0.iter_mut().rfind(|part| !matches!(part, Part::Replay { .. }))
        {
            thought.ended.get_or_insert(now);
        }
    }

    /// Adds a call.
    pub fn call(&mut self, call: ToolCall) {
        self.0.push(Part::Call(Box::new(call)));
    }

    /// Adds an image.
    pub fn image(&mut self, image: Block) {
        self.0.push(Part::Image(image));
    }

    /// Adds the web pages that the answer rests on.
    pub fn sources(&mut self, sources: Arc<Sources>) {
        self.0.push(Part::Sources(sources));
    }

    /// Adds data that goes back to the provider.
    pub fn replay(&mut self, data: Value<'static>, is_attached: bool) {
        self.0.push(Part::Replay { data, is_attached });
    }

    /// All text.
    pub fn all_text(&self) -> Cow<'_, str> {
        joined(self.0.iter().filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None }))
    }

    /// All thinking.
    pub fn all_thinking(&self) -> Cow<'_, str> {
        joined(
            self.0.iter().filter_map(|part| {
                if let Part::Thinking(thought) = part { Some(&thought.text) } else { None }
            }),
        )
    }

    /// The calls.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.0.iter().filter_map(|part| if let Part::Call(call) = part { Some(&**call) } else { None })
    }

    /// Puts another text in the place of the first, and removes the others. What the provider wants back with a text of its
    /// own goes with it, and the sources; the other parts keep theirs.
    pub fn set_text(&mut self, new: &str) {
        let mut new = Some(Part::Text(new.to_owned()));
        let mut is_after_text = false;
        let mut kept = Vec::with_capacity(self.0.len());
        for part in self.0.drain(..) {
            let is_own = matches!(part, Part::Replay { is_attached: true, .. }) && is_after_text;
            is_after_text = matches!(part, Part::Text(_)) || is_own;
            match part {
                Part::Text(_) => kept.extend(new.take()),
                _ if is_own => {}
                // They tell where in the text each of them counts.
                Part::Sources(_) => {}
                part => kept.push(part),
            }
        }
        kept.extend(new);
        self.0 = kept;
    }

    /// Leaves of calls whose arguments do not end the fields that do.
    pub fn keep_whole_fields(&mut self, kept: impl Fn(&str) -> Value<'static>) {
        for part in &mut self.0 {
            if let Part::Call(call) = part
                && let Some(unreadable) = call.parsed.unreadable()
            {
                call.parsed = kept(&unreadable.text).into();
                call.arguments = call.parsed.text().into();
            }
        }
    }

    /// Removes the calls, with what the provider wants back with them.
    pub fn remove_calls(&mut self) {
        let mut is_after_call = false;
        self.0.retain(|part| {
            let is_own = matches!(part, Part::Replay { is_attached: true, .. }) && is_after_call;
            is_after_call = matches!(part, Part::Call(_)) || is_own;
            !is_after_call
        });
    }

    /// The parts as a message has them.
    pub fn into_content(self) -> (Vec<Block>, Vec<Replay>) {
        let (mut content, mut replays) = (Vec::new(), Vec::new());
        for part in self.0 {
            match part {
                Part::Text(text) if text.is_empty() => {}
                Part::Text(text) => content.push(Block::Text(text.into())),
                Part::Thinking(thought) => {
                    let took = thought.ended.and_then(|ended| ended.checked_sub(thought.began));
                    let millis = took.and_then(|took| u64::try_from(took.as_millis()).ok());
                    let duration_ms = millis.filter(|millis| *millis > 0);
                    content.push(Block::Thinking { text: thought.text.into(), duration_ms });
                }
                Part::Call(call) => {
                    content.push(Block::ToolCall { id: call.id, name: call.name, arguments: call.parsed })
                }
                Part::Image(image) => content.push(image),
                Part::Sources(sources) => content.push(Block::Sources(sources)),
                Part::Replay { data, is_attached } => {
                    replays.push(Replay { place: content.len(), is_attached, data });
                }
            }
        }
        (content, replays)
    }
}

/// Pieces as one text, without a copy where there is one.
fn joined<'p>(mut pieces: impl Iterator<Item = &'p String>) -> Cow<'p, str> {
    let Some(first) = pieces.next() else { return Cow::Borrowed("") };
    match pieces.next() {
        None => Cow::Borrowed(first),
        Some(second) => {
            let mut all = format!("{first}{second}");
            pieces.for_each(|piece| all.push_str(piece));
            Cow::Owned(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: "t".into(),
            summary: "".into(),
            arguments: "".into(),
            parsed: Value::Nil.into(),
        }
    }

    fn parts() -> AnswerParts {
        let mut parts = AnswerParts::default();
        parts.thinking("w".to_owned(), Duration::from_secs(1));
        parts.thinking("hy".to_owned(), Duration::from_secs(2));
        parts.end_thinking(Duration::from_secs(4));
        parts.replay(Value::from("thinking"), false);
        parts.end_thinking(Duration::from_secs(5));
        parts.text("a".to_owned());
        parts.text("b".to_owned());
        parts.replay(Value::from("of ab"), true);
        parts.call(call("c"));
        parts.replay(Value::from("of c"), true);
        parts.text("z".to_owned());
        parts
    }

    /// A letter for each block, and the replays between them.
    fn shape(parts: AnswerParts) -> String {
        let (content, replays) = parts.into_content();
        let mut shape = String::new();
        for place in 0..=content.len() {
            for replay in replays.iter().filter(|replay| replay.place == place) {
                shape += &format!("({})", replay.data.as_str().unwrap());
            }
            shape += match content.get(place) {
                Some(Block::Text(text) | Block::Thinking { text, .. }) => text,
                Some(Block::ToolCall { id, .. }) => id,
                _ => "",
            };
        }
        shape
    }

    #[test]
    fn parts_and_replays_keep_their_order() {
        assert_eq!(shape(parts()), "why(thinking)ab(of ab)c(of c)z");
        assert_eq!((&*parts().all_text(), &*parts().all_thinking()), ("abz", "why"));
    }

    #[test]
    fn thinking_lasts_until_something_else_comes() {
        let (content, _) = parts().into_content();
        let thought = Block::Thinking { text: "why".into(), duration_ms: Some(3000) };
        assert_eq!(content.first(), Some(&thought));
        let mut parts = AnswerParts::default();
        parts.thinking("cut off".to_owned(), Duration::from_secs(1));
        assert_eq!(parts.into_content().0, [Block::thinking("cut off")]);
    }

    #[test]
    fn changed_text_and_removed_calls_lose_their_own_replays() {
        let mut changed = parts();
        changed.set_text("new");
        assert_eq!(shape(changed), "why(thinking)newc(of c)");
        let mut without = parts();
        without.remove_calls();
        assert_eq!(shape(without), "why(thinking)ab(of ab)z");
        let mut silent = AnswerParts::default();
        silent.set_text("said");
        assert_eq!(shape(silent), "said");
    }
}
