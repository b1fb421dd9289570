//! Spans and metrics over OTLP: what a receiver built with the protocol's own messages gets of real turns.

use crate::support;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use edn_bridge::value::{Owned, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use support::server::{Answer, Asked, End, Server};
use support::{Bridge, PATIENCE, Setup, accept, end_of_turn, wait_until};

/// A subagent that runs a command, and an answer.
const DELEGATE: &str = r#"{:turns [{:steps [{:tool-call {:id "d" :name "delegate" :arguments {:task "Look around." :tools ["bash" "read"]}}}] :usage {:input 100 :output 20}}
                                   {:steps [{:tool-call {:id "c" :name "bash" :arguments {:command "echo canary-7f3"}}}]}
                                   {:steps [{:delta "the child says so"}]}
                                   {:steps [{:delta "canary-7f4"}] :usage {:input 50 :output 5}}]}"#;

const ONE_TURN: &str =
    "{:turns [{:steps [{:delta \"Hello.\"}] :usage {:input 10 :output 5}}] :then :repeat-last}";

/// A user's file with a hook after each tool call, and what it says of telemetry.
fn configured(setup: &Setup, telemetry: &str) {
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let hooks = "[{:id \"after\" :stage :tool-call :point :post :kind :observer :command [\"true\"] :tools [\"bash\"]}]";
    std::fs::write(folder.join("config.edn"), format!("{{:hooks {hooks} {telemetry}}}")).unwrap();
}

fn receiver() -> Server {
    Server::of(|_| Answer::json(200, ""))
}

/// The turn with the subagent, to the end of its process; and what a receiver got.
fn delegated(telemetry: &str, more: &[(&str, &str)], server: &Server) -> Vec<Asked> {
    let mut setup = Setup::new().script(DELEGATE);
    configured(&setup, telemetry);
    for (name, value) in more {
        setup = setup.env(name, value);
    }
    let mut bridge = setup.interactor();
    bridge.ask("p7", "prompt", "{:message \"canary-7f5\"}");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\"}");
    end_of_turn(&mut bridge);
    let (status, _, error) = bridge.finish();
    assert!(status.success() && error.is_empty(), "{error}");
    server.all_asked()
}

fn spans(asked: &[Asked]) -> Vec<Span> {
    let bodies = asked.iter().filter(|asked| asked.path == "/v1/traces");
    let requests = bodies.map(|asked| ExportTraceServiceRequest::decode(&asked.bytes[..]).unwrap());
    let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|of| of.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        Any::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs =
        all.iter().filter_map(|one| Some((one.key.clone(), text(one.value.as_ref()?.value.as_ref()?))));
    pairs.collect()
}

/// The tree of the spans: each below its parent, siblings in the order in which they began.
fn tree(spans: &[Span]) -> String {
    fn below(spans: &[Span], parent: &[u8], depth: usize, out: &mut String) {
        let mut own: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == parent).collect();
        own.sort_by_key(|span| span.start_time_unix_nano);
        for span in own {
            out.push_str(&format!("{}{}\n", "  ".repeat(depth), span.name));
            below(spans, &span.span_id, depth + 1, out);
        }
    }
    let mut out = String::new();
    below(spans, &[], 0, &mut out);
    out
}

#[test]
fn spans_nest_from_a_turn_to_a_subagents_hook() {
    let server = receiver();
    let asked = delegated(
        &format!(":telemetry {{:endpoint {:?} :headers {{\"x-key\" \"sesame\"}}}}", server.url()),
        &[],
        &server,
    );
    let spans = spans(&asked);
    assert_eq!(
        tree(&spans),
        "invoke_agent edn-bridge\n  chat scripted\n  execute_tool delegate\n    question approve-subagent-envelope\n    \
         invoke_agent edn-bridge\n      chat scripted\n      execute_tool bash\n        hook after\n      chat scripted\n  \
         chat scripted\n"
    );
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| span.trace_id.clone()).collect();
    assert_eq!(traces.len(), 1);
    for span in &spans {
        let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
        let is_within = |parent: &Span| {
            parent.start_time_unix_nano <= span.start_time_unix_nano
                && span.end_time_unix_nano <= parent.end_time_unix_nano
        };
        assert!(parent.is_none_or(is_within), "{} is not within its parent", span.name);
    }
    let of = |name: &str| attributes(&spans.iter().find(|span| span.name == name).unwrap().attributes);
    let chat = of("chat scripted");
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "scripted"),
        ("gen_ai.request.model", "scripted"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.output_tokens", "20"),
    ] {
        assert_eq!(chat.get(key).map(String::as_str), Some(value), "{key}: {chat:?}");
    }
    let numbers = spans.iter().flat_map(|span| &span.attributes).filter(|one| one.key.contains("tokens"));
    for number in numbers {
        let value = number.value.as_ref().and_then(|value| value.value.as_ref());
        assert!(matches!(value, Some(Any::IntValue(_))), "{number:?}");
    }
    assert!(chat["gen_ai.response.finish_reasons"].contains("ArrayValue"), "{chat:?}");
    let turn = attributes(&spans.iter().find(|span| span.parent_span_id.is_empty()).unwrap().attributes);
    assert_eq!(
        (turn["gen_ai.operation.name"].as_str(), turn["edn_bridge.request.id"].as_str()),
        ("invoke_agent", "p7")
    );
    let tool = of("execute_tool bash");
    assert_eq!((tool["gen_ai.tool.name"].as_str(), tool["gen_ai.tool.call.id"].as_str()), ("bash", "c"));
    assert_eq!(of("question approve-subagent-envelope")["edn_bridge.question.outcome"], "approve");
    assert_eq!(of("hook after")["edn_bridge.hook.stage"], "tool-call");
    // No word of the conversation, in any request; and the key only where it belongs.
    for one in &asked {
        assert!(!one.body.contains("canary") && !one.body.contains("sesame"), "{}", one.body);
        assert_eq!((one.line("x-key"), one.line("content-type")), ("sesame", "application/x-protobuf"));
    }
}

#[test]
fn metrics_have_the_names_of_the_conventions() {
    let server = receiver();
    let url = server.url();
    let asked =
        delegated("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("OTEL_SERVICE_NAME", "mine")], &server);
    let bodies = asked.iter().filter(|asked| asked.path == "/v1/metrics");
    let last = bodies
        .map(|asked| ExportMetricsServiceRequest::decode(&asked.bytes[..]).unwrap())
        .next_back()
        .unwrap();
    let resource = attributes(&last.resource_metrics[0].resource.as_ref().unwrap().attributes);
    assert_eq!(resource["service.name"], "mine");
    let metrics = &last.resource_metrics[0].scope_metrics[0].metrics;
    let points = |name: &str| {
        let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
        let of = |point: &opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint| {
            (attributes(&point.attributes), point.count, point.sum.unwrap())
        };
        (metric.unit.clone(), histogram.data_points.iter().map(of).collect::<Vec<_>>())
    };
    let (unit, tokens) = points("gen_ai.client.token.usage");
    let sum = |kind: &str| {
        let of_kind = tokens.iter().filter(|(by, ..)| by["gen_ai.token.type"] == kind);
        of_kind.map(|(_, _, sum)| *sum).sum::<f64>()
    };
    assert_eq!((unit.as_str(), sum("input"), sum("output")), ("{token}", 150.0, 25.0));
    let (unit, durations) = points("gen_ai.client.operation.duration");
    let count = |operation: &str| {
        let of_kind = durations.iter().filter(|(by, ..)| by["gen_ai.operation.name"] == operation);
        of_kind.map(|(_, count, _)| *count).sum::<u64>()
    };
    assert_eq!(unit, "s");
    assert_eq!([count("chat"), count("execute_tool"), count("invoke_agent")], [4, 2, 2]);
}

#[test]
fn texts_are_sent_only_if_asked_for_and_keys_are_masked() {
    let server = receiver();
    let asked =
        delegated(&format!(":telemetry {{:endpoint {:?} :content true}}", server.url()), &[], &server);
    let spans = spans(&asked);
    let of = |name: &str| {
        let found = spans.iter().filter(|span| span.name == name).map(|span| attributes(&span.attributes));
        found.collect::<Vec<_>>()
    };
    let chats = of("chat scripted");
    assert!(chats.iter().any(|chat| chat["gen_ai.input.messages"].contains("canary-7f5")), "{chats:?}");
    assert!(chats.iter().any(|chat| chat["gen_ai.output.messages"].contains("canary-7f4")), "{chats:?}");
    let bash = &of("execute_tool bash")[0];
    assert!(bash["gen_ai.tool.call.arguments"].contains("canary-7f3"), "{bash:?}");
    assert!(bash["gen_ai.tool.call.result"].contains("canary-7f3"), "{bash:?}");
    // What looks like a key is masked; and the log has no text, however much it tells.
    let setup = Setup::new().script(ONE_TURN);
    configured(&setup, &format!(":telemetry {{:endpoint {:?} :content true}}", server.url()));
    let mut bridge = setup.arg("--log").arg("trace").ready();
    bridge.ask("p", "prompt", "{:message \"canary-7f5, the password: hunter2\"}");
    bridge.event("turn/ended");
    let (_, _, log) = bridge.finish();
    assert!(log.contains("invoke_agent") && !log.contains("hunter2"), "{log}");
    assert!(!log.lines().any(|line| line.contains("telemetry::texts")), "{log}");
    let asked = server.all_asked();
    let bodies: String = asked.iter().map(|asked| asked.body.as_str()).collect();
    assert!(bodies.contains("canary-7f5") && !bodies.contains("hunter2"), "{bodies}");
}

fn figure(bridge: &mut Bridge, attribute: &str) -> Owned {
    let answer = bridge.ask("q", "query_eql", &format!("{{:query \"[:{attribute}]\"}}"));
    support::at(&answer, &["data", "result", attribute]).cloned().unwrap_or(Value::Nil)
}

#[test]
fn hanging_receiver_holds_up_no_turn_and_drops_are_counted() {
    // It takes requests, and answers none.
    let server = Server::of(|_| Answer::json(200, "never whole").end(End::Silent));
    let url = server.url();
    let setup = Setup::new().script(ONE_TURN).env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    let setup = setup.env("OTEL_BSP_MAX_QUEUE_SIZE", "4").env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1");
    let mut bridge = setup.ready();
    for _ in 0..20 {
        bridge.ask("p", "prompt", "{:message \"go on\"}");
        bridge.event("turn/ended");
    }
    // One is on its way, four wait.
    server.asked();
    let dropped = figure(&mut bridge, "psi.telemetry/dropped").as_i64().unwrap();
    assert!((30..=36).contains(&dropped), "{dropped} of 40 spans were dropped");
    assert_eq!(figure(&mut bridge, "psi.telemetry/sent"), Value::int(0));
    assert_eq!(figure(&mut bridge, "psi.telemetry/endpoint").as_str(), Some(url.as_str()));
    let (status, _, error) = bridge.finish();
    assert!(status.success() && error.contains("did not take the last spans in time"), "{error}");
}

#[test]
fn receiver_that_is_not_there_is_told_once() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let setup = Setup::new().script(ONE_TURN);
    configured(
        &setup,
        &format!(":telemetry {{:endpoint \"http://user:sesame@127.0.0.1:{port}/?key=sesame\"}}"),
    );
    let setup = setup.env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let mut bridge = setup.ready();
    let dropped = |bridge: &mut Bridge| figure(bridge, "psi.telemetry/dropped").as_i64().unwrap();
    for _ in 0..3 {
        let before = dropped(&mut bridge);
        bridge.ask("p", "prompt", "{:message \"go on\"}");
        bridge.event("turn/ended");
        let deadline = std::time::Instant::now() + PATIENCE;
        while dropped(&mut bridge) < before + 2 {
            assert!(std::time::Instant::now() < deadline, "nothing is counted");
        }
    }
    let why = figure(&mut bridge, "psi.telemetry/failure");
    assert!(why.as_str().is_some_and(|why| !why.is_empty() && !why.contains("sesame")), "{why}");
    let where_to = figure(&mut bridge, "psi.telemetry/endpoint").to_string();
    assert!(where_to.contains("127.0.0.1") && !where_to.contains("sesame"), "{where_to}");
    let (status, _, error) = bridge.finish();
    assert!(status.success() && !error.contains("sesame"), "{error}");
    assert_eq!(error.matches("spans of telemetry were dropped").count(), 1, "{error}");
}

#[test]
fn endpoint_keeps_its_query_and_its_path_gets_longer() {
    for (path, expected) in [
        ("/?key=sesame", "/v1/traces?key=sesame"),
        ("", "/v1/traces"),
        ("/otlp", "/otlp/v1/traces"),
        ("/otlp/?a=1&b=2", "/otlp/v1/traces?a=1&b=2"),
    ] {
        let server = receiver();
        let endpoint = format!("{}{path}", server.url());
        let setup = Setup::new().script(ONE_TURN);
        configured(&setup, &format!(":telemetry {{:endpoint {endpoint:?}}}"));
        one_turn(setup.env("OTEL_METRICS_EXPORTER", "none"));
        let asked = server.all_asked();
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.path == expected), "{asked:?}");
        let server = receiver();
        let endpoint = format!("{}{path}", server.url());
        let setup = Setup::new().script(ONE_TURN).env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
        one_turn(setup.env("OTEL_METRICS_EXPORTER", "none"));
        let asked = server.all_asked();
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.path == expected), "{asked:?}");
    }
}

/// A turn, to the end of its process.
fn one_turn(setup: Setup) {
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go on\"}");
    bridge.event("turn/ended");
    let (status, _, error) = bridge.finish();
    assert!(status.success() && error.is_empty(), "{error}");
}

#[test]
fn signal_goes_to_the_first_that_names_its_receiver() {
    // The paths and the keys that each of three receivers gets, for what the variables say.
    let (own, general, file) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "file");
    let tried: [(&[&str], [&[&str]; 3]); 5] = [
        (&[own], [&["/own "], &[], &[]]),
        (&[general], [&[], &["/v1/metrics ", "/v1/traces "], &[]]),
        (&[own, general], [&["/own "], &["/v1/metrics "], &[]]),
        (&[own, file], [&["/own "], &[], &["/v1/metrics sesame"]]),
        (&[general, file], [&[], &["/v1/metrics ", "/v1/traces "], &[]]),
    ];
    for (named, expected) in tried {
        let servers = [own, general, file].map(|name| (name, receiver()));
        let mut setup = Setup::new().script(ONE_TURN);
        for (name, server) in servers.iter().filter(|(name, _)| named.contains(name)) {
            setup = match *name {
                "file" => {
                    let headers = ":headers {\"x-key\" \"sesame\"}";
                    configured(&setup, &format!(":telemetry {{:endpoint {:?} {headers}}}", server.url()));
                    setup
                }
                name if name == own => setup.env(name, &format!("{}/own", server.url())),
                name => setup.env(name, &server.url()),
            };
        }
        one_turn(setup);
        for ((name, server), expected) in servers.iter().zip(expected) {
            let asked = server.all_asked();
            let got: std::collections::BTreeSet<String> =
                asked.iter().map(|asked| format!("{} {}", asked.path, asked.line("x-key"))).collect();
            assert_eq!(got.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{named:?}: {name}");
        }
    }
}

#[test]
fn metrics_count_what_the_sampler_leaves_out() {
    let server = receiver();
    let setup = Setup::new().script(ONE_TURN).env("OTEL_EXPORTER_OTLP_ENDPOINT", &server.url());
    one_turn(setup.env("OTEL_TRACES_SAMPLER", "always_off"));
    let asked = server.all_asked();
    let paths: std::collections::BTreeSet<&str> = asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["/v1/metrics"]);
    let last = ExportMetricsServiceRequest::decode(&asked.last().unwrap().bytes[..]).unwrap();
    let metrics = &last.resource_metrics[0].scope_metrics[0].metrics;
    assert!(metrics.iter().any(|metric| metric.name == "gen_ai.client.token.usage"), "{metrics:?}");
}

#[test]
fn exporter_that_cannot_be_made_ends_no_turn_and_is_told() {
    for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let setup = Setup::new().script(ONE_TURN).env(name, "no address?key=sesame");
        let mut bridge = setup.ready();
        bridge.ask("p", "prompt", "{:message \"go on\"}");
        let ended = bridge.event("turn/ended");
        assert_eq!(support::data(&ended, "outcome"), "completed", "{ended}");
        let why = figure(&mut bridge, "psi.telemetry/failure");
        assert!(why.as_str().is_some_and(|why| why.contains("is no address")), "{why}");
        let (status, _, error) = bridge.finish();
        assert!(status.success() && error.contains("no telemetry is sent"), "{error}");
        assert!(!error.contains("panicked") && !error.contains("sesame"), "{error}");
    }
}

#[test]
fn compression_that_this_build_lacks_is_left_out() {
    let server = receiver();
    let setup = Setup::new().script(ONE_TURN).env("OTEL_EXPORTER_OTLP_ENDPOINT", &server.url());
    let mut bridge = setup.env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip").ready();
    bridge.ask("p", "prompt", "{:message \"go on\"}");
    bridge.event("turn/ended");
    assert!(bridge.finish().0.success());
    assert!(!spans(&server.all_asked()).is_empty());
}

#[test]
fn nothing_is_sent_unless_it_is_configured_or_if_it_is_disabled() {
    let server = receiver();
    let turn = |setup: Setup| {
        let mut bridge = setup.ready();
        bridge.ask("p", "prompt", "{:message \"go on\"}");
        bridge.event("turn/ended");
        assert_eq!(figure(&mut bridge, "psi.telemetry/endpoint"), Value::Nil);
        bridge.finish()
    };
    turn(Setup::new().script(ONE_TURN));
    let named = Setup::new().script(ONE_TURN).env("OTEL_EXPORTER_OTLP_ENDPOINT", &server.url());
    turn(named.env("OTEL_SDK_DISABLED", "true"));
    // A project can name no receiver, however much it is trusted.
    let setup = Setup::new().script(ONE_TURN);
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), format!("{{:telemetry {{:endpoint {:?}}}}}", server.url()))
        .unwrap();
    let mut bridge = setup.ready();
    bridge.ask("t", "trust_project", "{:trusted true}");
    bridge.ask("p", "prompt", "{:message \"go on\"}");
    bridge.event("turn/ended");
    bridge.finish();
    assert_eq!(server.all_asked().len(), 0);
}

/// Opt-in: the path of `rotel-agent`, from the package `rotel` of PyPI.
#[test]
fn real_collector_takes_spans_and_metrics() {
    let Some(collector) = std::env::var_os("EDN_BRIDGE_COLLECTOR") else {
        eprintln!("NOT TRIED: EDN_BRIDGE_COLLECTOR names no collector");
        return;
    };
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (http, grpc, dir) = (port(), port(), tempfile::tempdir().unwrap());
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut command = Command::new(collector);
    command.args(["start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log", "metrics"]);
    command.args(["--debug-log-verbosity", "detailed", "--otlp-http-endpoint", &format!("127.0.0.1:{http}")]);
    command.args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{grpc}")]).current_dir(dir.path());
    let mut running =
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    wait_until("the collector does not listen", || std::net::TcpStream::connect(("127.0.0.1", http)).is_ok());
    let setup = Setup::new().script(ONE_TURN);
    configured(&setup, &format!(":telemetry {{:endpoint \"http://127.0.0.1:{http}\"}}"));
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    bridge.event("turn/ended");
    let (_, _, error) = bridge.finish();
    assert!(error.is_empty(), "{error}");
    let told = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    wait_until("the collector has no span", || {
        let told = told();
        told.contains("invoke_agent edn-bridge") && told.contains("gen_ai.client.token.usage")
    });
    let told = told();
    assert!(told.contains("chat scripted") && told.contains("gen_ai.client.operation.duration"), "{told}");
    running.kill().unwrap();
    running.wait().unwrap();
}
