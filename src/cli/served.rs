//! An engine that is served: its sockets, its connections, and its end. `serve` has one in its own process, the daemon
//! one for each project that somebody works on.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge::catalogue::ErrorCode;
use edn_bridge::clock::{self, Clock};
use edn_bridge::config::Settings;
use edn_bridge::descriptors;
use edn_bridge::engine::{Engine, Providers};
use edn_bridge::environment::{Environment, Variables};
use edn_bridge::federation::FederatedJournals;
use edn_bridge::limits::{ACCEPT_PAUSE, MAX_CONNECTIONS};
use edn_bridge::private;
use edn_bridge::provider::scripted::Scripted;
use edn_bridge::session::{Clients as _, Control as _, Reply, SessionApi};
use edn_bridge::store::{Durability, Store, weak_locks};
use edn_bridge::wire::acp::engines::Project;
use edn_bridge::wire::connection::ConnectionEnd;
use edn_bridge::wire::control::serve::Server;
use edn_bridge::wire::edn::encode::{self, ErrorFrame, Style};
use edn_bridge::wire::edn::service::{self, Connection};
use edn_bridge::wire::refusals::Refusals;
use edn_bridge::wire::transport::Transport;
use edn_bridge::wire::transport::socket::{self, Listener, Purpose, SocketPeer};
use edn_bridge::wire::ui;
use serde::{Deserialize, Serialize};

use super::ephemeral::EphemeralFolder;
use super::failure::Failure;
use super::realm::{self, Member};
use super::runtime;

/// How long the end of a connection may take: aborting turns, writing what they did, flushing.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a reading client may take for the remaining output if the turns have used up [`PATIENCE`].
const FLUSHING: Duration = Duration::from_secs(1);

/// Said where the user's file names a receiver, and nothing can send to it.
pub(super) const NO_TELEMETRY: &str = ":telemetry: this build sends nothing; build it with --features otel";

/// An engine with the executor that its tasks run on.
pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    executor: tokio::runtime::Runtime,
    /// This process's part in a realm.
    member: Option<Member>,
    /// The journals of sessions that end with this process. Removed when it is dropped.
    ephemeral: Option<EphemeralFolder>,
}

impl Process {
    pub(super) fn new(settings: Settings, durability: Durability) -> Result<Self, Failure> {
        descriptors::raise();
        for open in private::close(&settings.state_dir) {
            tracing::warn!("{open}");
        }
        if settings.telemetry.endpoint.is_some() && !cfg!(feature = "otel") {
            tracing::warn!("{NO_TELEMETRY}");
        }
        let clock = clock::of_process();
        let mut providers = Providers::new(&settings, &clock);
        if let Some(script) = &settings.script {
            providers.add(Arc::new(Scripted::from_file(script)?));
        }
        let executor = runtime::start().map_err(Failure::start)?;
        if let Some(kind) = weak_locks(&settings.state_dir) {
            tracing::warn!(kind, "the state folder is on a file system where locks may not hold");
        }
        let ephemeral =
            settings.is_ephemeral.then(|| EphemeralFolder::create(&settings.state_dir)).transpose()?;
        let journals = ephemeral.as_ref().map_or(settings.state_dir.as_path(), EphemeralFolder::path);
        let store = Store::new(journals, durability).map_err(Failure::start)?;
        // Sessions of this machine alone need no realm.
        let member = if settings.is_ephemeral { Ok(None) } else { realm::join(&settings) };
        let member = member.unwrap_or_else(|failure| {
            tracing::error!("this machine is not in its realm: {failure}");
            None
        });
        let handle = executor.handle().clone();
        let engine = match &member {
            Some(member) => {
                let journals = FederatedJournals::new(store, member.federation().clone());
                Engine::new(clock.clone(), settings, journals, providers, handle)
            }
            None => Engine::new(clock.clone(), settings, store, providers, handle),
        };
        let engine = engine.map_err(|error| Failure::Failed(error.to_string()))?;
        if let Some(member) = &member {
            edn_bridge::engine::federate(&engine, member.federation().clone());
        }
        Ok(Self { engine, clock, executor, member, ephemeral })
    }

    /// Ends the executor, so that the sessions' locks are given back by name too. What does not end is
    /// not waited for long: it was told to stop before. A provider's own threads are waited for.
    pub(super) fn end(self) {
        // MCP servers are asked to end, and not waited for much longer than they have.
        let _ =
            self.executor.block_on(async { tokio::time::timeout(PATIENCE, self.engine.end_servers()).await });
        self.executor.shutdown_timeout(std::time::Duration::from_millis(200));
        self.engine.end();
        drop((self.member, self.ephemeral));
    }
}

/// An engine of this program's own, behind a pair of sockets, for a client without a running bridge.
pub(super) struct Own {
    connections: Mutex<Vec<Arc<Connection>>>,
    process: Process,
}

impl Own {
    pub(super) fn start(settings: Settings, durability: Durability) -> Result<(Self, UnixStream), Failure> {
        let own = Self { connections: Mutex::default(), process: Process::new(settings, durability)? };
        let stream = own.connect()?;
        Ok((own, stream))
    }

    /// A further connection to it.
    pub(super) fn connect(&self) -> Result<UnixStream, Failure> {
        let (ours, theirs) = UnixStream::pair().map_err(Failure::start)?;
        let transport = Transport::socket(theirs).map_err(Failure::start)?;
        let api = Arc::new(self.process.engine.clone());
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let id = u64::try_from(connections.len()).unwrap_or(u64::MAX).saturating_add(1);
        let connection = service::start(id, transport, api, self.process.clock.clone(), Box::new(|_| {}));
        connections.push(connection.map_err(Failure::start)?);
        Ok(ours)
    }

    /// The engine.
    pub(super) fn engine(&self) -> &Engine {
        &self.process.engine
    }

    /// Ends all turns, and saves their results.
    pub(super) fn end(self) {
        for connection in self.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            connection.finish(PATIENCE);
        }
        self.process.end();
    }
}

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Protocol {
    /// EDN lines.
    Edn,
    /// The UI protocol. With `diagnostics`, its client is told more.
    Ui {
        /// What the variable `CODELIA_DIAGNOSTICS` of the client says.
        diagnostics: bool,
    },
    /// The Agent Client Protocol. Its client opens sessions of several engines, and belongs to none.
    Acp,
}

/// A connection that belongs to this engine; one of the ACP wire belongs to none.
#[derive(Clone)]
enum Attached {
    Edn(Arc<Connection>),
    Ui(Arc<ui::link::Connection>),
}

impl Attached {
    fn finish(&self, patience: Duration) {
        match self {
            Self::Edn(connection) => connection.finish(patience),
            Self::Ui(connection) => connection.finish(patience),
        }
    }

    fn leave(&self) -> Receiver<()> {
        match self {
            Self::Edn(connection) => connection.leave(),
            Self::Ui(connection) => connection.leave(),
        }
    }

    fn drain(&self, left: &Receiver<()>, patience: Duration) {
        match self {
            Self::Edn(connection) => connection.drain(left, patience),
            Self::Ui(connection) => connection.drain(left, patience),
        }
    }
}

/// An engine with its sockets and its connections.
pub(super) struct Served {
    process: Process,
    /// The folder of its project.
    project: PathBuf,
    state_dir: PathBuf,
    /// What its clients bring.
    environment: Environment,
    /// A socket for control that the user has named.
    named: Option<PathBuf>,
    /// Tells engines of one process and project apart; see [`Listener::bind`].
    number: u64,
    connections: Connections,
    control: OnceLock<Option<ControlWire>>,
}

impl Served {
    /// Starts an engine, and nothing that leads to it yet.
    pub(super) fn start(settings: Settings, durability: Durability, number: u64) -> Result<Self, Failure> {
        let (project, state_dir) = (settings.cwd.clone(), settings.state_dir.clone());
        let (named, environment) = (settings.control.socket.clone(), settings.environment.clone());
        let process = Process::new(settings, durability)?;
        let (connections, control) = (Connections::default(), OnceLock::new());
        Ok(Self { process, project, state_dir, environment, named, number, connections, control })
    }

    /// Its engine.
    pub(super) fn engine(&self) -> &Engine {
        &self.process.engine
    }

    /// How many connections it has, with those that reach other engines too.
    pub(super) fn connected(&self) -> usize {
        let guests = self.connections.0.guests.load(Ordering::Acquire);
        self.connections.all().len().saturating_add(guests)
    }

    /// Its part in a connection that reaches several engines, with its variables.
    pub(super) fn guest(&self, variables: Variables) -> Guest {
        self.connections.0.guests.fetch_add(1, Ordering::AcqRel);
        let (engine, connections) = (self.process.engine.clone(), self.connections.clone());
        Guest { engine, connections, environment: self.environment.clone(), variables }
    }

    /// Runs a task on its executor.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.process.executor.spawn(task);
    }

    /// Serves an editor. `on_end` is told why its connection ends, when it does; then [`Served::finish`] waits for it.
    pub(super) fn editor(
        &self,
        protocol: Protocol,
        transport: Transport,
        on_end: impl Fn(ConnectionEnd) + Send + Sync + 'static,
    ) -> Result<Editor, Failure> {
        let id = self.connections.next();
        let attached = self.attach(id, protocol, transport, Box::new(on_end)).map_err(Failure::start)?;
        Ok(Editor { attached })
    }

    /// Serves an editor as one of the connections, with its variables. When it has left, calls `left`.
    pub(super) fn editor_of_many(
        &self,
        protocol: Protocol,
        transport: Transport,
        variables: Variables,
        left: impl FnOnce() + Send + 'static,
    ) -> Result<(), Failure> {
        let id = self.connections.next();
        self.environment.bring(id, variables);
        let environment = self.environment.clone();
        let left = move || {
            environment.forget(id);
            left();
        };
        let start = |on_end| self.attach(id, protocol, transport, on_end);
        self.connections.welcome(id, start, Box::new(left)).map_err(Failure::start)
    }

    fn attach(
        &self,
        id: u64,
        protocol: Protocol,
        transport: Transport,
        on_end: OnEnd,
    ) -> io::Result<Attached> {
        let (api, clock) = (Arc::new(self.process.engine.clone()), self.process.clock.clone());
        match protocol {
            Protocol::Edn => service::start(id, transport, api, clock, on_end).map(Attached::Edn),
            Protocol::Ui { diagnostics } => {
                ui::service::start(id, transport, api, clock, diagnostics, on_end).map(Attached::Ui)
            }
            Protocol::Acp => Err(io::Error::other("an ACP connection is attached through Engines::attach")),
        }
    }

    /// Opens its sockets, the first time that it is called: once the first client is served, who is not to wait for them.
    pub(super) fn listen(&self) {
        let mut is_first = false;
        let api = Arc::new(self.process.engine.clone());
        self.control.get_or_init(|| {
            is_first = true;
            ControlWire::open(self, &api)
        });
        if is_first {
            let (state_dir, project, number) = (self.state_dir.clone(), self.project.clone(), self.number);
            let bind = move || Listener::bind(Purpose::Clients, &state_dir, &project, number);
            self.connections.listen(bind, api, self.process.clock.clone());
        }
    }

    /// Ends everything. The editor leaves after the others, because the last client learns how the newest turns end.
    pub(super) fn finish(self, editor: Option<&Editor>) {
        let control = self.control.get().and_then(Option::as_ref);
        if let Some(control) = control {
            control.close();
        }
        // Clients leave after they learn how their turns end.
        let (stopped, all) = channel();
        self.process.engine.stop(Reply::new(move |_| {
            let _ = stopped.send(());
        }));
        let asked = Instant::now();
        let _ = all.recv_timeout(PATIENCE);
        if let Some(control) = control {
            control.finish(FLUSHING);
        }
        self.connections.finish(editor, PATIENCE.saturating_sub(asked.elapsed()).max(FLUSHING));
        self.process.end();
    }
}

/// The editor of a process of its own.
pub(super) struct Editor {
    attached: Attached,
}

/// An engine's part in a connection that reaches several. The engine counts it as one of its connections.
pub(super) struct Guest {
    engine: Engine,
    connections: Connections,
    environment: Environment,
    variables: Variables,
}

impl Project for Guest {
    fn api(&self) -> Arc<dyn SessionApi> {
        Arc::new(self.engine.clone())
    }

    fn next_client(&self) -> u64 {
        let id = self.connections.next();
        self.environment.bring(id, self.variables.clone());
        id
    }

    fn left(&self, client: u64) {
        self.environment.forget(client);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.connections.0.guests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Called with the reasons why a connection ends, at most once per reason.
type OnEnd = Box<dyn Fn(ConnectionEnd) + Send + Sync>;

/// The connections of an engine, except for the editor of a process of its own.
#[derive(Clone, Default)]
struct Connections(Arc<ConnectionList>);

#[derive(Default)]
struct ConnectionList {
    connections: Mutex<HashMap<u64, Attached>>,
    /// How many numbers of connections were given.
    numbers: AtomicU64,
    /// How many connections that reach several engines reach this one.
    guests: AtomicUsize,
    socket: Mutex<Socket>,
}

/// The socket for further clients.
#[derive(Default)]
enum Socket {
    /// It does not listen yet, or cannot.
    #[default]
    None,
    At(socket::SocketPlace),
    /// No client is taken any more.
    Closed,
}

impl Connections {
    /// The number of the next connection; the first one has 1.
    fn next(&self) -> u64 {
        self.0.numbers.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Listens on a thread of its own, so that the first handshake does not wait for it. Where there can be
    /// no socket, the bridge goes on without one and says so in the log.
    fn listen(
        &self,
        bind: impl FnOnce() -> io::Result<Listener> + Send + 'static,
        api: Arc<Engine>,
        clock: Arc<dyn Clock>,
    ) {
        let mine = self.clone();
        let listening = std::thread::Builder::new().name("socket".to_owned()).spawn(move || {
            let listener = match bind() {
                Ok(listener) => listener,
                Err(error) => return tracing::warn!(%error, "no socket for further clients"),
            };
            {
                let mut socket = mine.socket();
                if matches!(*socket, Socket::Closed) {
                    return;
                }
                *socket = Socket::At(listener.place());
            }
            loop {
                match listener.accept(ACCEPT_PAUSE) {
                    Ok(SocketPeer::Outside(stream)) => mine.guest(stream, api.clone(), clock.clone()),
                    Ok(SocketPeer::Inside(stream)) => refuse(&stream, STARTED_HERE, false),
                    Err(error) if socket::was_shut(&error) => return,
                    Err(error) => return tracing::warn!(%error, "the socket takes no further clients"),
                }
            }
        });
        if let Err(error) = listening {
            tracing::warn!(%error, "no socket for further clients");
        }
    }

    /// Serves a client of the socket.
    fn guest(&self, stream: UnixStream, api: Arc<Engine>, clock: Arc<dyn Clock>) {
        if self.all().len() >= MAX_CONNECTIONS {
            let message = format!(
                "{MAX_CONNECTIONS} clients are connected, which is all that are served. Try again later."
            );
            return refuse(&stream, &message, true);
        }
        let id = self.next();
        let start = |on_end| {
            Transport::socket(stream)
                .and_then(|transport| service::start(id, transport, api, clock, on_end))
                .map(Attached::Edn)
        };
        if let Err(error) = self.welcome(id, start, Box::new(|| {})) {
            tracing::warn!(%error, "a client could not be served");
        }
    }

    /// Adds a connection that `start` starts. When it has left, calls `left`.
    fn welcome(
        &self,
        id: u64,
        start: impl FnOnce(OnEnd) -> io::Result<Attached>,
        left: Box<dyn FnOnce() + Send>,
    ) -> io::Result<()> {
        let mut connections = self.all();
        let (list, left) = (self.clone(), Mutex::new(Some(left)));
        let on_end = Box::new(move |_: ConnectionEnd| {
            let Some(left) = left.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
            // Apart from the connection's own threads, which the end waits for.
            let list = list.clone();
            let leave = std::thread::Builder::new().name(format!("end-{id}")).spawn(move || {
                let connection = list.all().get(&id).cloned();
                if let Some(connection) = connection {
                    connection.finish(PATIENCE);
                    // Counted until here, so that slow ends do not circumvent the bound.
                    list.all().remove(&id);
                }
                left();
            });
            if let Err(error) = leave {
                tracing::warn!(%error, id, "a connection could not be ended");
            }
        });
        let started = start(on_end)?;
        connections.insert(id, started);
        Ok(())
    }

    /// Ends every connection and the editor's at the same time, and removes the socket.
    fn finish(&self, editor: Option<&Editor>, patience: Duration) {
        if let Socket::At(place) = std::mem::replace(&mut *self.socket(), Socket::Closed) {
            place.remove();
        }
        let connections: Vec<_> = self.all().drain().map(|(_, connection)| connection).collect();
        let leaving: Vec<_> = connections.iter().map(|guest| (guest, guest.leave())).collect();
        std::thread::scope(|scope| {
            for (guest, left) in leaving {
                let end = std::thread::Builder::new().name("end".to_owned());
                if let Err(error) = end.spawn_scoped(scope, move || guest.drain(&left, patience)) {
                    tracing::warn!(%error, "a guest's connection ends without being waited for");
                }
            }
            if let Some(editor) = editor {
                editor.attached.finish(patience);
            }
        });
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u64, Attached>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.0.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The control wire and its sockets.
struct ControlWire {
    server: Arc<Server>,
    places: Vec<socket::SocketPlace>,
}

impl ControlWire {
    /// Opens the sockets if a team is named; without one, nothing is paid for the wire. Where there can be no socket, the
    /// bridge goes on without one and says so in the log.
    fn open(served: &Served, engine: &Arc<Engine>) -> Option<Self> {
        if engine.control_capabilities().kinds.is_empty() {
            return None;
        }
        let server = Server::new(engine.clone(), engine.tally(), served.process.clock.clone());
        let own = Listener::bind(Purpose::Control, &served.state_dir, &served.project, served.number);
        let mut places = Vec::new();
        for bound in [Some(own), served.named.as_deref().map(Listener::bind_named)].into_iter().flatten() {
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
