//! Attaches a session of ours to one at its agent: opened, or taken up after the agent has ended; and its options. Runs no
//! turn.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::time::sleep;

use super::agent_session::OpenAgentSession;
use super::agents::ExternalAgent;
use super::start_reason::Occasion;
use super::turn::unanswered;
use crate::agent::{AgentConnection, AgentFault, AgentServer, AgentSession};
use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::event::NoticeLevel;
use crate::facts::agent::{AgentFacts, AgentOption, AgentValue};
use crate::limits::{AGENT_LOOK, AGENT_OPTIONS};
use crate::session::ApiError;
use crate::store::EntryBody;
use crate::store::record::{AgentRecord, CHOSEN_OPTIONS};
use crate::value::Value;

impl ExternalAgent {
    /// The session at the agent. Starts the agent, and opens or takes up the session, where that is necessary.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence.
    pub(super) async fn attach(
        self: &Arc<Self>,
        occasion: &Occasion,
    ) -> Result<Arc<OpenAgentSession>, String> {
        let session = &occasion.session;
        // A turn and a look at the options may need it at once.
        let one = self.opening(&session.id);
        let _one_at_a_time = one.lock().await;
        let setup = self.setup(session)?;
        let known = self.attached().get(&session.id).cloned();
        if let Some(known) = known {
            if known.connection.is_alive() && known.setup.starts_as(&setup) {
                return Ok(known);
            }
            self.attached().remove(&session.id);
        }
        self.may_start(occasion, &setup).await?;
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
        let (servers, left_out) = self.servers(session, &setup, &connection.can()).await;
        let opened = self.open(session, &connection, (agent.session.as_deref(), &servers), &told).await;
        let (opened, is_new) = opened.map_err(|fault| fault.to_string())?;
        let attached = Arc::new(OpenAgentSession {
            setup,
            connection,
            id: opened.id.clone(),
            told,
            has_failed: AtomicBool::new(false),
        });
        opened.news.into_iter().for_each(|news| OpenAgentSession::hear(&attached.told, news));
        if is_new {
            let record = AgentRecord {
                name: agent.name.clone(),
                agent_session_id: Some(opened.id),
                info: attached.facts().info,
            };
            let entries = vec![EntryBody::Agent(Box::new(record))];
            let written = session.request(|ack| Change::Append { entries, ack }).await;
            written.map_err(|error| error.message)?;
            if !left_out.is_empty() {
                let left_out = left_out.join("; ");
                let message = format!("The agent {} is not given these servers: {left_out}.", agent.name);
                self.notice(session, NoticeLevel::Info, &message);
            }
            if agent.session.is_some() {
                self.notice(session, NoticeLevel::Warning, &format!(
                    "The agent {} could not take its session up and begins a new one: it remembers nothing of what was \
                     said before.",
                    agent.name
                ));
            }
        }
        self.choose_again(session, &agent, &attached).await;
        self.attached().insert(session.id.clone(), attached.clone());
        self.shared.tasks.spawn(tell(session.clone(), Arc::downgrade(self), attached.clone()));
        Ok(attached)
    }

    /// Chooses at the agent what the person had chosen: its process may not know. What the agent has changed since is not
    /// the person's choice any more.
    async fn choose_again(&self, session: &Handle, before: &AgentFacts, attached: &OpenAgentSession) {
        for (option, value) in before.chosen.iter() {
            let last = before.options.iter().find(|known| known.id == *option);
            if last.is_some_and(|last| !last.is(value)) {
                continue;
            }
            let now = attached.facts();
            let Some(now) = now.options.iter().find(|known| known.id == *option) else { continue };
            if now.is(value) {
                continue;
            }
            let chosen = match now.may_be(value) {
                true => attached.choose(option, value).await.map_err(|fault| fault.to_string()),
                false => Err("it does not offer that any more".to_owned()),
            };
            if let Err(why) = chosen {
                let what = format!("{}: {} as it was chosen: {why}.", before.name, now.name);
                self.notice(session, NoticeLevel::Warning, &format!("The agent does not set {what}"));
            }
        }
    }

    /// The session at the agent, and whether it is a new one.
    async fn open(
        &self,
        session: &Handle,
        connection: &Arc<AgentConnection>,
        (before, servers): (Option<&str>, &[AgentServer]),
        told: &watch::Sender<AgentFacts>,
    ) -> Result<(AgentSession, bool), AgentFault> {
        let cwd = session.snapshot().facts.cwd.clone();
        let cwd = Path::new(&*cwd);
        let hears = || {
            let told = told.clone();
            Arc::new(move |news| OpenAgentSession::hear(&told, news))
        };
        if let Some(before) = before {
            match connection.old_session(before, cwd, servers, hears()).await {
                Some(Ok(opened)) => return Ok((opened, false)),
                Some(Err(fault @ (AgentFault::Gone(_) | AgentFault::Login(_) | AgentFault::Silent(_)))) => {
                    return Err(fault);
                }
                Some(Err(fault)) => tracing::info!(%fault, "an agent does not know its session any more"),
                None => {}
            }
        }
        connection.new_session(cwd, servers, hears()).await.map(|opened| (opened, true))
    }

    /// What can be chosen at a session's agent, which is started where it does not run.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn options(self: &Arc<Self>, occasion: &Occasion) -> Result<Vec<AgentOption>, ApiError> {
        let attached = self.attached_for(occasion).await?;
        self.settle(&occasion.session, &attached).await?;
        Ok(attached.facts().options.to_vec())
    }

    async fn attached_for(self: &Arc<Self>, occasion: &Occasion) -> Result<Arc<OpenAgentSession>, ApiError> {
        let name = occasion.session.snapshot().facts.agent.as_ref().map(|agent| agent.name.clone());
        let attached = self.attach(occasion).await;
        attached.map_err(|why| ApiError::failed(unanswered(&name.unwrap_or_default(), &why)))
    }

    /// Forks a session's session at its agent where it stands. Returns what the fork's journal says of it.
    ///
    /// # Errors
    /// If the agent cannot do that, or refuses.
    pub async fn fork(self: &Arc<Self>, occasion: &Occasion) -> Result<AgentRecord, ApiError> {
        let attached = self.attached_for(occasion).await?;
        let (session, can) = (&occasion.session, attached.connection.can());
        let name = attached.setup.name.clone();
        if !can.fork || !(can.resume || can.load) {
            return Err(ApiError::failed(format!("The agent {name} cannot fork its session.")));
        }
        let (servers, _) = self.servers(session, &attached.setup, &can).await;
        let cwd = session.snapshot().facts.cwd.clone();
        let forked = attached.connection.fork_session(&attached.id, Path::new(&*cwd), &servers).await;
        let forked = forked.map_err(|fault| ApiError::failed(unanswered(&name, &fault.to_string())))?;
        Ok(AgentRecord { name, agent_session_id: Some(forked), info: attached.facts().info })
    }

    /// Chooses a value of the option of a category.
    ///
    /// # Errors
    /// If the agent has no such option, or refuses.
    pub async fn choose(
        self: &Arc<Self>,
        occasion: &Occasion,
        category: &str,
        value: &str,
    ) -> Result<(), ApiError> {
        let attached = self.attached_for(occasion).await?;
        let facts = attached.facts();
        let option = facts.option_of(category).map(|option| option.id.clone());
        let option = option.ok_or_else(|| none_of(&facts, category))?;
        self.set_option(occasion, &option, &Value::from(value.to_owned())).await
    }

    /// Chooses the next or the previous of the agent's models. Returns its id.
    ///
    /// # Errors
    /// If the agent has no choice of models, or refuses.
    pub async fn next_model(
        self: &Arc<Self>,
        occasion: &Occasion,
        forward: bool,
    ) -> Result<Arc<str>, ApiError> {
        let attached = self.attached_for(occasion).await?;
        let facts = attached.facts();
        let option = facts.option_of("model");
        let Some((option, (current, values))) = option.and_then(|option| match &option.value {
            AgentValue::Choice { current, values } => Some((option, (current, values))),
            AgentValue::Switch(_) => None,
        }) else {
            return Err(none_of(&facts, "model"));
        };
        let now = values.iter().position(|value| value.id == *current);
        let step = if forward { 1 } else { values.len().saturating_sub(1) };
        let next = now.map_or(0, |now| now.saturating_add(step).checked_rem(values.len()).unwrap_or(0));
        let next = values.get(next).ok_or_else(|| none_of(&facts, "model"))?.id.clone();
        self.set_option(occasion, &option.id, &Value::from(next.to_string())).await?;
        Ok(next)
    }

    /// Chooses a value of an option of a session's agent, which is started where it does not run. The choice is kept, and is
    /// made again at the agent's next process.
    ///
    /// # Errors
    /// If the session has no such option, or the agent refuses.
    pub async fn set_option(
        self: &Arc<Self>,
        occasion: &Occasion,
        option: &str,
        value: &Value<'static>,
    ) -> Result<(), ApiError> {
        let attached = self.attached_for(occasion).await?;
        let facts = attached.facts();
        let Some(known) = facts.options.iter().find(|known| *known.id == *option) else {
            return Err(ApiError::not_found("option of the agent", option));
        };
        if !known.may_be(value) {
            let expected = match &known.value {
                AgentValue::Switch(_) => "true or false".to_owned(),
                AgentValue::Choice { values, .. } => {
                    let ids: Vec<&str> = values.iter().take(20).map(|value| &*value.id).collect();
                    format!("one of {}", ids.join(", "))
                }
            };
            return Err(ApiError::invalid_param("value", &expected));
        }
        let chosen = attached.choose(option, value).await;
        chosen.map_err(|fault| ApiError::failed(format!("The agent refused: {fault}.")))?;
        let session = &occasion.session;
        // Of two choices at once, each is kept with the other.
        let one = self.opening(&session.id);
        let _one_at_a_time = one.lock().await;
        let agent = session.snapshot().facts.agent.clone().unwrap_or_default();
        let value = agent.choosing(option, value, AGENT_OPTIONS);
        let entries = vec![EntryBody::Setting { key: CHOSEN_OPTIONS.into(), value }];
        session.request(|ack| Change::Append { entries, ack }).await?;
        self.settle(session, &attached).await
    }

    /// Lets a session know what its agent has told, before a request is answered.
    async fn settle(&self, session: &Handle, attached: &OpenAgentSession) -> Result<(), ApiError> {
        let told = Box::new(attached.facts());
        session.ask(|ack| Change::AgentTold { told, ack }).await
    }
}

/// That an agent has no option of a category.
fn none_of(facts: &AgentFacts, category: &str) -> ApiError {
    let what = match category {
        "model" => "no choice of models",
        "thought_level" => "no choice of thinking levels",
        _ => "no such option",
    };
    ApiError::failed(format!("The agent {} has {what}.", facts.name))
}

/// Tells a session what its agent told, until the agent or the session is gone. Much of it comes together.
async fn tell(session: Handle, agents: Weak<ExternalAgent>, attached: Arc<OpenAgentSession>) {
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
