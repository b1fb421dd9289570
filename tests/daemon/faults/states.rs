//! Faults: the end of input in every state of the bridge.

use std::io::Read as _;

use edn_bridge::value::Owned;

use super::{ECHO, ENDLESS, alive};
use crate::support::guest::{Guest, socket};
use crate::support::server::{Answer, End, Server};
use crate::support::{Bridge, PATIENCE, Setup, accept, at, data, end_of_turn, files, is_event, kind};

/// A call of a tool that runs for an hour and tells its process.
const BASH: &str =
    "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo $$; exec sleep 3600\"}}}]}]}";
const BACKGROUND: &str = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:background true \
     :command \"echo $$ > job; exec sleep 3600\"}}}]} {:steps [{:delta \"end\"}]}]}";
const RETRY: &str =
    "{:turns [{:steps [{:error {:kind :overloaded :message \"full\" :retry-after-ms 100000}}]}]}";
/// Two long exchanges, and a compaction without an end.
const COMPACTION: &str =
    "{:turns [{:steps [{:delta \"a\"}]} {:steps [{:delta \"b\"}]} {:steps [{:sleep-ms 3600000}]}]}";
const DELEGATION: &str = "{:turns [{:steps [{:tool-call {:name \"delegate\" :arguments {:task \"Look.\" :tools [\"read\"]}}}]} \
     {:steps [{:delta \"begun\"} {:sleep-ms 3600000}]}]}";

/// A state that a bridge may be in, and the way there.
struct State {
    name: &'static str,
    setup: fn() -> Setup,
    reach: fn(&mut Bridge, &Setup),
}

fn plain(script: &str) -> Setup {
    Setup::new().script(script)
}

fn yolo(script: &str) -> Setup {
    plain(script).arg("--yolo")
}

fn configured(setup: Setup, text: &str) -> Setup {
    let config = setup.dir.path().join("user/config.edn");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&config)
}

fn begin(bridge: &mut Bridge) {
    bridge.handshake();
    bridge.ask("s", "subscribe", "{}");
}

fn answer_questions(bridge: &mut Bridge) {
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
}

fn go(bridge: &mut Bridge) {
    assert_eq!(kind(&bridge.ask("p", "prompt", "{:message \"go\"}")), "response");
}

const STATES: &[State] = &[
    State { name: "before the handshake", setup: || plain(ECHO), reach: |_, _| {} },
    State {
        name: "idle",
        setup: || plain(ECHO),
        reach: |bridge, _| {
            bridge.handshake();
        },
    },
    State {
        name: "streaming",
        setup: || plain(ENDLESS),
        reach: |bridge, _| {
            begin(bridge);
            go(bridge);
            bridge.event("assistant/delta");
        },
    },
    State {
        name: "in a tool",
        setup: || yolo(BASH),
        reach: |bridge, _| {
            begin(bridge);
            go(bridge);
            bridge.event("tool/update");
        },
    },
    State {
        name: "while a question waits",
        setup: || plain(BASH),
        reach: |bridge, _| {
            answer_questions(bridge);
            go(bridge);
            bridge.event("interaction/requested");
        },
    },
    State {
        name: "while a retry waits",
        setup: || plain(RETRY),
        reach: |bridge, _| {
            begin(bridge);
            go(bridge);
            bridge.until(|frame| data(frame, "phase") == "retrying");
        },
    },
    State {
        name: "with messages queued",
        setup: || plain(ENDLESS),
        reach: |bridge, _| {
            begin(bridge);
            go(bridge);
            bridge.event("assistant/delta");
            bridge.ask("q", "follow_up", "{:message \"later\"}");
        },
    },
    State {
        name: "while a conversation is compacted",
        setup: || plain(COMPACTION),
        reach: |bridge, _| {
            begin(bridge);
            for _ in 0..2 {
                let message = format!("{{:message {:?}}}", "long ".repeat(20_000));
                bridge.ask("p", "prompt", &message);
                end_of_turn(bridge);
                bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
            }
            bridge.request("c", "compact", "{}");
            bridge.until(|frame| {
                at(frame, &["data", "is-compacting"]).and_then(|flag| flag.as_bool()) == Some(true)
            });
        },
    },
    State {
        name: "in a hook",
        setup: || {
            configured(
                plain(ECHO),
                "{:hooks [{:id \"slow\" :stage :receive-input :point :pre :kind :guard :timeout-ms 600000 \
                 :command [\"bash\" \"-c\" \"echo $$ > hook; exec sleep 3600\"]}]}",
            )
        },
        reach: |bridge, setup| {
            begin(bridge);
            bridge.request("p", "prompt", "{:message \"go\"}");
            written(&setup.project().join("hook"));
        },
    },
    State {
        name: "in a workflow",
        setup: || {
            let setup = configured(plain(ENDLESS), "{}");
            let folder = setup.dir.path().join("user/workflows");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("w.edn"), "{:stages [{:id :one :body \"Do it.\" :next :end}]}")
                .unwrap();
            setup
        },
        reach: |bridge, _| {
            answer_questions(bridge);
            bridge.ask("w", "command", "{:text \"/workflow w\"}");
            bridge.until(|frame| is_event(frame, "ui/widgets-updated") && frame.to_string().contains("one"));
        },
    },
    State {
        name: "in a subagent",
        setup: || plain(DELEGATION),
        reach: |bridge, _| {
            answer_questions(bridge);
            go(bridge);
            let question = bridge.event("interaction/requested");
            accept(bridge, &question, ":value {:outcome \"approve\"}");
            bridge.until(|frame| {
                is_event(frame, "context/updated")
                    && frame.to_string().matches(":is-streaming true").count() > 1
            });
        },
    },
    State {
        name: "with a job in the background",
        setup: || yolo(BACKGROUND),
        reach: |bridge, setup| {
            begin(bridge);
            go(bridge);
            end_of_turn(bridge);
            written(&setup.project().join("job"));
        },
    },
    State {
        name: "while the user's command runs",
        setup: || plain(ECHO),
        reach: |bridge, setup| {
            begin(bridge);
            bridge.request("b", "bash", "{:command \"echo $$ > command; exec sleep 3600\"}");
            written(&setup.project().join("command"));
        },
    },
];

/// Waits until a process has told its number in a file.
fn written(file: &std::path::Path) {
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while !std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')) {
        assert!(std::time::Instant::now() < deadline, "{} is never written", file.display());
        std::thread::yield_now();
    }
}

/// The process that a call told in a frame; empty for none.
fn process(frame: &str) -> String {
    let told = frame.split_once(":result-text \"").map_or("", |(_, output)| output);
    told.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn end_of_input_ends_process_in_every_state() {
    for State { name, setup, reach } in STATES {
        let setup = setup();
        let mut bridge = setup.serve();
        reach(&mut bridge, &setup);
        let told = bridge.transcript.iter().map(|line| process(line)).chain(
            ["hook", "job", "command"]
                .iter()
                .filter_map(|file| std::fs::read_to_string(setup.project().join(file)).ok())
                .map(|text| text.trim().to_owned()),
        );
        let processes: Vec<String> = told.filter(|pid| !pid.is_empty()).collect();
        let starts_some = ["tool", "hook", "job", "command"].iter().any(|word| name.contains(word));
        assert_eq!(!processes.is_empty(), starts_some, "{name}: {processes:?}");
        let (status, rest, errors) = bridge.finish();
        assert_eq!(status.code(), Some(0), "{name}: {rest:?} {errors}");
        assert!(!errors.contains("panicked"), "{name}: {errors}");
        // The runner of a hook ends it when the bridge is gone, a moment later.
        let deadline = std::time::Instant::now() + crate::support::PATIENCE;
        for pid in processes {
            while alive(&pid) {
                assert!(std::time::Instant::now() < deadline, "{name}: the process {pid} is left");
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn end_of_input_ends_login_that_waits_for_browser() {
    let server = Server::new([Answer::events("").end(End::Silent)]);
    let setup = configured(
        plain(ECHO),
        &format!(
            "{{:providers {{\"p\" {{:name \"Example\" :base-url \"{0}\" :login {{:client-id \"c\" \
             :authorize-url \"{0}/authorize\" :token-url \"{0}/token\"}}}}}}}}",
            server.url()
        ),
    );
    let mut bridge = setup.serve();
    begin(&mut bridge);
    let begun = bridge.ask("1", "login_begin", "{:provider \"p\"}");
    assert_eq!(kind(&begun), "response", "{begun}");
    // One that waits, on its port.
    bridge.request("2", "login_complete", "{}");
    let (status, rest, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{rest:?} {errors}");
    assert!(rest.iter().any(|line| line.contains(":op \"login_complete\"")), "{rest:?}");
}

#[test]
fn end_of_editor_input_ends_turns_of_guests() {
    let setup = plain("{:turns [{:steps [{:delta \"begun\"} {:sleep-ms 3600000}]}] :then :repeat-last}");
    let mut bridge = setup.serve();
    begin(&mut bridge);
    let path = socket(&setup.state());
    let mut guests: Vec<Guest> = (0..3).map(|_| Guest::interactor(&path)).collect();
    for guest in &mut guests {
        guest.ask("n", "new_session", "{}");
        guest.ask("p", "prompt", "{:message \"go\"}");
        guest.until(|frame| is_event(frame, "assistant/delta"));
    }
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");
    for mut guest in guests {
        assert!(guest.stream.set_read_timeout(Some(PATIENCE)).is_ok());
        let ends =
            |frame: &Owned| is_event(frame, "assistant/message") && data(frame, "stop-reason") == "aborted";
        guest.until(ends);
        let mut rest = Vec::new();
        guest.lines.read_to_end(&mut rest).unwrap();
    }
    let journals = files(&setup.state().join("sessions"));
    assert_eq!(journals.len(), 3, "{journals:?}");
    for journal in journals {
        let text = std::fs::read_to_string(&journal).unwrap();
        assert!(text.contains(":stop-reason \"aborted\"") && text.contains("begun"), "{text}");
    }
}
