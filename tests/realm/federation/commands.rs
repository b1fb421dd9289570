//! `/give` and `/take`, typed by a person, and commands of a terminal beside a daemon.

use edn_bridge::value::{Owned, Value};

use super::crossing::Two;
use super::{ask, end_of_turn, host, host_of, is_lost, listed, shared, texts};
use crate::engines::Engine;
use crate::fixture::{Daemon, END, signal};
use crate::on_each_engine;
use crate::support::{Bridge, code, data, wait_until};

/// What a person is told who types a command, with its kind.
fn typed(bridge: &mut Bridge, command: &str) -> Owned {
    bridge.skip_to_now();
    ask(bridge, "command", &format!("{{:text {command:?}}}"));
    bridge.event("command-result")
}

/// The words of an answer that is no mistake.
fn told(bridge: &mut Bridge, command: &str) -> String {
    let result = typed(bridge, command);
    assert_eq!(data(&result, "type"), "text", "{command}: {result}");
    data(&result, "message").to_owned()
}

/// Sends a prompt, again while the host is about to hear who has the session now.
fn say(bridge: &mut Bridge, text: &str) {
    let prompt = format!("{{:message {text:?} :idempotency-key {text:?}}}");
    let cell = std::cell::RefCell::new(bridge);
    wait_until("the prompt is taken", || {
        let answer = cell.borrow_mut().ask("p", "prompt", &prompt);
        assert!(matches!(code(&answer), "" | "realm/unreachable"), "{answer}");
        code(&answer).is_empty()
    });
}

#[test]
fn commands_give_a_session_away_and_take_it() {
    let Some(mut two) = Two::start(END) else { return };
    let Two { server, alpha, beta, a, b, session } = &mut two;
    let folder = |of: &Daemon| of.setup.project().canonicalize().unwrap();
    ask(b, "prompt", "{:message \"first\"}");
    end_of_turn(b);
    let refused = typed(b, "/take");
    assert!(data(&refused, "type") == "error" && refused.to_string().contains("alpha"), "{refused}");
    let refused = typed(b, "/give beta");
    assert_eq!(data(&refused, "type"), "error", "it is none of this host: {refused}");

    assert_eq!(told(a, "/give beta"), "The session is beta's now.");
    listed(b, session, |row| host_of(row) == "beta");
    let there = folder(beta).join("sub folder");
    std::fs::create_dir(&there).unwrap();
    let taken = told(b, &format!("/take {}", there.display()));
    assert_eq!(taken, format!("This host continues the session, in {} (as you said).", there.display()));
    // Asked for at the host that gave it away, the turn is one of the other.
    say(a, "second");
    end_of_turn(b);
    end_of_turn(a);
    let refused = typed(a, "/give alpha");
    assert_eq!(data(&refused, "type"), "error", "it is none of this host any more: {refused}");

    assert_eq!(told(b, "/give alpha"), "The session is alpha's now.");
    listed(a, session, |row| host_of(row) == "alpha");
    let here = folder(alpha);
    let own = |folder: &std::path::Path| {
        format!("This host continues the session, in {} (the folder of this project).", folder.display())
    };
    assert_eq!(told(a, "/take"), own(&here));
    say(b, "third");
    end_of_turn(b);

    // Of a host that is lost.
    signal(alpha.pid(), "-KILL");
    listed(b, session, is_lost);
    assert_eq!(told(b, "/take"), own(&folder(beta)));
    ask(b, "prompt", "{:message \"fourth\"}");
    assert_eq!(data(&end_of_turn(b), "outcome"), "completed");
    let all = texts(b);
    assert_eq!(all.len(), 8, "{all:?}");
    server.assert_whole(session);
}

/// What a command says, which must do its work.
fn done(host: &Daemon, words: &[&str]) -> String {
    let output = host.setup.command().args(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_reach_shared_sessions_beside_a_daemon() {
    let Some(two) = Two::start(END) else { return };
    let Two { server, alpha, beta, mut a, mut b, session, .. } = two;
    // No editor of this machine shows it.
    ask(&mut b, "new_session", "{}");
    let said = done(&beta, &["prompt", "--session", &session, "from a terminal"]);
    assert!(said.contains("end"), "{said}");
    assert!(texts(&mut a).iter().any(|text| text.contains("from a terminal")));
    done(&beta, &["sessions", "rename", &session, "renamed"]);
    listed(&mut a, &session, |row| row.get("name").and_then(Value::as_str) == Some("renamed"));

    ask(&mut a, "new_session", "{}");
    done(&alpha, &["sessions", "delete", "--yes", &session]);
    let left = format!("SELECT count(*) FROM edn_bridge.entry WHERE session = '{session}'");
    wait_until("the realm has it no more", || server.sql(&left) == ["0"]);

    let other = shared(&mut a);
    let is_there = |row: &Owned| host_of(row) == "alpha";
    listed(&mut b, &other, is_there);
    signal(alpha.pid(), "-KILL");
    listed(&mut b, &other, is_lost);
    drop(b);
    let folder = beta.setup.project();
    done(&beta, &["sessions", "take", &other, folder.to_str().unwrap()]);
    let owner = format!("SELECT owner FROM edn_bridge.session WHERE id = '{other}'");
    assert_eq!(server.sql(&owner), ["beta"]);
}

on_each_engine! {
    namesake_is_told
}

fn namesake_is_told<E: Engine>() {
    let Some(server) = E::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let _a = shared(&mut alpha.setup.interactor());
    let namesake = host(&server, "alpha", ":all", END);
    for (host, is_namesake) in [(&alpha, false), (&namesake, true)] {
        let hosts = done(host, &["realm", "hosts"]);
        let whose = if is_namesake { "alpha (not this one): there" } else { "alpha (this one): there" };
        assert!(hosts.starts_with(whose), "{hosts}");
        let doctor = host.setup.command().arg("doctor").output().unwrap();
        for told in [done(host, &["realm", "check"]), String::from_utf8(doctor.stdout).unwrap()] {
            assert_eq!(told.contains("Give one of the two another :host"), is_namesake, "{told}");
        }
    }
}
