//! The graph's facts about the process: connections, model calls, counters, configuration.
use crate::support;

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::limits::{CLIENT_NAME_BYTES, OUTBOX_EVENTS, QUERY_BYTES, SLOW_CLIENT};
use edn_bridge::value::{Owned, Value};
use support::guest::{Guest, socket};
use support::{Bridge, PATIENCE, Setup, end_of_turn};

/// The `:result` of a query in which nothing failed.
fn result(bridge: &mut Bridge, query: &str) -> Owned {
    let answer = bridge.ask("q", "query_eql", &format!("{{:query {}}}", edn::to_string(&Value::from(query))));
    let data = answer.get("data").unwrap_or_else(|| panic!("{query}: {answer}"));
    assert!(data.get("errors").is_none() && data.get("missing").is_none(), "{query}: {data}");
    data.get("result").unwrap().clone()
}

const CONNECTIONS: &str = "[{:psi.connection/list [:psi.connection/id :psi.connection/is-asking \
    :psi.connection/transport :psi.connection/connected-at :psi.connection/client-name \
    :psi.connection/client-version :psi.connection/protocol-version :psi.connection/features \
    :psi.connection/topics :psi.connection/pending :psi.connection/outbox-waiting \
    :psi.connection/outbox-bytes :psi.connection/seq]}]";

/// Asks until a connection fits: one that has just come, or gone, is told of a little later.
fn connection(bridge: &mut Bridge, fits: impl Fn(&Owned) -> bool) -> Owned {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = result(bridge, CONNECTIONS);
        let list = found.get("psi.connection/list").unwrap().as_slice().unwrap();
        if let Some(connection) = list.iter().find(|connection| fits(connection)) {
            return connection.clone();
        }
        assert!(Instant::now() < deadline, "{found}");
    }
}

fn told(of: &Owned, key: &str) -> String {
    of.get(&format!("psi.connection/{key}")).unwrap_or_else(|| panic!("{of} has no {key}")).to_string()
}

fn names(of: &Owned, name: &str) -> bool {
    of.get("psi.connection/client-name").and_then(Value::as_str) == Some(name)
}

#[test]
fn connection_shows_client_and_agreement() {
    let setup = Setup::new();
    let mut bridge = setup.serve();
    let hello = |name: &str, version: &str, features: &str| {
        format!(
            "{{:client-info {{:name {name:?} :version {version:?} :protocol-version \"1.7\" :features {features}}}}}"
        )
    };
    bridge.ask(
        "h",
        "handshake",
        &hello("editor", "29.4", "[\"flow-credit\" \"of-tomorrow\" \"interactor\"]"),
    );
    bridge.ask("s", "subscribe", "{:topics [\"assistant/message\" \"error\"]}");
    let own = connection(&mut bridge, |connection| names(connection, "editor"));
    for (key, expected) in [
        ("id", "1"),
        ("is-asking", "true"),
        ("transport", ":stdio"),
        ("client-version", "\"29.4\""),
        // The lower of both minors, and the features that both have, in the order of the catalogue.
        ("protocol-version", "\"1.0\""),
        ("features", "[\"interactor\" \"flow-credit\"]"),
        ("topics", "[\"assistant/message\" \"error\"]"),
        ("outbox-waiting", "0"),
        ("seq", "0"),
    ] {
        assert_eq!(told(&own, key), expected, "{key}: {own}");
    }
    let came: jiff::Timestamp = told(&own, "connected-at").trim_matches('"').parse().unwrap();
    let found = result(&mut bridge, "[:psi.process/started-at :psi.process/now]");
    let time = |key: &str| found.get(key).unwrap().as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time("psi.process/started-at") <= came && came <= time("psi.process/now"), "{own} {found}");

    // A version that does not fit changes nothing; a handshake that agrees anew does.
    bridge.ask(
        "h2",
        "handshake",
        "{:client-info {:name \"other\" :version \"1\" :protocol-version \"9.0\"}}",
    );
    assert_eq!(connection(&mut bridge, |connection| names(connection, "editor")), own);
    bridge.ask("h3", "handshake", &hello("editor", "30.1", "[]"));
    let own = connection(&mut bridge, |connection| names(connection, "editor"));
    assert_eq!([told(&own, "client-version"), told(&own, "features")], ["\"30.1\"", "[]"]);
}

#[test]
fn guest_name_is_known_after_handshake_and_cut_if_long() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let mut stream = UnixStream::connect(socket(&setup.state())).unwrap();
    let silent = |connection: &Owned| {
        connection.get("psi.connection/transport").and_then(Value::as_keyword) == Some("socket")
    };
    let guest = connection(&mut bridge, silent);
    for key in ["client-name", "client-version", "protocol-version", "features"] {
        assert_eq!(told(&guest, key), "nil", "{key}: {guest}");
    }
    assert_eq!(told(&guest, "is-asking"), "false");
    // Two bytes each, so that the cut falls within a character.
    let long = format!("x{}", "é".repeat(CLIENT_NAME_BYTES));
    let hello = format!(
        "{{:id \"h\" :kind :request :op \"handshake\" :params {{:client-info {{:name {long:?} :version {long:?} \
         :protocol-version \"1.0\"}}}}}}\n"
    );
    stream.write_all(hello.as_bytes()).unwrap();
    let kept = &long[..CLIENT_NAME_BYTES - 1];
    let guest = connection(&mut bridge, |connection| names(connection, kept));
    assert_eq!(told(&guest, "client-version"), format!("{kept:?}"));
    // Who asks is told apart from who is asked about.
    let mut other = Guest::at(&socket(&setup.state()));
    let asked =
        other.ask("q", "query_eql", &format!("{{:query {}}}", edn::to_string(&Value::from(CONNECTIONS))));
    let list = support::at(&asked, &["data", "result", "psi.connection/list"]).unwrap().as_slice().unwrap();
    let asking: Vec<_> =
        list.iter().filter(|connection| told(connection, "is-asking") == "true").cloned().collect();
    assert!(asking.len() == 1 && names(&asking[0], "guest"), "{asked}");
    drop(stream);
}

/// The first try is refused; the second is silent for a while, answers, and is silent again before its end.
const CALLS: &str = "{:turns [{:steps [{:error {:kind :rate-limited :retry-after-ms 1 :message \"wait\"}}]} \
    {:steps [{:sleep-ms 40} {:tool-call {:name \"find\" :arguments {:glob \"*\"}}} {:sleep-ms 40}] \
     :usage {:input 10 :output 30}} \
    {:steps [{:thinking \"hm\"} {:sleep-ms 40} {:delta \"Done.\"}] :usage {:input 10 :output 12}}]}";

const CALL: &str = "[{(:psi.agent-session/messages {:role \"assistant\"}) [:psi.message/first-token-ms \
    :psi.message/duration-ms :psi.message/retries :psi.message/tokens-per-second]} :psi.turn/first-token-ms \
    :psi.turn/model-ms :psi.turn/retries :psi.turn/tokens-per-second]";

#[test]
fn model_call_times_survive_restart() {
    let setup = Setup::new().script(CALLS);
    let mut bridge = setup.ready();
    let nothing = "{:psi.turn/first-token-ms nil :psi.turn/model-ms nil :psi.turn/retries 0 \
                   :psi.turn/tokens-per-second nil}";
    let of_turn =
        "[:psi.turn/first-token-ms :psi.turn/model-ms :psi.turn/retries :psi.turn/tokens-per-second]";
    assert_eq!(result(&mut bridge, of_turn).to_string(), nothing);
    bridge.ask("p", "prompt", "{:message \"look\"}");
    bridge.until(|frame| {
        frame.to_string().contains(":text \"Done.\" ") && support::is_event(frame, "assistant/message")
    });
    let found = result(&mut bridge, CALL);
    let calls = found.get("psi.agent-session/messages").unwrap().as_slice().unwrap();
    let figure =
        |of: &Owned, key: &str| of.get(key).and_then(Value::as_i64).unwrap_or_else(|| panic!("{key}: {of}"));
    let rate =
        |of: &Owned, key: &str| of.get(key).and_then(Value::as_f64).unwrap_or_else(|| panic!("{key}: {of}"));
    let [tool, last] = calls else { panic!("{found}") };
    let first = ["psi.message/first-token-ms", "psi.message/duration-ms"].map(|key| figure(tool, key));
    // The first piece came after the silence, the end after another.
    assert!(first[0] >= 40 && first[1] >= first[0] + 40, "{found}");
    assert_eq!([figure(tool, "psi.message/retries"), figure(last, "psi.message/retries")], [1, 0], "{found}");
    let second = ["psi.message/first-token-ms", "psi.message/duration-ms"].map(|key| figure(last, key));
    // Thinking counts as an answer: it came before the silence.
    assert!(second[1] >= second[0] + 40, "{found}");
    let expected = |tokens: i64, millis: i64| {
        let [tokens, millis] = [tokens, millis].map(|n| f64::from(u32::try_from(n).unwrap()));
        (tokens * 10_000.0 / millis).round() / 10.0
    };
    for (told, tokens, millis) in [
        (rate(tool, "psi.message/tokens-per-second"), 30, first[1]),
        (rate(last, "psi.message/tokens-per-second"), 12, second[1]),
        (rate(&found, "psi.turn/tokens-per-second"), 42, first[1] + second[1]),
    ] {
        assert!((told - expected(tokens, millis)).abs() < 0.05, "{told} for {tokens} in {millis}: {found}");
    }
    assert_eq!(figure(&found, "psi.turn/first-token-ms"), first[0]);
    assert_eq!(figure(&found, "psi.turn/model-ms"), first[1] + second[1]);
    assert_eq!(figure(&found, "psi.turn/retries"), 1);
    // On the wire a message has no more keys than the contract gives it: the durations of the tool's call and the thought.
    let wire = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(wire.contains("Done.") && !wire.contains("timing"), "{wire}");
    assert_eq!((wire.matches("-ms").count(), wire.matches(":duration-ms").count()), (2, 2), "{wire}");

    let path = result(&mut bridge, "[:psi.agent-session/session-file]");
    let path = path.get("psi.agent-session/session-file").unwrap().clone();
    bridge.finish();
    let mut again = setup.ready();
    again.ask("o", "switch_session", &format!("{{:session-path {path}}}"));
    assert_eq!(result(&mut again, CALL), found);
}

const COUNTS: &str = "[:psi.process/answer-count :psi.process/error-count \
    {:psi.process/ops [:psi.op/name :psi.op/answered :psi.op/failed]} \
    {:psi.process/errors [:psi.error/code :psi.error/count]}]";

#[test]
fn answers_are_counted_by_op_and_errors_by_code() {
    let setup = Setup::new();
    let mut bridge = setup.serve();
    bridge.ask("e", "ping", "{}");
    bridge.handshake();
    for _ in 0..3 {
        bridge.ask("p", "ping", "{}");
    }
    bridge.ask("s", "subscribe", "{:topics [\"error\"]}");
    bridge.ask("a", "ack", "{:seq 0}");
    bridge.ask("g", "get_state", "{}");
    bridge.ask("n", "get_state", "{:session-id \"none\"}");
    bridge.ask("i", "set_session_name", "{:name 1}");
    bridge.ask("u", "of_tomorrow", "{}");
    bridge.send("(");
    bridge.line();
    bridge.send("{:kind :request :op \"ping\"}");
    bridge.line();
    let found = result(&mut bridge, COUNTS);
    let op = |name: &str, answered: u32, failed: u32| {
        format!("{{:psi.op/name {name:?} :psi.op/answered {answered} :psi.op/failed {failed}}}")
    };
    let ops = [
        op("handshake", 1, 0),
        // Before the handshake, and without an id.
        op("ping", 5, 2),
        op("subscribe", 1, 0),
        op("ack", 1, 0),
        op("get_state", 2, 1),
        op("set_session_name", 1, 1),
    ];
    let error = |(code, count): (&str, u32)| format!("{{:psi.error/code {code:?} :psi.error/count {count}}}");
    let errors = [
        ("transport/not-ready", 1),
        ("transport/invalid-frame", 1),
        ("protocol/invalid-envelope", 1),
        ("request/invalid-params", 1),
        ("request/op-not-supported", 1),
        ("request/not-found", 1),
    ];
    assert_eq!(
        found.to_string(),
        format!(
            "{{:psi.process/answer-count 13 :psi.process/error-count 6 :psi.process/ops [{}] :psi.process/errors [{}]}}",
            ops.join(" "),
            errors.map(error).join(" ")
        )
    );
    // Those of every connection count, also of one that is gone; the query from before is counted now.
    let mut guest = Guest::at(&socket(&setup.state()));
    guest.ask("p", "ping", "{}");
    drop(guest);
    let found = result(
        &mut bridge,
        "[{[:psi.op/name \"ping\"] [:psi.op/answered]} {[:psi.op/name \"query_eql\"] [:psi.op/answered :psi.op/failed]} \
          {[:psi.op/name \"abort\"] [:psi.op/answered]} {[:psi.error/code \"runtime/failed\"] [:psi.error/count]}]",
    );
    assert_eq!(
        found.to_string(),
        "{[:psi.op/name \"ping\"] {:psi.op/answered 6} \
         [:psi.op/name \"query_eql\"] {:psi.op/answered 1 :psi.op/failed 0} \
         [:psi.op/name \"abort\"] {:psi.op/answered 0} [:psi.error/code \"runtime/failed\"] {:psi.error/count 0}}"
    );
}

#[test]
fn config_revision_grows_with_each_successful_reload() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo\"}}}]} {:steps [{:delta \"a\"}]}]}",
    );
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{}").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.interactor();
    let query = "[:psi.config/revision :psi.config/read-at :psi.agent-session/config-revision :psi.process/started-at]";
    let read = |bridge: &mut Bridge| {
        let found = result(bridge, query);
        let number = |key: &str| found.get(key).and_then(Value::as_i64).unwrap();
        let time = |key: &str| found.get(key).and_then(Value::as_str).unwrap().to_owned();
        let revisions = [number("psi.config/revision"), number("psi.agent-session/config-revision")];
        (revisions, time("psi.config/read-at"), time("psi.process/started-at"))
    };
    let (revisions, first, started) = read(&mut bridge);
    assert_eq!(revisions, [1, 1]);
    assert!(first >= started, "read {first}, started {started}");
    let reload = |bridge: &mut Bridge, expected: &str| {
        bridge.ask("r", "command", "{:text \"/reload\"}");
        let told = bridge.event("command-result").to_string();
        assert!(told.contains(expected), "{told}");
    };
    reload(&mut bridge, ":type \"text\"");
    let (revisions, second, _) = read(&mut bridge);
    assert_eq!(revisions, [2, 2]);
    assert!(second > first, "{second} after {first}");
    // What cannot be read changes nothing.
    std::fs::write(&config, "{:hooks 1}").unwrap();
    reload(&mut bridge, ":type \"error\"");
    assert_eq!(read(&mut bridge), ([2, 2], second, started));
    std::fs::write(&config, "{}").unwrap();
    // A turn continues what it began with until its next boundary.
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    // The command is answered at that boundary.
    bridge.ask("r", "command", "{:text \"/reload\"}");
    let deadline = Instant::now() + PATIENCE;
    while read(&mut bridge).0 == [2, 2] {
        assert!(Instant::now() < deadline, "{}", bridge.told());
    }
    assert_eq!(read(&mut bridge).0, [3, 2]);
    support::accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    bridge.until(|frame| {
        support::is_event(frame, "assistant/message") && frame.to_string().contains(":text \"a\"")
    });
    assert_eq!(read(&mut bridge).0, [3, 3]);
}

#[test]
fn additional_slash_commands_are_named() {
    let setup = Setup::new();
    let write = |path: &str, text: &str| {
        let path = setup.project().join(".edn-bridge").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let mut bridge = setup.ready();
    let query = "[:psi.extension/command-names]";
    assert_eq!(result(&mut bridge, query).to_string(), "{:psi.extension/command-names []}");
    write("prompts/greet.md", "Hello $1\n");
    // A command of the program hides one of its name, a template a skill.
    write("prompts/help.md", "Hidden.\n");
    for skill in ["tidy", "greet", "status"] {
        write(&format!("skills/{skill}/SKILL.md"), "---\ndescription: Tidies up.\n---\n");
    }
    bridge.ask("r", "command", "{:text \"/reload\"}");
    bridge.event("command-result");
    let found = result(&mut bridge, query);
    assert_eq!(found.to_string(), "{:psi.extension/command-names [\"greet\" \"tidy\"]}");
    // They are those that completion is told of.
    let listed = bridge.ask("c", "get_commands", "{}");
    let listed = support::at(&listed, &["data", "commands"]).unwrap().as_slice().unwrap();
    let source = |command: &Owned| command.get("source").and_then(Value::as_str).unwrap().to_owned();
    let added: Vec<_> = listed
        .iter()
        .filter(|command| source(command) != "built-in")
        .map(|command| command.get("name").unwrap().clone())
        .collect();
    assert_eq!(found.get("psi.extension/command-names").unwrap().as_slice().unwrap(), added);
}

/// The times of the newest model call, in milliseconds.
fn times(bridge: &mut Bridge) -> [i64; 3] {
    let found = result(bridge, "[:psi.turn/first-token-ms :psi.turn/model-ms]");
    let last = "[{(:psi.agent-session/messages {:role \"assistant\" :limit 1}) [:psi.message/duration-ms]}]";
    let message = result(bridge, last);
    let message = &message.get("psi.agent-session/messages").unwrap().as_slice().unwrap()[0];
    let figure = |of: &Owned, key: &str| of.get(key).and_then(Value::as_i64).unwrap();
    [
        figure(&found, "psi.turn/first-token-ms"),
        figure(&found, "psi.turn/model-ms"),
        figure(message, "psi.message/duration-ms"),
    ]
}

#[test]
fn model_call_time_excludes_hooks_and_slow_clients() {
    // Nothing of it can be merged with what comes before: it fills an outbox.
    let pieces = "{:delta \"a\"} {:thinking \"b\"}".repeat(OUTBOX_EVENTS);
    let script = format!("{{:turns [{{:steps [{{:delta \"at once\"}}]}} {{:steps [{pieces}]}}]}}");
    let setup = Setup::new().script(&script);
    // The first prompt waits for a hook before its answer is read.
    let config = setup.dir.path().join("config.edn");
    let hook = "test -e held || { touch held; sleep 1; }";
    let hook = format!(
        "{{:hooks [{{:id \"h\" :stage :stream-response :point :pre :kind :observer :command [\"bash\" \"-c\" {hook:?}]}}]}}"
    );
    std::fs::write(&config, hook).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.ready();
    let begun = Instant::now();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    end_of_turn(&mut bridge);
    let elapsed = begun.elapsed();
    assert!(elapsed.as_secs() >= 1, "the hook was not waited for");
    assert!(setup.project().join("held").exists());
    // However busy the machine is, the second of the hook is none of the model's.
    let besides = |times: &[i64], elapsed: Duration, held_up: Duration| {
        times.iter().all(|millis| u128::try_from(*millis).unwrap() <= (elapsed - held_up).as_millis())
    };
    let model = times(&mut bridge);
    assert!(besides(&model, elapsed, Duration::from_secs(1)), "{model:?} of {elapsed:?}");

    let mut guest = Guest::interactor(&socket(&setup.state()));
    // It knows the session; from here on it does not read.
    guest.ask("g", "get_state", "{}");
    let begun = Instant::now();
    bridge.ask("p2", "prompt", "{:message \"go on\"}");
    end_of_turn(&mut bridge);
    let elapsed = begun.elapsed();
    assert!(elapsed >= SLOW_CLIENT, "the guest was not waited for");
    let model = times(&mut bridge);
    assert!(besides(&model[1..], elapsed, SLOW_CLIENT), "{model:?} of {elapsed:?}");
}

/// The most that the bridge has held in memory, in bytes.
fn resident(bridge: &Bridge) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", bridge.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn many_equal_asks_take_the_memory_of_one() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"x\"}]}]}");
    let mut bridge = setup.ready();
    let text = "x".repeat(1024 * 1024);
    bridge.ask("p", "prompt", &format!("{{:message {text:?}}}"));
    end_of_turn(&mut bridge);
    let before = resident(&bridge);
    let ask = |bridge: &mut Bridge, asks: String| {
        bridge.ask("q", "query_eql", &format!("{{:query {:?}}}", format!("[{asks}]")))
    };
    let same = ask(&mut bridge, "{:psi.agent-session/messages [*]} ".repeat(640));
    assert_eq!(support::kind(&same), "response", "{}", same.to_string().len());
    // Different params make different asks: then the bound on bytes holds.
    let different: String =
        (0..640).map(|n| format!("{{(:psi.agent-session/messages {{:n {n}}}) [*]}} ")).collect();
    let refused = ask(&mut bridge, different);
    assert_eq!(support::code(&refused), "runtime/query-failed");
    // Its own bound, not that of all answers together.
    let reason = support::at(&refused, &["error-message"]).unwrap().to_string();
    assert!(reason.contains(&format!("or {QUERY_BYTES} bytes")), "{reason}");
    let grown = resident(&bridge).saturating_sub(before);
    assert!(grown < 256 * 1024 * 1024, "{grown} bytes more");
    // What was counted is free again.
    let same = ask(&mut bridge, "{:psi.agent-session/messages [*]}".to_owned());
    assert_eq!(support::kind(&same), "response");
}

#[test]
fn texts_and_paths_of_a_guest_are_bounded() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let long = "a AND ".repeat(20_000);
    let refused = bridge.ask("l", "list_sessions", &format!("{{:text {long:?}}}"));
    assert_eq!(support::code(&refused), "request/invalid-params", "{refused}");
    let short = "a AND ".repeat(100);
    assert_eq!(support::kind(&bridge.ask("l", "list_sessions", &format!("{{:text {short:?}}}"))), "response");
    let pipe = setup.dir.path().join("pipe.edn");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let before = resident(&bridge);
    for path in ["/dev/zero", pipe.to_str().unwrap(), "/proc/self/mem"] {
        let refused = bridge.ask("s", "switch_session", &format!("{{:session-path {path:?}}}"));
        assert_eq!(support::kind(&refused), "error", "{path}: {refused}");
    }
    // A file that never ends is refused before it is read.
    let grown = resident(&bridge).saturating_sub(before);
    assert!(grown < 64 * 1024 * 1024, "{grown} bytes more");
}

/// Queries of few bytes whose joins lead to millions of entities.
const GROWING: &[&str] = &[
    "[{:psi.graph/attributes [{:psi.graph/attributes [{:psi.graph/attributes [:psi.attribute/name]}]}]}]",
    "[{:psi.graph/attributes [:psi.attribute/name {:psi.graph/attributes ...}]}]",
    "[{:psi.catalog/ops [{:psi.graph/attributes 9}]}]",
    "[{:psi.tool/list [:psi.tool/name {:psi.tool/list ...}]}]",
    "[{:psi.tool/list [* {:psi.tool/list ...}]}]",
    "[{:psi.session/live [{:psi.graph/attributes [{:psi.graph/attributes {:psi.attribute/name [{:psi.graph/attributes [*]}]}}]}]}]",
];

#[test]
fn growing_queries_of_all_clients_stay_within_memory() {
    let setup = Setup::new();
    // Address space for a process at rest, and for all that queries may hold together, with the rests of its threads.
    let mut bridge = support::disk::limited(&setup, "ulimit -v 2500000");
    bridge.handshake();
    let mut guests: Vec<Guest> = (0..3).map(|_| Guest::at(&socket(&setup.state()))).collect();
    let query = |text: &str| format!("{{:query {}}}", edn::to_string(&Value::from(text)));
    for (place, text) in GROWING.iter().enumerate() {
        for guest in &mut guests {
            guest.send(&format!("g{place}"), "query_eql", &query(text));
        }
        bridge.request(&format!("b{place}"), "query_eql", &query(text));
        // The same connection is served meanwhile.
        let begun = Instant::now();
        assert_eq!(support::kind(&bridge.ask(&format!("p{place}"), "ping", "{}")), "response");
        assert!(begun.elapsed() < Duration::from_secs(4), "{text}: {:?}", begun.elapsed());
        let refused = bridge.answer(&format!("b{place}"));
        assert_eq!(support::code(&refused), "runtime/query-failed", "{text}: {refused}");
        for guest in &mut guests {
            let id = format!("g{place}");
            let refused = guest.until(|frame| frame.get("id").and_then(Value::as_str) == Some(&id));
            assert_eq!(support::code(&refused), "runtime/query-failed", "{text}: {refused}");
        }
    }
    // Nothing of them is held any more.
    result(&mut bridge, "[{:psi.graph/attributes [:psi.attribute/name]}]");
}
