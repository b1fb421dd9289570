//! What clients are told of a session, besides its entries and its state. Changes nothing.

use std::sync::{Arc, PoisonError};

use super::durable::DurableState;
use crate::engine::progress::notification;
use crate::environment::Variables;
use crate::event::{Body, Cause, Event, NoticeLevel, Notification, Sender, UserMessage};
use crate::store::{Entry, EntryBody};

impl DurableState {
    /// Notifies everyone of a fact about the session, outside any turn.
    pub(super) fn show(&self, body: Body, cause: Option<Cause>) {
        self.show_event(self.handle.event(body, cause));
    }

    /// The same for an event of a turn or an entry.
    pub(super) fn show_event(&self, event: Event) {
        let _ = self.handle.show(&self.shared.hub, event);
    }

    /// Tells the person something.
    pub(super) fn notify(&self, level: NoticeLevel, message: &str) {
        self.show(Body::Notification(notification(self.shared.clock.id("n-"), level, message)), None);
    }

    /// Tells the person that a message runs with other variables than those of its editor, which are lost. Without a daemon
    /// there is one environment only.
    pub(super) fn tell_lost_variables(&self, has_others: bool) {
        if !self.shared.settings.outlives_clients {
            return;
        }
        let others = match (has_others, self.shared.settings.environment.variables()) {
            (true, _) => "of the editor whose request it follows",
            (false, Some(_)) => "of the editor that came last",
            (false, None) => "that the daemon was started with",
        };
        let message = format!(
            "A queued message runs with the environment variables {others}. Those of its own editor were only in the \
             memory of a daemon that has ended, or of a session that was put away."
        );
        tracing::warn!(session = self.handle.id.as_str(), "{message}");
        self.notify(NoticeLevel::Warning, &message);
    }

    /// Notifies everyone of messages that were put into the conversation.
    pub(super) fn tell_messages(&self, written: &[Arc<Entry>], cause: Option<&Cause>, by_runtime: bool) {
        let from = match cause {
            _ if by_runtime => Sender::Runtime,
            Some(cause) => {
                Sender::Client { connection: cause.connection, name: self.client_name(cause.connection) }
            }
            None => Sender::Earlier,
        };
        for entry in written {
            let EntryBody::Message(message) = &entry.body else { continue };
            let from = if message.sender.is_some() { Sender::Control } else { from.clone() };
            let body = Body::UserMessage(Arc::new(UserMessage { message: message.clone(), from }));
            self.show_event(Event {
                turn: message.turn_id.clone(),
                entry: Some(entry.id.clone()),
                ..self.handle.event(body, cause.cloned())
            });
        }
    }

    /// Reports the failed attachments of a message to the person, and that the project is no longer trusted.
    pub(super) fn tell_failures(&self, mut failures: Vec<Arc<str>>, cause: Option<&Cause>) {
        let distrust = self.handle.config().distrust.lock().unwrap_or_else(PoisonError::into_inner).take();
        failures.extend(distrust.map(Arc::from));
        for failure in failures {
            let body = Body::Notification(Arc::new(Notification {
                id: self.shared.clock.id("n-"),
                level: NoticeLevel::Warning,
                message: failure.to_string(),
                extension: None,
            }));
            self.show(body, cause.cloned());
        }
    }

    /// The name that the client of a connection gave itself.
    pub(super) fn client_name(&self, connection: u64) -> Option<Box<str>> {
        Some(self.shared.hub.client(connection)?.peer().agreed?.name.clone())
    }

    /// The variables of the client behind a cause, if it is there and brought some.
    pub(super) fn variables_of(&self, cause: Option<&Cause>) -> Option<Variables> {
        self.shared.settings.environment.of_client(cause?.connection)
    }
}
