//! A message to a session, and what it comes to: one place that knows each way in which the wait for it ends. Knows the events
//! that end a turn or a slash command; prints nothing, and knows no session. Who has nothing else to look at waits with
//! [`Client::converse`]; who has signals and a terminal too shows each event to [`Accepted::ended`].

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use edn_codec::value::{Map, Owned, Value};

use crate::{Client, Refused, frame};

/// The topics that a client must have subscribed to, so that the wait ends.
pub const END_TOPICS: &[&str] = &["turn/ended", "command-result", "ui/frontend-action-requested"];

/// How long a server that works may be silent, before it is asked whether it is there; and how long it may take to say so. One
/// that is stopped never does.
const SILENCE: Duration = Duration::from_secs(10);

/// How long a server may take to accept a message.
const ACCEPTING: Duration = Duration::from_secs(30);

/// What a message came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A turn has ended, also by an abort; contains the data of its end.
    Turn(Owned),
    /// A slash command has ended.
    Command {
        /// Whether it failed.
        failed: bool,
        /// Its answer.
        message: String,
    },
    /// A slash command that needs somebody to choose; contains the data of its request.
    Choice(Owned),
    /// The same message, by its idempotency key, was taken before, and its turn runs no longer.
    Repeated,
}

/// A message that the bridge has accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    turn: Option<String>,
    is_over: bool,
}

impl Accepted {
    /// Reads the answer to `prompt`, `steer` or `follow_up`.
    pub fn of(answer: &Owned) -> Self {
        let turn = frame::text(answer, "turn-id");
        let state = answer.get("turn-state").and_then(|state| state.as_keyword().or_else(|| state.as_str()));
        let is_repeated = answer.get("duplicate").and_then(Value::as_bool) == Some(true);
        let is_over = is_repeated && !matches!(state, Some("running" | "waiting"));
        Self { turn: Some(turn.to_owned()).filter(|turn| !turn.is_empty()), is_over }
    }

    /// A turn that runs already, whose end is waited for, and whose id is not known.
    pub const fn running() -> Self {
        Self { turn: None, is_over: false }
    }

    /// A turn or a workflow's run of this id.
    pub fn of_turn(turn: &str) -> Self {
        Self { turn: Some(turn.to_owned()), is_over: false }
    }

    /// Whether an event belongs to the turn, or to none. Where the turn is not known, any does.
    pub fn has(&self, event: &Owned) -> bool {
        let of = frame::text(frame::data(event), "turn-id");
        self.turn.as_deref().is_none_or(|turn| of.is_empty() || of == turn)
    }

    /// What the message came to, if this event says it. Of a message that began a turn, only that turn's end counts.
    pub fn ended(&self, event: &Owned) -> Option<Outcome> {
        let data = frame::data(event);
        match frame::topic(event) {
            "turn/ended" if self.has(event) => Some(Outcome::Turn(data.clone())),
            "command-result" if self.turn.is_none() => Some(Outcome::Command {
                failed: frame::text(data, "type") == "error",
                message: frame::text(data, "message").to_owned(),
            }),
            "ui/frontend-action-requested" if self.turn.is_none() => Some(Outcome::Choice(data.clone())),
            _ => None,
        }
    }
}

impl Client {
    /// Sends a message with `prompt` and waits for what it comes to, however that ends. `seen` is shown each event of its turn
    /// before. The client must have subscribed to [`END_TOPICS`]; what the channel holds from before is dropped.
    ///
    /// # Errors
    /// If the message is refused, or the bridge ends, or does not even answer `ping` any more, before the message has come to
    /// something.
    pub fn converse(
        &self,
        events: &Receiver<Owned>,
        prompt: Map<'static>,
        mut seen: impl FnMut(&Owned),
    ) -> Result<Outcome, Refused> {
        while events.try_recv().is_ok() {}
        let accepted = Accepted::of(&self.ask_within("prompt", Value::from(prompt), ACCEPTING)?);
        if accepted.is_over {
            return Ok(Outcome::Repeated);
        }
        loop {
            let event = match events.recv_timeout(SILENCE) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    self.ask_within("ping", Value::from(Map::new()), SILENCE)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Refused::here("The bridge has ended.")),
            };
            if let Some(outcome) = accepted.ended(&event) {
                return Ok(outcome);
            }
            if accepted.has(&event) {
                seen(&event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use edn_codec as edn;

    use super::*;

    #[test]
    fn each_end_of_a_message_is_known() {
        let read = |text: &str| edn::read_one(text.as_bytes()).unwrap().into_owned();
        let turn = Accepted::of(&read("{:accepted true :turn-id \"t-1\"}"));
        let none = Accepted::of(&read("{:accepted true}"));
        let event =
            |name: &str, data: &str| read(&format!("{{:kind :event :event \"{name}\" :data {data}}}"));
        let other = event("turn/ended", "{:turn-id \"t-2\"}");
        assert!(turn.ended(&other).is_none() && !turn.has(&other));
        assert!(matches!(turn.ended(&event("turn/ended", "{:turn-id \"t-1\"}")), Some(Outcome::Turn(_))));
        let result = event("command-result", "{:type \"error\" :message \"no\"}");
        assert_eq!(none.ended(&result), Some(Outcome::Command { failed: true, message: "no".to_owned() }));
        // Of another client's command.
        assert_eq!(turn.ended(&result), None);
        let choice = event("ui/frontend-action-requested", "{:request-id \"r\"}");
        assert!(matches!(none.ended(&choice), Some(Outcome::Choice(_))));
        let repeated =
            Accepted::of(&read("{:accepted true :turn-id \"t-1\" :duplicate true :turn-state \"finished\"}"));
        assert!(repeated.is_over && !turn.is_over);
    }
}
