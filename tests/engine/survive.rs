//! The process is killed at named points between a question, its answer, its call and the result, and in mid answer.
//! Then the same session is opened again: an open question is asked under its id, an answer that was acknowledged is never
//! asked for again, and nothing that may have run is run again.

use crate::support;

use std::path::PathBuf;

use edn_bridge::interaction::audit;
use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup, accept, at, code, data, end_of_turn, is_event, kind, text};

/// A command that has to be allowed, and shows how often it ran.
const COMMAND: &str = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo $$ >> ran"}}}]}
                                  {:steps [{:delta "end"}]}]}"#;
const END: &str = r#"{:turns [{:steps [{:delta "end"}]}] :then :repeat-last}"#;
const ONCE: &str = ":value {:outcome \"approve\" :scope \"once\"}";

/// A session whose process is killed.
struct Killed {
    setup: Setup,
    session: String,
    /// What was sent before.
    told: String,
}

/// Kills the process at a point, after `act`.
fn kill_at(point: &str, script: &str, act: impl FnOnce(&mut Bridge)) -> Killed {
    let mut setup = Setup::new().script(script).env("EDN_BRIDGE_CRASH_AT", point);
    let mut bridge = setup.interactor();
    let session = session(&mut bridge);
    bridge.request("p", "prompt", "{:message \"go\" :idempotency-key \"k\"}");
    act(&mut bridge);
    while bridge.line_or_end().is_some() {}
    assert!(!bridge.wait().success());
    let told = bridge.told();
    setup.environment.clear();
    setup.script = Some(END.to_owned());
    Killed { setup, session, told }
}

/// The text of the last message, once the journal has the end of the turn.
fn end(bridge: &mut Bridge) -> String {
    let text = data(&end_of_turn(bridge), "text").to_owned();
    bridge.event("turn/ended");
    text
}

fn session(bridge: &mut Bridge) -> String {
    let state = bridge.ask("state", "get_state", "{}");
    at(&state, &["data", "state", "session-id"]).unwrap().as_str().unwrap().to_owned()
}

impl Killed {
    /// Opens the session in a new process.
    fn open(&self) -> Bridge {
        let mut bridge = self.setup.interactor();
        bridge.ask("open", "switch_session", &format!("{{:session-id {:?}}}", self.session));
        bridge
    }

    fn journal(&self) -> Vec<Owned> {
        let lines = support::files(&self.setup.state()).into_iter().find_map(|path| {
            let is_journal = path.to_string_lossy().contains(&self.session)
                && path.extension().is_some_and(|extension| extension == "edn");
            is_journal.then(|| std::fs::read_to_string(path).unwrap())
        });
        let lines = lines.unwrap();
        lines.lines().map(|line| edn_bridge::edn::read_one(line.as_bytes()).unwrap().into_owned()).collect()
    }

    /// The values of a key of the entries of a type.
    fn noted(&self, kind: &str, key: &str) -> Vec<String> {
        let entries = self.journal().into_iter();
        let of_kind = entries.filter(|entry| entry.get("type").and_then(Value::as_keyword) == Some(kind));
        of_kind.map(|entry| text(&entry, key).to_owned()).collect()
    }

    fn ran(&self) -> usize {
        ran(&self.setup)
    }

    fn outcomes(&self) -> Vec<String> {
        let records = audit::newest(&audit::path(&self.setup.state()), 99);
        records
            .iter()
            .map(|record| record.get_keyword("outcome").unwrap().as_str().unwrap().to_owned())
            .collect()
    }
}

fn ran(setup: &Setup) -> usize {
    let path: PathBuf = setup.project().join("ran");
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn interrupted(bridge: &mut Bridge) -> Option<String> {
    let state = bridge.ask("state", "get_state", "{}");
    at(&state, &["data", "state", "interrupted"]).and_then(Value::as_str).map(str::to_owned)
}

#[test]
fn open_question_is_asked_again_with_its_id() {
    for point in ["question-journalled", "question-open", "question-told"] {
        let killed = kill_at(point, COMMAND, |_| {});
        let [noted] = &killed.noted("question", "question-id")[..] else { panic!("{point}") };
        let mut bridge = killed.open();
        let question = bridge.event("interaction/requested");
        assert_eq!(data(&question, "interaction-id"), noted, "{point}");
        assert_eq!(interrupted(&mut bridge), None, "{point}: it goes on");
        assert_eq!(killed.ran(), 0, "{point}");
        accept(&mut bridge, &question, ONCE);
        let turn = end(&mut bridge);
        assert_eq!((turn.as_str(), killed.ran()), ("end", 1), "{point}");
        assert_eq!(killed.noted("turn", "event"), ["began", "ended"], "{point}");
    }
}

#[test]
fn question_of_a_killed_process_has_two_audit_records() {
    let killed = kill_at("none", COMMAND, |bridge| {
        bridge.event("interaction/requested");
        bridge.kill();
    });
    // A second kill leaves the question open once more.
    for _ in 0..2 {
        let mut bridge = killed.open();
        bridge.event("interaction/requested");
        assert_eq!(killed.outcomes(), ["cut-off"]);
        bridge.kill();
    }
    let mut bridge = killed.open();
    let question = bridge.event("interaction/requested");
    assert!(killed.told.contains(data(&question, "interaction-id")));
    accept(&mut bridge, &question, ONCE);
    end(&mut bridge);
    assert_eq!(killed.outcomes(), ["cut-off", "approve"]);
    assert_eq!(killed.ran(), 1);
    bridge.finish();
    assert_eq!(audit::verify(&audit::path(&killed.setup.state())).unwrap(), 2);
}

#[test]
fn acknowledged_answer_is_acted_on_and_not_asked_again() {
    let killed = kill_at("answer-journalled", COMMAND, |bridge| {
        let question = bridge.event("interaction/requested");
        let id = data(&question, "interaction-id").to_owned();
        bridge.request(
            "r",
            "interaction_respond",
            &format!("{{:interaction-id {id:?} :status \"accepted\" {ONCE}}}"),
        );
    });
    assert_eq!((killed.ran(), killed.noted("answer", "outcome")), (0, vec!["approve".to_owned()]));
    let mut bridge = killed.open();
    assert_eq!(end(&mut bridge), "end");
    assert!(!bridge.told().contains(":event \"interaction/requested\""), "{}", bridge.told());
    assert_eq!(killed.ran(), 1);
    assert_eq!(killed.outcomes(), ["cut-off", "approve"]);
}

#[test]
fn call_that_may_have_run_is_not_run_again() {
    for (point, made) in [("call-journalled", 0), ("result-made", 1)] {
        let killed = kill_at(point, COMMAND, |bridge| {
            let question = bridge.event("interaction/requested");
            let id = data(&question, "interaction-id").to_owned();
            bridge.request(
                "r",
                "interaction_respond",
                &format!("{{:interaction-id {id:?} :status \"accepted\" {ONCE}}}"),
            );
        });
        let mut bridge = killed.open();
        let turn = interrupted(&mut bridge).expect(point);
        assert!(killed.told.contains(&turn));
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        assert!(messages.contains("it may have run"), "{point}: {messages}");
        assert_eq!(
            code(&bridge.ask("r", "retry", "{:idempotency-key \"k\"}")),
            "request/idempotency-conflict"
        );
        bridge.ask("c", "command", "{:text \"/continue\"}");
        assert_eq!(end(&mut bridge), "end");
        assert_eq!((killed.ran(), interrupted(&mut bridge)), (made, None), "{point}");
        assert!(!bridge.told().contains(":event \"interaction/requested\""), "{point}");
        assert_eq!(killed.noted("turn", "event"), ["began", "interrupted", "began", "ended"]);
    }
}

#[test]
fn answer_that_was_cut_is_marked_and_goes_on() {
    let script = r#"{:turns [{:steps [{:deltas 9 :of "word "} {:delta "whole"}]}]}"#;
    let killed = kill_at("text-shown:3", script, |_| {});
    for _ in 0..2 {
        // Opening it again changes nothing more.
        let mut bridge = killed.open();
        let turn = interrupted(&mut bridge).unwrap();
        let page = bridge.event("session/rehydrated");
        let marked = at(&page, &["data", "interrupted"]).unwrap().as_slice().unwrap();
        assert_eq!(marked.iter().map(|turn| turn.as_str().unwrap()).collect::<Vec<_>>(), [turn.as_str()]);
        let graph = bridge.ask(
            "q",
            "query_eql",
            "{:query \"[:psi.agent-session/interrupted {:psi.agent-session/turns [:psi.turn/id :psi.turn/is-interrupted]}]\"}",
        );
        let graph = graph.to_string();
        assert!(graph.contains(&format!(":psi.agent-session/interrupted {turn:?}")), "{graph}");
        assert!(graph.contains(":psi.turn/is-interrupted true"), "{graph}");
        assert_eq!(killed.noted("turn", "event"), ["began", "interrupted"]);
        bridge.finish();
    }
    let mut bridge = killed.open();
    // The key of the message that was cut off is known.
    let again = bridge.ask("p", "prompt", "{:message \"go\" :idempotency-key \"k\"}");
    assert_eq!(data(&again, "turn-state"), "cut-off", "{again}");
    bridge.ask("c", "command", "{:text \"/continue\"}");
    assert_eq!(end(&mut bridge), "end");
    assert_eq!(interrupted(&mut bridge), None);
    let page = bridge.ask("m", "get_messages", "{}");
    let marked = at(&page, &["data", "interrupted"]).unwrap().as_slice().unwrap();
    assert_eq!(marked.len(), 1, "the mark stays in the transcript");
}

/// Three commands of one answer, of which the second has to be allowed.
const THREE: &str = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo a >> ran; mkfifo wait; cat wait"}}}
                                         {:tool-call {:id "b" :name "bash" :arguments {:command "echo b >> ran; touch b"}}}
                                         {:tool-call {:id "c" :name "read" :arguments {:path "there"}}}]}]}"#;

#[test]
fn calls_of_one_answer_go_on_each_where_it_stood() {
    let mut setup = Setup::new().script(THREE);
    std::fs::write(setup.project().join("there"), "content").unwrap();
    let mut bridge = setup.interactor();
    let session = session(&mut bridge);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let first = bridge.event("interaction/requested");
    accept(&mut bridge, &first, ONCE);
    // The first runs for ever, the second is asked about, the third has its result.
    let second = bridge.event("interaction/requested");
    support::wait_until("the first runs", || ran(&setup) == 1);
    bridge.kill();
    setup.script = Some(END.to_owned());
    let killed = Killed { setup, session, told: bridge.told() };
    let mut bridge = killed.open();
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&second, "interaction-id"));
    assert_ne!(data(&again, "interaction-id"), data(&first, "interaction-id"));
    accept(&mut bridge, &again, ONCE);
    assert_eq!(end(&mut bridge), "end");
    let ran = std::fs::read_to_string(killed.setup.project().join("ran")).unwrap();
    assert_eq!(ran, "a\nb\n");
    let told = bridge.ask("m", "get_messages", "{}").to_string();
    assert_eq!(told.matches("it may have run").count(), 1, "{told}");
    assert!(told.contains("content"), "the third was read: {told}");
}

#[test]
fn question_of_the_model_is_asked_again_with_its_id() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "a" :name "ask-user" :arguments {:question "Which?" :options ["red" "blue"]}}}]}]}"#;
    let killed = kill_at("answer-journalled", script, |bridge| {
        let question = bridge.event("interaction/requested");
        let id = data(&question, "interaction-id").to_owned();
        bridge.kill();
        assert!(bridge.told().contains(&id));
    });
    let mut bridge = killed.open();
    let question = bridge.event("interaction/requested");
    assert!(killed.told.contains(data(&question, "interaction-id")));
    accept(&mut bridge, &question, ":value {:index 1}");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "blue");
}

const EDIT: &str = r#"{:turns [{:steps [{:tool-call {:id "a" :name "edit" :arguments {:path "f" :edits [{:old "END" :new "x\nEND"}]}}}]}]}"#;

#[test]
fn edit_is_asked_again_unless_its_file_has_changed() {
    for (text, is_same) in [("END\n", true), ("other\nEND\n", false)] {
        let mut setup = Setup::new().script(EDIT);
        let file = setup.project().join("f");
        std::fs::write(&file, "END\n").unwrap();
        let mut bridge = setup.interactor();
        let session = session(&mut bridge);
        bridge.ask("p", "prompt", "{:message \"go\"}");
        let first = bridge.event("interaction/requested");
        bridge.kill();
        std::fs::write(&file, text).unwrap();
        setup.script = Some(END.to_owned());
        let killed = Killed { setup, session, told: bridge.told() };
        let mut bridge = killed.open();
        let again = bridge.event("interaction/requested");
        assert_eq!(data(&again, "interaction-id") == data(&first, "interaction-id"), is_same);
        accept(&mut bridge, &again, ONCE);
        end(&mut bridge);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text.replace("END", "x\nEND"));
    }
}

#[test]
fn edit_that_was_noted_is_not_made_again() {
    let mut setup = Setup::new().script(EDIT).env("EDN_BRIDGE_CRASH_AT", "result-made");
    let file = setup.project().join("f");
    std::fs::write(&file, "END\n").unwrap();
    setup.arguments.push("--yolo".to_owned());
    let mut bridge = setup.interactor();
    let session = session(&mut bridge);
    bridge.request("p", "prompt", "{:message \"go\"}");
    while bridge.line_or_end().is_some() {}
    setup.environment.clear();
    setup.script = Some(END.to_owned());
    let killed = Killed { setup, session, told: String::new() };
    let mut bridge = killed.open();
    assert!(interrupted(&mut bridge).is_some());
    let messages = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("it may have run"), "{messages}");
    bridge.ask("c", "command", "{:text \"/continue\"}");
    end(&mut bridge);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\nEND\n");
}

#[test]
fn question_waits_until_somebody_can_answer_it() {
    let killed = kill_at("question-told", COMMAND, |_| {});
    // It answers no questions.
    let mut bridge = killed.setup.ready();
    bridge.ask("open", "switch_session", &format!("{{:session-id {:?}}}", killed.session));
    assert!(interrupted(&mut bridge).is_some());
    assert_eq!(killed.noted("turn", "event"), ["began"]);
    bridge.ask("some", "subscribe", "{:topics [\"ui/dialog-requested\"]}");
    let dialog = bridge.event("ui/dialog-requested");
    let id = data(&dialog, "dialog-id").to_owned();
    assert_eq!(killed.noted("question", "question-id"), [id.as_str()]);
    bridge.ask("d", "resolve_dialog", &format!("{{:dialog-id {id:?} :result \"once\"}}"));
    assert_eq!(end(&mut bridge), "end");
    assert_eq!(killed.ran(), 1);
}

#[test]
fn prompt_gives_up_a_question_that_waits() {
    let killed = kill_at("question-told", COMMAND, |_| {});
    let mut bridge = killed.setup.ready();
    bridge.ask("open", "switch_session", &format!("{{:session-id {:?}}}", killed.session));
    // A repeated message is no new one.
    bridge.ask("p", "prompt", "{:message \"go\" :idempotency-key \"k\"}");
    assert_eq!(killed.noted("turn", "event"), ["began"]);
    bridge.ask("p", "prompt", "{:message \"other\"}");
    end(&mut bridge);
    assert_eq!(killed.noted("turn", "event"), ["began", "interrupted", "began", "ended"]);
    bridge.finish();
    let mut bridge = killed.open();
    assert_eq!(interrupted(&mut bridge), None);
    assert_eq!(killed.ran(), 0);
}

#[test]
fn turn_with_its_last_message_is_not_interrupted() {
    let mut setup = Setup::new().script(END);
    let mut bridge = setup.ready();
    let session = session(&mut bridge);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    end(&mut bridge);
    bridge.finish();
    setup.script = Some(END.to_owned());
    let killed = Killed { setup, session, told: String::new() };
    // As if it had been killed right before the entry of the end.
    let path = support::files(&killed.setup.state())
        .into_iter()
        .find(|path| path.to_string_lossy().contains(&killed.session) && path.extension().unwrap() == "edn")
        .unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    let end = whole.trim_end().rfind('\n').unwrap();
    assert!(whole[end..].contains(":event \"ended\""), "{whole}");
    std::fs::write(&path, &whole[..=end]).unwrap();
    let mut bridge = killed.open();
    assert_eq!(interrupted(&mut bridge), None);
    assert_eq!(killed.noted("turn", "event"), ["began", "ended"]);
    assert!(!is_event(&bridge.ask("x", "ping", "{}"), "error"));
}

#[test]
fn turn_of_the_version_before_is_marked_when_it_was_cut() {
    let setup = Setup::new().script(END);
    let here = setup.project().canonicalize().unwrap().to_string_lossy().into_owned();
    let path = setup.dir.path().join("cut.edn");
    let recorded = include_str!("../recorded/cut.edn").replace("/tmp/recorded/project", &here);
    std::fs::write(&path, recorded).unwrap();
    let mut bridge = setup.interactor();
    let opened =
        bridge.ask("o", "switch_session", &format!("{{:session-path {:?}}}", path.to_string_lossy()));
    assert_eq!(kind(&opened), "response", "{opened}");
    assert!(interrupted(&mut bridge).is_some());
    bridge.ask("c", "command", "{:text \"/continue\"}");
    assert_eq!(end(&mut bridge), "end");
    let told = bridge.told();
    assert!(!told.contains(":event \"interaction/requested\""), "its question had no entry: {told}");
}

#[test]
fn answer_on_a_full_disk_is_refused() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let setup = Setup::new().script(COMMAND);
    let mut bridge = setup.interactor();
    let session = session(&mut bridge);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    let id = data(&question, "interaction-id").to_owned();
    let killed = Killed { setup, session, told: String::new() };
    let limit = |bridge: &Bridge, bytes| {
        let pid = Pid::from_raw(i32::try_from(bridge.pid()).unwrap());
        let limit = Rlimit { current: bytes, maximum: getrlimit(Resource::Fsize).maximum };
        prlimit(pid, Resource::Fsize, limit).unwrap();
    };
    // No file may grow any more, as on a full disk.
    limit(&bridge, Some(1));
    let answer = format!("{{:interaction-id {id:?} :status \"accepted\" {ONCE}}}");
    assert_eq!(code(&bridge.ask("r", "interaction_respond", &answer)), "runtime/failed");
    assert_eq!((killed.ran(), killed.noted("answer", "outcome")), (0, Vec::new()));
    limit(&bridge, None);
    assert_eq!(kind(&bridge.ask("r", "interaction_respond", &answer)), "response");
    assert_eq!((end(&mut bridge).as_str(), killed.ran()), ("end", 1));
}

/// A kill between the entry of one message more than may wait, which begins a turn, and the entry of that turn.
#[test]
fn overfull_queue_of_a_killed_process_goes_on() {
    let mut setup = Setup::new().script("{:turns [{:steps [{:delta \"begun\"} {:sleep-ms 600000}]}]}");
    let mut bridge = setup.interactor();
    let session = session(&mut bridge);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("assistant/delta");
    for number in 0..64 {
        let answer = bridge.ask("f", "follow_up", &format!("{{:message \"text {number}\"}}"));
        assert_eq!(kind(&answer), "response", "{answer}");
    }
    let state = bridge.ask("s", "get_state", "{}");
    let file = at(&state, &["data", "state", "session-file"]).unwrap().as_str().unwrap().to_owned();
    bridge.kill();
    let journal = std::fs::read_to_string(&file).unwrap();
    let last = journal.lines().rfind(|line| line.contains(":type :queued")).unwrap();
    let id = |line: &str| line.split(":id \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let (of_last, newest) = (id(last), id(journal.lines().last().unwrap()));
    let (begin, parent) = last.split_once(":parent-id \"").unwrap();
    let (_, rest) = parent.split_once('"').unwrap();
    let more = format!("{}:parent-id {newest:?}{rest}", begin.replace(&of_last, "e-more"));
    std::fs::write(&file, format!("{journal}{more}\n")).unwrap();

    setup.script = Some(END.to_owned());
    let mut bridge = setup.interactor();
    bridge.ask("open", "switch_session", &format!("{{:session-id {session:?}}}"));
    let state = bridge.ask("s", "get_state", "{}").to_string();
    assert!(state.contains(":pending-message-count 65"), "{state}");
    bridge.ask("f", "follow_up", "{:message \"one more\"}");
    // Whether or not there was room for it, the queue goes on, and there is room for the next.
    bridge.event("turn/ended");
    let answer = bridge.ask("f", "follow_up", "{:message \"one more\"}");
    assert_eq!(kind(&answer), "response", "{answer}");
}
