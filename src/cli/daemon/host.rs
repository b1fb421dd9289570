//! The daemon's process: takes clients, and lives as long as it is needed.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge::clock::{self, rfc3339};
use edn_bridge::engine::{Engine, take_over, take_request};
use edn_bridge::environment::{Pairs, Variables};
use edn_bridge::federation::{Heard, Notice};
use edn_bridge::limits::{ACCEPT_PAUSE, DAEMON_ASK, DAEMON_ASKING, DAEMON_START};
use edn_bridge::message::SessionId;
use edn_bridge::wire::transport::Transport;
use edn_bridge::wire::transport::socket::{self, Listener, SocketPeer, SocketPlace};

use super::super::failure::{Exit, Failure};
use super::super::lock::Lock;
use super::super::options::Options;
use super::super::realm::{self, Member};
use super::super::signals::on_termination;
use super::daemon_files::{READY, lock_path};
use super::engines::Engines;
use super::line::{self, Ask, Attach, DaemonReply, Homes, Lines, Status, VERSION, Working};

/// How often the daemon looks whether it is still needed.
const LOOK: Duration = Duration::from_secs(1);

/// How often a daemon that has left its place looks whether another one has it.
const FOLLOWER_LOOK: Duration = Duration::from_millis(20);

/// How often a daemon that starts looks whether another one serves.
const PLACE_LOOK: Duration = Duration::from_millis(50);

/// How long a replaced daemon waits for questions to go over, before it leaves those that cannot: a subagent's, a stage's.
const QUESTIONS_GO_OVER: Duration = Duration::from_secs(5);

/// What ends the daemon's wait.
enum WakeReason {
    /// A client has left.
    Left,
    /// It must end, with all that runs.
    End,
    /// It leaves its place.
    Retire,
    /// A signal.
    Signal(u8),
}

/// What is left in a daemon that has left its place.
enum Rest {
    /// Something runs, or a client may answer a question.
    Works,
    /// Nothing.
    None,
    /// Questions that no client of this daemon can answer any more.
    Questions,
}

/// What the threads of the daemon share.
struct Daemon {
    options: Options,
    started_at: Arc<str>,
    homes: Homes,
    engines: Arc<Engines>,
    /// Whether it has left its place to a new daemon.
    is_retired: Arc<AtomicBool>,
    /// Whether it opens what other daemons have left.
    is_looking: AtomicBool,
    /// The clients that are listened to.
    asking: AtomicUsize,
    news: Mutex<Sender<WakeReason>>,
}

/// Runs the daemon in this process until nobody needs it. With `announce`, says on standard output that it is ready, or
/// why it is not.
pub(super) fn run(options: &Options, announce: bool) -> Exit {
    let ended = serve(options, announce);
    if let (Err(failure), true) = (&ended, announce) {
        let _ = writeln!(io::stdout(), "{failure}");
    }
    ended
}

fn serve(options: &Options, announce: bool) -> Exit {
    let state_dir = options.state_folder()?;
    let failed =
        |source| Failure::Io { place: socket::folder(&state_dir).display().to_string(), error: source };
    // So that the end of a terminal does not end it. It fails only if the process leads a session already; then nothing is to be done.
    let _ = rustix::process::setsid();
    edn_bridge::private::make_folder(&state_dir).map_err(failed)?;
    let Some(mut lock) = take_place(&state_dir).map_err(failed)? else {
        return Err(Failure::Failed("a daemon of this state folder runs already".to_owned()));
    };
    let clock = clock::of_process();
    let started_at = rfc3339(clock.now());
    let about = format!(
        "{{:pid {} :build {:?} :version {VERSION} :started-at {:?}}}\n",
        std::process::id(),
        env!("CARGO_PKG_VERSION"),
        &*started_at
    );
    lock.describe(&about).map_err(failed)?;
    let listener = Listener::bind_daemon(&state_dir).map_err(failed)?;
    let mut place = listener.place();
    let idle = options.settings().map(|settings| settings.daemon.idle).unwrap_or_default();
    let (news, wait) = channel();
    let daemon = Arc::new(Daemon {
        options: Options { state_dir: Some(state_dir.clone()), ..options.clone() },
        started_at,
        homes: Homes::own(),
        engines: Arc::new(Engines::new(state_dir.clone(), true)),
        is_retired: Arc::default(),
        is_looking: AtomicBool::new(false),
        asking: AtomicUsize::new(0),
        news: Mutex::new(news.clone()),
    });
    on_termination(move |signal| drop(news.send(WakeReason::Signal(signal)))).map_err(Failure::start)?;
    daemon.accept_on(listener).map_err(Failure::start)?;
    if announce {
        // Whoever has started it may be gone by now. Others find it.
        let _ = io::stdout().write_all(READY.as_bytes()).and_then(|()| io::stdout().flush());
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(failed)?;
        rustix::stdio::dup2_stdout(&null).map_err(|error| failed(error.into()))?;
    }
    tracing::info!("the daemon is ready");
    let member = daemon.join_realm();
    daemon.look_for_left();
    let mut lock = Some(lock);
    let (mut unused_since, mut has_follower) = (Instant::now(), false);
    let mut only_asks_since = None;
    let status = loop {
        let is_replaced = daemon.is_retired.load(Ordering::Acquire) && !has_follower;
        match wait.recv_timeout(if is_replaced { FOLLOWER_LOOK } else { LOOK }) {
            Ok(WakeReason::Left) | Err(RecvTimeoutError::Timeout) => {}
            Ok(WakeReason::End) | Err(RecvTimeoutError::Disconnected) => break ExitCode::SUCCESS,
            Ok(WakeReason::Signal(signal)) => break ExitCode::from(128u8.saturating_add(signal)),
            Ok(WakeReason::Retire) => {
                // First, so that an editor that is sent away finds the place free. People still reach this one.
                if let Err(error) = place.leave_to_another() {
                    tracing::warn!(%error, "the daemon is not to be asked any more");
                    place.remove();
                }
                daemon.is_retired.store(true, Ordering::Release);
                lock = None;
            }
        }
        let is_retired = daemon.is_retired.load(Ordering::Acquire);
        if !is_retired {
            match keep_lock(&state_dir, &about, &mut lock) {
                Ok(true) => daemon.keep_socket(&state_dir, &mut place),
                Ok(false) => {
                    tracing::warn!("another process is the daemon: this one hands over");
                    daemon.tell(WakeReason::Retire);
                }
                Err(error) => tracing::debug!(%error, "the daemon's lock cannot be looked at"),
            }
            daemon.look_for_left();
        } else if has_follower || socket::connect_daemon(&state_dir).is_ok() {
            has_follower = true;
            daemon.engines.hand_over();
        }
        let is_used = daemon.engines.sweep(is_retired && has_follower) > 0;
        if is_used || daemon.is_looking.load(Ordering::Acquire) {
            unused_since = Instant::now();
            match if is_retired { daemon.rest() } else { Rest::Works } {
                Rest::Works => only_asks_since = None,
                // Its clients come back to the new one.
                Rest::None => break ExitCode::SUCCESS,
                // Those that can go over do so, with the variables of their turns.
                Rest::Questions
                    if only_asks_since.get_or_insert_with(Instant::now).elapsed() < QUESTIONS_GO_OVER => {}
                Rest::Questions => {
                    // They are in the journals, and are asked again, with the same ids, by whoever opens the sessions
                    // next. An orderly end would withdraw them.
                    tracing::info!("the daemon leaves its questions to the next one");
                    daemon.engines.leave();
                    place.remove();
                    return Ok(ExitCode::SUCCESS);
                }
            }
        } else if is_retired || idle.is_over(unused_since.elapsed()) {
            break ExitCode::SUCCESS;
        }
    };
    tracing::info!("the daemon ends");
    if lock.is_some() {
        place.remove();
    }
    daemon.engines.finish();
    drop(member);
    // Of a replaced daemon only now: whoever stops it waits for that.
    place.remove();
    drop(lock);
    Ok(status)
}

/// Takes the lock; `None` if another daemon serves. One that is about to end gives it back soon.
fn take_place(state_dir: &Path) -> io::Result<Option<Lock>> {
    let begun = Instant::now();
    loop {
        if let Some(lock) = Lock::take(&lock_path(state_dir), PLACE_LOOK)? {
            return Ok(Some(lock));
        }
        if begun.elapsed() >= DAEMON_START || socket::connect_daemon(state_dir).is_ok() {
            return Ok(None);
        }
    }
}

/// Looks whether the lock that this daemon holds is still the one at its path. One that was removed is taken again. Returns
/// whether this is the daemon: no, if another process holds the lock there.
fn keep_lock(state_dir: &Path, about: &str, lock: &mut Option<Lock>) -> io::Result<bool> {
    let path = lock_path(state_dir);
    if lock.as_ref().is_some_and(|lock| lock.stands_at(&path)) {
        return Ok(true);
    }
    edn_bridge::private::make_folder(state_dir)?;
    let Some(mut again) = Lock::take(&path, Duration::ZERO)? else { return Ok(false) };
    again.describe(about)?;
    tracing::warn!("the daemon's lock was removed, and is taken again");
    *lock = Some(again);
    Ok(true)
}

impl Daemon {
    /// Takes clients at a socket, on a thread of its own.
    fn accept_on(self: &Arc<Self>, listener: Listener) -> io::Result<()> {
        let accepting = self.clone();
        let thread = std::thread::Builder::new().name("socket".to_owned());
        thread.spawn(move || accepting.accept(&listener)).map(drop)
    }

    /// Looks whether the socket still stands at its place, and binds it again if not.
    fn keep_socket(self: &Arc<Self>, state_dir: &Path, place: &mut SocketPlace) {
        if place.stands() {
            return;
        }
        let bound = Listener::bind_daemon(state_dir).and_then(|listener| {
            let again = listener.place();
            self.accept_on(listener).map(|()| again)
        });
        match bound {
            Ok(again) => {
                tracing::warn!("the daemon's socket was removed, and is bound again");
                // Nobody can connect to the one before.
                std::mem::replace(place, again).remove();
            }
            Err(error) => tracing::debug!(%error, "the daemon's socket cannot be bound again"),
        }
    }

    /// Speaks for this host in the realm of the configuration, if it names one, for as long as the daemon lives: other
    /// hosts reach its sessions without an editor. Until it has entered, editors are served.
    fn join_realm(self: &Arc<Self>) -> Arc<Mutex<Option<Member>>> {
        let joined: Arc<Mutex<Option<Member>>> = Arc::default();
        let (daemon, joining) = (Arc::downgrade(self), joined.clone());
        if !self.options.settings().is_ok_and(|settings| settings.realm.is_some()) {
            return joined;
        }
        let entering = std::thread::Builder::new().name("enter-realm".to_owned()).spawn(move || {
            let Some(this) = daemon.upgrade() else { return };
            let joined = this.options.settings().and_then(|settings| realm::join(&settings));
            let member = match joined {
                Ok(Some(member)) => member,
                Ok(None) => return,
                Err(failure) => return tracing::error!("this host is not in the realm: {failure}"),
            };
            let federation = member.federation().clone();
            let known = Arc::downgrade(&federation);
            federation.listen(move |notice| {
                let (Some(daemon), Some(federation)) = (daemon.upgrade(), known.upgrade()) else {
                    return Heard::Gone;
                };
                match notice {
                    Notice::Posted(posted, true) => {
                        let Some(slot) = federation.slot(&posted.session) else { return Heard::Passed };
                        let posted = posted.clone();
                        let take = move |engine: &Engine| {
                            let _ = take_request(engine, &posted, true);
                        };
                        daemon.engines.in_folder(&daemon.options, slot.cwd.to_string(), take);
                    }
                    Notice::Lost(lost, true) => {
                        let (cwd, lost) = (lost.cwd.to_string(), lost.clone());
                        let take = move |engine: &Engine| {
                            let _ = take_over(engine, &lost, true);
                        };
                        daemon.engines.in_folder(&daemon.options, cwd, take);
                    }
                    _ => return Heard::Passed,
                }
                Heard::Taken
            });
            *joining.lock().unwrap_or_else(PoisonError::into_inner) = Some(member);
        });
        if let Err(error) = entering {
            tracing::error!(%error, "this host is not in the realm");
        }
        joined
    }

    /// Takes clients until the socket is closed. Each is listened to on a thread of its own.
    fn accept(self: &Arc<Self>, listener: &Listener) {
        loop {
            let stream = match listener.accept(ACCEPT_PAUSE) {
                Ok(SocketPeer::Outside(stream)) => stream,
                Ok(SocketPeer::Inside(stream)) => {
                    refuse(&stream, "A program that the daemon has started may not connect to it.");
                    continue;
                }
                Err(error) if socket::was_shut(&error) => return,
                Err(error) => return tracing::warn!(%error, "the daemon takes no further clients"),
            };
            if self.asking.fetch_add(1, Ordering::AcqRel) >= DAEMON_ASKING {
                self.asking.fetch_sub(1, Ordering::AcqRel);
                refuse(&stream, "The daemon is asked by too many clients. Try again later.");
                continue;
            }
            let daemon = self.clone();
            let listening = std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
                daemon.hear(stream);
                daemon.asking.fetch_sub(1, Ordering::AcqRel);
            });
            if let Err(error) = listening {
                self.asking.fetch_sub(1, Ordering::AcqRel);
                tracing::warn!(%error, "a client could not be listened to");
            }
        }
    }

    /// Does what a client asks.
    fn hear(&self, stream: UnixStream) {
        let _ = stream.set_write_timeout(Some(DAEMON_ASK));
        let mut lines = Lines::new(&stream);
        lines.within(Some(DAEMON_ASK));
        let mut news = None;
        let told = match lines.next() {
            Ok(Some(Ask::Attach(attach))) => {
                let descriptors = std::mem::take(&mut lines.descriptors);
                return self.attach(*attach, descriptors, &stream);
            }
            Ok(Some(Ask::Status)) => DaemonReply::Status(self.status()),
            Ok(Some(Ask::Stop { now })) => {
                let working = self.working();
                if working.is_empty() || now {
                    news = Some(WakeReason::End);
                    DaemonReply::Ending
                } else {
                    DaemonReply::Working(working)
                }
            }
            Ok(Some(Ask::TakeOver(handed))) => {
                let note = lines.descriptors.pop();
                match self.engines.take_over(&self.options, *handed, note, &self.is_retired) {
                    Ok(true) => DaemonReply::TakenOver,
                    Ok(false) => DaemonReply::NotTaken,
                    Err(failure) => DaemonReply::Refused { message: failure.to_string(), by_itself: false },
                }
            }
            Ok(Some(Ask::Retire)) => {
                news = Some(WakeReason::Retire);
                match self.working() {
                    working if working.is_empty() => DaemonReply::Ending,
                    working => DaemonReply::Working(working),
                }
            }
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => DaemonReply::Refused {
                message: format!("The daemon is busy: {error}. Try again later."),
                by_itself: true,
            },
            Err(error) => DaemonReply::Refused {
                message: format!("The line is not understood: {error}"),
                by_itself: false,
            },
        };
        if let Err(error) = line::send(&stream, &told, &[]) {
            tracing::debug!(%error, "a client did not wait for its answer");
        }
        // After the answer: the process may be gone at once.
        if let Some(news) = news {
            self.tell(news);
        }
    }

    fn attach(&self, attach: Attach, descriptors: Vec<OwnedFd>, stream: &UnixStream) {
        let refused = |message: String, by_itself| {
            let _ = line::send(stream, &DaemonReply::Refused { message, by_itself }, &[]);
        };
        let Attach { version, build: _, protocol, homes, given, environment, session } = attach;
        if version != VERSION {
            let message = format!(
                "The daemon that runs speaks version {VERSION} of its lines, and this program version {version}: this \
                 program works beside it. `edn-bridge daemon restart` replaces it."
            );
            return refused(message, true);
        }
        if homes != self.homes {
            let message = "The daemon that runs was started with another home or configuration folder: this program \
                           works beside it.";
            return refused(message.to_owned(), true);
        }
        if self.is_retired.load(Ordering::Acquire) {
            // The end of the stream tells the client that it may try again, with the daemon that follows.
            return;
        }
        let given = match session {
            Some(session) => match self.engines.given_of(&SessionId::from(session.as_str())) {
                Some(given) => given,
                None => return refused(format!("The daemon does not have {session} open."), true),
            },
            None => given,
        };
        // A command's socket, or an editor's pipes.
        let made = match <[OwnedFd; 1]>::try_from(descriptors) {
            Ok([socket]) => Transport::socket(UnixStream::from(socket)),
            Err(descriptors) => {
                let Ok([input, output]) = <[OwnedFd; 2]>::try_from(descriptors) else {
                    return refused("Standard input and output did not come along.".to_owned(), false);
                };
                stream.try_clone().and_then(|owner| Transport::handed(input, output, owner))
            }
        };
        let (transport, ending) = match made.and_then(|transport| Ok((transport, stream.try_clone()?))) {
            Ok(made) => made,
            Err(error) => return refused(format!("The daemon cannot serve another editor: {error}."), false),
        };
        // Before the first frame goes out: until then the client has a copy of the output.
        let attached = DaemonReply::Attached { build: env!("CARGO_PKG_VERSION").to_owned() };
        if line::send(stream, &attached, &[]).is_err() {
            return;
        }
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
        let (environment, is_retired) =
            (Variables::from(environment.collect::<Pairs>()), self.is_retired.clone());
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left = move || {
            // The end of the stream alone tells the client that another daemon serves it.
            let _ = match is_retired.load(Ordering::Acquire) {
                true => ending.shutdown(std::net::Shutdown::Both),
                false => line::send(&ending, &DaemonReply::Ended, &[]),
            };
            let _ = news.send(WakeReason::Left);
        };
        match self.engines.attach(&self.options, &given, environment, protocol, transport, left) {
            Ok(true) => {}
            // The end of the stream tells the client that it may try again.
            Ok(false) => tracing::info!("an editor came too late"),
            Err(failure) => refused(failure.to_string(), false),
        }
    }

    /// What runs and waits.
    fn working(&self) -> Vec<Working> {
        self.engines.status().into_iter().flat_map(|engine| engine.at_work).collect()
    }

    /// What is left, once the daemon has left its place.
    fn rest(&self) -> Rest {
        let engines = self.engines.status();
        let working = || engines.iter().flat_map(|engine| &engine.at_work);
        if working().next().is_none() {
            Rest::None
        } else if engines.iter().all(|engine| engine.clients == 0)
            && working().all(|work| work.asks.is_some())
        {
            Rest::Questions
        } else {
            Rest::Works
        }
    }

    fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at.to_string(),
            engines: self.engines.status(),
            refused: self.engines.refused(),
            replaced: Vec::new(),
        }
    }

    /// Opens what other daemons have left at work, on a thread of its own: an engine may hang at its start.
    fn look_for_left(self: &Arc<Self>) {
        if !self.engines.are_left() || self.is_looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let daemon = self.clone();
        let looking = std::thread::Builder::new().name("left".to_owned()).spawn(move || {
            daemon.engines.open_left(&daemon.options);
            daemon.is_looking.store(false, Ordering::Release);
        });
        if let Err(error) = looking {
            self.is_looking.store(false, Ordering::Release);
            tracing::warn!(%error, "what was at work cannot be looked for");
        }
    }

    fn tell(&self, news: WakeReason) {
        let _ = self.news.lock().unwrap_or_else(PoisonError::into_inner).send(news);
    }
}

/// Says to a client why it is not listened to, and hangs up.
fn refuse(stream: &UnixStream, message: &str) {
    let _ = stream.set_write_timeout(Some(DAEMON_ASK));
    let _ = line::send(stream, &DaemonReply::Refused { message: message.to_owned(), by_itself: true }, &[]);
}
