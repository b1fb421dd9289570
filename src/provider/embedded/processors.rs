//! Counts the processors that are free for the model.
//!
//! llama.cpp's threads wait for each other some hundred times per token, by spinning. On free processors
//! nothing is faster. But if one thread has to share its processor, all others wait for it each time, and two
//! threads are many times slower than one. So the model uses one thread per free processor, and counts again
//! if it slows down.

use std::thread;

use crate::limits;

/// The number of threads for the model now: at least one.
pub(super) fn free() -> usize {
    let allowed = thread::available_parallelism().map_or(1, usize::from).min(limits::EMBEDDED_THREADS);
    match (online(), others_running()) {
        (Some(online), Some(others)) => online.saturating_sub(others).clamp(1, allowed),
        // If the system does not report its load, it counts as idle.
        _ => allowed,
    }
}

/// The machine's processors, including those that this process may not use: any of them can be busy.
fn online() -> Option<usize> {
    std::fs::read_to_string("/proc/stat").ok().map(|text| processors(&text))
}

fn processors(stat: &str) -> usize {
    let is_one = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    stat.lines().filter(is_one).count()
}

/// The number of other threads that want to run: the median of several samples.
fn others_running() -> Option<usize> {
    let mut looks = Vec::with_capacity(limits::EMBEDDED_LOAD_LOOKS);
    for look in 0..limits::EMBEDDED_LOAD_LOOKS {
        if look > 0 {
            thread::sleep(limits::EMBEDDED_LOAD_PAUSE);
        }
        looks.push(running(&std::fs::read_to_string("/proc/loadavg").ok()?)?);
    }
    looks.sort_unstable();
    // The calling thread is running too.
    looks.get(looks.len() / 2).map(|running| running.saturating_sub(1))
}

/// The count of running threads in a line such as `0.20 0.18 0.12 3/511 4711`.
fn running(loadavg: &str) -> Option<usize> {
    loadavg.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_load_is_parsed() {
        assert_eq!(running("0.20 0.18 0.12 3/511 4711\n"), Some(3));
        for line in ["", "0.20 0.18 0.12", "a b c d e", "1 2 3 /5 6"] {
            assert_eq!(running(line), None, "{line:?}");
        }
        assert_eq!(processors("cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\ncpufreq\n"), 2);
    }

    #[test]
    fn free_processors_are_at_least_one_and_at_most_allowed() {
        assert!((1..=limits::EMBEDDED_THREADS).contains(&free()));
    }
}
