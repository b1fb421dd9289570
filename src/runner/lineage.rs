//! Which process comes from which, as the kernel tells it (`/proc`).
//!
//! The socket's listener asks here whether a client was started by a program of the bridge's: what such a
//! program starts cannot leave the tree below its runner, because orphans fall to the runner.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::descriptors;
use crate::limits::{LINEAGE_DEPTH, LINEAGE_LOOKS};

/// The name that a runner goes by: its first argument. The listener of the socket looks for it
/// ([`lineage`]).
pub(super) const NAME: &str = "edn-bridge-runner";

/// Whether a process descends from a runner that this process does not descend from itself, or from this
/// process. One that is seen by nobody here (number 0) comes from outside.
///
/// # Errors
/// When it has ended, or its parents change with every look.
pub fn is_inside(process: u32) -> io::Result<bool> {
    let own = own_line();
    let mut last = io::Error::from(Errno::SRCH);
    for _ in 0..LINEAGE_LOOKS {
        match walk(process, &own) {
            Ok(inside) => return Ok(inside),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether a process was started by a program of any bridge's, as far as can be seen.
pub fn is_below_a_runner(process: u32) -> bool {
    let mut current = process;
    for _ in 0..LINEAGE_DEPTH {
        match (is_runner(current), parent(current)) {
            (Ok(true), _) => return true,
            (_, Ok(above @ 1..)) => current = above,
            _ => return false,
        }
    }
    true
}

/// This process and those that it comes from.
fn own_line() -> BTreeSet<u32> {
    let mut line = BTreeSet::from([std::process::id()]);
    let mut current = std::process::id();
    while let Ok(above @ 1..) = parent(current) {
        if !line.insert(above) {
            break;
        }
        current = above;
    }
    line
}

fn walk(process: u32, own: &BTreeSet<u32>) -> io::Result<bool> {
    let mut current = process;
    for _ in 0..LINEAGE_DEPTH {
        if current == std::process::id() {
            return Ok(true);
        }
        // Above here the two have all in common.
        if current == 0 || own.contains(&current) {
            return Ok(false);
        }
        if is_runner(current)? {
            return Ok(true);
        }
        let above = match parent(current) {
            Ok(above) => above,
            // Not shown because it is another user's (`hidepid`), and then no program of this user's.
            Err(error) if !descriptors::are_out(&error) && is_of_another_user(current) => return Ok(false),
            Err(error) => return Err(error),
        };
        if above != 0 && !own.contains(&above) && is_runner(above)? {
            return Ok(true);
        }
        // Had the process above ended meanwhile, and its number a new bearer, the one below would have
        // another parent now.
        if parent(current)? != above {
            return Err(Errno::AGAIN.into());
        }
        current = above;
    }
    Err(Errno::LOOP.into())
}

/// The number of a process's parent; 0 where that is outside of what can be seen.
fn parent(process: u32) -> io::Result<u32> {
    let stat = std::fs::read(format!("/proc/{process}/stat"))?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may have some itself.
    let after = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    after.split(' ').nth(1).and_then(|parent| parent.parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
}

/// A runner cannot lose its name: nobody may write its memory (it is not dumpable).
///
/// # Errors
/// Without a free descriptor, nobody can tell. A process that is gone or hidden is found out by its parent.
fn is_runner(process: u32) -> io::Result<bool> {
    match std::fs::read(format!("/proc/{process}/cmdline")) {
        Ok(line) => Ok(line.split(|byte| *byte == 0).next() == Some(NAME.as_bytes())),
        Err(error) if descriptors::are_out(&error) => Err(error),
        Err(_) => Ok(false),
    }
}

fn is_of_another_user(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
}

/// The children of this process, also those that have ended and are not waited for. Takes little time where the
/// kernel lists them.
pub fn own_children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let lists: std::io::Result<Vec<String>> = lists.collect();
    match lists {
        Ok(lists) => {
            lists.iter().flat_map(|list| list.split(' ')).filter_map(|child| child.parse().ok()).collect()
        }
        // A thread has ended meanwhile, or the kernel has no such lists.
        Err(_) => children(&processes(), std::process::id()).collect(),
    }
}

/// All processes that can be seen, by their parents.
pub fn processes() -> BTreeMap<u32, Vec<u32>> {
    let mut processes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Ok(parent) = parent(process)
        {
            processes.entry(parent).or_default().push(process);
        }
    }
    processes
}

/// The children of a process.
pub fn children(processes: &BTreeMap<u32, Vec<u32>>, of: u32) -> impl Iterator<Item = u32> {
    processes.get(&of).into_iter().flatten().copied()
}

/// All that descend from a process.
pub fn descendants(processes: &BTreeMap<u32, Vec<u32>>, of: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![of];
    while let Some(process) = open.pop() {
        for child in children(processes, process) {
            found.push(child);
            open.push(child);
        }
    }
    found
}
