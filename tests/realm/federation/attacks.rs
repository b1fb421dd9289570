//! What another host, or a row that it wrote, must not bring about: requests without an end, files elsewhere, commands that
//! stay with a host, halves of sessions.

use std::path::PathBuf;

use edn_bridge::client::frame;
use edn_bridge::value::Value;

use super::crossing::{Two, team};
use super::{ask, end_of_turn, host, host_of, is_lost, listed, shared, switch, texts};
use crate::fixture::{Daemon, END, session_of};
use crate::server::{Engine as _, Server};
use crate::support::{Bridge, at, code, control, data, files, wait_until};

/// What a host answers to a call that another one posts, in EDN. The row says it even where no host waits for it.
fn posted(server: &Server, id: &str, session: &str, asker: &str, call: &str) {
    server.sql(&format!(
        "INSERT INTO edn_bridge.request (id, session, host, asker, call, expires) \
         VALUES ('{id}', '{session}', 'alpha', '{asker}', '{call}', clock_timestamp() + interval '1 minute')"
    ));
}

fn answer(server: &Server, id: &str) -> String {
    let of = format!("SELECT coalesce(answer, '') FROM edn_bridge.request WHERE id = '{id}'");
    wait_until("it is answered", || !server.sql(&of)[0].is_empty());
    server.sql(&of)[0].clone()
}

/// The journal of a session at a host.
fn file_of(host: &Daemon, session: &str) -> PathBuf {
    let name = format!("{session}.edn");
    files(&host.setup.state()).into_iter().find(|path| path.ends_with(&name)).unwrap()
}

#[test]
fn given_session_that_is_not_taken_asks_nobody_for_ever() {
    let Some(mut two) = Two::start(END) else { return };
    let Two { server, beta, a, b, session, .. } = &mut two;
    ask(a, "hand_over_session", &format!("{{:session-id {session:?} :host \"beta\"}}"));
    listed(a, session, |row| host_of(row) == "beta");
    listed(b, session, |row| host_of(row) == "beta");
    // Its folder is one of the other host: it waits to be taken here, and passes nothing on, to itself neither.
    for (from, bridge) in [("alpha", &mut *a), ("beta", &mut *b)] {
        let refused = bridge.ask("p", "prompt", &format!("{{:message \"go on from {from}\"}}"));
        assert_eq!(code(&refused), "realm/unreachable", "{refused}");
        assert_eq!(refused.get("retryable").and_then(Value::as_bool), Some(true));
        assert!(refused.to_string().contains("/take FOLDER"), "{refused}");
    }
    // A host that has not looked yet may ask the other one, or itself, once.
    let asked = server.sql("SELECT count(*) FROM edn_bridge.request WHERE call LIKE '%go on%'");
    assert!(asked[0].parse::<u32>().unwrap() <= 2, "{asked:?}");
    let cwd = beta.setup.project().canonicalize().unwrap();
    ask(b, "take_session", &format!("{{:session-id {session:?} :cwd {cwd:?}}}"));
    ask(b, "prompt", "{:message \"here\"}");
    end_of_turn(b);
}

#[test]
fn given_session_goes_on_in_the_folder_that_is_named() {
    let Some(server) = Server::start() else { return };
    let (alpha, beta) = (host(&server, "alpha", ":all", END), host(&server, "beta", ":all", END));
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let session = shared(&mut a);
    ask(&mut a, "hand_over_session", &format!("{{:session-id {session:?} :host \"beta\"}}"));
    // It was never open here.
    let cwd = beta.setup.project().canonicalize().unwrap();
    let taken = ask(&mut b, "take_session", &format!("{{:session-id {session:?} :cwd {cwd:?}}}"));
    assert_eq!(data(&taken, "cwd"), cwd.to_str().unwrap(), "{taken}");
    switch(&mut b, &session);
    ask(&mut b, "bash", "{:command \"touch here\"}");
    assert!(beta.file("here").exists() && !alpha.file("here").exists());
}

#[test]
fn row_that_names_another_file_writes_none() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let mut a = alpha.setup.interactor();
    let session = shared(&mut a);
    let away = "../../../escaped";
    for (row, named) in [("elsewhere", away), (away, away), ("other", &*session)] {
        server.sql(&format!(
            "INSERT INTO edn_bridge.session (id, header, cwd, owner, epoch, slot) \
             SELECT '{row}', replace(header, '{session}', '{named}'), cwd, 'gamma', 1, '{{:name \"mad\"}}' \
             FROM edn_bridge.session WHERE id = '{session}'"
        ));
    }
    for row in ["elsewhere", away, "other"] {
        let refused = a.ask("s", "switch_session", &format!("{{:session-id {row:?}}}"));
        assert_eq!(code(&refused), "runtime/failed", "{refused}");
    }
    let escaped = files(alpha.setup.dir.path()).into_iter().find(|path| path.ends_with("escaped.edn"));
    assert_eq!(escaped, None);
    // The list has the session's own row.
    let row = listed(&mut a, &session, |_| true);
    assert_eq!((host_of(&row), row.get("name").and_then(Value::as_str)), ("alpha", Some("shared")));
}

#[test]
fn rows_that_cannot_be_read_hold_up_no_other() {
    let Some(mut two) = Two::start(END) else { return };
    let Two { server, alpha, a, b, session, .. } = &mut two;
    server.sql(
        "INSERT INTO edn_bridge.host (name, key, incarnation, build, until, run) \
         VALUES ('no name', 'k', 'i', 'b', clock_timestamp() + interval '1 hour', 1)",
    );
    posted(server, "mad", session, "no name", ":abort-retry");
    ask(b, "prompt", "{:message \"after it\"}");
    end_of_turn(b);
    ask(a, "command", "{:text \"/hosts\"}");
    let told = a.event("command-result");
    let hosts = data(&told, "message");
    assert!(hosts.contains("beta") && !hosts.contains("no name"), "{told}");
    // Calls that are none are refused, whatever they say.
    let deep = "[".repeat(100_000);
    for (place, call) in [")", "{:prompt 1}", ":bash", "", deep.as_str()].iter().enumerate() {
        posted(server, &format!("m-{place}"), session, "beta", call);
        let said = answer(server, &format!("m-{place}"));
        assert!(said.contains("cannot read what is asked"), "{call:.20} {said}");
    }
    assert!(alpha.status().is_some());
}

#[test]
fn what_stays_with_a_host_is_not_asked_of_it() {
    let Some(mut two) = Two::start(END) else { return };
    let Two { server, alpha, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"a genuine one\"}");
    end_of_turn(b);
    ask(b, "query_eql", "{:query \"[:psi.job/list]\"}");
    // As a host would write it that has another program.
    let like = |text: &str| {
        let found = server.sql(&format!("SELECT call FROM edn_bridge.request WHERE call LIKE '%{text}%'"));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    let (prompt, query) = (like("a genuine one"), like(":psi.job/list"));
    let key = prompt.split(":idempotency-key \"").nth(1).unwrap().split('"').next().unwrap();
    for (id, call) in [
        ("trust", prompt.replace("a genuine one", "/trust")),
        ("note", prompt.replace("a genuine one", "/remember a note")),
        ("usage", prompt.replace("a genuine one", "/give")),
        ("process", query.replace(":psi.job/list", ":psi.process/pid")),
        ("change", query.replace(":psi.job/list", r#"(psi.memory/remember {:text \"a note\"})"#)),
    ] {
        posted(server, id, session, "beta", &call.replace(key, id));
        let said = answer(server, id);
        assert!(said.contains("invalid-params"), "{id} {said}");
    }
    let has_note = |path: &std::path::PathBuf| {
        std::fs::read(path).is_ok_and(|text| String::from_utf8_lossy(&text).contains("a note"))
    };
    assert_eq!(files(&alpha.setup.state()).iter().find(|path| has_note(path)), None);
}

#[test]
fn part_of_a_session_is_neither_taken_nor_left_behind() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":ask", END);
    let mut a = alpha.setup.interactor();
    for message in ["first", "second"] {
        ask(&mut a, "prompt", &format!("{{:message {message:?}}}"));
        end_of_turn(&mut a);
    }
    let session = session_of(&mut a);
    let path = file_of(&alpha, &session);
    let alone = std::fs::read(&path).unwrap();
    ask(&mut a, "command", "{:text \"/share\"}");
    assert_eq!(data(&a.event("command-result"), "type"), "text");
    a.kill();
    assert!(alpha.control(&["stop", "--now"]).status.success());
    // As a kill in the middle leaves it.
    std::fs::write(&path, &alone).unwrap();
    let of = format!("session = '{session}'");
    server.sql(&format!("DELETE FROM edn_bridge.entry WHERE {of} AND seq > 2"));
    server.sql(&format!(
        "UPDATE edn_bridge.session SET owner = 'alpha', slot = '', tail = 2, \
         tail_id = (SELECT id FROM edn_bridge.entry WHERE {of} AND seq = 2) WHERE id = '{session}'"
    ));

    let beta = host(&server, "beta", ":ask", END);
    let mut b = beta.setup.interactor();
    listed(&mut b, &session, is_lost);
    let refused = b.ask("t", "take_session", &format!("{{:session-id {session:?}}}"));
    assert!(code(&refused) == "runtime/failed" && refused.to_string().contains("only a part"), "{refused}");
    let row = format!("SELECT owner, deleted FROM edn_bridge.session WHERE id = '{session}'");
    assert_eq!(server.sql(&row), ["alpha|f"]);

    // Its host deletes it from another folder, whose daemon completes nothing: no part comes back as a copy.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
    alpha.setup.folders(&mut command);
    command.env("EDN_BRIDGE_DAEMON", "auto");
    command.arg("--state-dir").arg(alpha.setup.state()).arg("--cwd").arg(elsewhere.path()).arg("serve");
    let mut a = Bridge::start(&mut command);
    a.ask("h", "handshake", &frame::client_info("t", "1", &["interactor"]));
    listed(&mut a, &session, |_| true);
    ask(&mut a, "delete_session", &format!("{{:session-id {session:?}}}"));
    assert_eq!(server.sql(&row), ["|t"]);
    assert!(!path.exists());
}

#[test]
fn session_that_somebody_has_open_is_not_deleted_in_part() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let mut a = alpha.setup.interactor();
    ask(&mut a, "prompt", "{:message \"words\"}");
    end_of_turn(&mut a);
    let session = session_of(&mut a);
    a.kill();
    assert!(alpha.control(&["stop", "--now"]).status.success());
    // Its file is somebody else's for a while.
    let beside = format!("{}.lock", file_of(&alpha, &session).display());
    let held = std::fs::File::create(&beside).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();

    let mut a = alpha.setup.interactor();
    let delete = format!("{{:session-id {session:?}}}");
    let refused = a.ask("d", "delete_session", &delete);
    assert_eq!(code(&refused), "request/session-not-idle", "{refused}");
    assert_eq!(refused.get("retryable").and_then(Value::as_bool), Some(true));
    let row = format!("SELECT deleted FROM edn_bridge.session WHERE id = '{session}'");
    assert_eq!(server.sql(&row), ["f"]);
    server.assert_whole(&session);
    drop(held);
    // A process that another test is just starting may hold it a little longer.
    let cell = std::cell::RefCell::new(&mut a);
    wait_until("it is deleted", || {
        let deleted = cell.borrow_mut().ask("d", "delete_session", &delete);
        assert!(matches!(code(&deleted), "" | "request/session-not-idle"), "{deleted}");
        code(&deleted).is_empty()
    });
    assert_eq!(server.sql(&row), ["t"]);
}

#[test]
fn control_by_name_reaches_a_session_of_another_host() {
    let Some(mut two) = Two::with(END, team) else { return };
    let Two { server, a, b, session, .. } = &mut two;
    listed(b, session, |row| row.get("name").and_then(Value::as_str) == Some("shared"));
    let ack = |bridge: &mut Bridge, id: &str, name: &str| {
        let answer = ask(bridge, "control", &control(id, name, Some("by name")));
        at(&answer, &["data"]).unwrap().to_string()
    };
    let accepted = ack(b, "n-1", "shared");
    assert!(accepted.contains(":result \"ok\"") && accepted.contains("\"shared\""), "{accepted}");
    end_of_turn(b);
    let said = format!(
        "SELECT count(*) FROM edn_bridge.entry WHERE session = '{session}' AND line LIKE '%by name%'"
    );
    assert_eq!(server.sql(&said), ["1"]);
    let unknown = ack(b, "n-2", "nobody");
    assert!(unknown.contains("no such session"), "{unknown}");
    // A second one of that name: it takes an id.
    ask(a, "new_session", "{}");
    let other = shared(a);
    listed(b, &other, |row| row.get("name").and_then(Value::as_str) == Some("shared"));
    let refused = ack(b, "n-3", "shared");
    assert!(refused.contains("give an id"), "{refused}");
    // One of this host goes first.
    ask(b, "new_session", "{}");
    shared(b);
    let accepted = ack(b, "n-4", "shared");
    assert!(accepted.contains(":result \"ok\""), "{accepted}");
    end_of_turn(b);
    let words = texts(b);
    assert!(words[0].contains("by name"), "{words:?}");
}
