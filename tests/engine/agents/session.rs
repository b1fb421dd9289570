//! A session with an agent: opened, resumed, its options, commands and plan, and what works on it.

use super::*;
use support::code;

#[test]
fn new_session_names_its_agent_and_keeps_it() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"native\"}]}] :then :repeat-last}");
    let own = agent(&setup, "resumes", "");
    let setup = configure(setup, &format!("{{:agents {{\"a\" {own}}}}}"));
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, "hi"), "native");
    let opened = bridge.ask("n", "new_session", "{:agent \"a\"}");
    let id = data(&opened, "session-id").to_owned();
    assert_eq!(starts(&setup), [0u32; 0], "nothing is started for it");
    assert_eq!(turn(&mut bridge, "say from the agent"), "from the agent");
    let other = bridge.ask("x", "new_session", "{:agent \"aa\"}");
    assert!(other.to_string().contains("Did you mean a?"), "{other}");
    bridge.ask("c", "command", "{:text \"/new a\"}");
    bridge.event("session/resumed");
    assert_eq!(turn(&mut bridge, "say second"), "second");
    assert_eq!(starts(&setup).len(), 1, "one process for the folder");
    drop(bridge);
    // It is the agent's still, in another process, and the agent takes it up.
    let mut bridge = setup.interactor();
    bridge.ask("w", "switch_session", &format!("{{:session-id {id:?}}}"));
    assert_eq!(turn(&mut bridge, "say again"), "again");
    let methods: Vec<String> = sent(&setup).iter().map(|sent| sent["method"].to_string()).collect();
    assert_eq!(methods.iter().filter(|method| **method == "\"session/resume\"").count(), 1, "{methods:?}");
}

#[test]
fn loaded_session_does_not_show_its_history_again() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, "say first"), "first");
    let id = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    drop(bridge);
    let mut bridge = setup.interactor();
    bridge.ask("w", "switch_session", &format!("{{:session-id {id:?}}}"));
    assert_eq!(turn(&mut bridge, "say second"), "second");
    assert!(sent(&setup).iter().any(|sent| sent["method"] == "session/load"));
    assert!(!history(&mut bridge).contains("replayed"));
}

#[test]
fn agent_that_forgets_begins_a_new_session_with_a_notice() {
    let setup = with_agent("forgets", "");
    let mut bridge = setup.interactor();
    assert_eq!(turn(&mut bridge, "say first"), "first");
    say(&mut bridge, "crash");
    ended(&mut bridge);
    say(&mut bridge, "say second");
    let notice = bridge.until(|frame| is_event(frame, "ui/notification"));
    assert!(data(&notice, "message").contains("remembers nothing"), "{notice}");
    assert_eq!(text(&ended(&mut bridge)), "second");
    assert!(history(&mut bridge).contains("first"), "the journal is never cut");
}

#[test]
fn options_are_shown_and_chosen() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "say x");
    let shown = state(&mut bridge).to_string();
    assert!(shown.contains(":options [{:id \"model\"") && shown.contains("\"m-large\""), "{shown}");
    let set = bridge.ask("o", "set_option", "{:option \"model\" :value \"m-large\"}").to_string();
    assert!(set.contains(":value \"m-large\""), "{set}");
    assert_eq!(state(&mut bridge).get("model-id").unwrap().as_str(), Some("m-large"));
    let set = bridge.ask("o", "set_option", "{:option \"brave\" :value true}").to_string();
    assert!(set.contains(":id \"brave\" :name \"Brave\" :value true"), "{set}");
    for (params, expected) in [
        ("{:option \"none\" :value true}", "request/not-found"),
        ("{:option \"brave\" :value \"yes\"}", "request/invalid-params"),
        ("{:option \"model\" :value \"m-none\"}", "request/invalid-params"),
    ] {
        assert_eq!(code(&bridge.ask("o", "set_option", params)), expected, "{params}");
    }
}

#[test]
fn commands_of_the_agent_are_listed_and_reach_it() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "commands");
    let listed = until_answered(&mut bridge, "get_commands", |listed| listed.contains("/review [what]"));
    assert!(listed.contains(":source \"agent\""), "{listed}");
    assert!(!listed.contains("Odd"), "{listed}");
    let said = turn(&mut bridge, "/review this");
    assert!(said.contains("did not understand '/review this'"), "{said}");
}

#[test]
fn plan_is_a_widget_and_a_fact() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "plan");
    let widget = until_both(&mut bridge, |frame| is_event(frame, "ui/widgets-updated")).to_string();
    assert!(widget.contains("✓ First") && widget.contains("● Second"), "{widget}");
    let asked = bridge.ask("q", "query_eql", "{:query \"[:psi.agent-session/plan]\"}").to_string();
    assert!(asked.contains("{:text \"First\" :state \"completed\"}"), "{asked}");
}

#[test]
fn title_and_notice_are_taken_over() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "notice Careful; title My title");
    let notice = bridge.event("ui/notification");
    assert_eq!(data(&notice, "message"), "a: Careful");
    until_both(&mut bridge, |frame| {
        is_event(frame, "session/updated") && data(frame, "session-name") == "My title"
    });
    bridge.ask("n", "set_session_name", "{:name \"Mine\"}");
    turn(&mut bridge, "title Other");
    assert_eq!(state(&mut bridge).get("session-name").unwrap().as_str(), Some("Mine"));
}

#[test]
fn what_cannot_be_done_is_refused_in_words() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "say x");
    let compacted = bridge.ask("c", "compact", "{}").to_string();
    assert!(compacted.contains("keeps its own conversation"), "{compacted}");
    let images = bridge.ask(
        "i",
        "prompt",
        "{:message \"say\" :images [{:mime-type \"image/png\" :data \"iVBORw0KGgo=\"}]}",
    );
    assert!(images.to_string().contains(":accepted true"), "{images}");
    let last = ended(&mut bridge);
    assert!(data(&last, "error-message").contains("takes no images"), "{last}");
}

#[test]
fn steering_waits_for_the_end_of_the_turn() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "ask c execute once,no command=make; say one");
    let question = bridge.event("interaction/requested");
    bridge.ask("s", "steer", "{:message \"say two\"}");
    accept(&mut bridge, &question, ":value {:outcome \"deny\"}");
    assert!(text(&end_of_turn(&mut bridge)).contains("one"));
    assert_eq!(text(&ended(&mut bridge)), "two");
}

#[test]
fn modes_of_an_agent_are_an_option_beside_ours() {
    let setup = with_agent("modes", "");
    let mut bridge = setup.interactor();
    let options = bridge.ask("o", "agent_options", "{}").to_string();
    assert!(options.contains(":category \"mode\" :value \"ask\""), "{options}");
    let set = bridge.ask("o", "set_option", "{:option \"_mode\" :value \"plan\"}").to_string();
    assert!(set.contains(":value \"plan\""), "{set}");
    let all = sent(&setup);
    assert!(
        all.iter().any(|sent| sent["method"] == "session/set_mode" && sent["params"]["modeId"] == "plan")
    );
    // Our own mode is another thing, and stands.
    assert_eq!(state(&mut bridge).get("mode").unwrap().as_str(), Some("ask"));
    bridge.skip_to_now();
    say(&mut bridge, "mode-is ask");
    until_both(&mut bridge, |frame| {
        is_event(frame, "session/updated") && frame.to_string().contains(":value \"ask\"")
    });
}

#[test]
fn reload_keeps_the_process_unless_its_command_changed() {
    let setup = with_agent("resumes", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "say one");
    bridge.ask("r", "command", "{:text \"/reload\"}");
    bridge.event("command-result");
    turn(&mut bridge, "say two");
    assert_eq!(starts(&setup).len(), 1, "it is the same");
    let file = setup.dir.path().join("config/edn-bridge/config.edn");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace(":command [\"python3\"", ":command [\"python3\" \"-u\"")).unwrap();
    bridge.ask("r", "command", "{:text \"/reload\"}");
    bridge.event("command-result");
    assert_eq!(turn(&mut bridge, "say three"), "three");
    assert_eq!(starts(&setup).len(), 2, "it is another one");
    assert!(sent(&setup).iter().any(|sent| sent["method"] == "session/resume"));
}
