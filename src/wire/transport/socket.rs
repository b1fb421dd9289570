//! The Unix socket beside standard input and output: where further clients attach to a running process.
//!
//! A process has one socket, `run/PROJECT-PID.sock` in the state folder: the folder and the socket are the
//! user's alone, and who connects is checked again by the kernel's word: it must be the same user, and no program
//! that the process has started. A socket whose process is dead refuses connections, and is removed by whoever
//! finds it.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::private;
#[cfg(target_os = "linux")]
use crate::runner::lineage;

/// A client that has connected, of the same user.
#[derive(Debug)]
pub enum Client {
    /// One from outside.
    Outside(UnixStream),
    /// A program that the process has started, or one that cannot be told from such a program. It must not be
    /// served: a command could answer its own questions.
    Inside(UnixStream),
}

/// A socket that takes connections. Dropped, it is removed.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens for clients of the project in `cwd`.
    ///
    /// # Errors
    /// Where the folder or the socket cannot be made, and where this very process listens already.
    pub fn bind(state_dir: &Path, cwd: &Path) -> io::Result<Self> {
        let folder = folder(state_dir);
        private::make_folder(&folder)?;
        let path = folder.join(format!("{}-{}.sock", project(cwd), std::process::id()));
        if path.exists() && UnixStream::connect(&path).is_err() {
            // Left by a dead process that had our number.
            std::fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        let bound = Self { listener, path };
        std::fs::set_permissions(&bound.path, std::fs::Permissions::from_mode(0o600))?;
        Ok(bound)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next client that is the same user; any other is hung up on. A client that went
    /// before it was taken is passed over. Where the process or the system is out of what a connection
    /// needs, it is tried again after a pause: the clients that are there are served on, and when some
    /// of them go, the waiting ones come in. Such a pause takes `pause`.
    ///
    /// # Errors
    /// Where the socket is closed.
    pub fn accept(&self, pause: Duration) -> io::Result<Client> {
        let mut told = false;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => match is_ours(&stream) {
                    Ok(true) => match client(stream) {
                        Ok(client) => return Ok(client),
                        // Hung up on: it may come again when there is what it takes to look where it comes from.
                        Err(error) => tracing::warn!(%error, "a connection was not taken for now"),
                    },
                    refused => tracing::warn!(?refused, "a connection of another user was refused"),
                },
                Err(error) => match after(&error) {
                    After::End => return Err(error),
                    After::Next => {}
                    After::Pause => {
                        if !std::mem::replace(&mut told, true) {
                            tracing::warn!(%error, "no further client can be taken for now");
                        }
                        std::thread::sleep(pause);
                    }
                },
            }
        }
    }
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
        let _ = std::fs::remove_file(&self.path);
    }
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
fn client(stream: UnixStream) -> io::Result<Client> {
    let inside = rustix::net::sockopt::socket_peercred(&stream).map_err(Into::into).and_then(|peer| {
        let peer = u32::try_from(peer.pid.as_raw_pid()).map_err(io::Error::other)?;
        lineage::is_inside(peer)
    });
    match inside {
        Ok(false) => Ok(Client::Outside(stream)),
        Err(error) if after(&error) == After::Pause => Err(error),
        refused => {
            tracing::warn!(?refused, "a connection of a program that the bridge has started was refused");
            Ok(Client::Inside(stream))
        }
    }
}

/// Where there are no runners, nobody can tell.
#[cfg(not(target_os = "linux"))]
fn client(stream: UnixStream) -> io::Result<Client> {
    Ok(Client::Outside(stream))
}

/// Where the kernel does not say who connects, the socket's permissions have to do.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_ours(_: &UnixStream) -> io::Result<bool> {
    Ok(true)
}

/// Connects to the running processes, newest first: those of the project in `cwd`, or of every project.
/// Sockets of dead processes are removed on the way.
pub fn connect(state_dir: &Path, cwd: Option<&Path>) -> Vec<UnixStream> {
    let prefix = cwd.map(|cwd| format!("{}-", project(cwd)));
    let entries = std::fs::read_dir(folder(state_dir)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            prefix.as_deref().is_none_or(|prefix| name.starts_with(prefix))
        })
        .map(|path| (path.metadata().and_then(|meta| meta.modified()).ok(), path))
        .collect();
    found.sort();
    let streams = found.into_iter().rev().filter_map(|(_, path)| match UnixStream::connect(&path) {
        // Nothing of ours listens under another user's hand, whatever the folder's permissions.
        Ok(stream) => is_ours(&stream).unwrap_or(false).then_some(stream),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path);
            None
        }
        Err(_) => None,
    });
    streams.collect()
}

fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("run")
}

/// A name for a project's folder, short enough for the hundred bytes that a socket's path may have.
fn project(cwd: &Path) -> String {
    let digest = Sha256::digest(cwd.as_os_str().as_encoded_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
