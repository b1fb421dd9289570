//! Sessions beside a session: forks, subagents that are an external agent, and the stages of a workflow.

use super::*;

/// The id of the last message, and that of the one before it.
fn last_ids(bridge: &mut Bridge) -> (String, String) {
    let answer = bridge.ask("m", "get_messages", "{}");
    let all = at(&answer, &["data", "messages"]).unwrap().as_slice().unwrap();
    let id = |message: &Value<'_>| message.get("id").unwrap().as_str().unwrap().to_owned();
    (id(&all[all.len() - 1]), id(&all[all.len() - 2]))
}

fn asked(setup: &Setup, method: &str) -> usize {
    sent(setup).iter().filter(|sent| sent["method"] == method).count()
}

#[test]
fn fork_has_what_the_agent_knows_and_goes_its_own_way() {
    let setup = with_agent("forks", "");
    let mut bridge = setup.interactor();
    let origin = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    turn(&mut bridge, "say one");
    let (last, before) = last_ids(&mut bridge);
    // An agent forks where its session stands.
    let early = bridge.ask("f", "fork", &format!("{{:entry-id {before:?}}}")).to_string();
    assert!(early.contains("fork at the last message"), "{early}");
    let offered = bridge.ask("o", "get_fork_messages", "{}").to_string();
    assert!(offered.contains(&last) && !offered.contains(&before), "{offered}");
    let fork = format!("{{:entry-id {last:?} :idempotency-key \"k\"}}");
    let forked = bridge.ask("f", "fork", &fork);
    let id = data(&forked, "session-id").to_owned();
    assert_ne!(id, origin);
    assert_eq!(turn(&mut bridge, "history"), "say history");
    assert!(history(&mut bridge).contains("say one"), "our journal has it too");
    // The other one knows nothing of that, nor does a repeated request fork again.
    bridge.ask("w", "switch_session", &format!("{{:session-id {origin:?}}}"));
    let again = bridge.ask("f", "fork", &fork);
    assert_eq!(data(&again, "session-id"), id, "{again}");
    bridge.ask("w", "switch_session", &format!("{{:session-id {origin:?}}}"));
    assert_eq!(turn(&mut bridge, "history"), "say history");
    // Nor once the session has gone on.
    let later = bridge.ask("f", "fork", &fork);
    assert_eq!(data(&later, "session-id"), id, "{later}");
    assert_eq!((asked(&setup, "session/fork"), asked(&setup, "session/new")), (1, 1));
    assert_eq!(starts(&setup).len(), 1);
    // An agent that cannot says so, and no session is left behind.
    let setup = with_agent("resumes", "");
    let mut bridge = setup.interactor();
    turn(&mut bridge, "say one");
    let (last, _) = last_ids(&mut bridge);
    let before = support::files(&setup.state().join("sessions"));
    let refused = bridge.ask("f", "fork", &format!("{{:entry-id {last:?}}}")).to_string();
    assert!(refused.contains("The agent a cannot fork its session."), "{refused}");
    assert_eq!(support::files(&setup.state().join("sessions")), before);
}

/// A session of the bridge's own agent, whose model delegates to the agent `a`.
fn delegating(arguments: &str) -> Setup {
    let script = format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"delegate\" :arguments {arguments}}}}}]}}
                  {{:steps [{{:delta \"native\"}}]}}]}}"
    );
    let setup = Setup::new().script(&script);
    let own = agent(&setup, "resumes", "");
    configure(setup, &format!("{{:agents {{\"a\" {own}}}}}"))
}

#[test]
fn subagent_can_be_an_agent_of_others() {
    let setup = delegating(
        "{:task \"STEPS: ask c execute always,once,no command=make; say from the agent\" :tools [\"read\"] :agent \"a\"}",
    );
    let mut bridge = setup.interactor();
    say(&mut bridge, "go");
    let question = bridge.event("interaction/requested");
    for part in ["approve-subagent-envelope", ":agent \"a\"", ":requested-envelope [\"read\"]"] {
        assert!(question.to_string().contains(part), "{part}: {question}");
    }
    assert_eq!(starts(&setup), [0u32; 0], "it starts after the person agreed");
    accept(&mut bridge, &question, ":value {:outcome \"approve\"}");
    // What is outside of its tools is asked about, with its label.
    let asked = approve(&mut bridge, "deny", "").to_string();
    assert!(asked.contains(":tool \"bash\"") && asked.contains(":subagent-id"), "{asked}");
    let result =
        bridge.until(|frame| is_event(frame, "tool/result") && data(frame, "tool-name") == "delegate");
    assert_eq!(data(&result, "result-text"), "chose no-2. from the agent", "{result}");
    assert_eq!(text(&ended(&mut bridge)), "native");
    let child = at(&result, &["data", "details", "subagent-id"]).unwrap().as_str().unwrap().to_owned();
    let state = bridge.ask("s", "get_state", &format!("{{:session-id {child:?}}}")).to_string();
    assert!(state.contains(":agent {:name \"a\" :session-id \"as-"), "{state}");
    let audit = bridge.ask("a", "list_audit", "{}").to_string();
    assert!(audit.contains("SubagentEnvelopeApproved") || audit.contains("approve"), "{audit}");
}

#[test]
fn subagent_of_an_unknown_agent_is_not_asked_about() {
    let setup = delegating("{:task \"x\" :tools [\"read\"] :agent \"aa\"}");
    let mut bridge = setup.interactor();
    say(&mut bridge, "go");
    let result = bridge.event("tool/result").to_string();
    assert!(result.contains("subagent/envelope-invalid") && result.contains("Did you mean a?"), "{result}");
    ended(&mut bridge);
    assert_eq!(starts(&setup), [0u32; 0]);
}

/// A session of the agent, and the workflow `w` of these stages.
fn with_workflow(stages: &str) -> Setup {
    let setup = with_agent("resumes", "");
    let folder = setup.dir.path().join("config/edn-bridge/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("w.edn"), format!("{{:doc \"w\" :stages [{stages}]}}")).unwrap();
    setup
}

/// Runs the workflow, and returns how it ended.
fn work(bridge: &mut Bridge) -> String {
    bridge.ask("w", "command", "{:text \"/workflow w\"}");
    workflow_ended(bridge)
}

fn workflow_ended(bridge: &mut Bridge) -> String {
    let is_end = |frame: &Owned| {
        is_event(frame, "ui/notification") && data(frame, "message").starts_with("Workflow w ended")
    };
    let told = bridge.until(is_end);
    // The next one is refused until the turn has ended.
    bridge.event("turn/ended");
    data(&told, "message").to_owned()
}

/// The texts that the agent was sent.
fn prompts(setup: &Setup) -> Vec<String> {
    let all = sent(setup);
    let prompts = all.iter().filter(|sent| sent["method"] == "session/prompt");
    prompts.map(|sent| json(sent, "/params/prompt/0/text").as_str().unwrap().to_owned()).collect()
}

#[test]
fn stages_of_a_workflow_are_told_to_the_agent() {
    let setup = with_workflow(
        "{:id :look :body \"STEPS: say looked; complete {\\\"outcome\\\": \\\"found\\\", \\\"count\\\": 3}\"
          :tools [\"read\"] :completion {:count :integer} :outcomes [:found] :next {:found :then}}
         {:id :then :body \"STEPS: say {{results.look}}\"}",
    );
    let mut bridge = setup.interactor();
    assert_eq!(work(&mut bridge), "Workflow w ended: done.");
    let prompts = prompts(&setup);
    for part in [
        "Workflow w, stage look: begin.",
        "these tools do: read.",
        "```complete-stage",
        "\"found\"",
        "\"count\": integer",
    ] {
        assert!(prompts[0].contains(part), "{part}: {}", prompts[0]);
    }
    assert!(!prompts[1].contains("complete-stage"), "{}", prompts[1]);
    assert!(history(&mut bridge).contains(":count 3"), "the result reaches the next stage");
    assert_eq!(asked(&setup, "session/new"), 1);
}

#[test]
fn stage_without_its_result_is_tried_again_and_fails() {
    let (count, outcomes) = (":completion {:count :integer}", ":outcomes [:found]");
    for (steps, keys, expected) in [
        ("say nothing", count, "its last message has no block complete-stage"),
        ("complete {\\\"count\\\": ", count, "is no JSON"),
        ("complete {\\\"count\\\": \\\"three\\\"}", count, "The argument count must be of the type integer."),
        ("complete {\\\"outcome\\\": \\\"lost\\\"}", outcomes, "outcome"),
    ] {
        let setup = with_workflow(&format!(
            "{{:id :look :body \"STEPS: {steps}\" {keys} :retry {{:max-attempts 2}}}}"
        ));
        let mut bridge = setup.interactor();
        let ended = work(&mut bridge);
        assert!(
            ended.starts_with("Workflow w ended: failed") && ended.contains(expected),
            "{steps}: {ended}"
        );
        let prompts = prompts(&setup);
        assert_eq!(prompts.len(), 2);
        assert!(prompts[1].contains("The attempt before is not accepted") && prompts[1].contains(expected));
    }
}

#[test]
fn request_outside_of_its_stage_needs_a_grant() {
    let steps = "STEPS: ask c execute always,once,no command=make; write n.txt x";
    let setup = with_workflow(&format!("{{:id :look :body \"{steps}\" :tools [\"read\" \"write\"]}}"));
    let mut bridge = setup.interactor();
    bridge.ask("w", "command", "{:text \"/workflow w\"}");
    let question = bridge.event("interaction/requested");
    assert!(question.to_string().contains("grant-stage-tool"), "{question}");
    accept(&mut bridge, &question, ":value {:outcome \"approve\"}");
    // The stage's own tools need no approval.
    assert_eq!(workflow_ended(&mut bridge), "Workflow w ended: done.");
    assert!(history(&mut bridge).contains("chose once-1"));
    assert_eq!(std::fs::read_to_string(setup.project().join("n.txt")).unwrap(), "x");
    // Refused, it is the agent's no.
    bridge.ask("w", "command", "{:text \"/workflow w\"}");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"deny\"}");
    workflow_ended(&mut bridge);
    assert!(history(&mut bridge).contains("chose no-2"));
}

#[test]
fn siblings_of_a_group_have_sessions_of_their_own() {
    let setup = with_workflow(
        "{:id :both :parallel [{:id :a :body \"STEPS: say A\"} {:id :b :body \"STEPS: say B\"}]
          :join {:id :join :body \"STEPS: say {{results}}\"}}",
    );
    let mut bridge = setup.interactor();
    assert_eq!(work(&mut bridge), "Workflow w ended: done.");
    assert_eq!(asked(&setup, "session/new"), 3, "two siblings, and the join in the session itself");
    let all = history(&mut bridge);
    assert!(all.contains("{:text \\\"A\\\"}") && all.contains("{:text \\\"B\\\"}"), "{all}");
}
