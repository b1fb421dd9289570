//! Sessions that work for another: those of `delegate`, and the siblings of a parallel group.
//!
//! A child has its own journal, is below its parent in the tree, and works with tools that were agreed on
//! before it started. Its questions go to the same people, with a label, one at a time with those of its
//! siblings. It ends with the turn that started it. Does not know workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::clock::rfc3339;
use crate::engine::actor::SessionActor;
use crate::engine::change::Change;
use crate::engine::execution::Execution;
use crate::engine::handle::Handle;
use crate::engine::open::Opener;
use crate::engine::parent_session::Parentage;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::event::Cause;
use crate::message::{Role, SessionId, StopReason, Usage};
use crate::secret;
use crate::session::ApiError;
use crate::store::record::AgentRecord;
use crate::store::{EntryBody, Header, Parent};
use crate::value::Value;
use crate::visible;

/// A child to open.
pub struct Child {
    /// Its id.
    pub id: SessionId,
    /// Its name in lists.
    pub name: String,
    /// Its tools.
    pub envelope: Vec<String>,
    /// Its model: provider and id.
    pub model: (Arc<str>, Arc<str>),
    /// The external agent that answers its turns, instead of a model.
    pub agent: Option<Arc<str>>,
}

/// The outcome of a child's work.
pub struct Worked {
    /// The model's last text.
    pub text: String,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Why its last message ended.
    pub stop: Option<StopReason>,
    /// Its usage.
    pub usage: Usage,
}

impl Opener {
    /// Opens a child of a session, in the same folder and mode.
    ///
    /// # Errors
    /// If its journal cannot be written.
    pub(super) async fn open_child(&self, parent: &Handle, child: Child) -> Result<Handle, ApiError> {
        self.shared.tree.check_room()?;
        let facts = parent.snapshot().facts.clone();
        let header = Header {
            request: None,
            replica_of: None,
            session: child.id.clone(),
            created_at: rfc3339(self.shared.clock.now()),
            cwd: facts.cwd.clone(),
            parent: Some(Parent { session: parent.id.clone(), path: None, entry: None }),
        };
        let link = Parentage {
            parent: parent.id.clone(),
            root: parent.parent.as_ref().map_or(&parent.id, |above| &above.root).clone(),
            subagent: child.id.as_str().into(),
            depth: parent.depth().saturating_add(1),
            envelope: child.envelope,
            over: AtomicBool::new(false),
        };
        let journal = self.shared.journals.create(header.clone());
        let handle = SessionActor::start_child(&self.shared, &self.agent, journal, header, link, parent);
        self.shared.tree.admit(&handle);
        let setting = |key: &str, value: &str| EntryBody::Setting {
            key: key.into(),
            value: Value::from(value.to_owned()),
        };
        let (provider, id) = child.model;
        let answers = match child.agent {
            Some(name) => {
                EntryBody::Agent(Box::new(AgentRecord { name, agent_session_id: None, info: None }))
            }
            None => EntryBody::Model { provider, id },
        };
        let entries = vec![
            EntryBody::Name(visible::line(&secret::mask(&child.name)).into()),
            answers,
            setting("mode", facts.mode.as_str()),
            setting("thinking", facts.thinking.as_str()),
        ];
        if let Err(error) = handle.request(|ack| Change::Append { entries, ack }).await {
            self.shared.tree.remove(&handle.id);
            return Err(error);
        }
        self.shared.tree.announce(None);
        Ok(handle)
    }

    /// Lets a child do a task, until it ends or is stopped.
    ///
    /// # Errors
    /// If it cannot start.
    pub(super) async fn work(
        &self,
        child: &Handle,
        task: String,
        execution: Option<Arc<Execution>>,
        cause: Option<Cause>,
        stop: &CancellationToken,
        control: &TurnControl,
    ) -> Result<(TurnEnd, Worked), ApiError> {
        let (interrupt, variables) = (&control.interrupt, control.variables());
        let above = tracing::Span::current();
        let work = |ack| Change::Work { task, execution, cause, variables, above, ack };
        let mut ended = child.request(work).await?;
        let end = tokio::select! {
            biased;
            end = &mut ended => end,
            () = stop.cancelled() => {
                child.abort();
                ended.await
            }
            () = interrupt.cancelled() => {
                child.tell(Change::InterruptWork);
                tokio::select! {
                    end = &mut ended => end,
                    () = stop.cancelled() => {
                        child.abort();
                        ended.await
                    }
                }
            }
        };
        let snapshot = child.snapshot();
        let last = snapshot.messages().rev().find(|message| message.role == Role::Assistant);
        let worked = Worked {
            text: last.map(|message| message.text()).unwrap_or_default(),
            error: last.and_then(|message| message.error_message.as_deref().map(str::to_owned)),
            stop: last.and_then(|message| message.stop_reason),
            usage: snapshot.facts.usage,
        };
        Ok((end.unwrap_or(TurnEnd::Stopped), worked))
    }

    /// Ends a child's work: its running processes end, and its grants expire. It stays in the tree as an
    /// ordinary session.
    pub(super) fn retire_child(&self, child: &Handle) {
        if let Some(link) = &child.parent {
            link.over.store(true, Ordering::Release);
        }
        child.tell(Change::EndWork);
        self.shared.tree.announce(None);
    }
}
