//! The engines of a daemon: one for each project and set of options, for as long as somebody is there or something runs.
//! An editor of the Agent Client Protocol reaches several of them; without a daemon, its process has some of its own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use edn_bridge::catalogue::ErrorCode;
use edn_bridge::engine::Engine;
use edn_bridge::engine::working_sessions::{DepartedSession, WorkingSessions};
use edn_bridge::environment::{Pairs, Variables};
use edn_bridge::facts::AtWork;
use edn_bridge::limits::{DAEMON_ASK, DAEMON_START, HANDED_WAITING_BYTES};
use edn_bridge::message::{EntryId, Mode, SessionId};
use edn_bridge::session::{ApiError, Reply};
use edn_bridge::wire::acp;
use edn_bridge::wire::acp::engines::{Project, Projects};
use edn_bridge::wire::connection::ConnectionEnd;
use edn_bridge::wire::transport::Transport;

use super::super::failure::Failure;
use super::super::options::{Options, SOURCES};
use super::super::served::{PATIENCE, Protocol, Served};
use super::at_work_list::AtWorkList;
use super::daemon_files::hand_over;
use super::line::{EngineStatus, HandedSession, Handover, Refused, Waiting, Working};

/// Whether an engine has nothing to do: no work and no client, or no session because all have gone to another daemon.
fn is_at_rest(served: &Served, is_retired: bool) -> bool {
    let is_left = served.connected() == 0 || (is_retired && served.engine().is_empty());
    is_left && served.engine().at_work().is_empty()
}

/// The place of an engine.
#[derive(Default)]
struct Seat {
    /// Held while the engine starts, takes an editor or ends. True once the seat is given up.
    changing: Mutex<bool>,
    running: Mutex<Option<Arc<Served>>>,
}

impl Seat {
    fn running(&self) -> Option<Arc<Served>> {
        lock(&self.running).clone()
    }

    /// Ends the engine with what runs in it. The caller holds `changing`.
    fn end(&self) {
        let Some(mut running) = lock(&self.running).take() else { return };
        // Others look at it for an instant at most.
        let until = Instant::now().checked_add(DAEMON_START);
        loop {
            running = match Arc::try_unwrap(running) {
                Ok(running) => return running.finish(None),
                Err(running) => running,
            };
            if until.is_none_or(|until| Instant::now() > until) {
                return tracing::error!("an engine could not be ended");
            }
            std::thread::yield_now();
        }
    }
}

/// The engines. Where one hangs, at its start or its end, the others do not notice.
pub(in super::super) struct Engines {
    held: Mutex<Held>,
    /// The editors that reach several engines.
    editors: Mutex<HashMap<u64, Arc<acp::link::Connection>>>,
    /// Whether they are a daemon's: what runs outlives its clients, and is noted for the daemon that follows.
    is_daemon: bool,
    state_dir: PathBuf,
    /// The sessions at work, for the daemon that follows.
    notes: Arc<AtWorkList>,
    /// The sessions that come and go.
    moving: Mutex<Vec<Moving>>,
}

#[derive(Default)]
struct Held {
    seats: HashMap<Handover, Arc<Seat>>,
    /// How many engines were started.
    numbers: u64,
    /// How many editors that reach several engines there were.
    editors: u64,
    /// Whether no further editor is taken.
    is_closed: bool,
}

/// A session that is on its way from one daemon to another. It is work, though no engine has it.
struct Moving {
    session: String,
    cwd: String,
    way: EngineAttachment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EngineAttachment {
    Opening,
    Leaving,
}

/// Keeps the sessions of an engine through the end of the daemon.
struct Keeping {
    engines: Weak<Engines>,
    notes: Arc<AtWorkList>,
    given: Handover,
}

impl WorkingSessions for Keeping {
    fn works(&self, session: &SessionId) {
        self.notes.works(session.as_str(), &self.given);
    }

    fn rests(&self, session: &SessionId) {
        self.notes.rests(session.as_str());
    }

    fn leaves(&self, session: &SessionId) {
        if let Some(engines) = self.engines.upgrade() {
            engines.moves(session.as_str(), &self.given, EngineAttachment::Leaving);
        }
    }

    fn left(&self, left: DepartedSession) {
        let Some(engines) = self.engines.upgrade() else { return };
        if left.is_at_work {
            return engines.pass_on(self.given.clone(), left);
        }
        self.notes.rests(left.session.as_str());
        engines.has_moved(left.session.as_str(), EngineAttachment::Leaving);
    }
}

impl Engines {
    /// None yet.
    pub(in super::super) fn new(state_dir: PathBuf, is_daemon: bool) -> Self {
        let notes = Arc::new(AtWorkList::new(&state_dir));
        let (held, editors, moving) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { held, editors, is_daemon, state_dir, notes, moving }
    }

    /// The engine of these options, which is started if there is none. Calls `with` while it is not ended. `None` after
    /// [`Engines::finish`].
    fn with<T>(
        self: &Arc<Self>,
        options: &Options,
        given: &Handover,
        with: impl FnOnce(&Served) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        loop {
            let seat = {
                let mut held = lock(&self.held);
                if held.is_closed {
                    return Ok(None);
                }
                held.seats.entry(given.clone()).or_default().clone()
            };
            // The lock is held until the editor is a client, or the engine could end first. Opening a project that is being
            // put away waits here until the locks of its sessions are given back.
            let is_gone = lock(&seat.changing);
            if *is_gone {
                continue;
            }
            let running = match seat.running() {
                Some(running) => running,
                None => {
                    let running = Arc::new(self.start(&given.options(options), given)?);
                    *lock(&seat.running) = Some(running.clone());
                    running
                }
            };
            let done = with(&running)?;
            running.listen();
            return Ok(Some(done));
        }
    }

    /// Serves an editor on the engine of its options, which is started if there is none. Calls `left` when the editor has
    /// left. Returns whether it does: not after [`Engines::finish`].
    pub(in super::super) fn attach(
        self: &Arc<Self>,
        options: &Options,
        given: &Handover,
        variables: Variables,
        protocol: Protocol,
        transport: Transport,
        left: impl FnOnce() + Send + 'static,
    ) -> Result<bool, Failure> {
        if protocol == Protocol::Acp {
            return self.attach_to_several(options, given, variables, transport, left);
        }
        let served =
            self.with(options, given, |engine| engine.editor_of_many(protocol, transport, variables, left))?;
        Ok(served.is_some())
    }

    /// Serves an editor that opens sessions in several folders.
    fn attach_to_several(
        self: &Arc<Self>,
        options: &Options,
        given: &Handover,
        variables: Variables,
        transport: Transport,
        left: impl FnOnce() + Send + 'static,
    ) -> Result<bool, Failure> {
        let folders = Folders {
            engines: Arc::downgrade(self),
            options: options.clone(),
            given: given.clone(),
            variables,
        };
        let number = {
            let mut held = lock(&self.held);
            if held.is_closed {
                return Ok(false);
            }
            held.editors = held.editors.saturating_add(1);
            held.editors
        };
        let (engines, left) = (self.clone(), Mutex::new(Some(left)));
        let on_end = move |_: ConnectionEnd| {
            let Some(left) = lock(&left).take() else { return };
            // Apart from the connection's own threads, which the end waits for.
            let engines = engines.clone();
            let leave = std::thread::Builder::new().name(format!("end-editor-{number}")).spawn(move || {
                let connection = lock(&engines.editors).get(&number).cloned();
                if let Some(connection) = connection {
                    connection.finish(PATIENCE);
                    lock(&engines.editors).remove(&number);
                }
                left();
            });
            if let Err(error) = leave {
                tracing::warn!(%error, "an editor's connection could not be ended");
            }
        };
        // The lock is held until the connection is in the list, where its end looks for it.
        let mut editors = lock(&self.editors);
        let clock = edn_bridge::clock::of_process();
        let started = acp::service::start(transport, Arc::new(folders), clock, Box::new(on_end));
        editors.insert(number, started.map_err(Failure::start)?);
        Ok(true)
    }

    fn start(self: &Arc<Self>, options: &Options, given: &Handover) -> Result<Served, Failure> {
        let mut settings = options.settings()?;
        settings.outlives_clients = self.is_daemon;
        let number = {
            let mut held = lock(&self.held);
            held.numbers = held.numbers.saturating_add(1);
            held.numbers.saturating_sub(1)
        };
        let served = Served::start(settings, options.durability(), number)?;
        let all = Arc::downgrade(self);
        served.engine().see_all(move || all.upgrade().map(|all| all.at_work()).unwrap_or_default());
        if self.is_daemon {
            let (engines, notes) = (Arc::downgrade(self), self.notes.clone());
            served.engine().keep(Keeping { engines, notes, given: given.clone() });
        }
        Ok(served)
    }

    /// Whether daemons before this one may have left sessions at work.
    pub(super) fn are_left(&self) -> bool {
        self.notes.are_others()
    }

    /// Opens the sessions that daemons before this one have left at work: killed ones, and ones that were replaced.
    pub(super) fn open_left(self: &Arc<Self>, options: &Options) {
        for note in self.notes.left() {
            tracing::info!(session = note.session_id, "a session that was at work is opened");
            self.moves(&note.session_id, &note.given, EngineAttachment::Opening);
            match self.open(options, &note.given, nothing_known(&note.session_id)) {
                Ok(true) => {}
                Ok(false) => self.notes.refuse(&note.session_id, "the daemon ends".to_owned()),
                Err(failure) => self.notes.refuse(&note.session_id, failure.to_string()),
            }
            self.has_moved(&note.session_id, EngineAttachment::Opening);
        }
    }

    /// Continues with a session that another daemon hands over, with its note. Returns whether it does: a daemon that has left
    /// its place or ends does not, and the session is to be handed over to the one that follows.
    pub(super) fn take_over(
        self: &Arc<Self>,
        options: &Options,
        handed: HandedSession,
        note: Option<OwnedFd>,
        is_retired: &AtomicBool,
    ) -> Result<bool, Failure> {
        let HandedSession { session, given, environment, waiting } = handed;
        let mut left = nothing_known(&session);
        left.variables = environment.map(variables_of);
        for Waiting { entries, environment } in waiting {
            let variables = variables_of(environment);
            left.waiting.extend(entries.iter().map(|entry| (EntryId::from(&**entry), variables.clone())));
        }
        // First, so that a daemon that leaves its place from now on waits for it.
        self.moves(&session, &given, EngineAttachment::Opening);
        let opened = if is_retired.load(Ordering::Acquire) {
            Ok(false)
        } else {
            self.notes.comes(&session, &given, note);
            self.open(options, &given, left)
        };
        match &opened {
            Ok(true) => {}
            // Whoever hands it over has the note too.
            Ok(false) => drop(self.notes.departs(&session, &given)),
            Err(failure) => self.notes.refuse(&session, failure.to_string()),
        }
        self.has_moved(&session, EngineAttachment::Opening);
        opened
    }

    fn moves(&self, session: &str, given: &Handover, way: EngineAttachment) {
        let (session, cwd) = (session.to_owned(), given.cwd.clone());
        lock(&self.moving).push(Moving { session, cwd, way });
    }

    fn has_moved(&self, session: &str, way: EngineAttachment) {
        let mut moving = lock(&self.moving);
        if let Some(place) = moving.iter().position(|moving| moving.session == session && moving.way == way) {
            moving.swap_remove(place);
        }
    }

    fn moving(&self) -> Vec<(String, Working)> {
        let moving = lock(&self.moving);
        let working = moving.iter().map(|moving| {
            let phase = match moving.way {
                EngineAttachment::Opening => "opening",
                EngineAttachment::Leaving => "leaving",
            };
            let (session, cwd) = (moving.session.clone(), moving.cwd.clone());
            let phase = phase.to_owned();
            (cwd.clone(), Working { session, name: String::new(), cwd, phase, asks: None })
        });
        working.collect()
    }

    /// Opens a session. Returns whether it is open: not after [`Engines::finish`].
    fn open(
        self: &Arc<Self>,
        options: &Options,
        given: &Handover,
        left: DepartedSession,
    ) -> Result<bool, Failure> {
        let session = left.session.to_string();
        let (opened, wait) = channel();
        let opened = self.with(options, given, |engine| {
            engine.engine().open_left(left, Reply::new(move |done| drop(opened.send(done))));
            // Its work, if there is some, keeps the engine from now on.
            match wait.recv_timeout(DAEMON_START) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    if error.code == ErrorCode::NotFound {
                        // Nobody can open it any more.
                        self.notes.rests(&session);
                    }
                    Err(Failure::Failed(error.message))
                }
                Err(_) => Err(Failure::Failed("it takes too long to open".to_owned())),
            }
        })?;
        Ok(opened.is_some())
    }

    /// Has the engine of a folder do what concerns a session of the realm that no engine has open.
    pub(super) fn in_folder(
        self: &Arc<Self>,
        options: &Options,
        cwd: String,
        work: impl FnOnce(&Engine) + Send + 'static,
    ) {
        let (engines, options) = (self.clone(), options.clone());
        let taking = std::thread::Builder::new().name("realm-session".to_owned()).spawn(move || {
            let taken = Handover::of(&options, cwd).and_then(|given| {
                engines.with(&options, &given, |served| {
                    work(served.engine());
                    Ok(())
                })
            });
            if let Err(failure) = taken {
                tracing::warn!("nobody here opens a session of the realm: {failure}");
            }
        });
        if let Err(error) = taking {
            tracing::warn!(%error, "nobody here opens a session of the realm");
        }
    }

    /// Has every session leave for the daemon that has taken this one's place.
    pub(super) fn hand_over(&self) {
        for (_, seat) in self.seats() {
            if let Some(running) = seat.running() {
                running.engine().hand_over();
            }
        }
    }

    /// Passes a session that has left on to the daemon that has taken this one's place. Its note is held by both until
    /// then: if that daemon does not take the session, or is killed, the note is there for the next.
    fn pass_on(self: &Arc<Self>, given: Handover, left: DepartedSession) {
        let id = left.session.to_string();
        let note = self.notes.departs(&id, &given);
        let engines = self.clone();
        let passing = std::thread::Builder::new().name("hand-over".to_owned()).spawn(move || {
            let DepartedSession { session, variables, waiting, .. } = left;
            let handed = HandedSession {
                session: session.to_string(),
                given,
                environment: variables.as_ref().map(pairs_of),
                waiting: each_once(waiting),
            };
            if let Err(failure) = hand_over(&engines.state_dir, handed, note.as_ref()) {
                tracing::warn!(session = session.as_str(), "the session was not handed over: {failure}");
            }
            drop(note);
            engines.has_moved(session.as_str(), EngineAttachment::Leaving);
        });
        if let Err(error) = passing {
            self.has_moved(&id, EngineAttachment::Leaving);
            tracing::error!(%error, "a session was not handed over");
        }
    }

    /// Leaves what works, and what was not opened, to the next daemon.
    pub(super) fn leave(&self) {
        self.notes.leave();
    }

    fn seats(&self) -> Vec<(Handover, Arc<Seat>)> {
        lock(&self.held).seats.iter().map(|(given, seat)| (given.clone(), seat.clone())).collect()
    }

    /// Ends the engines that have no work and no client, in a retired daemon those that have no work, each on a thread of
    /// its own. Returns how many there are, with the editors that reach several.
    pub(super) fn sweep(self: &Arc<Self>, is_retired: bool) -> usize {
        let seats = self.seats();
        let others = lock(&self.editors).len().saturating_add(lock(&self.moving).len());
        let count = seats.len().saturating_add(others);
        for (note, _) in self.notes.refused() {
            let session = SessionId::from(note.session_id.as_str());
            // Somebody has opened it.
            if seats
                .iter()
                .filter_map(|(_, seat)| seat.running())
                .any(|running| running.engine().is_live(&session))
            {
                self.notes.rests(&note.session_id);
            }
        }
        for (given, seat) in seats {
            if seat.running().is_some_and(|running| !is_at_rest(&running, is_retired)) {
                continue;
            }
            let engines = self.clone();
            let ending = std::thread::Builder::new().name("end".to_owned()).spawn(move || {
                // Somebody else starts it, takes an editor or ends it.
                let Ok(mut is_gone) = seat.changing.try_lock() else { return };
                if seat.running().is_none_or(|running| is_at_rest(&running, is_retired))
                    && !lock(&engines.moving).iter().any(|moving| moving.way == EngineAttachment::Leaving)
                {
                    seat.end();
                    *is_gone = true;
                    let mut held = lock(&engines.held);
                    if held.seats.get(&given).is_some_and(|there| Arc::ptr_eq(there, &seat)) {
                        held.seats.remove(&given);
                    }
                }
            });
            if let Err(error) = ending {
                tracing::warn!(%error, "an engine could not be put away");
            }
        }
        count
    }

    /// Takes no further editor, and ends all engines with what runs in them. One that has not started by then is not waited
    /// for.
    pub(in super::super) fn finish(&self) {
        lock(&self.held).is_closed = true;
        let editors: Vec<_> = lock(&self.editors).values().cloned().collect();
        let leaving: Vec<_> = editors.iter().map(|editor| (editor, editor.leave())).collect();
        for (editor, left) in leaving {
            editor.drain(&left, PATIENCE);
        }
        std::thread::scope(|scope| {
            for (_, seat) in self.seats() {
                let end = std::thread::Builder::new().name("end".to_owned());
                let ended = end.spawn_scoped(scope, move || {
                    let until = Instant::now().checked_add(DAEMON_ASK);
                    loop {
                        if let Ok(mut is_gone) = seat.changing.try_lock() {
                            *is_gone = true;
                            return seat.end();
                        }
                        if until.is_none_or(|until| Instant::now() > until) {
                            return tracing::warn!("an engine that starts or ends is not waited for");
                        }
                        std::thread::sleep(END_PAUSE);
                    }
                });
                if let Err(error) = ended {
                    tracing::warn!(%error, "an engine ends without being waited for");
                }
            }
        });
    }

    /// The options of the engine that has a session open.
    pub(super) fn given_of(&self, session: &SessionId) -> Option<Handover> {
        let mut seats = self.seats().into_iter();
        let has = |seat: &Seat| seat.running().is_some_and(|running| running.engine().is_live(session));
        seats.find(|(_, seat)| has(seat)).map(|(given, _)| given)
    }

    /// What works in all engines.
    fn at_work(&self) -> Vec<AtWork> {
        let running = self.seats().into_iter().filter_map(|(_, seat)| seat.running());
        running.flat_map(|running| running.engine().at_work()).collect()
    }

    /// The sessions that are not opened by themselves, with the reasons.
    pub(super) fn refused(&self) -> Vec<Refused> {
        let refused = self.notes.refused().into_iter();
        let mut refused: Vec<_> = refused
            .map(|(note, why)| Refused { session: note.session_id, cwd: note.given.cwd, why })
            .collect();
        refused.sort_by(|one, other| one.session.cmp(&other.session));
        refused
    }

    /// What runs and waits.
    pub(super) fn status(&self) -> Vec<EngineStatus> {
        // Before and after: a session that moves meanwhile is seen once at least.
        let mut moving = self.moving();
        let mut status: Vec<_> = self
            .seats()
            .into_iter()
            .filter_map(|(given, seat)| Some((given, seat.running()?)))
            .map(|(given, running)| EngineStatus {
                cwd: given.cwd,
                clients: running.connected(),
                at_work: running.engine().at_work().into_iter().map(Working::from).collect(),
            })
            .collect();
        moving.extend(self.moving());
        for (cwd, work) in moving {
            let mut working = status.iter().flat_map(|engine| &engine.at_work);
            if working.any(|there| there.session == work.session) {
                continue;
            }
            match status.iter_mut().find(|engine| engine.cwd == cwd) {
                Some(engine) => engine.at_work.push(work),
                None => status.push(EngineStatus { cwd, clients: 0, at_work: vec![work] }),
            }
        }
        status.sort_by(|one, other| one.cwd.cmp(&other.cwd));
        status
    }
}

/// A session of whose variables nothing is known.
fn nothing_known(session: &str) -> DepartedSession {
    DepartedSession {
        session: SessionId::from(session),
        is_at_work: true,
        variables: None,
        waiting: Vec::new(),
    }
}

fn variables_of(pairs: Vec<(String, String)>) -> Variables {
    let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
    Variables::from(pairs.collect::<Pairs>())
}

fn pairs_of(variables: &Variables) -> Vec<(String, String)> {
    let text = |text: &OsString| text.to_str().map(str::to_owned);
    let pairs = variables.pairs().iter();
    pairs.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// The variables of queued messages, each set once, up to [`HANDED_WAITING_BYTES`]. The messages whose variables are left
/// out run with others, and the person is told.
fn each_once(waiting: Vec<(EntryId, Variables)>) -> Vec<Waiting> {
    let mut sets: Vec<(Variables, Vec<String>)> = Vec::new();
    let mut bytes = 0usize;
    for (entry, variables) in waiting {
        let entry = entry.to_string();
        if let Some((_, entries)) = sets.iter_mut().find(|(known, _)| *known == variables) {
            entries.push(entry);
            continue;
        }
        let sizes = variables.pairs().iter().map(|(name, value)| name.len().saturating_add(value.len()));
        bytes = sizes.fold(bytes, usize::saturating_add);
        if bytes > HANDED_WAITING_BYTES {
            tracing::warn!("the variables of queued messages are too large to be handed over");
            break;
        }
        sets.push((variables, vec![entry]));
    }
    let sets = sets.into_iter();
    sets.map(|(variables, entries)| Waiting { entries, environment: pairs_of(&variables) }).collect()
}

/// The engines that an editor reaches: those of its options in each folder.
struct Folders {
    engines: Weak<Engines>,
    options: Options,
    given: Handover,
    variables: Variables,
}

impl Projects for Folders {
    fn open(&self, folder: &Path) -> Result<Box<dyn Project>, ApiError> {
        let failed = |error: Failure| ApiError::failed(error.to_string());
        let Some(cwd) = folder.to_str() else {
            return Err(ApiError::failed("The folder's path is not UTF-8."));
        };
        let given = Handover { cwd: cwd.to_owned(), ..self.given.clone() };
        let engines = self.engines.upgrade();
        let opened = engines.map(|engines| {
            engines.with(&self.options, &given, |served| Ok(served.guest(self.variables.clone())))
        });
        match opened.transpose().map_err(failed)?.flatten() {
            Some(guest) => Ok(Box::new(guest)),
            None => Err(ApiError::failed("The program ends.")),
        }
    }

    fn home(&self) -> PathBuf {
        PathBuf::from(&self.given.cwd)
    }

    fn has_login(&self) -> bool {
        true
    }
}

impl From<AtWork> for Working {
    fn from(work: AtWork) -> Self {
        Self {
            session: work.session.to_string(),
            name: work.name.to_string(),
            cwd: work.cwd.to_string(),
            phase: work.phase.as_str().to_owned(),
            asks: work.asks.map(str::to_owned),
        }
    }
}

/// How long the end waits before it looks again whether an engine can be ended.
const END_PAUSE: Duration = Duration::from_millis(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handover {
    /// Those of a client's options that make its engine.
    pub(in super::super) fn of(options: &Options, cwd: String) -> Result<Self, Failure> {
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).map_err(Failure::io(path.display().to_string()))?;
            path.into_os_string()
                .into_string()
                .map_err(|path| Failure::Failed(format!("the path is not UTF-8: {}", path.display())))
        };
        Ok(Self {
            cwd,
            provider: options.provider.clone(),
            model: options.model.clone(),
            agent: options.agent.clone(),
            model_file: options.model_file.as_ref().map(absolute).transpose()?,
            script: options.script.as_ref().map(absolute).transpose()?,
            mode: if options.yolo { Some(Mode::Yolo.as_str().to_owned()) } else { options.mode.clone() },
            config: options.config.as_ref().map(absolute).transpose()?,
            durability: options.durability.clone(),
            origins: options
                .origins
                .iter()
                .map(|(key, origin)| ((*key).to_owned(), origin.clone()))
                .collect(),
        })
    }

    /// The options that a process of its own would have had; the rest is the daemon's.
    fn options(&self, daemon: &Options) -> Options {
        let path = |path: &Option<String>| path.as_ref().map(PathBuf::from);
        let known = |key: &str| {
            SOURCES.iter().find(|(setting, _, _)| *setting == key).map(|(setting, _, _)| *setting)
        };
        Options {
            cwd: Some(PathBuf::from(&self.cwd)),
            provider: self.provider.clone(),
            model: self.model.clone(),
            agent: self.agent.clone(),
            model_file: path(&self.model_file),
            script: path(&self.script),
            mode: self.mode.clone(),
            yolo: false,
            config: path(&self.config),
            durability: self.durability.clone(),
            origins: self
                .origins
                .iter()
                .filter_map(|(key, origin)| Some((known(key)?, origin.clone())))
                .collect(),
            ..daemon.clone()
        }
    }
}
