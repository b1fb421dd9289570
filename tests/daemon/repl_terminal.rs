//! The REPL and other commands on a terminal: a pseudo terminal whose keys the test presses and whose screen
//! it reads.
use crate::support;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use support::{Bridge, PATIENCE, Setup};

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
        let mut terminal = Self::open(setup, &["repl"])?;
        terminal.wait_for("eql> ");
        Some(terminal)
    }

    /// Starts a command of the program, as [`Self::start`] does the REPL.
    fn open(setup: &Setup, words: &[&str]) -> Option<Self> {
        Self::open_with(setup, words, 100)
    }

    /// The same on a terminal of so many columns.
    fn open_with(setup: &Setup, words: &[&str], columns: u16) -> Option<Self> {
        if Command::new("setsid").arg("--version").output().is_err() {
            eprintln!("setsid is not installed: not run");
            return None;
        }
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        tcsetwinsize(&keys, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        // The terminal is the program's own, so that nothing reaches for the one that the tests run on.
        let repl = setup.command();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(repl.get_program()).args(repl.get_args()).args(words);
        for (name, value) in repl.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if !repl.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
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
        Some(Self { keys, child, output, seen: Vec::new(), from: 0 })
    }

    /// All that a command writes until it ends.
    fn all(mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(part) => self.seen.extend(part),
                Err(RecvTimeoutError::Disconnected) => return String::from_utf8(self.seen.clone()).unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("the command did not end:\n{}", plain(&self.seen)),
            }
        }
    }

    /// Gives it another width, of which the program is told.
    fn resize(&self, columns: u16) {
        tcsetwinsize(&self.keys, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until keys reach the program one by one: from then on C-c takes nothing away that was typed.
    fn wait_for_single_keys(&self) {
        let is_canonical = || tcgetattr(&self.keys).unwrap().local_modes.contains(LocalModes::ICANON);
        support::wait_until("the terminal passes single keys on", || !is_canonical());
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
    terminal.wait_for("The model's text in the turn");
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

/// What an answer or a name may hold: the title, the clipboard, a link, the cursor, colours, characters that are
/// gone over, and text that reads otherwise than it stands there.
const TRICKS: &str = "a\u{1b}]0;title\u{7}b\u{1b}]52;c;QUFB\u{7}c\u{1b}]8;;http://x.example\u{1b}\\d\u{1b}[2Je\u{9b}31mf\
                      \u{9d}0;t\u{9c}g\u{8}\u{8}h\ri\u{202e}j\u{2066}k\u{2069}l\u{200b}m\u{feff}n\u{e000}o\u{7f}p";

/// What a person reads in their place.
const CODES: &str = "a\\u{1B}]0;title\\u{7}b\\u{1B}]52;c;QUFB\\u{7}c\\u{1B}]8;;http://x.example\\u{1B}\\d\\u{1B}[2Je\\u{9B}31mf\
                     \\u{9D}0;t\\u{9C}g\\u{8}\\u{8}h\\u{D}i\\u{202E}j\\u{2066}k\\u{2069}l\\u{200B}m\\u{FEFF}n\\u{E000}o\\u{7F}p";

/// The tricks as EDN writes them in a string.
fn in_edn() -> String {
    TRICKS.replace('\\', "\\\\").replace('\r', "\\r").replace('\u{8}', "\\b")
}

/// Whether anything is left that a terminal would take for more than text.
fn assert_harmless(shown: &str, what: &str) {
    let left: Vec<char> = shown
        .replace("\r\n", "\n")
        .chars()
        .filter(|c| {
            (c.is_control() && !matches!(c, '\n' | '\t'))
                || "\u{202e}\u{2066}\u{2069}\u{200b}\u{feff}\u{e000}".contains(*c)
        })
        .collect();
    assert!(left.is_empty(), "{what}: {left:?} in {shown:?}");
}

#[test]
fn commands_on_a_terminal_show_hidden_characters_as_codes() {
    // The answer comes cut within its sequences.
    let cut: String =
        in_edn().split_inclusive([']', '[', ';']).map(|part| format!("{{:delta \"{part}\"}}")).collect();
    // A terminal without colours and without a line that is drawn anew: any sequence would be the foreign text's.
    let setup = Setup::new().script(&format!("{{:turns [{{:steps [{cut}]}}]}}"));
    let setup = setup.env("TERM", "dumb");
    let Some(answer) = Terminal::open(&setup, &["prompt", TRICKS]) else { return };
    let answer = answer.all();
    assert_harmless(&answer, "prompt");
    assert!(answer.contains(CODES), "{answer:?}");
    let list = setup.command().args(["sessions", "list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("\u{1b}]52;c;QUFB\u{7}"), "a pipe is sent the text as it is: {list:?}");
    let id = list.split(' ').next().unwrap();
    for words in [
        &["sessions", "list"][..],
        &["sessions", "list", "title"],
        &["sessions", "show", id],
        &["sessions", "export", id, "--format", "markdown"],
        &["sessions", "export", id, "--format", "html"],
        &["sessions", "export", id, "--format", "edn"],
        &["query", "[{:psi.agent-session/messages [:psi.message/text]}]", "--session", id],
        &["sessions", "show", TRICKS],
    ] {
        let shown = Terminal::open(&setup, words).unwrap().all();
        assert_harmless(&shown, &format!("{words:?}"));
        // A list cuts names to the terminal's width.
        let is_list = words.starts_with(&["sessions", "list"]);
        let codes = if is_list { ["u{1B}]52", "u{1B}]8"] } else { ["u{9D}0;t", "u{202E}"] };
        assert!(codes.iter().all(|code| shown.contains(code)), "{words:?}: {shown:?}");
    }
}

#[test]
fn help_is_broken_and_values_are_whole_on_a_narrow_terminal() {
    let setup = Setup::new();
    let shown =
        |words: &[&str], columns| Some(plain(Terminal::open_with(&setup, words, columns)?.all().as_bytes()));
    let Some(help) = shown(&["prompt", "-h"], 72) else { return };
    assert!(help.lines().all(|line| line.chars().count() <= 72) && help.contains("--max-turns"), "{help}");
    let values = shown(&["config", "show"], 40).unwrap();
    let state = format!("state-dir   {}  the option --state-dir", setup.state().display());
    assert!(values.replace('\r', "").contains(&state) && !values.contains('…'), "{values}");
}

#[test]
fn list_that_leaves_sessions_out_says_so() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hi.\"}]}]}");
    for text in ["one", "two"] {
        let output = setup.command().args(["prompt", text]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let shown = |words: &[&str]| {
        Some(plain(Terminal::open(&setup, &[&["sessions", "list"], words].concat())?.all().as_bytes()))
    };
    let Some(first) = shown(&["--limit", "1"]) else { return };
    assert!(
        first.contains("LAST USED (UTC)") && first.contains("There are more than 1; --limit N"),
        "{first}"
    );
    assert!(shown(&["--limit", "1", "hi"]).unwrap().contains("There are more than 1"));
    assert!(!shown(&["--limit", "2"]).unwrap().contains("There are more"));
}

#[test]
fn prompt_on_a_terminal_shows_tool_calls_and_what_it_waits_for() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"read\" :arguments {:path \"a\\u202etxt\"}}}]}
                  {:steps [{:sleep-ms 300} {:delta \"Seen.\"}] :usage {:input 10 :output 5}}]}",
    );
    let Some(answer) = Terminal::open(&setup, &["prompt", "look"]) else { return };
    let shown = answer.all();
    for part in ["waiting for the model", "● read", "\\u{202E}", "✗", "\u{1b}[36m", "\r\u{1b}[K"] {
        assert!(shown.contains(part), "{part:?}: {shown:?}");
    }
    assert!(!shown.contains('\u{202e}'), "{shown:?}");
    assert!(shown.ends_with("Seen.\r\n"), "the answer stands last, on lines of its own: {shown:?}");
    // The columns fit the terminal, and their headings stand above them.
    let setup = setup.env("NO_COLOR", "1");
    let usage = Terminal::open(&setup, &["usage"]).unwrap().all();
    assert!(usage.contains("COST $  TOKENS") && usage.contains(&"█".repeat(30)), "{usage:?}");
    assert!(usage.lines().all(|line| line.chars().count() <= 100), "{usage:?}");
    let list = Terminal::open(&setup, &["sessions", "list"]).unwrap().all();
    assert!(list.starts_with("SESSION "), "{list:?}");
    assert!(list.lines().all(|line| line.chars().count() <= 100) && !list.contains('\u{1b}'), "{list:?}");
}

#[test]
fn the_repl_shows_hidden_characters_as_codes() {
    let setup = Setup::new().script(&format!("{{:turns [{{:steps [{{:delta \"{}\"}}]}}]}}", in_edn()));
    let Some(mut terminal) = Terminal::start(&setup) else { return };
    terminal.line("(prompt {:message \"hi\"})");
    // An event beside the line, a value, a table, and a refusal.
    terminal.wait_for("c\\u{1B}]8;;http://x.example");
    terminal.line("[{:psi.agent-session/messages [:psi.message/text]}]");
    terminal.wait_for("────");
    terminal.wait_for("\\u{1B}]52;c;QUFB");
    terminal.wait_for("eql> ");
    terminal.line("(get_last_assistant_text)");
    terminal.wait_for("\\u{202E}j");
    terminal.wait_for("eql> ");
    let raw = String::from_utf8_lossy(&terminal.seen).into_owned();
    for never in [
        "\u{1b}]52",
        "\u{1b}]0;",
        "\u{1b}]8;",
        "\u{9b}",
        "\u{9d}",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\u{e000}",
    ] {
        assert!(!raw.contains(never), "{never:?} in {raw:?}");
    }
    terminal.leave();
}

#[test]
fn chat_streams_asks_completes_and_goes_on() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:delta \"# Plan\\nSay `hi` and **do** \"} {:delta \"it.\\n\"}]}
                  {:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"one\\n\"}}}]}
                  {:steps [{:delta \"Not written.\"}]}
                  {:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"two\\n\"}}}]}
                  {:steps [{:delta \"Written.\"}]}
                  {:steps [{:delta \"Waiting\"} {:sleep-ms 600000}]}
                  {:steps [{:delta \"Again.\"}]}]}",
    );
    let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
    chat.wait_for("you> ");
    chat.press("plan it\r");
    chat.wait_for("# Plan");
    chat.wait_for("Say hi and do it.");
    chat.wait_for("you> ");
    let seen = String::from_utf8_lossy(&chat.seen).into_owned();
    assert!(seen.contains("\u{1b}[1m# Plan\u{1b}[0m") && seen.contains("\u{1b}[36mhi\u{1b}[0m"), "{seen:?}");
    chat.press("write it\r");
    chat.wait_for("+one");
    chat.wait_for("and why: ");
    chat.press("no, another word\r");
    chat.wait_for("Not written.");
    chat.wait_for("you> ");
    assert!(!setup.project().join("a.txt").exists());
    chat.press("write it\r");
    chat.wait_for("+two");
    chat.wait_for("and why: ");
    chat.press("y\r");
    chat.wait_for("Written.");
    chat.wait_for("you> ");
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "two\n");
    // C-c ends the turn and not the chat.
    chat.press("wait\r");
    chat.wait_for("Waiting");
    chat.press("\u{3}");
    chat.wait_for("(ended)");
    chat.wait_for("you> ");
    // A command and a file are completed.
    chat.press("/he\t\r");
    chat.wait_for("/thinking");
    chat.wait_for("you> ");
    // What comes of a choice is shown before the next line, and takes no place of what follows.
    chat.press("/thinking\r");
    chat.wait_for("Select a thinking level (a number, or nothing): ");
    chat.press("1\r");
    chat.wait_for("Thinking level set to");
    chat.wait_for("you> ");
    chat.press("/mode\r");
    chat.wait_for("Mode: ask");
    chat.wait_for("you> ");
    chat.press("see @a.t\t\r");
    chat.wait_for("Again.");
    chat.wait_for("you> ");
    chat.press(CONTROL_D);
    let all = chat.all();
    assert!(all.contains("continues it."), "{all:?}");
    let shown = setup.command().args(["sessions", "show", "plan it"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("see @a.txt") && shown.contains("another word"), "{shown}");
    let mut chat = Terminal::open(&setup, &["chat", "--continue"]).unwrap();
    chat.wait_for("> see @a.txt");
    chat.wait_for("Again.");
    chat.wait_for("you> ");
    chat.press(CONTROL_D);
    chat.all();
}

#[test]
fn chat_asks_what_a_subagent_asks() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"delegate\" :arguments {:task \"Write it.\" :tools [\"read\"]}}}]}
                  {:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"one\\n\"}}}]}
                  {:steps [{:delta \"The child has written.\"}]}
                  {:steps [{:delta \"All is done.\"}]}]}",
    );
    let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
    chat.wait_for("you> ");
    chat.press("delegate it\r");
    chat.wait_for("Start a subagent for this, with read? [y/N]: ");
    chat.press("y\r");
    chat.wait_for("+one");
    chat.wait_for("and why: ");
    chat.press("y\r");
    chat.wait_for("All is done.");
    chat.wait_for("you> ");
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "one\n");
    chat.press(CONTROL_D);
    chat.all();
}

/// Turns that stream for a while and then ask.
const ASKS_LATE: &str = "{:turns [{:steps [{:delta \"Thinking.\"} {:sleep-ms 1500}
                                          {:tool-call {:name \"bash\" :arguments {:command \"touch approved\"}}}]}
                                  {:steps [{:delta \"The end.\"}]}] :then :cycle}";

#[test]
fn line_typed_before_a_question_is_the_next_message() {
    for typed in ["yes\r", "y\r", "s\r", "y", "ye"] {
        let setup = Setup::new().script(ASKS_LATE);
        let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
        chat.wait_for("you> ");
        chat.press("go\r");
        chat.wait_for("Thinking.");
        chat.press(typed);
        chat.wait_for("What you typed before the question is kept for your next message.");
        chat.wait_for("and why: ");
        assert!(!setup.project().join("approved").exists(), "{typed}");
        // The rest of a line that was begun before is none either, however late it comes.
        let mut draft = typed.trim().to_owned();
        if !typed.ends_with('\r') {
            chat.press("s\r");
            chat.wait_for("That ends the line that you began before the question");
            chat.wait_for("and why: ");
            draft.push('s');
        }
        // A line that is begun after the drawing counts, and nothing of the earlier line is in it.
        chat.press("n\r");
        chat.wait_for("The end.");
        chat.wait_for(&format!("you> {draft}"));
        assert!(!setup.project().join("approved").exists(), "{typed}");
        chat.press("\u{3}");
        chat.wait_for("you> ");
        chat.press(CONTROL_D);
        chat.all();
    }
}

#[test]
fn answer_within_the_drawing_of_a_question_is_none() {
    // The clock stands still: no time passes after the drawing.
    let setup = Setup::new().script(ASKS_LATE).env("EDN_BRIDGE_FIXED_CLOCK", "1");
    let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
    chat.wait_for("you> ");
    chat.press("go\r");
    chat.wait_for("Thinking.");
    chat.press("ye");
    chat.wait_for("Allow it?");
    chat.press("s\r");
    chat.wait_for_single_keys();
    chat.press("\u{3}");
    chat.wait_for("(ended)");
    // The line was begun before the question and ended after it: all of it is the next message.
    chat.wait_for("you> yes");
    assert!(!setup.project().join("approved").exists());
    chat.press("\u{3}");
    chat.wait_for("you> ");
    chat.press(CONTROL_D);
    chat.all();
}

#[test]
fn chat_ends_the_turn_by_control_c_at_a_question() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"one\\n\"}}}]}
                  {:steps [{:delta \"Again.\"}]}]}",
    );
    let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
    chat.wait_for("you> ");
    chat.press("write it\r");
    chat.wait_for("and why: ");
    chat.press("\u{3}");
    chat.wait_for("Not answered: the turn ends.");
    chat.wait_for("(ended)");
    chat.wait_for("you> ");
    // The next turn is whole.
    chat.press("go on\r");
    chat.wait_for("Again.");
    chat.wait_for("you> ");
    // A choice is left as well, and the end of the input does not end the program.
    chat.press("/thinking\r");
    chat.wait_for("Select a thinking level (a number, or nothing): ");
    chat.press("\u{3}");
    chat.wait_for("you> ");
    chat.press("/thinking\r");
    chat.wait_for("Select a thinking level (a number, or nothing): ");
    chat.press("99\r");
    chat.wait_for("Not one of 1 to");
    chat.wait_for("or nothing): ");
    chat.press("\r");
    chat.wait_for("you> ");
    assert!(!setup.project().join("a.txt").exists());
    // A key is never asked for where the next line goes to the model.
    chat.press("/login openai\r");
    chat.wait_for("edn-bridge login openai in another terminal");
    chat.wait_for("you> ");
    chat.press(CONTROL_D);
    chat.all();
}

#[test]
fn line_editors_have_no_colours_where_none_are_wanted() {
    let script = "{:turns [{:steps [{:delta \"# Said\"}]}]}";
    let colours = |shown: &str| {
        let codes = shown.split("\u{1b}[").skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            let code = rest.get(..end)?;
            (rest.as_bytes()[end] == b'm' && !matches!(code, "" | "0")).then(|| code.to_owned())
        });
        codes.collect::<Vec<_>>()
    };
    for (words, variable) in [(&["--color", "never"][..], ("X", "")), (&[], ("NO_COLOR", "1"))] {
        let setup = Setup::new().script(script).env(variable.0, variable.1);
        let Some(mut chat) = Terminal::open(&setup, &[&["chat"], words].concat()) else { return };
        chat.wait_for("you> ");
        chat.press("say it\r");
        chat.wait_for("Said");
        chat.wait_for("you> ");
        chat.press("/\t");
        chat.wait_for("/resume");
        chat.press("\u{3}\u{3}");
        chat.wait_for("you> ");
        chat.press(CONTROL_D);
        assert_eq!(colours(&chat.all()), Vec::<String>::new(), "{words:?}");
        let mut repl = Terminal::open(&setup, &[&["repl"], words].concat()).unwrap();
        repl.wait_for("eql> ");
        repl.line("[:psi.process/pid]");
        repl.wait_for("{:psi.process/pid ");
        repl.wait_for("eql> ");
        repl.press(CONTROL_D);
        assert_eq!(colours(&repl.all()), Vec::<String>::new(), "{words:?}");
    }
    let setup = Setup::new().script(script);
    let mut chat = Terminal::open(&setup, &["chat"]).unwrap();
    chat.wait_for("you> ");
    chat.press(CONTROL_D);
    assert!(!colours(&chat.all()).is_empty());
}

/// A model that answers once, and then works until it is stopped.
const WORKS: &str = "{:turns [{:steps [{:delta \"Hello.\"}] :usage {:input 12000 :output 30}}
                              {:steps [{:delta \"Waiting\"} {:sleep-ms 600000}]}]}";

fn at_work() -> (Setup, Bridge) {
    let setup = Setup::new().script(WORKS);
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    bridge.event("turn/ended");
    bridge.ask("n", "set_session_name", "{:name \"first\"}");
    bridge.ask("q", "prompt", "{:message \"wait\"}");
    bridge.event("assistant/delta");
    (setup, bridge)
}

#[test]
fn top_follows_work_keys_and_width() {
    let (setup, mut bridge) = at_work();
    let Some(mut top) = Terminal::open(&setup, &["top"]) else { return };
    top.wait_for("sessions 1 (working 1, asking 0) · queued 0 · clients 1");
    top.wait_for("tokens 12k in, 0 cached, 30 out");
    top.wait_for("STATE");
    top.wait_for("streaming  first");
    top.wait_for("s sort: activity");
    top.press("s");
    top.wait_for("s sort: tokens   p pause");
    top.press("p");
    top.wait_for("p go on (paused)");
    top.press(" ");
    top.wait_for("p pause");
    bridge.ask("a", "abort", "{}");
    top.wait_for("sessions 1 (working 0");
    // Another width is taken at once: columns go, and no row is wider.
    top.resize(60);
    top.wait_for("TURN  QUEUE  TOKENS");
    top.press("q");
    let raw = top.all();
    let frames = raw.split("\u{1b}[H").map(|frame| plain(frame.as_bytes()));
    let narrow: Vec<String> = frames.filter(|frame| frame.contains("TURN  QUEUE  TOKENS")).collect();
    assert!(!narrow.is_empty(), "{raw:?}");
    for line in narrow.iter().flat_map(|frame| frame.lines()) {
        assert!(line.chars().count() <= 60, "{line:?}\n{narrow:?}");
    }
    assert!(
        raw.starts_with("\u{1b}[?1049h") && raw.ends_with("\u{1b}[?25h\u{1b}[?7h\u{1b}[?1049l"),
        "{raw:?}"
    );
}

#[test]
fn top_is_printed_once_for_pipes_and_scripts() {
    let (setup, _bridge) = at_work();
    let run = |words: &[&str]| {
        let output = setup.command().args(["top"]).args(words).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (_, once, _) = run(&["--once"]);
    for part in ["sessions 1 (working 1", "streaming  first", "SESSION", "CLIENT"] {
        assert!(once.contains(part), "{part}\n{once}");
    }
    let (_, text, _) = run(&["--json"]);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let facts = &all[0]["facts"];
    // The connection that asks, and the session that it was given, are left out.
    assert_eq!(facts["psi.connection/list"].as_array().unwrap().len(), 1, "{text}");
    let session = &facts["psi.session/live"][0];
    assert_eq!(facts["psi.session/live"].as_array().unwrap().len(), 1, "{text}");
    assert_eq!(session["psi.agent-session/phase"], "streaming");
    assert_eq!(session["psi.agent-session/usage-input"], 12000);
    assert!(session["psi.agent-session/turn-started-at"].is_string(), "{text}");
    let socket = all[0]["socket"].as_str().unwrap();
    assert_eq!(run(&["--socket", socket, "--json"]).1.matches("\"socket\"").count(), 1);
    let (is_well, _, error) = run(&["--socket", "/nowhere.sock"]);
    assert!(!is_well && error.contains("/nowhere.sock: no bridge listens there"), "{error}");
    let Some(shown) = Terminal::open(&setup, &["top", "--once"]) else { return };
    let shown = shown.all();
    assert!(shown.lines().all(|line| plain(line.as_bytes()).chars().count() <= 100), "{shown}");
}

#[test]
fn top_says_that_no_bridge_runs() {
    let setup = Setup::new();
    let output = setup.command().args(["top", "--once"]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "No bridge runs.\n");
    assert_eq!(setup.command().args(["top", "--json"]).output().unwrap().stdout, b"[]\n");
}

#[test]
fn chat_begins_with_its_model_or_what_is_missing() {
    let setup = crate::model_choice::setup(&[]);
    let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
    chat.wait_for("There is no model yet.");
    chat.wait_for("/help lists the commands");
    chat.wait_for_single_keys();
    chat.leave();
    let setup = setup.env("ANTHROPIC_API_KEY", "k");
    let Some(mut chat) = Terminal::open(&setup, &["chat"]) else { return };
    chat.wait_for("Anthropic answers with claude-sonnet-5");
    chat.wait_for("/help lists the commands");
    chat.wait_for_single_keys();
    chat.leave();
}

#[test]
fn chat_goes_on_in_a_session_of_the_daemon() {
    let setup = Setup::new()
        .script(
            "{:turns [{:steps [{:delta \"First.\"}]}
                      {:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"one\\n\"}}}]}
                      {:steps [{:delta \"Written.\"}]}
                      {:steps [{:delta \"To the editor.\"}]}
                      {:steps [{:delta \"To the chat.\"}]}]}",
        )
        .env("EDN_BRIDGE_DAEMON", "auto");
    let mut editor = setup.ready();
    editor.ask("p", "prompt", "{:message \"begin\"}");
    editor.event("turn/ended");
    let Some(mut chat) = Terminal::open(&setup, &["chat", "--continue"]) else { return };
    chat.wait_for("> begin");
    chat.wait_for("First.");
    chat.wait_for("you> ");
    let clients =
        editor.ask("c", "query_eql", "{:query \"[{:psi.connection/list [:psi.connection/client-name]}]\"}");
    assert!(clients.to_string().contains("\"edn-bridge chat\""), "{clients}");
    // The person at the chat is asked: the editor answers no questions.
    chat.press("write it\r");
    chat.wait_for("and why: ");
    chat.press("y\r");
    chat.wait_for("Written.");
    chat.wait_for("you> ");
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "one\n");
    editor.event("turn/ended");
    // What the editor does meanwhile is not shown in the middle of the line.
    editor.ask("p2", "prompt", "{:message \"more\"}");
    editor.event("turn/ended");
    chat.press("and now\r");
    chat.wait_for("To the chat.");
    chat.wait_for("you> ");
    assert!(!String::from_utf8_lossy(&chat.seen).contains("To the editor."));
    chat.press(CONTROL_D);
    chat.all();
    // It outlives the chat.
    assert_eq!(support::code(&editor.ask("s", "get_state", "{}")), "");
    editor.kill();
    let stopped = setup.command().args(["daemon", "stop", "--now"]).output().unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
}

#[test]
fn control_c_ends_a_chat_whose_request_has_no_answer() {
    let setup =
        Setup::new().script("{:turns [{:steps [{:delta \"First.\"}]}]}").env("EDN_BRIDGE_DAEMON", "auto");
    let mut editor = setup.ready();
    editor.ask("p", "prompt", "{:message \"begin\"}");
    editor.event("turn/ended");
    let daemon = |words: &[&str]| setup.command().arg("daemon").args(words).output().unwrap();
    let status = daemon(&["status", "--format", "edn"]).stdout;
    let status = edn_bridge::edn::read_one(&status).unwrap().into_owned();
    let pid = i32::try_from(status.get("pid").unwrap().as_i64().unwrap()).unwrap();
    let signal = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    let Some(mut chat) = Terminal::open(&setup, &["chat", "--continue"]) else { return };
    chat.wait_for("First.");
    chat.wait_for("you> ");
    signal(Signal::STOP);
    chat.press("and now\r");
    let deadline = Instant::now() + PATIENCE;
    while chat.child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        chat.press("\u{3}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    signal(Signal::CONT);
    let ended = chat.child.try_wait().unwrap().map(|status| status.code());
    assert_eq!(ended, Some(Some(130)), "{}", plain(&chat.seen));
    assert!(chat.all().contains("the bridge does not answer"));
    editor.kill();
    assert!(daemon(&["stop", "--now"]).status.success());
}

#[test]
fn chat_asks_the_question_that_waits_in_the_daemon() {
    let setup = Setup::new()
        .script(
            "{:turns [{:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"one\\n\"}}}]}
                      {:steps [{:delta \"Written.\"}]}]}",
        )
        .env("EDN_BRIDGE_DAEMON", "auto");
    let mut editor = setup.interactor();
    editor.ask("p", "prompt", "{:message \"write it\"}");
    editor.event("interaction/requested");
    editor.kill();
    let Some(mut chat) = Terminal::open(&setup, &["chat", "--continue"]) else { return };
    chat.wait_for("> write it");
    chat.wait_for("and why: ");
    chat.press("y\r");
    chat.wait_for("Written.");
    chat.wait_for("you> ");
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "one\n");
    chat.press("/mode\r");
    chat.wait_for("Mode: ask");
    chat.wait_for("you> ");
    assert_eq!(String::from_utf8_lossy(&chat.seen).matches("Allow it?").count(), 1);
    chat.press(CONTROL_D);
    chat.all();
    let stopped = setup.command().args(["daemon", "stop", "--now"]).output().unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
}

#[test]
fn chat_tells_that_its_answer_was_not_taken() {
    let setup = Setup::new()
        .script(
            "{:turns [{:steps [{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"one\\n\"}}}]}
                      {:steps [{:delta \"The end.\"}]}]}",
        )
        .env("EDN_BRIDGE_DAEMON", "auto");
    let mut editor = setup.interactor();
    editor.ask("p", "prompt", "{:message \"write it\"}");
    let question = editor.event("interaction/requested");
    let Some(mut chat) = Terminal::open(&setup, &["chat", "--continue"]) else { return };
    chat.wait_for("and why: ");
    support::accept(&mut editor, &question, ":value {:outcome \"deny\"}");
    support::end_of_turn(&mut editor);
    chat.press("y\r");
    chat.wait_for("The answer was not taken: ");
    chat.wait_for("you> ");
    assert!(!setup.project().join("a.txt").exists());
    chat.press(CONTROL_D);
    chat.all();
    editor.kill();
    let stopped = setup.command().args(["daemon", "stop", "--now"]).output().unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
}
