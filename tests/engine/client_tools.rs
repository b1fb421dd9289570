//! Tools that clients bring, over the real wire: offered, judged, requested, answered, and gone with their client.

use crate::support;

use edn_bridge::limits::{DIAGNOSTICS_TIME, TOOL_RESULT_BYTES};
use edn_bridge::value::Owned;
use support::guest::{Guest, socket};
use support::{Bridge, Setup, accept, at, code, data, end_of_turn, is_event};

const TOOL: &str = r#"{:name "look" :description "Looks." :read-only true}"#;

/// A script whose model makes one call in each of its first answers.
fn script(calls: &[&str]) -> String {
    let turns: String = calls.iter().map(|call| format!("{{:steps [{{:tool-call {call}}}]}} ")).collect();
    format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}]}}")
}

fn offer(bridge: &mut Bridge, tools: &str) -> Owned {
    bridge.ask("offer", "register_tools", &format!("{{:tools [{tools}]}}"))
}

/// Answers the next request, and returns it.
fn answer(bridge: &mut Bridge, rest: &str) -> Owned {
    let asked = bridge.event("tool/requested");
    let id = data(&asked, "request-id");
    let accepted = bridge.ask("a", "tool_result", &format!("{{:request-id {id:?} {rest}}}"));
    assert!(accepted.to_string().contains(":accepted true"), "{accepted}");
    asked
}

fn failed(frame: &Owned) -> bool {
    at(frame, &["data", "is-error"]).and_then(|value| value.as_bool()).unwrap()
}

#[test]
fn offered_tool_is_called_and_answered() {
    let calls = [r#"{:id "c1" :name "look" :arguments {:at "here" :times 2}}"#; 2];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.ready();
    let offered = offer(
        &mut bridge,
        r#"{:name "look" :description "Looks." :read-only true :timeout-seconds 60 :parameters {"type" "object" "properties" {"at" {"type" "string"}} "required" ["at"]}}"#,
    );
    assert!(offered.to_string().contains(":registered [\"look\"]"), "{offered}");
    let listed = bridge.ask("q", "query_eql", "{:query \"[{:psi.tool/list [:psi.tool/name]}]\"}");
    assert!(listed.to_string().contains("\"look\""), "{listed}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let asked = bridge.event("tool/requested");
    assert_eq!((data(&asked, "tool-name"), data(&asked, "tool-id")), ("look", "c1"));
    assert_eq!(at(&asked, &["data", "arguments", "at"]).unwrap().as_str(), Some("here"));
    assert_eq!(at(&asked, &["data", "timeout-ms"]).unwrap().as_i64(), Some(60_000));
    let id = data(&asked, "request-id").to_owned();
    bridge.ask("w", "tool_progress", &format!("{{:request-id {id:?} :text \"half\"}}"));
    assert_eq!(data(&bridge.event("tool/update"), "result-text"), "half");
    let details = format!("{{:request-id {id:?} :text \"seen\" :details {{:line 3}}}}");
    bridge.ask("r", "tool_result", &details);
    let result = bridge.event("tool/result");
    assert!(!failed(&result) && data(&result, "result-text") == "seen", "{result}");
    assert_eq!(at(&result, &["data", "details", "client", "line"]).unwrap().as_i64(), Some(3));
    // The first answer counts.
    assert_eq!(code(&bridge.ask("r2", "tool_result", &details)), "request/not-found");
    // A failure is one to the model; a long text is kept under a handle.
    let long = "x".repeat(TOOL_RESULT_BYTES * 2);
    answer(&mut bridge, &format!(":text {long:?} :is-error true"));
    let result = bridge.event("tool/result");
    assert!(failed(&result) && data(&result, "result-text").len() < TOOL_RESULT_BYTES + 300);
    let handle = at(&result, &["data", "details", "handle"]).unwrap().as_str().unwrap();
    let part = bridge.ask("o", "read_output", &format!("{{:handle {handle:?} :offset 0 :limit 3}}"));
    assert_eq!(data(&part, "text"), "xxx");
    end_of_turn(&mut bridge);
}

#[test]
fn misfit_tools_are_refused_all_together() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let long = "d".repeat(5_000);
    for wrong in [
        r#"{:name "read" :description "d"}"#.to_owned(),
        r#"{:name "delegate" :description "d"}"#.to_owned(),
        r#"{:name "complete-stage" :description "d"}"#.to_owned(),
        r#"{:name "a b" :description "d"}"#.to_owned(),
        r#"{:name "" :description "d"}"#.to_owned(),
        r#"{:name "x" :description " "}"#.to_owned(),
        format!("{{:name \"x\" :description {long:?}}}"),
        r#"{:name "x" :description "d" :parameters {:type "string"}}"#.to_owned(),
        r#"{:name "x" :description "d" :timeout-seconds 0}"#.to_owned(),
        r#"{:name "x" :description "d" :timeout-seconds 4000}"#.to_owned(),
        r#"{:name "x" :description "d" :read-only "yes"}"#.to_owned(),
        r#"{:name 7 :description "d"}"#.to_owned(),
        r#"{:name "look" :description "twice"}"#.to_owned(),
    ] {
        let refused = offer(&mut bridge, &format!("{TOOL} {wrong}"));
        assert_eq!(code(&refused), "request/invalid-params", "{wrong}");
        let listed = bridge.ask("q", "query_eql", "{:query \"[{:psi.tool/list [:psi.tool/name]}]\"}");
        assert!(!listed.to_string().contains("look"), "{listed}");
    }
    let many: String = (0..65).map(|n| format!("{{:name \"t{n}\" :description \"d\"}}")).collect();
    assert_eq!(code(&offer(&mut bridge, &many)), "request/invalid-params");
}

#[test]
fn changing_tool_is_judged_like_any_other() {
    let calls = [r#"{:name "rename" :arguments {:to "b"}}"#; 3];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.interactor();
    let tool = r#"{:name "rename" :description "Renames."}"#;
    offer(&mut bridge, tool);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    // Asked, with the arguments; refused without a request to the client.
    let question = bridge.event("interaction/requested");
    let shown = at(&question, &["data", "payload"]).unwrap().to_string();
    assert!(shown.contains("rename") && shown.contains(":to"), "{shown}");
    assert!(shown.contains("{:decision :allow :tool \"rename\"}"), "{shown}");
    accept(&mut bridge, &question, ":value {:outcome \"deny\"}");
    assert!(data(&bridge.event("tool/result"), "result-text").contains("denied"));
    // Allowed for the session: the third call is not asked about.
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"session\"}");
    answer(&mut bridge, ":text \"renamed\"");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "renamed");
    answer(&mut bridge, ":text \"again\"");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "again");
    end_of_turn(&mut bridge);
}

#[test]
fn read_only_mode_refuses_changing_tool_and_allows_reading_one() {
    let calls = [r#"{:name "change" :arguments {}}"#, r#"{:name "look" :arguments {}}"#];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.interactor();
    offer(&mut bridge, &format!("{TOOL} {{:name \"change\" :description \"Changes.\"}}"));
    bridge.ask("m", "set_mode", "{:mode \"read-only\"}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let result = bridge.event("tool/result");
    assert!(failed(&result) && data(&result, "result-text").contains("read-only"), "{result}");
    assert_eq!(data(&answer(&mut bridge, ":text \"ok\""), "tool-name"), "look");
}

#[test]
fn path_of_a_tool_is_judged_like_that_of_read() {
    let calls = [
        r#"{:name "outline" :arguments {:file "inside"}}"#,
        r#"{:name "outline" :arguments {:file "/etc/passwd"}}"#,
        r#"{:name "outline" :arguments {:file 7}}"#,
    ];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.interactor();
    offer(&mut bridge, r#"{:name "outline" :description "Lists." :read-only true :path "file"}"#);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    answer(&mut bridge, ":text \"one\"");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "one");
    let question = bridge.event("interaction/requested");
    assert!(question.to_string().contains("outside the workspace"), "{question}");
    accept(&mut bridge, &question, ":value {:outcome \"deny\"}");
    for expected in ["denied", "must be the path"] {
        let result = bridge.event("tool/result");
        assert!(data(&result, "result-text").contains(expected), "{result}");
    }
}

#[test]
fn deny_rule_denies_tool_of_client() {
    let setup = Setup::new().script(&script(&[r#"{:name "look" :arguments {}}"#])).arg("--yolo");
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let rules = "{:permissions {:rules [{:decision :deny :tool \"look\"}]}}";
    std::fs::write(folder.join("config.edn"), rules).unwrap();
    let mut bridge = setup.ready();
    offer(&mut bridge, TOOL);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let result = bridge.event("tool/result");
    assert!(failed(&result) && data(&result, "result-text").contains("A rule denies"), "{result}");
}

#[test]
fn client_that_leaves_ends_its_call_with_an_error() {
    let calls = [r#"{:name "look" :arguments {}}"#; 2];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.ready();
    let mut guest = Guest::at(&socket(&setup.state()));
    guest.ask("o", "register_tools", &format!("{{:tools [{TOOL}]}}"));
    bridge.ask("p", "prompt", "{:message \"go\"}");
    // It is asked without a subscription; nobody else is.
    let asked = guest.until(|frame| is_event(frame, "tool/requested"));
    let id = data(&asked, "request-id").to_owned();
    let refused = bridge.ask("r", "tool_result", &format!("{{:request-id {id:?} :text \"x\"}}"));
    assert_eq!(code(&refused), "request/not-found");
    drop(guest);
    let result = bridge.event("tool/result");
    assert!(failed(&result) && data(&result, "result-text").contains("left before it answered"), "{result}");
    // It is not there any more.
    let result = bridge.event("tool/result");
    assert!(failed(&result) && data(&result, "result-text").contains("There is no tool"), "{result}");
    end_of_turn(&mut bridge);
    assert!(bridge.transcript.iter().all(|line| !line.contains(":event \"tool/requested\"")));
}

#[test]
fn tool_of_two_clients_is_of_the_one_that_asks() {
    let calls = [r#"{:name "look" :arguments {}}"#];
    let turn = script(&calls).replace("]}]}", "]}] :then :cycle}");
    let setup = Setup::new().script(&turn);
    let mut bridge = setup.ready();
    let mut guest = Guest::at(&socket(&setup.state()));
    guest.ask("o", "register_tools", &format!("{{:tools [{TOOL}]}}"));
    let offered = offer(&mut bridge, TOOL);
    assert!(offered.to_string().contains(":shadowed [\"look\"]"), "{offered}");
    for _ in 0..2 {
        bridge.ask("p", "prompt", "{:message \"mine\"}");
        answer(&mut bridge, ":text \"of the editor\"");
        assert_eq!(data(&bridge.event("tool/result"), "result-text"), "of the editor");
        bridge.event("turn/ended");
        guest.ask("p", "prompt", "{:message \"theirs\"}");
        let asked = guest.until(|frame| is_event(frame, "tool/requested"));
        let id = data(&asked, "request-id");
        guest.ask("a", "tool_result", &format!("{{:request-id {id:?} :text \"of the guest\"}}"));
        assert_eq!(data(&bridge.event("tool/result"), "result-text"), "of the guest");
        bridge.event("turn/ended");
    }
    // What one takes back is the other's.
    offer(&mut bridge, "");
    bridge.ask("p", "prompt", "{:message \"mine\"}");
    guest.until(|frame| is_event(frame, "tool/requested"));
}

#[test]
fn aborted_turn_cancels_its_request() {
    let setup = Setup::new().script(&script(&[r#"{:name "look" :arguments {}}"#]));
    let mut bridge = setup.ready();
    offer(&mut bridge, TOOL);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let asked = bridge.event("tool/requested");
    bridge.ask("x", "abort", "{}");
    let cancelled = bridge.event("request/cancelled");
    assert_eq!(data(&cancelled, "request-id"), data(&asked, "request-id"));
    assert_eq!(data(&cancelled, "reason"), "ended");
    let late = format!("{{:request-id {:?} :text \"late\"}}", data(&asked, "request-id"));
    assert_eq!(code(&bridge.ask("l", "tool_result", &late)), "request/not-found");
}

#[test]
fn tool_without_an_answer_times_out() {
    let setup = Setup::new().script(&script(&[r#"{:name "slow" :arguments {}}"#]));
    let mut bridge = setup.ready();
    offer(&mut bridge, r#"{:name "slow" :description "Slow." :read-only true :timeout-seconds 1}"#);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("tool/requested");
    assert_eq!(data(&bridge.event("request/cancelled"), "reason"), "timed-out");
    let result = bridge.event("tool/result");
    assert!(failed(&result) && data(&result, "result-text").contains("did not answer in 1 s"), "{result}");
    end_of_turn(&mut bridge);
}

#[test]
fn killed_bridge_knows_no_tools_of_clients() {
    let calls = [r#"{:name "look" :arguments {}}"#; 2];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.ready();
    offer(&mut bridge, TOOL);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let asked = bridge.event("tool/requested");
    let session = data(&asked, "session-id").to_owned();
    bridge.kill();
    let mut bridge = setup.ready();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    let late = format!("{{:request-id {:?} :text \"late\"}}", data(&asked, "request-id"));
    assert_eq!(code(&bridge.ask("l", "tool_result", &late)), "request/not-found");
    bridge.ask("p", "prompt", "{:message \"go on\"}");
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("There is no tool"), "{result}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
}

#[test]
fn subagent_has_tools_of_clients_in_its_envelope() {
    let calls = [
        r#"{:name "delegate" :arguments {:task "look" :tools ["look"]}}"#,
        r#"{:id "inner" :name "look" :arguments {}}"#,
    ];
    let setup = Setup::new().script(&script(&calls));
    let mut bridge = setup.interactor();
    offer(&mut bridge, TOOL);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\"}");
    // The request comes for the child's session, which is not the focus.
    assert_eq!(data(&answer(&mut bridge, ":text \"seen\""), "tool-id"), "inner");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "end");
}

/// Serves the requests for an open file until the call's result, which it returns. `serve` gets the action, the text and
/// the expected digest. Outcomes of changes are added to `told`.
fn serving_told(
    bridge: &mut Bridge,
    told: &mut Vec<String>,
    mut serve: impl FnMut(&str, &str, &str) -> String,
) -> Owned {
    loop {
        let frame = bridge.until(|frame| {
            ["file/requested", "file/changed", "request/cancelled", "tool/result"]
                .iter()
                .any(|topic| is_event(frame, topic))
        });
        if is_event(&frame, "tool/result") {
            return frame;
        }
        if !is_event(&frame, "file/requested") {
            told.push(frame.to_string());
            continue;
        }
        let text = |key| at(&frame, &["data", key]).and_then(|value| value.as_str()).unwrap_or_default();
        let answer = serve(text("action"), text("text"), text("expected"));
        let id = data(&frame, "request-id");
        let accepted = bridge.ask("f", "file_result", &format!("{{:request-id {id:?} {answer}}}"));
        assert!(accepted.to_string().contains(":accepted true"), "{accepted}");
    }
}

pub(crate) fn serving(bridge: &mut Bridge, serve: impl FnMut(&str, &str, &str) -> String) -> Owned {
    serving_told(bridge, &mut Vec::new(), serve)
}

/// The answer of a client with unsaved changes to what is on disk.
fn unsaved(text: &str, disk: &str) -> String {
    format!(":status \"ok\" :text {text:?} :modified true :base {:?}", edn_bridge::sha256::hex(disk))
}

/// A bridge whose model makes these calls, and whose client has the file `a` open, under the name of a link to it.
fn with_open_file(calls: &[&str]) -> (Setup, Bridge) {
    let setup = Setup::new().script(&script(calls)).arg("--yolo");
    std::fs::write(setup.project().join("a"), "on disk\n").unwrap();
    let link = setup.dir.path().join("link");
    std::os::unix::fs::symlink(setup.project().join("a"), &link).unwrap();
    let mut bridge = setup.ready();
    let real = setup.project().canonicalize().unwrap().join("a");
    let files = format!("{{:files [{{:path {link:?} :real-path {real:?} :modified true}}]}}");
    let registered = bridge.ask("r", "register_files", &files);
    assert_eq!(at(&registered, &["data", "files"]).unwrap().as_i64(), Some(1), "{registered}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    (setup, bridge)
}

const READ: &str = r#"{:name "read" :arguments {:path "a"}}"#;
const EDIT: &str = r#"{:name "edit" :arguments {:path "a" :edits [{:old "unsaved" :new "edited"}]}}"#;

#[test]
fn open_file_is_read_at_its_client_and_written_by_the_bridge() {
    let (setup, mut bridge) = with_open_file(&[READ, EDIT]);
    let mut buffer = "unsaved\n".to_owned();
    let read = serving(&mut bridge, |action, _, _| {
        assert_eq!(action, "read");
        unsaved(&buffer, "on disk\n")
    });
    assert!(data(&read, "result-text").contains("unsaved"), "{read}");
    let (mut tries, mut told) = (0, Vec::new());
    let edited = serving_told(&mut bridge, &mut told, |action, text, digest| match action {
        "read" => unsaved(&buffer, "on disk\n"),
        _ => {
            tries += 1;
            assert_eq!(digest, edn_bridge::sha256::hex(&buffer));
            // The user types meanwhile, once.
            if tries == 1 {
                buffer.push_str("typed\n");
                return ":status \"changed\"".to_owned();
            }
            buffer = text.to_owned();
            unsaved(&buffer, "on disk\n")
        }
    });
    assert!(!failed(&edited) && data(&edited, "result-text") == "Edited a: line 1.", "{edited}");
    assert!(edited.to_string().contains("+edited"), "{edited}");
    assert_eq!((buffer.as_str(), tries), ("edited\ntyped\n", 2));
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), buffer);
    let digest = edn_bridge::sha256::hex(&buffer);
    assert!(
        matches!(&told[..], [saved] if saved.contains(&digest) && saved.contains(":request-id")),
        "{told:?}"
    );
}

#[test]
fn text_of_a_client_counts_only_over_what_is_on_disk() {
    let call = |name: &str| match name {
        "read" => READ.to_owned(),
        _ => EDIT.to_owned(),
    };
    for name in ["read", "edit"] {
        for answer in [
            // Of another file, or of an earlier state of this one.
            unsaved("a secret unsaved\n", "a secret\n"),
            // Without any state, as an earlier version answers.
            ":status \"ok\" :text \"a secret unsaved\\n\" :modified true".to_owned(),
            ":status \"ok\" :text \"a secret unsaved\\n\" :modified true :visited {:device 1 :inode 1 :time 1}".to_owned(),
        ] {
            let (setup, mut bridge) = with_open_file(&[&call(name)]);
            let result = serving(&mut bridge, |_, _, _| answer.clone());
            let text = data(&result, "result-text");
            assert!(failed(&result) && text.contains("changed on disk, and its buffer has unsaved"), "{text}");
            assert!(!result.to_string().contains("secret"), "{result}");
            assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "on disk\n");
        }
    }
}

#[test]
fn text_that_a_mode_has_changed_is_undone_and_not_written() {
    let (setup, mut bridge) = with_open_file(&[EDIT, EDIT]);
    let mut told = Vec::new();
    let mut answer = |is_final: bool| {
        serving_told(&mut bridge, &mut told, |action, text, _| match action {
            "read" => unsaved("unsaved\n", "on disk\n"),
            _ => unsaved(&format!("{text}more\n"), "on disk\n") + if is_final { " :final true" } else { "" },
        })
    };
    let refused = answer(false);
    assert!(failed(&refused) && data(&refused, "result-text").contains("a mode of"), "{refused}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "on disk\n");
    // Where the user wants it so, the model sees what was made of its text.
    let made = answer(true);
    assert!(!failed(&made) && data(&made, "result-text").contains("+more"), "{made}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "edited\nmore\n");
    assert!(told[0].contains("\"not-written\"") && told[1].contains(":request-id"), "{told:?}");
}

#[test]
fn file_without_unsaved_changes_is_that_on_disk_and_followed() {
    let bash =
        r#"{:name "bash" :arguments {:command "printf 'from a command' > a; mkfifo p; rm b; ln -s a b"}}"#;
    let setup = Setup::new().script(&script(&[READ, bash])).arg("--yolo");
    let project = setup.project().canonicalize().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(project.join(name), "on disk\n").unwrap();
    }
    let mut bridge = setup.ready();
    let file = |name: &str| {
        use std::os::unix::fs::MetadataExt as _;
        let found = project.join(name).metadata().unwrap();
        format!(
            "{{:path {:?} :visited {{:device {} :inode {} :time {}}}}}",
            project.join(name),
            found.dev(),
            found.ino(),
            found.mtime() * 1_000_000_000 + found.mtime_nsec()
        )
    };
    bridge.ask("r", "register_files", &format!("{{:files [{} {} {}]}}", file("a"), file("b"), file("c")));
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let read = bridge.event("tool/result");
    assert!(data(&read, "result-text").contains("on disk"), "{read}");
    let mut told = Vec::new();
    serving_told(&mut bridge, &mut told, |_, _, _| panic!("the disk has its text"));
    told.sort();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|told| told.contains("from a command") && told.contains("/a\"")), "{told:?}");
    assert!(told.iter().any(|told| told.contains(":problem") && told.contains("/b\"")), "{told:?}");
    assert!(bridge.transcript.iter().all(|line| !line.contains(":event \"file/requested\"")));
}

#[test]
fn undone_file_is_sent_to_the_client_that_has_it_open() {
    use std::os::unix::fs::MetadataExt as _;
    let setup = Setup::new().script(&script(&[READ, &EDIT.replace("unsaved", "on disk")])).arg("--yolo");
    let path = setup.project().canonicalize().unwrap().join("a");
    std::fs::write(&path, "on disk\n").unwrap();
    let mut bridge = setup.ready();
    let found = path.metadata().unwrap();
    let time = found.mtime() * 1_000_000_000 + found.mtime_nsec();
    let visited = format!("{{:device {} :inode {} :time {time}}}", found.dev(), found.ino());
    bridge.ask("r", "register_files", &format!("{{:files [{{:path {path:?} :visited {visited}}}]}}"));
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let edited = bridge.event("file/changed").to_string();
    assert!(edited.contains("edited"), "{edited}");
    bridge.event("turn/ended");
    for (op, text) in [("undo", "on disk"), ("redo", "edited")] {
        bridge.ask(op, op, "{}");
        let changed = bridge.event("file/changed").to_string();
        assert!(changed.contains(text), "{op}: {changed}");
    }
}

#[test]
fn closed_file_is_that_on_disk() {
    let (setup, mut bridge) = with_open_file(&[READ, &EDIT.replace("unsaved", "on disk")]);
    let mut asked = 0;
    let mut closed = |bridge: &mut Bridge| {
        serving(bridge, |_, _, _| {
            asked += 1;
            ":status \"closed\"".to_owned()
        })
    };
    let read = closed(&mut bridge);
    assert!(data(&read, "result-text").contains("on disk"), "{read}");
    let edited = closed(&mut bridge);
    assert!(!failed(&edited), "{edited}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "edited\n");
    // It is decided once a call.
    assert_eq!(asked, 2);
}

#[test]
fn refusal_of_an_open_file_is_told_and_changes_nothing() {
    let (setup, mut bridge) = with_open_file(&[READ, EDIT]);
    let refused = |what: &str| format!(":status \"failed\" :error-message \"it is {what}\"");
    let read = serving(&mut bridge, |_, _, _| refused("narrow"));
    assert!(failed(&read) && data(&read, "result-text").contains("it is narrow"), "{read}");
    let edited = serving(&mut bridge, |action, _, _| match action {
        "read" => unsaved("unsaved", "on disk\n"),
        _ => refused("read-only"),
    });
    assert!(failed(&edited) && data(&edited, "result-text").contains("it is read-only"), "{edited}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "on disk\n");
    // What failed is not undone.
    bridge.event("turn/ended");
    let undone = bridge.ask("u", "undo", "{}");
    assert!(undone.to_string().contains(":steps 0"), "{undone}");
}

#[test]
fn file_that_another_editor_has_locked_is_not_written() {
    let setup = Setup::new().script(&script(&[EDIT.replace("unsaved", "on disk").as_str(); 2])).arg("--yolo");
    let project = setup.project();
    std::fs::write(project.join("a"), "on disk\n").unwrap();
    let lock = project.join(".#a");
    std::os::unix::fs::symlink("other@elsewhere.12345:1700000000", &lock).unwrap();
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let refused = bridge.event("tool/result");
    assert!(
        failed(&refused) && data(&refused, "result-text").contains("other@elsewhere.12345 has unsaved"),
        "{refused}"
    );
    // What it is called by a client that has the file open itself.
    assert_eq!(std::fs::read_to_string(project.join("a")).unwrap(), "on disk\n");
    let refused = bridge.event("tool/result");
    assert!(failed(&refused), "{refused}");
    bridge.event("turn/ended");
}

#[test]
fn lock_of_the_client_itself_or_of_an_ended_editor_is_none() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    // No process has this number.
    for (lock, own) in [
        ("me@elsewhere.12345:1700000000".to_owned(), "me@elsewhere.12345"),
        (format!("me@{}.{}", host.trim(), i32::MAX), ""),
    ] {
        let setup = Setup::new().script(&script(&[&EDIT.replace("unsaved", "on disk")])).arg("--yolo");
        let project = setup.project();
        std::fs::write(project.join("a"), "on disk\n").unwrap();
        std::os::unix::fs::symlink(&lock, project.join(".#a")).unwrap();
        let mut bridge = setup.ready();
        bridge.ask("r", "register_files", &format!("{{:lock {own:?} :files [{{:path \"/elsewhere\"}}]}}"));
        bridge.ask("p", "prompt", "{:message \"go\"}");
        let edited = bridge.event("tool/result");
        assert!(!failed(&edited), "{lock}: {edited}");
    }
}

/// A bridge whose model edits the file `a` twice, and whose client has it open and checks it.
fn with_checked_file() -> (Setup, Bridge) {
    let edit = |old: &str, new: &str| {
        format!("{{:name \"edit\" :arguments {{:path \"a\" :edits [{{:old {old:?} :new {new:?}}}]}}}}")
    };
    let setup = Setup::new().script(&script(&[&edit("one", "two"), &edit("two", "three")])).arg("--yolo");
    std::fs::write(setup.project().join("a"), "one\n").unwrap();
    let mut bridge = setup.ready();
    let path = setup.project().canonicalize().unwrap().join("a");
    bridge.ask("r", "register_files", &format!("{{:files [{{:path {path:?} :diagnostics true}}]}}"));
    bridge.ask("p", "prompt", "{:message \"go\"}");
    (setup, bridge)
}

#[test]
fn diagnostics_of_an_edited_file_end_its_result() {
    let (_setup, mut bridge) = with_checked_file();
    let mut asked = Vec::new();
    let mut edited = |found: &str| {
        let result = serving(&mut bridge, |action, _, _| {
            asked.push(action.to_owned());
            match action {
                "diagnostics" => format!(":status \"ok\" :diagnostics [{found}]"),
                _ => ":status \"closed\"".to_owned(),
            }
        });
        assert!(!failed(&result), "{result}");
        data(&result, "result-text").to_owned()
    };
    let found = r#"{:line 3 :severity "warning" :message "unused"} {:line 7 :column 2 :severity "error" :message "no\nsuch" :source "rustc"}"#;
    let text = edited(found);
    let list =
        "\nDiagnostics in the user's editor that are new:\n7:2 error: no such (rustc)\n3 warning: unused";
    assert!(text.ends_with(list), "{text}");
    assert!(!edited("").contains("Diagnostics"));
    // After the change is made, so that what is asked about is on disk.
    assert_eq!(asked, ["write", "diagnostics", "write", "diagnostics"]);
}

#[test]
fn silent_checker_holds_no_turn_and_is_told() {
    let (setup, mut bridge) = with_checked_file();
    let mut ends = 0;
    for _ in 0..2 {
        loop {
            let frame = bridge.until(|frame| {
                ["file/requested", "request/cancelled", "tool/result"]
                    .iter()
                    .any(|topic| is_event(frame, topic))
            });
            let id = at(&frame, &["data", "request-id"]).and_then(|id| id.as_str()).unwrap_or_default();
            if is_event(&frame, "tool/result") {
                assert!(!failed(&frame) && !data(&frame, "result-text").contains("Diagnostics"), "{frame}");
                break;
            }
            if is_event(&frame, "request/cancelled") {
                assert_eq!(data(&frame, "reason"), "timed-out");
                ends += 1;
            } else if data(&frame, "action") == "write" {
                bridge.ask("f", "file_result", &format!("{{:request-id {id:?} :status \"closed\"}}"));
            } else {
                let most = i64::try_from(DIAGNOSTICS_TIME.as_millis()).unwrap();
                assert!(at(&frame, &["data", "timeout-ms"]).unwrap().as_i64().unwrap() <= most, "{frame}");
            }
        }
    }
    assert_eq!(ends, 2);
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "three\n");
}

#[test]
fn client_that_checks_nothing_is_not_asked_for_diagnostics() {
    let (_setup, mut bridge) = with_open_file(&[EDIT]);
    let result = serving(&mut bridge, |action, text, _| match action {
        "read" => unsaved("unsaved", "on disk\n"),
        "write" => unsaved(text, "on disk\n"),
        other => panic!("asked for {other}"),
    });
    assert!(!failed(&result), "{result}");
    // Nor is anything of a wrong shape taken.
    for found in ["[{:line 1}]", "[7]", r#"[{:line -1 :severity "error" :message "m"}]"#, "{}"] {
        let refused = bridge.ask(
            "f",
            "file_result",
            &format!("{{:request-id \"r\" :status \"ok\" :diagnostics {found}}}"),
        );
        assert_eq!(code(&refused), "request/invalid-params", "{found}");
    }
}

#[test]
fn file_of_a_client_that_left_is_that_on_disk() {
    let setup = Setup::new().script(&script(&[READ])).arg("--yolo");
    std::fs::write(setup.project().join("a"), "on disk\n").unwrap();
    let mut bridge = setup.ready();
    let mut guest = guest_with_file(&setup);
    let path = setup.project().canonicalize().unwrap().join("a");
    let files = format!("{{:files [{{:path {path:?} :modified true}}]}}");
    // Who has closed it is not asked.
    bridge.ask("r", "register_files", &files);
    bridge.ask("r", "register_files", "{:files []}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    guest.until(|frame| is_event(frame, "file/requested"));
    drop(guest);
    let read = bridge.event("tool/result");
    assert!(data(&read, "result-text").contains("on disk"), "{read}");
    assert!(bridge.transcript.iter().all(|line| !line.contains(":event \"file/requested\"")));
}

#[test]
fn open_files_of_a_wrong_shape_are_refused() {
    let mut bridge = Setup::new().ready();
    let many = "{:path \"/a\"}".repeat(edn_bridge::limits::CLIENT_FILES + 1);
    for files in ["{:path \"a\"}", "{:path 7}", "{}", "{:path \"/a\" :modified 1}", &many] {
        let refused = bridge.ask("r", "register_files", &format!("{{:files [{files}]}}"));
        assert_eq!(code(&refused), "request/invalid-params", "{refused}");
        assert!(refused.to_string().contains(":key \":files\""), "{refused}");
    }
    for answer in [":status \"ok\"", ":status \"gone\"", ":status \"ok\" :text \"x\" :bytes \"?\""] {
        let refused = bridge.ask("f", "file_result", &format!("{{:request-id \"r\" {answer}}}"));
        assert_eq!(code(&refused), "request/invalid-params", "{refused}");
    }
    let late = bridge.ask("f", "file_result", "{:request-id \"r-1\" :status \"closed\"}");
    assert_eq!(code(&late), "request/not-found", "{late}");
}

/// Answers the request for a file of a guest.
fn answer_file(guest: &mut Guest, answer: &str) -> Owned {
    let asked = guest.until(|frame| is_event(frame, "file/requested"));
    let id = data(&asked, "request-id");
    guest.ask("f", "file_result", &format!("{{:request-id {id:?} {answer}}}"));
    asked
}

/// A guest that has the file `a` open, whether it is there yet or not.
fn guest_with_file(setup: &Setup) -> Guest {
    let mut guest = Guest::at(&socket(&setup.state()));
    let path = setup.project().canonicalize().unwrap().join("a");
    guest.ask("r", "register_files", &format!("{{:files [{{:path {path:?} :modified true}}]}}"));
    guest
}

#[test]
fn client_that_leaves_in_a_change_leaves_the_file_to_the_disk() {
    let setup = Setup::new().script(&script(&[EDIT])).arg("--yolo");
    let path = setup.project().join("a");
    std::fs::write(&path, "unsaved").unwrap();
    let mut bridge = setup.ready();
    let mut guest = guest_with_file(&setup);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    // Looked at twice before it runs, and once when it does.
    for _ in 0..3 {
        answer_file(&mut guest, &unsaved("unsaved", "unsaved"));
    }
    let asked = guest.until(|frame| is_event(frame, "file/requested"));
    assert_eq!(data(&asked, "action"), "write");
    drop(guest);
    // Its text is gone with it, and the edit is made anew.
    let result = bridge.event("tool/result");
    assert!(!failed(&result), "{result}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "edited");
    bridge.event("turn/ended");
    let undone = bridge.ask("u", "undo", "{}");
    assert!(undone.to_string().contains(":steps 1"), "{undone}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "unsaved");
}

#[test]
fn client_is_asked_for_a_file_that_is_made_later() {
    let write = r#"{:name "write" :arguments {:path "a" :content "new"}}"#;
    let setup = Setup::new().script(&script(&[READ, write])).arg("--yolo");
    let mut bridge = setup.ready();
    let mut second = guest_with_file(&setup);
    let mut first = guest_with_file(&setup);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let text = ":status \"ok\" :text \"in the other\" :modified true";
    // The one that said so last has closed it; the other one has not.
    answer_file(&mut first, ":status \"closed\"");
    answer_file(&mut second, text);
    let read = bridge.event("tool/result");
    assert!(data(&read, "result-text").contains("in the other"), "{read}");
    drop(first);
    for _ in 0..3 {
        answer_file(&mut second, text);
    }
    let asked = answer_file(&mut second, ":status \"ok\" :text \"new\" :modified true");
    assert_eq!(data(&asked, "action"), "write");
    assert!(!failed(&bridge.event("tool/result")));
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "new");
}

#[test]
fn undo_does_not_wait_for_a_client_that_is_silent() {
    let write = r#"{:name "write" :arguments {:path "a" :content "unsaved"}}"#;
    let script = format!(
        "{{:turns [{{:steps [{{:tool-call {write}}}]}} {{:steps [{{:delta \"end\"}}]}} {{:steps [{{:tool-call {EDIT}}}]}}]}}"
    );
    let setup = Setup::new().script(&script).arg("--yolo");
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("turn/ended");
    let mut guest = guest_with_file(&setup);
    guest.ask("n", "new_session", "{}");
    guest.ask("p", "prompt", "{:message \"edit\"}");
    // Looked at twice before it runs; then its file is locked.
    for _ in 0..2 {
        answer_file(&mut guest, &unsaved("unsaved", "unsaved"));
    }
    guest.until(|frame| is_event(frame, "file/requested"));
    let undone = bridge.ask("u", "undo", "{}");
    assert_eq!(code(&undone), "request/file-changed", "{undone}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "unsaved");
}
