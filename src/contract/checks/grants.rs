//! Checks of permissions from a person: for one call outside a stage's tools, or for later calls.

use super::super::check::{Check, Need, Probe, Stop, ensure, text};
use super::super::launch::Config;
use super::super::peer::{Peer, payload, topic};
use super::events::session_of;
use super::hooks::hooks;
use super::questions::{QUESTIONS, respond};
use super::room::Room;
use super::sessions::{idle, last_answer};
use super::workflows::{NEEDS, begin, call, ended, staged, with_workflow};
use crate::value::Value;

/// A stage with its own tool, and none that writes.
const READER: &str = "{:stages [{:id :a :body \"x\" :tools [\"read\"]}]}";

const TEXT: &str = "{:steps [{:delta \"end\"}]}";

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "grant.asked",
        about: "A call outside its stage's tools needs a grant first; the question names execution, attempt, proposal, tool and digest, but not the arguments themselves.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-asked", "")?;
            let mut peer = staged(probe, &script(&[&write(&room, "out", "1")]), READER)?;
            begin(&mut peer, "/workflow contract")?;
            let question = peer.topic("interaction/requested")?;
            let asked = Asked::of(&question)?;
            ensure(asked.tool == "write" && asked.attempt == 0, || {
                format!("it asks for {} in attempt {}", asked.tool, asked.attempt)
            })?;
            ensure(!asked.digest.contains(&room.path("out")), || {
                "the digest tells the arguments".to_owned()
            })?;
            ensure(!text(payload(&question), "correlation-id").is_empty(), || {
                ":correlation-id is missing".to_owned()
            })
        },
    },
    Check {
        name: "grant.approved",
        about: "A granted call runs without a further question, whatever the mode.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-approved", "")?;
            let mut peer = staged(probe, &script(&[&write(&room, "out", "1")]), READER)?;
            begin(&mut peer, "/workflow contract")?;
            grant(&mut peer, "approve")?;
            let result = peer.topic("tool/result")?;
            ensure(payload(&result).get("is-error") == Some(&Value::Bool(false)), || {
                "the granted call did not run".to_owned()
            })?;
            ended(&mut peer)?;
            let again = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!again, || "the person was asked twice".to_owned())?;
            ensure(room.read("out").as_deref() == Some("1"), || "nothing was written".to_owned())
        },
    },
    Check {
        name: "grant.used-once",
        about: "A repeated call is a new proposal with the same digest, and needs its own grant.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-once", "")?;
            let step = append(&room, "out");
            let mut peer = staged(probe, &script(&[&step, &step]), READER)?;
            begin(&mut peer, "/workflow contract")?;
            let first = grant(&mut peer, "approve")?;
            let second = grant(&mut peer, "deny")?;
            ended(&mut peer)?;
            ensure(first.proposal != second.proposal, || "it is the same proposal".to_owned())?;
            ensure(first.digest == second.digest, || "the digest is not of the arguments".to_owned())?;
            ensure(room.read("out").as_deref() == Some("x\n"), || {
                format!("what was written is {:?}", room.read("out"))
            })
        },
    },
    Check {
        name: "grant.other-arguments",
        about: "A call with other arguments has another digest, and the first grant does not cover it.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-other", "")?;
            let calls = [write(&room, "out", "1"), write(&room, "out", "2")];
            let mut peer = staged(probe, &script(&[&calls[0], &calls[1]]), READER)?;
            begin(&mut peer, "/workflow contract")?;
            let first = grant(&mut peer, "approve")?;
            let second = grant(&mut peer, "deny")?;
            ended(&mut peer)?;
            ensure(first.digest != second.digest, || "the digest is the same".to_owned())?;
            ensure(room.read("out").as_deref() == Some("1"), || {
                format!("what was written is {:?}", room.read("out"))
            })
        },
    },
    Check {
        name: "grant.denied",
        about: "A denied or deferred grant gives a denied-tool-call result with the note, and the model continues.",
        needs: NEEDS,
        run: |probe| {
            for outcome in ["deny", "defer"] {
                let room = Room::new("grant-denied", "")?;
                let mut peer = staged(probe, &script(&[&write(&room, "out", "1")]), READER)?;
                begin(&mut peer, "/workflow contract")?;
                grant(&mut peer, outcome)?;
                let result = peer.topic("tool/result")?;
                denied(&result)?;
                ensure(text(payload(&result), "result-text").contains("be careful"), || {
                    format!("the note is lost after {outcome}")
                })?;
                let said = last_answer(&mut peer)?;
                ensure(said == "end", || format!("the model went on with {said:?}"))?;
                ensure(room.read("out").is_none(), || "the call ran".to_owned())?;
            }
            Ok(())
        },
    },
    Check {
        name: "grant.misshapen",
        about: "An answer without a decision is request/invalid-params, and the question stays open.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-shape", "")?;
            let mut peer = staged(probe, &script(&[&write(&room, "out", "1")]), READER)?;
            begin(&mut peer, "/workflow contract")?;
            let question = peer.topic("interaction/requested")?;
            let id = text(payload(&question), "interaction-id").to_owned();
            for value in ["{:outcome \"perhaps\"}", "{:ok true}", "{}"] {
                let params = format!("{{:interaction-id {id:?} :status \"accepted\" :value {value}}}");
                peer.ask_error("interaction_respond", &params, "request/invalid-params")?;
            }
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\"}")
        },
    },
    Check {
        name: "grant.next-attempt",
        about: "The next attempt starts without grants: the same call needs a new one, in the same execution.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-attempt", "")?;
            let step = append(&room, "out");
            let workflow = format!(
                "{{:stages [{{:id :a :body \"x\" :retry {{:max-attempts 2}} :assert [{{:command \"test -e {0} || {{ touch {0}; false; }}\"}}]}}]}}",
                room.path("tried")
            );
            let mut peer = staged(probe, &turns(&[&step, TEXT, &step, TEXT]), &workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let first = grant(&mut peer, "approve")?;
            let second = grant(&mut peer, "deny")?;
            ended(&mut peer)?;
            ensure((first.attempt, second.attempt) == (0, 1), || {
                format!("the attempts are told as {} and {}", first.attempt, second.attempt)
            })?;
            ensure(first.execution == second.execution, || "the execution changed".to_owned())?;
            ensure(first.proposal != second.proposal, || "it is the same proposal".to_owned())
        },
    },
    Check {
        name: "grant.sibling-stage",
        about: "Another stage is another execution, and no grant carries over.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-sibling", "")?;
            let step = append(&room, "out");
            let workflow = "{:stages [{:id :a :body \"x\"} {:id :b :body \"x\"}]}";
            let mut peer = staged(probe, &turns(&[&step, TEXT, &step, TEXT]), workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let first = grant(&mut peer, "approve")?;
            let second = grant(&mut peer, "deny")?;
            ended(&mut peer)?;
            ensure(first.execution != second.execution, || "it is the same execution".to_owned())?;
            ensure(second.attempt == 0, || format!("the attempt is {}", second.attempt))
        },
    },
    Check {
        name: "grant.in-assert",
        about: "The stage's assertions get the person's decision, with the note.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-assert", "")?;
            let workflow = format!(
                "{{:stages [{{:id :a :body \"x\" :assert [{{:command \"cat > {}\"}}]}}]}}",
                room.path("facts")
            );
            let mut peer = staged(probe, &script(&[&append(&room, "out")]), &workflow)?;
            begin(&mut peer, "/workflow contract")?;
            let asked = grant(&mut peer, "approve")?;
            ended(&mut peer)?;
            let facts = room.read("facts").unwrap_or_default();
            for due in ["\"approve\"", "be careful", asked.proposal.as_str()] {
                ensure(facts.contains(due), || format!("{due} is not among the facts {facts:?}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "grant.stage-tools-are-free",
        about: "A call of the stage's own tools needs no approval.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-own", "")?;
            let workflow = "{:stages [{:id :a :body \"x\" :tools [\"bash\"]}]}";
            let mut peer = staged(probe, &script(&[&append(&room, "out")]), workflow)?;
            begin(&mut peer, "/workflow contract")?;
            ended(&mut peer)?;
            let asked = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!asked, || "the person was asked".to_owned())?;
            ensure(room.read("out").is_some(), || "the call did not run".to_owned())
        },
    },
    Check {
        name: "grant.guard-wins",
        about: "A guard's deny also ends a granted call, and a call of the stage's own tools.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-guard", "")?;
            let guard = ":id \"never\" :stage :tool-call :point :pre :kind :guard";
            let config = hooks(&[(guard, "echo '{:decision :deny :reason \"the guard says no\"}'")]);
            for tools in ["[]", "[\"bash\"]"] {
                let workflow = format!("{{:stages [{{:id :a :body \"x\" :tools {tools}}}]}}");
                let config = Config { workflows: vec![("contract", workflow)], ..config.clone() };
                let mut peer =
                    probe.configured(&script(&[&append(&room, "out")]), &config, &["interactor"])?;
                begin(&mut peer, "/workflow contract")?;
                if tools == "[]" {
                    grant(&mut peer, "approve")?;
                }
                let result = peer.topic("tool/result")?;
                ensure(text(payload(&result), "result-text").contains("the guard says no"), || {
                    "the guard was not asked".to_owned()
                })?;
            }
            ensure(room.read("out").is_none(), || "the call ran".to_owned())
        },
    },
    Check {
        name: "grant.headless",
        about: "Without an interactor a grant is denied: the model gets the denied result, and its turn continues.",
        needs: NEEDS,
        run: |probe| {
            let room = Room::new("grant-headless", "")?;
            let config = with_workflow(READER);
            let mut peer = probe.configured(&script(&[&write(&room, "out", "1")]), &config, &[])?;
            begin(&mut peer, "/workflow contract")?;
            let result = peer.topic("tool/result")?;
            denied(&result)?;
            let said = last_answer(&mut peer)?;
            ensure(said == "end", || format!("the model went on with {said:?}"))?;
            ensure(room.read("out").is_none(), || "the call ran".to_owned())
        },
    },
    Check {
        name: "grant.gone-after-a-restart",
        about: "No grant survives the process: a resumed run asks again, in another execution.",
        needs: &[
            Need::Script,
            Need::State,
            Need::Config,
            Need::Op("command"),
            Need::Op("switch_session"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: after_a_restart,
    },
    Check {
        name: "grant.standing-once",
        about: "A single approval covers only that call: the same call is asked about again.",
        needs: QUESTIONS,
        run: |probe| {
            let room = Room::new("standing-once", "")?;
            let step = append(&room, "out");
            let mut peer = approving(probe, &turns(&[&step, &step, TEXT]))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            for _ in 0..2 {
                let question = peer.topic("interaction/requested")?;
                respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"once\"}")?;
            }
            last_answer(&mut peer).map(|_| ())
        },
    },
    Check {
        name: "grant.standing-session",
        about: "An approval for the session covers the same call in that session only.",
        needs: &[
            Need::Script,
            Need::Op("prompt"),
            Need::Op("new_session"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let room = Room::new("standing-session", "")?;
            let step = append(&room, "out");
            let mut peer = approving(probe, &turns(&[&step, &step, TEXT, &step, TEXT]))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"session\"}")?;
            last_answer(&mut peer)?;
            idle(&mut peer)?;
            peer.barrier()?;
            let again = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!again, || "the same call is asked about again".to_owned())?;
            ensure(room.read("out").as_deref() == Some("x\nx\n"), || "a call did not run".to_owned())?;
            peer.ask_ok("new_session", "{}")?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            peer.topic("interaction/requested").map(|_| ())
        },
    },
    Check {
        name: "grant.standing-other-call",
        about: "An approval for the session covers only what the question showed: another call is asked about.",
        needs: QUESTIONS,
        run: |probe| {
            let room = Room::new("standing-other", "")?;
            let other = call("write", &format!("{{:path {:?} :content \"1\"}}", room.path("other")));
            let mut peer = approving(probe, &turns(&[&append(&room, "out"), &other, TEXT]))?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"session\"}")?;
            let question = peer.topic("interaction/requested")?;
            let asked = payload(&question).get("payload").map(|asked| text(asked, "tool").to_owned());
            ensure(asked.as_deref() == Some("write"), || format!("{asked:?} is asked about"))
        },
    },
    Check {
        name: "grant.standing-rule",
        about: "An approval that is kept as a rule also applies in later processes.",
        needs: &[
            Need::Script,
            Need::State,
            Need::Op("prompt"),
            Need::Op("interaction_respond"),
            Need::Feature("interactor"),
        ],
        run: |probe| {
            let room = Room::new("standing-rule", "")?;
            let step = append(&room, "out");
            let script = turns(&[&step, TEXT]);
            let mut peer = approving(probe, &script)?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            let question = peer.topic("interaction/requested")?;
            respond(&mut peer, &question, "accepted", "{:outcome \"approve\" :scope \"rule\"}")?;
            last_answer(&mut peer)?;
            peer.close_input();
            peer.wait_exit()?;
            let mut peer = approving(probe, &script)?;
            peer.ask_ok("prompt", "{:message \"go\"}")?;
            last_answer(&mut peer)?;
            let asked = peer.take_events().iter().any(|event| topic(event) == "interaction/requested");
            ensure(!asked, || "the rule was not kept".to_owned())?;
            ensure(room.read("out").as_deref() == Some("x\nx\n"), || "a call did not run".to_owned())
        },
    },
];

/// The call of a grant question.
struct Asked {
    execution: String,
    attempt: i64,
    proposal: String,
    tool: String,
    digest: String,
}

impl Asked {
    fn of(question: &Value<'static>) -> Result<Self, Stop> {
        let asked = payload(question);
        ensure(text(asked, "kind") == "grant-stage-tool", || {
            format!("the kind is {:?}", text(asked, "kind"))
        })?;
        let grant = asked.get("payload").unwrap_or(&Value::Nil);
        let word = |key: &str| text(grant, key).to_owned();
        let found = Self {
            execution: word("stage-execution-id"),
            attempt: grant.get("attempt").and_then(Value::as_i64).unwrap_or(-1),
            proposal: word("proposal-id"),
            tool: word("tool"),
            digest: word("args-digest"),
        };
        let bound = [&found.execution, &found.proposal, &found.tool, &found.digest];
        ensure(bound.iter().all(|bound| !bound.is_empty()), || {
            "a part of what it is bound to is missing".to_owned()
        })?;
        Ok(found)
    }
}

/// Waits for the question and answers it, with a note.
fn grant(peer: &mut Peer, outcome: &str) -> Result<Asked, Stop> {
    let question = peer.topic("interaction/requested")?;
    let asked = Asked::of(&question)?;
    let id = text(payload(&question), "interaction-id").to_owned();
    let params = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome {outcome:?}}} :note \"be careful\"}}"
    );
    peer.ask_ok("interaction_respond", &params)?;
    Ok(asked)
}

/// The result of a refused call, with its type for the model.
fn denied(result: &Value<'static>) -> Result<(), Stop> {
    ensure(payload(result).get("is-error") == Some(&Value::Bool(true)), || {
        ":is-error is not true".to_owned()
    })?;
    let said = crate::edn::to_string(payload(result));
    ensure(said.contains("denied-tool-call"), || format!("the refusal is not typed: {said}"))
}

/// A client that gets a question before a call runs.
fn approving(probe: &Probe<'_>, script: &str) -> Result<Peer, Stop> {
    let mut peer = probe.ready_with(Some(script), &["interactor"])?;
    peer.ask_ok("subscribe", "{}")?;
    Ok(peer)
}

fn write(room: &Room, name: &str, content: &str) -> String {
    call("write", &format!("{{:path {:?} :content {content:?}}}", room.path(name)))
}

/// A call that appends a line each time it runs.
fn append(room: &Room, name: &str) -> String {
    call("bash", &format!("{{:command {:?}}}", format!("echo x >> {}", room.path(name))))
}

/// These calls in sequence, and an answer.
fn script(calls: &[&str]) -> String {
    turns(&[calls, &[TEXT]].concat())
}

fn turns(turns: &[&str]) -> String {
    format!("{{:turns [{}]}}", turns.join(" "))
}

fn after_a_restart(probe: &Probe<'_>) -> Result<(), Stop> {
    let room = Room::new("grant-restart", "")?;
    let config = with_workflow(READER);
    let script = script(&[&write(&room, "out", "1")]);
    let mut peer = probe.configured(&script, &config, &["interactor"])?;
    begin(&mut peer, "/workflow contract")?;
    let question = peer.topic("interaction/requested")?;
    let first = Asked::of(&question)?;
    let session = session_of(&mut peer)?;
    peer.kill();
    let mut peer = probe.configured(&script, &config, &["interactor"])?;
    peer.ask_ok("switch_session", &format!("{{:session-id {session:?}}}"))?;
    let late = format!(
        "{{:interaction-id {:?} :status \"accepted\" :value {{:outcome \"approve\"}}}}",
        text(payload(&question), "interaction-id")
    );
    peer.ask_error("interaction_respond", &late, "request/not-found")?;
    begin(&mut peer, "/workflow contract --resume")?;
    let second = grant(&mut peer, "deny")?;
    ensure(first.execution != second.execution, || "it is the same execution".to_owned())?;
    ended(&mut peer)?;
    ensure(room.read("out").is_none(), || "the call ran".to_owned())
}
