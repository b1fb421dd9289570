//! The values of attributes: plain data, and handles of entities. Knows neither attributes' numbers nor resolvers.

use std::sync::Arc;

use crate::message::Message;
use crate::query::world::SessionView;
use crate::store::Entry;
use crate::value::{Map, Value};

/// The value of an attribute.
#[derive(Clone)]
pub enum Datum {
    /// Plain data. A map, or a list of maps, can be joined; its keys are then known attributes.
    Value(Value<'static>),
    /// An entity.
    Node(KnownEntity),
    /// Entities.
    Nodes(Vec<KnownEntity>),
}

impl<T: Into<Value<'static>>> From<T> for Datum {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// An entity whose attributes need no further lookup.
#[derive(Clone)]
pub enum KnownEntity {
    /// A live session.
    Session(Arc<dyn SessionView>),
    /// A message.
    Message(Arc<Message>),
    /// A journal entry.
    Entry(Arc<Entry>),
}

impl KnownEntity {
    /// The attribute that holds the handle. A query cannot ask for it.
    pub fn attribute(&self) -> &'static str {
        match self {
            Self::Session(_) => SESSION,
            Self::Message(_) => MESSAGE,
            Self::Entry(_) => ENTRY,
        }
    }

    /// The value of an entity that is requested without a sub-query.
    pub fn to_value(&self) -> Value<'static> {
        match self {
            Self::Session(session) => {
                Value::from(Map::new().with("psi.agent-session/session-id", session.id().to_value()))
            }
            Self::Message(message) => message.to_value(),
            Self::Entry(entry) => {
                let mut map = entry.body.data();
                map.put("id", entry.id.to_value());
                map.put("parent-id", entry.parent.as_ref().map(|id| id.to_value()));
                map.put("ts", entry.ts.to_string());
                map.put("type", Value::keyword(entry.body.kind().to_owned()));
                map.put_some("message", entry.body.message().map(|message| message.to_value()));
                Value::from(map)
            }
        }
    }
}

/// The handle of a session.
pub const SESSION: &str = "handle/session";
/// The handle of a message.
pub const MESSAGE: &str = "handle/message";
/// The handle of an entry.
pub const ENTRY: &str = "handle/entry";

pub(super) const HANDLES: [(&str, &str); 3] = [
    (SESSION, "A live session, inside the engine."),
    (MESSAGE, "A message, inside the engine."),
    (ENTRY, "A journal entry, inside the engine."),
];
