//! The contract runner is strict: it catches a server with one fault by the check for that fault.
//!
//! The faulty server is the real one with modified output: one change for each error code, each key of each
//! topic and each rule for envelopes. Before a change is tried, the checks that should catch it must pass
//! without it.
use std::time::Duration;

use edn_bridge::catalogue::{ERROR_CODES, ErrorSpec, TOPICS};
use edn_bridge::edn;
use edn_bridge::value::{Map, Value};
use edn_bridge_contract::{Status, Wire};

use crate::mutant::{
    Change, data, emptied, frames, kind, mutant, run, same, taken, text, thrice, try_all, unchanged, where_,
    with, with_asked, with_data, without,
};

/// The check that makes a server send an error code.
fn provoked_by(code: &str) -> &'static str {
    match code {
        "transport/not-ready" => "gate.before-handshake",
        "transport/invalid-frame" => "framing.not-edn",
        "transport/max-pending-exceeded" => "pending.capacity",
        "protocol/unsupported-version" => "handshake.major",
        "protocol/invalid-envelope" => "envelope.not-a-map",
        "request/invalid-id" => "id.not-a-string",
        "request/invalid-op" => "op.not-a-string",
        "request/invalid-params" => "params.not-a-map",
        "request/invalid-query" => "query.not-edn",
        "request/op-not-supported" => "op.unknown",
        "request/session-not-idle" => "prompt.not-idle",
        "request/not-found" => "sessions.switch-to-unknown",
        "request/message-fixed" => "control.waiting-is-fixed",
        "request/file-changed" => "undo.others-changes",
        "request/nothing-to-retry" => "again.nothing",
        "request/idempotency-conflict" => "prompt.key-conflict",
        "request/unknown-model" => "models.unknown",
        "request/unknown-command" => "command.unknown",
        "request/no-pending-login" => "login.none-pending",
        "request/no-active-dialog" => "dialog.none",
        "request/dialog-id-mismatch" => "dialog.another",
        "request/interaction-already-answered" => "interaction.late",
        "runtime/query-failed" => "query.strict",
        "runtime/failed" => "runtime.failure",
        other => panic!("no check is known to provoke {other}"),
    }
}

/// The codes that a check provokes. A full ledger takes thousands of requests, and a realm several hosts: unit tests, and
/// `tests/realm/federation.rs`, show those. A refusal by the policy stands in an acknowledgement, which is a response.
fn provoked() -> impl Iterator<Item = &'static ErrorSpec> {
    let elsewhere = ["request/ledger-full", "request/not-allowed"];
    ERROR_CODES.iter().filter(move |spec| !elsewhere.contains(&spec.name) && !spec.name.starts_with("realm/"))
}

#[test]
fn a_wrong_error_code_is_caught() {
    let mutants = provoked().map(|spec| {
        let code = spec.name;
        let other = if code == "runtime/failed" { "request/not-found" } else { "runtime/failed" };
        mutant(format!("{code} told as {other}"), provoked_by(code), move |frame| {
            if text(frame, "error-code") == code {
                same(&with(frame, "error-code", Some(Value::from(other))))
            } else {
                same(frame)
            }
        })
    });
    try_all(mutants.collect());
}

#[test]
fn a_response_where_an_error_is_due_is_caught() {
    let mutants = provoked().filter(|spec| spec.name != "transport/max-pending-exceeded").map(|spec| {
        let code = spec.name;
        mutant(format!("a response in place of {code}"), provoked_by(code), move |frame| {
            if text(frame, "error-code") != code {
                return same(frame);
            }
            let (id, op) = (text(frame, "id"), text(frame, "op"));
            if id.is_empty() {
                Vec::new()
            } else {
                vec![format!("{{:id {id:?} :kind :response :op {op:?} :ok true}}")]
            }
        })
    });
    try_all(mutants.collect());
}

/// A payload of a topic with its required keys, but for one.
fn payload(spec: &edn_bridge::catalogue::TopicSpec, without: Option<&str>) -> String {
    let sample = |key: &str| match key {
        "is-streaming" | "is-compacting" | "is-error" => "false",
        "message-count"
        | "pending-message-count"
        | "retry-attempt"
        | "attempt"
        | "pause-ms"
        | "tokens-before"
        | "tokens" => "0",
        "messages" | "sessions" | "tool-order" | "widgets" | "statuses" | "content" => "[]",
        "payload" if without.is_none() => "{:prompt \"p\"}",
        "payload" | "job" | "ui/action" | "tool-calls" => "{}",
        "kind" => "\"ask\"",
        _ => "\"text\"",
    };
    let keys = spec.required.iter().filter(|key| Some(**key) != without);
    format!("{{{}}}", keys.map(|key| format!(":{key} {}", sample(key))).collect::<Vec<_>>().join(" "))
}

/// Puts an event before the response to `subscribe`, and moves the numbers of those after it.
fn injected(event: String) -> [Change; 2] {
    let change = frames(move |frame| match (kind(frame).as_str(), text(frame, "op").as_str()) {
        ("response", "subscribe") => vec![event.clone(), edn::to_string(frame)],
        ("event", _) => {
            let seq = frame.get("seq").and_then(Value::as_i64).unwrap();
            same(&with(frame, "seq", Some(Value::int(seq + 1))))
        }
        _ => same(frame),
    });
    [change, unchanged()]
}

#[test]
fn a_payload_without_a_required_key_is_caught() {
    let mut problems = Vec::new();
    let mut caught = 0;
    for spec in TOPICS {
        let rule = format!("topic.{}", spec.name);
        let checks = ["subscribe.all", rule.as_str()];
        let event = |payload: &str| format!("{{:kind :event :event {:?} :seq 1 :data {payload}}}", spec.name);
        let right = run(Wire::Edn, injected(event(&payload(spec, None))), &checks, Duration::from_secs(20));
        if right.finding(&rule).unwrap().status != Status::Passed {
            problems.push(format!("{rule} fails for a whole payload: {:?}", right.finding(&rule)));
        }
        for key in spec.required {
            let wrong =
                run(Wire::Edn, injected(event(&payload(spec, Some(key)))), &checks, Duration::from_secs(20));
            if matches!(wrong.finding(&rule).unwrap().status, Status::Failed(_)) {
                caught += 1;
            } else {
                problems.push(format!("{rule} without :{key}"));
            }
        }
    }
    println!("{caught} mutants caught, {} not", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_uncatalogued_topic_is_caught() {
    for spec in TOPICS {
        let event =
            format!("{{:kind :event :event \"{}x\" :seq 1 :data {}}}", spec.name, payload(spec, None));
        let report =
            run(Wire::Edn, injected(event), &["subscribe.all", "frame.topic"], Duration::from_secs(20));
        assert!(matches!(report.finding("frame.topic").unwrap().status, Status::Failed(_)), "{}", spec.name);
    }
}

#[test]
fn a_wrong_envelope_is_caught() {
    let ping = "ping.answer";
    let refused = "op.unknown";
    let told = "subscribe.snapshots";
    let mut mutants = Vec::new();
    for key in ["id", "kind", "op", "ok"] {
        let rule = if key == "kind" { "frame.edn" } else { "frame.response" };
        mutants.push(
            mutant(
                format!("a response without :{key}"),
                rule,
                where_("response", "ping", move |f| with(f, key, None)),
            )
            .beside(ping),
        );
    }
    for key in ["kind", "error-code", "error-message"] {
        let rule = if key == "kind" { "frame.edn" } else { "frame.error" };
        mutants.push(
            mutant(
                format!("an error without :{key}"),
                rule,
                where_("error", "", move |f| with(f, key, None)),
            )
            .beside(refused),
        );
    }
    for key in ["event", "data"] {
        mutants.push(
            mutant(
                format!("an event without :{key}"),
                "frame.event",
                where_("event", "", move |f| with(f, key, None)),
            )
            .beside(told),
        );
    }
    for (wanted, rule, beside) in [
        ("response", "frame.response", ping),
        ("error", "frame.error", refused),
        ("event", "frame.event", told),
    ] {
        mutants.push(
            mutant(
                format!("{wanted}: a key that does not belong there"),
                rule,
                where_(wanted, "", |f| with(f, "extra", Some(Value::int(1)))),
            )
            .beside(beside),
        );
        mutants.push(
            mutant(
                format!("{wanted}: :data that is no map"),
                rule,
                where_(wanted, "", |f| with(f, "data", Some(Value::str("none")))),
            )
            .beside(beside),
        );
    }
    let set = |key: &'static str, value: Value<'static>| {
        move |f: &Value<'static>| with(f, key, Some(value.clone()))
    };
    let response = |key, value| where_("response", "ping", set(key, value));
    let error = |key, value| where_("error", "", set(key, value));
    let event = |key, value| where_("event", "", set(key, value));
    mutants.extend([
        mutant(":ok that is no boolean", "frame.response", response("ok", Value::int(1))).beside(ping),
        mutant("another :op in a response", "frame.answered-once", response("op", Value::str("pong")))
            .beside(ping),
        mutant(":retryable that is no boolean", "frame.error", error("retryable", Value::str("yes")))
            .beside(refused),
        mutant("an empty :error-message", "frame.error", error("error-message", Value::str("")))
            .beside(refused),
        mutant(
            "a code that is not catalogued",
            "frame.error-code",
            error("error-code", Value::str("no/such")),
        )
        .beside(refused),
        mutant(
            "an error without its :data",
            "frame.error-data",
            where_("error", "", |f| with(f, "data", None)),
        )
        .beside(refused),
        mutant(
            "an error with :data of another key",
            "frame.error-data",
            error("data", Value::from(Map::new().with("expected", "x").with("other", 1))),
        )
        .beside(refused),
        mutant("a :seq that stands still", "frame.seq", event("seq", Value::int(1)))
            .beside("sessions.announced"),
        mutant("a :seq that begins at 0", "frame.seq", event("seq", Value::int(0))).beside(told),
        mutant("a :seq that is no integer", "frame.seq", event("seq", Value::str("1"))).beside(told),
        mutant("a :ts that is no time", "frame.ts", event("ts", Value::str("now"))).beside(told),
        mutant("a :ts with another offset", "frame.ts", event("ts", Value::str("2026-01-01T00:00:00+02:00")))
            .beside(told),
        mutant("an event with an id that nobody sent", "frame.cause", event("id", Value::str("nobody")))
            .beside(told),
        mutant("a ratio", "frame.plain", |f| {
            same(f).into_iter().map(|line| line.replace(":pong true", ":pong true :a 1/2")).collect()
        })
        .beside(ping),
        mutant("a character", "frame.plain", |f| {
            same(f).into_iter().map(|line| line.replace(":pong true", ":pong true :a \\b")).collect()
        })
        .beside(ping),
        mutant("a tagged literal", "frame.plain", |f| {
            same(f).into_iter().map(|line| line.replace(":pong true", ":pong true :a #b c")).collect()
        })
        .beside(ping),
        mutant("an instant", "frame.plain", |f| {
            same(f)
                .into_iter()
                .map(|line| line.replace(":pong true", ":pong true :a #inst \"2026-01-01T00:00:00Z\""))
                .collect()
        })
        .beside(ping),
        mutant("a namespaced map", "frame.plain", |f| {
            same(f).into_iter().map(|line| line.replace(":pong true", ":pong true :a #:b{:c 1}")).collect()
        })
        .beside(ping),
        mutant("two frames on a line", "frame.edn", |f| vec![format!("{0} {0}", edn::to_string(f))])
            .beside(ping),
        mutant("a word of log on standard output", "frame.edn", |f| {
            vec!["INFO served".to_owned(), edn::to_string(f)]
        })
        .beside(ping),
        mutant("an empty line", "frame.edn", |f| vec![edn::to_string(f), String::new()]).beside(ping),
        mutant("a list for a frame", "frame.edn", |f| vec![edn::to_string(f), "[]".to_owned()]).beside(ping),
        mutant("keys that are strings", "frame.edn", |f| {
            same(f).into_iter().map(|line| line.replace(":kind ", "\"kind\" ")).collect()
        })
        .beside(ping),
        mutant("an answer given twice", "frame.answered-once", |f| match kind(f).as_str() {
            "response" => [same(f), same(f)].concat(),
            _ => same(f),
        })
        .beside("framing.joined"),
        mutant("an answer that is kept back", "framing.joined", |f| {
            if text(f, "id") == "c50" { Vec::new() } else { same(f) }
        }),
        mutant("an answer with another id", "framing.joined", |f| {
            if text(f, "id") == "c50" { same(&with(f, "id", Some(Value::str("c51")))) } else { same(f) }
        }),
        mutant("an event before any subscribe", "frame.before-subscribe", |f| match kind(f).as_str() {
            "response" => [
                vec!["{:kind :event :event \"ui/widget-specs-updated\" :seq 1 :data {}}".to_owned()],
                same(f),
            ]
            .concat(),
            _ => same(f),
        })
        .beside(ping),
        mutant("an :offset that goes back", "frame.offset", |f| {
            let seq = f.get("seq").and_then(Value::as_i64).unwrap_or_default();
            if kind(f) == "event" {
                same(&with_data(f, "offset", Some(Value::int(1000 - seq))))
            } else {
                same(f)
            }
        })
        .beside("prompt.lifecycle"),
    ]);
    try_all(mutants);
}

/// What is wrong in the answer to one thing.
#[test]
fn wrong_behaviour_is_caught() {
    let subscribed =
        |topics: &'static [&'static str]| Value::vector(topics.iter().map(|topic| Value::from(*topic)));
    let in_server_info = |key: &'static str, value: Option<Value<'static>>| {
        move |f: &Value<'static>| {
            let info = f.get("data").and_then(|data| data.get("server-info")).unwrap();
            with_data(f, "server-info", Some(with(info, key, value.clone())))
        }
    };
    try_all(vec![
        mutant(
            "an invalid frame without its reason",
            "framing.not-edn",
            where_("error", "", data("reason", None)),
        ),
        mutant(
            "an invalid frame without its offset",
            "framing.not-edn",
            where_("error", "", data("offset", None)),
        ),
        mutant("an op that is not echoed", "envelope.kind", where_("error", "", |f| with(f, "op", None))),
        mutant(
            "an id that is not echoed",
            "envelope.extra-keys",
            where_("error", "", |f| with(f, "id", None)),
        ),
        mutant("a duplicate that ends the first request", "id.duplicate", |f| {
            let twice = f.get("data").and_then(|data| data.get("duplicate-id")).cloned();
            if twice.is_some() { same(&with(f, "id", twice)) } else { same(f) }
        }),
        mutant(
            "a duplicate without its name",
            "id.duplicate",
            where_("error", "", data("duplicate-id", None)),
        ),
        mutant(
            "an unknown op without the known ones",
            "op.unknown",
            where_("error", "", data("supported-ops", None)),
        ),
        mutant(
            "an op that is listed and not served",
            "op.listed-is-served",
            where_("error", "compact", |f| {
                with(f, "error-code", Some(Value::str("request/op-not-supported")))
            }),
        ),
        mutant(
            "a message that names no key",
            "params.missing",
            where_("error", "", |f| with(f, "error-message", Some(Value::str("no")))),
        ),
        mutant(
            "a handshake without :server-info",
            "handshake.answer",
            where_("response", "handshake", data("server-info", None)),
        ),
        mutant(
            "another version",
            "handshake.answer",
            where_("response", "handshake", in_server_info("protocol-version", Some(Value::str("1.1")))),
        ),
        mutant(
            "the higher minor version",
            "handshake.minor",
            where_("response", "handshake", in_server_info("protocol-version", Some(Value::str("1.7")))),
        ),
        mutant(
            "no features",
            "handshake.answer",
            where_("response", "handshake", in_server_info("features", None)),
        ),
        mutant(
            "a feature that was not asked for",
            "handshake.features",
            where_(
                "response",
                "handshake",
                in_server_info("features", Some(Value::vector([Value::from("plist-frames")]))),
            ),
        ),
        mutant(
            "a feature that was given up",
            "handshake.again",
            where_(
                "response",
                "handshake",
                in_server_info("features", Some(Value::vector([Value::from("interactor")]))),
            ),
        ),
        mutant("no pong", "ping.answer", where_("response", "ping", data("pong", Some(Value::bool(false))))),
        mutant(
            "a refusal for want of room that is not retryable",
            "pending.capacity",
            where_("error", "set_session_name", |f| with(f, "retryable", None)),
        ),
        mutant(
            "a refusal of the busy that is not retryable",
            "prompt.not-idle",
            where_("error", "prompt", |f| with(f, "retryable", None)),
        ),
        mutant(
            "a topic that is forgotten",
            "subscribe.named",
            where_("response", "subscribe", data("subscribed", Some(subscribed(&["assistant/message"])))),
        ),
        mutant(
            "an unknown topic that is subscribed",
            "subscribe.ignored",
            where_(
                "response",
                "subscribe",
                data("subscribed", Some(subscribed(&["assistant/delta", "no/such"]))),
            ),
        ),
        mutant(
            "a known topic that is ignored",
            "subscribe.nothing-ignored",
            where_("response", "subscribe", data("ignored", Some(subscribed(&["assistant/delta"])))),
        ),
        mutant("a snapshot that is missing", "subscribe.snapshots", without("footer/updated")),
        mutant(
            "a topic that is left after all were taken away",
            "unsubscribe.all",
            where_("response", "unsubscribe", data("subscribed", Some(subscribed(&["assistant/delta"])))),
        ),
        mutant("an event of a topic that is not subscribed", "events.filtered", |f| match kind(f).as_str() {
            "event" => vec![
                edn::to_string(f),
                "{:kind :event :event \"ui/widget-specs-updated\" :data {}}".to_owned(),
            ],
            _ => same(f),
        }),
        mutant(
            "an event without its session",
            "events.offset",
            where_("event", "assistant/delta", data("session-id", None)),
        ),
        mutant(
            "a cause that is another request",
            "events.cause",
            where_("event", "assistant/message", |f| with(f, "id", Some(Value::str("c1")))),
        ),
        mutant("a delta that is lost", "prompt.deltas", |f| {
            let lost = f.get("data").map(|data| text(data, "text")) == Some("two ".to_owned())
                && text(f, "event") == "assistant/delta";
            if lost { Vec::new() } else { same(f) }
        }),
        mutant("deltas that repeat what was said", "prompt.deltas", |f| {
            if text(f, "event") == "assistant/delta" {
                same(&with_data(f, "text", Some(Value::str("one two three"))))
            } else {
                same(f)
            }
        }),
        mutant("text that is lost on the way to a slow reader", "events.slow-reader", |f| {
            let seq = f.get("seq").and_then(Value::as_i64).unwrap_or_default();
            if text(f, "event") == "assistant/delta" && seq % 7 == 3 { Vec::new() } else { same(f) }
        }),
        mutant(
            "thinking told as text",
            "prompt.thinking",
            where_("event", "assistant/thinking-delta", |f| {
                with(f, "event", Some(Value::str("assistant/delta")))
            }),
        ),
        mutant(
            "a turn without its id",
            "prompt.turn-id",
            where_("event", "assistant/message", data("turn-id", None)),
        ),
        mutant("a session that never tells that it is idle", "prompt.lifecycle", |f| {
            let idle = f.get("data").and_then(|data| data.get("is-streaming")) == Some(&Value::Bool(false));
            if text(f, "event") == "session/updated" && idle { Vec::new() } else { same(f) }
        }),
        mutant(
            "an abort that is not told",
            "abort.running",
            where_("event", "assistant/message", data("stop-reason", Some(Value::str("end-turn")))),
        ),
        mutant("an event after the end of a turn", "abort.running", |f| {
            let ended = f.get("data").map(|data| text(data, "stop-reason")) == Some("aborted".to_owned());
            if kind(f) == "event" && ended {
                let seq = f.get("seq").and_then(Value::as_i64).unwrap();
                let late = with(
                    &with(f, "event", Some(Value::str("assistant/delta"))),
                    "seq",
                    Some(Value::int(seq + 1)),
                );
                [same(f), same(&late)].concat()
            } else {
                same(f)
            }
        }),
        mutant(
            "the same session for a new one",
            "sessions.new",
            where_("response", "new_session", data("session-id", Some(Value::str("s-0")))),
        ),
        mutant("a session that is not announced", "sessions.announced", without("session/rehydrated")),
        mutant(
            "another name",
            "sessions.name",
            where_("response", "set_session_name", data("session-name", Some(Value::str("other")))),
        ),
        mutant(
            "another name of another session",
            "sessions.rename",
            where_("response", "rename_session", data("session-name", Some(Value::str("other")))),
        ),
        mutant(
            "an archived session that is not told as such",
            "sessions.archive",
            where_("response", "list_sessions", |f| {
                let sessions = f.get("data").and_then(|data| data.get("sessions")).and_then(Value::as_slice);
                let bare = |slot: &Value<'static>| {
                    let mut slot = slot.as_map().cloned().unwrap_or_default();
                    slot.remove(&Value::keyword("archived"));
                    Value::from(slot)
                };
                let sessions = Value::vector(sessions.unwrap_or_default().iter().map(bare));
                with_data(f, "sessions", Some(sessions))
            }),
        ),
        mutant("a list without any session", "sessions.delete-stored", emptied("list_sessions", "sessions")),
        mutant("a deleted session that is opened", "sessions.delete", taken("request/not-found")),
        mutant("a session in use that is deleted", "sessions.in-use", taken("request/session-not-idle")),
        mutant("a shown session that is deleted", "guest.session-in-use", taken("request/session-not-idle")),
        mutant(
            "messages in another order",
            "sessions.messages",
            where_("response", "get_messages", |f| {
                let messages = f
                    .get("data")
                    .and_then(|data| data.get("messages"))
                    .and_then(Value::as_slice)
                    .unwrap_or_default();
                with_data(f, "messages", Some(Value::vector(messages.iter().rev().cloned())))
            }),
        ),
        mutant(
            "a page that says there is no more",
            "sessions.pages",
            where_("response", "get_messages", data("more", Some(Value::bool(false)))),
        ),
        mutant(
            "an answer that was said by somebody else",
            "sessions.last-text",
            where_("response", "get_last_assistant_text", data("text", Some(Value::str("no")))),
        ),
        mutant(
            "a missing attribute that is made up",
            "query.missing",
            where_("response", "query_eql", |f| {
                let result = f.get("data").and_then(|data| data.get("result")).unwrap();
                with_data(f, "result", Some(with(result, "no.such/attribute", Some(Value::Nil))))
            }),
        ),
        mutant(
            "another thinking level",
            "thinking.set",
            where_("response", "set_thinking_level", data("thinking-level", Some(Value::str("off")))),
        ),
        mutant(
            "a mode that was not set",
            "mode.set",
            where_("response", "set_mode", data("mode", Some(Value::str("yolo")))),
        ),
        mutant("commands that are kept back", "command.list", emptied("get_commands", "commands")),
        mutant(
            "a message that is lost over a restart",
            "persistence.restart",
            where_("response", "get_messages", |f| {
                // Every second time: what was before differs from what is after.
                static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
                let asked = ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if asked % 2 == 1 {
                    with_data(f, "messages", Some(Value::vector([] as [Value<'static>; 0])))
                } else {
                    f.clone()
                }
            }),
        ),
    ]);
}

/// What is wrong in who may do what, and who is asked.
#[test]
fn wrong_permissions_are_caught() {
    let asked = |key: &'static str, value: Option<Value<'static>>| {
        where_("event", "interaction/requested", move |f| with_asked(f, key, value.clone()))
    };
    try_all(vec![
        mutant(
            "a rule that is told for no source",
            "grant.rules",
            where_("response", "list_rules", data("rules", Some(Value::vector([Value::from(Map::new())])))),
        ),
        mutant("a rule that is taken back twice", "grant.rule-taken-back", taken("request/not-found")),
        mutant("an audit without records", "audit.pages", emptied("list_audit", "records")),
        mutant(
            "a preview without its state",
            "trust.preview",
            where_("response", "trust_preview", data("trust", None)),
        ),
        mutant("a grant that is for no proposal", "grant.asked", asked("proposal-id", None)),
        mutant("a grant that is for no arguments", "grant.asked", asked("args-digest", None)),
        mutant("one proposal for all", "grant.used-once", asked("proposal-id", Some(Value::str("p")))),
        mutant("one digest for all", "grant.other-arguments", asked("args-digest", Some(Value::str("d")))),
        mutant("one attempt for all", "grant.next-attempt", asked("attempt", Some(Value::int(0)))),
        mutant(
            "one execution for all",
            "grant.sibling-stage",
            asked("stage-execution-id", Some(Value::str("x"))),
        ),
        mutant(
            "a denied call that is told as done",
            "grant.denied",
            where_("event", "tool/result", data("is-error", Some(Value::bool(false)))),
        ),
        mutant(
            "a granted call that is told as denied",
            "grant.approved",
            where_("event", "tool/result", data("is-error", Some(Value::bool(true)))),
        ),
        mutant("a grant whose misshapen answer is taken", "grant.misshapen", taken("request/invalid-params")),
        mutant(
            "a question of a subagent that does not say whose it is",
            "subagent.outside-the-envelope",
            where_("event", "interaction/requested", data("subagent-id", None)),
        ),
        mutant(
            "an envelope with other tools",
            "subagent.asked",
            asked("requested-envelope", Some(Value::vector([Value::str("write")]))),
        ),
        mutant(
            "a refused envelope without its type",
            "subagent.denied",
            where_("event", "tool/result", data("result-text", Some(Value::str("no")))),
        ),
        mutant("a subagent that stands nowhere", "subagent.works", emptied("list_sessions", "sessions")),
        mutant("a third answer to an envelope", "subagent.misshapen", taken("request/invalid-params")),
        mutant("a race with two winners", "guest.race", taken("request/interaction-already-answered")),
        mutant(
            "a repeated request that is told as new",
            "control.duplicate",
            where_("response", "control", |f| {
                let ack = f.get("data").and_then(|data| data.get("ack")).unwrap();
                with_data(f, "ack", Some(with(ack, "duplicate", Some(Value::bool(false)))))
            }),
        ),
        mutant(
            "a denial told as an approval",
            "interaction.denied",
            where_("event", "interaction/answered", |f| {
                with_data(
                    f,
                    "value",
                    Some(edn::read_one(b"{:outcome \"approve\" :scope \"once\"}").unwrap().into_owned()),
                )
            }),
        ),
        mutant(
            "an answer told as cancelled",
            "interaction.approved",
            where_("event", "interaction/answered", data("status", Some(Value::str("cancelled")))),
        ),
        mutant(
            "the one point of a stage told as the other",
            "prompt.stages",
            where_("event", "turn/stage", |f| {
                let point = f.get("data").map(|data| text(data, "point"));
                let other = if point.as_deref() == Some("pre") { "post" } else { "pre" };
                with_data(f, "point", Some(Value::str(other)))
            }),
        ),
        mutant("a winner who is not told", "guest.race", without("interaction/answered")),
        mutant(
            "a cause that is another client's",
            "guest.same-session",
            where_("event", "assistant/message", |f| with(f, "id", Some(Value::str("c1")))),
        ),
        mutant("a guest that is ready at once", "guest.own-handshake", taken("transport/not-ready")),
        mutant(
            "a secret that is told",
            "login.password",
            where_("event", "interaction/answered", data("value", Some(Value::str("sk")))),
        ),
        mutant("a login without its code", "login.device-code", asked("code", None)),
    ]);
}

/// What is wrong in how a turn is interfered with, and in what a workflow tells.
#[test]
fn wrong_hooks_and_workflows_are_caught() {
    let hooks = |key: &'static str, value: Option<Value<'static>>| {
        where_("event", "turn/stage", move |f| {
            let of_hook = f.get("data").is_some_and(|data| data.get("hook").is_some());
            if of_hook { with_data(f, key, value.clone()) } else { f.clone() }
        })
    };
    try_all(vec![
        mutant("a hook that is not named", "hook.guards-allow", hooks("hook", None)),
        mutant(
            "a hook that came to something else",
            "hook.transforms-in-order",
            hooks("outcome", Some(Value::str("observed"))),
        ),
        mutant("a denied call that is not named", "hook.guard-ends-a-call", hooks("tool-id", None)),
        mutant(
            "a turn that a guard ended, told as ended well",
            "hook.guard-ends-the-turn",
            where_("event", "assistant/message", data("stop-reason", Some(Value::str("end-turn")))),
        ),
        mutant("a guard whose failure is not told", "hook.failing-guard", without("diagnostic")),
        mutant("a transform whose failure is not told", "hook.failing-transform", without("diagnostic")),
        mutant("an observer whose failure is not told", "hook.failing-observer", without("diagnostic")),
        mutant(
            "a rewritten answer that is shown as it was",
            "hook.rewrites-an-answer",
            where_("event", "assistant/message", data("text", Some(Value::str("hello")))),
        ),
        mutant("a run whose end is not told", "workflow.stages", without("ui/notification")),
        mutant("a run without a widget", "workflow.progress", without("ui/widgets-updated")),
        mutant("a run without a status", "workflow.progress", without("ui/status-updated")),
        mutant(
            "a run that does not hold its session",
            "workflow.holds-the-session",
            taken("request/session-not-idle"),
        ),
        mutant(
            "a file that is wrong, told as fine",
            "workflow.misfit",
            where_("event", "command-result", data("type", Some(Value::str("text")))),
        ),
        mutant(
            "a gate that asks something else",
            "workflow.confirm",
            where_("event", "interaction/requested", |f| {
                with_asked(f, "prompt", Some(Value::str("Another?")))
            }),
        ),
        mutant(
            "a completion that does not fit, told as taken",
            "workflow.completion",
            where_("event", "tool/result", data("is-error", Some(Value::bool(false)))),
        ),
        mutant("siblings that stand nowhere", "workflow.group", emptied("list_sessions", "sessions")),
        mutant("a run that was cut off and is not told", "workflow.cut-off", without("ui/notification")),
        mutant("a failure that nobody is told", "events.nobody-waits", without("error")),
        mutant("a client that is not told that it was slow", "events.merged-told", without("diagnostic")),
        mutant("updates of a call that are all kept", "ack.newest-output", thrice("tool/update")),
        mutant("updates of a job that are all kept", "ack.newest-job", thrice("job/updated")),
        mutant(
            "a steer under another turn",
            "steer.turn-id",
            where_("response", "steer", data("turn-id", Some(Value::str("t-0")))),
        ),
        mutant(
            "a history that says that it is whole",
            "sessions.rehydrated-more",
            where_("event", "session/rehydrated", data("more", Some(Value::bool(false)))),
        ),
    ]);
}
