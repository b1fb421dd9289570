//! The MCP servers that an agent is given.

use super::*;

/// The servers that the session was given: the agent says them.
fn given(bridge: &mut Bridge) -> serde_json::Value {
    serde_json::from_str(&turn(bridge, "servers")).unwrap()
}

fn names(servers: &serde_json::Value) -> Vec<&str> {
    servers.as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect()
}

const SERVERS: &str = ":mcp {\"notes\" {:command [\"./serve\" \"x y\"] :env {\"TOKEN\" {:variable \"NOTES_TOKEN\"} \"A\" \"1\"}}
           \"moved\" {:command [\"npx\" \"m\"] :cwd \"sub\"}
           \"web\" {:url \"https://h.example/mcp\" :headers {\"Authorization\" {:variable \"NOTES_TOKEN\" :prefix \"Bearer \"}}}
           \"less\" {:command [\"l\"] :without-tools [\"write\"]}
           \"keyless\" {:command [\"k\"] :env {\"K\" {:variable \"NOT_SET\"}}}
           \"off\" {:command [\"o\"] :enabled false}}";

#[test]
fn agent_is_given_the_servers_of_its_session() {
    let setup = with_agent("http", SERVERS).env("NOTES_TOKEN", "canary-7").env("OTHER_TOKEN", "canary-8");
    let mut bridge = setup.interactor();
    say(&mut bridge, "servers");
    let notice = bridge.event("ui/notification");
    let left_out = data(&notice, "message").to_owned();
    let all: serde_json::Value = serde_json::from_str(&text(&ended(&mut bridge))).unwrap();
    assert_eq!(names(&all), ["notes", "moved", "web"]);
    let root = setup.project().canonicalize().unwrap();
    let at = |path: &str| root.join(path).to_string_lossy().into_owned();
    assert_eq!(
        all[0],
        serde_json::json!({"name": "notes", "command": at("./serve"), "args": ["x y"],
            "env": [{"name": "A", "value": "1"}, {"name": "TOKEN", "value": "canary-7"}]})
    );
    assert_eq!(all[1]["command"], "sh");
    let arguments: Vec<&str> =
        all[1]["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(arguments[3..], [at("sub").as_str(), "npx", "m"]);
    assert_eq!(
        all[2],
        serde_json::json!({"type": "http", "name": "web", "url": "https://h.example/mcp",
            "headers": [{"name": "Authorization", "value": "Bearer canary-7"}]})
    );
    // What is not given is said, with why, and without a key.
    assert!(
        left_out.contains("less (") && left_out.contains("keyless (") && !left_out.contains("off ("),
        "{left_out}"
    );
    assert!(!left_out.contains("canary"), "{left_out}");
    // A key of a server is left out of what the agent says went wrong.
    say(&mut bridge, "error -32603 the server wants canary-7");
    let last = ended(&mut bridge);
    assert!(!data(&last, "error-message").contains("canary"), "{last}");
}

#[test]
fn agent_has_no_server_that_it_cannot_ask_or_may_not() {
    let setup = with_agent("", SERVERS).env("NOTES_TOKEN", "canary-7");
    let mut bridge = setup.interactor();
    bridge.ask("m", "set_mcp", "{:server \"moved\" :enabled false}");
    assert_eq!(names(&given(&mut bridge)), ["notes"], "none over HTTP, and none that is switched off");
    // One that the agent's own list does not name.
    let setup = Setup::new().arg("--agent").arg("a").env("NOTES_TOKEN", "canary-7");
    let own = agent(&setup, "http", ":servers [\"web\"]");
    let setup = configure(setup, &format!("{{:agents {{\"a\" {own}}} {SERVERS}}}"));
    let mut bridge = setup.interactor();
    assert_eq!(names(&given(&mut bridge)), ["web"]);
}

#[test]
fn project_and_user_keep_their_servers_apart() {
    let setup = Setup::new().arg("--agent").arg("a");
    let (own, theirs) = (agent(&setup, "", ""), agent(&setup, "", ""));
    let setup =
        configure(setup, &format!("{{:agents {{\"a\" {own}}} :mcp {{\"mine\" {{:command [\"m\"]}}}}}}"));
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let config = format!("{{:agents {{\"p\" {theirs}}} :mcp {{\"theirs\" {{:command [\"t\"]}}}}}}");
    std::fs::write(folder.join("config.edn"), &config).unwrap();
    let mut bridge = setup.interactor();
    assert_eq!(names(&given(&mut bridge)), ["mine"], "before trust there is no server of the project");
    bridge.ask("t", "trust_project", "{:trusted true}");
    bridge.ask("n", "new_session", "{:agent \"a\"}");
    assert_eq!(names(&given(&mut bridge)), ["mine", "theirs"]);
    // What the project starts gets nothing of the user's.
    bridge.ask("n", "new_session", "{:agent \"p\"}");
    assert_eq!(names(&given(&mut bridge)), ["theirs"]);
    // A server with another command line is not given before somebody has looked at it.
    std::fs::write(folder.join("config.edn"), config.replace("[\"t\"]", "[\"t\" \"x\"]")).unwrap();
    bridge.ask("t2", "trust_project", "{:trusted true}");
    bridge.ask("n", "new_session", "{:agent \"a\"}");
    assert_eq!(names(&given(&mut bridge)), ["mine"]);
}
