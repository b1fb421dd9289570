//! A session that is shared in part, because its host was killed meanwhile, is shared as a whole by its next start.

use std::cell::RefCell;

use crate::fixture::{END, session_of};
use crate::server::Server;
use crate::support::{data, files, wait_until};
use crate::{ask, assert_whole, end_of_turn, host, listed, switch, texts};

#[test]
fn session_shared_in_part_is_shared_whole_at_the_next_start() {
    let Some(server) = Server::start() else { return };
    let alpha = host(&server, "alpha", ":ask", END);
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
    let tail =
        || server.sql(&format!("SELECT tail FROM edn_bridge.session WHERE id = '{session}'"))[0].clone();
    assert_eq!(tail(), "2");

    let mut a = alpha.setup.interactor();
    wait_until("it is shared as a whole", || tail() != "2");
    assert_whole(&server, &session);
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
    assert_whole(&server, &session);
}
