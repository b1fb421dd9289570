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

/// Ends a program that has not ended in time, and says what it printed.
fn ended(setup: &support::Setup, arguments: &[&str]) -> String {
    use std::process::Stdio;
    let mut command = setup.command();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let pid = running.id();
    let (done, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(running.wait_with_output().unwrap()));
    let Ok(output) = ends.recv_timeout(support::PATIENCE) else {
        std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        panic!("{arguments:?} waits at something that is no file");
    };
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn what_is_no_file_in_the_state_folder_stops_nobody() {
    let setup = Setup::new().script("{:turns [{:steps [{:echo :last-user}]}] :then :repeat-last}");
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    support::end_of_turn(&mut bridge);
    bridge.finish();
    let state = setup.state();
    let mut sessions = std::fs::read_dir(state.join("sessions")).unwrap().map(|entry| entry.unwrap().path());
    let sessions = sessions.find(|path| path.is_dir()).unwrap();
    let pipe = |path: &std::path::Path| {
        let _ = std::fs::remove_file(path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    pipe(&sessions.join("s-pipe.edn"));
    pipe(&sessions.join("s-unfinished.edn.part"));
    let _socket = std::os::unix::net::UnixListener::bind(sessions.join("s-socket.edn")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", sessions.join("s-device.edn")).unwrap();
    std::fs::create_dir(sessions.join("s-folder.edn")).unwrap();
    let session = support::files(&sessions)
        .into_iter()
        .find(|path| path.metadata().unwrap().is_file() && path.extension().is_some_and(|end| end == "edn"))
        .unwrap();
    pipe(&session.with_extension("edn.lock"));
    for name in [
        "credentials.edn",
        "credentials.new",
        "credentials.lock",
        "audit.edn",
        "audit.head",
        "audit.new",
        "rules.edn",
        "rules.new",
        "mcp-eras.edn",
        "trusted.edn",
        "servers.edn",
        "tools.edn",
        "chosen.new",
        "repl-history",
        "chat-history",
        "sessions-index.db",
        "sessions-index.db-wal",
        "sessions-index.db-shm",
        "realm-key",
    ] {
        pipe(&state.join(name));
    }
    std::fs::create_dir_all(state.join("memory")).unwrap();
    for note in support::files(&state.join("memory")) {
        pipe(&note);
    }
    let id = session.file_stem().unwrap().to_str().unwrap().to_owned();
    for arguments in [
        &["sessions", "list"][..],
        &["sessions", "list", "--all"],
        &["sessions", "verify"],
        &["sessions", "verify", "--repair"],
        &["sessions", "show", "s-pipe"],
        &["sessions", "show", &id],
        &["sessions", "delete", "--yes", "s-socket"],
        &["usage"],
        &["doctor"],
        &["rules"],
        &["audit"],
        &["models"],
    ] {
        let told = ended(&setup, arguments);
        if arguments == ["sessions", "verify"] {
            for name in ["s-pipe.edn", "s-socket.edn", "s-device.edn"] {
                assert!(told.contains(&format!("{name} is not a regular file")), "{name}: {told}");
            }
        }
        if arguments == ["sessions", "list"] {
            assert!(told.contains("go") && !told.contains("s-pipe"), "{told}");
        }
    }
    let mut bridge = setup.interactor();
    for (op, params) in [
        ("ping", "{}"),
        ("list_sessions", "{}"),
        ("list_sessions", "{:text \"go\"}"),
        ("command", "{:text \"/remember this\"}"),
        ("command", "{:text \"/rules\"}"),
        ("trust_project", "{:trusted true}"),
        ("prompt", "{:message \"again\"}"),
    ] {
        bridge.ask(op, op, params);
    }
    support::end_of_turn(&mut bridge);
    // Without the choices that a person has made, nothing begins.
    pipe(&state.join("chosen.edn"));
    let told = ended(&setup, &["sessions", "list"]);
    assert!(told.contains("chosen.edn: it is no regular file"), "{told}");
}
