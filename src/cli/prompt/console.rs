//! A conversation on the EDN wire for `edn-bridge prompt` and `chat`: requests, and one queue of what happens, with the
//! person's C-c in it. Knows no event.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use edn_bridge::client::{Client, Refused};
use edn_bridge::config::Settings;
use edn_bridge::limits::FLOW_WINDOW_EVENTS;
use edn_bridge::message::SessionId;
use edn_bridge::value::{Map, Owned, Value};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::attached::Attached;
use crate::cli::served::Own;
use crate::cli::{Failure, Options};

/// What the main thread, which prints, is told.
pub(in crate::cli) enum News {
    /// An event's frame.
    Event(Owned),
    /// The person pressed C-c.
    Interrupt,
    /// The bridge has gone.
    Gone,
}

/// A conversation.
pub(in crate::cli) struct Console {
    client: Arc<Client>,
    own: Option<Own>,
    news: Receiver<News>,
    on_interrupt: Sender<News>,
    /// The number of the last event that the bridge knows to be printed.
    reported: Cell<i64>,
}

impl Console {
    /// Begins a conversation: in the session, if there is one, else in a new one. With `answers`, the person is asked.
    pub(in crate::cli) fn open(
        name: &str,
        options: &Options,
        settings: Settings,
        session: Option<&SessionId>,
        answers: bool,
    ) -> Result<Self, Failure> {
        // What is not printed yet is bounded by the bridge.
        let features: &[&str] = if answers { &["flow-credit", "interactor"] } else { &["flow-credit"] };
        let Attached { client, events, own } = Attached::talking(name, options, settings, session, features)?;
        let (sender, news) = channel();
        let on_interrupt = sender.clone();
        let passing = move || {
            for event in events {
                if sender.send(News::Event(event)).is_err() {
                    return;
                }
            }
            let _ = sender.send(News::Gone);
        };
        std::thread::Builder::new().name("events".to_owned()).spawn(passing).map_err(Failure::start)?;
        Ok(Self { client, own, news, on_interrupt, reported: Cell::new(0) })
    }

    /// From now on C-c is told instead of ending the process.
    pub(in crate::cli) fn catch_interrupts(&self) -> Result<(), Failure> {
        let (told, ready) = (self.on_interrupt.clone(), channel());
        let (is_ready, ready) = ready;
        let executor =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::start)?;
        let waiting = async move {
            let signals = signal(SignalKind::interrupt());
            let _ = is_ready.send(());
            let Ok(mut signals) = signals else { return };
            while signals.recv().await.is_some() && told.send(News::Interrupt).is_ok() {}
        };
        let thread = std::thread::Builder::new().name("interrupts".to_owned());
        thread.spawn(move || executor.block_on(waiting)).map_err(Failure::start)?;
        let _ = ready.recv();
        Ok(())
    }

    /// What the bridge said of itself.
    pub(in crate::cli) fn server_info(&self) -> &Owned {
        self.client.server_info()
    }

    /// Asks, and waits for the answer.
    pub(in crate::cli) fn ask(&self, op: &str, params: Map<'static>) -> Result<Owned, Failure> {
        let refused = |refused: Refused| Failure::Failed(refused.message);
        self.client.ask(op, Value::from(params)).map_err(refused)
    }

    /// Asks, and waits for no answer.
    pub(in crate::cli) fn tell(&self, op: &str, params: Map<'static>) {
        if let Err(error) = self.client.tell(op, Value::from(params)) {
            tracing::debug!(%error, op, "not sent");
        }
    }

    /// The events of the topics come from now on; of all topics, if none is named.
    pub(in crate::cli) fn subscribe(&self, topics: &[&'static str]) -> Result<(), Failure> {
        self.ask("subscribe", of(topics)).map(drop)
    }

    /// They come no longer.
    pub(in crate::cli) fn unsubscribe(&self, topics: &[&'static str]) -> Result<(), Failure> {
        self.ask("unsubscribe", of(topics)).map(drop)
    }

    /// What happens next; `None` if nothing does within the time.
    pub(in crate::cli) fn next(&self, within: Option<Duration>) -> Option<News> {
        match within {
            None => Some(self.news.recv().unwrap_or(News::Gone)),
            Some(time) => match self.news.recv_timeout(time) {
                Err(RecvTimeoutError::Timeout) => None,
                other => Some(other.unwrap_or(News::Gone)),
            },
        }
    }

    /// An event is printed.
    pub(in crate::cli) fn printed(&self, event: &Owned) {
        let Some(seq) = event.get("seq").and_then(Value::as_i64) else { return };
        let step = i64::try_from(FLOW_WINDOW_EVENTS / 4).unwrap_or(1);
        if seq.saturating_sub(self.reported.get()) >= step {
            self.reported.set(seq);
            self.tell("ack", Map::new().with("seq", seq));
        }
    }

    /// Ends the conversation; in an engine of our own, all that runs in it.
    pub(in crate::cli) fn end(self) {
        drop((self.client, self.news));
        if let Some(own) = self.own {
            own.end();
        }
    }
}

fn of(topics: &[&'static str]) -> Map<'static> {
    match topics {
        [] => Map::new(),
        some => Map::new().with("topics", Value::vector(some.iter().map(|topic| Value::from(*topic)))),
    }
}
