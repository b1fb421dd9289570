//! What can happen to a session, as a closed list.
//!
//! A session's state belongs to its own task. Everybody else sends it a [`Change`], which the task applies in
//! order of arrival; nothing else reaches the state. A change says what happened or what is wanted. It does not
//! know how the session is built.
//!
//! A client's request carries a [`Reply`], and the engine's own tasks an [`Ack`], with which they wait.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::context::Project;
use crate::context::reference::Attachment;
use crate::engine::execution::Execution;
use crate::engine::incoming::{Incoming, ReadAhead};
use crate::engine::jobs::JobLook;
use crate::engine::queue::Until;
use crate::engine::run_record::RunRecord;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::environment::Variables;
use crate::event::{Cause, CompactionEnded, RetryAwaited};
use crate::facts::agent::AgentFacts;
use crate::facts::editor::Editor;
use crate::facts::{BashOutput, JobFacts, Phase, SessionStats};
use crate::interaction::ClientAnswer;
use crate::message::{EntryId, Mode, ThinkingLevel, TurnId};
use crate::session::{
    Again, ApiError, Call, Edited, Interrupted, Prompted, Removed, Reply, Resumed, ToolOutcome, Undo, Undone,
};
use crate::store::record::KeyedRequest;
use crate::store::{Entry, EntryBody, FromElsewhere};
use crate::tool::process::{self, ProcessRequest};
use crate::value::Value;

/// Answers a task of the engine that waits for its change.
pub type Ack<T> = oneshot::Sender<T>;

/// What happened to a session, or what is wanted of it.
pub enum Change {
    // Hosts of a realm.
    /// Another host changed the session's journal.
    FromElsewhere(FromElsewhere),
    /// This host may have taken the session.
    Taken { ack: Ack<()> },
    /// A person shares the session with the other hosts.
    Share { reply: Reply<()> },
    /// Another host owns the session from now on, if nothing runs in it.
    Give { host: String, reply: Reply<String> },

    // Messages and turns, from clients.
    /// A client sent a message that starts a turn.
    Prompt { call: Call, incoming: Incoming, reply: Reply<Prompted> },
    /// A client sent a message for the running turn, or for after it.
    Enqueue { call: Call, incoming: Incoming, until: Until, reply: Reply<Prompted> },
    /// A program sent a text through control: for the running turn, or a new one. With `interrupts`, it begins the next
    /// turn, and the running one ends if it began at that time or before.
    Inject { call: Call, incoming: Incoming, interrupts: Option<i64>, reply: Reply<Prompted> },
    /// A client named a prompt template or a skill, whose text starts a turn.
    Invoke { call: Call, name: String, arguments: String, incoming: Incoming, reply: Reply<Prompted> },
    /// A slash command came with a key. The reply runs it if the key is new.
    Claim { request: Box<KeyedRequest>, reply: Reply<Prompted> },
    /// A client answered a question of the session, or a program did through control, with a key.
    Answer { call: Call, request: Option<Box<KeyedRequest>>, given: ClientAnswer, reply: Reply<Prompted> },
    /// A client started the workflow of that name, or resumes its last run. The reply starts the run.
    BeginWorkflow { call: Call, workflow: Arc<str>, arguments: String, reply: Reply<HeldRun> },
    /// A client wants the conversation compacted, perhaps with instructions for the summary.
    Compact { call: Call, wishes: Option<String>, reply: Reply<Option<String>> },
    /// A client runs one tool, by name and with these arguments, without a turn.
    CallTool { call: Call, asked: Box<(String, Value<'static>)>, reply: Reply<ToolOutcome> },
    /// A client ended the running turn. The handle has done so at once; this ends a turn that started since.
    Abort { request: Option<Box<KeyedRequest>>, reply: Reply<bool> },
    /// A client ends the running turn after its tool calls, and gets the text that is no longer delivered. One that
    /// came through control ends only a turn that began at `before` or earlier, and the queue goes on waiting. If the
    /// handle has ended the turn of `at_once` already, no other is ended: the next one may have begun since.
    Interrupt {
        call: Call,
        request: Option<Box<KeyedRequest>>,
        before: Option<i64>,
        at_once: Option<Arc<TurnControl>>,
        reply: Reply<Interrupted>,
    },
    /// A client gave up the wait for a retry.
    AbortRetry { reply: Reply<()> },
    /// A client wants the model asked again, without a message.
    AskAgain { call: Call, how: Again, request: Option<Box<KeyedRequest>>, reply: Reply<Prompted> },
    /// A client undoes what turns did to files, or does it again.
    Undo { call: Call, wish: Undo, reply: Reply<Undone> },
    /// A client gave a waiting message another content.
    EditPending { call: Call, entry: EntryId, content: Box<Edited>, reply: Reply<()> },
    /// A client took a waiting message back.
    RemovePending { call: Call, entry: EntryId, reply: Reply<Removed> },
    /// A client moved a waiting message before another one, or to the end.
    MovePending { call: Call, entry: EntryId, before: Option<EntryId>, reply: Reply<()> },
    /// A client resumes the queue.
    ResumeQueue { call: Call, reply: Reply<Resumed> },

    // Settings, from clients.
    /// A client named the session.
    SetName { call: Call, name: String, reply: Reply<String> },
    /// A client chose a model.
    SetModel { call: Call, provider: Arc<str>, model: Arc<str>, reply: Reply<(String, String)> },
    /// A client chose a thinking level, or the next one.
    SetThinking { call: Call, level: Option<ThinkingLevel>, reply: Reply<ThinkingLevel> },
    /// A client chose the permission mode.
    SetMode { call: Call, mode: Mode, reply: Reply<Mode> },
    /// A client turned automatic compaction on or off.
    SetAutoCompaction { call: Call, enabled: bool, reply: Reply<bool> },
    /// A client turned automatic retries on or off.
    SetAutoRetry { call: Call, enabled: bool, reply: Reply<bool> },
    /// A client switched an MCP server, or one of its tools, on or off.
    SetMcp { call: Call, name: Arc<str>, enabled: bool, reply: Reply<()> },
    /// A client's editor shows something else.
    ShowEditor { editor: Box<Editor>, reply: Reply<()> },

    // Commands and jobs.
    /// A client runs a command.
    Bash { command: String, timeout_seconds: Option<u64>, reply: Reply<BashOutput> },
    /// A client ends that command.
    AbortBash { reply: Reply<()> },
    /// That command has ended: from the task that ran it.
    BashEnded { ack: Ack<()> },
    /// A tool call starts a background job.
    StartJob { id: Arc<str>, turn: TurnId, job: Box<ProcessRequest>, ack: Ack<Result<(), ApiError>> },
    /// A job wrote something: from the task that runs it.
    JobOutput { id: Arc<str>, newest: Arc<str> },
    /// A job has ended: from the task that ran it.
    JobEnded { id: Arc<str>, ended: Box<std::io::Result<process::EndedProcess>>, ack: Ack<()> },
    /// A call of the model looks at a job.
    LookAtJob { id: Arc<str>, ack: Ack<Result<JobLook, ApiError>> },
    /// It has been shown a job's output up to that byte, and its end if that has `ended`.
    JobShown { id: Arc<str>, until: u64, ended: bool },
    /// A client asks for the jobs with one of the statuses, or for all.
    ListJobs { statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>> },
    /// A client asks for a job.
    GetJob { id: String, reply: Reply<Arc<JobFacts>> },
    /// Waits for the end of a background job.
    WaitJob { id: String, reply: Reply<Arc<JobFacts>> },
    /// A client ends a job.
    CancelJob { id: String, reply: Reply<Arc<JobFacts>> },

    // What a turn's task, a workflow's or a compaction's reports and asks for.
    /// The task has entries for the journal. It waits until they are on disk.
    Append { entries: Vec<EntryBody>, ack: Ack<WrittenEntries> },
    /// The same with the turn's last message: the turn is about to end.
    AppendLast { turn: TurnId, entries: Vec<EntryBody>, ack: Ack<WrittenEntries> },
    /// The task asks whether a message waits for its next model call.
    HasSteering { ack: Ack<bool> },
    /// The task takes those messages into the conversation, with the resources that it has read for them.
    DeliverSteering { turn: TurnId, read: Vec<ReadAhead>, ack: Ack<Result<(), ApiError>> },
    /// The resources are read that the message of a turn names, or nobody waits for them any more.
    Prepared { turn: TurnId, resources: Option<Vec<Attachment>>, ack: Ack<()> },
    /// The task waits before it repeats a failed model call.
    Retrying { retry: RetryAwaited, ack: Ack<()> },
    /// That wait is over.
    RetryOver { ack: Ack<()> },
    /// The task begins to summarise the older part of the conversation; `asked` if a person requested it.
    CompactionStarted { asked: bool, ack: Ack<()> },
    /// That has ended, and the session goes on in the phase before it.
    CompactionEnded { phase: Phase, ended: CompactionEnded, ack: Ack<()> },
    /// The server has said something new about the session's model.
    ModelLearned { ack: Ack<()> },
    /// The session's agent told something of its session.
    AgentTold { told: Box<AgentFacts>, ack: Ack<()> },
    /// The task is at a boundary where it can continue with a newer configuration.
    Adopt { ack: Ack<()> },
    /// The task has ended, or failed inside.
    TurnEnded { turn: TurnId, end: TurnEnd, ack: Ack<()> },
    /// A workflow begins the turn of a stage with a message.
    BeginStage { turn: TurnId, message: String, cause: Option<Cause>, ack: Ack<Result<(), ApiError>> },

    // What the session's parent wants while the session works for it.
    /// The parent gives it a task. The receiver gets the end of the turn that works on it.
    Work {
        task: String,
        execution: Option<Arc<Execution>>,
        cause: Option<Cause>,
        variables: Option<Variables>,
        /// The span of the call in which it does so.
        above: tracing::Span,
        ack: Ack<StartedTurn>,
    },
    /// The parent was interrupted, and with it the turn that works for it.
    InterruptWork,
    /// The parent has the result: all that still runs ends.
    EndWork,

    /// A client asks for the session's figures.
    Stats { reply: Reply<SessionStats> },

    // What the engine wants of any session.
    /// The process ends, or the last client left: all that runs ends. The reply comes once nothing runs.
    Stop { reply: Reply<()> },
    /// The configuration was read again. Without a turn, the session uses it at once.
    ConfigurationChanged,
    /// The session's folder was searched again for templates and skills: from a turn's start or a reload.
    ContextFound { project: Arc<Project>, ack: Option<Ack<()>> },
    /// It was opened from disk: a turn that was cut off is marked.
    Recover { ack: Ack<()> },
    /// A client entered it, or answers questions from now on, or its process has opened it by itself: a turn that waits
    /// for an answer, or was handed over, goes on. The variables are those of the turn, if they are known.
    TakeUp { variables: Option<Variables> },
    /// The variables of queued messages, from the process that it has left.
    BringWaiting { variables: Vec<(EntryId, Variables)> },
    /// Another process is to continue it: it leaves when that ends nothing.
    HandOver,
    /// It was archived, or taken out again.
    Archived { archived: bool, ack: Ack<()> },
    /// Too many sessions are live or have open files: this one may leave if it is at rest.
    Unload(Unload),
    /// A fork needs the entries up to one that is not on the branch.
    PathTo { entry: EntryId, ack: Ack<Option<imbl::Vector<Arc<Entry>>>> },
}

/// Entries that are on disk.
pub type WrittenEntries = Result<Vec<Arc<Entry>>, ApiError>;

/// The end of a turn that works for another session, once it comes.
pub type StartedTurn = Result<oneshot::Receiver<TurnEnd>, ApiError>;

/// A session that waits for the end of a workflow's run.
pub struct HeldRun {
    /// The run, which holds the session like a turn of that id.
    pub id: Arc<str>,
    /// The workflow's arguments: of the request, or of the run that goes on.
    pub arguments: String,
    /// Ends the run.
    pub stop: CancellationToken,
    /// The session's controls of it.
    pub control: Arc<TurnControl>,
    /// The run that goes on.
    pub from: Option<RunRecord>,
}

/// A request to a session at rest to leave, unless it was looked up since.
#[derive(Debug)]
pub struct Unload {
    /// The lookup at the time of the decision.
    pub lookup: u64,
    /// Waits for its files to be closed. Dropped if the session stays.
    pub waiting: Option<mpsc::Sender<()>>,
}

impl Unload {
    /// Reports that its files are closed.
    pub fn done(self) {
        if let Some(waiting) = self.waiting {
            let _ = waiting.try_send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each session has a block of 32 places for changes, so that a large variant is boxed.
    #[test]
    fn change_is_small_enough_for_a_mailbox() {
        assert!(size_of::<Change>() <= 200, "{}", size_of::<Change>());
    }
}
