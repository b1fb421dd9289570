//! The REPL on a terminal: a pseudo terminal of our own, whose keys are pressed and whose screen is read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

mod support;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use support::{PATIENCE, Setup};

const UP: &str = "\u{1b}[A";
const TAB: &str = "\t";
const ENTER: &str = "\r";
const CONTROL_D: &str = "\u{4}";

/// The program on a terminal of 100 columns.
struct Terminal {
    keys: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    /// What came, as bytes; and how far what a person reads of it was looked at.
    seen: Vec<u8>,
    from: usize,
}

impl Terminal {
    /// Starts the REPL; `None`, and a word on standard error, where this system has no terminals for it.
    fn start(setup: &Setup) -> Option<Self> {
        if Command::new("setsid").arg("--version").output().is_err() {
            eprintln!("setsid is not installed: not run");
            return None;
        }
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        tcsetwinsize(&keys, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        // The terminal is the program's own, so that nothing reaches for the one that the tests run on.
        let repl = setup.command();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(repl.get_program()).args(repl.get_args()).arg("repl");
        for (name, value) in repl.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm-256color");
        command.stdin(Stdio::from(side())).stdout(Stdio::from(side())).stderr(Stdio::from(side()));
        let child = command.spawn().unwrap();
        drop(command);
        let keys = File::from(keys);
        let mut screen = keys.try_clone().unwrap();
        let mut replies = keys.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut part = [0u8; 4096];
            // An error is how the end of the other side shows.
            while let Ok(count @ 1..) = screen.read(&mut part) {
                // Where the cursor is, a terminal is asked, and answers: at the top.
                if part[..count].windows(4).any(|asked| asked == b"\x1b[6n") {
                    let _ = replies.write_all(b"\x1b[1;1R");
                }
                if sender.send(part[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self { keys, child, output, seen: Vec::new(), from: 0 };
        terminal.wait_for("eql> ");
        Some(terminal)
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and sends it.
    fn line(&mut self, text: &str) {
        self.press(text);
        self.press(ENTER);
    }

    /// Waits until a text is shown behind what was waited for before, and returns what came up to it.
    fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = plain(&self.seen);
            let new = shown.get(self.from..).unwrap_or_default();
            if let Some(at) = new.find(text) {
                let end = at + text.len();
                self.from += end;
                return new[..end].to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(part) => self.seen.extend(part),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{text:?} was not shown behind {}:\n{shown}", self.from)
                }
            }
        }
    }

    /// Leaves with the end-of-input key.
    fn leave(mut self) {
        self.press(CONTROL_D);
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the REPL did not end:\n{}", plain(&self.seen));
            std::thread::yield_now();
        }
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a person reads: without the sequences that move and colour.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\u{1b}', Some('[')) => {
                while !matches!(chars.next(), None | Some('@'..='Z' | '\\' | '^'..='~')) {}
            }
            ('\u{1b}', Some(']')) => while !matches!(chars.next(), None | Some('\u{7}')) {},
            ('\u{1b}', _) => drop(chars.next()),
            ('\r', _) => {}
            _ => plain.push(c),
        }
    }
    plain
}

#[test]
fn queries_ops_and_commands_are_typed_and_answered() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hello.\"}]}]}");
    let Some(mut terminal) = Terminal::start(&setup) else { return };
    terminal.line("(ping)");
    terminal.wait_for("{:pong true :protocol-version \"1.0\"}");
    // A form that is not whole goes on in the next line.
    terminal.wait_for("eql> ");
    terminal.line("[:psi.process/version");
    terminal.wait_for("   | ");
    terminal.line(":psi.agent-session/phase]");
    terminal.wait_for(":psi.agent-session/phase :idle}");
    // Names come from the graph and from the catalogue.
    terminal.wait_for("eql> ");
    terminal.press(&format!(":psi.agent-session/thinking-l{TAB}"));
    terminal.wait_for("thinking-level");
    terminal.line("");
    terminal.wait_for("{:psi.agent-session/thinking-level \"off\"}");
    terminal.wait_for("eql> ");
    terminal.press(&format!("(get_sta{TAB}"));
    terminal.wait_for("(get_state");
    terminal.line(")");
    terminal.wait_for(":session-id");
    terminal.wait_for("eql> ");
    terminal.line(":doc :psi.turn/text");
    terminal.wait_for("What the model said in it");
    terminal.wait_for("eql> ");
    terminal.line(":apropos thinking");
    terminal.wait_for("psi.session/set-thinking-level");
    terminal.wait_for("eql> ");
    terminal.line(":plan :psi.agent-session/phase");
    terminal.wait_for("psi.agent-session/by-id");
    terminal.wait_for("eql> ");
    // A list of flat maps is a table.
    terminal.line("[{:psi.catalog/features [:psi.feature/name]}]");
    terminal.wait_for("────");
    terminal.wait_for("eql> ");
    // What was not asked for comes beside the line that is being edited.
    terminal.line(":watch [:psi.agent-session/message-count]");
    terminal.wait_for("{:psi.agent-session/message-count 0}");
    terminal.wait_for("eql> ");
    terminal.line("(prompt {:message \"hi\"})");
    let shown = terminal.wait_for(";; assistant/message Hello.");
    if !shown.contains("{:psi.agent-session/message-count 2}") {
        terminal.wait_for("{:psi.agent-session/message-count 2}");
    }
    terminal.leave();
}

#[test]
fn inputs_are_remembered_from_one_run_to_the_next() {
    let setup = Setup::new();
    let Some(mut terminal) = Terminal::start(&setup) else { return };
    terminal.line("[:psi.process/version]");
    terminal.wait_for("{:psi.process/version \"");
    terminal.wait_for("eql> ");
    terminal.leave();
    let history = setup.state().join("repl-history");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "what was typed is the user's alone");
    let Some(mut terminal) = Terminal::start(&setup) else { return };
    terminal.press(UP);
    terminal.wait_for("[:psi.process/version]");
    terminal.press(ENTER);
    terminal.wait_for("{:psi.process/version \"");
    terminal.wait_for("eql> ");
    terminal.leave();
}
