//! A client on the socket, in addition to the one on the pipe.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use edn_bridge::client::frame;
use edn_bridge::edn;
use edn_bridge::value::Owned;

use super::ahead::{Ahead, Received};
use super::{PATIENCE, is_answer};

/// Waits for the socket of a bridge that was just started. It listens at about the time of the first
/// handshake.
pub fn socket(state: &Path) -> PathBuf {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let entries = std::fs::read_dir(state.join("run")).into_iter().flatten().flatten();
        // The control wire has a socket of its own beside it.
        let is_control = |path: &PathBuf| path.to_string_lossy().ends_with(".control.sock");
        for path in entries.map(|entry| entry.path()).filter(|path| !is_control(path)) {
            // The permissions are set after the socket is bound; until then the folder excludes others.
            let mode = path.metadata().map(|meta| meta.permissions().mode() & 0o777);
            if mode.is_ok_and(|mode| mode == 0o600) && UnixStream::connect(&path).is_ok() {
                return path;
            }
        }
        assert!(Instant::now() < deadline, "no socket");
        std::thread::yield_now();
    }
}

/// The client.
pub struct Guest {
    /// Its output.
    pub stream: UnixStream,
    /// Its input.
    pub lines: BufReader<UnixStream>,
    ahead: Ahead,
}

impl Guest {
    /// A client with version 1.0 and no features.
    pub fn at(path: &Path) -> Self {
        Self::with(path, &[])
    }

    /// A client that answers questions and is subscribed to everything.
    pub fn interactor(path: &Path) -> Self {
        let mut guest = Self::with(path, &["interactor"]);
        guest.ask("s", "subscribe", "{}");
        guest
    }

    fn with(path: &Path, features: &[&str]) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut guest =
            Self { lines: BufReader::new(stream.try_clone().unwrap()), stream, ahead: Ahead::default() };
        guest.ask("h", "handshake", &frame::client_info("guest", "1", features));
        guest
    }

    /// The next frame.
    pub fn frame(&mut self) -> Owned {
        self.ahead.next().unwrap_or_else(|| self.receive()).frame
    }

    fn receive(&mut self) -> Received {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        Received { frame: edn::read_one(line.as_bytes()).unwrap().into_owned(), line }
    }

    /// The first matching frame; discards the events before it.
    pub fn until(&mut self, mut fits: impl FnMut(&Owned) -> bool) -> Owned {
        loop {
            let frame = self.frame();
            if fits(&frame) {
                return frame;
            }
            self.ahead.pass(frame);
        }
    }

    /// Sends a request.
    pub fn send(&mut self, id: &str, op: &str, params: &str) {
        self.ahead.forget(id);
        writeln!(self.stream, "{{:id {id:?} :kind :request :op {op:?} :params {params}}}").unwrap();
    }

    /// Sends a request and waits for its answer. Earlier frames stay available.
    pub fn ask(&mut self, id: &str, op: &str, params: &str) -> Owned {
        self.send(id, op, params);
        loop {
            let received = self.receive();
            if is_answer(&received.frame, id) {
                return received.frame;
            }
            self.ahead.keep(received);
        }
    }

    /// Discards the events before the last answer: later waits see none of them.
    pub fn skip_to_now(&mut self) {
        self.ahead.pass_all();
    }
}
