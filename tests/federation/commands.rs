//! `/give` and `/take`, typed by a person.

use edn_bridge::value::Owned;

use crate::crossing::Two;
use crate::engines::Engine as _;
use crate::fixture::{END, signal};
use crate::support::{Bridge, code, data, wait_until};
use crate::{ask, end_of_turn, host_of, is_lost, listed, texts};

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
    let folder = |of: &crate::fixture::Daemon| of.setup.project().canonicalize().unwrap();
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
    assert_eq!(taken, format!("This host goes on with the session, in {} (as you said).", there.display()));
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
        format!("This host goes on with the session, in {} (the folder of this project).", folder.display())
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
