//! A turn that an agent answers: from the user's journalled message to the last one of the agent. Its parts are in
//! [`agent_output`](super::agent_output), [`permission_requests`](super::permission_requests) and
//! [`client_methods`](super::client_methods).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::agent_session::OpenAgentSession;
use super::agents::ExternalAgent;
use super::calls::Telling;
use super::stage;
use super::start_reason::Occasion;
use super::terminals::Terminals;
use super::turn_context::ExternalTurn;
use crate::acp::Stop;
use crate::agent::{AgentFault, AgentTurn, FromAgent, PromptPart};
use crate::engine::native::answer::ModelAnswer;
use crate::engine::native::call::Batch;
use crate::engine::native::rounds::Rounds;
use crate::engine::native::turn::Turn;
use crate::engine::turn_control::TurnEnd;
use crate::limits::AGENT_CANCEL_WAIT;
use crate::message::{Block, Role, StopReason, Usage};

/// Runs a turn to its end. Does not free the session.
pub(super) async fn run(agents: &Arc<ExternalAgent>, turn: &Turn) -> TurnEnd {
    let rounds = Rounds(turn);
    if let Err(answer) = rounds.receive().await {
        return rounds.finish(answer).await;
    }
    // A process that has just been killed may still take a prompt: that one is sent again, once, to the next process.
    let mut may_be_lost = true;
    let answer = loop {
        match answered(agents, turn, may_be_lost).await {
            Some(answer) => break answer,
            None => may_be_lost = false,
        }
    };
    rounds.finish(answer).await
}

/// The end of a turn, after one prompt. `None` if the prompt was lost, and that may be: the agent had failed in the turn
/// before, and its process ended before it told or asked anything.
async fn answered(agents: &Arc<ExternalAgent>, turn: &Turn, may_be_lost: bool) -> Option<ModelAnswer> {
    let occasion = Occasion::of_turn(turn);
    let attached = tokio::select! {
        biased;
        () = turn.stop.cancelled() => return Some(ModelAnswer::ended(StopReason::Aborted)),
        () = turn.control.interrupt.cancelled() => return Some(ModelAnswer::ended(StopReason::Interrupted)),
        attached = agents.attach(&occasion) => attached,
    };
    let name = turn.session.snapshot().facts.model_provider.clone();
    let failed = |why: &str| Some(ModelAnswer::failed(unanswered(&name, why)));
    let attached = match attached {
        Ok(attached) => attached,
        Err(why) => return failed(&why),
    };
    let may_be_lost = may_be_lost && attached.has_failed.load(Ordering::Acquire);
    let parts = match prompt(turn, &attached) {
        Ok(parts) => parts,
        Err(why) => return failed(&why),
    };
    let Some(mut incoming) = attached.connection.begin(&attached.id) else {
        return failed("it does not have the session any more; try again");
    };
    let foreign = ExternalTurn {
        agents,
        turn,
        attached: &attached,
        batch: Batch::new(turn, false, None),
        telling: tokio::sync::Mutex::new(Telling::new(name.clone())),
        permits: Mutex::default(),
        terminals: Terminals::default(),
        running: AtomicUsize::new(0),
    };
    let cost_before = attached.facts().cost;
    let ended = foreign.listen(&mut incoming, &parts).await;
    attached.has_failed.store(ended.stop == StopReason::Error, Ordering::Release);
    // What it asks from here on, nobody answers.
    drop(incoming);
    foreign.end_calls().await;
    foreign.terminals.release_all().await;
    if ended.is_lost && may_be_lost {
        return None;
    }
    let mut answer = foreign.telling.lock().await.take_rest();
    if let Some(execution) = &turn.execution
        && ended.stop == StopReason::EndTurn
    {
        stage::complete(execution, &answer.parts.all_text());
    }
    answer.usage = ended.usage.map(|[input, output, cache_read, cache_write]| Usage {
        input,
        output,
        cache_read,
        cache_write,
        cost: match (cost_before, attached.facts().cost) {
            (before, Some(now)) => (now - before.unwrap_or(0.0)).max(0.0),
            _ => 0.0,
        },
    });
    answer.stop = Some(ended.stop);
    answer.error = ended.error.map(|why| unanswered(&name, &why));
    Some(answer)
}

/// What a person is told where an agent did not answer.
pub(super) fn unanswered(name: &str, why: &str) -> String {
    let end = if why.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("The agent {name}: {why}{end}")
}

/// The user's message as a prompt.
///
/// # Errors
/// What the agent does not take.
fn prompt(turn: &Turn, attached: &OpenAgentSession) -> Result<Vec<PromptPart>, String> {
    let snapshot = turn.session.snapshot();
    let mut parts = Vec::new();
    // A turn that asks again sends the last message again.
    let message = snapshot.messages().rev().find(|message| message.role == Role::User);
    for block in message.iter().flat_map(|message| &message.content) {
        match block {
            Block::Text(text) => parts.push(PromptPart::Text(match &turn.execution {
                Some(execution) => stage::prompt(execution, text),
                None => text.to_string(),
            })),
            Block::Image { mime_type, data } if attached.connection.can().images => {
                parts.push(PromptPart::Image(mime_type.to_string(), data.to_string()));
            }
            Block::Image { .. } => return Err("it takes no images".to_owned()),
            _ => {}
        }
    }
    Ok(parts)
}

/// How a turn ended.
struct AgentTurnEnd {
    stop: StopReason,
    error: Option<String>,
    usage: Option<[u64; 4]>,
    /// The agent's process ended before it told or asked anything.
    is_lost: bool,
}

/// Why the agent was asked to end the turn, and until when it is waited for.
struct Cancelled {
    stop: StopReason,
    error: Option<String>,
    until: Instant,
}

impl<'t> ExternalTurn<'t> {
    /// Sends the prompt, and takes in what comes until the agent has ended the turn.
    async fn listen(&self, incoming: &mut AgentTurn, parts: &[PromptPart]) -> AgentTurnEnd {
        let (connection, id) = (&self.attached.connection, &self.attached.id);
        let prompt = connection.prompt(id, parts);
        tokio::pin!(prompt);
        let mut asks: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut cancelled: Option<Cancelled> = None;
        let mut is_silent = true;
        loop {
            if cancelled.is_none()
                && let Some((stop, error)) = self.must_end().await
            {
                // Open questions are answered first, as the protocol wants it.
                asks.clear();
                connection.cancel(id).await;
                cancelled = Some(Cancelled { stop, error, until: Instant::now() + AGENT_CANCEL_WAIT });
            }
            let until = cancelled.as_ref().map(|cancelled| cancelled.until);
            let ended = tokio::select! {
                biased;
                () = self.turn.stop.cancelled(), if cancelled.is_none() => continue,
                () = self.turn.control.interrupt.cancelled(), if self.may_interrupt(cancelled.is_none()) => continue,
                () = until_then(until) => {
                    tracing::warn!("an agent does not end a turn that was cancelled: its process is ended");
                    connection.end().await;
                    Err(AgentFault::Silent(AGENT_CANCEL_WAIT))
                }
                item = incoming.incoming.recv() => {
                    is_silent = false;
                    match item {
                        Some(FromAgent::Update(update)) => self.update(update).await,
                        Some(FromAgent::Ask(ask, responder)) if cancelled.is_none() => {
                            // What it needs of the calls is looked up here: the futures below hold no lock.
                            let asked = self.prepared(ask).await;
                            asks.push(Box::pin(self.answer(asked, responder)));
                        }
                        Some(FromAgent::Ask(..)) => {}
                        // Nobody else takes its place in the route.
                        None => {}
                    }
                    continue;
                }
                Some(()) = asks.next(), if !asks.is_empty() => continue,
                ended = &mut prompt => ended,
            };
            drop(asks);
            // What came before the answer was taken in by then, except for the queue.
            while let Ok(item) = incoming.incoming.try_recv() {
                is_silent = false;
                if let FromAgent::Update(update) = item {
                    self.update(update).await;
                }
            }
            let is_lost = is_silent && cancelled.is_none() && matches!(ended, Err(AgentFault::Gone(_)));
            return AgentTurnEnd { is_lost, ..ended_as(ended, cancelled) };
        }
    }

    /// Whether an interrupt counts now: not while tools run.
    fn may_interrupt(&self, is_running: bool) -> bool {
        is_running && self.running.load(Ordering::Acquire) == 0
    }

    /// Why the turn must be ended, if it must.
    async fn must_end(&self) -> Option<(StopReason, Option<String>)> {
        if self.turn.stop.is_cancelled() {
            return Some((StopReason::Aborted, None));
        }
        if self.turn.control.interrupt.is_cancelled() && self.may_interrupt(true) {
            return Some((StopReason::Interrupted, None));
        }
        if let Some(why) = self.batch.halted() {
            return Some((StopReason::Error, Some(why.to_owned())));
        }
        let why = self.telling.lock().await.too_much();
        why.map(|why| (StopReason::Error, Some(why)))
    }
}

async fn until_then(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn ended_as(
    ended: Result<(Stop, Option<[u64; 4]>), AgentFault>,
    cancelled: Option<Cancelled>,
) -> AgentTurnEnd {
    let usage = ended.as_ref().ok().and_then(|(_, usage)| *usage);
    if let Some(Cancelled { stop, error, .. }) = cancelled {
        return AgentTurnEnd { stop, error, usage, is_lost: false };
    }
    let (stop, error) = match ended {
        Ok((Stop::EndTurn, _)) => (StopReason::EndTurn, None),
        Ok((Stop::MaxTokens, _)) => (StopReason::MaxTokens, None),
        Ok((Stop::Refusal, _)) => (StopReason::Refusal, None),
        Ok((Stop::MaxRounds, _)) => {
            (StopReason::Error, Some("it made as many model calls as it may in a turn".to_owned()))
        }
        Ok((Stop::Cancelled, _)) => (StopReason::Aborted, None),
        Err(fault) => (StopReason::Error, Some(fault.to_string())),
    };
    AgentTurnEnd { stop, error, usage, is_lost: false }
}
