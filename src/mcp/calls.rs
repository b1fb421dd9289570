//! The calls of one connection that are under way: who asked, what has come of them, and who answers a server's question.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ProgressToken, RequestId};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::elicit::{Answerer, Ask, ElicitReply, Question};
use crate::limits::{MCP_QUESTIONS, TOOL_EXCERPT_BYTES, TOOL_UPDATE_PAUSE};
use crate::peer::{Redactor, cut};

/// For whom a server is asked something.
#[derive(Clone)]
pub(super) struct Caller {
    /// What is asked for: the name of a tool, a prompt, the address of a resource.
    pub(super) subject: Arc<str>,
    /// The id of the tool call.
    pub(super) call: Option<Arc<str>>,
    /// Who answers questions; `None` where nobody does.
    pub(super) answerer: Option<Arc<dyn Answerer>>,
    /// Who is told of progress.
    pub(super) progress: Option<Arc<Progress>>,
}

/// Is told of progress.
pub(super) type Progress = dyn Fn(&str) + Send + Sync;

impl Caller {
    /// The program itself, which answers nothing.
    pub(super) fn own(subject: &str) -> Self {
        Self { subject: subject.into(), call: None, answerer: None, progress: None }
    }
}

/// A call under way, over all its rounds.
pub(super) struct Call {
    caller: Caller,
    /// Something has come of it: its time begins anew.
    pub(super) beat: Notify,
    /// Questions asked so far.
    asked: AtomicUsize,
    /// Questions that a person has not answered.
    waiting: AtomicUsize,
    /// When progress was last told.
    told: Mutex<Option<Instant>>,
    /// It is over: nobody waits for answers any more.
    pub(super) ended: CancellationToken,
}

impl Call {
    pub(super) fn new(caller: Caller) -> Arc<Self> {
        Arc::new(Self {
            caller,
            beat: Notify::new(),
            asked: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            told: Mutex::default(),
            ended: CancellationToken::new(),
        })
    }

    /// Whether progress may be told again.
    fn may_tell(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let may = told.is_none_or(|told| told.elapsed() >= TOOL_UPDATE_PAUSE);
        if may {
            *told = Some(Instant::now());
        }
        may
    }

    /// Whether a person is asked something: that takes as long as it takes.
    pub(super) fn waits_for_a_person(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// One request of a call.
struct Request {
    id: RequestId,
    token: ProgressToken,
    call: Arc<Call>,
}

/// The calls of a connection.
pub(super) struct Calls {
    server: Arc<str>,
    pub(super) noted: Arc<Redactor>,
    requests: Mutex<Vec<Request>>,
    /// Held while a request is sent and entered: what a server says meanwhile waits until it is known.
    pub(super) sending: tokio::sync::Mutex<()>,
    /// Told when there is one request less.
    pub(super) fewer: Notify,
}

/// Takes a request out when it is over, however that came about.
pub(super) struct Entered<'c> {
    calls: &'c Calls,
    id: RequestId,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.calls.requests().retain(|request| request.id != self.id);
        self.calls.fewer.notify_waiters();
    }
}

impl Calls {
    pub(super) fn new(server: Arc<str>, noted: Arc<Redactor>) -> Self {
        Self {
            server,
            noted,
            requests: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
            fewer: Notify::new(),
        }
    }

    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, id: RequestId, token: ProgressToken, call: Arc<Call>) -> Entered<'_> {
        self.requests().push(Request { id: id.clone(), token, call });
        Entered { calls: self, id }
    }

    pub(super) fn are_none(&self) -> bool {
        self.requests().is_empty()
    }

    /// Tells a call's progress.
    pub(super) async fn progress(
        &self,
        token: &ProgressToken,
        done: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        drop(self.sending.lock().await);
        let call = self
            .requests()
            .iter()
            .find(|request| request.token == *token)
            .map(|request| request.call.clone());
        let Some(call) = call else { return };
        call.beat.notify_one();
        if let Some(progress) = &call.caller.progress
            && call.may_tell()
        {
            let share = total.map_or_else(|| format!("{done}"), |total| format!("{done}/{total}"));
            let text = message.map_or_else(|| share.clone(), |message| format!("{message} ({share})"));
            progress(&cut(&self.noted.redact(&text), TOOL_EXCERPT_BYTES));
        }
    }

    /// The call that a server's question belongs to: that of its stream, where it has one of its own; else the newest of
    /// those whose caller answers questions.
    pub(super) async fn asked_in(&self, origin: Option<&RequestId>) -> Option<Arc<Call>> {
        drop(self.sending.lock().await);
        let requests = self.requests();
        let answers = |request: &&Request| request.call.caller.answerer.is_some();
        let found = match origin {
            Some(id) => requests.iter().filter(answers).find(|request| request.id == *id),
            None => requests.iter().rev().find(answers),
        };
        found.map(|request| request.call.clone())
    }

    /// Asks a call's person, and waits for the answer.
    pub(super) async fn ask(&self, call: &Arc<Call>, question: Question) -> ElicitReply {
        let Some(answerer) = &call.caller.answerer else { return ElicitReply::Declined };
        if call.asked.fetch_add(1, Ordering::AcqRel) >= MCP_QUESTIONS {
            return ElicitReply::Cancelled;
        }
        let ask = Ask {
            server: self.server.clone(),
            subject: call.caller.subject.clone(),
            call: call.caller.call.clone(),
            question,
        };
        tokio::select! {
            biased;
            () = call.ended.cancelled() => ElicitReply::Cancelled,
            answer = waiting(call, answerer.ask(ask)) => answer,
        }
    }
}

/// Waits for a person, during which the call's time stands still.
async fn waiting(call: &Arc<Call>, answer: impl Future<Output = ElicitReply>) -> ElicitReply {
    struct Waiting<'c>(&'c Call);
    impl Drop for Waiting<'_> {
        fn drop(&mut self) {
            self.0.waiting.fetch_sub(1, Ordering::AcqRel);
            self.0.beat.notify_one();
        }
    }
    call.waiting.fetch_add(1, Ordering::AcqRel);
    let _waiting = Waiting(call);
    answer.await
}
