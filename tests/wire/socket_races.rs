//! Races for one question over the socket, with real connections: simultaneous answers, a client that leaves
//! during a question, one that does not read. `interaction_races.rs` has the seeded ones, in memory.

use crate::support;

use std::io::Write as _;
use std::sync::Barrier;

use edn_bridge::value::Owned;
use support::guest::{Guest, socket};
use support::{Bridge, Setup, at, code, data, is_event, kind};

const ASK: &str = r#"{:turns [{:steps [{:tool-call {:name "ask-user" :arguments {:question "Which?"}}}]}
                              {:steps [{:delta "end"}]}] :then :cycle}"#;

const COUNT: &str = "{:query \"[:psi.connection/count]\"}";

/// The editor asks and watches; it answers nothing.
fn bridge(script: &str) -> (Setup, Bridge) {
    let setup = Setup::new().script(script).arg("--durability").arg("relaxed");
    let bridge = setup.ready();
    (setup, bridge)
}

/// The next question's id.
fn question(guest: &mut Guest) -> String {
    let asked = guest.until(|frame| is_event(frame, "interaction/requested"));
    assert_eq!(data(&asked, "kind"), "ask");
    data(&asked, "interaction-id").to_owned()
}

fn answer(id: &str, text: &str) -> String {
    format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:text {text:?}}}}}")
}

/// What the model was told, once its turn is over.
fn result(bridge: &mut Bridge) -> String {
    let result = bridge.event("tool/result");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    data(&result, "result-text").to_owned()
}

#[test]
fn of_two_answers_in_the_same_instant_one_counts() {
    let (setup, mut bridge) = bridge(ASK);
    let path = socket(&setup.state());
    let mut guests = [Guest::interactor(&path), Guest::interactor(&path)];
    for round in 0..200 {
        bridge.request(&format!("p{round}"), "prompt", "{:message \"go\"}");
        let barrier = Barrier::new(2);
        let told: Vec<(bool, Owned)> = std::thread::scope(|scope| {
            let answering: Vec<_> = guests
                .iter_mut()
                .enumerate()
                .map(|(place, guest)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let id = question(guest);
                        barrier.wait();
                        let reply =
                            guest.ask("r", "interaction_respond", &answer(&id, &format!("guest {place}")));
                        let won = kind(&reply) == "response";
                        assert!(won || code(&reply) == "request/interaction-already-answered", "{reply}");
                        // Both are told how it ended, before or after their own answer.
                        let ended = guest.until(|frame| is_event(frame, "interaction/answered"));
                        assert_eq!(data(&ended, "interaction-id"), id);
                        (won, ended)
                    })
                })
                .collect();
            answering.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<usize> = (0..2).filter(|place| told[*place].0).collect();
        assert_eq!(winners.len(), 1, "round {round}: {told:?}");
        let said = format!("guest {}", winners[0]);
        for (_, ended) in &told {
            assert_eq!(data(ended, "status"), "accepted");
            assert_eq!(data(ended, "ext-id"), data(&told[0].1, "ext-id"), "both name the same winner");
            assert_eq!(at(ended, &["data", "value", "text"]).and_then(|text| text.as_str()), Some(&*said));
        }
        assert_eq!(result(&mut bridge), said, "round {round}");
    }
}

#[test]
fn interactor_that_leaves_keeps_question_for_other() {
    let (setup, mut bridge) = bridge(ASK);
    let path = socket(&setup.state());
    let mut stays = Guest::interactor(&path);
    for round in 0..120 {
        let mut leaves = Guest::interactor(&path);
        bridge.request(&format!("p{round}"), "prompt", "{:message \"go\"}");
        let id = question(&mut stays);
        assert_eq!(question(&mut leaves), id);
        let line = format!(
            "{{:id \"r\" :kind :request :op \"interaction_respond\" :params {}}}\n",
            answer(&id, "who left")
        );
        let sent = match round % 3 {
            0 => 0,
            1 => line.len() / 2,
            // Gone before it could see whether its answer counts.
            _ => line.len(),
        };
        leaves.stream.write_all(&line.as_bytes()[..sent]).unwrap();
        drop(leaves);
        let reply = stays.ask("r", "interaction_respond", &answer(&id, "who stayed"));
        let said = result(&mut bridge);
        match (kind(&reply), said.as_str()) {
            ("response", "who stayed") => {}
            ("error", "who left") if sent == line.len() => {
                assert_eq!(code(&reply), "request/interaction-already-answered");
            }
            other => panic!("round {round}: {other:?}\n{}", bridge.told()),
        }
    }
    // When the last one goes, nobody is left to wait for: the model is told so, and decides itself.
    bridge.request("last", "prompt", "{:message \"go\"}");
    question(&mut stays);
    drop(stays);
    let told = result(&mut bridge);
    assert!(told.contains("Nobody is there to ask"), "{told}");
}

#[test]
fn interactor_that_returns_is_asked_again() {
    let setup = Setup::new().script(ASK);
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, "{:interaction {:orphan-grace-ms 600000}}").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    for round in 0..20 {
        let mut leaves = Guest::interactor(&path);
        bridge.request(&format!("p{round}"), "prompt", "{:message \"go\"}");
        let id = question(&mut leaves);
        drop(leaves);
        // Only the editor is left, who answers nothing.
        let deadline = std::time::Instant::now() + support::PATIENCE;
        while !bridge.ask("c", "query_eql", COUNT).to_string().contains("{:psi.connection/count 1}") {
            assert!(std::time::Instant::now() < deadline, "who left is still counted\n{}", bridge.told());
        }
        let mut comes = Guest::interactor(&path);
        assert_eq!(question(&mut comes), id);
        assert_eq!(kind(&comes.ask("r", "interaction_respond", &answer(&id, "back"))), "response");
        assert_eq!(result(&mut bridge), "back");
    }
}

#[test]
fn client_that_does_not_read_blocks_nobody_and_misses_nothing() {
    const DELTAS: usize = 60_000;
    let script = format!(
        "{{:turns [{{:steps [{{:deltas {DELTAS} :of \"word \"}} \
                             {{:tool-call {{:name \"ask-user\" :arguments {{:question \"Which?\"}}}}}}]}} \
                   {{:steps [{{:delta \"end\"}}]}}]}}"
    );
    let (setup, mut bridge) = bridge(&script);
    let path = socket(&setup.state());
    let (mut slow, mut quick) = (Guest::interactor(&path), Guest::interactor(&path));
    bridge.request("p", "prompt", "{:message \"go\"}");
    // The quick one is asked and answers while the slow one has far more before it than a socket holds.
    let id = question(&mut quick);
    assert_eq!(kind(&quick.ask("r", "interaction_respond", &answer(&id, "quick"))), "response");
    assert_eq!(result(&mut bridge), "quick");
    // The slow one reads at last: all the text, the question, its end, and that it was slow.
    let (mut text, mut frames, mut joined, mut seen) = (0, 0, 0, Vec::new());
    let deadline = std::time::Instant::now() + support::PATIENCE;
    // It may be told more than once, and of the last part only with a later event.
    while !seen.contains(&"end") || joined < DELTAS + 1 - frames {
        assert!(std::time::Instant::now() < deadline, "{joined} joined, {frames} on their own, {seen:?}");
        let frame = slow.frame();
        if is_event(&frame, "assistant/delta") {
            text += data(&frame, "text").len();
            frames += 1;
        } else if is_event(&frame, "interaction/requested") {
            seen.push("asked");
        } else if is_event(&frame, "interaction/answered") {
            assert_eq!(data(&frame, "interaction-id"), id);
            seen.push("answered");
        } else if is_event(&frame, "diagnostic") {
            assert_eq!(data(&frame, "code"), "delivery/coalesced", "{frame}");
            let told = at(&frame, &["data", "detail", "joined"]).and_then(|count| count.as_i64());
            joined += usize::try_from(told.unwrap()).unwrap();
        } else if is_event(&frame, "assistant/message") && data(&frame, "text") == "end" {
            seen.push("end");
            slow.send("more", "subscribe", "{:topics [\"session/updated\"]}");
        } else if is_event(&frame, "session/updated") && seen.contains(&"end") {
            slow.send("more", "subscribe", "{:topics [\"session/updated\"]}");
        }
    }
    assert!(joined > 0, "it was not slow");
    assert_eq!(text, "word ".len() * DELTAS + "end".len());
    assert_eq!(seen, ["asked", "answered", "end"]);
    assert_eq!(
        code(&slow.ask("r", "interaction_respond", &answer(&id, "slow"))),
        "request/interaction-already-answered"
    );
}
