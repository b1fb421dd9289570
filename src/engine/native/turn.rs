//! A turn of the native agent: what all its parts need, and its outputs. Does not know the parts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::engine::agent::TurnTask;
use crate::engine::change::Change;
use crate::engine::execution::Execution;
use crate::engine::handle::Handle;
use crate::engine::interrupted::UnendedTurn;
use crate::engine::mcp::SessionAnswerer;
use crate::engine::native::loops::RecentCalls;
use crate::engine::open::Opener;
use crate::engine::progress::notification;
use crate::engine::revision::ConfigRevision;
use crate::engine::services::Services;
use crate::engine::turn_control::TurnControl;
use crate::environment::Environment;
use crate::event::{Body, Cause, Event, NoticeLevel};
use crate::limits::REALM_LOOK;
use crate::mcp::Answerer;
use crate::message::{StopReason, TurnId};
use crate::provider::models::Model;
use crate::runner::Lifeline;
use crate::session::ApiError;
use crate::store::{Entry, EntryBody};
use crate::tool::toolbox::{Source, Toolbox};

/// A turn that runs.
pub struct Turn {
    pub shared: Arc<Services>,
    /// Opens the sessions of its subagents.
    pub opener: Opener,
    pub session: Handle,
    pub id: TurnId,
    pub cause: Option<Cause>,
    pub stop: CancellationToken,
    pub control: Arc<TurnControl>,
    /// The workflow stage for which it runs.
    pub execution: Option<Arc<Execution>>,
    /// What it continues with, if it was cut off with its process.
    pub unended: Option<Arc<UnendedTurn>>,
    /// The tools of its round. Where several clients offer one of the same name, it is that of the client that began the
    /// turn.
    tools: ArcSwap<Toolbox>,
    /// Answers what MCP servers ask in the course of its calls.
    answerer: Arc<dyn Answerer>,
    /// The repairs of calls, until their results say them.
    repairs: Mutex<HashMap<Arc<str>, String>>,
    /// Its last calls.
    recent: Mutex<RecentCalls>,
    /// The files that its calls have touched since the last request.
    touched: Mutex<Vec<PathBuf>>,
}

impl Turn {
    pub fn new(shared: Arc<Services>, task: TurnTask) -> Self {
        let TurnTask { agent, session, id, cause, stop, control, execution, unended } = task;
        let tools = session.tools.preferring(cause.as_ref().map(|cause| Source::Client(cause.connection)));
        let opener = Opener { shared: shared.clone(), agent };
        let answerer = SessionAnswerer::new(
            shared.clone(),
            session.clone(),
            Some(id.clone()),
            cause.clone(),
            stop.clone(),
        );
        let tools = ArcSwap::from_pointee(tools);
        Self {
            shared,
            opener,
            session,
            id,
            cause,
            stop,
            control,
            execution,
            unended,
            tools,
            answerer,
            repairs: Mutex::default(),
            recent: Mutex::default(),
            touched: Mutex::default(),
        }
    }

    /// Notes what was repaired in a call.
    pub fn repaired(&self, call: &Arc<str>, what: String) {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner).insert(call.clone(), what);
    }

    /// Takes what was repaired in a call.
    pub fn take_repair(&self, call: &str) -> Option<String> {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }

    /// Forgets the repairs of an answer that is dropped.
    pub fn forget_repairs(&self) {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Notes that a call has touched a file.
    pub fn touches(&self, path: &str) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).push(PathBuf::from(path));
    }

    /// Takes the files that calls have touched since the last request.
    pub fn take_touched(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its last calls.
    pub fn recent_calls(&self) -> MutexGuard<'_, RecentCalls> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its tools. They change between rounds alone.
    pub fn tools(&self) -> Arc<Toolbox> {
        self.tools.load_full()
    }

    /// Starts the session's MCP servers, waits some seconds for them, and takes their tools in.
    pub async fn begin_tools(&self) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            () = self.shared.mcp.ready(&self.session) => {}
        }
        self.refresh_tools();
    }

    /// Takes in the tools of servers as they are now: between rounds.
    pub fn refresh_tools(&self) {
        let source = self.cause.as_ref().map(|cause| Source::Client(cause.connection));
        let tools = self.shared.mcp.toolbox_of_round(&self.session, &self.answerer).preferring(source);
        self.tools.store(Arc::new(tools));
    }

    /// The variables of its programs: those of the client that began it.
    pub fn environment(&self) -> Environment {
        self.config().environment.with(self.control.variables())
    }

    /// Waits until another process is to continue the turn, if one can: the turn of a stage or of a subagent belongs to
    /// another one, which goes on as a whole.
    pub async fn handing_over(&self) {
        match self.execution.is_none() && self.session.working_for().is_none() {
            true => self.control.hand_over.cancelled().await,
            false => std::future::pending().await,
        }
    }

    /// Whether another process is to continue the turn.
    pub fn is_handing_over(&self) -> bool {
        self.handing_over().now_or_never().is_some()
    }

    /// Why the turn must end, if it must.
    pub fn ended(&self) -> Option<StopReason> {
        if self.stop.is_cancelled() {
            return Some(StopReason::Aborted);
        }
        self.control.interrupt.is_cancelled().then_some(StopReason::Interrupted)
    }

    /// Waits until this host may begin something in the session: in the last part of its lease it may not, because another
    /// one might own the session before that ends. Returns too when the turn is stopped.
    pub async fn may_begin(&self) {
        if self.session.snapshot().facts.host.is_none() {
            return;
        }
        let Some(federation) = self.shared.federation.get() else { return };
        while federation.may_begin().is_err() {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(REALM_LOOK) => {}
            }
        }
    }

    /// When what the turn starts must have ended: with this host's lease, if hosts share the session.
    pub fn lifeline(&self) -> Option<Lifeline> {
        self.shared.lifeline(&self.session.snapshot().facts)
    }

    /// Appends entries to the journal.
    ///
    /// # Errors
    /// If the session has ended, or its journal cannot be written.
    pub async fn write(&self, entries: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, ApiError> {
        self.session.request(|ack| Change::Append { entries, ack }).await
    }

    /// The configuration of the turn.
    pub fn config(&self) -> Arc<ConfigRevision> {
        self.session.config()
    }

    /// Switches to the newest configuration, if there is one: at a boundary, where no stage runs.
    pub async fn adopt_configuration(&self) {
        // A child keeps the configuration of its parent at its start, and a group's join that of the group's.
        let in_group = self.execution.as_ref().is_some_and(|execution| execution.is_of_group);
        let holds = in_group || self.session.parent.is_some();
        if !holds && self.shared.configuration.revision() != self.config().revision {
            let _ = self.session.ask(|ack| Change::Adopt { ack }).await;
        }
    }

    /// Sends an event of the turn to everyone, at the pace of the slowest.
    pub async fn publish(&self, body: Body) {
        self.deliver(self.event(body)).await;
    }

    /// Sends an event to everyone and waits for slow clients, but no longer than the turn lives: an abort
    /// does not wait for a stalled client.
    pub async fn deliver(&self, event: Event) {
        let full = self.session.show(&self.shared.hub, event);
        if full.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            () = self.shared.hub.room(full) => {}
            () = self.stop.cancelled() => {}
        }
    }

    pub fn event(&self, body: Body) -> Event {
        Event {
            session: Some(self.session.id.clone()),
            offset: self.session.snapshot().offset,
            turn: Some(self.id.clone()),
            entry: None,
            cause: self.cause.clone(),
            piece: None,
            body,
        }
    }

    /// Chooses the session's model, if it has none of its own yet: with the variables of the client that began the turn, and
    /// from now on for the session. Tells the person.
    ///
    /// # Errors
    /// If the session has ended, or its journal cannot be written.
    pub async fn choose_model(&self) -> Result<(), ApiError> {
        let facts = self.session.snapshot().facts.clone();
        if facts.has_model() && facts.model_notice.is_none() {
            return Ok(());
        }
        let variables = self.control.variables();
        let Ok(choice) = self.shared.configuration.find_model(variables.as_ref()).await else {
            return Ok(());
        };
        let notice = choice.notice();
        self.write(vec![EntryBody::Model { provider: choice.provider, id: choice.model }]).await?;
        let facts = self.session.snapshot().facts.clone();
        self.publish(Body::SessionUpdated(facts.clone())).await;
        self.publish(Body::FooterUpdated(facts)).await;
        if let Some(notice) = notice {
            let id = self.shared.clock.id("n-");
            self.publish(Body::Notification(notification(id, NoticeLevel::Info, &notice))).await;
        }
        Ok(())
    }

    /// The model of the session, as the configuration describes it.
    pub fn model(&self) -> Model {
        let facts = &self.session.snapshot().facts;
        self.config().models.describe(&facts.model_provider, &facts.model_id)
    }
}
