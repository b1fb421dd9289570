//! A message on its way into a session, with what the journal notes of its request. Does not know who sends it, nor
//! what becomes of it.

use crate::context::reference::Attachment;
use crate::message::image::Image;
use crate::message::{EntryId, SessionId};
use crate::session::Prompt;
use crate::sha256;
use crate::store::record::{KeyedRequest, Via};

/// A message for a session.
#[derive(Debug)]
pub struct Incoming {
    /// What is said.
    pub prompt: Prompt,
    /// Its request, if that has a key.
    pub request: Option<Box<KeyedRequest>>,
    /// What is known of its context before the session's task has it; boxed, because a mailbox has room for many.
    pub ahead: Box<Ahead>,
}

/// What is known of a message's context before the session's task has it.
#[derive(Debug, Default)]
pub struct Ahead {
    /// What a person typed, if the message is a server's text: that alone names files, resources and skills. `None` if
    /// the message is what was typed.
    pub typed: Option<String>,
    /// The resources of servers that it names, if they were read.
    pub resources: Option<Vec<Attachment>>,
}

/// The resources that a waiting message names, read before the session's task takes the message.
#[derive(Debug)]
pub struct ReadAhead {
    /// The message's entry.
    pub entry: EntryId,
    /// Its text then.
    pub text: String,
    /// The resources.
    pub resources: Vec<Attachment>,
}

impl Incoming {
    /// The text that names files, resources and skills.
    pub fn typed(&self) -> &str {
        self.ahead.typed.as_deref().unwrap_or(&self.prompt.message)
    }

    /// A message as a person typed it.
    pub fn new(prompt: Prompt, request: Option<Box<KeyedRequest>>) -> Self {
        Self { prompt, request, ahead: Box::default() }
    }

    /// A message that an op brings, with the op's key.
    pub fn of_op(session: &SessionId, op: &str, prompt: Prompt) -> Self {
        let request = prompt.idempotency_key.as_deref().map(|key| {
            let texts = prompt.images.iter().flat_map(Image::parts);
            of_op(session, key, [op, &prompt.message].into_iter().chain(texts))
        });
        Self::new(prompt, request)
    }
}

/// The request of an op with a key. `said` is all that makes it this request.
pub fn of_op<'s>(
    session: &SessionId,
    key: &str,
    said: impl IntoIterator<Item = &'s str>,
) -> Box<KeyedRequest> {
    Box::new(KeyedRequest {
        session_id: session.clone(),
        via: Via::Edn,
        team: None,
        id: key.into(),
        sender: None,
        digest: digest(said).into(),
        turn_id: None,
    })
}

/// The SHA-256 of texts, each with its length, so that no two lists have the same.
pub fn digest<'s>(said: impl IntoIterator<Item = &'s str>) -> String {
    let mut digest = sha256::Running::default();
    for text in said {
        digest.add(text.len().to_le_bytes());
        digest.add(text);
    }
    digest.hex()
}
