//! When an agent is started, and with what.

use super::*;

#[test]
fn agent_starts_at_the_first_turn_with_variables_by_list() {
    let setup = with_agent("", "").env("ANTHROPIC_API_KEY", "sk-canary-1").env("MY_TOKEN", "canary-2");
    let mut bridge = setup.interactor();
    bridge.ask("ping", "ping", "{}");
    bridge.ask("c", "get_commands", "{}");
    assert_eq!(starts(&setup), [0u32; 0]);
    let names = turn(&mut bridge, "env");
    assert!(names.contains("PATH") && names.contains("AGENT_MODE"), "{names}");
    assert!(!names.contains("ANTHROPIC") && !names.contains("MY_TOKEN"), "{names}");
}

#[test]
fn agent_writes_only_where_the_session_may() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    // What it must not write to is not below the temporary folder, which everything may write to.
    let outside = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/agents-must-not-write");
    let sandboxed = state(&mut bridge).to_string().contains("never");
    let _ = sandboxed;
    let inside = setup.project().join("inside");
    assert_eq!(turn(&mut bridge, &format!("touch {}", inside.display())), "touched");
    let said = turn(&mut bridge, &format!("touch {}", outside.display()));
    let footer = bridge.ask("d", "query_eql", "{:query \"[:psi.agent-session/sandbox]\"}").to_string();
    match footer.contains("enforced") {
        true => assert_eq!(said, "forbidden"),
        false => println!("NOT TRIED: this kernel has no sandbox"),
    }
    let _ = std::fs::remove_file(outside);
}

#[test]
fn agent_of_a_project_starts_only_after_trust() {
    let setup = Setup::new().arg("--agent").arg("p");
    let own = agent(&setup, "", "");
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), format!("{{:agents {{\"p\" {own}}}}}")).unwrap();
    let mut bridge = setup.interactor();
    say(&mut bridge, "say x");
    let last = ended(&mut bridge);
    assert!(data(&last, "error-message").contains("no agent"), "{last}");
    assert_eq!(starts(&setup), [0u32; 0]);
    let preview = bridge.ask("v", "trust_preview", "{}").to_string();
    assert!(preview.contains(":kind \"agent\" :name \"p\""), "{preview}");
    bridge.ask("t", "trust_project", "{:trusted true}");
    assert_eq!(turn(&mut bridge, "say trusted"), "trusted");
    // Another command line is asked about once.
    let other = own.replace(":command [\"python3\"", ":command [\"python3\" \"-u\"");
    std::fs::write(folder.join("config.edn"), format!("{{:agents {{\"p\" {other}}}}}")).unwrap();
    bridge.ask("t2", "trust_project", "{:trusted true}");
    say(&mut bridge, "say other");
    let question = bridge.event("interaction/requested");
    assert!(question.to_string().contains("in another way than before"), "{question}");
    accept(&mut bridge, &question, ":value {:ok true}");
    assert_eq!(text(&ended(&mut bridge)), "other");
    assert_eq!(starts(&setup).len(), 2);
}

#[test]
fn agent_that_does_not_start_says_why() {
    for (mode, expected) in
        [("exits", "no such model"), ("version", "speaks version 2"), ("login", "Log in on a page")]
    {
        let setup = with_agent(mode, "");
        let mut bridge = setup.interactor();
        say(&mut bridge, "say x");
        let last = ended(&mut bridge);
        assert!(data(&last, "error-message").contains(expected), "{mode}: {last}");
        assert!(!last.to_string().contains("secret-of-the-agent"), "{last}");
    }
    let setup = Setup::new().arg("--agent").arg("a");
    let setup = configure(setup, "{:agents {\"a\" {:command [\"no-such-program-here\"]}}}");
    let mut bridge = setup.interactor();
    say(&mut bridge, "say x");
    let last = ended(&mut bridge);
    assert!(data(&last, "error-message").contains("there is no such program"), "{last}");
}
