//! What a kill or a lost claim leaves of a session that is shared: one that is shared in part is shared as a whole by its
//! host's next start; what the realm did not take is kept for a person. Who looks at it from elsewhere is counted for that.

use std::cell::RefCell;

use edn_bridge::edn;
use edn_bridge::value::Value;

use super::{ask, end_of_turn, host, listed, switch, texts};
use crate::fixture::{Daemon, END, session_of};
use crate::server::{Engine as _, Server};
use crate::support::{code, data, files, wait_until};

/// A session of a stopped host, of which the realm has the first two entries and the host's file has all.
struct InPart {
    session: String,
    /// The texts of its messages.
    whole: Vec<String>,
}

fn shared_in_part(server: &Server, alpha: &Daemon) -> InPart {
    let mut a = alpha.setup.interactor();
    for message in ["first", "second", "third"] {
        ask(&mut a, "prompt", &format!("{{:message {message:?}}}"));
        end_of_turn(&mut a);
    }
    let session = session_of(&mut a);
    let whole = texts(&mut a);
    let path = files(&alpha.setup.state()).into_iter().find(|path| {
        path.extension().is_some_and(|extension| extension == "edn")
            && path.to_string_lossy().contains(&session)
    });
    let path = path.unwrap();
    let alone = std::fs::read(&path).unwrap();
    ask(&mut a, "command", "{:text \"/share\"}");
    assert_eq!(data(&a.event("command-result"), "type"), "text");
    a.kill();
    assert!(alpha.control(&["stop", "--now"]).status.success());

    // As a kill in the middle leaves it: its file says nothing yet, and the realm has the first entries alone.
    std::fs::write(&path, &alone).unwrap();
    let of = format!("session = '{session}'");
    server.sql(&format!("DELETE FROM edn_bridge.entry WHERE {of} AND seq > 2"));
    server.sql(&format!(
        "UPDATE edn_bridge.session SET owner = 'alpha', slot = '', tail = 2, \
         tail_id = (SELECT id FROM edn_bridge.entry WHERE {of} AND seq = 2) WHERE id = '{session}'"
    ));
    assert_eq!(tail(server, &session), "2");
    InPart { session, whole }
}

fn tail(server: &Server, session: &str) -> String {
    server.sql(&format!("SELECT tail FROM edn_bridge.session WHERE id = '{session}'")).concat()
}

#[test]
fn session_shared_in_part_is_shared_whole_at_the_next_start() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":ask", END);
    let InPart { session, whole } = shared_in_part(&server, &alpha);
    let mut a = alpha.setup.interactor();
    wait_until("it is shared as a whole", || tail(&server, &session) != "2");
    server.assert_whole(&session);
    let beta = host(&server, "beta", ":ask", END);
    let mut b = beta.setup.interactor();
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    let cell = RefCell::new(&mut b);
    wait_until("the other host has it all", || texts(&mut cell.borrow_mut()) == whole);
    // It goes on, on either host.
    switch(&mut a, &session);
    ask(&mut b, "prompt", "{:message \"fourth\"}");
    assert_eq!(data(&end_of_turn(&mut b), "outcome"), "completed");
    end_of_turn(&mut a);
    assert_eq!(texts(&mut a), texts(&mut b));
    server.assert_whole(&session);
}

#[test]
fn prompt_that_the_realm_did_not_take_is_kept_whole() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let mut a = alpha.setup.interactor();
    let session = super::shared(&mut a);
    // Another host has the session from just before the append is carried out.
    let takes = format!(
        "DO $$ BEGIN PERFORM FROM edn_bridge.session WHERE id = '{session}' FOR UPDATE; \
         PERFORM pg_advisory_lock(1); \
         WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
           AND query LIKE '%INSERT INTO edn_bridge.entry%' AND pid <> pg_backend_pid()) \
         LOOP PERFORM pg_stat_clear_snapshot(), pg_sleep(0.005); END LOOP; \
         UPDATE edn_bridge.session SET owner = 'beta', epoch = epoch + 1 WHERE id = '{session}'; END $$"
    );
    let text = "first line\nsecond \u{1f980} \"quoted\" \\ line\n".repeat(200);
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| server.sql(&takes));
        let holds = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        wait_until("the session is held", || server.sql(holds) == ["1"]);
        let mut message = Vec::new();
        edn::write_compact(&Value::from(text.as_str()), &mut message);
        let refused = a.ask("p", "prompt", &format!("{{:message {}}}", String::from_utf8(message).unwrap()));
        assert!(
            !code(&refused).is_empty() && refused.to_string().contains("nothing was saved here"),
            "{refused}"
        );
        taking.join().unwrap();
    });
    let path = alpha.setup.state().join(format!("lost/{session}.edn"));
    wait_until("it is kept", || path.exists());
    let kept = std::fs::read_to_string(&path).unwrap();
    let is_it = |line: &str| {
        let entry = edn::read_one(line.as_bytes()).unwrap().into_owned();
        entry.to_string().contains(&Value::from(text.as_str()).to_string())
    };
    assert_eq!(kept.lines().filter(|line| is_it(line)).count(), 1, "{kept}");
    let in_realm =
        format!("SELECT count(*) FROM edn_bridge.entry WHERE session = '{session}' AND line LIKE '%second%'");
    assert_eq!(server.sql(&in_realm), ["0"]);
}

#[test]
fn turn_keeps_all_that_it_could_not_save_in_order() {
    let Some(mut server) = Server::start() else { return };
    let call = "{:tool-call {:name \"bash\" :arguments {:command \"until [ -e go ]; do sleep 0.01; done\"}}}";
    let script = format!("{{:turns [{{:steps [{}]}}]}}", call.repeat(4));
    let alpha = host(&server, "alpha", ":all", &script);
    let mut a = alpha.setup.interactor();
    let session = super::shared(&mut a);
    ask(&mut a, "set_mode", "{:mode \"yolo\"}");
    ask(&mut a, "prompt", "{:message \"run\"}");
    for _ in 0..4 {
        a.event("tool/executing");
    }
    server.stop();
    std::fs::write(alpha.file("go"), "").unwrap();
    // The first result waits for the engine until the lease is over; all others come after that.
    end_of_turn(&mut a);
    let kept = std::fs::read_to_string(alpha.setup.state().join(format!("lost/{session}.edn"))).unwrap();
    for call in 1..=4 {
        assert_eq!(kept.matches(&format!(":tool-call-id \"call-{call}\"")).count(), 1, "{kept}");
    }
    let last = kept.lines().next_back().unwrap();
    assert!(last.contains(":event \"ended\""), "{kept}");
    // An id tells when its entry was made.
    let id = |line: &str| {
        let entry = edn::read_one(line.as_bytes()).unwrap().into_owned();
        entry.get("id").and_then(Value::as_str).unwrap().to_owned()
    };
    assert!(kept.lines().map(id).is_sorted(), "{kept}");
}

#[test]
fn host_whose_clients_only_look_answers_no_question() {
    let Some(server) = Server::start() else { return };
    let asks =
        r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "true"}}}]}] :then :cycle}"#;
    let (alpha, beta) = (host(&server, "alpha", ":all", asks), host(&server, "beta", ":all", END));
    let (mut a, mut b) = (alpha.setup.ready(), beta.setup.ready());
    let session = super::shared(&mut a);
    listed(&mut b, &session, |_| true);
    switch(&mut b, &session);
    let query = "{:query \"[{:psi.connection/list [:psi.connection/is-interactor]}]\"}";
    let cell = RefCell::new(&mut a);
    wait_until("the owner knows who looks", || {
        let all = ask(&mut cell.borrow_mut(), "query_eql", query).to_string();
        all.matches("is-interactor").count() == 2 && !all.contains("true}")
    });
    // As where nobody looks at all: it waits for no answer.
    ask(&mut a, "subscribe", "{:topics [\"turn/ended\"]}");
    ask(&mut a, "prompt", "{:message \"run\"}");
    let ended = end_of_turn(&mut a).to_string();
    assert!(ended.contains("permission-required"), "{ended}");
}

#[test]
fn entry_that_waits_while_the_session_is_lost_is_kept() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":all", END);
    let mut a = alpha.setup.interactor();
    let session = super::shared(&mut a);
    // Who asks for entries waits until it is let go.
    server.sql("CREATE TABLE go (on_with_it boolean)");
    let blocks = "DO $$ BEGIN LOCK TABLE edn_bridge.entry IN ACCESS EXCLUSIVE MODE; PERFORM pg_advisory_lock(1); \
         WHILE NOT EXISTS (SELECT FROM go) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$";
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND query LIKE '%edn_bridge.entry%' AND state = 'active'";
    std::thread::scope(|scope| {
        let blocking = scope.spawn(|| server.sql(blocks));
        let holds = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        wait_until("the entries are held", || server.sql(holds) == ["1"]);
        let takes = format!(
            "UPDATE edn_bridge.session SET owner = 'beta', epoch = epoch + 1, changed = clock_timestamp() \
             WHERE id = '{session}'"
        );
        server.sql(&takes);
        wait_until("the owner asks whether it is one", || server.sql(waits) != ["0"]);
        a.request("p", "prompt", "{:message \"too late\"}");
        // The session has the prompt by then.
        a.ask("i", "ping", "{}");
        server.sql("INSERT INTO go VALUES (true)");
        blocking.join().unwrap();
    });
    let refused = a.answer("p");
    assert!(!code(&refused).is_empty(), "{refused}");
    let kept = std::fs::read_to_string(alpha.setup.state().join(format!("lost/{session}.edn"))).unwrap();
    assert_eq!(kept.matches("too late").count(), 1, "{kept}");
}
