//! The Unix sockets beside standard input and output: where further programs reach a running process.
//!
//! A process has a socket for each wire, such as `run/PROJECT-PID.sock` in the state folder: the folder and the socket
//! are the user's alone, and who connects is checked again by the kernel's word: it must be the same user, and no program
//! that the process has started. A socket whose process is dead refuses connections, and is removed by whoever
//! finds it.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::limits::CONNECT_WAIT;
use crate::private;
#[cfg(target_os = "linux")]
use crate::runner::lineage;
use crate::sha256;
use crate::wire::refusals::Refusals;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The EDN wire.
    Clients,
    /// The control wire.
    Control,
    /// The daemon's own lines.
    Daemon,
}

impl Purpose {
    /// How the name of such a socket ends.
    const fn ending(self) -> &'static str {
        match self {
            Self::Clients => ".sock",
            Self::Control => ".control.sock",
            Self::Daemon => DAEMON,
        }
    }

    /// Whether a file's name is that of such a socket. The shortest ending is the end of the others.
    fn is_of(self, name: &str) -> bool {
        let kinds = [Self::Daemon, Self::Control, Self::Clients];
        kinds.into_iter().find(|kind| name.ends_with(kind.ending())) == Some(self)
    }
}

/// The name of the daemon's socket, of which a state folder has one.
const DAEMON: &str = "daemon.sock";

/// How the name of the socket of a replaced daemon begins.
const REPLACED: &str = "replaced-";

/// The time between two tries to take the place of a daemon that is ending.
const BIND_PAUSE: Duration = Duration::from_millis(5);

/// A client that has connected, of the same user.
#[derive(Debug)]
pub enum SocketPeer {
    /// One from outside.
    Outside(UnixStream),
    /// A program that the process has started, or one that cannot be told from such a program. It must not be
    /// served: a command could answer its own questions.
    Inside(UnixStream),
}

/// A socket that takes connections. Dropped, it is removed.
#[derive(Debug)]
pub struct Listener {
    listener: Arc<UnixListener>,
    path: PathBuf,
    /// Device and inode of the socket, which tell whether it still stands at its path.
    file: (u64, u64),
}

impl Listener {
    /// Listens for clients of the project in `cwd`. `number` tells several engines of one process and project apart;
    /// the first one has 0.
    ///
    /// # Errors
    /// Where the folder or the socket cannot be made, and where this very process listens already.
    pub fn bind(purpose: Purpose, state_dir: &Path, cwd: &Path, number: u64) -> io::Result<Self> {
        let folder = folder(state_dir);
        private::make_folder(&folder)?;
        let number = if number == 0 { String::new() } else { format!("-{number}") };
        let name = format!("{}-{}{number}{}", project(cwd), std::process::id(), purpose.ending());
        Self::bind_at(folder.join(name))
    }

    /// Listens as the daemon of a state folder. The caller holds the daemon's lock.
    ///
    /// # Errors
    /// Where the folder or the socket cannot be made.
    pub fn bind_daemon(state_dir: &Path) -> io::Result<Self> {
        let folder = folder(state_dir);
        private::make_folder(&folder)?;
        let begun = Instant::now();
        loop {
            match Self::bind_at(folder.join(DAEMON)) {
                // A killed daemon gives back its lock a moment before its socket.
                Err(error) if is_taken(&error) => match begun.elapsed() {
                    waited if waited < CONNECT_WAIT => std::thread::sleep(BIND_PAUSE),
                    // Who holds the lock is the daemon: nobody else may stand there.
                    waited if waited < CONNECT_WAIT.saturating_mul(2) => {
                        tracing::warn!("another program listened at the daemon's socket, which is replaced");
                        match std::fs::remove_file(folder.join(DAEMON)) {
                            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                            Ok(()) | Err(_) => std::thread::sleep(BIND_PAUSE),
                        }
                    }
                    _ => return Err(error),
                },
                bound => return bound,
            }
        }
    }

    /// Listens at a path that the user has named. Its folder is made if it is missing; it must be one in which nobody
    /// else can exchange the socket.
    ///
    /// # Errors
    /// As of [`Listener::bind`]; also where something else stands at the path, and where others may write.
    pub fn bind_named(path: &Path) -> io::Result<Self> {
        let refused = |reason: &str| io::Error::other(format!("{}: {reason}", path.display()));
        let folder = path.parent().ok_or_else(|| refused("it is no path of a socket"))?;
        private::make_folder(folder)?;
        if private::may_others_exchange(&folder.metadata()?) {
            return Err(refused("other users may exchange what is in its folder"));
        }
        match path.symlink_metadata() {
            Ok(found) if !found.file_type().is_socket() => Err(refused("there is a file that is no socket")),
            _ => Self::bind_at(path.to_owned()),
        }
    }

    fn bind_at(path: PathBuf) -> io::Result<Self> {
        if path.symlink_metadata().is_ok() {
            match dial(&path) {
                // Left by a dead process.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(&path)?
                }
                Err(error) => return Err(error),
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        let listener = within_length(&path, |path| UnixListener::bind(path))?;
        // Removed again if what follows fails.
        let mut bound = Self { listener: Arc::new(listener), path, file: (0, 0) };
        std::fs::set_permissions(&bound.path, std::fs::Permissions::from_mode(0o600))?;
        bound.file = identity(&bound.path)?;
        Ok(bound)
    }

    /// Where it listens.
    pub fn place(&self) -> SocketPlace {
        SocketPlace { listener: self.listener.clone(), path: self.path.clone(), file: self.file }
    }

    /// Waits for the next client that is the same user; any other is hung up on. A client that went
    /// before it was taken is passed over. Where the process or the system is out of what a connection
    /// needs, it is tried again after a pause: the clients that are there are served on, and when some
    /// of them go, the waiting ones come in. Such a pause takes `pause`.
    ///
    /// # Errors
    /// Where the socket is closed.
    pub fn accept(&self, pause: Duration) -> io::Result<SocketPeer> {
        let mut reported = false;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => match is_ours(&stream) {
                    Ok(true) => match client(stream) {
                        Ok(client) => return Ok(client),
                        // Hung up on: it may come again when there is what it takes to look where it comes from.
                        Err(error) => tracing::warn!(%error, "a connection was not taken for now"),
                    },
                    refused => {
                        OTHERS.log(&format!("a connection of another user was refused: {refused:?}"));
                    }
                },
                Err(error) => match after(&error) {
                    After::End => return Err(error),
                    After::Next => {}
                    After::Pause => {
                        if !std::mem::replace(&mut reported, true) {
                            tracing::warn!(%error, "no further client can be taken for now");
                        }
                        std::thread::sleep(pause);
                    }
                },
            }
        }
    }
}

/// Whether an error of binding says that somebody listens at the place, also one who takes no connection.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrInUse, PermissionDenied, TimedOut, WouldBlock};
    matches!(error.kind(), AddrInUse | PermissionDenied | TimedOut | WouldBlock)
}

/// The refused connections of other users, and of programs that the bridge has started.
static OTHERS: Refusals = Refusals::new();
#[cfg(target_os = "linux")]
static OWN: Refusals = Refusals::new();

/// Whether an error of [`Listener::accept`] says that its socket was removed.
pub fn was_shut(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INVAL)
}

/// What follows when a connection could not be taken.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// This connection failed; the next one may not.
    Next,
    /// There is a lack that may pass.
    Pause,
    /// The socket itself is of no use.
    End,
}

fn after(error: &io::Error) -> After {
    match Errno::from_io_error(error) {
        Some(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => After::Next,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => After::Pause,
        _ => After::End,
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.place().remove();
    }
}

/// Where a socket stands, for who removes it while its listener waits.
#[derive(Debug, Clone)]
pub struct SocketPlace {
    listener: Arc<UnixListener>,
    path: PathBuf,
    file: (u64, u64),
}

impl SocketPlace {
    /// Leaves the place to another daemon, and goes on listening at one of its own: see [`replaced`].
    ///
    /// # Errors
    /// If the socket cannot be renamed, or something else stands at its place.
    pub fn leave_to_another(&mut self) -> io::Result<()> {
        if identity(&self.path)? != self.file {
            return Err(io::Error::other("another socket stands at the place"));
        }
        let own = self.path.with_file_name(format!("{REPLACED}{}.{DAEMON}", std::process::id()));
        std::fs::rename(&self.path, &own)?;
        self.path = own;
        Ok(())
    }

    /// Whether the socket still stands at its place.
    pub fn stands(&self) -> bool {
        identity(&self.path).is_ok_and(|file| file == self.file)
    }

    /// Removes the socket, unless something else stands there by now, and ends the wait for clients: see [`was_shut`].
    pub fn remove(&self) {
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|found| (found.dev(), found.ino()))
}

/// Whether the other side runs as the same user.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(peer.uid == rustix::process::geteuid())
}

/// Finds out where the other side comes from.
///
/// The kernel tells the number of the process that has connected. It must still be there: a program that connects
/// and ends is not served, whoever has the connection then.
///
/// # Errors
/// For want of a descriptor or of memory to look with.
#[cfg(target_os = "linux")]
fn client(stream: UnixStream) -> io::Result<SocketPeer> {
    let inside = rustix::net::sockopt::socket_peercred(&stream).map_err(Into::into).and_then(|peer| {
        let peer = u32::try_from(peer.pid.as_raw_pid()).map_err(io::Error::other)?;
        lineage::is_inside(peer)
    });
    match inside {
        Ok(false) => Ok(SocketPeer::Outside(stream)),
        Err(error) if after(&error) == After::Pause => Err(error),
        // As a program does that only looks whether somebody listens.
        Err(error) if has_ended(&error) => {
            tracing::debug!(%error, "a program had ended before its connection was taken");
            Ok(SocketPeer::Inside(stream))
        }
        refused => {
            OWN.log(&format!(
                "a connection of a program that the bridge has started was refused: {refused:?}"
            ));
            Ok(SocketPeer::Inside(stream))
        }
    }
}

/// Whether an error of looking where a process comes from says that it has ended.
#[cfg(target_os = "linux")]
fn has_ended(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// Where there are no runners, nobody can tell.
#[cfg(not(target_os = "linux"))]
fn client(stream: UnixStream) -> io::Result<SocketPeer> {
    Ok(SocketPeer::Outside(stream))
}

/// Where the kernel does not say who connects, the socket's permissions have to do.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_ours(_: &UnixStream) -> io::Result<bool> {
    Ok(true)
}

/// A running process.
#[derive(Debug)]
pub struct RunningProcess {
    /// Its socket.
    pub path: PathBuf,
    /// A connection to it.
    pub stream: UnixStream,
}

/// Connects to the running processes, newest first: those of the project in `cwd`, or of every project.
/// Sockets of dead processes are removed on the way.
pub fn connect(purpose: Purpose, state_dir: &Path, cwd: Option<&Path>) -> Vec<RunningProcess> {
    let prefix = cwd.map(|cwd| format!("{}-", project(cwd)));
    let found = paths(state_dir, |name| {
        purpose.is_of(name) && prefix.as_deref().is_none_or(|prefix| name.starts_with(prefix))
    });
    let streams = found.into_iter().filter_map(|path| match connect_at(&path) {
        Ok(stream) => Some(RunningProcess { path, stream }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path);
            None
        }
        Err(_) => None,
    });
    streams.collect()
}

/// The sockets of a state folder for a purpose, newest first. Their processes may be dead.
pub fn listening(purpose: Purpose, state_dir: &Path) -> Vec<PathBuf> {
    paths(state_dir, |name| purpose.is_of(name))
}

/// The paths in the folder of the sockets whose names fit, newest first.
fn paths(state_dir: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(state_dir)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| fits(path.file_name().and_then(|name| name.to_str()).unwrap_or_default()))
        .map(|path| (path.metadata().and_then(|meta| meta.modified()).ok(), path))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// The number of the process at the other end of a connection, if the kernel tells it.
pub fn process_of(stream: &UnixStream) -> Option<u32> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
        u32::try_from(peer.pid.as_raw_pid()).ok()
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = stream;
        None
    }
}

/// Connects to a socket under which the same user listens.
///
/// # Errors
/// If nobody does, or another user: nothing of ours listens under another user's hand, whatever the folder's
/// permissions.
pub fn connect_at(path: &Path) -> io::Result<UnixStream> {
    let stream = dial(path)?;
    if is_ours(&stream)? {
        Ok(stream)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"))
    }
}

/// Connects to a socket. If its queue is full, because its process is stopped or overloaded, it fails after
/// [`CONNECT_WAIT`] instead of waiting for as long as that lasts.
fn dial(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let socket = {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        socket
    };
    // Bounds the wait for a place in the queue of a listener that is busy or stopped.
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_WAIT))?;
    within_length(path, |path| Ok(connect(&socket, &SocketAddrUnix::new(path)?)?))?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

/// The longest path that a socket's address can have everywhere.
const ADDRESS_BYTES: usize = 103;

/// Calls `with` with the path of a socket, or with a shorter one if an address cannot have it.
fn within_length<T>(path: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= ADDRESS_BYTES || !cfg!(target_os = "linux") {
        return with(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return with(path) };
    let folder = std::fs::File::open(folder)?;
    with(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

/// Connects to the daemon of a state folder. One that was started by a program of a bridge's does not count: it would be
/// given the environment of whoever connects.
///
/// # Errors
/// If there is none: [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`]; or it cannot be asked.
pub fn connect_daemon(state_dir: &Path) -> io::Result<UnixStream> {
    let stream = connect_at(&folder(state_dir).join(DAEMON))?;
    not_below_a_runner(&stream)?;
    Ok(stream)
}

/// Where the daemons of a state folder may listen that another one has replaced and that still have work, newest first.
pub fn replaced(state_dir: &Path) -> Vec<PathBuf> {
    let mut found = paths(state_dir, |name| Purpose::Daemon.is_of(name) && name.starts_with(REPLACED));
    // Nobody listens at anything else, and a link leads to another process's.
    found.retain(|path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()));
    found
}

/// Connects to one of [`replaced`]; `None` if no daemon listens there. The socket of a dead one is removed.
///
/// # Errors
/// If it takes no connection, as a process does that is stopped.
pub fn connect_replaced(path: &Path) -> io::Result<Option<UnixStream>> {
    match connect_at(path) {
        Ok(stream) => Ok(not_below_a_runner(&stream).is_ok().then_some(stream)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path);
            Ok(None)
        }
        // Those of other users are none of ours.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether nobody listens any more where a process was found.
///
/// # Errors
/// If that cannot be told.
pub fn is_gone(path: &Path) -> io::Result<bool> {
    match connect_at(path) {
        Ok(_) => Ok(false),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(true),
            _ => Err(error),
        },
    }
}

/// Refuses a daemon that was started by a program of a session.
#[cfg(target_os = "linux")]
fn not_below_a_runner(stream: &UnixStream) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let pid = u32::try_from(peer.pid.as_raw_pid()).map_err(io::Error::other)?;
    if lineage::is_below_a_runner(pid) {
        let why = "the daemon was started by a program of a session; end it and start again";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Where there are no runners, nobody can tell.
#[cfg(not(target_os = "linux"))]
fn not_below_a_runner(_: &UnixStream) -> io::Result<()> {
    Ok(())
}

/// The folder of the sockets in a state folder.
pub fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("run")
}

/// A name for a project's folder, short enough for the hundred bytes that a socket's path may have.
fn project(cwd: &Path) -> String {
    let digest = sha256::hex(cwd.as_os_str().as_encoded_bytes());
    digest.get(..12).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_takes_the_place_of_one_that_ends() {
        let state = tempfile::tempdir().unwrap();
        private::make_folder(&folder(state.path())).unwrap();
        let ending = UnixListener::bind(folder(state.path()).join(DAEMON)).unwrap();
        // It takes a connection, and is gone.
        let ended = std::thread::spawn(move || drop(ending.accept().unwrap()));
        let bound = Listener::bind_daemon(state.path()).unwrap();
        ended.join().unwrap();
        assert!(connect_daemon(state.path()).is_ok());
        drop(bound);
    }

    #[test]
    fn only_unusable_socket_ends_accept_loop() {
        for (errno, expected) in [
            (Errno::INTR, After::Next),
            (Errno::CONNABORTED, After::Next),
            (Errno::MFILE, After::Pause),
            (Errno::NFILE, After::Pause),
            (Errno::NOBUFS, After::Pause),
            (Errno::NOMEM, After::Pause),
            (Errno::BADF, After::End),
            (Errno::INVAL, After::End),
        ] {
            assert_eq!(after(&io::Error::from(errno)), expected, "{errno}");
        }
    }
}
