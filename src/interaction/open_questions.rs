//! Which questions are open, and which interactor sees which of them.
//!
//! Every interactor has a queue for each session that works for none, with the questions of its subagents, and sees the
//! first of each: no question of a session hides one of another. Has no lock and ends no question: [`super::pending`] does
//! both. Does not know the purpose of a question.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use super::dialog;
use super::interrupted::QuestionNote;
use super::question::{EndedBy, Origin, Question, Resolution};
use crate::catalogue::ErrorCode;
use crate::event::question::QuestionKind;
use crate::event::{Body, Dialog, Event, QuestionAsked, QuestionEnded, Subagent};
use crate::limits::{CLOSED_QUESTIONS, OPEN_QUESTIONS};
use crate::message::SessionId;
use crate::session::{ApiError, Client};

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

    /// A question of that session is open from now on, or no more.
    fn asks(&self, session: &SessionId, begins: bool) {
        let _ = (session, begins);
    }
}

/// A question of a session that is open, for as long as this lives.
pub(super) struct Asking<'a> {
    audience: &'a dyn Audience,
    session: SessionId,
}

impl<'a> Asking<'a> {
    pub(super) fn begin(audience: &'a dyn Audience, session: SessionId) -> Self {
        audience.asks(&session, true);
        Self { audience, session }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.audience.asks(&self.session, false);
    }
}

/// Sends clients an event in its place among the session's.
pub(super) fn tell(audience: &dyn Audience, clients: &[Arc<dyn Client>], mut event: Event) {
    let Some(session) = event.session.clone() else { return };
    audience.in_order(&session, &mut |offset| {
        event.offset = offset.unwrap_or(event.offset);
        for client in clients {
            let _ = client.deliver(&event);
        }
    });
}

/// The open questions, those whose answer is about to count, and the newest closed ones.
#[derive(Default)]
pub(super) struct OpenQuestions {
    open: HashMap<Arc<str>, Open>,
    /// The questions whose answer is about to count.
    held: HashMap<Arc<str>, Meanwhile>,
    closed: VecDeque<Arc<str>>,
    was_closed: HashSet<Arc<str>>,
    queues: HashMap<u64, QuestionQueue>,
}

/// An open question.
pub(super) struct Open {
    pub question: Question,
    pub asked_at: Arc<str>,
    /// Its note on disk, if that could be written.
    pub note: Option<QuestionNote>,
    pub answer: oneshot::Sender<Resolution>,
    /// The last interactor that saw it has left.
    pub orphaned: Arc<Notify>,
}

/// What came while an answer was held.
#[derive(Default)]
struct Meanwhile {
    /// The end of the question, which counts if the answer does not.
    end: Option<(EndedBy, Resolution)>,
    /// Whether another answer was refused.
    refused: bool,
}

/// One interactor's questions, oldest first; it sees the first of each root session.
struct QuestionQueue {
    client: Arc<dyn Client>,
    questions: Vec<Queued>,
}

/// A question in a queue.
struct Queued {
    root: SessionId,
    id: Arc<str>,
}

impl QuestionQueue {
    fn contains(&self, id: &str) -> bool {
        self.questions.iter().any(|question| *question.id == *id)
    }

    /// The question of a root session that the interactor sees.
    fn first_of(&self, root: &SessionId) -> Option<&Arc<str>> {
        self.questions.iter().find(|question| question.root == *root).map(|question| &question.id)
    }

    /// The root session of a question that the interactor sees.
    fn root_if_seen(&self, id: &str) -> Option<&SessionId> {
        let root = &self.questions.iter().find(|question| *question.id == *id)?.root;
        self.first_of(root).filter(|first| ***first == *id).map(|_| root)
    }

    /// The questions that the interactor sees.
    fn seen(&self) -> impl Iterator<Item = &Arc<str>> {
        self.questions.iter().map(|question| &question.id).filter(|id| self.root_if_seen(id).is_some())
    }
}

impl OpenQuestions {
    /// An open question.
    pub(super) fn get(&self, id: &str) -> Option<&Open> {
        self.open.get(id)
    }

    /// An open question. For one whose answer is held, notes that another answer was refused.
    ///
    /// # Errors
    /// If it is not open.
    pub(super) fn find(&mut self, id: &Arc<str>) -> Result<&Open, ApiError> {
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

    /// Takes out the questions of a session, which are closed for nobody: another process asks them again.
    pub(super) fn take_of(&mut self, audience: &dyn Audience, session: &SessionId) -> Vec<Open> {
        let of_session = |(_, open): &(&Arc<str>, &Open)| open.question.origin.session == *session;
        let ids: Vec<_> = self.open.iter().filter(of_session).map(|(id, _)| id.clone()).collect();
        let mut taken = Vec::new();
        for id in ids {
            taken.extend(self.open.remove(&id));
            self.advance(audience, &id);
        }
        taken
    }

    /// Whether there is no room for another question.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= OPEN_QUESTIONS
    }

    /// Whether a question was closed not long ago.
    pub(super) fn was_closed(&self, id: &str) -> bool {
        self.was_closed.contains(id)
    }

    /// Whether a client sees a question, or will.
    pub(super) fn is_shown(&self, id: &str) -> bool {
        self.queues.values().any(|queue| queue.contains(id))
    }

    /// The questions that a connection sees, oldest first.
    pub(super) fn shown_to(&self, connection: u64) -> Vec<Arc<str>> {
        self.queues.get(&connection).map(|queue| queue.seen().cloned().collect()).unwrap_or_default()
    }

    /// The open questions, oldest first, each with its time, and the number of connections that can answer it.
    pub(super) fn list(&self) -> Vec<(Arc<str>, Arc<str>, Question, usize)> {
        let shown = |id| self.queues.values().filter(|queue| queue.contains(id)).count();
        let open = self
            .open
            .iter()
            .map(|(id, open)| (open.asked_at.clone(), id.clone(), open.question.clone(), shown(id)));
        let mut open: Vec<_> = open.collect();
        // Identifiers sort by time, down to a millisecond.
        open.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        open
    }

    /// Adds a question that nobody sees yet.
    pub(super) fn add(&mut self, id: Arc<str>, open: Open) {
        self.open.insert(id, open);
    }

    /// Takes a question out and closes it.
    ///
    /// # Errors
    /// If it is not open.
    pub(super) fn close(&mut self, id: &Arc<str>) -> Result<Open, ApiError> {
        self.find(id)?;
        let open = self.open.remove(id).ok_or_else(already_answered)?;
        self.note_closed(id);
        Ok(open)
    }

    /// Takes a question out whose answer is about to count.
    ///
    /// # Errors
    /// If it is not open.
    pub(super) fn hold(&mut self, id: &Arc<str>) -> Result<Open, ApiError> {
        let open = self.open.remove(id).ok_or_else(already_answered)?;
        self.held.insert(id.clone(), Meanwhile::default());
        Ok(open)
    }

    /// Keeps the end of a question whose answer is held; it counts if the answer does not. Returns whether the answer is
    /// held.
    pub(super) fn end_if_held(&mut self, id: &str, by: &EndedBy, resolution: &Resolution) -> bool {
        let held = self.held.get_mut(id);
        let is_held = held.is_some();
        if let Some(meanwhile) = held {
            meanwhile.end = Some((by.clone(), resolution.clone()));
        }
        is_held
    }

    /// Closes a question whose held answer counts.
    pub(super) fn settle(&mut self, id: &Arc<str>) {
        self.held.remove(id);
        self.note_closed(id);
    }

    /// Opens a question again whose held answer did not count, unless it has ended meanwhile: then closes it and returns
    /// its end.
    pub(super) fn reopen(
        &mut self,
        audience: &dyn Audience,
        id: &Arc<str>,
        open: Open,
    ) -> Option<(Open, EndedBy, Resolution)> {
        let Meanwhile { end, refused } = self.held.remove(id).unwrap_or_default();
        if let Some((by, resolution)) = end {
            self.note_closed(id);
            return Some((open, by, resolution));
        }
        let orphaned = open.orphaned.clone();
        self.open.insert(id.clone(), open);
        // A client that was told that it is answered sees it again.
        for queue in self.queues.values().filter(|queue| refused && queue.root_if_seen(id).is_some()) {
            if let Some(event) = self.event(queue.client.as_ref(), id) {
                tell(audience, std::slice::from_ref(&queue.client), event);
            }
        }
        // A client that came meanwhile has not seen it.
        for (connection, client) in audience.clients() {
            let is_shown = self.queues.get(&connection).is_some_and(|queue| queue.contains(id));
            let fits = self.open.get(id).is_some_and(|open| fits(client.as_ref(), &open.question));
            if fits && !is_shown {
                self.enqueue(audience, connection, client, id.clone());
            }
        }
        if !self.is_shown(id) {
            orphaned.notify_one();
        }
        None
    }

    /// Gives a new interactor the questions that it can answer. Returns the first of each root session as an event.
    pub(super) fn join(&mut self, connection: u64, client: &Arc<dyn Client>) -> Vec<Event> {
        let mut open: Vec<_> =
            self.open.iter().filter(|(_, open)| fits(client.as_ref(), &open.question)).collect();
        // Identifiers sort by time, down to a millisecond.
        open.sort_by_key(|(id, open)| (open.asked_at.clone(), (*id).clone()));
        let queued = |(id, open): (&Arc<str>, &Open)| Queued {
            root: open.question.origin.root().clone(),
            id: id.clone(),
        };
        let queue =
            QuestionQueue { client: client.clone(), questions: open.into_iter().map(queued).collect() };
        let events = queue.seen().filter_map(|id| self.event(client.as_ref(), id)).collect();
        if queue.questions.is_empty() {
            self.queues.remove(&connection);
        } else {
            self.queues.insert(connection, queue);
        }
        events
    }

    /// Removes the queue of a connection that is gone. Returns the questions that no other client sees.
    pub(super) fn leave(&mut self, connection: u64) -> Vec<Arc<str>> {
        let gone = self.queues.remove(&connection).map(|queue| queue.questions).unwrap_or_default();
        gone.into_iter().map(|question| question.id).filter(|id| !self.is_shown(id)).collect()
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

    /// Adds a question to a connection's queue, and shows it if it is the first of its root session.
    pub(super) fn enqueue(
        &mut self,
        audience: &dyn Audience,
        connection: u64,
        client: Arc<dyn Client>,
        id: Arc<str>,
    ) {
        let Some(root) = self.open.get(&id).map(|open| open.question.origin.root().clone()) else { return };
        let queue = self
            .queues
            .entry(connection)
            .or_insert_with(|| QuestionQueue { client: client.clone(), questions: Vec::new() });
        queue.questions.push(Queued { root, id: id.clone() });
        if queue.root_if_seen(&id).is_some()
            && let Some(event) = self.event(client.as_ref(), &id)
        {
            tell(audience, &[client], event);
        }
    }

    /// Removes an ended question from every queue, and shows the next one where it was first.
    pub(super) fn advance(&mut self, audience: &dyn Audience, id: &Arc<str>) {
        let mut next = Vec::new();
        for queue in self.queues.values_mut() {
            let root = queue.root_if_seen(id).cloned();
            queue.questions.retain(|waiting| waiting.id != *id);
            if let Some(first) = root.and_then(|root| queue.first_of(&root)) {
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

/// Whether a connection can be shown a question.
pub(super) fn fits(client: &dyn Client, question: &Question) -> bool {
    let Origin { session, subagent, .. } = &question.origin;
    can_show(client, session, subagent.as_ref(), question.kind())
}

/// Whether a connection answers questions about that session and of that kind.
pub(super) fn can_show(
    client: &dyn Client,
    session: &SessionId,
    subagent: Option<&Subagent>,
    kind: QuestionKind,
) -> bool {
    client.is_interactor()
        && client.asks_about(session, subagent)
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

/// The event that tells how a question ended.
pub(super) fn answered(id: &str, question: &Question, by: &EndedBy, resolution: &Resolution) -> Event {
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

pub(super) fn already_answered() -> ApiError {
    ApiError::new(ErrorCode::InteractionAlreadyAnswered, "The question was already answered or withdrawn.")
}
