//! What an agent asks becomes questions of ours: once for one act, and never answered wider.

use super::*;

const PLAIN: &str = "always,once,no";

#[test]
fn permission_is_asked_and_answered_as_chosen() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, &format!("ask c execute {PLAIN} command=make_test"));
    let question = approve(&mut bridge, "approve", "once").to_string();
    for part in ["\"approve\"", ":tool \"bash\"", ":command \"make test\""] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert_eq!(text(&ended(&mut bridge)), "chose once-1. ");
    // No is the agent's no for now.
    say(&mut bridge, &format!("ask c execute {PLAIN} command=make_all"));
    approve(&mut bridge, "deny", "");
    assert_eq!(text(&ended(&mut bridge)), "chose no-2. ");
    let audit = bridge.ask("a", "list_audit", "{}").to_string();
    assert!(audit.contains("\"bash\""), "{audit}");
}

#[test]
fn yes_for_the_session_is_passed_on_and_kept() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, &format!("ask c execute {PLAIN} command=make_test"));
    approve(&mut bridge, "approve", "session");
    assert_eq!(text(&ended(&mut bridge)), "chose always-0. ");
    // Asked again by the agent, it is answered by what was kept: for now.
    assert_eq!(turn(&mut bridge, &format!("ask d execute {PLAIN} command=make_test")), "chose once-1. ");
    // An agent that has no yes for good gets the one for now.
    say(&mut bridge, "ask e execute once,no command=ls");
    approve(&mut bridge, "approve", "session");
    assert_eq!(text(&ended(&mut bridge)), "chose once-0. ");
}

#[test]
fn answers_of_another_shape_are_chosen_by_name() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    for (shape, place, expected) in
        [("always,no", 1, "no-1"), ("always,no", 0, "always-0"), ("once,once,no", 1, "once-1")]
    {
        say(&mut bridge, &format!("ask c execute {shape} command=make"));
        let question = bridge.event("interaction/requested");
        assert!(
            question.to_string().contains("\"select\"") && question.to_string().contains("Say "),
            "{question}"
        );
        accept(&mut bridge, &question, &format!(":value {{:index {place}}}"));
        assert_eq!(text(&ended(&mut bridge)), format!("chose {expected}. "));
    }
}

#[test]
fn rules_and_modes_answer_before_anybody_is_asked() {
    let setup = with_agent(
        "",
        ":permissions {:rules [{:tool \"bash\" :command \"rm\" :decision :deny} {:tool \"write\" :path \"secret/**\" :decision :deny}]}",
    );
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, &format!("ask c execute {PLAIN} command=rm_-rf_x")), "chose no-2. ");
    assert_eq!(turn(&mut bridge, &format!("ask c edit {PLAIN} diff=secret/a@x")), "chose no-2. ");
    bridge.ask("m", "set_mode", "{:mode \"read-only\"}");
    assert_eq!(turn(&mut bridge, &format!("ask c edit {PLAIN} diff=a.txt@x")), "chose no-2. ");
    assert_eq!(turn(&mut bridge, &format!("ask c other {PLAIN}")), "chose no-2. ");
    assert_eq!(turn(&mut bridge, &format!("ask c read {PLAIN} path=a.txt")), "chose once-1. ");
    bridge.ask("m", "set_mode", "{:mode \"accept-edits\"}");
    assert_eq!(turn(&mut bridge, &format!("ask c edit {PLAIN} diff=a.txt@x")), "chose once-1. ");
    // What it would do is not known, so that it is asked about.
    say(&mut bridge, &format!("ask c other {PLAIN}"));
    approve(&mut bridge, "approve", "session");
    assert_eq!(text(&ended(&mut bridge)), "chose always-0. ");
    say(&mut bridge, &format!("ask d other {PLAIN}"));
    approve(&mut bridge, "deny", "");
    assert_eq!(text(&ended(&mut bridge)), "chose no-2. ", "nothing was kept of a yes to something unknown");
    bridge.ask("m", "set_mode", "{:mode \"yolo\"}");
    assert_eq!(turn(&mut bridge, &format!("ask c execute {PLAIN} command=make")), "chose once-1. ");
    assert_eq!(turn(&mut bridge, &format!("ask c execute {PLAIN} command=rm_-rf_x")), "chose no-2. ");
}

#[test]
fn title_is_shown_and_denied_and_a_command_where_known() {
    let rules = ":permissions {:rules [{:tool \"bash\" :command \"rm\" :decision :deny}
                                      {:tool \"bash\" :command \"make\" :decision :allow}]}";
    // An agent of which it is not known that its titles are commands: they may deny a call, and allow none.
    let setup = with_agent("", rules);
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, &format!("ask c execute {PLAIN} title=rm_-rf_x")), "chose no-2. ");
    say(&mut bridge, &format!("ask d execute {PLAIN} title=make_test"));
    let question = approve(&mut bridge, "approve", "session").to_string();
    assert!(question.contains(":call-summary \"make test\"") && !question.contains(":command"), "{question}");
    assert_eq!(text(&ended(&mut bridge)), "chose always-0. ");
    // One of which it is known.
    let setup = with_agent("titles", rules);
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, &format!("ask c execute {PLAIN} title=rm_-rf_x")), "chose no-2. ");
    assert_eq!(turn(&mut bridge, &format!("ask d execute {PLAIN} title=make_test")), "chose once-1. ");
    say(&mut bridge, &format!("ask e execute {PLAIN} title=ls_x"));
    let question = approve(&mut bridge, "approve", "once").to_string();
    assert!(question.contains(":command \"ls x\""), "{question}");
    // The same agent says the use of tokens in a place of its own.
    let last = ended(&mut bridge).to_string();
    assert!(last.contains(":input 10 :output 5"), "{last}");
    // What is told of the call has it too.
    let history = history(&mut bridge);
    assert!(history.contains(":arguments {:command \"ls x\"}"), "{history}");
}

#[test]
fn one_act_is_asked_about_once() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    // The same text to the same file, as part of a call that was allowed.
    say(&mut bridge, &format!("ask c edit {PLAIN} diff=new.txt@hello; write new.txt hello; done c"));
    let question = approve(&mut bridge, "approve", "once").to_string();
    assert!(question.contains("+++ b/new.txt") && question.contains("+hello"), "{question}");
    let last = ended(&mut bridge);
    assert!(!last.to_string().contains("not written"), "{last}");
    assert_eq!(std::fs::read_to_string(setup.project().join("new.txt")).unwrap(), "hello");
    // Another text, another file and a second time are asked about.
    say(&mut bridge, &format!("ask c edit {PLAIN} diff=a.txt@one; write a.txt two; done c"));
    approve(&mut bridge, "approve", "once");
    let second = approve(&mut bridge, "deny", "").to_string();
    assert!(second.contains("two"), "{second}");
    assert!(history_of(&mut bridge).contains("not written"), "refused");
    assert!(!setup.project().join("a.txt").exists());
    say(&mut bridge, &format!("ask c edit {PLAIN} diff=b.txt@one; done c; write b.txt one"));
    approve(&mut bridge, "approve", "once");
    approve(&mut bridge, "approve", "once");
    ended(&mut bridge);
    assert_eq!(std::fs::read_to_string(setup.project().join("b.txt")).unwrap(), "one");
}

#[test]
fn change_from_another_text_than_was_shown_is_asked_about() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    for old in ["\"the new text\"", "null", "\"something else\""] {
        std::fs::write(setup.project().join("a.txt"), "what is there\n").unwrap();
        let request = format!(
            r#"{{"kind":"edit","content":[{{"type":"diff","path":"WS/a.txt","oldText":{old},"newText":"the new text"}}]}}"#
        );
        say(&mut bridge, &format!("request {request}; write a.txt the_new_text"));
        approve(&mut bridge, "approve", "once");
        let second = approve(&mut bridge, "deny", "").to_string();
        assert!(second.contains("-what is there"), "{old}: {second}");
        ended(&mut bridge);
        assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "what is there\n");
    }
    // What nobody was asked about is no reason to overwrite what the agent has not seen.
    bridge.ask("m", "set_mode", "{:mode \"accept-edits\"}");
    let request = r#"{"kind":"edit","content":[{"type":"diff","path":"WS/a.txt","newText":"x"}]}"#;
    assert_eq!(turn(&mut bridge, "read a.txt"), "read what is there\n. ");
    std::fs::write(setup.project().join("a.txt"), "the user's own\n").unwrap();
    let said = turn(&mut bridge, &format!("request {request}; write a.txt x"));
    assert!(said.contains("chose once-1. not written"), "{said}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "the user's own\n");
}

#[test]
fn long_arguments_are_judged_and_shown_as_a_whole() {
    let setup = with_agent("", ":permissions {:rules [{:tool \"bash\" :command \"rm\" :decision :deny}]}");
    let mut bridge = setup.interactor();
    let long = "x ".repeat(150_000);
    let request = |end: &str| format!(r#"request {{"kind":"other","rawInput":{{"what":"{long}",{end}}}}}"#);
    let (found, _) = came_of(&mut bridge, &request(r#""tool":{"command":"rm x"}"#));
    assert_eq!(found, "no");
    let (found, question) = came_of(&mut bridge, &request(r#""zz":"the end of it""#));
    assert_eq!(found, "asked");
    assert!(question.contains("4096 of 300") && !question.contains(":cut true"), "{question:.6000}");
    let handle = question.split("output ").nth(1).unwrap().split(['.', '"']).next().unwrap();
    let rest =
        bridge.ask("o", "read_output", &format!("{{:handle {handle:?} :offset 290000 :limit 262144}}"));
    assert!(rest.to_string().contains("the end of it"), "{rest}");
}

fn history_of(bridge: &mut Bridge) -> String {
    ended(bridge);
    history(bridge)
}

#[test]
fn files_are_served_under_our_rules() {
    let setup = with_agent("", ":mode :accept-edits");
    let mut bridge = setup.interactor();
    std::fs::write(setup.project().join("r.txt"), "1\n2\n3\n").unwrap();
    assert_eq!(turn(&mut bridge, "read r.txt"), "read 1\n2\n3\n. ");
    assert_eq!(turn(&mut bridge, "read r.txt 2 1"), "read 2\n. ");
    assert_eq!(turn(&mut bridge, "read none.txt"), "read code -32002. ");
    assert_eq!(turn(&mut bridge, "relative r.txt"), "code -32602. ");
    assert_eq!(turn(&mut bridge, "write w.txt text"), "wrote. ");
    assert_eq!(std::fs::read_to_string(setup.project().join("w.txt")).unwrap(), "text");
    // What was written through us can be undone.
    let undone = bridge.ask("u", "undo", "{}").to_string();
    assert!(undone.contains("removed"), "{undone}");
    assert!(!setup.project().join("w.txt").exists());
    bridge.ask("m", "set_mode", "{:mode \"read-only\"}");
    assert!(turn(&mut bridge, "write w.txt text").contains("not written"));
}

#[test]
fn commands_are_run_asked_about_and_released() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "terminal sh -c seq<1000 ");
    approve(&mut bridge, "deny", "");
    assert_eq!(text(&ended(&mut bridge)), "no terminal. ");
    // As part of a call that was allowed, it is not asked about again.
    say(&mut bridge, &format!("ask c execute {PLAIN} command=seq_1_1000; terminal seq 1 1000"));
    approve(&mut bridge, "approve", "once");
    let last = text(&ended(&mut bridge));
    assert!(last.contains("exit 0, cut True") && last.contains("999\n1000\n, then -32002"), "{last}");
    bridge.ask("m", "set_mode", "{:mode \"read-only\"}");
    assert_eq!(turn(&mut bridge, "terminal true"), "no terminal. ");
}

#[test]
fn form_is_a_question_to_the_person() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "form");
    let question = bridge.event("interaction/requested");
    assert!(question.to_string().contains("The agent a asks you"), "{question}");
    accept(&mut bridge, &question, ":value {:text \"Ann\"}");
    assert_eq!(text(&ended(&mut bridge)), r#"{"action": "accept", "content": {"name": "Ann"}}"#);
}

#[test]
fn question_that_is_withdrawn_is_asked_no_more() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, "withdraw"), "withdrawn. ");
    let open =
        bridge.ask("q", "query_eql", "{:query \"[{:psi.interaction/pending [:psi.interaction/id]}]\"}");
    assert!(!open.to_string().contains("i-"), "{open}");
}

#[test]
fn nobody_there_ends_the_turn_with_words() {
    let setup = with_agent("", "");
    let mut bridge = setup.ready();
    say(&mut bridge, &format!("ask c execute {PLAIN} command=make"));
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "error");
    assert!(data(&last, "error-message").contains("permission-required"), "{last}");
}

#[test]
fn form_of_every_shape_is_asked_field_by_field() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "form-all");
    for (kind, value) in [("select", "{:index 1}"), ("confirm", "{:ok true}"), ("ask", "{:text \"5\"}")] {
        let question = bridge.event("interaction/requested");
        assert_eq!(data(&question, "kind"), kind, "{question}");
        accept(&mut bridge, &question, &format!(":value {value}"));
    }
    assert_eq!(
        text(&ended(&mut bridge)),
        r#"{"action": "accept", "content": {"count": 5, "level": "high", "sure": true}}"#
    );
}

#[test]
fn page_is_confirmed_with_its_whole_address() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "page https://login.example/start?x=1");
    let question = bridge.event("interaction/requested");
    assert!(question.to_string().contains("https://login.example/start?x=1"), "{question}");
    assert_eq!(data(&question, "kind"), "confirm");
    accept(&mut bridge, &question, ":value {:ok false}");
    let said = text(&ended(&mut bridge));
    assert!(said.contains("decline") || said.contains("cancel"), "{said}");
}

#[test]
fn commands_of_an_agent_have_a_bound() {
    let setup = with_agent("", ":mode :yolo");
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, "terminals 33"), "32 made, then error. ");
    assert_eq!(turn(&mut bridge, "terminals 1"), "1 made, then made. ", "they end with their turn");
}

/// What a step comes to: `yes`, `no`, or `asked` with the question, which is answered with no.
fn came_of(bridge: &mut Bridge, step: &str) -> (&'static str, String) {
    say(bridge, step);
    let is_last =
        |frame: &Owned| is_event(frame, "assistant/message") && data(frame, "stop-reason") != "tool-use";
    let found = bridge.until(|frame| is_event(frame, "interaction/requested") || is_last(frame));
    let said = if is_event(&found, "interaction/requested") {
        let is_named = data(&found, "kind") == "select";
        let no = if is_named { ":value {:index 2}" } else { ":value {:outcome \"deny\"}" };
        accept(bridge, &found, no);
        ended(bridge);
        return ("asked", found.to_string());
    } else {
        bridge.event("turn/ended");
        text(&found)
    };
    let is_yes = said.contains("chose once") || said.starts_with("output");
    (if is_yes { "yes" } else { "no" }, said)
}

#[test]
fn every_part_of_a_request_is_judged() {
    let rules = ":permissions {:rules [{:tool \"bash\" :command \"rm\" :decision :deny}
         {:tool \"bash\" :command \"make\" :decision :allow} {:tool \"write\" :path \"secret/**\" :decision :deny}
         {:path \"hidden/**\" :decision :deny}]}";
    let setup = with_agent("", rules);
    let mut bridge = setup.interactor();
    let diff = r#""content":[{"type":"diff","path":"WS/a","newText":"x"}]"#;
    let rows = [
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make test"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":["bash","-lc","make test"]}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","args":["test"],"timeout":5}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"read","locations":[{"path":"WS/a"}],"rawInput":{"file_path":"WS/a","limit":5}}"#.to_owned(), "yes"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"file_path":"WS/a","old_string":"","new_string":"x"}}}}"#), "yes"),
        // A command is judged whatever the kind, as a text and as words.
        ("ask", r#"{"kind":"read","locations":[{"path":"WS/a"}],"rawInput":{"command":"rm -rf /"}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"read","locations":[{"path":"WS/a"}],"rawInput":{"cmd":["rm","-rf","/"]}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"think","rawInput":{"argv":["sh","-c","rm x"]}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"fetch","rawInput":{"url":"https://docs.rs/","command":"/bin/rm x"}}"#.to_owned(), "no"),
        ("accept-edits", format!(r#"{{"kind":"execute",{diff},"rawInput":{{"command":"rm -rf /"}}}}"#), "no"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"command":"touch x"}}}}"#), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","env":{"A":"rm x"}}}"#.to_owned(), "no"),
        // What is more than the line of a rule.
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","cwd":"/tmp"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","env":{"LD_PRELOAD":"WS/x"}}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","surprise":1}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","env":[{"name":"PATH","value":"WS/bin"}]}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","env":[{"name":"A","value":"rm x"}]}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","environment":{"GIT_CONFIG_COUNT":"1"}}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","env":["A=b"]}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","workdir":"WS/sub"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","cwd":["/tmp"]}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","cwd":"WS/","workdir":"/tmp"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","cwd":"WS/."}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":""}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":[]}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":["make"]}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":["make","x;rm y"]}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"commands":["make"],"command":"make"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"tool":{"command":"rm x"}}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"steps":[{"cmd":"make"},[{"cmd":"rm x"}]]}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"COMMAND":"rm x"}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":["rm",5,"x"]}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":{"cmd":"rm x"}}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"args":{"cmd":"rm x"}}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"env":{"A":{"cmd":"rm x"}}}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":["WS/bash","-c","make"]}}"#.to_owned(), "asked"),
        // Every path, under each key, from each folder, in each place.
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"locations":[{{"path":"/outside/b"}}]}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"file_path":"/outside/b"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"newPath":"../b"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"uri":"file:///outside/b"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"edits":[{{"path":"/outside/b"}}]}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"changes":{{"/outside/b":{{"type":"add"}}}}}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"old_path":"/outside/b"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"Target-File":"/outside/b"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"paths":["WS/a","/outside/b"]}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"paths":["WS/secret/b",5]}}}}"#), "no"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"files":[{{"path":"/outside/b"}}]}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"x":{{"y":[{{"to":"WS/secret/b"}}]}}}}}}"#), "no"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"text":"x","type":"delete"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"path":"WS/.git/hooks/pre-commit"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"text":"x","type":"Unlink"}}}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"text":"x","type":"update"}}}}"#), "yes"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"path":"a","fileDiff":"--- a/a\n+++ b/../x\n@@ -1 +1 @@"}}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"changes":{"a":{"unified_diff":"diff --git a/a /outside/b\n"}}}}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"changes":{"a":{"unified_diff":"@@ -1 +1 @@\n-a\n+b\n"}}}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","glob":"hidden/*"}}"#.to_owned(), "no"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"src/**/*.rs"}}"#.to_owned(), "yes"),
        ("accept-edits", r#"{"kind":"edit","content":[{"type":"diff","path":"WS/a","newText":"x"},{"type":"diff","path":"/outside/b","newText":"x"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"path":"b","cwd":"/outside"}}"#.to_owned(), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"rawInput":{{"path":"WS/secret/b"}}}}"#), "no"),
        ("ask", r#"{"kind":"read","locations":[{"path":"WS/a"}],"rawInput":{"destination":"WS/b"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"../../*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"{.,}./out/*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":".{.,x}/out/*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"[.][.]/*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":".[.]/*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"{a,{.}.}/*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"?(.)./*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"*(.)./*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"{x/,.}./*"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"**/*.{ts,tsx}"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"src/{a,b}.rs"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"fn main() {"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"*.*"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":".*foo"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"a..b"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"let x = 0..9"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"[a-z]*.rs"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"?.rs"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"search","rawInput":{"path":"WS/","pattern":"{.github,docs}/**"}}"#.to_owned(), "yes"),
        ("accept-edits", r#"{"kind":"edit","locations":[{"path":"vscode-remote://h/etc/x"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","locations":[{"path":"file://otherhost/etc/x"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","content":[{"type":"diff","path":"ssh://h/etc/x","newText":"x"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"changes":{"ssh://h/etc/x":{"type":"add"}}}}"#.to_owned(), "asked"),
        // What a shell or another tool reads as a variable.
        ("accept-edits", r#"{"kind":"edit","rawInput":{"path":"$HOME/x"}}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"path":"${PWD}/../x"}}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","rawInput":{"path":"routes/$id.tsx"}}"#.to_owned(), "yes"),
        ("ask", r#"{"kind":"read","locations":[{"path":"https://evil.example/"}]}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"read","rawInput":{"path":"WS/a","url":"https://evil.example/"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"execute","rawInput":{"command":"make","content":"rm x"}}"#.to_owned(), "asked"),
        ("ask", r#"{"kind":"read","rawInput":{"source":"https://evil.example/"}}"#.to_owned(), "asked"),
        // The kind makes it stricter, never milder.
        ("accept-edits", r#"{"kind":"move","locations":[{"path":"WS/a"}],"rawInput":{"from":"WS/a","to":"/outside/b"}}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"move","rawInput":{"from":"WS/a","to":"WS/b"}}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"delete","locations":[{"path":"WS/a"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"execute","locations":[{"path":"WS/a"}]}"#.to_owned(), "asked"),
        ("accept-edits", format!(r#"{{"kind":"other",{diff}}}"#), "asked"),
        ("read-only", r#"{"kind":"delete","locations":[{"path":"WS/a"}]}"#.to_owned(), "no"),
        ("yolo", r#"{"kind":"execute","rawInput":{"what":"rm x"}}"#.to_owned(), "asked"),
        // What cannot be read may be anything.
        ("accept-edits", r#"{"kind":"edit","content":[{"type":"diff","path":"WS/a","newText":"x"},{"type":"diff","path":"/outside/b"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","content":[{"type":"diff","path":"WS/a","newText":"x"},{"type":"delete","path":"/outside/b"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","content":[{"type":"diff","path":"WS/a","newText":"x","movePath":"/outside/b"}]}"#.to_owned(), "asked"),
        ("accept-edits", r#"{"kind":"edit","content":[{"type":"diff","path":"WS/a","newText":"x"},{"type":"diff","path":["/outside/b"],"newText":"x"}]}"#.to_owned(), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"locations":"/outside/b"}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"locations":[{{"uri":"file:///outside/b"}}]}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"command":"rm -rf /"}}"#), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"raw_input":{{"command":"rm -rf /"}}}}"#), "asked"),
        ("ask", r#"{"kind":"read","locations":[{"path":"WS/a"}],"input":{"command":"rm -rf /"}}"#.to_owned(), "asked"),
        ("accept-edits", format!(r#"{{"kind":"edit",{diff},"_meta":{{"x":1}},"locations":[{{"path":"WS/a","line":3}}]}}"#), "yes"),
    ];
    // More than is looked at: places, and folders that multiply them.
    let many = |count: usize, of: fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>().join(",");
    let rows = rows.into_iter().chain([
        (
            "yolo",
            format!(r#"{{"kind":"read","rawInput":{{"paths":[{}]}}}}"#, many(300, |n| format!("\"f{n}\""))),
            "no",
        ),
        (
            "yolo",
            format!(
                r#"{{"kind":"read","rawInput":{{{},"paths":["a","b"]}}}}"#,
                many(2_000, |n| format!(
                    "\"cwd{}\":\"/tmp/{n}\"",
                    format!("{n:b}").replace('0', "_").replace('1', "-")
                ))
            ),
            "no",
        ),
    ]);
    let rows = rows.into_iter().chain([
        // Commands that share a large variable.
        (
            "yolo",
            format!(
                r#"{{"kind":"execute","rawInput":{{{},"env":{{"A":"{}"}}}}}}"#,
                many(200, |n| format!(
                    "\"cmd{}\":\"make {n}\"",
                    format!("{n:b}").replace('0', "_").replace('1', "-")
                )),
                "x".repeat(200_000)
            ),
            "no",
        ),
        ("ask", format!(r#"{{"kind":"search","rawInput":{{"pattern":"{}"}}}}"#, "[a]/".repeat(50_000)), "no"),
    ]);
    let mut wrong = Vec::new();
    for (mode, request, expected) in rows {
        bridge.ask("m", "set_mode", &format!("{{:mode {mode:?}}}"));
        let (found, shown) = came_of(&mut bridge, &format!("request {request}"));
        if found != expected {
            wrong.push(format!("{mode} {request}: {found}, not {expected}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn request_under_the_id_of_a_finished_call_is_another_call() {
    let setup = with_agent("", ":permissions {:rules [{:tool \"bash\" :command \"rm\" :decision :deny}]}");
    let mut bridge = setup.interactor();
    let over = "call c1 read; done c1 read; ";
    let remove = r#"request {"toolCallId":"c1","kind":"execute","rawInput":{"command":"rm -rf /"}}"#;
    assert_eq!(came_of(&mut bridge, &format!("{over}{remove}")).0, "no");
    let change = r#"request {"toolCallId":"c1","kind":"edit","content":[{"type":"diff","path":"/outside/b","newText":"evil"}]}"#;
    let (found, shown) = came_of(&mut bridge, &format!("{over}{change}"));
    assert!(found == "asked" && shown.contains("+evil"), "{found} {shown}");
}

#[test]
fn guard_votes_on_each_part_of_a_request_whatever_its_kind() {
    let guard = ":hooks [{:id \"g\" :kind :guard :stage :tool-call :point :pre :tools [\"bash\"] :command [\"false\"]}]";
    let setup = with_agent("", guard);
    let mut bridge = setup.interactor();
    for request in [
        r#"{"kind":"other","rawInput":{"command":"touch x"}}"#,
        r#"{"kind":"read","locations":[{"path":"WS/a"}],"rawInput":{"command":"touch x"}}"#,
        // Answers that are chosen by their names.
        r#"{"kind":"execute","rawInput":{"command":"touch x"},"shape":"always,no"}"#,
    ] {
        let (found, shown) = came_of(&mut bridge, &format!("request {request}"));
        assert_eq!(found, "no", "{request}: {shown}");
    }
}

#[test]
fn terminal_starts_what_was_judged_and_shown() {
    let rules = ":permissions {:rules [{:tool \"bash\" :command \"git status\" :decision :allow}
         {:tool \"bash\" :command \"cat\" :decision :allow} {:tool \"bash\" :command \"env\" :decision :allow}]}";
    let setup = with_agent("", rules).env("GITHUB_TOKEN", "canary-9");
    let outside = setup.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), "canary-8").unwrap();
    std::fs::write(setup.project().join("in.txt"), "free").unwrap();
    let outside = outside.canonicalize().unwrap().to_string_lossy().into_owned();
    let mut bridge = setup.interactor();
    let root = setup.project().canonicalize().unwrap().to_string_lossy().into_owned();
    for (request, shown) in [
        (r#"{"command":"WS/bash","args":["-c","git status"]}"#.to_owned(), format!("{root}/bash -c 'git status'")),
        (r#"{"command":"./sh","args":["-c","git status"]}"#.to_owned(), "./sh -c 'git status'".to_owned()),
        (
            r#"{"command":"git","args":["status"],"env":[{"name":"GIT_CONFIG_COUNT","value":"1"},{"name":"A","value":"b c"}]}"#
                .to_owned(),
            "env 'A=b c' GIT_CONFIG_COUNT=1 git status".to_owned(),
        ),
        (
            format!(r#"{{"command":"cat","args":["secret.txt"],"cwd":{outside:?}}}"#),
            format!("cd {outside} && cat secret.txt"),
        ),
    ] {
        let (found, question) = came_of(&mut bridge, &format!("create {request}"));
        assert_eq!(found, "asked", "{request}");
        let shown = format!(":command {shown:?}");
        assert!(question.contains(&shown) && !question.contains("canary"), "{shown}: {question}");
        // What a rule would allow again is the line alone.
        let is_plain = !shown.contains("cd ") && !shown.contains("env ");
        assert_eq!(question.contains(":suggested-rule"), is_plain, "{question}");
    }
    assert_eq!(turn(&mut bridge, r#"create {"command":"cat","args":["in.txt"]}"#), "output free. ");
    // Bash itself would obey these; what is shown starts, and they are the program's.
    std::fs::write(setup.project().join("evil.sh"), "echo PWNED\n").unwrap();
    for variable in
        [r#""BASH_ENV","value":"WS/evil.sh""#, r#""BASH_FUNC_printf%%","value":"() { echo PWNED; }""#]
    {
        say(
            &mut bridge,
            &format!(r#"create {{"command":"printf","args":["%s","fine"],"env":[{{"name":{variable}}}]}}"#)
                .replace(';', "\\u003b"),
        );
        let question = approve(&mut bridge, "approve", "once").to_string();
        assert!(question.contains(":command \"env ") && question.contains("printf %s fine"), "{question}");
        assert_eq!(text(&ended(&mut bridge)), "output fine. ", "{variable}");
    }
    // The agent's own variables, and no token of the user.
    let variables = turn(&mut bridge, r#"create {"command":"env"}"#);
    assert!(variables.contains("PATH=") && variables.contains("STARTED="), "{variables}");
    assert!(!variables.contains("canary"), "{variables}");
    // A permission is for the folder and the variables that were asked about.
    say(
        &mut bridge,
        &format!(
            "ask c execute {PLAIN} command=seq_1_2; create {{\"command\":\"seq\",\"args\":[\"1\",\"2\"],\"cwd\":{outside:?}}}"
        ),
    );
    approve(&mut bridge, "approve", "once");
    let question = approve(&mut bridge, "deny", "").to_string();
    assert!(question.contains("&& seq 1 2"), "{question}");
    ended(&mut bridge);
}

#[test]
fn named_answers_show_what_they_are_about() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    let request = r#"{"kind":"read","title":"List files","shape":"once,once,no","locations":[{"path":"/etc/passwd"}],"rawInput":{"command":"rm -rf /"}}"#;
    let (found, question) = came_of(&mut bridge, &format!("request {request}"));
    assert_eq!(found, "asked");
    for part in ["\"select\"", "List files", "$ rm -rf /", "/etc/passwd"] {
        assert!(question.contains(part), "{part}: {question}");
    }
}
