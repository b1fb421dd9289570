//! Checks of several clients of one server: each has its own event numbers and focus, all share the sessions,
//! and two may answer one question.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::peer::{Peer, payload, topic};
use super::events::session_of;
use super::questions::respond;
use super::sessions::{idle, last_answer, messages};
use super::tools::CALL;
use crate::value::Value;

const GUESTS: &[Need] =
    &[Need::Guests, Need::State, Need::Script, Need::Op("prompt"), Need::Op("get_messages")];
const ASKED: &[Need] = &[
    Need::Guests,
    Need::State,
    Need::Script,
    Need::Op("prompt"),
    Need::Op("interaction_respond"),
    Need::Feature("interactor"),
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "guest.same-session",
        about: "All clients with the same focus get the same events with the same offsets, each with its own numbers.",
        needs: GUESTS,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let mut guest = probe.guest(&[])?;
            guest.ask_ok("subscribe", "{:topics [\"assistant/message\"]}")?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            let told = |peer: &mut Peer| {
                peer.event("the answer", |topic, payload| {
                    topic == "assistant/message" && text(payload, "role") == "assistant"
                })
            };
            let (mine, theirs) = (told(&mut peer)?, told(&mut guest)?);
            for key in ["session-id", "offset", "turn-id", "entry-id", "text"] {
                ensure(payload(&mine).get(key) == payload(&theirs).get(key), || {
                    format!("the two are told another :{key}")
                })?;
            }
            let cause = theirs.get("id");
            ensure(cause.is_none(), || format!("another's request is told as the cause: {cause:?}"))?;
            let kept = (messages(&mut peer, "{}")?, messages(&mut guest, "{}")?);
            ensure(kept.0 == kept.1, || "the two see another conversation".to_owned())
        },
    },
    Check {
        name: "guest.own-subscription",
        about: "A client's subscription adds nothing to another client's events.",
        needs: GUESTS,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let mut guest = probe.guest(&[])?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            last_answer(&mut peer)?;
            idle(&mut peer)?;
            guest.barrier()?;
            let came = guest.take_events().len();
            ensure(came == 0, || format!("{came} events came to who subscribed to none"))
        },
    },
    Check {
        name: "guest.own-handshake",
        about: "A client's handshake makes only that client ready.",
        needs: GUESTS,
        run: |probe| {
            let _peer = probe.ready()?;
            let mut guest = probe.unready_guest()?;
            guest.ask_error("ping", "{}", "transport/not-ready").map(|_| ())
        },
    },
    Check {
        name: "guest.own-ids",
        about: "An id is pending on its own connection: two clients may use the same one.",
        needs: GUESTS,
        run: |probe| {
            let mut peer = probe.ready()?;
            let mut guest = probe.guest(&[])?;
            for n in 0..50 {
                let id = format!("same-{n}");
                peer.send_as(&id, "get_state", "{}");
                guest.send_as(&id, "get_state", "{}");
                peer.answer_ok(&id)?;
                guest.answer_ok(&id)?;
            }
            Ok(())
        },
    },
    Check {
        name: "guest.own-focus",
        about: "A client that switches to another session moves no other client.",
        needs: &[Need::Guests, Need::State, Need::Op("new_session"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let mut guest = probe.guest(&[])?;
            let session = session_of(&mut peer)?;
            ensure(session_of(&mut guest)? == session, || "the two begin apart".to_owned())?;
            guest.ask_ok("new_session", "{}")?;
            ensure(session_of(&mut guest)? != session, || "the guest did not move".to_owned())?;
            ensure(session_of(&mut peer)? == session, || "the other client was moved".to_owned())
        },
    },
    Check {
        name: "guest.slow-reader",
        about: "A client that does not read delays no other client.",
        needs: GUESTS,
        run: |probe| {
            let script = "{:turns [{:steps [{:deltas 10000 :of \"0123456789\"}]}]}";
            let mut peer = probe.ready_with(Some(script), &[])?;
            peer.ask_ok("subscribe", "{:topics [\"assistant/message\" \"session/updated\"]}")?;
            let mut guest = probe.guest(&[])?;
            guest.ask_ok("subscribe", "{:topics [\"assistant/delta\"]}")?;
            guest.pause_reading();
            peer.ask_ok("prompt", "{:message \"much\"}")?;
            let said = last_answer(&mut peer)?;
            ensure(said.len() == 100_000, || format!("{} bytes of text came", said.len()))?;
            guest.resume_reading();
            guest.barrier()
        },
    },
    Check {
        name: "guest.race",
        about: "All interactors are asked at once; the first answer wins, everybody learns who gave it, and another answer is request/interaction-already-answered.",
        needs: ASKED,
        run: race,
    },
    Check {
        name: "guest.dialog-beside-a-question",
        about: "A client with dialogs and one with typed questions get the same question; one answer ends it for both.",
        needs: &[
            Need::Guests,
            Need::State,
            Need::Script,
            Need::Op("prompt"),
            Need::Op("interaction_respond"),
            Need::Op("resolve_dialog"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let (mut peer, mut guest) =
                asked_beside(probe, &[], "[\"ui/dialog-requested\" \"interaction/answered\"]")?;
            let question = peer.topic("interaction/requested")?;
            let dialog = guest.topic("ui/dialog-requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            guest.topic("interaction/answered")?;
            let late = format!("{{:dialog-id {:?} :result true}}", text(payload(&dialog), "dialog-id"));
            guest.ask_error("resolve_dialog", &late, "request/interaction-already-answered")?;
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "guest.leaves",
        about: "An interactor that leaves during a question cancels nothing while another is connected.",
        needs: ASKED,
        run: |probe| {
            let (mut peer, mut guest) = asked_beside(probe, &["interactor"], "[]")?;
            guest.topic("interaction/requested")?;
            let question = peer.topic("interaction/requested")?;
            drop(guest);
            peer.barrier()?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
                "the call did not run".to_owned()
            })
        },
    },
    Check {
        name: "guest.last-leaves",
        about: "When the last interactor leaves, its question ends as if there had been none: the turn halts.",
        needs: ASKED,
        run: |probe| {
            let mut peer = probe.subscribed(Some(CALL))?;
            let mut guest = probe.guest(&["interactor"])?;
            guest.ask_ok("subscribe", "{}")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            guest.topic("interaction/requested")?;
            drop(guest);
            peer.event("a word of permission-required", |_, payload| {
                crate::edn::to_string(payload).contains("permission-required")
            })?;
            idle(&mut peer)
        },
    },
    Check {
        name: "guest.joins-late",
        about: "A client that becomes an interactor gets the open question too.",
        needs: ASKED,
        run: |probe| {
            let mut peer = probe.ready_with(Some(CALL), &["interactor"])?;
            peer.ask_ok("subscribe", "{}")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let mine = peer.topic("interaction/requested")?;
            let mut guest = probe.guest(&["interactor"])?;
            guest.ask_ok("subscribe", "{}")?;
            let theirs = guest.topic("interaction/requested")?;
            ensure(payload(&mine).get("interaction-id") == payload(&theirs).get("interaction-id"), || {
                "it is asked another question".to_owned()
            })?;
            respond(&mut guest, &theirs, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "guest.joins-too-late",
        about: "A client that becomes an interactor after the answer does not get the question.",
        needs: ASKED,
        run: |probe| {
            let mut peer = probe.ready_with(Some(CALL), &["interactor"])?;
            peer.ask_ok("subscribe", "{}")?;
            peer.ask_ok("prompt", "{:message \"call\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            peer.topic("interaction/answered")?;
            let mut guest = probe.guest(&["interactor"])?;
            guest.ask_ok("subscribe", "{}")?;
            guest.barrier()?;
            let asked = guest.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!asked, || "it is asked what was answered".to_owned())
        },
    },
    Check {
        name: "guest.leaves-unready",
        about: "A client that leaves without a handshake leaves nothing behind.",
        needs: GUESTS,
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            drop(probe.unready_guest()?);
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            last_answer(&mut peer)?;
            probe.guest(&[])?.barrier()
        },
    },
    Check {
        name: "guest.ends-nothing",
        about: "A client that leaves ends no turn of sessions in other clients' focus.",
        needs: GUESTS,
        run: |probe| {
            let script = "{:turns [{:steps [{:delta \"a\"} {:sleep-ms 200} {:delta \"b\"}]}]}";
            let mut peer = probe.ready_with(Some(script), &[])?;
            peer.ask_ok("subscribe", "{}")?;
            let mut guest = probe.guest(&[])?;
            guest.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.topic("assistant/delta")?;
            drop(guest);
            let said = last_answer(&mut peer)?;
            ensure(said == "ab", || format!("the answer is {said:?}"))
        },
    },
];

/// An interactor on the pipes, a guest in addition, and a question on its way.
fn asked_beside(probe: &Probe<'_>, features: &[&str], topics: &str) -> Result<(Peer, Peer), Stop> {
    let mut peer = probe.ready_with(Some(CALL), &["interactor"])?;
    peer.ask_ok("subscribe", "{}")?;
    let mut guest = probe.guest(features)?;
    guest.ask_ok("subscribe", &format!("{{:topics {topics}}}"))?;
    peer.ask_ok("prompt", "{:message \"call\"}")?;
    Ok((peer, guest))
}

fn race(probe: &Probe<'_>) -> Result<(), Stop> {
    // They may arrive in either order.
    for guest_first in [false, true] {
        let (mut peer, mut guest) = asked_beside(probe, &["interactor"], "[]")?;
        let (mine, theirs) = (peer.topic("interaction/requested")?, guest.topic("interaction/requested")?);
        let id = text(payload(&mine), "interaction-id").to_owned();
        ensure(text(payload(&theirs), "interaction-id") == id, || {
            "the two are asked another question".to_owned()
        })?;
        let answer = format!(
            "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
        );
        let (first, second) = if guest_first { (&mut guest, &mut peer) } else { (&mut peer, &mut guest) };
        first.ask_ok("interaction_respond", &answer)?;
        second.ask_error("interaction_respond", &answer, "request/interaction-already-answered")?;
        let told = [first.topic("interaction/answered")?, second.topic("interaction/answered")?];
        let by = told.each_ref().map(|told| text(payload(told), "ext-id"));
        ensure(!by[0].is_empty() && by[0] == by[1], || format!("it is told as answered by {by:?}"))?;
        let result = peer.topic("tool/result")?;
        ensure(text(payload(&result), "result-text").contains("contract"), || {
            "the call did not run".to_owned()
        })?;
        peer.barrier()?;
        let again = peer.take_events().iter().any(|event| topic(event) == "interaction/answered");
        ensure(!again, || "the answer was told twice".to_owned())?;
    }
    Ok(())
}
