//! What holds a session: a turn, a workflow's run, or a compaction that the user asked for. Does not know how a turn
//! or a run works.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::environment::Variables;
use crate::event::{Cause, TurnEnded, TurnOutcome};
use crate::message::{Message, StopReason, TurnId, Usage};
use crate::store::{Entry, EntryBody};

/// A running turn, as its session knows it.
pub struct RunningTurn {
    pub id: TurnId,
    pub cause: Option<Cause>,
    pub stop: CancellationToken,
    pub control: Arc<TurnControl>,
    /// Whether its begin and its end are entries of their own.
    pub is_recorded: bool,
    /// Its last message is written; the message and the last stage are about to be shown.
    pub is_ending: bool,
    /// Its last message, once it is written.
    pub last: Option<Arc<Entry>>,
}

impl RunningTurn {
    /// A turn that begins.
    pub fn new(id: TurnId, cause: Option<Cause>, began: i64, variables: Option<Variables>) -> Self {
        let stop = CancellationToken::new();
        let control = Arc::new(TurnControl::new(began, variables));
        Self { id, cause, stop, control, is_recorded: false, is_ending: false, last: None }
    }

    /// How it ended, for clients. `messages` are those of the branch, newest first.
    pub fn ended<'m>(&self, end: TurnEnd, messages: impl Iterator<Item = &'m Arc<Message>>) -> TurnEnded {
        let last = self.last.as_ref().and_then(|entry| match &entry.body {
            EntryBody::Message(message) => Some(message),
            _ => None,
        });
        let stop = last.and_then(|message| message.stop_reason);
        let outcome = match (stop, end) {
            (Some(StopReason::Aborted), _) => TurnOutcome::Aborted,
            (Some(StopReason::Interrupted), _) => TurnOutcome::Interrupted,
            (Some(StopReason::Error), _) => TurnOutcome::Failed,
            (_, TurnEnd::Finished) => TurnOutcome::Completed,
            _ if self.stop.is_cancelled() => TurnOutcome::Aborted,
            _ if self.control.interrupt.is_cancelled() => TurnOutcome::Interrupted,
            (_, TurnEnd::Stopped | TurnEnd::HandedOver) => TurnOutcome::Failed,
        };
        let of_turn = messages.take_while(|message| message.turn_id.as_ref() == Some(&self.id));
        let usage = last.is_some().then(|| {
            let mut usage = Usage::default();
            of_turn.filter_map(|message| message.usage.as_ref()).for_each(|each| usage.add(each));
            usage
        });
        let error = last.and_then(|message| message.error_message.clone());
        let error_kind = self.control.failure().filter(|_| outcome == TurnOutcome::Failed);
        TurnEnded { outcome, stop, error, error_kind, usage, run: None }
    }
}
