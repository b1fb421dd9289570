//! What holds a session, and who waits for its end: a turn, a workflow's run, or a compaction. Knows neither the journal nor
//! clients.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::catalogue::ErrorCode;
use crate::engine::change::HeldRun;
use crate::engine::incoming::Incoming;
use crate::engine::queue::QueuedMessage;
use crate::engine::running::RunningTurn;
use crate::engine::turn_control::TurnEnd;
use crate::environment::Variables;
use crate::event::Cause;
use crate::limits::QUEUED_MESSAGES;
use crate::message::TurnId;
use crate::session::{Again, ApiError, Call, Prompted, Reply, Resumed};
use crate::store::Entry;
use crate::store::record::KeyedRequest;

/// The place of a session for what holds it.
#[derive(Default)]
pub struct TurnSlot {
    running: Option<RunningTurn>,
    /// What came while the turn was about to end, and waits for its end.
    after: Vec<AfterTurn>,
    /// What begins the turn that holds the session, while the resources are read that its message names.
    preparation: Option<Box<Preparation>>,
    /// Who waits for the end of a turn that works for another session.
    worked: Option<(TurnId, oneshot::Sender<TurnEnd>)>,
}

/// The queue for the end of a turn that is about to end.
pub enum AfterTurn {
    Prompt(Call, Incoming, Reply<Prompted>),
    Again(Call, Again, Option<Box<KeyedRequest>>, Reply<Prompted>),
    Compact(Call, Option<String>, Reply<Option<String>>),
    Workflow(Call, Arc<str>, String, Reply<HeldRun>),
}

/// What begins a turn once the resources are read that its message names.
pub enum Preparation {
    /// A message that a client has sent.
    Prompt(Call, Incoming, Reply<Prompted>),
    /// The first waiting message, as it was then. The variables are those for one that has lost its own.
    Next(QueuedMessage, Option<Variables>, Option<Reply<Resumed>>),
}

impl TurnSlot {
    /// Whether nothing holds the session.
    pub fn is_free(&self) -> bool {
        self.running.is_none()
    }

    /// Refuses what needs a session that nothing holds.
    ///
    /// # Errors
    /// If something holds it.
    pub fn must_be_free(&self) -> Result<(), ApiError> {
        self.must_be_free_or("A turn is running: wait for its end, or abort it.")
    }

    /// The same with the message of the refusal.
    ///
    /// # Errors
    /// If something holds it.
    pub fn must_be_free_or(&self, message: &str) -> Result<(), ApiError> {
        match self.running {
            None => Ok(()),
            Some(_) => Err(ApiError::new(ErrorCode::SessionNotIdle, message)),
        }
    }

    /// What holds the session.
    pub fn running(&self) -> Option<&RunningTurn> {
        self.running.as_ref()
    }

    /// Its id.
    pub fn id(&self) -> Option<&TurnId> {
        self.running.as_ref().map(|running| &running.id)
    }

    /// The request that caused it.
    pub fn cause(&self) -> Option<Cause> {
        self.running.as_ref().and_then(|running| running.cause.clone())
    }

    /// This holds the session from now on.
    pub fn occupy(&mut self, running: RunningTurn) {
        self.running = Some(running);
    }

    /// The begin and the end of what holds the session are entries of their own.
    pub fn set_recorded(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_recorded = true;
        }
    }

    /// The turn that holds the session begins with this, once what its message names is read.
    pub fn prepare(&mut self, preparation: Preparation) {
        self.preparation = Some(Box::new(preparation));
    }

    /// Takes out what the turn of that id begins with, if it is still to begin.
    pub fn prepared(&mut self, turn: &TurnId) -> Option<Preparation> {
        let is_held = self.running.as_ref().is_some_and(|running| running.id == *turn);
        self.preparation.take_if(|_| is_held).map(|preparation| *preparation)
    }

    /// The turn of that id leaves, if it holds the session.
    pub fn vacate(&mut self, turn: &TurnId) -> Option<RunningTurn> {
        self.running.take_if(|running| running.id == *turn)
    }

    /// The turn's last message is written. The session stays occupied until the last stage was shown.
    /// Requests in between wait for that, so that a client may send the next prompt as soon as it sees the
    /// message.
    pub fn set_ending(&mut self, turn: &TurnId, last: Option<Arc<Entry>>) {
        if let Some(running) = self.running.as_mut().filter(|running| running.id == *turn) {
            running.is_ending = true;
            running.last = last;
        }
    }

    /// Whether the turn's last message is written, and the turn is about to end.
    pub fn is_ending(&self) -> bool {
        let room = self.after.len() < QUEUED_MESSAGES;
        room && self.running.as_ref().is_some_and(|running| running.is_ending)
    }

    /// Keeps something for the end of the turn that is about to end.
    pub fn defer(&mut self, waiting: AfterTurn) {
        self.after.push(waiting);
    }

    /// What was kept for the end of the turn, in order.
    pub fn deferred(&mut self) -> Vec<AfterTurn> {
        std::mem::take(&mut self.after)
    }

    /// The turn works for another session. The returned value reports its end.
    pub fn work_for_parent(&mut self, turn: TurnId) -> oneshot::Receiver<TurnEnd> {
        let (sender, receiver) = oneshot::channel();
        self.worked = Some((turn, sender));
        receiver
    }

    /// Reports the end of a turn to the session that it worked for.
    pub fn report(&mut self, turn: &TurnId, end: TurnEnd) {
        if let Some((_, worked)) = self.worked.take_if(|(id, _)| id == turn) {
            let _ = worked.send(end);
        }
    }

    /// Ends what holds the session. Ending it twice is allowed.
    pub fn abort(&self) {
        if let Some(running) = &self.running {
            running.stop.cancel();
        }
    }

    /// The same for a client: the queue is held at the end of the turn.
    pub fn abort_and_hold(&self) {
        if let Some(running) = &self.running {
            running.control.hold();
        }
        self.abort();
    }

    /// Ends the turn after its running tool calls. Returns those, or `None` if there is no turn.
    pub fn interrupt(&self) -> Option<Vec<Arc<str>>> {
        let running = self.running.as_ref()?;
        let waits_for = running.control.running_tools();
        running.control.interrupt.cancel();
        Some(waits_for)
    }

    /// Ends the wait for a retry.
    pub fn give_up_retry(&self) {
        if let Some(running) = &self.running {
            running.control.give_up.cancel();
        }
    }

    /// Brings the variables of a turn that went over from another process, and was taken up here by a client that came
    /// before them.
    pub fn bring(&self, variables: Variables) {
        if let Some(running) = self.running.as_ref().filter(|running| running.cause.is_none()) {
            running.control.bring(variables);
        }
    }

    /// Lets the turn leave its process at its next boundary. Returns whether there is one.
    pub fn hand_over(&self) -> bool {
        if let Some(running) = &self.running {
            running.control.hand_over.cancel();
        }
        self.running.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Pairs;

    #[test]
    fn late_variables_are_those_of_the_turn_that_went_over() {
        let of = |cause| {
            let running = Some(RunningTurn::new("t".into(), cause, 0, None));
            let slot = TurnSlot { running, ..TurnSlot::default() };
            slot.bring(Variables::from(Pairs::default()));
            slot.running.unwrap().control.variables()
        };
        assert!(of(None).is_some());
        let begun_here = Cause { connection: 1, request: "r".into() };
        assert!(of(Some(begun_here)).is_none(), "a client's turn has the client's");
    }
}
