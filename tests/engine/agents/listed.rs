//! The agents that a client can choose among, and their options before the first turn.

use super::*;

/// What is listed of an agent.
fn listed(bridge: &mut Bridge, name: &str) -> Value<'static> {
    let answer = bridge.ask("l", "list_agents", "{}");
    let all = at(&answer, &["data", "agents"]).unwrap().as_slice().unwrap();
    let found = all.iter().find(|agent| agent.get("name").and_then(Value::as_str) == Some(name));
    found.unwrap_or_else(|| panic!("{name}: {answer}")).clone()
}

fn word<'v>(agent: &'v Value<'_>, key: &str) -> &'v str {
    agent.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(agent: &Value<'_>, key: &str) -> bool {
    agent.get(key).and_then(Value::as_bool).unwrap()
}

#[test]
fn agents_are_listed_with_trust_state_and_sessions() {
    let setup = Setup::new().arg("--agent").arg("a");
    let own = agent(&setup, "resumes", "");
    let config = format!(
        "{{:agents {{\"a\" {own}
                    \"gone\" {{:command [\"/no/such/program\"]}}
                    \"free\" {{:command [\"python3\" \"--token\" \"sk-canary-0123456789abcdef0123\"] :sandbox false}}}}}}"
    );
    let setup = configure(setup, &config);
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let theirs = agent(&setup, "", "");
    std::fs::write(folder.join("config.edn"), format!("{{:agents {{\"p\" {theirs}}}}}")).unwrap();
    let mut bridge = setup.interactor();
    let all = bridge.ask("l", "list_agents", "{}").to_string();
    assert!(!all.contains("canary") && !all.contains("AGENT_MODE"), "{all}");
    assert_eq!(starts(&setup), [0u32; 0], "nothing is started for it");

    let a = listed(&mut bridge, "a");
    assert_eq!((word(&a, "state"), word(&a, "source")), ("idle", "user"), "{a}");
    assert!(flag(&a, "trusted") && flag(&a, "sandbox") && flag(&a, "usual"), "{a}");
    assert!(word(&a, "command").starts_with("python3 "), "{a}");
    let gone = listed(&mut bridge, "gone");
    assert_eq!(word(&gone, "state"), "failed");
    assert_eq!(word(&gone, "last-error"), "/no/such/program: there is no such program.");
    let free = listed(&mut bridge, "free");
    assert!(!flag(&free, "sandbox") && !flag(&free, "usual"), "{free}");
    let p = listed(&mut bridge, "p");
    assert_eq!((word(&p, "state"), word(&p, "source")), ("refused", "project"), "{p}");
    assert!(!flag(&p, "trusted") && word(&p, "last-error").contains("/trust"), "{p}");
    bridge.ask("t", "trust_project", "{:trusted true}");
    let p = listed(&mut bridge, "p");
    assert!(flag(&p, "trusted") && word(&p, "state") == "idle", "{p}");

    let id = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    turn(&mut bridge, "say x");
    let a = listed(&mut bridge, "a");
    assert_eq!((word(&a, "state"), word(&a, "info")), ("ready", "scripted 1.0"), "{a}");
    assert!(a.get("sessions").unwrap().to_string().contains(&id), "{a}");
    let asked = bridge.ask(
        "q",
        "query_eql",
        "{:query \"[{:psi.agent/agents [:psi.agent/name :psi.agent/state :psi.agent/trusted]}]\"}",
    );
    let asked = asked.to_string();
    assert!(
        asked.contains("{:psi.agent/name \"a\" :psi.agent/state :ready :psi.agent/trusted true}"),
        "{asked}"
    );

    say(&mut bridge, "crash");
    ended(&mut bridge);
    let a = listed(&mut bridge, "a");
    assert_eq!(word(&a, "state"), "failed");
    assert!(word(&a, "last-error").starts_with("Its program has ended"), "{a}");
    for _ in 0..2 {
        say(&mut bridge, "crash");
        ended(&mut bridge);
    }
    assert_eq!(word(&listed(&mut bridge, "a"), "state"), "given-up");
}

#[test]
fn agent_that_has_changed_is_listed_as_refused() {
    let setup = Setup::new().arg("--agent").arg("p");
    let own = agent(&setup, "", "");
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), format!("{{:agents {{\"p\" {own}}}}}")).unwrap();
    let mut bridge = setup.interactor();
    bridge.ask("t", "trust_project", "{:trusted true}");
    turn(&mut bridge, "say x");
    let other = own.replace(":command [\"python3\"", ":command [\"python3\" \"-u\"");
    std::fs::write(folder.join("config.edn"), format!("{{:agents {{\"p\" {other}}}}}")).unwrap();
    bridge.ask("t2", "trust_project", "{:trusted true}");
    let p = listed(&mut bridge, "p");
    assert!(!flag(&p, "trusted") && word(&p, "state") == "refused", "{p}");
    assert!(word(&p, "last-error").contains("another one"), "{p}");
    // A look at its options asks about it too, once the session's own task has the new configuration, as for this.
    bridge.ask("n", "set_session_name", "{:name \"changed\"}");
    bridge.request("o", "agent_options", "{}");
    let question = bridge.event("interaction/requested");
    assert!(question.to_string().contains("in another way than before"), "{question}");
    accept(&mut bridge, &question, ":value {:ok true}");
    let options = bridge.answer("o").to_string();
    assert!(options.contains(":id \"model\""), "{options}");
    assert!(flag(&listed(&mut bridge, "p"), "trusted"));
}

#[test]
fn options_are_known_and_chosen_before_the_first_turn() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    assert!(!state(&mut bridge).to_string().contains("m-large"));
    let options = bridge.ask("o", "agent_options", "{}").to_string();
    assert!(options.contains(":id \"model\"") && options.contains("\"m-large\""), "{options}");
    assert_eq!(starts(&setup).len(), 1);
    let set = bridge.ask("o", "set_option", "{:option \"model\" :value \"m-large\"}").to_string();
    assert!(set.contains(":value \"m-large\""), "{set}");
    turn(&mut bridge, "say x");
    assert_eq!(state(&mut bridge).get("model-id").unwrap().as_str(), Some("m-large"));
    assert_eq!(starts(&setup).len(), 1, "the turn has the same process");
    assert_eq!(sent(&setup).iter().filter(|sent| sent["method"] == "session/new").count(), 1);
    // A session without an agent has none, and an agent that cannot be started says so.
    let setup = configure(Setup::new(), "{:agents {\"gone\" {:command [\"/no/such/program\"]}}}");
    let mut bridge = setup.interactor();
    let none = bridge.ask("o", "agent_options", "{}").to_string();
    assert!(none.contains("has no agent with options"), "{none}");
    bridge.ask("n", "new_session", "{:agent \"gone\"}");
    let gone = bridge.ask("o", "agent_options", "{}").to_string();
    assert!(gone.contains("The agent gone: /no/such/program: there is no such program."), "{gone}");
}

#[test]
fn models_of_the_agent_are_taken_in_turn() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    for (params, expected) in [("{}", "m-large"), ("{}", "m-small"), ("{:direction \"prev\"}", "m-large")] {
        let model = bridge.ask("m", "cycle_model", params).to_string();
        assert!(model.contains(&format!(":provider \"a\" :id {expected:?}")), "{model}");
        assert_eq!(state(&mut bridge).get("model-id").unwrap().as_str(), Some(expected));
    }
}

/// The values that the agent was given for options, in order.
fn given(setup: &Setup) -> Vec<String> {
    let all = sent(setup);
    let set = all.iter().filter(|sent| sent["method"] == "session/set_config_option");
    set.map(|sent| format!("{}={}", sent["params"]["configId"], sent["params"]["value"])).collect()
}

#[test]
fn chosen_options_are_chosen_again_after_a_crash() {
    let setup = with_agent("resumes", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "say x");
    bridge.ask("o", "set_option", "{:option \"model\" :value \"m-large\"}");
    bridge.ask("o", "set_option", "{:option \"brave\" :value true}");
    say(&mut bridge, "crash");
    ended(&mut bridge);
    turn(&mut bridge, "say again");
    let chosen = ["\"model\"=\"m-large\"", "\"brave\"=true"];
    assert_eq!(given(&setup), [chosen, chosen].concat());
    assert_eq!(state(&mut bridge).get("model-id").unwrap().as_str(), Some("m-large"));
    let id = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    drop(bridge);
    // The journal has them.
    let mut bridge = setup.interactor();
    bridge.ask("w", "switch_session", &format!("{{:session-id {id:?}}}"));
    turn(&mut bridge, "say third");
    assert_eq!(given(&setup), [chosen, chosen, chosen].concat());
    // What the agent has changed by itself is not the person's choice any more.
    bridge.skip_to_now();
    say(&mut bridge, "option model m-small");
    until_both(&mut bridge, |frame| {
        is_event(frame, "session/updated") && data(frame, "model-id") == "m-small"
    });
    say(&mut bridge, "crash");
    ended(&mut bridge);
    turn(&mut bridge, "say fourth");
    let last = given(&setup);
    assert_eq!(last.last().unwrap(), "\"brave\"=true");
    assert_eq!(last.len(), 7, "{last:?}");
}
