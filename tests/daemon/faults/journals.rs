//! Faults: a journal that is not as the last append left it, damaged, or there twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use edn_bridge::value::Owned;

use super::{ECHO, alive};
use crate::support::{Bridge, Setup, at, code, data, end_of_turn, files, is_event, kind, text};

/// A disk whose locks are given to everybody, and whose syncs and cuts fail while a file is there.
const DISK: &str = r#"
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int fails(const char *name) {
    const char *file = getenv(name);
    return file && access(file, F_OK) == 0;
}
int flock(int fd, int how) { return getenv("FALSE_LOCKS") ? 0 : syscall(SYS_flock, fd, how); }
int fdatasync(int fd) {
    if (fails("SYNC_FAILS")) { errno = EIO; return -1; }
    return syscall(SYS_fdatasync, fd);
}
int ftruncate64(int fd, off_t length) {
    if (fails("CUT_FAILS")) { errno = EIO; return -1; }
    return syscall(SYS_ftruncate, fd, length);
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
"#;

/// Bridges that meet that disk.
fn on_bad_disk() -> Setup {
    let setup = Setup::new().script(ECHO);
    let source = setup.dir.path().join("disk.c");
    fs::write(&source, DISK).unwrap();
    let library = source.with_extension("so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    setup.env("LD_PRELOAD", library.to_str().unwrap())
}

/// A prompt to the end of its turn; the frame of its answer.
fn say(bridge: &mut Bridge, message: &str) -> Owned {
    let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
    if kind(&answer) == "response" {
        end_of_turn(bridge);
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    }
    answer
}

fn refused(answer: &Owned, because: &str) {
    assert_eq!(code(answer), "runtime/failed", "{answer}");
    let said = text(answer, "error-message");
    assert!(said.contains(because) && said.contains("Nothing was written; /fork keeps"), "{said}");
}

/// The session of a bridge: its id and its file.
fn session(bridge: &mut Bridge) -> (String, PathBuf) {
    let state = bridge.ask("st", "get_state", "{}");
    let field = |key| at(&state, &["data", "state", key]).and_then(Owned::as_str).unwrap().to_owned();
    (field("session-id"), field("session-file").into())
}

fn ready(setup: &Setup) -> Bridge {
    let mut bridge = setup.ready();
    bridge.ask("s", "subscribe", "{}");
    bridge
}

fn switch(bridge: &mut Bridge, session: &str) -> Owned {
    bridge.ask("sw", "switch_session", &format!("{{:session-id {session:?}}}"))
}

/// Status, standard output and standard error of a command.
fn run(setup: &Setup, words: &[&str]) -> (Option<i32>, String, String) {
    let output = setup.command().args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn is_whole(setup: &Setup) {
    let (status, told, _) = run(setup, &["sessions", "verify"]);
    assert_eq!(status, Some(0), "{told}");
}

#[test]
fn second_process_with_a_false_lock_is_noticed() {
    let setup = on_bad_disk().env("FALSE_LOCKS", "1");
    let mut first = ready(&setup);
    assert_eq!(kind(&say(&mut first, "A1")), "response");
    let (id, file) = session(&mut first);
    let mut second = ready(&setup);
    assert_eq!(kind(&switch(&mut second, &id)), "response");
    let mut kept = vec!["A1".to_owned()];
    for number in 1..=5 {
        let message = format!("B{number}");
        assert_eq!(kind(&say(&mut second, &message)), "response");
        kept.push(message);
        refused(&say(&mut first, &format!("REFUSED {number}")), "taken by another process");
    }
    // What the first one leaves behind it is the second one's.
    first.finish();
    assert_eq!(kind(&say(&mut second, "B6")), "response");
    second.finish();
    let journal = fs::read_to_string(&file).unwrap();
    assert!(kept.iter().all(|message| journal.contains(&format!("{message:?}"))), "{journal}");
    assert!(!journal.contains("REFUSED"), "{journal}");
    is_whole(&setup);
}

type Tampering = (&'static str, fn(&Path), &'static str);

/// What somebody does to an open journal, and how the refusal names it.
const TAMPERINGS: &[Tampering] = &[
    ("rm", |file| fs::remove_file(file).unwrap(), "was removed"),
    (
        "mv of the folder",
        |file| fs::rename(file.parent().unwrap(), file.parent().unwrap().with_extension("x")).unwrap(),
        "was removed",
    ),
    (
        "rename over",
        |file| {
            fs::copy(file, file.with_extension("new")).unwrap();
            fs::rename(file.with_extension("new"), file).unwrap();
        },
        "was replaced",
    ),
    (
        "truncate",
        |file| fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap(),
        "was changed by another process",
    ),
    (
        "append through a hard link",
        |file| {
            use std::io::Write as _;
            fs::hard_link(file, file.with_extension("link")).unwrap();
            let mut link = fs::File::options().append(true).open(file.with_extension("link")).unwrap();
            link.write_all(b"; a line\n").unwrap();
        },
        "was changed by another process",
    ),
    (
        "rm of the lock",
        |file| fs::remove_file(file.with_extension("edn.lock")).unwrap(),
        "taken by another process",
    ),
];

#[test]
fn prompt_to_a_tampered_journal_is_refused_and_forks() {
    for (what, tamper, because) in TAMPERINGS {
        let setup = Setup::new().script(ECHO);
        let mut bridge = ready(&setup);
        say(&mut bridge, "first");
        say(&mut bridge, "second");
        let (_, file) = session(&mut bridge);
        tamper(&file);
        for _ in 0..2 {
            let answer = say(&mut bridge, "REFUSED");
            assert_eq!(kind(&answer), "error", "{what}");
            refused(&answer, because);
        }
        let messages = bridge.ask("m", "get_messages", "{}");
        assert!(
            messages.to_string().contains("second") && !messages.to_string().contains("REFUSED"),
            "{what}"
        );
        // The conversation goes on in another file.
        let points = bridge.ask("f", "get_fork_messages", "{}");
        let points = at(&points, &["data", "messages"]).and_then(Owned::as_slice).unwrap().to_vec();
        let point = points.last().and_then(|point| at(point, &["id"])).and_then(Owned::as_str).unwrap();
        let forked = bridge.ask("k", "fork", &format!("{{:entry-id {point:?}}}"));
        assert_eq!(kind(&forked), "response", "{what}: {forked}");
        assert_eq!(kind(&say(&mut bridge, "third")), "response", "{what}");
        let (fork, _) = session(&mut bridge);
        bridge.kill();
        let mut bridge = ready(&setup);
        switch(&mut bridge, &fork);
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        assert!(
            ["first", "second", "third"].iter().all(|word| messages.contains(word)),
            "{what}: {messages}"
        );
    }
}

/// Refused bytes that could neither be synced nor cut off, and then a kill.
#[test]
fn refused_prompt_is_gone_after_a_double_fault_and_a_kill() {
    for faults in [&["CUT_FAILS", "SYNC_FAILS"][..], &["SYNC_FAILS"]] {
        for refusals in 1..=3 {
            let setup = on_bad_disk();
            let trigger = setup.dir.path().join("fails");
            let setup = faults.iter().fold(setup, |setup, fault| setup.env(fault, trigger.to_str().unwrap()));
            let mut bridge = ready(&setup);
            say(&mut bridge, "kept");
            let (id, file) = session(&mut bridge);
            fs::write(&trigger, "").unwrap();
            for _ in 0..refusals {
                assert_eq!(code(&bridge.ask("q", "prompt", "{:message \"REFUSED\"}")), "runtime/failed");
            }
            let pid = bridge.pid().to_string();
            bridge.kill();
            assert!(!alive(&pid));
            fs::remove_file(&trigger).unwrap();
            let is_left = fs::read_to_string(&file).unwrap().contains("REFUSED");
            assert_eq!(is_left, faults.len() == 2, "{faults:?}: the case is none");
            // Who only reads does not see it either.
            let (_, shown, _) = run(&setup, &["sessions", "show", &id]);
            assert!(shown.contains("kept") && !shown.contains("REFUSED"), "{shown}");
            let mut bridge = ready(&setup);
            switch(&mut bridge, &id);
            let messages = bridge.ask("m", "get_messages", "{}").to_string();
            assert!(messages.contains("kept") && !messages.contains("REFUSED"), "{messages}");
            assert!(!fs::read_to_string(&file).unwrap().contains("REFUSED"));
            assert_eq!(kind(&say(&mut bridge, "next")), "response");
            bridge.kill();
            is_whole(&setup);
            assert!(fs::read_to_string(&file).unwrap().contains("\"next\""));
        }
    }
}

type Damage = (&'static str, fn(&mut Vec<String>));

/// What the end of a session's file was like before a line was lost, doubled, moved or made unreadable.
const DAMAGES: &[Damage] = &[
    ("a line is lost", |lines| drop(lines.remove(lines.len() / 2))),
    ("three lines are lost", |lines| drop(lines.drain(4..7))),
    ("a line is unreadable", |lines| {
        let middle = lines.len() / 2;
        lines[middle] = "{:id".into();
    }),
    ("a line stands twice", |lines| {
        let line = lines[5].clone();
        lines.insert(9, line);
    }),
    ("two lines are exchanged", |lines| lines.swap(8, 9)),
    ("the first line is lost", |lines| drop(lines.remove(1))),
];

#[test]
fn each_opening_of_a_damaged_file_tells_what_verify_tells() {
    for (what, damage) in DAMAGES {
        let setup = Setup::new().script(ECHO);
        let mut bridge = ready(&setup);
        for number in 0..6 {
            say(&mut bridge, &format!("needle {number}"));
        }
        let (id, file) = session(&mut bridge);
        bridge.finish();
        let mut lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        damage(&mut lines);
        fs::write(&file, lines.join("\n") + "\n").unwrap();

        let (status, verified, _) = run(&setup, &["sessions", "verify"]);
        assert_eq!(status, Some(1), "{what}: {verified}");
        let faults: Vec<&str> = verified.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        assert!(!faults.is_empty(), "{what}: {verified}");
        let tells_all = |way: &str, told: &str| {
            assert!(faults.iter().all(|fault| told.contains(fault)), "{what}, {way}: {told}\n{faults:#?}");
        };
        for words in [
            &["sessions", "show", &id][..],
            &["sessions", "export", &id, "--format", "markdown"],
            &["sessions", "list", "needle"],
        ] {
            tells_all(words[1], &run(&setup, words).2);
        }
        let mut bridge = ready(&setup);
        let found = bridge.ask("l", "list_sessions", "{:text \"needle\"}");
        tells_all("search", data(&found, "missing"));
        // The wire tells each fault once, and so does a fork of a session that nobody has opened.
        bridge.send(&format!(
            "{{:id \"sw\" :kind :request :op \"switch_session\" :params {{:session-id {id:?}}}}}"
        ));
        let mut told = String::new();
        for _ in &faults {
            let repaired = bridge.event("diagnostic");
            assert_eq!(data(&repaired, "code"), "session/repaired");
            told.push_str(data(&repaired, "message"));
        }
        tells_all("wire", &told);
        // What can be read is shown: nothing that stands after the damage hides what stands before it.
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        let shown = |number: i32| messages.contains(&format!("needle {number}"));
        assert!((0..6).filter(|number| shown(*number)).count() >= 4, "{what}: {messages}");
        assert_eq!(kind(&say(&mut bridge, "goes on")), "response");
        bridge.finish();
        // A repair leaves no fault.
        let (status, repaired, _) = run(&setup, &["sessions", "verify", "--repair"]);
        assert_eq!(status, Some(0), "{what}: {repaired}");
        is_whole(&setup);
        let (_, shown, told) = run(&setup, &["sessions", "show", &id]);
        assert!(shown.contains("goes on") && told.is_empty(), "{what}: {told}");
    }
}

/// The ids that a list has.
fn listed(setup: &Setup, words: &[&str]) -> (Vec<String>, String) {
    let (status, out, told) = run(setup, &[&["sessions", "list", "--json"], words].concat());
    assert_eq!(status, Some(0), "{told}");
    let all: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap();
    (all.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect(), told)
}

/// Copies of a session's file: beside it, and as a restored backup in another project's folder.
fn copies(file: &Path) -> Vec<PathBuf> {
    let elsewhere = file.parent().unwrap().parent().unwrap().join("another-project");
    fs::create_dir_all(&elsewhere).unwrap();
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let copies = vec![
        file.with_file_name(format!("{stem} (copy).edn")),
        file.with_file_name("backup.edn"),
        elsewhere.join(file.file_name().unwrap()),
    ];
    for copy in &copies {
        fs::copy(file, copy).unwrap();
    }
    copies
}

fn two_sessions() -> (Setup, Vec<(String, PathBuf)>) {
    let setup = Setup::new().script(ECHO);
    let mut bridge = ready(&setup);
    say(&mut bridge, "one");
    let one = session(&mut bridge);
    bridge.ask("n", "new_session", "{}");
    say(&mut bridge, "two");
    let other = session(&mut bridge);
    bridge.finish();
    (setup, vec![one, other])
}

#[test]
fn copy_of_a_session_is_told_and_no_session() {
    let (setup, sessions) = two_sessions();
    let (id, file) = &sessions[0];
    let copies = copies(file);
    let mut expected: Vec<&String> = sessions.iter().map(|(id, _)| id).collect();
    expected.sort();
    for words in [&[][..], &["--all"]] {
        let (mut ids, told) = listed(&setup, words);
        ids.sort();
        assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{words:?}");
        for copy in &copies {
            assert!(told.contains(&format!("{} is a copy of {id}", copy.display())), "{words:?}: {told}");
        }
    }
    let (status, verified, _) = run(&setup, &["sessions", "verify"]);
    assert_eq!(status, Some(1));
    assert_eq!(verified.matches(&format!("It is a copy of the session {id}.")).count(), 3, "{verified}");
    assert!(verified.contains("5 files: 2 whole, 3 with faults"), "{verified}");
    let mut bridge = ready(&setup);
    let list = bridge.ask("l", "list_sessions", "{:scope \"all\"}");
    let told = data(&list, "missing");
    assert!(copies.iter().all(|copy| told.contains(copy.to_str().unwrap())), "{told}");
    // A copy is not opened, whether the session is open or not; what opens the session is told of the copy.
    for round in 0..2 {
        for copy in &copies {
            let path = copy.to_str().unwrap();
            let answer = bridge.ask("c", "switch_session", &format!("{{:session-path {path:?}}}"));
            let said = text(&answer, "error-message");
            assert!(said.contains(&format!("is a copy of the session {id}")), "{round}: {answer}");
        }
        if round == 0 {
            bridge.request("sw", "switch_session", &format!("{{:session-id {id:?}}}"));
            let mut told = String::new();
            // The one whose name has nothing of the session's is told by lists and verify.
            for _ in 0..2 {
                told.push_str(data(&bridge.event("diagnostic"), "message"));
            }
            assert!(
                told.contains(copies[0].to_str().unwrap()) && told.contains(copies[2].to_str().unwrap()),
                "{told}"
            );
        }
    }
    assert_eq!(kind(&say(&mut bridge, "three")), "response");
    assert!(fs::read_to_string(file).unwrap().contains("three"));
}

#[test]
fn deleted_session_takes_its_copies_with_it() {
    for way in ["wire", "command"] {
        let (setup, sessions) = two_sessions();
        let (id, file) = &sessions[0];
        let copies = copies(file);
        if way == "wire" {
            let mut bridge = ready(&setup);
            let answer = bridge.ask("d", "delete_session", &format!("{{:session-id {id:?}}}"));
            assert_eq!(at(&answer, &["data", "deleted"]), Some(&Owned::Bool(true)), "{answer}");
            assert_eq!(code(&switch(&mut bridge, id)), "request/not-found");
        } else {
            let (status, out, told) = run(&setup, &["sessions", "delete", "--yes", id]);
            assert_eq!(status, Some(0), "{out}{told}");
        }
        let left: Vec<_> = files(&setup.state().join("sessions"));
        assert!(copies.iter().all(|copy| !left.contains(copy)) && !left.contains(file), "{way}: {left:?}");
        assert_eq!(listed(&setup, &["--all"]).0, [sessions[1].0.clone()], "{way}");
    }
}

#[test]
fn repair_gives_a_copy_an_id_of_its_own() {
    let (setup, sessions) = two_sessions();
    let (id, file) = &sessions[0];
    let before = fs::read(file).unwrap();
    copies(file);
    let (status, told, _) = run(&setup, &["sessions", "verify", "--repair"]);
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(told.matches("  It is the session s-").count(), 3, "{told}");
    assert_eq!(fs::read(file).unwrap(), before);
    is_whole(&setup);
    let (ids, told) = listed(&setup, &["--all"]);
    assert!(ids.len() == 5 && told.is_empty(), "{ids:?} {told}");
    let mut bridge = ready(&setup);
    for new in ids.iter().filter(|new| sessions.iter().all(|(known, _)| known != *new)) {
        assert_ne!(new, id);
        assert_eq!(kind(&switch(&mut bridge, new)), "response");
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        assert!(messages.contains("one"), "{messages}");
        assert_eq!(kind(&say(&mut bridge, "goes on")), "response");
    }
    assert_eq!(fs::read(file).unwrap(), before);
}
