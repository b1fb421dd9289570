//! A conversation on the EDN wire for `edn-bridge prompt` and `chat`: requests, and one queue of what happens, with the
//! person's C-c in it. Knows no event.

use std::cell::{Cell, OnceCell};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge::client::{Client, Refused};
use edn_bridge::clock;
use edn_bridge::config::Settings;
use edn_bridge::limits::{FLOW_WINDOW_EVENTS, SAME_SIGNAL};
use edn_bridge::message::SessionId;
use edn_bridge::value::{Map, Owned, Value};
use rustix::event::{PollFd, PollFlags, poll};
pub(in crate::cli) use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::task::JoinSet;

use crate::cli::engine_client::EngineClient;
use crate::cli::failure::Failure;
use crate::cli::options::Options;
use crate::cli::out;
use crate::cli::served::Own;
use crate::cli::typed::{Typed, TypedLine};

/// What the main thread, which prints, is told.
pub(in crate::cli) enum ConsoleEvent {
    /// An event's frame.
    Event(Owned),
    /// This signal came: the person pressed C-c, or the process is to end.
    Interrupt(SignalKind),
    /// The bridge has gone.
    Gone,
}

/// Since when a signal waits for a word of the bridge.
#[derive(Clone, Default)]
struct Unheard(Arc<Mutex<Option<Instant>>>);

impl Unheard {
    /// The bridge has said something.
    fn is_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A signal came. Returns whether it is a second one, and the bridge has said nothing since the first.
    fn again(&self) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.get_or_insert_with(Instant::now).elapsed() > SAME_SIGNAL
    }
}

/// A conversation.
pub(in crate::cli) struct Console {
    client: Arc<Client>,
    own: Option<Own>,
    news: Receiver<ConsoleEvent>,
    on_interrupt: Sender<ConsoleEvent>,
    unheard: Unheard,
    /// Has a byte for each C-c that is not told yet: who waits for a line looks at it too.
    pressed: OnceCell<UnixStream>,
    /// What is typed while a turn runs.
    typed: Typed,
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
        let EngineClient { client, events, own } =
            EngineClient::talking(name, options, settings, session, features)?;
        let (sender, news) = channel();
        let on_interrupt = sender.clone();
        let unheard = Unheard::default();
        let heard = unheard.clone();
        let passing = move || {
            for event in events {
                heard.is_over();
                if sender.send(ConsoleEvent::Event(event)).is_err() {
                    return;
                }
            }
            let _ = sender.send(ConsoleEvent::Gone);
        };
        std::thread::Builder::new().name("events".to_owned()).spawn(passing).map_err(Failure::start)?;
        let (pressed, reported, typed) = (OnceCell::new(), Cell::new(0), Typed::new(clock::of_process()));
        Ok(Self { client, own, news, on_interrupt, unheard, pressed, typed, reported })
    }

    /// From now on these signals are told instead of ending the process. A second one ends it, at any moment, if the bridge
    /// has said nothing since the first: it may be stopped, and what this process asked it waits for as long.
    pub(in crate::cli) fn catch<const N: usize>(&self, signals: [SignalKind; N]) -> Result<(), Failure> {
        let (told, unheard) = (self.on_interrupt.clone(), self.unheard.clone());
        let (is_ready, ready) = channel();
        let (press, pressed) = UnixStream::pair().map_err(Failure::start)?;
        for end in [&press, &pressed] {
            end.set_nonblocking(true).map_err(Failure::start)?;
        }
        let press = Arc::new(press);
        let _ = self.pressed.set(pressed);
        let executor =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::start)?;
        let waiting = async move {
            let mut caught = JoinSet::new();
            for kind in signals {
                let Ok(mut signal) = signal(kind) else { continue };
                let (told, press, unheard) = (told.clone(), press.clone(), unheard.clone());
                caught.spawn(async move {
                    while signal.recv().await.is_some() {
                        if unheard.again() {
                            let _ = writeln!(out::stderr(), "\nedn-bridge: the bridge does not answer");
                            std::process::exit(kind.as_raw_value().saturating_add(128));
                        }
                        let _ = (&*press).write(&[0]);
                        if told.send(ConsoleEvent::Interrupt(kind)).is_err() {
                            return;
                        }
                    }
                });
            }
            let _ = is_ready.send(());
            caught.join_all().await;
        };
        let thread = std::thread::Builder::new().name("interrupts".to_owned());
        thread.spawn(move || executor.block_on(waiting)).map_err(Failure::start)?;
        let _ = ready.recv();
        Ok(())
    }

    /// Whether an engine of this process has the session.
    pub(in crate::cli) const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// What the bridge said of itself.
    pub(in crate::cli) fn server_info(&self) -> &Owned {
        self.client.server_info()
    }

    /// Asks, and waits for the answer.
    pub(in crate::cli) fn ask(&self, op: &str, params: Map<'static>) -> Result<Owned, Failure> {
        let refused = |refused: Refused| Failure::Failed(refused.message);
        let answer = self.client.ask(op, Value::from(params));
        self.unheard.is_over();
        answer.map_err(refused)
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
    pub(in crate::cli) fn next(&self, within: Option<Duration>) -> Option<ConsoleEvent> {
        let next = match within {
            None => self.news.recv().unwrap_or(ConsoleEvent::Gone),
            Some(time) => match self.news.recv_timeout(time) {
                Err(RecvTimeoutError::Timeout) => return None,
                other => other.unwrap_or(ConsoleEvent::Gone),
            },
        };
        if matches!(next, ConsoleEvent::Interrupt(_)) {
            let _ = self.pressed.get().map(|mut pressed| pressed.read(&mut [0]));
        }
        Some(next)
    }

    /// What came meanwhile is of no interest any more.
    pub(in crate::cli) fn begin_anew(&self) {
        while let Some(news) = self.next(Some(Duration::ZERO)) {
            match news {
                ConsoleEvent::Event(event) => self.printed(&event),
                ConsoleEvent::Interrupt(_) => {}
                ConsoleEvent::Gone => {
                    let _ = self.on_interrupt.send(ConsoleEvent::Gone);
                    return;
                }
            }
        }
    }

    /// A line from the terminal; `None` at its end, and if C-c is pressed, which [`next`](Self::next) tells.
    pub(in crate::cli) fn line(&self) -> Option<TypedLine> {
        self.typed.line(self.pressed.get())
    }

    /// Puts aside what was typed before the question that is on the screen now. Returns whether there was anything.
    pub(in crate::cli) fn put_aside(&self) -> bool {
        self.typed.put_aside(self.pressed.get())
    }

    /// What was typed for the next message.
    pub(in crate::cli) fn take_draft(&self) -> String {
        self.typed.take_draft()
    }

    /// Whether C-c was pressed and is not told yet.
    pub(in crate::cli) fn is_interrupted(&self) -> bool {
        let looked = |pressed: &UnixStream| {
            let mut ends = [PollFd::new(pressed, PollFlags::IN)];
            poll(&mut ends, Some(&rustix::event::Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        self.pressed.get().is_some_and(looked)
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
