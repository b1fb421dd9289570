//! The lines of the daemon's socket, each an EDN form. A client writes one [`Ask`]; the daemon answers with [`DaemonReply`]s.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::limits::{DAEMON_LINE_BYTES, DAEMON_SHORT_LINE_BYTES};
use edn_bridge::wire::partial_lines::Share;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::served::Protocol;

/// The version of these lines. A daemon of another version is left alone.
pub(super) const VERSION: u32 = 1;

/// What a client asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ask {
    /// To serve the client's standard input and output, which come with the line.
    Attach(Box<Attach>),
    /// What runs and who is there.
    Status,
    /// To end.
    Stop {
        /// Also if that ends turns.
        now: bool,
    },
    /// To leave the place to a new daemon, and to end when nothing runs.
    Retire,
    /// To continue a session that another daemon has had.
    TakeOver(Box<HandedSession>),
}

/// A session that one daemon hands over to the next.
#[derive(Serialize, Deserialize)]
pub(super) struct HandedSession {
    /// The session.
    pub(super) session: String,
    /// The options of its engine.
    pub(super) given: Handover,
    /// The variables of its turn, if a client brought them.
    pub(super) environment: Option<Vec<(String, String)>>,
    /// Those of the queued messages, each set once.
    #[serde(default)]
    pub(super) waiting: Vec<Waiting>,
}

/// The variables of queued messages.
#[derive(Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The entries of the messages.
    pub(super) entries: Vec<String>,
    /// The variables that their client brought.
    pub(super) environment: Vec<(String, String)>,
}

impl std::fmt::Debug for HandedSession {
    /// Without the environment, which has keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handed").field("session", &self.session).finish_non_exhaustive()
    }
}

/// An editor and what its engine needs.
#[derive(Serialize, Deserialize)]
pub(super) struct Attach {
    /// The [`VERSION`] of the client.
    pub(super) version: u32,
    /// The client's program, such as `0.1.0`.
    pub(super) build: String,
    /// The protocol of the editor.
    pub(super) protocol: Protocol,
    /// The home and configuration folders of the client.
    pub(super) homes: Homes,
    /// The client's options.
    pub(super) given: Handover,
    /// The client's variables. Variables that are no text are left out.
    pub(super) environment: Vec<(String, String)>,
    /// The session that the client is to reach. Then it is served by the engine that has it open, whatever its own options
    /// are, and a socket comes with the line in place of its standard input and output.
    #[serde(default)]
    pub(super) session: Option<String>,
}

impl std::fmt::Debug for Attach {
    /// Without the environment, which has keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attach").field("given", &self.given).finish_non_exhaustive()
    }
}

/// The folders that files of the user are found in. A daemon serves clients that have its own ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Homes {
    home: Option<String>,
    config: Option<String>,
}

impl Homes {
    /// Those of this process.
    pub(super) fn own() -> Self {
        let text = |path: Option<std::path::PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
        Self { home: text(dirs::home_dir()), config: text(dirs::config_dir()) }
    }
}

/// The options of a client that make its engine, all paths absolute. Equal ones share an engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(in super::super) struct Handover {
    pub(super) cwd: String,
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) agent: Option<String>,
    pub(super) model_file: Option<String>,
    pub(super) script: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) config: Option<String>,
    pub(super) durability: String,
    /// The source of each value, for a person.
    pub(super) origins: Vec<(String, String)>,
}

/// What the daemon tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DaemonReply {
    /// The client's standard input and output are served.
    Attached {
        /// The daemon's program.
        build: String,
    },
    /// The client is not served.
    Refused {
        /// Why, for a person.
        message: String,
        /// Whether the client serves its editor itself then. Otherwise it fails.
        by_itself: bool,
    },
    /// The editor's connection has ended.
    Ended,
    /// What runs.
    Status(Status),
    /// The daemon ends, or leaves its place.
    Ending,
    /// The daemon does not end, because this runs.
    Working(Vec<Working>),
    /// The session is the daemon's now.
    TakenOver,
    /// The daemon has left its place or ends: the session is to be handed over to the one that follows.
    NotTaken,
}

/// A daemon at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) pid: u32,
    pub(super) build: String,
    pub(super) started_at: String,
    pub(super) engines: Vec<EngineStatus>,
    /// The sessions that were at work in a daemon before and are not opened by themselves.
    #[serde(default)]
    pub(super) refused: Vec<Refused>,
    /// The daemons before it that still have work. A daemon does not know of them; who asks for the status does.
    #[serde(default)]
    pub(super) replaced: Vec<Status>,
}

/// A session that is not opened by itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refused {
    pub(super) session: String,
    pub(super) cwd: String,
    pub(super) why: String,
}

/// An engine of a daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EngineStatus {
    pub(super) cwd: String,
    pub(super) clients: usize,
    pub(super) at_work: Vec<Working>,
}

/// A session that works or waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Working {
    pub(super) session: String,
    pub(super) name: String,
    pub(super) cwd: String,
    pub(super) phase: String,
    pub(super) asks: Option<String>,
}

/// A peer that is gone is an error and no signal; elsewhere, that the runtime of Rust ignores the signal must do.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SEND: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SEND: SendFlags = SendFlags::empty();

/// Programs that are started do not get what is received.
#[cfg(any(target_os = "linux", target_os = "android"))]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RECEIVE: RecvFlags = RecvFlags::empty();

/// Writes a line, and passes descriptors with it.
pub(super) fn send(
    mut stream: &UnixStream,
    line: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut bytes = edn::to_vec(line).map_err(io::Error::other)?;
    bytes.push(b'\n');
    if descriptors.is_empty() {
        return stream.write_all(&bytes);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    // They belong to the first bytes; the rest follows.
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SEND) {
            Err(rustix::io::Errno::INTR) => {}
            sent => break sent?,
        }
    };
    stream.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Reads lines, and the descriptors that come with them.
pub(super) struct Lines<'s> {
    stream: &'s UnixStream,
    /// When a line must have come.
    until: Option<Instant>,
    bytes: Vec<u8>,
    /// How many of the bytes have no line feed.
    scanned: usize,
    /// The part of all clients' unfinished lines.
    share: Share,
    /// The descriptors that came so far.
    pub(super) descriptors: Vec<OwnedFd>,
}

impl<'s> Lines<'s> {
    pub(super) fn new(stream: &'s UnixStream) -> Self {
        let share = Share::default();
        Self { stream, until: None, bytes: Vec::new(), scanned: 0, share, descriptors: Vec::new() }
    }

    /// With a time within which the next lines must come; `None` for no bound.
    pub(super) fn within(&mut self, patience: Option<Duration>) {
        self.until = patience.and_then(|patience| Instant::now().checked_add(patience));
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// A line that is too long or has another shape; [`io::ErrorKind::ResourceBusy`] if too much of other clients' lines is
    /// under way; and what the stream refuses.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        /// Held while a long line is read: values take more room than their text.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        loop {
            let unscanned = self.bytes.get(self.scanned..).unwrap_or_default();
            if let Some(end) = unscanned.iter().position(|byte| *byte == b'\n') {
                let end = self.scanned.saturating_add(end);
                let line = self.bytes.get(..=end).unwrap_or_default();
                let is_long = line.len() > DAEMON_SHORT_LINE_BYTES;
                let alone = is_long.then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
                let read = edn::from_slice(line).map(Some).map_err(io::Error::other);
                drop(alone);
                self.bytes.drain(..=end);
                self.scanned = 0;
                return read;
            }
            self.scanned = self.bytes.len();
            if self.bytes.len() > DAEMON_LINE_BYTES {
                return Err(io::Error::other("the line is too long"));
            }
            if !self.share.set(self.bytes.capacity()) {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "too many long lines are under way"));
            }
            if self.receive()? == 0 {
                return Ok(None);
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut part = [0; 16 * 1024];
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        if self.descriptors.len() >= 2 {
            let count = (&mut &*self.stream).read(&mut part).map_err(in_time)?;
            self.bytes.extend_from_slice(part.get(..count).unwrap_or_default());
            return Ok(count);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(self.stream, &mut [IoSliceMut::new(&mut part)], &mut control, RECEIVE) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received.map_err(|error| in_time(error.into()))?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.bytes.extend_from_slice(part.get(..received.bytes).unwrap_or_default());
        Ok(received.bytes)
    }
}

/// The error of a read that took too long.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "it did not come in time"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn long_line_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let told = DaemonReply::Refused { message: "x".repeat(300_000), by_itself: true };
        let sending = std::thread::spawn(move || {
            send(&ours, &told, &[reader.as_fd(), writer.as_fd()]).unwrap();
            send(&ours, &DaemonReply::Ended, &[]).unwrap();
        });
        let mut lines = Lines::new(&theirs);
        let Some(DaemonReply::Refused { message, by_itself: true }) = lines.next().unwrap() else {
            panic!("another line")
        };
        assert_eq!(message.len(), 300_000);
        assert_eq!(lines.descriptors.len(), 2);
        assert!(matches!(lines.next().unwrap(), Some(DaemonReply::Ended)));
        sending.join().unwrap();
        assert!(lines.next::<DaemonReply>().unwrap().is_none());
    }

    #[test]
    fn wrong_and_endless_lines_are_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"{:attach 7}\n").unwrap();
        assert!(Lines::new(&theirs).next::<Ask>().is_err());
        let sending = std::thread::spawn(move || ours.write_all(&vec![b'x'; DAEMON_LINE_BYTES * 2]));
        assert!(Lines::new(&theirs).next::<Ask>().is_err());
        drop(theirs);
        assert!(sending.join().unwrap().is_err());
    }
}
