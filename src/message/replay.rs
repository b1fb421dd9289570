//! Data that a provider wants back with an answer, such as a signature of its thinking, each at its place among the parts.
//!
//! Opaque but for its place: nobody but the provider's room reads the data.

use crate::value::{Map, Value};

/// Data of a provider that goes back to it with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The number of the message's blocks before it.
    pub place: usize,
    /// Whether it belongs to the block before it, as a signature of a call does. Else it is a part of its own.
    pub is_attached: bool,
    /// Its origin and the data: `{:provider … :model … :account … :data …}`.
    pub data: Value<'static>,
}

impl Replay {
    /// As a journal keeps it: `[place data]`, and a third element `:attached` where it is.
    pub(super) fn to_value(&self) -> Value<'static> {
        let place = Value::int(i64::try_from(self.place).unwrap_or(i64::MAX));
        let attached = self.is_attached.then(|| Value::keyword("attached"));
        Value::vector([place, self.data.clone()].into_iter().chain(attached))
    }

    fn from_value(value: &Value<'_>) -> Option<Self> {
        let [place, data, rest @ ..] = value.as_slice()? else { return None };
        Some(Self {
            place: usize::try_from(place.as_i64()?).ok()?,
            is_attached: rest.first().and_then(Value::as_keyword) == Some("attached"),
            data: data.clone().into_owned(),
        })
    }
}

/// The replays of a message in a journal, given the places right after its calls.
pub(super) fn from_journal(message: &Value<'_>, after_calls: &[usize]) -> Vec<Replay> {
    if let Some(replays) = message.get("replays").and_then(Value::as_slice) {
        return replays.iter().filter_map(Replay::from_value).collect();
    }
    message.get("replay").map(|replay| old(replay, after_calls)).unwrap_or_default()
}

/// Those of version 0.1, which kept one value for a message. Where it held several parts of the thinking, their places are
/// lost, and a server refuses them elsewhere: they are dropped.
fn old(replay: &Value<'_>, after_calls: &[usize]) -> Vec<Replay> {
    let Some(data) = replay.get("data") else { return Vec::new() };
    let made = |place, is_attached, data: Value<'static>| {
        let mut map = Map::new();
        for key in ["provider", "model"] {
            map.put_some(key, replay.get(key).map(|value| value.clone().into_owned()));
        }
        map.put("data", data);
        Replay { place, is_attached, data: Value::from(map) }
    };
    let signatures = |listed: &[Value<'_>]| -> Vec<Replay> {
        let signed = after_calls.iter().zip(listed).filter_map(|(place, signature)| {
            let signature = signature.as_str()?.to_owned();
            Some(made(*place, true, Value::from(Map::new().with("signature", signature))))
        });
        signed.collect()
    };
    if let Some(field) = data.as_str() {
        return vec![made(0, false, Value::from(Map::new().with("field", field.to_owned())))];
    }
    if let Some(listed) = data.get("signatures").and_then(Value::as_slice) {
        let mut kept = Map::new();
        for key in ["field", "details"] {
            kept.put_some(key, data.get(key).map(|value| value.clone().into_owned()));
        }
        return std::iter::once(made(0, false, Value::from(kept))).chain(signatures(listed)).collect();
    }
    let items = data.as_slice().unwrap_or_default();
    let is_item = |item: &Value<'_>| match item.as_str() {
        Some(text) => text.starts_with('{'),
        None => item.as_map().is_some(),
    };
    match items {
        [item] if is_item(item) => {
            let data = match item.as_str() {
                Some(text) => Value::from(Map::new().with("item", text.to_owned())),
                None => item.clone().into_owned(),
            };
            vec![made(0, false, data)]
        }
        items if items.iter().any(is_item) => Vec::new(),
        items => signatures(items),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arguments, Block, EntryId, Message, Role};
    use super::*;
    use crate::edn;

    fn call(id: &str) -> Block {
        Block::ToolCall {
            id: id.into(),
            name: "t".into(),
            arguments: Arguments::from(Value::from(Map::new())),
        }
    }

    fn read(old: &str) -> Vec<String> {
        let content = vec![Block::thinking("t"), call("a"), call("b")];
        let message = Message::new(EntryId::from("e"), Role::Assistant, content, "t".into());
        let Value::Map(mut map) = message.to_journal() else { panic!() };
        let old = format!("{{:provider \"p\" :model \"m\" :data {old}}}");
        map.put("replay", edn::read_one(old.as_bytes()).unwrap().into_owned());
        let read = Message::from_value(&Value::from(map)).unwrap();
        assert_eq!(
            Message::from_value(&read.to_journal()).as_ref(),
            Some(&read),
            "it is kept in the new form"
        );
        let shown = |replay: &Replay| {
            assert_eq!(replay.data.get("provider").and_then(Value::as_str), Some("p"));
            format!(
                "{}{} {}",
                replay.place,
                if replay.is_attached { "+" } else { "" },
                replay.data.get("data").unwrap()
            )
        };
        read.replays.iter().map(shown).collect()
    }

    #[test]
    fn old_journal_gives_replays_their_places_or_drops_them() {
        for (old, expected) in [
            // Anthropic.
            (r#"[{:thinking "t" :signature "s"}]"#, &[r#"0 {:thinking "t" :signature "s"}"#][..]),
            (r#"[{:thinking "t" :signature "s"} {:redacted "r"}]"#, &[]),
            // Responses.
            (r#"["{\"id\":1}"]"#, &[r#"0 {:item "{\"id\":1}"}"#]),
            (r#"["{\"id\":1}" "{\"id\":2}"]"#, &[]),
            // Gemini.
            (r#"[nil "s"]"#, &[r#"3+ {:signature "s"}"#]),
            (r#"["s"]"#, &[r#"2+ {:signature "s"}"#]),
            // Chat Completions.
            (r#""reasoning""#, &[r#"0 {:field "reasoning"}"#]),
            (
                r#"{:field "reasoning" :details ["{}"] :signatures ["s" nil]}"#,
                &[r#"0 {:field "reasoning" :details ["{}"]}"#, r#"2+ {:signature "s"}"#],
            ),
            ("7", &[]),
        ] {
            assert_eq!(read(old), expected, "{old}");
        }
    }
}
