//! The lines of a session's file: one header, then entries. Knows no files.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{
    AgentRecord, AnswerRecord, CallRecord, Compaction, Dequeued, FilesRecord, KeyedRequest, Manifest,
    MessageContext, OwnerRecord, QuestionRecord, QueueRecord, Queued, Requested, Rewritten, TurnEvent,
    TurnRecord, Update, Withheld, WorkflowRecord,
};
use crate::edn;
use crate::message::{EntryId, Message, SessionId, TurnId};
use crate::value::{Map, Value};

/// The format that this program writes. It also reads older ones.
pub const FORMAT: i64 = 1;

/// The start of the line of an entry that was written together with the next one. Without the last of them, none was
/// acknowledged.
pub(super) const PART: &[u8] = b"{:more true ";

/// The first line of a session's file.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The session.
    pub session: SessionId,
    /// When it was opened, RFC 3339 in UTC.
    pub created_at: Arc<str>,
    /// Its working folder, absolute.
    pub cwd: Arc<str>,
    /// The session from which it was forked.
    pub parent: Option<Parent>,
    /// The request that opened it, if that has a key.
    pub request: Option<Arc<KeyedRequest>>,
    /// The host that owned it when this file began as a copy of its entries.
    pub replica_of: Option<Arc<str>>,
}

/// The origin of a fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    /// The session.
    pub session: SessionId,
    /// Its file, if it had one. The store fills it in, for people.
    pub path: Option<Arc<str>>,
    /// The last copied entry.
    pub entry: Option<EntryId>,
}

/// One entry of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id, unique within one session. Copies of this entry in forks have the same id.
    pub id: EntryId,
    /// The preceding entry; `None` for the first.
    pub parent: Option<EntryId>,
    /// When it was written, RFC 3339 in UTC.
    pub ts: Arc<str>,
    /// The request that it carries out, if that has a key.
    pub request: Option<Arc<KeyedRequest>>,
    /// Its content.
    pub body: EntryBody,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// A message of the conversation.
    Message(Arc<Message>),
    /// The session's name.
    Name(Arc<str>),
    /// The model of the following turns.
    Model {
        /// The provider.
        provider: Arc<str>,
        /// The model's id there.
        id: Arc<str>,
    },
    /// Another setting of the following turns, such as `:thinking "high"`.
    Setting {
        /// Its name.
        key: Arc<str>,
        /// Its value.
        value: Value<'static>,
    },
    /// The conversation continues after that entry.
    Leaf(EntryId),
    /// A message waits.
    Queued(Box<Queued>),
    /// Messages no longer wait.
    Dequeued(Dequeued),
    /// The queue changed in another way.
    Queue(Box<QueueRecord>),
    /// Another text of a user's message for the model.
    Rewritten(Rewritten),
    /// A model's server refused a part of a message.
    Withheld(Box<Withheld>),
    /// The context of the user's next message.
    Context(Box<MessageContext>),
    /// A context update for the model.
    Update(Box<Update>),
    /// The summary of the older part.
    Compaction(Box<Compaction>),
    /// The configuration of the following turns.
    Manifest(Box<Manifest>),
    /// How far a run of a workflow is.
    Workflow(Box<WorkflowRecord>),
    /// A request that leaves no message.
    Requested(Requested),
    /// A turn began or ended.
    Turn(TurnRecord),
    /// A turn changed files, or that was undone or redone.
    Files(Box<FilesRecord>),
    /// A person is about to be asked.
    Question(Box<QuestionRecord>),
    /// A person has answered.
    Answer(Box<AnswerRecord>),
    /// A tool call begins.
    Call(CallRecord),
    /// An agent answers the turns from here on.
    Agent(Box<AgentRecord>),
    /// A host owns the session from here on.
    Owner(Box<OwnerRecord>),
    /// Any other entry: kept as it was read, so that an older program preserves a newer program's entries.
    Other {
        /// The entry's type.
        kind: Arc<str>,
        /// All its keys.
        data: Map<'static>,
    },
}

/// Why a file's first line is no header that can be read.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// It is no EDN.
    #[error("its first line is not EDN: {0}")]
    NotEdn(#[from] edn::Error),
    /// A key is missing.
    #[error("its header has no :{0}")]
    Missing(&'static str),
    /// A newer program wrote the file.
    #[error("it has format {format}, this program reads up to {FORMAT}")]
    Newer {
        /// Its format.
        format: i64,
    },
}

impl Header {
    /// The header as a line, with its line feed.
    pub fn line(&self) -> Vec<u8> {
        let mut map = Map::new();
        map.put("edn-bridge", "session");
        map.put("format", Value::int(FORMAT));
        map.put("session-id", self.session.to_value());
        map.put("created-at", self.created_at.as_ref().to_owned());
        map.put("cwd", self.cwd.as_ref().to_owned());
        if let Some(parent) = &self.parent {
            let mut from = Map::new();
            from.put("session-id", parent.session.to_value());
            if let Some(path) = &parent.path {
                from.put("path", path.as_ref().to_owned());
            }
            if let Some(entry) = &parent.entry {
                from.put("entry-id", entry.to_value());
            }
            map.put("parent", Value::from(from));
        }
        map.put_some("request", self.request.as_deref().map(fields));
        map.put_some("replica-of", self.replica_of.as_deref().map(str::to_owned));
        line(map)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// See [`HeaderError`].
    pub fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        let value = edn::read_one(bytes)?;
        let text = |value: &Value<'_>, key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
        let missing = HeaderError::Missing;
        if text(&value, "edn-bridge").as_deref() != Some("session") {
            return Err(missing("edn-bridge \"session\""));
        }
        let format = value.get("format").and_then(Value::as_i64).ok_or_else(|| missing("format"))?;
        if format > FORMAT {
            return Err(HeaderError::Newer { format });
        }
        Ok(Self {
            session: text(&value, "session-id").ok_or_else(|| missing("session-id"))?.into(),
            created_at: text(&value, "created-at").ok_or_else(|| missing("created-at"))?,
            cwd: text(&value, "cwd").ok_or_else(|| missing("cwd"))?,
            parent: value.get("parent").and_then(|from| {
                Some(Parent {
                    session: text(from, "session-id")?.into(),
                    path: text(from, "path"),
                    entry: text(from, "entry-id").map(EntryId::from),
                })
            }),
            request: value.get("request").and_then(read_record).map(Arc::new),
            replica_of: text(&value, "replica-of"),
        })
    }
}

impl Entry {
    /// The entry as a line, with its line feed.
    pub fn line(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_line(&mut bytes);
        bytes
    }

    /// Appends the entry as a line, with its line feed.
    pub fn write_line(&self, bytes: &mut Vec<u8>) {
        edn::write_compact(&Value::from(self.to_map()), bytes);
        bytes.push(b'\n');
    }

    /// The same for an entry that is written together with the next one.
    pub(super) fn write_part(&self, bytes: &mut Vec<u8>) {
        let begin = bytes.len();
        self.write_line(bytes);
        let brace = begin..begin.saturating_add(1);
        bytes.splice(brace, PART.iter().copied());
    }

    /// The entry as a map: its line.
    pub fn to_map(&self) -> Map<'static> {
        let mut map = self.body.data();
        map.put("id", self.id.to_value());
        map.put("parent-id", self.parent.as_ref().map(EntryId::to_value));
        map.put("ts", self.ts.as_ref().to_owned());
        map.put_some("message", self.body.message().map(|message| message.to_journal()));
        map.put_some("request", self.request_data());
        map.put("type", Value::keyword(self.body.kind().to_owned()));
        map
    }

    /// The keys of its request.
    pub fn request_data(&self) -> Option<Map<'static>> {
        self.request.as_deref().map(fields)
    }

    /// Reads an entry back; `None` if the line is not an entry.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut value = edn::read_one(bytes).ok()?;
        if bytes.starts_with(PART)
            && let Value::Map(map) = &mut value
        {
            // It says how the entry was written, and is nothing of the entry.
            map.remove(&Value::keyword("more"));
        }
        let text = |key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
        let kind = value.get("type")?.as_keyword()?;
        let body = match kind {
            "message" => match Message::from_value(value.get("message")?) {
                Some(message) => EntryBody::Message(Arc::new(message)),
                // A message with a kind of content that only a newer program knows.
                None => EntryBody::Other { kind: kind.into(), data: value.as_map()?.clone().into_owned() },
            },
            "name" => EntryBody::Name(text("name")?),
            "model" => EntryBody::Model { provider: text("provider")?, id: text("model-id")? },
            "setting" => EntryBody::Setting {
                key: value.get("key")?.as_keyword()?.into(),
                value: value.get("value")?.clone().into_owned(),
            },
            "leaf" => EntryBody::Leaf(text("leaf")?.into()),
            // A record that only a newer program understands is kept as well.
            _ => match record(kind, &value) {
                Some(body) => body,
                None => EntryBody::Other { kind: kind.into(), data: value.as_map()?.clone().into_owned() },
            },
        };
        Some(Self {
            id: text("id")?.into(),
            parent: text("parent-id").map(EntryId::from),
            ts: text("ts")?,
            request: value.get("request").and_then(read_record).map(Arc::new),
            body,
        })
    }
}

impl EntryBody {
    /// The entry's type.
    pub fn kind(&self) -> &str {
        match self {
            Self::Message(_) => "message",
            Self::Name(_) => "name",
            Self::Model { .. } => "model",
            Self::Setting { .. } => "setting",
            Self::Leaf(_) => "leaf",
            Self::Queued(_) => "queued",
            Self::Dequeued(_) => "dequeued",
            Self::Queue(_) => "queue",
            Self::Rewritten(_) => "rewritten",
            Self::Withheld(_) => "withheld",
            Self::Context(_) => "context",
            Self::Update(_) => "update",
            Self::Compaction(_) => "compaction",
            Self::Manifest(_) => "manifest",
            Self::Workflow(_) => "workflow",
            Self::Requested(_) => "requested",
            Self::Turn(_) => "turn",
            Self::Files(_) => "files",
            Self::Question(_) => "question",
            Self::Answer(_) => "answer",
            Self::Call(_) => "call",
            Self::Agent(_) => "agent",
            Self::Owner(_) => "owner",
            Self::Other { kind, .. } => kind,
        }
    }

    /// The message, if it is one.
    pub fn message(&self) -> Option<&Arc<Message>> {
        if let Self::Message(message) = self { Some(message) } else { None }
    }

    /// The turn, if it says that one was cut off with its process.
    pub fn interrupted(&self) -> Option<&TurnId> {
        match self {
            Self::Turn(turn) if turn.event == TurnEvent::Interrupted => Some(&turn.turn_id),
            _ => None,
        }
    }

    /// Its own keys, apart from a message.
    pub fn data(&self) -> Map<'static> {
        let mut map = Map::new();
        match self {
            Self::Message(_) => {}
            Self::Name(name) => {
                map.put("name", name.as_ref().to_owned());
            }
            Self::Model { provider, id } => {
                map.put("provider", provider.as_ref().to_owned());
                map.put("model-id", id.as_ref().to_owned());
            }
            Self::Setting { key, value } => {
                map.put("key", Value::keyword(key.to_string()));
                map.put("value", value.clone());
            }
            Self::Leaf(leaf) => {
                map.put("leaf", leaf.to_value());
            }
            Self::Queued(it) => map = fields(it),
            Self::Dequeued(it) => map = fields(it),
            Self::Queue(it) => map = fields(it),
            Self::Rewritten(it) => map = fields(it),
            Self::Withheld(it) => map = fields(it),
            Self::Context(it) => map = fields(it),
            Self::Update(it) => map = fields(it),
            Self::Compaction(it) => map = fields(it),
            Self::Manifest(it) => map = fields(it),
            Self::Workflow(it) => map = fields(it),
            Self::Requested(it) => map = fields(it),
            Self::Turn(it) => map = fields(it),
            Self::Files(it) => map = fields(it),
            Self::Question(it) => map = fields(it),
            Self::Answer(it) => map = fields(it),
            Self::Call(it) => map = fields(it),
            Self::Agent(it) => map = fields(it),
            Self::Owner(it) => map = fields(it),
            Self::Other { data, .. } => map = data.clone(),
        }
        map
    }
}

/// The record of that type.
fn record(kind: &str, value: &Value<'_>) -> Option<EntryBody> {
    match kind {
        "queued" => read_record(value).map(EntryBody::Queued),
        "dequeued" => read_record(value).map(EntryBody::Dequeued),
        "queue" => read_record(value).map(EntryBody::Queue),
        "rewritten" => read_record(value).map(EntryBody::Rewritten),
        "withheld" => read_record(value).map(EntryBody::Withheld),
        "context" => read_record(value).map(EntryBody::Context),
        "update" => read_record(value).map(EntryBody::Update),
        "compaction" => read_record(value).map(EntryBody::Compaction),
        "manifest" => read_record(value).map(EntryBody::Manifest),
        "workflow" => read_record(value).map(EntryBody::Workflow),
        "requested" => read_record(value).map(EntryBody::Requested),
        "turn" => read_record(value).map(EntryBody::Turn),
        "files" => read_record(value).map(EntryBody::Files),
        "question" => read_record(value).map(EntryBody::Question),
        "answer" => read_record(value).map(EntryBody::Answer),
        "call" => read_record(value).map(EntryBody::Call),
        "agent" => read_record(value).map(EntryBody::Agent),
        "owner" => read_record(value).map(EntryBody::Owner),
        _ => None,
    }
}

fn read_record<T: DeserializeOwned>(value: &Value<'_>) -> Option<T> {
    edn::from_value(value.clone()).ok()
}

/// The keys of a record.
fn fields(record: &impl Serialize) -> Map<'static> {
    match edn::to_value(record) {
        Ok(Value::Map(map)) => map,
        // No record has a serialization that fails, or is anything but a struct.
        _ => Map::new(),
    }
}

/// A map as a line. The wire's notation contains no line feed and reads back equal.
fn line(map: Map<'static>) -> Vec<u8> {
    let mut bytes = Vec::new();
    edn::write_compact(&Value::from(map), &mut bytes);
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Block, CalledModel, Replay, Role, Timing};

    #[test]
    fn entries_round_trip() {
        let mut message =
            Message::new("e1".into(), Role::User, vec![Block::Text("a\n\"b\" \u{1F600}".into())], "t".into());
        message.error_message = Some("nothing".into());
        message.timing = Some(Timing { first_token_ms: Some(3), duration_ms: 5, retries: 1 });
        message.model = Some(CalledModel { provider: "p".into(), id: "m".into() });
        let data = Value::vector(["opaque"]);
        message.replays = vec![Replay { place: 1, is_attached: true, data }];
        let bodies = [
            EntryBody::Message(Arc::new(message)),
            EntryBody::Name("x".into()),
            EntryBody::Model { provider: "p".into(), id: "m".into() },
            EntryBody::Setting { key: "thinking".into(), value: Value::from("high") },
            EntryBody::Leaf("e7".into()),
        ];
        for body in bodies {
            let entry =
                Entry { id: "e1".into(), parent: Some("e0".into()), ts: "t".into(), request: None, body };
            let line = entry.line();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(Entry::read(&line), Some(entry));
        }
    }

    #[test]
    fn entry_of_unknown_type_survives() {
        let line = b"{:id \"e9\" :parent-id nil :ts \"t\" :type :hologram :depth [1 2 3]}\n";
        let entry = Entry::read(line).unwrap();
        let again = Entry::read(&entry.line()).unwrap();
        assert_eq!(entry, again);
        let EntryBody::Other { data, .. } = again.body else { panic!("{again:?}") };
        assert_eq!(data.get_keyword("depth"), Some(&Value::vector([1i64, 2, 3])));
    }
}
