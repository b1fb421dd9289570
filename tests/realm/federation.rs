//! Two hosts with a daemon each, and one PostgreSQL: a session of one is driven from the other, and taken when that is
//! lost.

#![cfg(feature = "realm")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    dead_code,
    reason = "tests"
)]

mod attacks;
mod commands;
mod crossing;
mod disk;
mod finding;
mod said;
mod sharing;
mod wires;

use std::cell::Cell;

use crate::fixture::{Daemon, approve, runs, session_of, signal};
use crate::on_each_engine;
use crate::server::{Engine, Server};
use crate::support::{Bridge, Setup, at, code, data, is_event, wait_until};
use edn_bridge::value::{Owned, Value};

/// A model that calls `bash` once in each turn, which notes in the session's folder that it ran.
const NOTES: &str = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "echo ran >> ran"}}}]}
                               {:steps [{:delta "it "} {:delta "ran"}]}] :then :cycle}"#;

/// The hosts of the realm in the graph, beside what needs no engine.
const HOSTS: &str = "{:query \"[:psi.realm/host {:psi.realm/hosts [:psi.realm-host/name :psi.realm-host/build \
    :psi.realm-host/is-alive :psi.realm-host/lost-ms :psi.realm-host/sessions]}]\"}";

/// A host of the server's realm with a lease of three seconds.
fn host(server: &impl Engine, name: &str, share: &str, script: &str) -> Daemon {
    host_with(server, name, &format!(":share {share} :lease-ms 3000"), script)
}

fn host_with(server: &impl Engine, name: &str, more: &str, script: &str) -> Daemon {
    Daemon::new(member(server, name, more, script))
}

/// A setup whose configuration names the server's realm.
fn member(server: &impl Engine, name: &str, more: &str, script: &str) -> Setup {
    let setup = Setup::new().script(script);
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let realm = format!("{{:realm {{:engine {:?} :host {name:?} {more}}}}}", server.url().expose());
    std::fs::write(folder.join("config.edn"), realm).unwrap();
    setup
}

/// An answer that must come: asked again until there is no error.
fn ask(bridge: &mut Bridge, op: &str, params: &str) -> Owned {
    let answer = bridge.ask("a", op, params);
    assert_eq!(code(&answer), "", "{answer}");
    answer
}

/// The row of a session in the list of all hosts, once it is as wanted.
fn listed(bridge: &mut Bridge, session: &str, is_wanted: impl Fn(&Owned) -> bool) -> Owned {
    let found = Cell::new(None);
    let bridge = std::cell::RefCell::new(bridge);
    wait_until("the list has the session", || {
        let answer = ask(&mut bridge.borrow_mut(), "list_sessions", "{:scope \"all\"}");
        let rows = at(&answer, &["data", "sessions"]).and_then(Value::as_slice).unwrap_or_default();
        let row = rows.iter().find(|row| row.get("id").and_then(Value::as_str) == Some(session)).cloned();
        found.set(row.filter(&is_wanted));
        let row = found.take();
        let is_there = row.is_some();
        found.set(row);
        is_there
    });
    found.take().unwrap()
}

fn host_of(row: &Owned) -> &str {
    row.get("host").and_then(Value::as_str).unwrap_or_default()
}

fn is_lost(row: &Owned) -> bool {
    row.get("owner-lost").and_then(Value::as_bool) == Some(true)
}

/// For how long the engine has been away.
fn away_ms(bridge: &mut Bridge) -> i64 {
    let answer = ask(bridge, "query_eql", "{:query \"[:psi.realm/away-ms]\"}");
    at(&answer, &["data", "result", "psi.realm/away-ms"]).and_then(Value::as_i64).unwrap()
}

/// The texts of a session's messages.
fn texts(bridge: &mut Bridge) -> Vec<String> {
    let answer = ask(bridge, "get_messages", "{:limit 100}");
    let messages = at(&answer, &["data", "messages"]).and_then(Value::as_slice).unwrap();
    messages.iter().map(|message| message.get("content").unwrap().to_string()).collect()
}

fn question(bridge: &mut Bridge) -> Owned {
    bridge.until(|frame| is_event(frame, "interaction/requested"))
}

fn end_of_turn(bridge: &mut Bridge) -> Owned {
    bridge.until(|frame| is_event(frame, "turn/ended"))
}

fn switch(bridge: &mut Bridge, session: &str) {
    ask(bridge, "switch_session", &format!("{{:session-id {session:?}}}"));
}

/// A shared session of a host, with a name.
fn shared(bridge: &mut Bridge) -> String {
    ask(bridge, "set_session_name", "{:name \"shared\"}");
    session_of(bridge)
}

on_each_engine! {
    session_is_driven_from_another_host_and_taken_when_lost
}

fn session_is_driven_from_another_host_and_taken_when_lost<E: Engine>() {
    let Some(server) = E::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "it "} {:delta "ran"}]}] :then :cycle}"#;
    let (alpha, beta) = (host(&server, "alpha", ":all", NOTES), host(&server, "beta", ":all", says));
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let session = shared(&mut a);

    // Prompted and answered from the other host; its tool runs where the owner is.
    assert_eq!(host_of(&listed(&mut b, &session, |_| true)), "alpha");
    switch(&mut b, &session);
    let accepted = ask(&mut b, "prompt", "{:message \"from beta\" :idempotency-key \"k\"}");
    let asked = question(&mut b);
    assert_eq!(data(&question(&mut a), "interaction-id"), data(&asked, "interaction-id"));
    approve(&mut b, &asked);
    assert_eq!(data(&end_of_turn(&mut b), "outcome"), "completed");
    assert_eq!(std::fs::read_to_string(alpha.file("ran")).unwrap(), "ran\n");
    assert!(!beta.file("ran").exists());
    let again = ask(&mut b, "prompt", "{:message \"from beta\" :idempotency-key \"k\"}");
    assert_eq!(data(&again, "turn-id"), data(&accepted, "turn-id"));
    assert_eq!(at(&again, &["data", "duplicate"]).and_then(Value::as_bool), Some(true));
    let seen = texts(&mut b);
    assert_eq!(seen, texts(&mut a));
    assert_eq!(seen.len(), 4, "{seen:?}");

    // A living owner keeps it.
    let take = format!("{{:session-id {session:?}}}");
    assert_eq!(code(&b.ask("t", "take_session", &take)), "realm/owned");

    // Killed while a person is asked: what was acknowledged is there, and the question is asked by the new owner.
    ask(&mut b, "prompt", "{:message \"then\"}");
    let open = data(&question(&mut b), "interaction-id").to_owned();
    let give = format!("{{:session-id {session:?} :host \"beta\"}}");
    assert_eq!(code(&a.ask("g", "hand_over_session", &give)), "request/session-not-idle");
    signal(alpha.pid(), "-KILL");
    assert_eq!(a.wait().code(), Some(75));
    listed(&mut b, &session, is_lost);
    let keys = ["id", "host", "owner-lost", "name", "worktree-path", "is-streaming"];
    let keys = keys.map(|key| format!(":psi.realm-session/{key}")).join(" ");
    let graph = format!("{{:query \"[:psi.realm/host {{:psi.realm/sessions [{keys}]}}]\"}}");
    let graph = ask(&mut b, "query_eql", &graph).to_string();
    for known in [
        ":psi.realm/host \"beta\"".to_owned(),
        format!(":psi.realm-session/id {session:?}"),
        ":psi.realm-session/host \"alpha\"".to_owned(),
        ":psi.realm-session/owner-lost true".to_owned(),
        ":psi.realm-session/name \"shared\"".to_owned(),
        ":psi.realm-session/worktree-path \"/".to_owned(),
        ":psi.realm-session/is-streaming ".to_owned(),
    ] {
        assert!(graph.contains(&known), "{known} is not in {graph}");
    }
    let hosts = ask(&mut b, "query_eql", HOSTS);
    let hosts = at(&hosts, &["data", "result", "psi.realm/hosts"]).and_then(Value::as_slice).unwrap();
    let of = |host: &Owned, key: &str| host.get(&format!("psi.realm-host/{key}")).unwrap().clone();
    let shown = |host: &Owned| ["name", "build", "is-alive", "sessions"].map(|key| of(host, key).to_string());
    let build = format!("{:?}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        hosts.iter().map(shown).collect::<Vec<_>>(),
        [("alpha", "false", "1"), ("beta", "true", "0")].map(|(host, is_alive, sessions)| [
            format!("{host:?}"),
            build.clone(),
            is_alive.to_owned(),
            sessions.to_owned()
        ])
    );
    let lost = |host| of(host, "lost-ms").as_i64().unwrap();
    assert!(lost(&hosts[0]) > 0 && lost(&hosts[1]) == 0, "{hosts:?}");
    let refused = b.ask("p", "prompt", "{:message \"lost\"}");
    assert_eq!(code(&refused), "realm/owner-lost", "{refused}");
    assert_eq!(refused.get("retryable").and_then(Value::as_bool), Some(true));
    assert_eq!(texts(&mut b).len(), 6, "it can be read");
    b.skip_to_now();
    ask(&mut b, "take_session", &take);
    let asked = question(&mut b);
    assert_eq!(data(&asked, "interaction-id"), open);
    approve(&mut b, &asked);
    assert_eq!(data(&end_of_turn(&mut b), "outcome"), "completed");
    assert_eq!(std::fs::read_to_string(beta.file("ran")).unwrap(), "ran\n");
    assert_eq!(std::fs::read_to_string(alpha.file("ran")).unwrap(), "ran\n");
    let now = texts(&mut b);
    assert_eq!(now[..4], seen);
    assert_eq!(now.len(), 8, "{now:?}");
    server.assert_whole(&session);

    // Who was lost comes back, and follows.
    let mut a = alpha.setup.interactor();
    assert_eq!(host_of(&listed(&mut a, &session, |row| host_of(row) == "beta")), "beta");
    switch(&mut a, &session);
    assert_eq!(texts(&mut a), now);
}

#[test]
fn session_that_was_handed_over_goes_on_at_the_other_host() {
    let Some(server) = Server::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "here"}]}] :then :cycle}"#;
    let (alpha, beta) = (host(&server, "alpha", ":all", says), host(&server, "beta", ":all", says));
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let session = shared(&mut a);
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    let give = |host: &str| format!("{{:session-id {session:?} :host {host:?}}}");
    assert_eq!(code(&a.ask("g", "hand_over_session", &give("gamma"))), "runtime/failed");
    ask(&mut a, "hand_over_session", &give("beta"));
    let cwd = beta.setup.project();
    ask(&mut b, "take_session", &format!("{{:session-id {session:?} :cwd {cwd:?}}}"));
    listed(&mut a, &session, |row| host_of(row) == "beta");
    // Asked for at its former host, it is done at the new one.
    ask(&mut a, "prompt", "{:message \"go on\"}");
    assert_eq!(data(&end_of_turn(&mut b), "outcome"), "completed");
    let here = texts(&mut b);
    end_of_turn(&mut a);
    assert_eq!(texts(&mut a), here);
    server.assert_whole(&session);
}

#[test]
fn engine_that_is_away_holds_up_shared_sessions_alone() {
    let Some(mut server) = Server::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "said"}]}] :then :cycle}"#;
    let alpha = host(&server, "alpha", ":ask", says);
    let mut a = alpha.setup.interactor();
    ask(&mut a, "prompt", "{:message \"local\"}");
    end_of_turn(&mut a);
    assert_eq!(server.sql("SELECT count(*) FROM edn_bridge.session"), ["0"], "sharing is chosen");
    ask(&mut a, "command", "{:text \"/share\"}");
    let told = a.event("command-result");
    assert_eq!(data(&told, "type"), "text", "{told}");
    let session = session_of(&mut a);
    server.assert_whole(&session);

    server.stop();
    let shown = Cell::new(String::new());
    let cell = std::cell::RefCell::new(&mut a);
    wait_until("the host notices", || {
        let refused = cell.borrow_mut().ask("p", "prompt", "{:message \"away\"}");
        shown.set(code(&refused).to_owned());
        let refusal = shown.take();
        shown.set(refusal.clone());
        refusal == "realm/unreachable"
    });
    let hosts = ask(&mut a, "query_eql", HOSTS).to_string();
    assert!(hosts.contains(":errors") && hosts.contains(":psi.realm/host \"alpha\""), "{hosts}");
    let log = || std::fs::read_to_string(alpha.setup.state().join("daemon.log")).unwrap_or_default();
    let hints = "hints of the realm are not heard";
    wait_until("the log tells that no hints come", || log().contains(hints));
    let before = texts(&mut a);
    ask(&mut a, "new_session", "{}");
    ask(&mut a, "prompt", "{:message \"on this machine alone\"}");
    assert_eq!(data(&end_of_turn(&mut a), "outcome"), "completed");

    let refused = a.ask("d", "delete_session", &format!("{{:session-id {session:?}}}"));
    assert_eq!(code(&refused), "realm/unreachable", "{refused}");

    server.begin();
    switch(&mut a, &session);
    let cell = std::cell::RefCell::new(&mut a);
    wait_until("the host is in the realm again", || {
        code(&cell.borrow_mut().ask("p", "prompt", "{:message \"back\" :idempotency-key \"back\"}"))
            .is_empty()
    });
    end_of_turn(&mut a);
    let after = texts(&mut a);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 2, "{after:?}");
    server.assert_whole(&session);
    assert_eq!(log().matches(hints).count(), 1, "it is told once: {}", log());
}

#[test]
fn copy_is_read_while_the_engine_is_away_past_the_lease() {
    let Some(mut two) = crossing::Two::start(NOTES) else { return };
    let crossing::Two { server, alpha, a, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"before\"}");
    end_of_turn(b);
    end_of_turn(a);
    let before = texts(b);
    assert_eq!(away_ms(b), 0);
    server.stop();
    let again = "{:message \"again\" :idempotency-key \"k\"}";
    let cell = std::cell::RefCell::new((a, b));
    let is_over = |answer: &Owned| answer.to_string().contains("lease is over");
    wait_until("the owner's lease is over", || {
        let (a, b) = &mut *cell.borrow_mut();
        assert_eq!(texts(b), before);
        is_over(&a.ask("p", "set_mode", "{:mode \"yolo\"}"))
    });
    wait_until("it says for how long the engine has been away", || away_ms(cell.borrow_mut().1) > 3000);
    let (a, b) = cell.into_inner();
    let refused = b.ask("p", "prompt", again);
    assert_eq!(code(&refused), "realm/unreachable", "{refused}");
    assert_eq!(texts(b), before);

    server.begin();
    let cell = std::cell::RefCell::new((&mut *a, &mut *b));
    wait_until("the owner goes on", || {
        let (_, b) = &mut *cell.borrow_mut();
        code(&b.ask("p", "prompt", again)).is_empty()
    });
    wait_until("the engine is there", || away_ms(cell.borrow_mut().1) == 0);
    end_of_turn(b);
    end_of_turn(a);
    assert!(ask(b, "prompt", again).to_string().contains(":duplicate true"));
    let after = texts(b);
    assert_eq!((after[..before.len()].to_vec(), after.len()), (before, 8), "{after:?}");
    assert_eq!(texts(a), after);
    assert_eq!(std::fs::read_to_string(alpha.file("ran")).unwrap(), "ran\nran\n");
    server.assert_whole(session);
}

#[test]
fn clock_of_the_engine_set_back_delays_taking_alone() {
    let Some(mut two) = crossing::Two::start(NOTES) else { return };
    let crossing::Two { server, alpha, beta, a, b, session } = &mut two;
    let until = |name: &str| {
        server.sql(&format!(
            "SELECT until < clock_timestamp() + interval '1 minute' FROM edn_bridge.host WHERE name = '{name}'"
        ))
    };
    // What was written before looks as if it was to come.
    let set_back = |by: &str| {
        server.sql(&format!(
            "UPDATE edn_bridge.host SET until = until + interval '{by}'; \
             UPDATE edn_bridge.session SET changed = changed + interval '{by}'"
        ))
    };
    set_back("1 hour");
    // Who lives renews its lease by the new time, and goes on.
    wait_until("leases are as long as ever", || until("alpha") == ["t"] && until("beta") == ["t"]);
    ask(b, "prompt", "{:message \"go\"}");
    end_of_turn(b);
    end_of_turn(a);
    signal(alpha.pid(), "-KILL");
    set_back("8 seconds");
    let take = format!("{{:session-id {session:?} :cwd {:?}}}", beta.setup.project());
    let refused = b.ask("t", "take_session", &take);
    assert_eq!(code(&refused), "realm/owned", "{refused}");
    let cell = std::cell::RefCell::new(&mut *b);
    wait_until("its lease is over by that clock", || {
        let taken = cell.borrow_mut().ask("t", "take_session", &take);
        assert!(matches!(code(&taken), "" | "realm/owned"), "{taken}");
        code(&taken).is_empty()
    });
    ask(b, "prompt", "{:message \"again\"}");
    assert_eq!(data(&end_of_turn(b), "outcome"), "completed");
    server.assert_whole(session);
}

#[test]
fn copy_is_opened_and_exported_without_an_engine() {
    let Some(mut two) = crossing::Two::start(NOTES) else { return };
    let crossing::Two { server, beta, b, session, .. } = &mut two;
    ask(b, "prompt", "{:message \"words of a person\"}");
    end_of_turn(b);
    let before = texts(b);
    server.stop();
    let reads = |b: &mut Bridge, page: &str| {
        assert_eq!(texts(b), before);
        let exported = ask(b, "export_html", &format!("{{:path {page:?}}}"));
        let page = std::fs::read_to_string(data(&exported, "path")).unwrap();
        assert!(page.contains("words of a person"), "{page}");
        let found = ask(b, "list_sessions", "{:text \"words of a person\" :scope \"all\"}").to_string();
        assert!(found.contains(&*session), "{found}");
    };
    reads(b, "page.html");
    // By a process that has never reached it, too.
    b.kill();
    assert!(beta.control(&["stop", "--now"]).status.success());
    let mut b = beta.setup.interactor();
    switch(&mut b, session);
    reads(&mut b, "again.html");
}

#[test]
fn session_that_the_realm_lacks_is_not_written() {
    let Some(server) = Server::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "here"}]}] :then :cycle}"#;
    let alpha = host(&server, "alpha", ":all", says);
    let mut a = alpha.setup.interactor();
    let session = shared(&mut a);
    a.kill();
    assert!(alpha.control(&["stop", "--now"]).status.success());
    // The engine is set back to before the session was shared.
    server.sql("DELETE FROM edn_bridge.entry; DELETE FROM edn_bridge.session");
    let mut a = alpha.setup.interactor();
    let refused = a.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    assert!(code(&refused) == "runtime/failed" && refused.to_string().contains("was set back"), "{refused}");
    // A session of this machine alone does not notice.
    ask(&mut a, "new_session", "{}");
}

#[test]
fn tool_ends_with_the_lease_of_its_host() {
    let Some(mut server) = Server::start() else { return };
    let script = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command
        "echo $$ > pid; mv pid began; sleep 1000"}}}]}] :then :cycle}"#;
    // Long enough for a busy machine to renew it while the tool begins.
    let alpha = host_with(&server, "alpha", ":share :all :lease-ms 12000", script);
    let mut a = alpha.setup.interactor();
    ask(&mut a, "set_mode", "{:mode \"yolo\"}");
    ask(&mut a, "prompt", "{:message \"run\"}");
    wait_until("the tool runs", || alpha.file("began").exists());
    let tool: i64 = std::fs::read_to_string(alpha.file("began")).unwrap().trim().parse().unwrap();
    assert!(runs(tool));
    server.stop();
    wait_until("the tool is ended", || !runs(tool));
    let refused = a.ask("p", "prompt", "{:message \"more\"}");
    assert!(
        code(&refused).starts_with("realm/") || code(&refused) == "request/session-not-idle",
        "{refused}"
    );
}

#[test]
fn deleted_session_leaves_copies_to_their_machines() {
    let Some(server) = Server::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "said"}]}] :then :cycle}"#;
    let hosts = ["alpha", "beta"].map(|name| host(&server, name, ":all", says));
    let [mut a, mut b] = [&hosts[0], &hosts[1]].map(|host| host.setup.interactor());
    ask(&mut a, "prompt", "{:message \"words\"}");
    end_of_turn(&mut a);
    let session = session_of(&mut a);
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    let before = texts(&mut b);
    assert_eq!(before.len(), 2, "{before:?}");

    ask(&mut a, "new_session", "{}");
    // A host that begins to follow it just now is a client that shows it.
    let cell = std::cell::RefCell::new(&mut a);
    wait_until("it is deleted", || {
        let deleted = cell.borrow_mut().ask("d", "delete_session", &format!("{{:session-id {session:?}}}"));
        assert!(matches!(code(&deleted), "" | "request/session-not-idle"), "{deleted}");
        code(&deleted).is_empty()
    });
    assert_eq!(server.sql(&format!("SELECT deleted FROM edn_bridge.session WHERE id = '{session}'")), ["t"]);
    let gone = a.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    assert!(gone.to_string().contains("was deleted"), "{gone}");
    // The copy is this machine's alone, and goes on here.
    let cell = std::cell::RefCell::new(&mut b);
    wait_until("the copy is this machine's", || {
        code(&cell.borrow_mut().ask("p", "prompt", "{:message \"more\" :idempotency-key \"k\"}")).is_empty()
    });
    end_of_turn(&mut b);
    let after = texts(&mut b);
    assert_eq!((after[..2].to_vec(), after.len()), (before, 4), "{after:?}");
    assert_eq!(host_of(&listed(&mut b, &session, |_| true)), "");
    assert_eq!(
        server.sql(&format!("SELECT count(*) FROM edn_bridge.entry WHERE session = '{session}'")),
        ["0"]
    );

    // Its file says so: it is opened without the realm.
    b.kill();
    assert!(hosts[1].control(&["stop", "--now"]).status.success());
    drop(server);
    let mut b = hosts[1].setup.interactor();
    switch(&mut b, &session);
    ask(&mut b, "prompt", "{:message \"without a realm\"}");
    end_of_turn(&mut b);
    assert_eq!(texts(&mut b).len(), 6);
}

#[test]
fn lost_session_in_a_shared_folder_is_taken_by_one_host() {
    let Some(server) = Server::start() else { return };
    let auto = ":share :all :lease-ms 3000 :workspace :shared :takeover :auto";
    let says = r#"{:turns [{:steps [{:delta "it ran"}]}] :then :cycle}"#;
    let [alpha, beta, gamma] = [("alpha", NOTES), ("beta", says), ("gamma", says)]
        .map(|(name, script)| host_with(&server, name, auto, script));
    let [mut a, mut b, mut c] = [&alpha, &beta, &gamma].map(|host| host.setup.interactor());
    let session = shared(&mut a);
    let idle = {
        ask(&mut a, "new_session", "{}");
        shared(&mut a)
    };
    switch(&mut a, &session);
    listed(&mut b, &session, |_| true);
    listed(&mut c, &idle, |_| true);
    switch(&mut b, &session);
    ask(&mut a, "prompt", "{:message \"go\"}");
    let open = data(&question(&mut b), "interaction-id").to_owned();
    let shows_turn =
        format!("SELECT slot LIKE '%:streaming true%' FROM edn_bridge.session WHERE id = '{session}'");
    wait_until("the realm knows that a turn runs", || server.sql(&shows_turn) == ["t"]);
    b.skip_to_now();
    signal(alpha.pid(), "-KILL");

    let taken = listed(&mut b, &session, |row| matches!(host_of(row), "beta" | "gamma") && !is_lost(row));
    let owner = host_of(&taken).to_owned();
    let asked = question(&mut b);
    assert_eq!(data(&asked, "interaction-id"), open, "asked again by {owner}");
    approve(&mut b, &asked);
    assert_eq!(data(&end_of_turn(&mut b), "outcome"), "completed");
    // In the folder that they share, once.
    assert_eq!(std::fs::read_to_string(alpha.file("ran")).unwrap(), "ran\n");
    let row =
        |of: &str| server.sql(&format!("SELECT owner, epoch FROM edn_bridge.session WHERE id = '{of}'"));
    assert_eq!(row(&session), [format!("{owner}|2")], "one claim beyond the first");
    server.assert_whole(&session);
    // Nobody shows the other one, in which nothing ran: it waits for whoever wants it.
    assert_eq!(row(&idle), ["alpha|1"]);
    ask(&mut c, "take_session", &format!("{{:session-id {idle:?}}}"));
    assert_eq!(row(&idle), ["gamma|2"]);
}

#[test]
fn copy_needs_no_hints_and_takes_in_no_other_log() {
    let Some(server) = Server::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "said"}]}] :then :cycle}"#;
    let (alpha, beta) = (host(&server, "alpha", ":all", says), host(&server, "beta", ":all", says));
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let session = shared(&mut a);
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    for n in 0..4 {
        // Whoever listens is cut off, again and again.
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
        ask(&mut a, "prompt", &format!("{{:message \"{n}\"}}"));
        end_of_turn(&mut a);
    }
    let all = texts(&mut a);
    let cell = std::cell::RefCell::new(&mut b);
    wait_until("the copy has everything", || texts(&mut cell.borrow_mut()) == all);

    // Another entry stands where the copy has its last one, as in a backup that was restored and written to.
    let of = format!("WHERE session = '{session}'");
    server.sql(&format!(
        "UPDATE edn_bridge.entry SET id = 'other' {of} AND seq = (SELECT max(seq) FROM edn_bridge.entry {of}); \
         INSERT INTO edn_bridge.entry (session, seq, id, epoch, line) SELECT session, max(seq) + 1, 'next', 1, \
           (SELECT replace(line, '\"0\"', '\"never\"') FROM edn_bridge.entry {of} AND line LIKE '%\"0\"%') \
         FROM edn_bridge.entry {of} GROUP BY session; \
         UPDATE edn_bridge.session SET tail = tail + 1, tail_id = 'next' WHERE id = '{session}'"
    ));
    let log = beta.setup.state().join("daemon.log");
    wait_until("the copy stops", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("takes in nothing more"))
    });
    assert_eq!(texts(&mut b), all);
}

/// A daemon that is stopped alone cannot end its tools: their runners do.
#[test]
fn tool_of_a_stopped_daemon_ends_before_its_session_is_taken() {
    let Some(server) = Server::start() else { return };
    let script = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command
        "echo $$ > pid; mv pid began; sleep 1000"}}}]}] :then :cycle}"#;
    let alpha = host_with(&server, "alpha", ":share :all :lease-ms 9000", script);
    let beta = host(&server, "beta", ":all", script);
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let session = shared(&mut a);
    listed(&mut b, &session, |_| true);
    ask(&mut a, "set_mode", "{:mode \"yolo\"}");
    ask(&mut a, "prompt", "{:message \"run\"}");
    wait_until("the tool runs", || alpha.file("began").exists());
    let tool: i64 = std::fs::read_to_string(alpha.file("began")).unwrap().trim().parse().unwrap();
    // Longer than the deadline that it began with: renewals put that off.
    let renewed =
        "SELECT until > clock_timestamp() + interval '8 seconds' FROM edn_bridge.host WHERE name = 'alpha'";
    let first = server.sql("SELECT until FROM edn_bridge.host WHERE name = 'alpha'");
    for _ in 0..3 {
        let until = server.sql("SELECT until FROM edn_bridge.host WHERE name = 'alpha'");
        wait_until("the lease is renewed", || {
            server.sql("SELECT until FROM edn_bridge.host WHERE name = 'alpha'") != until
                && server.sql(renewed) == ["t"]
        });
    }
    assert!(first != server.sql("SELECT until FROM edn_bridge.host WHERE name = 'alpha'") && runs(tool));
    let daemon = alpha.pid();
    signal(daemon, "-STOP");
    let take = format!("{{:session-id {session:?}}}");
    let cell = std::cell::RefCell::new(&mut b);
    wait_until("the session is taken", || {
        let taken = cell.borrow_mut().ask("t", "take_session", &take);
        assert!(matches!(code(&taken), "" | "realm/owned"), "{taken}");
        code(&taken).is_empty()
    });
    assert!(!runs(tool), "it runs although another host owns its session");
    signal(daemon, "-CONT");
    listed(&mut a, &session, |row| host_of(row) == "beta");
}

/// Makes a folder one of a repository.
fn clone_of(folder: &std::path::Path, url: &str) {
    std::fs::create_dir_all(folder.join(".git")).unwrap();
    std::fs::write(folder.join(".git/config"), format!("[remote \"origin\"]\n\turl = {url}\n")).unwrap();
}

#[test]
fn taken_session_goes_on_in_a_folder_of_its_repository() {
    let Some(server) = Server::start() else { return };
    let says = r#"{:turns [{:steps [{:delta "said"}]}] :then :cycle}"#;
    let (alpha, beta) = (host(&server, "alpha", ":all", says), host(&server, "beta", ":all", says));
    clone_of(&alpha.setup.project(), "https://ann:token@example.org/ann/tool.git");
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let first = shared(&mut a);
    ask(&mut a, "new_session", "{}");
    let second = shared(&mut a);
    listed(&mut b, &second, |_| true);
    let slots = server.sql("SELECT string_agg(slot, ' ') FROM edn_bridge.session").concat();
    assert!(slots.contains("example.org/ann/tool") && !slots.contains("token"), "{slots}");
    a.kill();
    assert!(alpha.control(&["stop", "--now"]).status.success());
    // As on another machine: the folder is not there.
    std::fs::rename(alpha.setup.project(), alpha.setup.project().with_extension("gone")).unwrap();
    listed(&mut b, &second, is_lost);

    let take = |session: &str, more: &str| format!("{{:session-id {session:?} {more}}}");
    let refused = b.ask("t", "take_session", &take(&first, ""));
    assert_eq!(code(&refused), "request/invalid-params", "{refused}");
    assert!(refused.to_string().contains("example.org/ann/tool"), "{refused}");
    let other = tempfile::tempdir().unwrap();
    let folder = other.path().canonicalize().unwrap();
    clone_of(&folder, "git@example.org:ann/tool.git");
    ask(&mut b, "take_session", &take(&first, &format!(":cwd {folder:?}")));
    listed(&mut b, &first, |row| host_of(row) == "beta");
    let taken = ask(&mut b, "take_session", &take(&second, ""));
    assert_eq!(data(&taken, "cwd"), folder.to_str().unwrap(), "a folder that this host knows");
    assert!(
        listed(&mut b, &second, |row| host_of(row) == "beta").to_string().contains(folder.to_str().unwrap())
    );
}
