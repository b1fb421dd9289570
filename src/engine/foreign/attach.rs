//! Attaches a session of ours to one at its agent: opened, or taken up after the agent has ended; and its options. Runs no
//! turn.

use std::path::Path;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::time::sleep;

use super::agents::ForeignAgent;
use super::attached::Attached;
use crate::agent::{AgentConnection, AgentFault, AgentSession, SessionNews};
use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::native::turn::Turn;
use crate::event::NoticeLevel;
use crate::facts::agent::{AgentFacts, AgentValue};
use crate::limits::AGENT_LOOK;
use crate::session::ApiError;
use crate::store::EntryBody;
use crate::store::record::AgentRecord;
use crate::value::Value;

impl ForeignAgent {
    /// The session at the agent for a turn. Starts the agent, and opens or takes up the session, where that is necessary.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence.
    pub(super) async fn attach(self: &Arc<Self>, turn: &Turn) -> Result<Arc<Attached>, String> {
        let session = &turn.session;
        let setup = self.setup(session)?;
        let known = self.attached().get(&session.id).cloned();
        if let Some(known) = known {
            if known.connection.is_alive() && known.setup.starts_as(&setup) {
                return Ok(known);
            }
            self.attached().remove(&session.id);
        }
        self.may_start(turn, &setup).await?;
        let facts = session.snapshot().facts.clone();
        let place = self.place(session);
        let connected = self.pool.connect(&facts.cwd, &setup, &place, &self.shared.tasks).await;
        let connection = connected.map_err(|fault| fault.to_string())?;
        let agent = facts.agent.clone().unwrap_or_default();
        let before = AgentFacts {
            info: connection.can().info.map(Arc::from),
            // What is told anew replaces it.
            plan: Arc::from([]),
            ..AgentFacts::clone(&agent)
        };
        let told = watch::Sender::new(before);
        let opened = self.open(session, &connection, agent.session.as_deref(), &told).await;
        let (opened, is_new) = opened.map_err(|fault| fault.to_string())?;
        let attached = Arc::new(Attached { setup, connection, id: opened.id.clone(), told });
        opened.news.into_iter().for_each(|news| Attached::hear(&attached.told, news));
        if is_new {
            let record = AgentRecord {
                name: agent.name.clone(),
                agent_session_id: Some(opened.id),
                info: attached.facts().info,
            };
            let written = turn.write(vec![EntryBody::Agent(Box::new(record))]).await;
            written.map_err(|error| error.message)?;
            if agent.session.is_some() {
                self.notice(session, NoticeLevel::Warning, &format!(
                    "The agent {} could not take its session up and begins a new one: it remembers nothing of what was \
                     said before.",
                    agent.name
                ));
            }
        }
        self.attached().insert(session.id.clone(), attached.clone());
        self.shared.tasks.spawn(tell(session.clone(), Arc::downgrade(self), attached.clone()));
        Ok(attached)
    }

    /// The session at the agent, and whether it is a new one.
    async fn open(
        &self,
        session: &Handle,
        connection: &Arc<AgentConnection>,
        before: Option<&str>,
        told: &watch::Sender<AgentFacts>,
    ) -> Result<(AgentSession, bool), AgentFault> {
        let cwd = session.snapshot().facts.cwd.clone();
        let cwd = Path::new(&*cwd);
        let hears = || {
            let told = told.clone();
            Arc::new(move |news| Attached::hear(&told, news))
        };
        if let Some(before) = before {
            match connection.old_session(before, cwd, hears()).await {
                Some(Ok(opened)) => return Ok((opened, false)),
                Some(Err(fault @ (AgentFault::Gone(_) | AgentFault::Login(_) | AgentFault::Silent(_)))) => {
                    return Err(fault);
                }
                Some(Err(fault)) => tracing::info!(%fault, "an agent does not know its session any more"),
                None => {}
            }
        }
        connection.new_session(cwd, hears()).await.map(|opened| (opened, true))
    }

    /// Chooses a value of the option of a category.
    ///
    /// # Errors
    /// If the agent has no such option, or refuses.
    pub async fn choose(&self, session: &Handle, category: &str, value: &str) -> Result<(), ApiError> {
        let agent = session.snapshot().facts.agent.clone().unwrap_or_default();
        let option = agent.option_of(category).map(|option| option.id.clone());
        // Before its first turn nothing is known of it.
        let option = option.unwrap_or_else(|| category.into());
        self.set_option(session, &option, &Value::from(value.to_owned())).await
    }

    /// Chooses a value of an option of a session's agent.
    ///
    /// # Errors
    /// If the session has no such option, or the agent refuses.
    pub async fn set_option(
        &self,
        session: &Handle,
        option: &str,
        value: &Value<'_>,
    ) -> Result<(), ApiError> {
        let attached = self.attached().get(&session.id).cloned();
        let Some(attached) = attached.filter(|attached| attached.connection.is_alive()) else {
            let message =
                "The session's agent does not run yet: its options are known from the first turn on.";
            return Err(ApiError::failed(message));
        };
        let facts = attached.facts();
        let Some(known) = facts.options.iter().find(|known| *known.id == *option) else {
            return Err(ApiError::not_found("option of the agent", option));
        };
        let fits = match (&known.value, value) {
            (AgentValue::Switch(_), Value::Bool(_)) => true,
            (AgentValue::Choice { values, .. }, value) => {
                value.as_str().is_some_and(|id| values.iter().any(|known| *known.id == *id))
            }
            (AgentValue::Switch(_), _) => false,
        };
        if !fits {
            let expected = match &known.value {
                AgentValue::Switch(_) => "true or false".to_owned(),
                AgentValue::Choice { values, .. } => {
                    let ids: Vec<&str> = values.iter().take(20).map(|value| &*value.id).collect();
                    format!("one of {}", ids.join(", "))
                }
            };
            return Err(ApiError::invalid_param("value", &expected));
        }
        let chosen = attached.connection.set_option(&attached.id, option, value).await;
        let chosen = chosen.map_err(|fault| ApiError::failed(format!("The agent refused: {fault}.")))?;
        let options = chosen.unwrap_or_else(|| {
            let mut options = facts.options.to_vec();
            for known in options.iter_mut().filter(|known| *known.id == *option) {
                match (&mut known.value, value) {
                    (AgentValue::Switch(on), Value::Bool(wanted)) => *on = *wanted,
                    (AgentValue::Choice { current, .. }, value) => {
                        *current = value.as_str().unwrap_or_default().into();
                    }
                    (AgentValue::Switch(_), _) => {}
                }
            }
            options
        });
        Attached::hear(&attached.told, SessionNews::Options(options));
        let told = Box::new(attached.facts());
        session.ask(|ack| Change::AgentTold { told, ack }).await
    }
}

/// Tells a session what its agent told, until the agent or the session is gone. Much of it comes together.
async fn tell(session: Handle, agents: Weak<ForeignAgent>, attached: Arc<Attached>) {
    let mut told = attached.told.subscribe();
    told.mark_changed();
    loop {
        tokio::select! {
            biased;
            () = attached.connection.gone() => break,
            changed = told.changed() => if changed.is_err() { break },
            () = sleep(AGENT_LOOK) => {
                if session.is_gone() {
                    attached.connection.close_session(&attached.id).await;
                    break;
                }
                continue;
            }
        }
        let facts = Box::new(told.borrow_and_update().clone());
        if session.ask(|ack| Change::AgentTold { told: facts, ack }).await.is_err() {
            attached.connection.close_session(&attached.id).await;
            break;
        }
    }
    if let Some(agents) = agents.upgrade() {
        let mut all = agents.attached();
        if all.get(&session.id).is_some_and(|known| Arc::ptr_eq(known, &attached)) {
            all.remove(&session.id);
        }
    }
}
