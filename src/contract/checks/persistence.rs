//! Checks of the state after the process has ended: two starts on the same state.

use std::fs::OpenOptions;
use std::io::Write as _;

use super::super::check::{Check, Need, Stop, ensure, text};
use super::super::peer::{Answer, Peer};
use super::sessions::{messages, state, talk, words};
use crate::value::Value;

const KEPT: &[Need] = &[
    Need::State,
    Need::Op("prompt"),
    Need::Op("switch_session"),
    Need::Op("get_messages"),
    Need::Op("get_state"),
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "persistence.restart",
        about: "A session survives a restart: its name, and its messages in order, once, with the same ids.",
        needs: KEPT,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("set_session_name", "{:name \"kept\"}")?;
            talk(&mut peer, "remember me")?;
            let before = Kept::of(&mut peer)?;
            peer.close_input();
            peer.wait_exit()?;
            let mut peer = probe.ready()?;
            before.is_there(&mut peer)
        },
    },
    Check {
        name: "persistence.kill",
        about: "Acknowledged entries survive a kill of the process.",
        needs: KEPT,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "acknowledged")?;
            peer.ask_ok("set_session_name", "{:name \"killed\"}")?;
            let before = Kept::of(&mut peer)?;
            peer.kill();
            let mut peer = probe.ready()?;
            before.is_there(&mut peer)
        },
    },
    Check {
        name: "persistence.prompt-before-answer",
        about: "The user's message is on disk before the model is called.",
        needs: &[
            Need::State,
            Need::Script,
            Need::Op("prompt"),
            Need::Op("switch_session"),
            Need::Op("get_messages"),
            Need::Op("get_state"),
        ],
        run: |probe| {
            let mut peer =
                probe.subscribed(Some("{:turns [{:steps [{:delta \"a\"} {:sleep-ms 60000}]}]}"))?;
            peer.ask_ok("prompt", "{:message \"said before\"}")?;
            peer.topic("assistant/delta")?;
            let session = super::events::session_of(&mut peer)?;
            peer.kill();
            let mut peer = probe.ready()?;
            peer.ask_ok("switch_session", &format!("{{:session-id {session:?}}}"))?;
            let said: Vec<String> = messages(&mut peer, "{}")?.iter().map(words).collect();
            ensure(said.first().map(String::as_str) == Some("said before"), || format!("kept: {said:?}"))
        },
    },
    Check {
        name: "persistence.torn-tail",
        about: "A truncated last line is repaired when the session is opened, earlier entries survive, and a diagnostic reports it.",
        needs: KEPT,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "before the tear")?;
            let before = Kept::of(&mut peer)?;
            peer.close_input();
            peer.wait_exit()?;
            before.append(b"{:id \"torn\" :type :mess")?;
            let mut peer = probe.subscribed(None)?;
            before.is_there(&mut peer)?;
            peer.topic("diagnostic")?;
            talk(&mut peer, "after the tear")?;
            let said: Vec<String> =
                messages(&mut peer, "{}")?.iter().filter(|m| text(m, "role") == "user").map(words).collect();
            ensure(said == ["before the tear", "after the tear"], || format!("kept: {said:?}"))
        },
    },
    Check {
        name: "persistence.one-process",
        about: "A second process cannot open an open session; the error names the holder.",
        needs: KEPT,
        run: |probe| {
            let mut first = probe.subscribed(None)?;
            talk(&mut first, "mine")?;
            let kept = Kept::of(&mut first)?;
            let mut second = probe.ready()?;
            match second.ask("switch_session", &format!("{{:session-id {:?}}}", kept.session))? {
                Answer::Ok(_) => Err(Stop::failed("two processes have the session open")),
                Answer::Error(error) => {
                    let message = text(&error.frame, "error-message").to_owned();
                    ensure(message.chars().any(|c| c.is_ascii_digit()), || {
                        format!("the holder is not named: {message}")
                    })
                }
            }
        },
    },
    Check {
        name: "persistence.fork-file",
        about: "A fork has its own file at once, with its parent's id in the header.",
        needs: &[
            Need::State,
            Need::Op("prompt"),
            Need::Op("fork"),
            Need::Op("get_messages"),
            Need::Op("get_state"),
        ],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "fork me")?;
            let source = Kept::of(&mut peer)?;
            let entry =
                source.messages.last().map(|message| text(message, "id").to_owned()).unwrap_or_default();
            peer.ask_ok("fork", &format!("{{:entry-id {entry:?}}}"))?;
            let fork = Kept::of(&mut peer)?;
            ensure(fork.file != source.file, || "the fork has its source's file".to_owned())?;
            let header = std::fs::read_to_string(&fork.file)
                .map_err(|error| Stop::failed(format!("{}: {error}", fork.file)))?;
            let first = header.lines().next().unwrap_or_default();
            ensure(first.contains(&source.session), || {
                format!("the header does not name the parent: {first}")
            })
        },
    },
    Check {
        name: "persistence.readable",
        about: "A session's file has one EDN form per line, the header first.",
        needs: KEPT,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "line by line")?;
            let kept = Kept::of(&mut peer)?;
            let file = std::fs::read_to_string(&kept.file)
                .map_err(|error| Stop::failed(format!("{}: {error}", kept.file)))?;
            for line in file.lines() {
                crate::edn::read_one(line.as_bytes())
                    .map_err(|error| Stop::failed(format!("a line is not EDN: {error}")))?;
            }
            let header = file.lines().next().unwrap_or_default();
            ensure(header.contains(&kept.session), || {
                format!("the header does not name the session: {header}")
            })
        },
    },
];

/// The content of a session.
struct Kept {
    session: String,
    name: String,
    file: String,
    messages: Vec<Value<'static>>,
}

impl Kept {
    fn of(peer: &mut Peer) -> Result<Self, Stop> {
        let state = state(peer)?;
        let text = |key| text(&state, key).to_owned();
        let file = text("session-file");
        if file.is_empty() {
            return Err(Stop::NotApplicable("the session has no file".to_owned()));
        }
        Ok(Self {
            session: text("session-id"),
            name: text("session-name"),
            file,
            messages: messages(peer, "{}")?,
        })
    }

    fn is_there(&self, peer: &mut Peer) -> Result<(), Stop> {
        peer.ask_ok("switch_session", &format!("{{:session-id {:?}}}", self.session))?;
        let found = Self::of(peer)?;
        ensure(found.name == self.name, || format!("it is named {:?}", found.name))?;
        ensure(found.messages == self.messages, || {
            format!("it holds {} messages where {} were", found.messages.len(), self.messages.len())
        })
    }

    fn append(&self, bytes: &[u8]) -> Result<(), Stop> {
        let write = || OpenOptions::new().append(true).open(&self.file)?.write_all(bytes);
        write().map_err(|error| Stop::failed(format!("{}: {error}", self.file)))
    }
}
