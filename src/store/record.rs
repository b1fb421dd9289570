//! The entries of a journal besides messages and settings. Their serde derives are their form in the file: a
//! struct is the entry's own keys. Does not know what an entry does to a session.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Block, EntryId, SessionId, TurnId};
use crate::value::Value;

/// Declares the words of a key, which the file has as text.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word = String::deserialize(from)?;
                let all = [$(Self::$variant,)*];
                let known = || serde::de::Error::unknown_variant(&word, &[$($word,)*]);
                all.into_iter().find(|one| one.as_str() == word).ok_or_else(known)
            }
        }
    };
}

words! {
    /// The time at which a message leaves the queue.
    Until {
        /// The next model call of the running turn.
        NextCall = "steer",
        /// The end of the running turn.
        TurnEnd = "follow-up",
    }
}

words! {
    /// What happened to the queue besides messages that came and went.
    QueueEvent {
        /// An abort holds it.
        Held = "held",
        /// It goes on.
        Released = "released",
        /// A message has another content.
        Edited = "edited",
        /// A message has another place.
        Moved = "moved",
    }
}

words! {
    /// What happened to files.
    FilesEvent {
        /// A call of the turn is about to change them. Its result says whether it did; without one, it may have.
        Changing = "changing",
        /// A call did, and has no result in the journal that says so.
        Changed = "changed",
        /// A call did not.
        Unchanged = "unchanged",
        /// A call may have.
        Unknown = "unknown",
        /// They are as they were before the turn.
        Undone = "undone",
        /// They are as the turn left them.
        Redone = "redone",
    }
}

words! {
    /// How far a run of a workflow is.
    RunEvent {
        /// It began.
        Started = "started",
        /// A stage or group began.
        StageStarted = "stage-started",
        /// A stage or group ended.
        StageEnded = "stage-ended",
        /// It ended.
        Ended = "ended",
        /// The process ended before it.
        Interrupted = "interrupted",
        /// It left its process before a stage, and goes on in the next one that opens the session.
        HandedOver = "handed-over",
    }
}

words! {
    /// The wire of a request.
    Via {
        /// Ops of the EDN wire.
        Edn = "edn",
        /// The control protocol.
        Control = "control",
    }
}

words! {
    /// What a request asked for that leaves no message.
    Wish {
        /// The end of the running turn after its tool calls.
        Interrupt = "interrupt",
        /// The end of the running turn at once.
        Abort = "abort",
        /// A slash command.
        Command = "command",
        /// An answer to a question.
        Answer = "answer",
        /// Another answer in place of the last one.
        Retry = "retry",
        /// The rest of the last answer.
        Continue = "continue",
    }
}

words! {
    /// How far a turn is.
    TurnEvent {
        /// It began.
        Began = "began",
        /// It ended.
        Ended = "ended",
        /// The process ended before it.
        Interrupted = "interrupted",
        /// It left its process between two steps. The next one that opens the session continues it.
        HandedOver = "handed-over",
        /// It goes on in another process.
        TakenOver = "taken-over",
    }
}

/// The request that an entry carries out: its key, in the same line as what it caused. The key is known as long as the
/// entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedRequest {
    /// The session. A fork also has the entries of its source.
    pub session_id: SessionId,
    /// Its wire.
    pub via: Via,
    /// Its team, if the wire has teams. Part of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Arc<str>>,
    /// Its key.
    pub id: Arc<str>,
    /// The name of its sender, if the wire tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Arc<str>>,
    /// The SHA-256 of what it asked for: the same key with another digest is another request.
    pub digest: Arc<str>,
    /// The turn of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

impl KeyedRequest {
    /// Whether the key is the same; what the request asks for may differ.
    pub fn has_key_of(&self, other: &Self) -> bool {
        (self.via, &self.team, &self.id) == (other.via, &other.team, &other.id)
    }
}

/// A request was carried out that leaves no message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requested {
    /// The session.
    pub session_id: SessionId,
    /// What it asked for.
    pub wish: Wish,
    /// The turn that it concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

/// A turn began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// What happened.
    pub event: TurnEvent,
    /// At the end: its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// A person is about to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRecord {
    /// The session.
    pub session_id: SessionId,
    /// The question, as clients know it.
    pub question_id: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// The SHA-256 of what it asks: where that has changed, an answer to it means nothing.
    pub digest: Arc<str>,
    /// The waiting turn.
    pub turn_id: TurnId,
    /// The tool call that it is about.
    pub call_id: Arc<str>,
    /// The session of the subagent that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SessionId>,
    /// The session that the turn works for, if it is one of a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<SessionId>,
}

/// A person has answered. It has what is needed to act on the answer, and never a secret that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The session.
    pub session_id: SessionId,
    /// The question.
    pub question_id: Arc<str>,
    /// Who answered.
    pub by: Arc<str>,
    /// The answer in one word.
    pub outcome: Arc<str>,
    /// The text of an answer that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The place of the chosen option, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<usize>,
    /// How far an approval or a refusal reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Arc<str>>,
    /// The person's own rule for that scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Value<'static>>,
    /// The text that a file is to have in place of the proposed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Arc<str>>,
    /// A note to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A tool call begins that may have effects. Without a result, it may have had them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: Arc<str>,
}

/// A message waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// The session. A fork also has the entries of its source.
    pub session_id: SessionId,
    /// What it waits for.
    pub until: Until,
    /// Its content. Blocks that only a newer program knows are left out.
    #[serde(with = "blocks")]
    pub content: Vec<Block>,
    /// The turn that it will start, if it is a follow-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

/// Messages no longer wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dequeued {
    /// The session.
    pub session_id: SessionId,
    /// Their entries.
    pub entry_ids: Vec<EntryId>,
    /// Whether a client got their text back, rather than the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returned: bool,
}

/// The queue changed, but no message came or went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// The session.
    pub session_id: SessionId,
    /// What happened.
    pub event: QueueEvent,
    /// The entry of the message that changed or moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
    /// The new content.
    #[serde(default, with = "blocks", skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Block>,
    /// The entry of the message before which it stands now; without one, it stands at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<EntryId>,
}

/// The key of the setting that has what a person chose at the session's agent: a map from the ids of options to values.
pub const CHOSEN_OPTIONS: &str = "agent-options";

/// The agent that answers the turns from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The session at the agent, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<Arc<str>>,
    /// Its own name and version, once it has said them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<Arc<str>>,
}

/// A host of a realm owns the session from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// The session. A fork also has the entries of its source.
    pub session_id: SessionId,
    /// The host; empty where the session was deleted at its owner, and this copy of it is its machine's alone.
    pub host: Arc<str>,
    /// The session's folder there.
    pub cwd: Arc<str>,
    /// How many claims there were, this one included.
    pub epoch: u64,
}

/// A turn's tools changed files, or that was undone or redone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRecord {
    /// The session. A fork also has the entries of its source.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call that changes a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<Arc<str>>,
    /// What happened.
    pub event: FilesEvent,
    /// The files. Those of the turn that are missing where it was undone were left alone.
    pub files: Vec<FileChange>,
}

/// The change of a file. Its texts are kept beside the session, by their digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file, absolute.
    pub path: String,
    /// Its text before; without one, the file was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its text after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Where it was removed, the permissions that it had: those of the file that is made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// Another text of a user's message for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewritten {
    /// The message's entry.
    pub entry_id: EntryId,
    /// The text.
    pub text: String,
}

/// A model's server refused a part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// The message's entry.
    pub entry_id: EntryId,
    /// The number of its block; all of it without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u64>,
    /// The provider of the model.
    pub provider: Arc<str>,
    /// The model.
    pub model_id: Arc<str>,
    /// The server's words.
    pub why: Arc<str>,
    /// Whether requests to the model leave it out from here on. Else a person may decide so.
    pub left_out: bool,
}

/// The context of the user's next message: attached files, and what the editor shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageContext {
    /// The text.
    pub text: String,
    /// Images from the files.
    #[serde(default, with = "blocks", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Block>,
    /// The files.
    #[serde(default)]
    pub files: Vec<ContextFile>,
    /// What the editor showed, if that is included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editor: Option<Value<'static>>,
}

/// An attached file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextFile {
    /// Its name.
    pub path: String,
    /// Whether reading it failed.
    pub failed: bool,
}

words! {
    /// The subject of a context update.
    UpdateKind {
        /// A background job has ended, or ended with its process.
        JobEnded = "job-ended",
        /// The model ended without an answer.
        EmptyAnswer = "empty-answer",
        /// The date, the branch or the mode is another one.
        Surroundings = "surroundings",
        /// A file was touched in a folder with instructions of its own.
        Instructions = "instructions",
    }
}

/// A change since the model's last request. It is sent once: at the end of the round's last result of a call, or
/// with the user's next message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// Its subject.
    pub kind: UpdateKind,
    /// The text for the model.
    pub text: String,
    /// The jobs that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job_ids: Vec<Arc<str>>,
}

impl Update {
    /// An update with nothing but its text.
    pub fn new(kind: UpdateKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), job_ids: Vec::new() }
    }
}

/// The summary of a conversation's older part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The summary.
    pub summary: String,
    /// The first entry that is kept verbatim.
    pub first_kept: EntryId,
    /// Tokens in the window before the compaction, as far as known.
    #[serde(default)]
    pub tokens_before: u64,
    /// The entries of the user's messages before that, whose texts are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_messages: Vec<EntryId>,
    /// How many bytes of their texts.
    #[serde(default, skip_serializing_if = "is_none")]
    pub user_bytes: u64,
    /// The files that were read before that, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_read: Vec<String>,
    /// Those that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Compaction {
    /// A summary that keeps nothing else.
    pub fn new(summary: impl Into<String>, first_kept: EntryId) -> Self {
        Self {
            summary: summary.into(),
            first_kept,
            tokens_before: 0,
            user_messages: Vec::new(),
            user_bytes: 0,
            files_read: Vec::new(),
            files_changed: Vec::new(),
        }
    }
}

/// The configuration of the following turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Its revision.
    pub revision: u64,
    /// The number of its permission rules.
    pub rules: usize,
    /// The names of its workflows.
    pub workflows: Vec<String>,
    /// The names of its hooks.
    pub hooks: Vec<String>,
    /// The names of the skills.
    pub skills: Vec<String>,
    /// The number of its models.
    pub models: usize,
    /// The names of its providers.
    pub providers: Vec<String>,
    /// Its writable folders.
    pub writable: Vec<String>,
}

/// How far a run of a workflow is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowRecord {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: String,
    /// The workflow's name.
    pub workflow: String,
    /// What happened.
    pub event: RunEvent,
    /// At the start: the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// At the start: the run that it resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// The stage or group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// At an end: the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// At a stage's end: its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value<'static>>,
    /// At a stage's end: the number of its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// At a stage's end: whether an attempt reached its maximum of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_hit: Option<bool>,
    /// Why it failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl WorkflowRecord {
    /// A record with nothing but what every one has.
    pub fn new(session: &SessionId, run: &str, workflow: &str, event: RunEvent) -> Self {
        Self {
            session_id: session.clone(),
            run_id: run.to_owned(),
            workflow: workflow.to_owned(),
            event,
            arguments: None,
            resumes: None,
            stage: None,
            outcome: None,
            result: None,
            attempts: None,
            cap_hit: None,
            why: None,
        }
    }
}

/// Blocks in the form of messages. Those of an unknown kind are left out.
mod blocks {
    use super::{Block, Deserialize as _, Value};

    pub fn serialize<S: serde::Serializer>(blocks: &[Block], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(blocks.iter().map(Block::to_value))
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Block>, D::Error> {
        let values = Vec::<Value<'static>>::deserialize(from)?;
        Ok(values.iter().filter_map(Block::from_value).collect())
    }
}
