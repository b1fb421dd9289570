//! The socket of the control wire.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edn_bridge::wire::transport::socket::{Listener, Purpose, connect, connect_at};

use super::daemon::{SocketResponse, read};
use super::fake::{Fake, Program, server};

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn sockets(state: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(state.join("run")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn control_socket_is_private_and_found_by_its_wire_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (state, cwd) = (dir.path().join("state"), Path::new("/project"));
    let control = Listener::bind(Purpose::Control, &state, cwd, 0).unwrap();
    let clients = Listener::bind(Purpose::Clients, &state, cwd, 0).unwrap();
    let found = sockets(&state);
    let endings: Vec<_> =
        found.iter().map(|path| path.to_str().unwrap().split_once('.').unwrap().1).collect();
    assert_eq!(found.len(), 2, "{endings:?}");
    assert!(found[0].to_str().unwrap().ends_with(&format!("-{}.control.sock", std::process::id())));
    assert_eq!((mode(&found[0]), mode(&state.join("run"))), (0o600, 0o700));
    let count = |purpose, cwd: &str| connect(purpose, &state, Some(Path::new(cwd))).len();
    assert_eq!((count(Purpose::Control, "/project"), count(Purpose::Clients, "/project")), (1, 1));
    assert_eq!((count(Purpose::Control, "/other"), count(Purpose::Clients, "/other")), (0, 0));
    drop(clients);
    assert_eq!((count(Purpose::Control, "/project"), count(Purpose::Clients, "/project")), (1, 0));
    drop(control);
    assert!(sockets(&state).is_empty());
}

#[test]
fn dead_control_socket_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let control = Listener::bind(Purpose::Control, &state, Path::new("/project"), 0).unwrap();
    let name = sockets(&state)[0].file_name().unwrap().to_str().unwrap().to_owned();
    let dead = state.join("run").join(format!("{}-4000000.control.sock", name.split('-').next().unwrap()));
    drop(UnixListener::bind(&dead).unwrap());
    connect(Purpose::Clients, &state, None);
    assert!(dead.exists(), "it is for the other wire to remove");
    assert_eq!(connect(Purpose::Control, &state, None).len(), 1);
    assert!(!dead.exists());
    // One of a dead process that had our number.
    drop(control);
    let path = state.join("run").join(name);
    drop(UnixListener::bind(&path).unwrap());
    let _control = Listener::bind(Purpose::Control, &state, Path::new("/project"), 0).unwrap();
    connect_at(&path).unwrap();
}

#[test]
fn named_socket_replaces_a_dead_one_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/daemon.sock");
    let first = Listener::bind_named(&path).unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(Listener::bind_named(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    // Whoever ends later does not remove what another process has put there.
    std::fs::remove_file(&path).unwrap();
    let second = Listener::bind_named(&path).unwrap();
    drop(first);
    connect_at(&path).unwrap();
    drop(second);
    assert!(!path.exists());
    drop(UnixListener::bind(&path).unwrap());
    drop(Listener::bind_named(&path).unwrap());
    std::fs::write(&path, "a file").unwrap();
    assert!(Listener::bind_named(&path).unwrap_err().to_string().contains("no socket"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
    assert!(Listener::bind_named(&path).unwrap_err().to_string().contains("no socket"));
    std::fs::remove_file(&path).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Listener::bind_named(&path).unwrap_err().to_string().contains("other users"));
    assert!(!path.exists());
}

#[test]
fn connecting_to_a_full_queue_fails_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match connect_at(&path) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
        assert!(waiting.len() < 100);
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

/// The process itself is one that it must not serve. What others are served is tested with the program.
#[test]
#[cfg(target_os = "linux")]
fn what_the_process_started_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let listener = Listener::bind(Purpose::Control, &state, Path::new("/project"), 0).unwrap();
    let place = listener.place();
    let fake = Arc::new(Fake::new());
    server(&fake).0.listen(listener).unwrap();
    let mut program = Program::on(connect(Purpose::Control, &state, None).pop().unwrap().stream);
    let answer: SocketResponse = read(program.receive().unwrap());
    assert_eq!(answer.error.unwrap().code, "PERMISSION_DENIED");
    assert_eq!(program.receive(), None);
    place.remove();
    assert!(sockets(&state).is_empty());
}
