//! How many files the process may have open.
//!
//! What a shell gives (1,024 mostly) is meant for programs that know no other way to wait than `select`, which
//! cannot see a higher number. This one knows another, so it takes what it needs of what the system allows, and
//! gives the programs that it starts what it was given itself.

use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::process::{Pid, prlimit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::{DESCRIPTORS, SESSION_DESCRIPTORS};

/// What the process was given, and what it raised that to.
static RAISED: OnceLock<Raised> = OnceLock::new();

#[derive(Debug)]
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    allow(dead_code, reason = "there no program's limit can be set from outside")
)]
struct Raised {
    from: Rlimit,
    to: Rlimit,
}

/// Raises the soft limit to what a full process needs, as far as the hard one lets it. Where the system
/// refuses, everything goes on with what there is.
pub fn raise() {
    let from = getrlimit(Resource::Nofile);
    let (Some(current), most) = (from.current, from.maximum.unwrap_or(u64::MAX)) else { return };
    let wanted = DESCRIPTORS.min(most);
    if current < wanted {
        let to = Rlimit { current: Some(wanted), maximum: from.maximum };
        match setrlimit(Resource::Nofile, to) {
            Ok(()) => drop(RAISED.set(Raised { from, to })),
            Err(error) => {
                tracing::warn!(%error, current, "no more files may be open than the process was given");
            }
        }
    }
}

/// Gives a program that was just started what this process was given. Until then it has this process's
/// limit, which is of no harm to one that has opened nothing yet.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn restore(child: Option<u32>) {
    if let (Some(child), Some(raised)) = (child, RAISED.get()) {
        raised.restore(child);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Raised {
    /// A program that has set a limit of its own by now keeps it.
    fn restore(&self, child: u32) {
        let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && limit_of(pid).is_none_or(|limit| limit == self.to)
        {
            self.lower(pid);
        }
    }

    /// Between the look and this a program may have set one too: what there was is answered, and given back.
    /// For that moment it has the given limit; what it starts then keeps that one, and a further limit that it
    /// sets then is lost.
    fn lower(&self, pid: Pid) {
        // One that has ended already needs none.
        if let Ok(own) = prlimit(Some(pid), Resource::Nofile, self.from)
            && own != self.to
        {
            let _ = prlimit(Some(pid), Resource::Nofile, own);
        }
    }
}

/// What the system tells of a process's limit; `None` where it is not told, or there is no descriptor to read it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn limit_of(pid: Pid) -> Option<Rlimit> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_pid())).ok()?;
    let mut numbers = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace();
    let mut next = || match numbers.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Rlimit { current: next()?, maximum: next()? })
}

/// Where the system has no way to do that from outside, programs keep this process's limit.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn restore(_: Option<u32>) {}

/// How many sessions may have their files open, so that half of all descriptors are left for everything else.
pub fn for_sessions() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2 / SESSION_DESCRIPTORS).unwrap_or(usize::MAX).max(1)
}

/// Whether an error says that the process or the system has no descriptor left.
pub fn are_out(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_that_has_set_its_own_limit_keeps_it() {
        let to = getrlimit(Resource::Nofile);
        let raised = Raised { from: Rlimit { current: Some(48), maximum: to.maximum }, to };
        let cases = [("ulimit -Sn 32", "32"), ("ulimit -Sn 64", "64"), ("ulimit -n 40", "40"), (":", "48")];
        // With the look, and as it is for one that sets its limit right after it.
        for ((sets, expected), looks) in cases.into_iter().flat_map(|case| [(case, true), (case, false)]) {
            let mut shell = Command::new("sh")
                .args(["-c", &format!("{sets}; echo set; read late; ulimit -Sn")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
            assert_eq!(lines.next().unwrap().unwrap(), "set");
            if looks {
                raised.restore(shell.id());
            } else {
                raised.lower(Pid::from_raw(shell.id().try_into().unwrap()).unwrap());
            }
            shell.stdin.take().unwrap().write_all(b"\n").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), expected, "{sets}, looks: {looks}");
            shell.wait().unwrap();
        }
    }

    #[test]
    fn the_system_tells_what_limit_a_process_has() {
        assert_eq!(limit_of(rustix::process::getpid()), Some(getrlimit(Resource::Nofile)));
    }
}
