//! A bridge with a small disk of its own, or one whose files may not grow.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Bridge, Setup};

/// A bridge with a disk of that size at a folder, which nobody else sees; `None` where the system lets no user make
/// one.
pub fn on_small_disk(setup: &Setup, folder: &Path, size: &str) -> Option<Bridge> {
    std::fs::create_dir(folder).unwrap();
    let mount = |then: &str| format!("mount -t tmpfs -o size={size},mode=700 edn-bridge \"$DISK\" && {then}");
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c"]).env("DISK", folder);
        unshare
    };
    let tried = unshare().arg(mount("true")).stdin(Stdio::null()).output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("NOT TRIED: a disk that is full for real; no disk can be made here: {tried:?}");
        return None;
    }
    let mut shell = unshare();
    shell.arg(mount(SERVE));
    Some(start(shell, setup))
}

/// A bridge that a shell starts after `limits`.
pub fn limited(setup: &Setup, limits: &str) -> Bridge {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{limits}; {SERVE}"));
    start(shell, setup)
}

/// What a shell does that gets the program as its arguments.
const SERVE: &str = "exec \"$0\" \"$@\" serve";

fn start(mut shell: Command, setup: &Setup) -> Bridge {
    let program = setup.command();
    shell.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Bridge::start(&mut shell)
}

/// A folder as the bridge sees it.
pub fn seen(bridge: &Bridge, folder: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", bridge.pid()));
    root.join(folder.strip_prefix("/").unwrap())
}
