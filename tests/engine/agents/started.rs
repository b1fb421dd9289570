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
    // Beside the temporary folder, which everything may write to.
    let outside = setup.dir.path().join("outside");
    let inside = setup.project().join("inside");
    assert_eq!(turn(&mut bridge, &format!("touch {}", inside.display())), "touched");
    let said = turn(&mut bridge, &format!("touch {}", outside.display()));
    match is_enforced(&mut bridge) {
        true => assert_eq!(said, "forbidden"),
        false => println!("NOT TRIED: this kernel has no sandbox"),
    }
    let _ = std::fs::remove_file(outside);
}

/// Whether the kernel keeps programs to their folders.
fn is_enforced(bridge: &mut Bridge) -> bool {
    let shown = bridge.ask("d", "query_eql", "{:query \"[:psi.agent-session/sandbox]\"}").to_string();
    shown.contains("enforced")
}

#[test]
fn known_agents_own_folders_are_where_variables_say() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| dir.path().join(name);
    let (home, data, config) = (folder("home"), folder("data"), folder("config"));
    for folder in [&home, &data, &config] {
        std::fs::create_dir(folder).unwrap();
    }
    let setup = Setup::new().arg("--agent").arg("a");
    let setup = setup.env("HOME", home.to_str().unwrap()).env("XDG_DATA_HOME", data.to_str().unwrap());
    let setup = setup.env("XDG_STATE_HOME", home.join(".local/state").to_str().unwrap());
    let named = format!(":env {{\"XDG_CACHE_HOME\" {config:?} ");
    let known = |setup: &Setup| {
        agent(setup, "", "").replace("agent.py\"", "agent.py\" \"opencode\"").replace(":env {", &named)
    };
    let config_of_user = format!("{{:agents {{\"a\" {}}}}}", known(&setup));
    let mut setup = configure(setup, &config_of_user);
    let mut bridge = setup.interactor();
    let is_enforced = is_enforced(&mut bridge);
    let touch = |bridge: &mut Bridge, file: &Path, expected: &str| match is_enforced {
        true => {
            assert_eq!(turn(bridge, &format!("touch {}", file.display())), expected, "{}", file.display())
        }
        false => println!("NOT TRIED: this kernel has no sandbox"),
    };
    touch(&mut bridge, &data.join("opencode/x"), "touched");
    touch(&mut bridge, &config.join("opencode/x"), "touched");
    touch(&mut bridge, &home.join(".local/state/opencode/x"), "touched");
    touch(&mut bridge, &data.join("x"), "forbidden");
    touch(&mut bridge, &home.join(".codex"), "forbidden");
    drop(bridge);
    // What a project's file says of folders opens none.
    std::fs::remove_dir_all(config.join("opencode")).unwrap();
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), config_of_user.replace("\"a\"", "\"p\"")).unwrap();
    setup.arguments = vec!["--agent".to_owned(), "p".to_owned()];
    let mut bridge = setup.interactor();
    bridge.ask("t", "trust_project", "{:trusted true}");
    touch(&mut bridge, &data.join("opencode/x"), "touched");
    assert!(!config.join("opencode").exists());
    std::fs::create_dir(config.join("opencode")).unwrap();
    touch(&mut bridge, &config.join("opencode/x"), "forbidden");
}

#[test]
fn known_agent_is_told_what_it_needs_in_the_sandbox() {
    for (word, more, expected) in
        [("gemini", "", true), ("gemini", ":sandbox false", false), ("some-agent", "", false)]
    {
        let setup = Setup::new().arg("--agent").arg("a");
        let own = agent(&setup, "", more).replace("agent.py\"", &format!("agent.py\" {word:?}"));
        let setup = configure(setup, &format!("{{:agents {{\"a\" {own}}}}}"));
        let mut bridge = setup.interactor();
        assert_eq!(turn(&mut bridge, "env").contains("GEMINI_PTY_INFO"), expected, "{word} {more}");
    }
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

#[test]
fn agent_outside_of_the_sandbox_has_the_users_rights() {
    let setup = Setup::new().arg("--agent").arg("a");
    let own = agent(&setup, "", ":sandbox false");
    let setup = configure(setup, &format!("{{:agents {{\"a\" {own}}}}}"));
    let mut bridge = setup.interactor();
    let outside = setup.dir.path().join("outside");
    assert_eq!(turn(&mut bridge, &format!("touch {}", outside.display())), "touched");
    std::fs::remove_file(outside).unwrap();
}

#[test]
fn key_that_an_agent_is_given_is_not_shown() {
    let setup = Setup::new().arg("--agent").arg("a").env("MY_TOKEN", "canary-4f19");
    let own = agent(&setup, "exits", "").replace(":env {", ":env {\"API_KEY\" {:variable \"MY_TOKEN\"} ");
    let setup = configure(setup, &format!("{{:agents {{\"a\" {own}}}}}"));
    let mut bridge = setup.interactor();
    say(&mut bridge, "say x");
    let last = ended(&mut bridge);
    assert!(data(&last, "error-message").contains("no such model [secret]"), "{last}");
    let listed = bridge.ask("l", "list_agents", "{}").to_string();
    assert!(listed.contains("no such model [secret]") && !listed.contains("canary"), "{listed}");
}
