//! Everything in the state folder belongs to the user alone.

use crate::support;

use std::os::unix::fs::PermissionsExt as _;

use support::{Setup, kind};

#[test]
fn state_folder_is_closed_to_others_at_next_start() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"cargo test --all\"}}}]} \
         {:steps [{:echo :last-user}]}] :then :repeat-last}",
    );
    let config = setup.dir.path().join("config.edn");
    let keyed = "{:name \"Keyed\" :base-url \"http://127.0.0.1:1\" :key-variables [\"NO_SUCH_KEY\"] \
                 :key-url \"https://k.example/keys\"}";
    std::fs::write(&config, format!("{{:providers {{\"k\" {keyed}}}}}")).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    support::accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"rule\"}");
    support::end_of_turn(&mut bridge);
    for (op, params) in [
        ("bash", "{:command \"seq 1 50000\"}"),
        ("command", "{:text \"/remember this\"}"),
        ("trust_project", "{:trusted true}"),
        ("set_model", "{:provider :scripted :model-id \"scripted\" :scope \"user\"}"),
        ("login_begin", "{:provider \"k\"}"),
        ("login_complete", "{:input \"sk-1\"}"),
        ("list_sessions", "{:text \"go\"}"),
    ] {
        let answer = bridge.ask("a", op, params);
        assert_eq!(kind(&answer), "response", "{op}: {answer}");
    }
    bridge.until(|frame| support::is_event(frame, "command-result"));
    support::guest::socket(&setup.state());
    // What a process leaves that is ended by force is there too.
    bridge.kill();
    bridge.wait();
    for beside in ["audit", "chosen", "credentials", "trusted"] {
        std::fs::write(setup.state().join(beside).with_extension("new"), "").unwrap();
    }
    let kept = || std::fs::read_dir(setup.state()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = kept().map(|path| path.file_name().unwrap().to_owned()).collect();
    names.sort();
    for name in [
        "audit.edn",
        "audit.head",
        "chosen.edn",
        "credentials.edn",
        "credentials.lock",
        "memory",
        "outputs",
        "rules.edn",
        "run",
        "sessions",
        "trusted.edn",
    ] {
        assert!(names.iter().any(|kept| kept == name), "{name} is not made, so it is not tried: {names:?}");
    }
    assert_eq!(
        names.iter().any(|kept| kept == "sessions-index.db-wal"),
        cfg!(feature = "index"),
        "{names:?}"
    );
    for path in kept() {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut bridge = setup.serve();
    bridge.ask("here", "ping", "{}");
    for name in names {
        let mode = setup.state().join(&name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{name:?} stays open to other users");
    }
}
