//! The start and the end of the daemon and of its engines, and who may ask it.

use std::process::Command;

use edn_bridge::value::Value;

use crate::fixture::{Daemon, prompt, until};
use crate::support::{Bridge, Setup, at, code, data, wait_until};

#[test]
fn editors_that_start_at_once_share_a_daemon() {
    // Without a script, which each start would write anew.
    let daemon = Daemon::new(Setup::new());
    let mut bridges: Vec<_> = (0..50).map(|_| daemon.setup.serve()).collect();
    for bridge in &mut bridges {
        bridge.handshake();
    }
    assert_eq!(daemon.clients(), 50);
    assert_eq!(daemon.engines().len(), 1);
}

#[test]
fn daemon_that_can_not_start_says_why() {
    let daemon = Daemon::calling(&["true"]);
    std::fs::create_dir_all(daemon.setup.state().join("run")).unwrap();
    // There can be no socket where a folder is.
    std::fs::create_dir(daemon.setup.state().join("run/daemon.sock")).unwrap();
    let output = daemon.setup.command().arg("serve").stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the daemon did not start"), "{said}");
    std::fs::remove_dir(daemon.setup.state().join("run/daemon.sock")).unwrap();
}

#[test]
fn long_path_of_the_state_folder_is_no_hindrance() {
    let (mut setup, outer) = (Setup::new(), tempfile::tempdir().unwrap());
    let long = outer.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    setup.dir = std::sync::Arc::new(tempfile::tempdir_in(&long).unwrap());
    std::fs::create_dir(setup.project()).unwrap();
    let daemon = Daemon::new(setup);
    let mut bridge = daemon.setup.serve();
    bridge.handshake();
    assert_eq!(daemon.clients(), 1);
}

#[test]
fn serve_without_a_daemon_is_as_before() {
    let mut daemon = Daemon::calling(&["true"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:daemon {:use :never}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    assert!(!bridge.handshake().to_string().contains("outlives-clients"));
    assert!(daemon.status().is_none());
    bridge.close_input();
    assert!(bridge.wait().success());
    std::fs::remove_file(folder.join("config.edn")).unwrap();
    daemon.change(|setup| setup.env("EDN_BRIDGE_DAEMON", "never"));
    daemon.setup.interactor();
    assert!(daemon.status().is_none());
}

#[test]
fn daemon_without_client_and_work_ends() {
    let daemon = Daemon::calling(&["true"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:daemon {:idle-exit-ms 1}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    assert!(daemon.status().is_some());
    bridge.kill();
    // The question waits, and so does the daemon.
    wait_until("the editor is still there", || daemon.clients() == 0);
    let session = at(&daemon.at_work()[0], &["session"]).and_then(Value::as_str).unwrap().to_owned();
    let mut bridge = daemon.editor_at(&session);
    bridge.ask("a", "abort", "{}");
    bridge.event("turn/ended");
    bridge.close_input();
    assert!(bridge.wait().success());
    wait_until("the daemon does not end", || daemon.status().is_none());
}

#[test]
fn stop_refuses_while_a_turn_runs_unless_now() {
    let mut daemon = Daemon::calling(&[&until("never")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    wait_until("the command did not begin", || daemon.file("began").exists());
    let refused = daemon.control(&["stop"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains(&session), "{refused:?}");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert!(daemon.control(&["stop", "--now"]).status.success());
    // The editor learns how its turn ends, and that its process can be started again.
    let ended = bridge.event("turn/ended");
    assert_eq!(data(&ended, "outcome"), "aborted", "{ended}");
    assert_eq!(bridge.wait().code(), Some(75));
}

#[test]
fn engine_that_ends_leaves_nothing_in_the_daemon() {
    let mut daemon = Daemon::calling(&["true"]);
    let mut stays = daemon.setup.interactor();
    let pid = daemon.pid();
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let sockets = |daemon: &Daemon| {
        let names = std::fs::read_dir(daemon.setup.state().join("run")).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock")).count()
    };
    // Each of these has an engine of its own, because it has other options.
    daemon.change(|setup| setup.arg("--durability").arg("relaxed"));
    let round = |daemon: &Daemon| {
        let mut bridge = daemon.setup.interactor();
        bridge.close_input();
        assert!(bridge.wait().success());
        wait_until("the engine stays", || daemon.engines().len() == 1);
    };
    round(&daemon);
    let (tasks, files) = (count("task"), count("fd"));
    for _ in 0..20 {
        round(&daemon);
    }
    wait_until("threads or descriptors are left", || count("task") <= tasks + 4 && count("fd") <= files + 4);
    wait_until("sockets are left", || sockets(&daemon) == 2);
    assert_eq!(code(&stays.ask("ping", "ping", "{}")), "");
}

#[test]
fn engine_that_hangs_at_its_start_stops_nobody_else() {
    let mut daemon = Daemon::calling(&["true"]);
    let mut other = daemon.setup.interactor();
    let path = daemon.setup.dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    daemon.change(|mut setup| {
        setup.script = None;
        setup.arg("--script").arg(path.to_str().unwrap())
    });
    // Nobody writes the script.
    let mut hangs = daemon.setup.serve();
    assert_eq!(daemon.clients(), 1);
    assert_eq!(code(&other.ask("q", "query_eql", "{:query \"[:psi.process/at-work]\"}")), "");
    // An editor with other options gets an engine of its own.
    daemon.change(|mut setup| {
        setup.arguments.clear();
        setup
    });
    daemon.setup.interactor();
    assert!(daemon.control(&["stop", "--now"]).status.success());
    assert_eq!(other.wait().code(), Some(75));
    assert_eq!(hangs.wait().code(), Some(75));
}

#[test]
fn program_of_the_daemon_can_not_ask_it() {
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    let state = "\"$(dirname \"$PWD\")\"/state";
    let mut daemon =
        Daemon::calling(&[&format!("{program} --state-dir {state} daemon stop --now; echo $? > said")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    let result = bridge.event("tool/result");
    assert!(result.to_string().contains("may not connect"), "{result}");
    assert_eq!(std::fs::read_to_string(daemon.file("said")).unwrap(), "1\n");
    bridge.event("turn/ended");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
}

#[test]
fn program_of_a_session_starts_no_daemon() {
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    let state = "\"$(dirname \"$PWD\")\"/state";
    let daemon = Daemon::calling(&[&format!("{program} --state-dir {state} daemon start; echo $? > said")]);
    let mut command = daemon.setup.command();
    let mut bridge = Bridge::start(command.arg("--yolo").args(["serve", "--no-daemon"]));
    bridge.handshake();
    bridge.ask("all", "subscribe", "{}");
    prompt(&mut bridge);
    let result = bridge.event("tool/result");
    assert!(result.to_string().contains("may not start the daemon"), "{result}");
    assert!(daemon.status().is_none());
}

/// The most memory that a process had, in KiB.
fn peak(pid: i64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn long_lines_of_many_clients_take_bounded_memory() {
    use std::io::{Read as _, Write as _};
    let daemon = Daemon::calling(&["true"]);
    let mut bridge = daemon.setup.interactor();
    let (pid, socket) = (daemon.pid(), daemon.setup.state().join("run/daemon.sock"));
    let before = peak(pid);
    // A value for each two bytes: the most that a line can ask for.
    let mut line = vec![b'['];
    line.extend(b"1 ".repeat((3 << 19) - 2));
    line.extend(b"]\n");
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let (socket, line) = (socket.clone(), line.clone());
            std::thread::spawn(move || {
                let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
                // Whoever is refused is told so before its line is over.
                let _ = stream.write_all(&line);
                let mut told = String::new();
                let _ = stream.read_to_string(&mut told);
                told
            })
        })
        .collect();
    for client in clients {
        let told = client.join().unwrap();
        assert!(told.is_empty() || told.contains(":refused"), "{told}");
    }
    let after = peak(pid);
    // The lines together, and the values of one of them.
    assert!(after < before + 64 * 1024 + 160 * 1024, "{before} KiB, then {after} KiB");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert_eq!(daemon.pid(), pid);
}
