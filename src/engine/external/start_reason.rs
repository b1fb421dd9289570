//! Why an agent is needed now: whose question it is, if a person has to be asked before it starts. Does nothing.

use tokio_util::sync::CancellationToken;

use crate::engine::handle::Handle;
use crate::engine::native::turn::Turn;
use crate::event::Cause;
use crate::message::TurnId;

/// See the module.
pub struct Occasion {
    pub session: Handle,
    pub turn: Option<TurnId>,
    pub cause: Option<Cause>,
    /// Nobody needs it any more.
    pub stop: CancellationToken,
}

impl Occasion {
    /// A turn of the session.
    pub fn of_turn(turn: &Turn) -> Self {
        Self {
            session: turn.session.clone(),
            turn: Some(turn.id.clone()),
            cause: turn.cause.clone(),
            stop: turn.stop.clone(),
        }
    }

    /// A request of a client.
    pub fn of_request(session: &Handle, cause: Cause) -> Self {
        Self { session: session.clone(), turn: None, cause: Some(cause), stop: CancellationToken::new() }
    }
}
