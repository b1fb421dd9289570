//! The executors that the program's tasks run on.
//!
//! An executor starts a thread for each piece of work that blocks. If the system refuses one and there is no other, it
//! panics in whoever gave it the work, such as the reader of a connection, which nobody would hear again. So some of these
//! threads are there from the start, and stay: what comes while the system refuses more waits for one of them. Does not
//! know the work.

use std::io;
use std::panic::catch_unwind;
use std::sync::mpsc::channel;
use std::sync::{Arc, RwLock};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};

use edn_bridge::limits::{BLOCKING_THREAD_KEPT, BLOCKING_THREADS, EXECUTOR_THREADS, EXECUTOR_WAIT};

/// Starts an executor.
///
/// # Errors
/// If the system refuses its threads.
pub(super) fn start() -> io::Result<Runtime> {
    let (sender, built) = channel();
    // A refusal is a panic there, or waits for ever for those threads that were not refused. So it is awaited from here.
    let building = thread::Builder::new().name("executor".to_owned());
    building.spawn(move || drop(catch_unwind(build).map(|executor| sender.send(executor))))?;
    built.recv_timeout(EXECUTOR_WAIT).unwrap_or_else(|_| {
        let needed = EXECUTOR_THREADS.saturating_add(BLOCKING_THREADS);
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("the system seems to refuse {needed} more threads (see `ulimit -u`)"),
        ))
    })
}

fn build() -> io::Result<Runtime> {
    let executor = Builder::new_multi_thread()
        .worker_threads(EXECUTOR_THREADS)
        .thread_name("session")
        .thread_keep_alive(BLOCKING_THREAD_KEPT)
        .enable_all()
        .build()?;
    let handle = executor.handle().clone();
    keep_threads(&handle);
    executor.spawn(async move {
        loop {
            tokio::time::sleep(BLOCKING_THREAD_KEPT / 2).await;
            keep_threads(&handle);
        }
    });
    Ok(executor)
}

/// Gives the threads for blocking work something to do, after which each stays for [`BLOCKING_THREAD_KEPT`]. No piece of it
/// ends before all are given out, so that each needs a thread of its own.
fn keep_threads(executor: &Handle) {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write();
    for _ in 0..BLOCKING_THREADS {
        let gate = gate.clone();
        drop(executor.spawn_blocking(move || drop(gate.read())));
    }
    drop(closed);
}
