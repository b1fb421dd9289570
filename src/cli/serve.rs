//! `edn-bridge serve`, and the process that `query` and `prompt` run without an editor. The one place that knows the
//! engine, the wires and the signals of the system together.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge::catalogue::ErrorCode;
use edn_bridge::clock::{self, Clock};
use edn_bridge::config::Settings;
use edn_bridge::descriptors;
use edn_bridge::engine::{Engine, Providers};
use edn_bridge::limits::{ACCEPT_PAUSE, MAX_CONNECTIONS, SAME_SIGNAL};
use edn_bridge::private;
use edn_bridge::provider::scripted::Scripted;
use edn_bridge::session::{Clients as _, Control as _, Reply};
use edn_bridge::store::{Durability, Store};
use edn_bridge::wire::connection::End;
use edn_bridge::wire::control::serve::Server;
use edn_bridge::wire::edn::encode::{self, ErrorFrame, Style};
use edn_bridge::wire::edn::service::{self, Connection};
use edn_bridge::wire::refusals::Refusals;
use edn_bridge::wire::transport::Transport;
use edn_bridge::wire::transport::socket::{self, Listener, Purpose, SocketPeer};
use edn_bridge::wire::ui;

use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, Failure, Options};

/// How long the end of a connection may take: aborting turns, writing what they did, flushing.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a reading client may take for the remaining output if the turns have used up [`PATIENCE`].
const FLUSHING: Duration = Duration::from_secs(1);

/// An engine with the executor that its tasks run on.
pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    executor: tokio::runtime::Runtime,
}

impl Process {
    pub(super) fn new(settings: Settings, durability: Durability) -> Result<Self, Failure> {
        descriptors::raise();
        for open in private::close(&settings.state_dir) {
            tracing::warn!("{open}");
        }
        let clock = clock::of_process();
        let mut providers = Providers::new(&settings, &clock);
        if let Some(script) = &settings.script {
            providers.add(Arc::new(Scripted::from_file(script)?));
        }
        let executor = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("session")
            .enable_all()
            .build()
            .map_err(Failure::start)?;
        let store = Store::new(&settings.state_dir, durability).map_err(Failure::start)?;
        let engine = Engine::new(clock.clone(), settings, store, providers, executor.handle().clone())
            .map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(Self { engine, clock, executor })
    }

    /// Ends the executor, so that the sessions' locks are given back by name too. What does not end is
    /// not waited for long: it was told to stop before. A provider's own threads are waited for.
    pub(super) fn end(self) {
        self.executor.shutdown_timeout(std::time::Duration::from_millis(200));
        self.engine.end();
    }
}

/// An engine of this program's own, behind a pair of sockets, for a client without a running bridge.
pub(super) struct Own {
    connection: Arc<Connection>,
    process: Process,
}

impl Own {
    pub(super) fn start(settings: Settings, durability: Durability) -> Result<(Self, UnixStream), Failure> {
        let process = Process::new(settings, durability)?;
        let (ours, theirs) = UnixStream::pair().map_err(Failure::start)?;
        let transport = Transport::socket(theirs).map_err(Failure::start)?;
        let api = Arc::new(process.engine.clone());
        let connection = service::start(1, transport, api, process.clock.clone(), Box::new(|_| {}))
            .map_err(Failure::start)?;
        Ok((Self { connection, process }, ours))
    }

    /// Ends all turns, and saves their results.
    pub(super) fn end(self) {
        self.connection.finish(PATIENCE);
        self.process.end();
    }
}

/// The connection on standard input and output.
enum Editor {
    Edn(Arc<Connection>),
    Ui(Arc<ui::link::Connection>),
}

impl Editor {
    /// See [`edn_bridge::wire::connection::Connection::finish`].
    fn finish(&self, patience: Duration) {
        match self {
            Self::Edn(connection) => connection.finish(patience),
            Self::Ui(connection) => connection.finish(patience),
        }
    }
}

pub(super) fn run(options: &Options, is_ui: bool) -> Exit {
    let settings = options.settings()?;
    let place = Place { state_dir: settings.state_dir.clone(), project: settings.cwd.clone() };
    let named = settings.control.socket.clone();
    let process = Process::new(settings, options.durability())?;
    let transport = Transport::stdio().map_err(Failure::io("standard input and output"))?;
    let (ended, wait) = channel();
    let on_signal = ended.clone();
    process.executor.spawn(terminate(move |signal| {
        let _ = on_signal.send(Err(signal));
    }));
    let api = Arc::new(process.engine.clone());
    let on_end = Box::new(move |end: End| {
        let _ = ended.send(Ok(end));
    });
    let clock = process.clock.clone();
    let connection = if is_ui {
        let diagnostics = std::env::var_os("CODELIA_DIAGNOSTICS").is_some_and(|value| value == "1");
        ui::service::start(1, transport, api.clone(), clock, diagnostics, on_end).map(Editor::Ui)
    } else {
        service::start(1, transport, api.clone(), clock, on_end).map(Editor::Edn)
    };
    let connection = connection.map_err(Failure::start)?;
    let control = ControlWire::open(&place, named.as_deref(), &api, &process.clock);
    let guests = Guests::listen(place, api, process.clock.clone());
    let why = wait.recv();
    tracing::info!(?why, "ending");
    if let Some(control) = &control {
        control.close();
    }
    // The process belongs to the editor. When the editor leaves, all clients leave, after they learn how their turns end.
    let (stopped, all) = channel();
    process.engine.stop(Reply::new(move |_| {
        let _ = stopped.send(());
    }));
    let asked = Instant::now();
    let _ = all.recv_timeout(PATIENCE);
    if let Some(control) = &control {
        control.finish(FLUSHING);
    }
    guests.finish(&connection, PATIENCE.saturating_sub(asked.elapsed()).max(FLUSHING));
    process.end();
    Ok(match why {
        // The convention of shells for a process that a signal ended.
        Ok(Err(signal)) => ExitCode::from(128u8.saturating_add(signal)),
        _ => ExitCode::SUCCESS,
    })
}

/// Where a bridge is found.
struct Place {
    state_dir: PathBuf,
    project: PathBuf,
}

/// The connections of the socket.
#[derive(Clone)]
struct Guests(Arc<GuestList>);

#[derive(Default)]
struct GuestList {
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    /// Where the socket stands, once it listens.
    place: Mutex<Option<socket::Place>>,
}

impl Guests {
    /// Listens on a thread of its own, so that the first handshake does not wait for it. Where there can be
    /// no socket, the bridge goes on without one and says so in the log.
    fn listen(place: Place, api: Arc<Engine>, clock: Arc<dyn Clock>) -> Self {
        let guests = Self(Arc::default());
        let mine = guests.clone();
        let listening = std::thread::Builder::new().name("socket".to_owned()).spawn(move || {
            let listener = match Listener::bind(Purpose::Clients, &place.state_dir, &place.project) {
                Ok(listener) => listener,
                Err(error) => return tracing::warn!(%error, "no socket for further clients"),
            };
            *mine.0.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener.place());
            // The editor's connection is number 1.
            for id in 2.. {
                match listener.accept(ACCEPT_PAUSE) {
                    Ok(SocketPeer::Outside(stream)) => mine.welcome(id, stream, api.clone(), clock.clone()),
                    Ok(SocketPeer::Inside(stream)) => refuse(&stream, STARTED_HERE, false),
                    Err(error) => return tracing::warn!(%error, "the socket takes no further clients"),
                }
            }
        });
        if let Err(error) = listening {
            tracing::warn!(%error, "no socket for further clients");
        }
        guests
    }

    fn welcome(&self, id: u64, stream: UnixStream, api: Arc<Engine>, clock: Arc<dyn Clock>) {
        let mut connections = self.connections();
        if connections.len() >= MAX_CONNECTIONS {
            drop(connections);
            let message = format!(
                "{MAX_CONNECTIONS} clients are connected, which is all that are served. Try again later."
            );
            return refuse(&stream, &message, true);
        }
        let (guests, ending) = (self.clone(), AtomicBool::new(false));
        let on_end = Box::new(move |_: End| {
            if ending.swap(true, Ordering::AcqRel) {
                return;
            }
            // Apart from the connection's own threads, which the end waits for.
            let guests = guests.clone();
            let leave = std::thread::Builder::new().name(format!("end-{id}")).spawn(move || {
                let connection = guests.connections().get(&id).cloned();
                if let Some(connection) = connection {
                    connection.finish(PATIENCE);
                    // Counted until here, so that slow ends do not circumvent the bound.
                    guests.connections().remove(&id);
                }
            });
            if let Err(error) = leave {
                tracing::warn!(%error, id, "a connection could not be ended");
            }
        });
        let started =
            Transport::socket(stream).and_then(|transport| service::start(id, transport, api, clock, on_end));
        match started {
            Ok(connection) => {
                connections.insert(id, connection);
            }
            Err(error) => tracing::warn!(%error, "a client could not be served"),
        }
    }

    /// Ends every connection and the editor's at the same time, and removes the socket. The editor leaves last, because
    /// the last client learns how the newest turns end.
    fn finish(&self, editor: &Editor, patience: Duration) {
        if let Some(place) = self.0.place.lock().unwrap_or_else(PoisonError::into_inner).take() {
            place.remove();
        }
        let connections: Vec<_> = self.connections().drain().map(|(_, connection)| connection).collect();
        let leaving: Vec<_> = connections.iter().map(|guest| (guest, guest.leave())).collect();
        std::thread::scope(|scope| {
            for (guest, left) in leaving {
                let end = std::thread::Builder::new().name("end".to_owned());
                if let Err(error) = end.spawn_scoped(scope, move || guest.drain(&left, patience)) {
                    tracing::warn!(%error, "a guest's connection ends without being waited for");
                }
            }
            editor.finish(patience);
        });
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The control wire and its sockets.
struct ControlWire {
    server: Arc<Server>,
    places: Vec<socket::Place>,
}

impl ControlWire {
    /// Opens the sockets if a team is named; without one, nothing is paid for the wire. Where there can be no socket, the
    /// bridge goes on without one and says so in the log.
    fn open(
        place: &Place,
        named: Option<&Path>,
        engine: &Arc<Engine>,
        clock: &Arc<dyn Clock>,
    ) -> Option<Self> {
        if engine.control_capabilities().kinds.is_empty() {
            return None;
        }
        let server = Server::new(engine.clone(), engine.tally(), clock.clone());
        let own = Listener::bind(Purpose::Control, &place.state_dir, &place.project);
        let mut places = Vec::new();
        for bound in [Some(own), named.map(Listener::bind_named)].into_iter().flatten() {
            let listening = bound.and_then(|listener| {
                let place = listener.place();
                server.listen(listener).map(|()| place)
            });
            match listening {
                Ok(place) => places.push(place),
                Err(error) => tracing::warn!(%error, "no socket for control"),
            }
        }
        Some(Self { server, places })
    }

    /// Takes no further request.
    fn close(&self) {
        for place in &self.places {
            place.remove();
        }
        self.server.finish(Duration::ZERO);
    }

    /// Waits at most `patience` until the requests that were taken are answered.
    fn finish(&self, patience: Duration) {
        self.server.finish(patience);
    }
}

/// What a program is told that the bridge has started.
const STARTED_HERE: &str = "A program that the bridge has started may not connect to it.";

/// Says to a client why it is not served, and hangs up.
fn refuse(mut stream: &UnixStream, message: &str, retryable: bool) {
    static REFUSED: Refusals = Refusals::new();
    REFUSED.log(message);
    let frame = ErrorFrame { id: None, op: None, code: ErrorCode::Failed, message, retryable, data: None };
    let mut line = Vec::new();
    encode::error(&mut line, Style::Maps, &frame);
    // A new socket has room for a line, so this does not wait for the client.
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&line));
}

/// The signals that ask the process to end.
struct Terminations([tokio::signal::unix::Signal; 3]);

impl Terminations {
    fn listen() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ]))
    }

    /// Waits for the next one, and returns its number.
    async fn next(&mut self) -> u8 {
        let [terminate, hangup, interrupt] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => 15,
            _ = hangup.recv() => 1,
            _ = interrupt.recv() => 2,
        }
    }
}

/// Reports the first signal to end. A second one ends the process at once: acknowledged entries are on disk.
async fn terminate(first: impl FnOnce(u8)) {
    // A file that may not grow further is an error like a full disk, not the end of the process.
    let _too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    let Ok(mut terminations) = Terminations::listen() else { return };
    first(terminations.next().await);
    let same = Instant::now().checked_add(SAME_SIGNAL);
    let second = loop {
        let signal = terminations.next().await;
        if same.is_none_or(|same| Instant::now() > same) {
            break signal;
        }
    };
    std::process::exit(128i32.saturating_add(second.into()))
}
