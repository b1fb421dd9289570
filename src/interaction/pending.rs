//! The open questions of a process: whose answer counts, and what follows an end.
//!
//! Every interactor gets a question at once. The first valid answer wins, and the others are notified. Each
//! interactor has a queue for each root session and sees its next question only after the previous one has ended
//! ([`super::open_questions`]).
//! One lock covers all of that, so that two simultaneous answers have an order. Does not know the purpose of a
//! question.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::audit::{self, Audit};
use super::interrupted::{QuestionNote, QuestionNotes};
use super::open_questions::{self, Asking, Audience, Open, OpenQuestions, already_answered, can_show, fits};
use super::question::{ClientAnswer, EndedBy, Origin, Question, Resolution};
use super::records::{self, CUT_OFF};
use super::{answers, dialog, warning};
use crate::catalogue::ErrorCode;
use crate::clock::{Clock, rfc3339};
use crate::crash;
use crate::event::question::{ApprovalScope, QuestionKind};
use crate::event::{Event, Subagent};
use crate::message::SessionId;
use crate::session::{AnswerFields, ApiError, Client, DialogResult, Reply, Response};
use crate::telemetry::Work;
use crate::value::{Map, Value};

/// The open questions of a process.
pub struct PendingQuestions {
    audience: Arc<dyn Audience>,
    audit: Audit,
    unended: QuestionNotes,
    clock: Arc<dyn Clock>,
    /// Milliseconds that a question stays open after the last interactor that saw it has left.
    grace: AtomicU64,
    questions: Mutex<OpenQuestions>,
}

/// An answer that is valid and first, and has no effect yet. Nobody else can answer the question meanwhile. Dropped, it
/// leaves the question open.
pub struct HeldAnswer<'q> {
    questions: &'q PendingQuestions,
    id: Arc<str>,
    open: Option<Open>,
    resolution: Resolution,
}

impl PendingQuestions {
    /// No question yet; the audit and the notes of open questions are in the state folder.
    pub fn new(audience: Arc<dyn Audience>, state_dir: &Path, clock: Arc<dyn Clock>) -> Self {
        let (audit, unended) = (Audit::new(state_dir), QuestionNotes::new(state_dir));
        Self { audience, audit, unended, clock, grace: AtomicU64::new(0), questions: Mutex::default() }
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
                records::cut_off(&mut record, &rfc3339(self.clock.now()));
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

    /// Whether somebody is there who can answer questions of that kind about the session. `subagent` is the one that
    /// asks.
    pub fn can_be_answered(
        &self,
        session: &SessionId,
        subagent: Option<&Subagent>,
        kind: QuestionKind,
    ) -> bool {
        let clients = self.audience.clients();
        clients.iter().any(|(_, client)| can_show(client.as_ref(), session, subagent, kind))
    }

    /// Whether a question of a session would be open: somebody can answer it, or it waits for somebody to come.
    pub fn would_be_open(
        &self,
        session: &SessionId,
        subagent: Option<&Subagent>,
        kind: QuestionKind,
    ) -> bool {
        self.can_be_answered(session, subagent, kind) || self.audience.is_awaited(session)
    }

    /// Asks a question and waits for its end. Cancelling `stop` withdraws it.
    pub async fn ask(&self, question: Question, stop: &CancellationToken) -> Resolution {
        self.ask_as(self.new_id(), question, stop).await
    }

    /// The same for a question that has its id: a new one, or that of a question which was cut off with its process.
    /// Every question passes here, and its warnings are completed.
    pub async fn ask_as(&self, id: Arc<str>, question: Question, stop: &CancellationToken) -> Resolution {
        let work = Work::question(question.kind().as_str(), &id);
        let resolution = work.run(self.wait_for_answer(id, question, stop)).await;
        work.resolved(records::outcome(&resolution));
        resolution
    }

    async fn wait_for_answer(
        &self,
        id: Arc<str>,
        mut question: Question,
        stop: &CancellationToken,
    ) -> Resolution {
        question.warnings = warning::all(&question.content, &question.warnings);
        let (answer, mut ended) = oneshot::channel();
        let timeout = question.timeout;
        let asked_at = rfc3339(self.clock.now());
        let orphaned = Arc::new(Notify::new());
        let mut open = Open { question, asked_at, note: None, answer, orphaned: orphaned.clone() };
        let waits = self.audience.is_awaited(&open.question.origin.session);
        // Before anybody sees it, and outside the lock.
        let can_be_answered = {
            let Origin { session, subagent, .. } = &open.question.origin;
            self.can_be_answered(session, subagent.as_ref(), open.question.kind())
        };
        if waits || can_be_answered {
            let note = self.unended.note(&id, records::open(&id, &open.question, &open.asked_at));
            open.note = note.inspect_err(|error| tracing::error!(%error, "no note of an open question")).ok();
        }
        let session = open.question.origin.session.clone();
        {
            let mut questions = self.lock();
            let clients = self.audience.clients();
            let origin = &open.question.origin;
            let answers = |client: &Arc<dyn Client>| {
                client.is_interactor() && client.asks_about(&origin.session, origin.subagent.as_ref())
            };
            let waits = waits && !clients.iter().any(|(_, client)| answers(client));
            let interactors: Vec<_> =
                clients.into_iter().filter(|(_, client)| fits(client.as_ref(), &open.question)).collect();
            if (interactors.is_empty() && !waits) || questions.is_full() {
                drop(questions);
                return self.unattended(&id, open);
            }
            if interactors.is_empty() {
                // The time that it waits begins now.
                orphaned.notify_one();
            }
            questions.add(id.clone(), open);
            crash::point("question-open");
            for (connection, client) in interactors {
                questions.enqueue(self.audience.as_ref(), connection, client, id.clone());
            }
            crash::point("question-told");
        }
        let _asking = Asking::begin(self.audience.as_ref(), session);
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
                if !self.lock().is_shown(&id) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            resolution = &mut ended => return resolution.unwrap_or(Resolution::Withdrawn),
            () = stop.cancelled() => self.close(&id, EndedBy::Core, Resolution::Withdrawn),
            () = late => self.close(&id, EndedBy::Core, Resolution::TimedOut),
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
        self.write_down(id, &open, &EndedBy::Headless, &resolution);
        if let Some(note) = open.note.take() {
            note.remove();
        }
        resolution
    }

    /// The open questions, oldest first, each with the number of connections that can answer it.
    pub fn open(&self) -> Vec<(Arc<str>, Arc<str>, Question, usize)> {
        self.lock().list()
    }

    /// Whether a question is open, and is one of that session.
    pub fn is_of(&self, id: &str, session: &SessionId) -> bool {
        self.lock().get(id).is_some_and(|open| open.question.origin.session == *session)
    }

    /// Takes an answer. The first valid one wins. The reply precedes the event for the others.
    pub fn respond(&self, connection: u64, given: ClientAnswer, reply: Reply<()>) {
        match self.hold(connection, given) {
            Ok(held) => held.settle(connection, Some(reply)),
            Err(error) => reply.fail(error),
        }
    }

    /// The session in whose journal the answer to a question must stand before it counts; `None` for a question
    /// without one.
    pub fn journal_of(&self, id: &str) -> Option<SessionId> {
        let questions = self.lock();
        let question = questions.get(id).map(|open| &open.question).filter(|question| question.journalled)?;
        Some(question.origin.session.clone())
    }

    /// Takes an answer that has no effect yet, for a caller that has to write it down first.
    ///
    /// # Errors
    /// If the question is not open, or the answer does not fit it.
    pub fn hold(&self, connection: u64, given: ClientAnswer) -> Result<HeldAnswer<'_>, ApiError> {
        match given {
            ClientAnswer::Response(response) => self.hold_response(*response),
            ClientAnswer::Dialog(id, result) => self.hold_result(connection, &id, result),
        }
    }

    fn hold_response(&self, response: Response) -> Result<HeldAnswer<'_>, ApiError> {
        let id: Arc<str> = response.interaction_id.as_str().into();
        let note = response.note;
        let mut questions = self.lock();
        let content = &questions.find(&id)?.question.content;
        let resolution = match response.accepted {
            true => Resolution::Accepted { answer: answers::read(content, response.answer)?, note },
            false => {
                answers::cancelled(&response.answer)?;
                Resolution::Cancelled { note }
            }
        };
        self.hold_as(questions, id, resolution)
    }

    fn hold_as(
        &self,
        mut questions: MutexGuard<'_, OpenQuestions>,
        id: Arc<str>,
        resolution: Resolution,
    ) -> Result<HeldAnswer<'_>, ApiError> {
        let open = questions.hold(&id)?;
        drop(questions);
        Ok(HeldAnswer { questions: self, id, open: Some(open), resolution })
    }

    /// The answer yes or no to a question, whose further fields have their defaults.
    ///
    /// # Errors
    /// If the question is open and takes more than yes or no.
    pub fn decision(&self, id: String, approve: bool, note: Option<String>) -> Result<Response, ApiError> {
        let kind = self.lock().get(&id).map(|open| open.question.kind());
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
        let mut questions = self.lock();
        let shown = questions.shown_to(connection);
        let is_shown = shown.contains(&id);
        let resolution = match (shown.first(), result) {
            _ if !is_shown && questions.was_closed(&id) => return Err(already_answered()),
            (None, _) => return Err(ApiError::new(ErrorCode::NoActiveDialog, "No dialog is open.")),
            (Some(_), _) if !is_shown => {
                let shown: Vec<String> = shown.iter().map(|id| format!("{id:?}")).collect();
                let message = format!("The open dialog is {}.", shown.join(" or "));
                return Err(ApiError::new(ErrorCode::DialogIdMismatch, message));
            }
            (Some(_), None) => {
                questions.find(&id)?;
                Resolution::Cancelled { note: None }
            }
            (Some(_), Some(result)) => {
                let answer = dialog::answer(&questions.find(&id)?.question.content, result)?;
                Resolution::Accepted { answer, note: None }
            }
        };
        self.hold_as(questions, id, resolution)
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
        self.write_down(id, &open, &EndedBy::Earlier(by), resolution);
    }

    /// A connection became an interactor: queues every open question for it and returns the first of each root session.
    pub fn joined(&self, connection: u64, client: &Arc<dyn Client>) -> Vec<Event> {
        let mut events = self.lock().join(connection, client);
        for event in &mut events {
            // The session has written since.
            if let Some(session) = event.session.clone() {
                self.audience.in_order(&session, &mut |offset| event.offset = offset.unwrap_or(event.offset));
            }
        }
        events
    }

    /// A connection is gone. Questions that no other client sees end as they would without interactors.
    pub fn left(&self, connection: u64) {
        let orphans = self.lock().leave(connection);
        let at_once = self.grace.load(Ordering::Acquire) == 0;
        for id in orphans {
            if at_once {
                self.give_up(&id);
            } else if let Some(open) = self.lock().get(&id) {
                open.orphaned.notify_one();
            }
        }
    }

    /// Lets go of a session's questions without an end: another process asks them again. An answer that is about to count
    /// is in the journal, which that process reads.
    pub fn hand_over(&self, session: &SessionId) {
        let gone = self.lock().take_of(self.audience.as_ref(), session);
        gone.into_iter().filter_map(|open| open.note).for_each(QuestionNote::remove);
    }

    /// Ends a question that no client sees.
    fn give_up(&self, id: &Arc<str>) {
        let answer = self.lock().get(id).and_then(|open| {
            open.question.unattended.then(|| answers::unattended(open.question.kind())).flatten()
        });
        let resolution =
            answer.map_or(Resolution::Headless, |answer| Resolution::Accepted { answer, note: None });
        self.close(id, EndedBy::Headless, resolution);
    }

    /// Ends a question without a client's answer, if it is still open.
    fn close(&self, id: &Arc<str>, by: EndedBy, resolution: Resolution) {
        let mut questions = self.lock();
        if questions.end_if_held(id, &by, &resolution) {
            return;
        }
        let closed = questions.close(id);
        drop(questions);
        if let Ok(open) = closed {
            self.finish(id, open, by, resolution, None);
        }
    }

    /// Ends a question that was taken out of the open ones: records it, replies to the answerer, notifies everyone,
    /// and shows each interactor its next question.
    fn finish(
        &self,
        id: &Arc<str>,
        mut open: Open,
        by: EndedBy,
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
        let event = open_questions::answered(id, &open.question, &by, &resolution);
        let clients: Vec<_> = self.audience.clients().into_iter().map(|(_, client)| client).collect();
        open_questions::tell(self.audience.as_ref(), &clients, event);
        self.lock().advance(self.audience.as_ref(), id);
        let _ = open.answer.send(resolution);
    }

    fn write_down(&self, id: &str, open: &Open, by: &EndedBy, resolution: &Resolution) {
        let peer = match by {
            EndedBy::Client(connection) => {
                let clients = self.audience.clients();
                clients.into_iter().find(|(id, _)| id == connection).map(|(_, client)| client.peer())
            }
            _ => None,
        };
        let now = rfc3339(self.clock.now());
        let record = records::ended(id, &open.question, &open.asked_at, by, resolution, peer, &now);
        if let Err(error) = self.audit.append(record) {
            tracing::error!(%error, "the audit record could not be written");
        }
    }

    /// Opens a question again whose answer did not count.
    fn reopen(&self, id: &Arc<str>, open: Open) {
        let ended = self.lock().reopen(self.audience.as_ref(), id, open);
        if let Some((open, by, resolution)) = ended {
            self.finish(id, open, by, resolution, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenQuestions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
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
        EndedBy::Client(connection).to_string().into()
    }

    /// Lets the answer count.
    pub fn settle(mut self, connection: u64, reply: Option<Reply<()>>) {
        let Some(open) = self.open.take() else { return };
        self.questions.lock().settle(&self.id);
        self.questions.finish(&self.id, open, EndedBy::Client(connection), self.resolution.clone(), reply);
    }
}

impl Drop for HeldAnswer<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.questions.reopen(&self.id, open);
        }
    }
}
