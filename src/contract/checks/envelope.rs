//! Checks of requests: their envelope, the order of the checks, readiness, the handshake, pending requests.

use super::super::check::{Check, Need, Probe, Stop, client_info, ensure, shake_hands, text, texts};
use super::super::peer::{Answer, ErrorAnswer, Peer, request};
use crate::catalogue::{OPS, Shape, TOPICS};
use crate::limits::MAX_PENDING;
use crate::value::Value;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "envelope.not-a-map",
        about: "A form that is not a map is protocol/invalid-envelope.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for line in
                ["[]", "42", "nil", "\"text\"", "(:id \"1\" :kind :request :op \"ping\")", "#{:id}", ":id"]
            {
                peer.send_line(line);
                peer.stray_error("protocol/invalid-envelope")?;
            }
            peer.barrier()
        },
    },
    Check {
        name: "envelope.kind",
        about: "A map whose :kind is missing or not :request is protocol/invalid-envelope, :id and :op echoed.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for kind in
                ["", ":kind :response", ":kind :event", ":kind \"request\"", ":kind nil", ":kind request"]
            {
                envelope_refused(&mut peer, |id| format!("{{:id {id:?} {kind} :op \"ping\"}}"), true)?;
            }
            peer.barrier()
        },
    },
    Check {
        name: "envelope.missing-keys",
        about: "A request without :id or without :op is protocol/invalid-envelope, the other one echoed.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.send_line("{:kind :request :op \"ping\"}");
            let error = peer.stray_error("protocol/invalid-envelope")?;
            ensure(text(&error.frame, "op") == "ping", || ":op is not echoed".to_owned())?;
            envelope_refused(&mut peer, |id| format!("{{:kind :request :id {id:?}}}"), false)?;
            peer.send_line("{:kind :request}");
            peer.stray_error("protocol/invalid-envelope")?;
            peer.barrier()
        },
    },
    Check {
        name: "envelope.extra-keys",
        about: "A request with an unknown key is protocol/invalid-envelope.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for extra in [":extra 1", ":ok true", "\"id\" 1", ":data {}", "nil nil", ":my/op 1"] {
                envelope_refused(
                    &mut peer,
                    |id| format!("{{:id {id:?} :kind :request :op \"ping\" :params {{}} {extra}}}"),
                    true,
                )?;
            }
            peer.barrier()
        },
    },
    Check {
        name: "envelope.minimal",
        about: "A request without :params is served like one with an empty map.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let id = peer.new_id();
            peer.expects(&id, "ping");
            peer.send_line(&format!("{{:id {id:?} :kind :request :op \"ping\"}}"));
            peer.answer_ok(&id).map(|_| ())
        },
    },
    Check {
        name: "envelope.key-order",
        about: "The order of a request's keys, and blanks between them, have no effect.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let id = peer.new_id();
            peer.expects(&id, "ping");
            peer.send_line(&format!(" {{ :op \"ping\",,:params{{}}\t:id{id:?} #_x :kind :request}} ; done"));
            peer.answer_ok(&id).map(|_| ())
        },
    },
    Check {
        name: "id.not-a-string",
        about: "An :id that is empty or not a string is request/invalid-id, and is not echoed.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for id in ["\"\"", "42", "nil", ":a", "[\"a\"]"] {
                peer.send_line(&format!("{{:id {id} :kind :request :op \"ping\"}}"));
                let error = peer.stray_error("request/invalid-id")?;
                ensure(text(&error.frame, "op") == "ping", || ":op is not echoed".to_owned())?;
            }
            peer.barrier()
        },
    },
    Check {
        name: "id.duplicate",
        about: "An :id that is pending is request/invalid-id without :id, and the first request is answered.",
        needs: &[Need::Op("set_session_name")],
        run: duplicate_id,
    },
    Check {
        name: "id.reuse",
        about: "An :id is free again once its request is answered.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for _ in 0..3 {
                peer.send_as("again", "ping", "{}");
                peer.answer_ok("again")?;
            }
            Ok(())
        },
    },
    Check {
        name: "id.any-text",
        about: "An :id is echoed as it was sent, whatever its characters.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for id in ["a b", "é λ 🦀", "\u{1}", "]}", "nil"] {
                peer.expects(id, "ping");
                let line = format!(
                    "{{:id {} :kind :request :op \"ping\"}}",
                    crate::edn::to_string(&Value::from(id))
                );
                peer.send_line(&line);
                peer.answer_ok(id)?;
            }
            Ok(())
        },
    },
    Check {
        name: "op.not-a-string",
        about: "An :op that is empty or not a string is request/invalid-op, with the :id.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for op in ["\"\"", "42", "nil", ":ping", "ping"] {
                let id = peer.new_id();
                peer.expects(&id, op);
                peer.send_line(&format!("{{:id {id:?} :kind :request :op {op}}}"));
                peer.answer_error(&id, "request/invalid-op")?;
            }
            peer.barrier()
        },
    },
    Check {
        name: "op.unknown",
        about: "An op outside the catalogue is request/op-not-supported with :supported-ops.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let error = peer.ask_error("no_such_op", "{}", "request/op-not-supported")?;
            let ops = texts(error.frame.get("data").and_then(|data| data.get("supported-ops")));
            for op in ["handshake", "ping", "subscribe", "unsubscribe"] {
                ensure(ops.iter().any(|name| name == op), || format!(":supported-ops lacks {op}"))?;
            }
            peer.barrier()
        },
    },
    Check {
        name: "op.listed-is-served",
        about: "No op that is listed in :supported-ops answers that it is not supported.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for op in &probe.abilities()?.ops {
                // Params that no op has: none of them has an effect.
                if let Answer::Error(error) = peer.ask(op, "42")? {
                    ensure(error.code != "request/op-not-supported", || {
                        format!("{op} is listed and not served")
                    })?;
                }
            }
            Ok(())
        },
    },
    Check {
        name: "op.catalogue-is-listed",
        about: "Every op of the catalogue is in :supported-ops.",
        needs: &[],
        run: |probe| {
            let listed = &probe.abilities()?.ops;
            let absent: Vec<&str> =
                OPS.iter().map(|op| op.name).filter(|op| !listed.iter().any(|l| l == op)).collect();
            if absent.is_empty() {
                return Ok(());
            }
            Err(Stop::NotApplicable(format!(
                "the server serves a part of the catalogue, without {}",
                absent.join(" ")
            )))
        },
    },
    Check {
        name: "params.not-a-map",
        about: "Params that are not a map are request/invalid-params, for every op.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            for op in &probe.abilities()?.ops {
                for params in ["[]", "\"text\"", "42"] {
                    peer.ask_error(op, params, "request/invalid-params")?;
                }
            }
            peer.barrier()
        },
    },
    Check {
        name: "params.missing",
        about: "A required param that is missing is request/invalid-params, and the message names it.",
        needs: &[],
        run: |probe| each_param(probe, true),
    },
    Check {
        name: "params.wrong-shape",
        about: "A param of another shape is request/invalid-params, and the message names it.",
        needs: &[],
        run: |probe| each_param(probe, false),
    },
    Check {
        name: "order.of-checks",
        about: "Where a line breaks two rules, the earlier one in the order of checks is told.",
        needs: &[],
        run: order_of_checks,
    },
    Check {
        name: "gate.before-handshake",
        about: "Before a handshake every other op is transport/not-ready, with :id and :op.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            let known = probe.abilities()?.ops.iter().map(String::as_str).filter(|op| *op != "handshake");
            for op in known.chain(["no_such_op"]) {
                let error = peer.ask_error(op, "{}", "transport/not-ready")?;
                ensure(text(&error.frame, "op") == op, || format!(":op is not echoed for {op}"))?;
            }
            shake_hands(&mut peer, "1.0", &[])?;
            peer.barrier()
        },
    },
    Check {
        name: "handshake.answer",
        about: "The answer has :server-info with :protocol-version and :features.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            let data = shake_hands(&mut peer, "1.0", &[])?;
            let info = server_info(&data)?;
            ensure(text(info, "protocol-version") == "1.0", || ":protocol-version is not 1.0".to_owned())?;
            ensure(info.get("features").and_then(Value::as_slice).is_some(), || {
                ":features is not a vector".to_owned()
            })?;
            for key in ["session-id", "model-id", "thinking-level"] {
                let fits = info.get(key).is_none_or(|value| value.is_nil() || value.as_str().is_some());
                ensure(fits, || format!(":{key} is not a string"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "handshake.minor",
        about: "The answer is the lower of both minor versions.",
        needs: &[],
        run: |probe| {
            for (asked, due) in [("1.7", "1.0"), ("1.0", "1.0")] {
                let mut peer = probe.start(None)?;
                let data = shake_hands(&mut peer, asked, &[])?;
                let told = text(server_info(&data)?, "protocol-version").to_owned();
                ensure(told == due, || format!("{asked} is answered by {told}"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "handshake.major",
        about: "Another major version is protocol/unsupported-version; the connection stays, and a later handshake may succeed.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            for version in ["2.0", "0.9", "10.0"] {
                peer.ask_error("handshake", &client_info(version, &[]), "protocol/unsupported-version")?;
                peer.ask_error("ping", "{}", "transport/not-ready")?;
            }
            shake_hands(&mut peer, "1.0", &[])?;
            peer.barrier()
        },
    },
    Check {
        name: "handshake.params",
        about: "A handshake without what it needs is request/invalid-params, and the gate stays shut.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            for params in [
                "{}",
                "{:client-info \"me\"}",
                "{:client-info {}}",
                "{:client-info {:name \"c\" :version \"1\"}}",
                "{:client-info {:name \"c\" :version \"1\" :protocol-version 1}}",
                "{:client-info {:name \"c\" :version \"1\" :protocol-version \"1.0\" :features \"all\"}}",
            ] {
                peer.ask_error("handshake", params, "request/invalid-params")?;
            }
            peer.ask_error("ping", "{}", "transport/not-ready").map(|_| ())
        },
    },
    Check {
        name: "handshake.features",
        about: "Common features are granted; unknown ones are ignored.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            let data = shake_hands(&mut peer, "1.0", &["interactor", "no-such-feature"])?;
            let granted = texts(server_info(&data)?.get("features"));
            ensure(!granted.iter().any(|name| name == "no-such-feature"), || {
                "an unknown feature is granted".to_owned()
            })?;
            ensure(!granted.iter().any(|name| name == "plist-frames"), || {
                "a feature is granted that was not asked for".to_owned()
            })?;
            if !granted.iter().any(|name| name == "interactor") {
                probe.note("The feature interactor is not granted.");
            }
            Ok(())
        },
    },
    Check {
        name: "handshake.again",
        about: "A second handshake settles version and features anew; the connection stays ready.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            shake_hands(&mut peer, "1.0", &["interactor"])?;
            let data = shake_hands(&mut peer, "1.3", &[])?;
            let granted = texts(server_info(&data)?.get("features"));
            ensure(granted.is_empty(), || format!("{granted:?} are still granted"))?;
            peer.ask_error("handshake", &client_info("2.0", &[]), "protocol/unsupported-version")?;
            peer.barrier()
        },
    },
    Check {
        name: "ping.answer",
        about: "`ping` is answered with :pong true and the protocol version.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("ping", "{}")?;
            ensure(data.get("pong") == Some(&Value::Bool(true)), || ":pong is not true".to_owned())?;
            ensure(!text(&data, "protocol-version").is_empty(), || ":protocol-version is missing".to_owned())
        },
    },
    Check {
        name: "pending.many",
        about: "As many requests in flight as there are places are each answered once.",
        needs: &[],
        run: many_in_flight,
    },
    Check {
        name: "pending.capacity",
        about: "A request beyond the places is transport/max-pending-exceeded and retryable; abort is admitted; all others are answered once.",
        needs: &[Need::Op("set_session_name"), Need::Op("abort")],
        run: capacity,
    },
    Check {
        name: "pending.urgent",
        about: "What ends or answers something is never refused for want of room.",
        needs: &[Need::Op("set_session_name"), Need::Op("abort"), Need::Op("interrupt")],
        run: urgent,
    },
    Check {
        name: "end.idle",
        about: "At the end of input the server writes what is due and ends with status 0.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let id = peer.send("ping", "{}");
            peer.close_input();
            peer.answer_ok(&id)?;
            let status = peer.wait_exit()?;
            ensure(status == 0, || format!("the exit status is {status}"))
        },
    },
    Check {
        name: "end.before-handshake",
        about: "Input that ends before anything was said ends the server with status 0.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.start(None)?;
            peer.close_input();
            let status = peer.wait_exit()?;
            ensure(status == 0, || format!("the exit status is {status}"))
        },
    },
];

/// `:server-info` of a handshake's response.
fn server_info<'v>(data: &'v Value<'static>) -> Result<&'v Value<'static>, Stop> {
    data.get("server-info")
        .filter(|info| info.as_map().is_some())
        .ok_or_else(|| Stop::failed(":server-info is not a map"))
}

/// A line must get `protocol/invalid-envelope` with its `:id`, and with its `:op` if it has one.
fn envelope_refused(peer: &mut Peer, line: impl Fn(&str) -> String, has_op: bool) -> Result<(), Stop> {
    let id = peer.new_id();
    peer.expects(&id, "ping");
    peer.send_line(&line(&id));
    let error = peer.answer_error(&id, "protocol/invalid-envelope")?;
    ensure(!has_op || text(&error.frame, "op") == "ping", || ":op is not echoed".to_owned())
}

/// Attempts at a race between two threads.
const ATTEMPTS: usize = 50;

fn duplicate_id(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    for attempt in 0..ATTEMPTS {
        let id = format!("twice{attempt}");
        let ops = [("set_session_name", "{:name \"twice\"}"), ("ping", "{}")];
        let lines: Vec<String> =
            ops.iter().map(|(op, params)| format!("{}\n", request(&id, op, params))).collect();
        // Only the first is expected, because an error with the id would end it.
        peer.expects(&id, "set_session_name");
        peer.send_bytes(lines.concat().as_bytes());
        peer.answer_ok(&id)?;
        let Some(error) = second_answer(&mut peer, &id)? else { continue };
        let named = error.frame.get("data").map(|data| text(data, "duplicate-id").to_owned());
        ensure(named.as_deref() == Some(id.as_str()), || format!(":data :duplicate-id is {named:?}"))?;
        return peer.barrier();
    }
    Err(Stop::NotApplicable(
        "every request was answered before the next was read, so that no id was pending".to_owned(),
    ))
}

/// The error for a second request with the same id, or nothing if the server served it because the first was
/// already answered.
fn second_answer(peer: &mut Peer, id: &str) -> Result<Option<ErrorAnswer>, Stop> {
    match peer.either(id, "request/invalid-id")? {
        Answer::Error(error) => Ok(Some(error)),
        Answer::Ok(_) => Ok(None),
    }
}

/// Valid params for an op, in EDN, without one of them.
fn fitting(spec: &crate::catalogue::OpSpec, leave_out: &str) -> String {
    let params = spec.params.iter().filter(|param| param.required && param.key != leave_out);
    let written: Vec<String> =
        params.map(|param| format!(":{} {}", param.key, sample(param.shape))).collect();
    written.join(" ")
}

/// A value of a shape that names nothing existing.
fn sample(shape: Shape) -> String {
    match shape {
        Shape::Text | Shape::Filled | Shape::Name => "\"none\"".to_owned(),
        Shape::Count => "1".to_owned(),
        Shape::Flag => "true".to_owned(),
        Shape::Map => "{}".to_owned(),
        Shape::Any | Shape::DialogResult => "nil".to_owned(),
        Shape::Texts | Shape::Maps => "[]".to_owned(),
        Shape::Level => "\"off\"".to_owned(),
        Shape::OneOf(names) => format!("{:?}", names.first().copied().unwrap_or_default()),
    }
}

/// Values of the wrong shape. A list of strings may be an empty vector, so that is not tried.
fn misfits(shape: Shape) -> &'static [&'static str] {
    match shape {
        Shape::Text | Shape::Map | Shape::Texts | Shape::Maps | Shape::Flag => &["42", ":word"],
        Shape::Filled => &["42", "\"\"", "[\"a\"]"],
        Shape::Name => &["42", "\"\""],
        Shape::Count => &["-1", "\"1\"", "1.5"],
        Shape::DialogResult => &["42", "{}"],
        Shape::Level => &["\"loud\"", "6", "-1", "1.5"],
        Shape::OneOf(_) => &["\"no-such-choice\"", "42"],
        Shape::Any => &[],
    }
}

fn each_param(probe: &Probe<'_>, missing: bool) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let listed = &probe.abilities()?.ops;
    for spec in OPS.iter().filter(|spec| listed.iter().any(|name| name == spec.name)) {
        for param in spec.params {
            let rest = fitting(spec, param.key);
            let tried: Vec<String> = if missing && param.required {
                vec![format!("{{{rest}}}")]
            } else if missing {
                Vec::new()
            } else {
                misfits(param.shape)
                    .iter()
                    .map(|value| format!("{{{rest} :{} {value}}}", param.key))
                    .collect()
            };
            for params in tried {
                let error = peer.ask_error(spec.name, &params, "request/invalid-params")?;
                let message = text(&error.frame, "error-message").to_owned();
                ensure(message.contains(param.key), || {
                    format!("the message to {} {params} does not name {}: {message}", spec.name, param.key)
                })?;
            }
        }
    }
    peer.barrier()
}

fn order_of_checks(probe: &Probe<'_>) -> Result<(), Stop> {
    // Before the handshake, to include readiness; then after it.
    let mut peer = probe.start(None)?;
    let cases = [
        // Neither a single form nor a map.
        ("[] []", "transport/invalid-frame"),
        // Not a map, and therefore without everything else.
        ("[:kind :response]", "protocol/invalid-envelope"),
        // Another kind, and keys that no request has.
        ("{:kind :response :extra 1 :id 42}", "protocol/invalid-envelope"),
        // A missing key comes before a bad id.
        ("{:kind :request :id 42}", "protocol/invalid-envelope"),
        // An extra key comes before a bad id.
        ("{:kind :request :id 42 :op \"ping\" :extra 1}", "protocol/invalid-envelope"),
        // A bad id comes before a bad op.
        ("{:kind :request :id 42 :op 42}", "request/invalid-id"),
        ("{:kind :request :id \"\" :op \"\"}", "request/invalid-id"),
    ];
    for (line, code) in cases {
        peer.send_line(line);
        peer.stray_error(code)?;
    }
    let tell = |peer: &mut Peer, op: &str, params: &str, code: &str| {
        let id = peer.new_id();
        peer.expects(&id, op.trim_matches('"'));
        peer.send_line(&format!("{{:kind :request :id {id:?} :op {op} :params {params}}}"));
        peer.answer_error(&id, code).map(|_| ())
    };
    // A bad op comes before readiness, readiness before an unknown op, and that before the params.
    tell(&mut peer, "\"\"", "42", "request/invalid-op")?;
    tell(&mut peer, "\"no_such_op\"", "42", "transport/not-ready")?;
    tell(&mut peer, "\"subscribe\"", "42", "transport/not-ready")?;
    shake_hands(&mut peer, "1.0", &[])?;
    tell(&mut peer, "\"no_such_op\"", "42", "request/op-not-supported")?;
    tell(&mut peer, "\"subscribe\"", "42", "request/invalid-params")
}

fn many_in_flight(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.subscribed(None)?;
    let listed = &probe.abilities()?.ops;
    let ops: Vec<&str> = ["ping", "get_state", "get_messages", "list_sessions"]
        .into_iter()
        .filter(|op| listed.iter().any(|l| l == op))
        .collect();
    let ids: Vec<(String, &str)> =
        ops.iter().cycle().take(MAX_PENDING).map(|op| (peer.new_id(), *op)).collect();
    let mut bytes = String::new();
    for (id, op) in &ids {
        peer.expects(id, op);
        bytes.push_str(&request(id, op, "{}"));
        bytes.push('\n');
    }
    peer.send_bytes(bytes.as_bytes());
    for (id, _) in &ids {
        peer.answer_ok(id)?;
    }
    peer.barrier()?;
    let left = peer.pending();
    ensure(left == 0, || format!("{left} requests are still unanswered"))
}

/// Sends so many requests at once that the limit is reached, if the server takes time to write.
fn flood(peer: &mut Peer, last: &str) -> (Vec<String>, String) {
    let ids: Vec<String> = (0..MAX_PENDING.saturating_mul(4)).map(|_| peer.new_id()).collect();
    let mut bytes = String::new();
    for id in &ids {
        peer.expects(id, "set_session_name");
        bytes.push_str(&request(id, "set_session_name", &format!("{{:name {id:?}}}")));
        bytes.push('\n');
    }
    let urgent = peer.new_id();
    peer.expects(&urgent, last);
    bytes.push_str(&request(&urgent, last, "{}"));
    bytes.push('\n');
    peer.send_bytes(bytes.as_bytes());
    (ids, urgent)
}

const NEVER_FULL: &str = "requests are answered as fast as they are read, so that the places never run out";

fn capacity(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let (ids, urgent) = flood(&mut peer, "abort");
    let mut refused: usize = 0;
    for id in &ids {
        if let Answer::Error(error) = peer.answer(id)? {
            ensure(error.code == "transport/max-pending-exceeded", || format!("{} came", error.code))?;
            let retryable = error.frame.get("retryable");
            ensure(retryable == Some(&Value::Bool(true)), || format!(":retryable is {retryable:?}"))?;
            refused = refused.saturating_add(1);
        }
    }
    peer.answer(&urgent)?;
    let left = peer.pending();
    ensure(left == 0, || format!("{left} requests are still unanswered"))?;
    peer.barrier()?;
    if refused == 0 { Err(Stop::NotApplicable(NEVER_FULL.to_owned())) } else { Ok(()) }
}

fn urgent(probe: &Probe<'_>) -> Result<(), Stop> {
    for op in ["abort", "interrupt"] {
        let mut peer = probe.ready()?;
        let (_, urgent) = flood(&mut peer, op);
        if let Answer::Error(error) = peer.answer(&urgent)? {
            ensure(error.code != "transport/max-pending-exceeded", || {
                format!("{op} is refused for want of room")
            })?;
        }
    }
    Ok(())
}

/// All topics of the catalogue.
pub(super) fn all_topics() -> Vec<&'static str> {
    TOPICS.iter().map(|topic| topic.name).collect()
}
