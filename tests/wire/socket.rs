//! The socket: further clients on an editor's sessions.
use crate::support;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};

use edn_bridge::value::Owned;
use support::guest::{Guest, socket};
use support::{Setup, text};

#[test]
fn guest_shares_session_of_editor() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hello.\"}]}]}");
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let mut guest = Guest::at(&path);
    guest.ask("s", "subscribe", "{:topics [\"assistant/message\"]}");
    bridge.ask("p", "prompt", "{:message \"hi\"}");
    let seen = guest.until(|frame| frame.get("event").is_some());
    assert!(seen.to_string().contains("\"Hello.\""), "{seen}");
    let mine = bridge.ask("q", "query_eql", "{:query \"[:psi.agent-session/session-id]\"}");
    let theirs = guest.ask("q", "query_eql", "{:query \"[:psi.agent-session/session-id]\"}");
    assert_eq!(mine.get("data"), theirs.get("data"));
    // What the guest changes, the editor sees.
    guest.ask("n", "query_eql", "{:query \"[(psi.session/rename {:name \\\"by the guest\\\"})]\"}");
    bridge.until(|frame| frame.to_string().contains(":session-name \"by the guest\""));
    // A guest that goes ends nothing.
    drop(guest);
    assert!(bridge.ask("again", "ping", "{}").to_string().contains(":pong true"));
}

#[test]
fn query_command_asks_running_bridge() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    socket(&setup.state());
    bridge.ask("n", "set_session_name", "{:name \"asked from outside\"}");
    let query = |arguments: &[&str]| {
        let output = setup.command().arg("query").args(arguments).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, out, _) = query(&["[:psi.agent-session/session-name :psi.process/pid]"]);
    assert_eq!(code, Some(0));
    let expected = format!(
        "{{:psi.agent-session/session-name \"asked from outside\" :psi.process/pid {}}}\n",
        bridge.pid()
    );
    assert_eq!(out, expected);
    let id = bridge
        .ask("q", "get_state", "{}")
        .get("data")
        .unwrap()
        .get("state")
        .unwrap()
        .get("session-id")
        .unwrap()
        .clone();
    let (code, out, _) = query(&["--session", id.as_str().unwrap(), "[:psi.process/pid]"]);
    assert_eq!((code, out), (Some(0), format!("{{:psi.process/pid {}}}\n", bridge.pid())));
    let (code, out, _) = query(&["--explain", "[:psi.agent-session/phase]"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("psi.agent-session/by-id psi.agent-session/facts"), "{out}");
    let (code, _, told) = query(&["[:a {:b}]"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("is not valid EQL"), "{told}");
}

#[test]
fn query_command_without_bridge_reads_state() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    bridge.ask("n", "set_session_name", "{:name \"kept\"}");
    let state = bridge.ask("q", "get_state", "{}");
    let id = state
        .get("data")
        .unwrap()
        .get("state")
        .unwrap()
        .get("session-id")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    bridge.finish();
    let output = setup
        .command()
        .args(["query", "--session", &id, "[:psi.agent-session/session-name]"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{:psi.agent-session/session-name \"kept\"}\n");
    let output = setup.command().args(["query", "--session", "none", "[:a]"]).output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn stale_socket_is_removed_and_own_ends_with_process() {
    let setup = Setup::new();
    let bridge = setup.serve();
    let path = socket(&setup.state());
    let name = path.file_name().unwrap().to_str().unwrap();
    let stale = path.with_file_name(format!("{}-4000000.sock", name.split('-').next().unwrap()));
    drop(UnixListener::bind(&stale).unwrap());
    let output = setup.command().args(["query", "[:psi.process/pid]"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{{:psi.process/pid {}}}\n", bridge.pid()));
    assert!(!stale.exists());
    bridge.finish();
    assert!(!path.exists());
}

#[test]
fn end_of_editor_ends_guests() {
    let setup = Setup::new();
    let bridge = setup.ready();
    let mut guest = Guest::at(&socket(&setup.state()));
    bridge.finish();
    let mut rest = String::new();
    guest.lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn many_guests_are_served_at_once() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    let mut guests: Vec<_> = (0..40).map(|_| Guest::at(&path)).collect();
    for guest in &mut guests {
        assert!(guest.ask("p", "ping", "{}").to_string().contains(":pong true"));
    }
    let counted = bridge.ask("q", "query_eql", "{:query \"[:psi.connection/count]\"}").to_string();
    let count = |text: &str| {
        text.split(":psi.connection/count ")
            .nth(1)
            .unwrap()
            .split('}')
            .next()
            .unwrap()
            .parse::<usize>()
            .unwrap()
    };
    assert!(count(&counted) >= 41, "{counted}");
}

/// A turn ends while another client comes in: its message is in the history that the client is shown, or
/// comes after it; never both, never neither.
#[test]
fn guest_that_joins_sees_each_message_once() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"a\"}]}] :then :repeat-last}");
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    let session =
        |frame: &Owned| text(frame.get("data").unwrap().get("state").unwrap(), "session-id").to_owned();
    let busy = session(&bridge.ask("s", "get_state", "{}"));
    let mut guest = Guest::at(&path);
    guest.ask("t", "subscribe", "{:topics [\"assistant/message\" \"session/rehydrated\"]}");
    let other = guest.ask("n", "new_session", "{}");
    let other = text(other.get("data").unwrap(), "session-id").to_owned();
    // As many messages as one history shows.
    const TURNS: usize = 90;
    let turns = std::thread::spawn(move || {
        let mut said = Vec::new();
        for turn in 0..TURNS {
            bridge.request(&format!("p{turn}"), "prompt", "{:message \"b\"}");
            let message = bridge.event("assistant/message");
            said.push(text(message.get("data").unwrap(), "entry-id").to_owned());
        }
        (bridge, said)
    });
    let mut stays = Vec::new();
    for stay in 0.. {
        let params = format!("{{:session-id {busy:?}}}");
        guest.send(&format!("in{stay}"), "switch_session", &params);
        let history = guest.until(|frame| text(frame, "event") == "session/rehydrated");
        let messages = history.get("data").unwrap().get("messages").unwrap().as_slice().unwrap();
        let of_model = messages.iter().filter(|message| text(message, "role") == "assistant");
        let mut told: Vec<String> = of_model.map(|message| text(message, "id").to_owned()).collect();
        // Until two messages came after the history, or no more will come.
        let shown = told.len();
        while told.len() < (shown + 2).min(TURNS) {
            let message = guest.until(|frame| text(frame, "event") == "assistant/message");
            told.push(text(message.get("data").unwrap(), "entry-id").to_owned());
        }
        let done = told.len() == TURNS;
        stays.push(told);
        if done {
            break;
        }
        guest.send(&format!("out{stay}"), "switch_session", &format!("{{:session-id {other:?}}}"));
        guest.until(|frame| text(frame, "event") == "session/rehydrated");
    }
    let (_bridge, said) = turns.join().unwrap();
    for told in stays {
        assert_eq!(told, said[..told.len()]);
    }
}

#[test]
fn connection_of_other_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can be another user: not run");
        return;
    }
    let setup = Setup::new();
    let _bridge = setup.ready();
    let path = socket(&setup.state());
    // Opened wide, so that only the kernel's word is left to keep the other user out.
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(setup.dir.path())) {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(30)\ns.connect(sys.argv[1])\n\
                  try:\n s.sendall(b'{}\\n')\n print('answer', len(s.recv(100)))\nexcept OSError as e: print('refused')\n";
    let mut other = std::process::Command::new("python3");
    std::os::unix::process::CommandExt::uid(&mut other, 65534);
    let Ok(output) = other.arg("-c").arg(script).arg(&path).output() else {
        eprintln!("no python3: not run");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said == "answer 0\n" || said == "refused\n", "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn stalled_guests_are_ended_together() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    // Each is owed far more than a socket holds. One after the other, their ends would take longer than
    // this test waits for the process.
    let asked = "{:id \"c\" :kind :request :op \"get_commands\" :params {}}\n".repeat(2000);
    let mut guests: Vec<_> = (0..8).map(|_| Guest::at(&path)).collect();
    for guest in &mut guests {
        guest.stream.write_all(asked.as_bytes()).unwrap();
    }
    bridge.close_input();
    while bridge.line_or_end().is_some() {}
    assert_eq!(bridge.wait().code(), Some(0));
}

#[test]
fn unfinished_lines_of_all_guests_are_bounded_together() {
    use edn_bridge::limits::{MAX_LINE_BYTES, UNFINISHED_BYTES};
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    let part = vec![b' '; MAX_LINE_BYTES - 1024 * 1024];
    let mut guests: Vec<Guest> = (0..UNFINISHED_BYTES / part.len() + 2).map(|_| Guest::at(&path)).collect();
    for guest in &mut guests {
        guest.stream.write_all(&part).unwrap();
    }
    // Each ends its line: the last ones were beyond the bound when they came.
    let mut refused = 0;
    for guest in &mut guests {
        guest.stream.write_all(b"{:kind :request :id \"p\" :op \"ping\"}\n").unwrap();
        let frame = guest.frame();
        refused += usize::from(frame.to_string().contains("line-too-long"));
    }
    assert!((1..guests.len()).contains(&refused), "{refused} of {}", guests.len());
    assert!(bridge.ask("alive", "ping", "{}").to_string().contains(":pong true"));
    // Whoever was refused is served again.
    for guest in &mut guests {
        assert!(guest.ask("again", "ping", "{}").to_string().contains(":pong true"));
    }
}

#[test]
fn silent_connections_close_the_socket_to_nobody() {
    use edn_bridge::limits::{HANDSHAKE_WAIT, MAX_CONNECTIONS};
    let setup = Setup::new();
    let mut bridge = setup.ready();
    let path = socket(&setup.state());
    let mut guest = Guest::at(&path);
    let begun = std::time::Instant::now();
    let mut silent: Vec<UnixStream> =
        (0..MAX_CONNECTIONS).map(|_| UnixStream::connect(&path).unwrap()).collect();
    // One that says something, and no handshake, is one of them.
    silent[0].write_all(b"{:kind :request :id \"p\" :op \"pi").unwrap();
    for stream in &mut silent {
        stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
        // The last ones were refused at once.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    assert!(begun.elapsed() >= HANDSHAKE_WAIT / 2, "they were refused all");
    // A client that has shaken hands may be silent for as long.
    guest.ask("p", "ping", "{}");
    let mut late = Guest::at(&path);
    late.ask("p", "ping", "{}");
    bridge.ask("p", "ping", "{}");
}
