//! How many processors are free for the model.
//!
//! llama.cpp's threads wait for each other, spinning, some hundred times a token. On free
//! processors nothing is faster; but where one of them has to share its processor, all wait for it
//! each time, and two threads are many times slower than one. So the model takes as many threads as
//! there are free processors, and looks again when its pace drops.

use std::thread;

use crate::limits;

/// The threads that the model should use now: at least one.
pub(super) fn free() -> usize {
    let allowed = thread::available_parallelism().map_or(1, usize::from).min(limits::EMBEDDED_THREADS);
    match (online(), others_running()) {
        (Some(online), Some(others)) => online.saturating_sub(others).clamp(1, allowed),
        // Where the system does not tell, it is taken to be idle.
        _ => allowed,
    }
}

/// The machine's processors, whether this process may use them or not: so many can be busy.
fn online() -> Option<usize> {
    std::fs::read_to_string("/proc/stat").ok().map(|text| processors(&text))
}

fn processors(stat: &str) -> usize {
    let is_one = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    stat.lines().filter(is_one).count()
}

/// How many threads of others want to run: the middle one of a few looks.
fn others_running() -> Option<usize> {
    let mut looks = Vec::with_capacity(limits::EMBEDDED_LOAD_LOOKS);
    for look in 0..limits::EMBEDDED_LOAD_LOOKS {
        if look > 0 {
            thread::sleep(limits::EMBEDDED_LOAD_PAUSE);
        }
        looks.push(running(&std::fs::read_to_string("/proc/loadavg").ok()?)?);
    }
    looks.sort_unstable();
    // The one who asks is running too.
    looks.get(looks.len() / 2).map(|running| running.saturating_sub(1))
}

/// The running threads that a line such as `0.20 0.18 0.12 3/511 4711` counts.
fn running(loadavg: &str) -> Option<usize> {
    loadavg.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_figures_are_read() {
        assert_eq!(running("0.20 0.18 0.12 3/511 4711\n"), Some(3));
        for line in ["", "0.20 0.18 0.12", "a b c d e", "1 2 3 /5 6"] {
            assert_eq!(running(line), None, "{line:?}");
        }
        assert_eq!(processors("cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\ncpufreq\n"), 2);
    }

    #[test]
    fn there_is_always_one_and_never_more_than_allowed() {
        assert!((1..=limits::EMBEDDED_THREADS).contains(&free()));
    }
}
