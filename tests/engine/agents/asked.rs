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
