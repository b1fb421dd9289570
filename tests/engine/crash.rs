//! Kills the real process under load: afterwards every acknowledged entry exists, in order, once, and the
//! file is intact or is repaired when it is opened.
//!
//! `EDN_BRIDGE_CRASH_KILLS` sets the number of kills (`make crash`: 200), `EDN_BRIDGE_CRASH_SEED` the seed of
//! the random choices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    dead_code,
    reason = "tests"
)]

use crate::store_support;
use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use edn_bridge::interaction::audit;
use edn_bridge::message::{Block, Role};
use edn_bridge::store::{Durability, EntryBody, Store};
use store_support::Dice;
use support::{Bridge, Setup, at, end_of_turn, is_event, text};

/// Kills in the ordinary run: some seconds.
const KILLS: usize = 20;

const SCRIPT: &str = "{:turns [{:steps [{:deltas 5 :of \"words \"} {:echo :last-user}]}]}";

/// Requests under way: their session, and the name or text that they are to write.
type Sent = BTreeMap<String, (String, String)>;

/// What was acknowledged of one session, in order: names that were given and messages of the model.
#[derive(Default)]
struct Told {
    names: Vec<String>,
    entries: Vec<String>,
}

#[test]
fn kill_loses_no_acknowledged_entry() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let kills = number("EDN_BRIDGE_CRASH_KILLS").unwrap_or(KILLS);
    let mut dice = Dice(number("EDN_BRIDGE_CRASH_SEED").unwrap_or(4711) as u64 | 1);
    let setup = Setup::new().script(SCRIPT);
    let mut told: BTreeMap<String, Told> = BTreeMap::new();
    let (mut torn, mut acknowledged) = (0, 0);
    for kill in 0..kills {
        // Half of the time the sessions of before are gone on with, through the process's own recovery.
        let known: Vec<String> = told.keys().rev().take(2).cloned().collect();
        let resume = (dice.roll(2) == 0).then_some(known);
        let mut bridge = setup.ready();
        let sessions = sessions(&mut bridge, resume.unwrap_or_default());
        let patience = Duration::from_micros(dice.roll(120_000) as u64);
        let mut sent = load(&mut bridge, &sessions, kill, patience, &mut told);
        bridge.kill();
        // What was written to the pipe before was acknowledged too; the last line may be cut off.
        while let Some(line) = bridge.line_or_end() {
            if let Ok(frame) = edn_bridge::edn::read_one(line.as_bytes()) {
                note(&frame.into_owned(), &mut sent, &mut told);
            }
        }

        let store = Store::new(&setup.state(), Durability::Full).unwrap();
        for session in &sessions {
            let Some(expected) = told.get(session) else { continue };
            let Some(path) = store.look_up(&session.as_str().into()).unwrap() else {
                assert!(expected.names.is_empty() && expected.entries.is_empty(), "{session} is gone");
                continue;
            };
            torn += usize::from(!store.verify(&path).unwrap().faults.is_empty());
            check(&store, path, expected, kill);
        }
    }
    let mut lost = 0;
    let store = Store::new(&setup.state(), Durability::Full).unwrap();
    for (session, expected) in &told {
        acknowledged += expected.names.len() + expected.entries.len();
        match store.look_up(&session.as_str().into()).unwrap() {
            Some(path) => check(&store, path, expected, kills),
            None => lost += expected.names.len() + expected.entries.len(),
        }
    }
    println!(
        "kills {kills}, torn tails {torn}, sessions {}, acknowledged {acknowledged}, lost {lost}",
        told.len()
    );
    assert_eq!(lost, 0);
    assert!(acknowledged > kills * 3, "{acknowledged} acknowledged: the load was no load");
}

/// Half of the answers edit one file four times, half write new ones.
const EDITING: &str = "{:turns [{:steps [{:tool-call {:name \"edit\" :arguments {:path \"a\" :edits [{:old \"END\" :new \"x\\nEND\"}]}}} \
     {:tool-call {:name \"edit\" :arguments {:path \"a\" :edits [{:old \"END\" :new \"x\\nEND\"}]}}} \
     {:tool-call {:name \"edit\" :arguments {:path \"a\" :edits [{:old \"END\" :new \"x\\nEND\"}]}}} \
     {:tool-call {:name \"write\" :arguments {:path \"b\" :content \"whole\\nEND\"}}}]}] :then :repeat-last}";

#[test]
fn killed_process_loses_no_edit_and_leaves_no_file() {
    let kills =
        std::env::var("EDN_BRIDGE_CRASH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut dice = Dice(4711);
    let setup = Setup::new().script(EDITING).arg("--yolo");
    let file = setup.project().join("a");
    std::fs::write(&file, "END\n").unwrap();
    let (mut made, mut seen) = (0, 0);
    for kill in 0..kills {
        let mut bridge = setup.ready();
        bridge.request("p", "prompt", "{:message \"go\"}");
        // Some edits in, and anywhere in the next ones.
        for _ in 0..dice.roll(8) {
            made += edited(&bridge.event("tool/result"));
        }
        let patience = Instant::now() + Duration::from_micros(dice.roll(20_000) as u64);
        while Instant::now() < patience {
            std::thread::yield_now();
        }
        bridge.kill();
        while let Some(line) = bridge.line_or_end() {
            if let Ok(frame) = edn_bridge::edn::read_one(line.as_bytes()) {
                made += edited(&frame.into_owned());
            }
        }
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.ends_with("x\nEND\n") || made == 0, "{text:?}");
        let found = text.matches("x\n").count();
        // What was made and not told of yet may be there too: the edits of one answer, and those of the one before it whose
        // results are on their way.
        assert!((made..=made + 6).contains(&found), "kill {kill}: {found} of {made} are in the file");
        // Whole or not there: what is left over is gone after the next write.
        let other = std::fs::read_to_string(setup.project().join("b")).unwrap_or("whole\nEND".to_owned());
        assert_eq!(other, "whole\nEND");
        seen += usize::from(setup.project().join(".edn-bridge.new").exists());
        made = found;
    }
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    for _ in 0..4 {
        bridge.event("tool/result");
    }
    bridge.ask("stop", "abort", "{}");
    end_of_turn(&mut bridge);
    let (status, ..) = bridge.finish();
    assert!(status.success());
    let names = std::fs::read_dir(setup.project()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    println!("kills {kills}, edits {made}, files left over for the next write {seen}");
}

/// Whether a frame tells of an edit that was made.
fn edited(frame: &edn_bridge::value::Value<'static>) -> usize {
    usize::from(is_event(frame, "tool/result") && support::data(frame, "result-text").starts_with("Edited"))
}

/// What became of the texts of one session, each with a key of its own.
#[derive(Default)]
struct Keyed {
    taken: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// Not answered yet, by text: the op and its params, which a repetition has again.
    open: BTreeMap<String, (&'static str, String)>,
    /// Answers that said that the text was there already.
    duplicates: usize,
    /// The request ids that control has acknowledged, which are the texts.
    acknowledged: BTreeSet<String>,
}

impl Keyed {
    /// Notes an answer to a request, if the frame is one.
    fn note(&mut self, frame: &edn_bridge::value::Value<'static>, sent: &mut BTreeMap<String, String>) {
        // Events name the request that caused them.
        if support::kind(frame) == "event" {
            return;
        }
        let Some(text) = sent.remove(support::text(frame, "id")) else { return };
        let flag = |path: &[&str]| at(frame, path).and_then(edn_bridge::value::Value::as_bool);
        let result = at(frame, &["data", "ack", "result"]).and_then(|result| result.as_str());
        let is_taken = flag(&["ok"]) == Some(true) && result.is_none_or(|result| result == "ok");
        let is_duplicate = flag(&["data", "duplicate"]).or_else(|| flag(&["data", "ack", "duplicate"]));
        match (is_taken, result) {
            (true, _) => {
                if result.is_some() {
                    self.acknowledged.insert(text.clone());
                }
                self.taken.insert(text.clone());
                self.duplicates += usize::from(is_duplicate == Some(true));
            }
            // It may yet be done.
            (false, Some("timeout" | "internal_error")) => return,
            (false, _) => {
                self.refused.insert(text.clone());
            }
        }
        self.open.remove(&text);
    }

    /// Each request that control has acknowledged is in the audit, with its acknowledgement.
    fn check_audit(&self, state: &Path, kill: usize) {
        let file = std::fs::read(audit::path(state)).unwrap_or_default();
        // A kill may have cut off the last record.
        let records =
            file.split(|byte| *byte == b'\n').filter_map(|line| edn_bridge::edn::read_one(line).ok());
        let mut recorded = BTreeMap::<String, BTreeSet<String>>::new();
        for record in records {
            recorded
                .entry(text(&record, "kind").to_owned())
                .or_default()
                .insert(text(&record, "request-id").to_owned());
        }
        for kind in ["control/request", "control/ack"] {
            let there = recorded.remove(kind).unwrap_or_default();
            let lost: Vec<_> = self.acknowledged.difference(&there).collect();
            assert!(lost.is_empty(), "after kill {kill} the audit lacks {kind} of {lost:?}");
        }
    }

    /// Each text that was taken is there once, none that was refused, and none twice.
    fn check(&self, store: &Store, path: &Path, kill: usize) {
        let loaded = store.open_file(path).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        let (mut said, mut queued) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
        for entry in &loaded.entries {
            match &entry.body {
                EntryBody::Message(message) if message.role == Role::User => {
                    *said.entry(message.text()).or_default() += 1;
                }
                EntryBody::Queued(waiting) => {
                    let text = waiting.content.iter().find_map(|block| match block {
                        Block::Text(text) => Some(text.to_string()),
                        _ => None,
                    });
                    *queued.entry(text.unwrap_or_default()).or_default() += 1;
                }
                _ => {}
            }
        }
        let doubled = said.iter().chain(&queued).find(|(_, count)| **count > 1);
        assert_eq!(doubled, None, "after kill {kill}");
        let is_there = |text: &String| said.contains_key(text) || queued.contains_key(text);
        assert_eq!(self.taken.iter().find(|text| !is_there(text)), None, "lost after kill {kill}");
        assert_eq!(self.refused.iter().find(|text| is_there(text)), None, "refused, after kill {kill}");
    }
}

#[test]
fn kill_neither_loses_nor_doubles_a_keyed_text() {
    for durability in ["full", "relaxed"] {
        keyed_texts(durability);
    }
}

/// Texts with keys, by the control protocol and by ops, repeated after each kill until they are answered.
fn keyed_texts(durability: &str) {
    let kills =
        std::env::var("EDN_BRIDGE_CRASH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut dice = Dice(4711);
    let setup = Setup::new().script(SCRIPT).arg("--durability").arg(durability).team();
    let (mut session, mut keyed) = (None::<String>, Keyed::default());
    let (mut number, mut taken, mut refused, mut duplicates, mut recorded) = (0, 0, 0, 0, 0);
    for kill in 0..kills {
        if kill % 20 == 0 {
            // A session holds a bounded number of keys.
            session = None;
            keyed = Keyed::default();
        }
        let mut bridge = setup.ready();
        let resumed = session.as_ref().is_some_and(|id| {
            let answer = bridge.ask("r", "switch_session", &format!("{{:session-id {id:?}}}"));
            at(&answer, &["data", "session-id"]).is_some()
        });
        if !resumed {
            assert!(keyed.taken.is_empty(), "the session of taken texts is gone after kill {kill}");
            let answer = bridge.ask("n", "new_session", "{}");
            session = Some(support::data(&answer, "session-id").to_owned());
            keyed = Keyed::default();
        }
        let id = session.clone().unwrap();
        let mut sent = BTreeMap::new();
        for (place, (text, (op, params))) in keyed.open.iter().enumerate() {
            bridge.request(&format!("again{place}"), op, params);
            sent.insert(format!("again{place}"), text.clone());
        }
        let end = Instant::now() + Duration::from_micros(dice.roll(60_000) as u64);
        // On a busy machine the time alone may be too short for any answer: every second kill awaits some.
        let wanted = keyed.taken.len() + if kill % 2 == 0 { 4 } else { 0 };
        loop {
            while sent.len() < 16 {
                let text = format!("text {number}");
                let (op, params) = match number % 3 {
                    0 => ("control", support::control(&text, &id, Some(&text))),
                    1 => (
                        "follow_up",
                        format!("{{:message {text:?} :idempotency-key {text:?} :session-id {id:?}}}"),
                    ),
                    _ => (
                        "steer",
                        format!("{{:message {text:?} :idempotency-key {text:?} :session-id {id:?}}}"),
                    ),
                };
                bridge.request(&format!("q{number}"), op, &params);
                sent.insert(format!("q{number}"), text.clone());
                keyed.open.insert(text, (op, params));
                number += 1;
            }
            if Instant::now() >= end && keyed.taken.len() >= wanted {
                break;
            }
            keyed.note(&bridge.frame(), &mut sent);
        }
        bridge.kill();
        while let Some(line) = bridge.line_or_end() {
            if let Ok(frame) = edn_bridge::edn::read_one(line.as_bytes()) {
                keyed.note(&frame.into_owned(), &mut sent);
            }
        }
        keyed.check_audit(&setup.state(), kill);
        let store = Store::new(&setup.state(), Durability::Full).unwrap();
        match store.look_up(&id.as_str().into()).unwrap() {
            Some(path) => keyed.check(&store, &path, kill),
            None => assert!(keyed.taken.is_empty(), "{id} is gone after kill {kill}"),
        }
        if kill % 20 == 19 || kill + 1 == kills {
            taken += keyed.taken.len();
            refused += keyed.refused.len();
            duplicates += keyed.duplicates;
            recorded += keyed.acknowledged.len();
        }
    }
    println!(
        "durability {durability}: kills {kills}, texts {number}, taken {taken}, refused {refused}, told twice to a \
         repetition {duplicates}, acknowledged by control and in the audit {recorded}, lost 0, doubled 0"
    );
    assert!(recorded > kills / 3, "{recorded} acknowledged by control: the load was no load");
    assert!(taken > kills, "{taken} taken: the load was no load");
}

/// Opens what is resumed, and as many new sessions as are needed for two.
fn sessions(bridge: &mut Bridge, resume: Vec<String>) -> Vec<String> {
    let mut sessions = Vec::new();
    for (n, id) in resume.iter().enumerate() {
        let answer = bridge.ask(&format!("r{n}"), "switch_session", &format!("{{:session-id {id:?}}}"));
        // One that never got a file is not there.
        if at(&answer, &["data", "session-id"]).is_some() {
            sessions.push(id.clone());
        }
    }
    while sessions.len() < 2 {
        let answer = bridge.ask(&format!("n{}", sessions.len()), "new_session", "{}");
        sessions.push(at(&answer, &["data", "session-id"]).unwrap().as_str().unwrap().to_owned());
    }
    bridge.ask("sub", "subscribe", "{:topics [\"assistant/message\" \"session/rehydrated\"]}");
    sessions
}

/// Keeps the process writing until the time is over, and notes what it acknowledges.
fn load(
    bridge: &mut Bridge,
    sessions: &[String],
    kill: usize,
    patience: Duration,
    told: &mut BTreeMap<String, Told>,
) -> Sent {
    let mut sent = Sent::new();
    let end = Instant::now() + patience;
    let mut number = 0;
    loop {
        // A window of requests, so that commits are shared and some are under way at the kill.
        while sent.len() < 24 {
            let session = &sessions[number % sessions.len()];
            let id = format!("q{number}");
            let name = format!("name {kill} {number} {}", "x".repeat(number % 300));
            if number % 5 == 0 {
                let params = format!("{{:message {name:?} :session-id {session:?}}}");
                bridge.request(&id, "prompt", &params);
            } else {
                let params = format!("{{:name {name:?} :session-id {session:?}}}");
                bridge.request(&id, "set_session_name", &params);
            }
            sent.insert(id, (session.clone(), name));
            number += 1;
        }
        if Instant::now() >= end {
            return sent;
        }
        let frame = bridge.frame();
        note(&frame, &mut sent, told);
    }
}

fn note(frame: &edn_bridge::value::Value<'static>, sent: &mut Sent, told: &mut BTreeMap<String, Told>) {
    if is_event(frame, "assistant/message")
        && let Some(entry) = at(frame, &["data", "entry-id"]).and_then(|id| id.as_str())
    {
        let session = at(frame, &["data", "session-id"]).unwrap().as_str().unwrap();
        told.entry(session.to_owned()).or_default().entries.push(entry.to_owned());
    }
    if let Some((session, name)) = sent.remove(text(frame, "id"))
        && at(frame, &["ok"]).and_then(edn_bridge::value::Value::as_bool) == Some(true)
    {
        let told = told.entry(session).or_default();
        match text(frame, "op") {
            "set_session_name" => told.names.push(name),
            _ => told.entries.push(format!("text:{name}")),
        }
    }
}

/// Everything that was acknowledged is there once and in order, and the file is whole.
fn check(store: &Store, path: PathBuf, expected: &Told, kill: usize) {
    let loaded = store.open_file(&path).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
    let mut names = Vec::new();
    let mut entries = Vec::new();
    for entry in &loaded.entries {
        match &entry.body {
            EntryBody::Name(name) => names.push(name.to_string()),
            EntryBody::Message(message) => {
                entries.push(entry.id.to_string());
                entries.push(format!("text:{}", message.text()));
            }
            _ => {}
        }
    }
    drop(loaded);
    for (there, expected) in [(&names, &expected.names), (&entries, &expected.entries)] {
        for one in expected {
            let count = there.iter().filter(|known| *known == one).count();
            assert_eq!(count, 1, "after kill {kill}: {one:?} stands {count} times in {}", path.display());
        }
        let order = |one: &String| there.iter().position(|known| known == one);
        assert!(expected.iter().map(order).is_sorted(), "after kill {kill}: out of order");
    }
    assert_eq!(store.verify(&path).unwrap().faults, [], "after kill {kill}");
}
