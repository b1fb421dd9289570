//! How a session leaves its process, so that another one goes on with it: at a boundary of its turn, or at rest. Nothing is
//! ended for that. Does not know the other process.

use super::{SessionActor, settle};
use crate::engine::keeper::Departed;
use crate::engine::running::RunningTurn;
use crate::store::record::TurnEvent;

impl SessionActor {
    /// Leaves, as soon as that ends nothing. It is asked again and again.
    pub(super) fn hand_over(&mut self) {
        if let Some(running) = &self.turn {
            running.control.hand_over.cancel();
        } else if self.is_at_rest() {
            let is_at_work = self.unended.is_some() || self.cut_off.is_some();
            self.departed = Some(self.departure(is_at_work, None));
        }
    }

    fn departure(&self, is_at_work: bool, running: Option<&RunningTurn>) -> Departed {
        Departed {
            session: self.handle.id.clone(),
            is_at_work,
            variables: running.and_then(|running| running.control.variables.clone()),
        }
    }

    /// A turn is at a boundary and goes on elsewhere.
    pub(super) async fn depart(&mut self, running: &RunningTurn) {
        if running.is_recorded {
            let over = self.turn_record(&running.id, TurnEvent::HandedOver, None);
            if let Err(error) = self.append(vec![over]).await {
                // The next process finds a turn that was cut off.
                tracing::warn!(%error, "the journal does not say that a turn was handed over");
            }
        }
        self.departed = Some(self.departure(true, Some(running)));
    }

    /// Gives up the session's file, hangs up on those who show it, and says that it has left.
    pub(super) async fn leave(self, departed: Departed) {
        let shared = self.shared.clone();
        if let Some(keeper) = shared.keeper.get() {
            keeper.leaves(&departed.session);
        }
        {
            // Whoever opens the session meanwhile waits until its file is let go.
            let _not_opening = shared.tree.opening.lock().await;
            shared.tree.remove(&self.handle.id);
            settle(&self.journal).await;
            if let Some(own) = self.handle.mcp.own().cloned() {
                shared.tasks.spawn(async move { own.end().await });
            }
            drop(self);
        }
        for (_, client) in shared.hub.clients() {
            if client.focused() == departed.session {
                client.close();
            }
        }
        shared.tree.announce(None);
        if let Some(keeper) = shared.keeper.get() {
            keeper.left(departed);
        }
    }
}
