//! The open questions: who sees which, and whose answer counts.
//!
//! Every interactor gets a question at once. The first valid answer wins, and the others are notified. Each
//! interactor has a queue and sees the next question only after the previous one has ended. One lock covers
//! all of that, so that two simultaneous answers have an order. Does not know the purpose of a question.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::audit::{self, Audit};
use super::unended::{Note, Unended};
use super::warning;
use super::{answers, dialog};
use crate::catalogue::ErrorCode;
use crate::clock::{Clock, rfc3339};
use crate::crash;
use crate::event::question::{Answer, ApprovalScope, QuestionContent, QuestionKind};
use crate::event::{Body, Cause, Dialog, Event, QuestionAsked, QuestionEnded, Subagent};
use crate::limits::{AUDIT_NAME_CHARS, AUDIT_REQUEST_CHARS, CLOSED_QUESTIONS, OPEN_QUESTIONS};
use crate::message::{SessionId, TurnId};
use crate::secret;
use crate::session::{AnswerFields, ApiError, Client, DialogResult, Reply, Response};
use crate::value::{Map, Value};

/// The recipients of questions and of their outcomes.
pub trait Audience: Send + Sync {
    /// The connections, each with its number.
    fn clients(&self) -> Vec<(u64, Arc<dyn Client>)>;

    /// Calls `tell` while no other event of that session is sent, with the session's count of entries if it
    /// is known. The event thus gets its place among the session's events.
    fn in_order(&self, session: &SessionId, tell: &mut dyn FnMut(Option<u64>)) {
        let _ = session;
        tell(None);
    }

    /// Whether a question of that session waits if no client is there that answers questions.
    fn is_awaited(&self, session: &SessionId) -> bool {
        let _ = session;
        false
    }
}

/// Sends connections an event in its place among the session's.
fn tell(audience: &dyn Audience, clients: &[Arc<dyn Client>], mut event: Event) {
    let Some(session) = event.session.clone() else { return };
    audience.in_order(&session, &mut |offset| {
        event.offset = offset.unwrap_or(event.offset);
        for client in clients {
            let _ = client.deliver(&event);
        }
    });
}

/// The origin of a question.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The session.
    pub session: SessionId,
    /// The session's count of entries at the time of the question. Events carry the count of their own time.
    pub offset: u64,
    /// The waiting turn.
    pub turn: Option<TurnId>,
    /// The request that caused the question, if any.
    pub cause: Option<Cause>,
    /// The id that links events and audit; the turn's, if there is one.
    pub correlation: Arc<str>,
    /// The subagent that asks.
    pub subagent: Option<Subagent>,
}

/// A question.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its content.
    pub content: Arc<QuestionContent>,
    /// The risks in its texts. Those that the content itself shows are added when it is asked.
    pub warnings: Arc<[String]>,
    /// Its origin.
    pub origin: Origin,
    /// How long it stays open; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Whether to answer it without a person if possible.
    pub unattended: bool,
    /// Whether it is in the session's journal, so that its answer counts once it is there too.
    pub journalled: bool,
}

impl Question {
    /// The kind of the question.
    pub fn kind(&self) -> QuestionKind {
        self.content.kind()
    }
}

/// An answer as a client gives it.
#[derive(Debug)]
pub enum Given {
    /// To a typed question.
    Response(Box<Response>),
    /// The result of the open dialog; `None` cancels it.
    Dialog(String, Option<DialogResult>),
}

impl Given {
    /// The question.
    pub fn question(&self) -> &str {
        match self {
            Self::Response(response) => &response.interaction_id,
            Self::Dialog(id, _) => id,
        }
    }
}

/// How a question ended.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// It was answered.
    Accepted {
        /// The answer, of the question's kind.
        answer: Answer,
        /// A note to the model.
        note: Option<String>,
    },
    /// A person chose not to answer.
    Cancelled {
        /// A note to the model.
        note: Option<String>,
    },
    /// No client can answer it.
    Headless,
    /// The time-out passed.
    TimedOut,
    /// The asker withdrew it.
    Withdrawn,
}

/// The open questions of a process.
pub struct PendingQuestions {
    audience: Arc<dyn Audience>,
    audit: Audit,
    unended: Unended,
    clock: Arc<dyn Clock>,
    /// Milliseconds that a question stays open after the last interactor that saw it has left.
    grace: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<Arc<str>, Open>,
    /// The questions whose answer is about to count.
    held: HashMap<Arc<str>, Meanwhile>,
    closed: VecDeque<Arc<str>>,
    was_closed: HashSet<Arc<str>>,
    queues: HashMap<u64, QuestionQueue>,
}

struct Open {
    question: Question,
    asked_at: Arc<str>,
    /// Its note on disk, if that could be written.
    note: Option<Note>,
    answer: oneshot::Sender<Resolution>,
    /// The last interactor that saw it has left.
    orphaned: Arc<Notify>,
}

/// What came while an answer was held.
#[derive(Default)]
struct Meanwhile {
    /// The end of the question, which counts if the answer does not.
    end: Option<(By, Resolution)>,
    /// Whether another answer was refused.
    refused: bool,
}

/// An answer that is valid and first, and has no effect yet. Nobody else can answer the question meanwhile. Dropped, it
/// leaves the question open.
pub struct HeldAnswer<'q> {
    questions: &'q PendingQuestions,
    id: Arc<str>,
    open: Option<Open>,
    resolution: Resolution,
}

/// One interactor's questions; it sees the first.
struct QuestionQueue {
    client: Arc<dyn Client>,
    questions: VecDeque<Arc<str>>,
}

impl PendingQuestions {
    /// No question yet; the audit and the notes of open questions are in the state folder.
    pub fn new(audience: Arc<dyn Audience>, state_dir: &Path, clock: Arc<dyn Clock>) -> Self {
        let (audit, unended) = (Audit::new(state_dir), Unended::new(state_dir));
        Self { audience, audit, unended, clock, grace: AtomicU64::new(0), state: Mutex::default() }
    }

    /// Sets how long a question stays open after the last interactor that saw it has left.
    pub fn set_orphan_grace(&self, grace: Duration) {
        self.grace.store(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Writes the audit records of questions that were open when their process was killed.
    pub fn record_cut_off(&self) {
        let left = self.unended.left();
        if left.is_empty() {
            return;
        }
        // A process that was killed between record and removal has left both.
        let known = audit::newest(self.audit.path(), usize::MAX);
        let id = |record: &Map<'static>| record.get_keyword("interaction-id").cloned();
        for (note, mut record) in left {
            if !known.iter().any(|known| id(known) == id(&record)) {
                record.put("ext-id", By::Core.to_string());
                record.put("outcome", CUT_OFF);
                record.put("answered-at", rfc3339(self.clock.now()).to_string());
                if let Err(error) = self.audit.append(record) {
                    tracing::error!(%error, "the audit record of a question cut off could not be written");
                    continue;
                }
            }
            note.remove();
        }
    }

    /// An id for a question.
    pub fn new_id(&self) -> Arc<str> {
        self.clock.id("i-").into()
    }

    /// Whether somebody is there who can answer questions of that kind.
    pub fn can_be_answered(&self, kind: QuestionKind) -> bool {
        self.audience.clients().iter().any(|(_, client)| can_show(client.as_ref(), kind))
    }

    /// Whether a question of a session would be open: somebody can answer it, or it waits for somebody to come.
    pub fn would_be_open(&self, session: &SessionId, kind: QuestionKind) -> bool {
        self.can_be_answered(kind) || self.audience.is_awaited(session)
    }

    /// Asks a question and waits for its end. Cancelling `stop` withdraws it.
    pub async fn ask(&self, question: Question, stop: &CancellationToken) -> Resolution {
        self.ask_as(self.new_id(), question, stop).await
    }

    /// The same for a question that has its id: a new one, or that of a question which was cut off with its process.
    /// Every question passes here, and its warnings are completed.
    pub async fn ask_as(&self, id: Arc<str>, mut question: Question, stop: &CancellationToken) -> Resolution {
        question.warnings = warning::all(&question.content, &question.warnings);
        let (answer, mut ended) = oneshot::channel();
        let timeout = question.timeout;
        let asked_at = rfc3339(self.clock.now());
        let orphaned = Arc::new(Notify::new());
        let mut open = Open { question, asked_at, note: None, answer, orphaned: orphaned.clone() };
        let waits = self.audience.is_awaited(&open.question.origin.session);
        // Before anybody sees it, and outside the lock.
        if waits || self.can_be_answered(open.question.kind()) {
            let about = about(&id, &open).with("record", record_name(open.question.kind(), CUT_OFF));
            let note = self.unended.note(&id, about);
            open.note = note.inspect_err(|error| tracing::error!(%error, "no note of an open question")).ok();
        }
        {
            let mut state = self.state();
            let clients = self.audience.clients();
            let waits = waits && !clients.iter().any(|(_, client)| client.is_interactor());
            let interactors: Vec<_> = clients
                .into_iter()
                .filter(|(_, client)| can_show(client.as_ref(), open.question.kind()))
                .collect();
            if (interactors.is_empty() && !waits) || state.open.len() >= OPEN_QUESTIONS {
                drop(state);
                return self.unattended(&id, open);
            }
            if interactors.is_empty() {
                // The time that it waits begins now.
                orphaned.notify_one();
            }
            state.open.insert(id.clone(), open);
            crash::point("question-open");
            for (connection, client) in interactors {
                state.enqueue(self.audience.as_ref(), connection, client, id.clone());
            }
            crash::point("question-told");
        }
        let late = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let alone = async {
            loop {
                orphaned.notified().await;
                tokio::time::sleep(Duration::from_millis(self.grace.load(Ordering::Acquire))).await;
                if !self.state().is_shown(&id) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            resolution = &mut ended => return resolution.unwrap_or(Resolution::Withdrawn),
            () = stop.cancelled() => self.close(&id, By::Core, Resolution::Withdrawn),
            () = late => self.close(&id, By::Core, Resolution::TimedOut),
            () = alone => self.give_up(&id),
        }
        // If an answer arrived at the same instant, it counts: its sender was told so.
        ended.await.unwrap_or(Resolution::Withdrawn)
    }

    /// The outcome of a question that no client can see.
    fn unattended(&self, id: &Arc<str>, mut open: Open) -> Resolution {
        let question = &open.question;
        let resolution = match (question.unattended, answers::unattended(question.kind())) {
            (true, Some(answer)) => Resolution::Accepted { answer, note: None },
            _ => Resolution::Headless,
        };
        self.write_down(id, &open, &By::Headless, &resolution);
        if let Some(note) = open.note.take() {
            note.remove();
        }
        resolution
    }

    /// The open questions, oldest first, each with the number of connections that can answer it.
    pub fn open(&self) -> Vec<(Arc<str>, Arc<str>, Question, usize)> {
        let state = self.state();
        let shown = |id| state.queues.values().filter(|queue| queue.questions.contains(id)).count();
        let open = state
            .open
            .iter()
            .map(|(id, open)| (open.asked_at.clone(), id.clone(), open.question.clone(), shown(id)));
        let mut open: Vec<_> = open.collect();
        // Identifiers sort by time, down to a millisecond.
        open.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        open
    }

    /// Whether a question is open, and is one of that session.
    pub fn is_of(&self, id: &str, session: &SessionId) -> bool {
        self.state().open.get(id).is_some_and(|open| open.question.origin.session == *session)
    }

    /// Takes an answer. The first valid one wins. The reply precedes the event for the others.
    pub fn respond(&self, connection: u64, given: Given, reply: Reply<()>) {
        match self.hold(connection, given) {
            Ok(held) => held.settle(connection, Some(reply)),
            Err(error) => reply.fail(error),
        }
    }

    /// The session in whose journal the answer to a question must stand before it counts; `None` for a question
    /// without one.
    pub fn journal_of(&self, id: &str) -> Option<SessionId> {
        let state = self.state();
        let question =
            state.open.get(id).map(|open| &open.question).filter(|question| question.journalled)?;
        Some(question.origin.session.clone())
    }

    /// Takes an answer that has no effect yet, for whoever has to write it down first.
    ///
    /// # Errors
    /// If the question is not open, or the answer does not fit it.
    pub fn hold(&self, connection: u64, given: Given) -> Result<HeldAnswer<'_>, ApiError> {
        match given {
            Given::Response(response) => self.hold_response(*response),
            Given::Dialog(id, result) => self.hold_result(connection, &id, result),
        }
    }

    fn hold_response(&self, response: Response) -> Result<HeldAnswer<'_>, ApiError> {
        let id: Arc<str> = response.interaction_id.as_str().into();
        let note = response.note;
        let mut state = self.state();
        let content = &state.find(&id)?.question.content;
        let resolution = match response.accepted {
            true => Resolution::Accepted { answer: answers::read(content, response.answer)?, note },
            false => {
                answers::cancelled(&response.answer)?;
                Resolution::Cancelled { note }
            }
        };
        self.hold_as(state, id, resolution)
    }

    fn hold_as(
        &self,
        mut state: MutexGuard<'_, State>,
        id: Arc<str>,
        resolution: Resolution,
    ) -> Result<HeldAnswer<'_>, ApiError> {
        let open = state.open.remove(&id).ok_or_else(already_answered)?;
        state.held.insert(id.clone(), Meanwhile::default());
        drop(state);
        Ok(HeldAnswer { questions: self, id, open: Some(open), resolution })
    }

    /// The answer yes or no to a question, whose further fields have their defaults.
    ///
    /// # Errors
    /// If the question is open and takes more than yes or no.
    pub fn decision(&self, id: String, approve: bool, note: Option<String>) -> Result<Response, ApiError> {
        let kind = self.state().open.get(id.as_str()).map(|open| open.question.kind());
        if let Some(kind) = kind.filter(|kind| !kind.is_yes_or_no()) {
            let message = format!(
                "A question of the kind {} takes more than a yes or no: answer it with interaction_respond.",
                kind.as_str()
            );
            return Err(ApiError::new(ErrorCode::InvalidParams, message));
        }
        let answer = AnswerFields {
            ok: Some(approve),
            done: Some(approve),
            outcome: Some(if approve { "approve" } else { "deny" }.to_owned()),
            scope: Some(ApprovalScope::Once.as_str().to_owned()),
            ..AnswerFields::default()
        };
        Ok(Response { interaction_id: id, accepted: true, answer, note })
    }

    /// Takes a dialog's result; `None` cancels it.
    fn hold_result(
        &self,
        connection: u64,
        dialog: &str,
        result: Option<DialogResult>,
    ) -> Result<HeldAnswer<'_>, ApiError> {
        let id: Arc<str> = dialog.into();
        let mut state = self.state();
        let shown = state.queues.get(&connection).and_then(|queue| queue.questions.front().cloned());
        let resolution = match (shown, result) {
            (shown, _) if shown.as_deref() != Some(dialog) && state.was_closed.contains(&id) => {
                return Err(already_answered());
            }
            (None, _) => return Err(ApiError::new(ErrorCode::NoActiveDialog, "No dialog is open.")),
            (Some(shown), _) if *shown != *dialog => {
                let message = format!("The open dialog is {shown:?}.");
                return Err(ApiError::new(ErrorCode::DialogIdMismatch, message));
            }
            (Some(_), None) => {
                state.find(&id)?;
                Resolution::Cancelled { note: None }
            }
            (Some(_), Some(result)) => {
                let answer = dialog::answer(&state.find(&id)?.question.content, result)?;
                Resolution::Accepted { answer, note: None }
            }
        };
        self.hold_as(state, id, resolution)
    }

    /// Writes the audit record of an answer that was journalled by a process which was killed before it could do so.
    pub fn record_earlier(
        &self,
        id: &Arc<str>,
        question: Question,
        asked_at: Arc<str>,
        by: Arc<str>,
        resolution: &Resolution,
    ) {
        let is_there = |record: &Map<'static>| {
            let text = |key: &str| record.get_keyword(key).and_then(Value::as_str);
            text("interaction-id") == Some(id) && text("outcome") != Some(CUT_OFF)
        };
        if audit::newest(self.audit.path(), usize::MAX).iter().any(is_there) {
            return;
        }
        let (answer, _) = oneshot::channel();
        let open = Open { question, asked_at, note: None, answer, orphaned: Arc::default() };
        self.write_down(id, &open, &By::Earlier(by), resolution);
    }

    /// A connection became an interactor: queues every open question for it and shows the first.
    pub fn joined(&self, connection: u64, client: &Arc<dyn Client>) -> Option<Event> {
        let mut state = self.state();
        let mut open: Vec<_> = state
            .open
            .iter()
            .filter(|(_, open)| can_show(client.as_ref(), open.question.kind()))
            .map(|(id, open)| (open.asked_at.clone(), id.clone()))
            .collect();
        // Identifiers sort by time, down to a millisecond.
        open.sort();
        let questions: VecDeque<Arc<str>> = open.into_iter().map(|(_, id)| id).collect();
        let mut event = questions.front().and_then(|id| state.event(client.as_ref(), id));
        if questions.is_empty() {
            state.queues.remove(&connection);
        } else {
            state.queues.insert(connection, QuestionQueue { client: client.clone(), questions });
        }
        drop(state);
        // The session has written since.
        if let Some(event) = &mut event
            && let Some(session) = event.session.clone()
        {
            self.audience.in_order(&session, &mut |offset| event.offset = offset.unwrap_or(event.offset));
        }
        event
    }

    /// A connection is gone. Questions that no other client sees end as they would without interactors.
    pub fn left(&self, connection: u64) {
        let orphans: Vec<Arc<str>> = {
            let mut state = self.state();
            let Some(gone) = state.queues.remove(&connection) else { return };
            gone.questions.into_iter().filter(|id| !state.is_shown(id)).collect()
        };
        let at_once = self.grace.load(Ordering::Acquire) == 0;
        for id in orphans {
            if at_once {
                self.give_up(&id);
            } else if let Some(open) = self.state().open.get(&id) {
                open.orphaned.notify_one();
            }
        }
    }

    /// Ends a question that no client sees.
    fn give_up(&self, id: &Arc<str>) {
        let answer = self.state().open.get(id).and_then(|open| {
            open.question.unattended.then(|| answers::unattended(open.question.kind())).flatten()
        });
        let resolution =
            answer.map_or(Resolution::Headless, |answer| Resolution::Accepted { answer, note: None });
        self.close(id, By::Headless, resolution);
    }

    /// Ends a question without a client's answer, if it is still open.
    fn close(&self, id: &Arc<str>, by: By, resolution: Resolution) {
        let mut state = self.state();
        if let Some(meanwhile) = state.held.get_mut(id) {
            meanwhile.end = Some((by, resolution));
            return;
        }
        let taken = state.take(id);
        drop(state);
        if let Ok(open) = taken {
            self.finish(id, open, by, resolution, None);
        }
    }

    /// Ends a question that was taken out of the open ones: records it, replies to the answerer, notifies everyone,
    /// and shows each interactor its next question.
    fn finish(
        &self,
        id: &Arc<str>,
        mut open: Open,
        by: By,
        resolution: Resolution,
        reply: Option<Reply<()>>,
    ) {
        // Recorded before it takes effect.
        self.write_down(id, &open, &by, &resolution);
        if let Some(note) = open.note.take() {
            note.remove();
        }
        if let Some(reply) = reply {
            reply.ok(());
        }
        let event = answered(id, &open.question, &by, &resolution);
        let clients: Vec<_> = self.audience.clients().into_iter().map(|(_, client)| client).collect();
        tell(self.audience.as_ref(), &clients, event);
        self.state().advance(self.audience.as_ref(), id);
        let _ = open.answer.send(resolution);
    }

    fn write_down(&self, id: &str, open: &Open, by: &By, resolution: &Resolution) {
        let kind = open.question.kind();
        let mut record = about(id, open);
        record.put("record", record_name(kind, outcome(resolution)));
        if let Resolution::Accepted { answer, .. } = resolution {
            let scope = match answer {
                Answer::Approve { scope, .. } => *scope,
                Answer::Forbid { scope, .. } => Some(*scope),
                _ => None,
            };
            record.put_some("scope", scope.map(ApprovalScope::as_str));
            if let (Answer::Approve { content: Some(content), .. }, QuestionContent::Approve(approval)) =
                (answer, open.question.content.as_ref())
                && let Some(proposed) = &approval.proposal
            {
                record.put("edited", true);
                record.put("proposal-sha256", audit::sha256(proposed.text.as_bytes()));
                record.put("content-sha256", audit::sha256(content.as_bytes()));
            }
        }
        if kind == QuestionKind::ApproveSubagentEnvelope
            && let Resolution::Accepted { note: Some(note), .. } | Resolution::Cancelled { note: Some(note) } =
                resolution
        {
            record.put("note", note.clone());
        }
        record.put("ext-id", by.to_string());
        if let By::Client(connection) = by
            && let Some((_, client)) = self.audience.clients().into_iter().find(|(id, _)| id == connection)
        {
            // The connection's number means nothing once the process has ended.
            let peer = client.peer();
            record.put("transport", peer.transport);
            record.put_some(
                "client",
                peer.agreed.map(|agreed| agreed.name.chars().take(AUDIT_NAME_CHARS).collect::<String>()),
            );
        }
        record.put("outcome", outcome(resolution));
        record.put("answered-at", rfc3339(self.clock.now()).to_string());
        if let Err(error) = self.audit.append(record) {
            tracing::error!(%error, "the audit record could not be written");
        }
    }

    /// Opens a question again whose answer did not count.
    fn reopen(&self, id: &Arc<str>, open: Open) {
        let mut state = self.state();
        let Meanwhile { end, refused } = state.held.remove(id).unwrap_or_default();
        if let Some((by, resolution)) = end {
            state.note_closed(id);
            drop(state);
            return self.finish(id, open, by, resolution, None);
        }
        let orphaned = open.orphaned.clone();
        state.open.insert(id.clone(), open);
        // Whoever was told that it is answered sees it again.
        for queue in state.queues.values().filter(|queue| refused && queue.questions.front() == Some(id)) {
            if let Some(event) = state.event(queue.client.as_ref(), id) {
                tell(self.audience.as_ref(), std::slice::from_ref(&queue.client), event);
            }
        }
        // Who came meanwhile has not seen it.
        for (connection, client) in self.audience.clients() {
            let is_shown = state.queues.get(&connection).is_some_and(|queue| queue.questions.contains(id));
            let fits = state.open.get(id).is_some_and(|open| can_show(client.as_ref(), open.question.kind()));
            if fits && !is_shown {
                state.enqueue(self.audience.as_ref(), connection, client, id.clone());
            }
        }
        if !state.is_shown(id) {
            orphaned.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldAnswer<'_> {
    /// The question.
    pub fn question(&self) -> &Arc<str> {
        &self.id
    }

    /// Whether the question is in the journal of its session.
    pub fn is_journalled(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.question.journalled)
    }

    /// How the question ends, once the answer counts.
    pub fn resolution(&self) -> &Resolution {
        &self.resolution
    }

    /// The name of a client that answers, in events and in the audit.
    pub fn answerer(connection: u64) -> Arc<str> {
        By::Client(connection).to_string().into()
    }

    /// Lets the answer count.
    pub fn settle(mut self, connection: u64, reply: Option<Reply<()>>) {
        let Some(open) = self.open.take() else { return };
        let mut state = self.questions.state();
        state.held.remove(&self.id);
        state.note_closed(&self.id);
        drop(state);
        self.questions.finish(&self.id, open, By::Client(connection), self.resolution.clone(), reply);
    }
}

impl Drop for HeldAnswer<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.questions.reopen(&self.id, open);
        }
    }
}

impl State {
    fn find(&mut self, id: &Arc<str>) -> Result<&Open, ApiError> {
        let mut closed = self.was_closed.contains(id);
        if let Some(meanwhile) = self.held.get_mut(id) {
            meanwhile.refused = true;
            closed = true;
        }
        self.open.get(id).ok_or_else(|| match closed {
            true => already_answered(),
            false => ApiError::not_found("interaction", id),
        })
    }

    fn is_shown(&self, id: &Arc<str>) -> bool {
        self.queues.values().any(|queue| queue.questions.contains(id))
    }

    fn take(&mut self, id: &Arc<str>) -> Result<Open, ApiError> {
        self.find(id)?;
        let open = self.open.remove(id).ok_or_else(already_answered)?;
        self.note_closed(id);
        Ok(open)
    }

    fn note_closed(&mut self, id: &Arc<str>) {
        self.closed.push_back(id.clone());
        self.was_closed.insert(id.clone());
        if self.closed.len() > CLOSED_QUESTIONS
            && let Some(oldest) = self.closed.pop_front()
        {
            self.was_closed.remove(&oldest);
        }
    }

    fn enqueue(&mut self, audience: &dyn Audience, connection: u64, client: Arc<dyn Client>, id: Arc<str>) {
        let queue = self
            .queues
            .entry(connection)
            .or_insert_with(|| QuestionQueue { client: client.clone(), questions: VecDeque::new() });
        queue.questions.push_back(id.clone());
        if queue.questions.len() == 1
            && let Some(event) = self.event(client.as_ref(), &id)
        {
            tell(audience, &[client], event);
        }
    }

    /// Removes an ended question from every queue, and shows the next one where it was first.
    fn advance(&mut self, audience: &dyn Audience, id: &Arc<str>) {
        let mut next = Vec::new();
        for queue in self.queues.values_mut() {
            let shown = queue.questions.front() == Some(id);
            queue.questions.retain(|waiting| waiting != id);
            if let (true, Some(first)) = (shown, queue.questions.front()) {
                next.push((queue.client.clone(), first.clone()));
            }
        }
        self.queues.retain(|_, queue| !queue.questions.is_empty());
        for (client, id) in next {
            if let Some(event) = self.event(client.as_ref(), &id) {
                tell(audience, &[client], event);
            }
        }
    }

    /// The question as an event for a connection.
    fn event(&self, client: &dyn Client, id: &Arc<str>) -> Option<Event> {
        let question = &self.open.get(id)?.question;
        let body = if client.dialogs_only() {
            let dialog = dialog::dialog(id, &question.content, &question.warnings)?;
            Body::DialogRequested(Arc::new(Dialog { subagent: question.origin.subagent.clone(), ..dialog }))
        } else {
            Body::QuestionAsked(Arc::new(QuestionAsked {
                id: id.clone(),
                correlation: question.origin.correlation.clone(),
                content: question.content.clone(),
                warnings: question.warnings.clone(),
                subagent: question.origin.subagent.clone(),
            }))
        };
        Some(event(question, body))
    }
}

/// Whether a connection answers questions and supports this one.
fn can_show(client: &dyn Client, kind: QuestionKind) -> bool {
    client.is_interactor()
        && client.answers(kind)
        && !(client.dialogs_only() && kind == QuestionKind::Password)
}

fn event(question: &Question, body: Body) -> Event {
    Event {
        session: Some(question.origin.session.clone()),
        offset: question.origin.offset,
        turn: question.origin.turn.clone(),
        entry: None,
        cause: question.origin.cause.clone(),
        piece: None,
        body,
    }
}

fn answered(id: &str, question: &Question, by: &By, resolution: &Resolution) -> Event {
    let (accepted, answer) = match resolution {
        Resolution::Accepted { answer, .. } => (true, Some(answer)),
        Resolution::Cancelled { .. }
        | Resolution::Headless
        | Resolution::Withdrawn
        | Resolution::TimedOut => (false, None),
    };
    let ended = QuestionEnded {
        id: id.into(),
        correlation: question.origin.correlation.clone(),
        accepted,
        by: by.to_string().into(),
        answer: answer.filter(|_| !question.kind().is_private()).cloned(),
    };
    event(question, Body::QuestionEnded(Arc::new(ended)))
}

/// Who ended a question. Its text is the name in events and in the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    /// The program: the time is over, or the asker withdrew it.
    Core,
    /// The program, since no client can answer.
    Headless,
    /// The client of a connection.
    Client(u64),
    /// The client of a connection of another process, as its journal names it.
    Earlier(Arc<str>),
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("core"),
            Self::Headless => f.write_str("headless"),
            Self::Client(connection) => write!(f, "connection-{connection}"),
            Self::Earlier(name) => f.write_str(name),
        }
    }
}

fn already_answered() -> ApiError {
    ApiError::new(ErrorCode::InteractionAlreadyAnswered, "The question was already answered or withdrawn.")
}

/// The outcome of a question whose process was killed.
const CUT_OFF: &str = "cut-off";

/// What an audit record says of a question whatever its end.
fn about(id: &str, open: &Open) -> Map<'static> {
    let Question { content, origin, .. } = &open.question;
    let mut record = Map::new();
    record.put("kind", content.kind().as_str());
    record.put("interaction-id", id.to_owned());
    record.put("correlation-id", origin.correlation.to_string());
    record.put("session-id", origin.session.to_value());
    if let Some(Subagent { parent, id: subagent, .. }) = &origin.subagent {
        record.put("parent-session-id", parent.to_value());
        record.put("subagent-id", subagent.to_string());
    }
    record.put_some("tool", content.tool().map(ToString::to_string));
    if let QuestionContent::Approve(approval) = content.as_ref() {
        // Masked before it is cut: half a secret has no form that is known.
        let asked = approval.command.as_deref().or(approval.path.as_deref()).unwrap_or(&approval.summary);
        let masked = secret::mask(asked);
        let words: Vec<&str> = masked.split_whitespace().take(AUDIT_REQUEST_CHARS).collect();
        record.put("request", words.join(" ").chars().take(AUDIT_REQUEST_CHARS).collect::<String>());
    }
    if let QuestionContent::ApproveSubagentEnvelope(request) = content.as_ref() {
        let (provider, id) = &request.model;
        let model = Map::new().with("provider", provider.to_string()).with("id", id.to_string());
        record.put("child-session-id", request.subagent.to_value());
        record.put("tools", Value::vector(request.tools.iter().map(|tool| Value::from(tool.clone()))));
        record.put("model", Value::from(model));
    }
    record.put("requested-at", open.asked_at.to_string());
    record
}

/// The outcome as one word, without the answer.
fn outcome(resolution: &Resolution) -> &'static str {
    match resolution {
        Resolution::Accepted { answer, .. } => answer.outcome().unwrap_or("accepted"),
        Resolution::Cancelled { .. } => "cancelled",
        Resolution::Headless => "headless",
        Resolution::TimedOut => "timed-out",
        Resolution::Withdrawn => "withdrawn",
    }
}

fn record_name(kind: QuestionKind, outcome: &str) -> &'static str {
    match (kind, outcome) {
        (QuestionKind::ApproveSubagentEnvelope, "approve") => "SubagentEnvelopeApproved",
        (QuestionKind::ApproveSubagentEnvelope, _) => "SubagentEnvelopeDenied",
        _ => "Interaction",
    }
}
