//! What lists of other hosts show of a session. Its text in the realm is a map in EDN.

use std::sync::Arc;

use crate::edn;
use crate::limits::LISTING_TEXT;
use crate::message::{Role, SessionId};
use crate::store::record::TurnEvent;
use crate::store::{Entry, EntryBody};
use crate::value::{Map, Value};

/// What lists of other hosts show of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotText {
    /// The name from the person.
    pub name: Option<Arc<str>>,
    /// The start of the first message.
    pub first_message: Option<Arc<str>>,
    /// Its messages.
    pub messages: u64,
    /// Whether a turn runs.
    pub is_streaming: bool,
    /// The repository of its folder, as `host/path`.
    pub remote: Option<Arc<str>>,
    /// Whether its folder is one that the hosts share.
    pub is_folder_shared: bool,
}

impl SlotText {
    /// Takes in an entry of the session.
    pub(super) fn take(&mut self, entry: &Entry, session: &SessionId) {
        match &entry.body {
            EntryBody::Name(name) => self.name = Some(start_of(name)),
            EntryBody::Message(message) => {
                self.messages = self.messages.saturating_add(1);
                if message.role == Role::User && self.first_message.is_none() {
                    self.first_message = Some(start_of(&message.text()));
                }
            }
            EntryBody::Turn(turn) if turn.session_id == *session => {
                self.is_streaming = matches!(turn.event, TurnEvent::Began | TurnEvent::TakenOver);
            }
            _ => {}
        }
    }

    /// The text in the realm.
    pub(super) fn write(&self) -> String {
        let mut map = Map::new();
        map.put_some("name", self.name.as_deref().map(str::to_owned));
        map.put_some("first-message", self.first_message.as_deref().map(str::to_owned));
        map.put("messages", Value::int(i64::try_from(self.messages).unwrap_or(i64::MAX)));
        map.put("streaming", self.is_streaming);
        map.put_some("remote", self.remote.as_deref().map(str::to_owned));
        if self.is_folder_shared {
            map.put("folder-shared", true);
        }
        let mut text = Vec::new();
        edn::write_compact(&Value::from(map), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// Reads the text of the realm. What it does not say is not known.
    pub fn read(text: &str) -> Self {
        let Ok(value) = edn::read_one(text.as_bytes()) else { return Self::default() };
        let is = |key| value.get(key).and_then(Value::as_bool).unwrap_or(false);
        let words = |key| value.get(key).and_then(Value::as_str).map(Arc::from);
        let messages = value.get("messages").and_then(Value::as_i64);
        Self {
            name: words("name"),
            first_message: words("first-message"),
            messages: messages.and_then(|messages| u64::try_from(messages).ok()).unwrap_or(0),
            is_streaming: is("streaming"),
            remote: words("remote"),
            is_folder_shared: is("folder-shared"),
        }
    }
}

fn start_of(text: &str) -> Arc<str> {
    let start: String = text.chars().take(LISTING_TEXT).collect();
    start.replace('\n', " ").into()
}
