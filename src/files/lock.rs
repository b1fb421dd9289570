//! One change of a file at a time, in all of the process. Does not open the file. Other processes do not see the
//! lock.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

/// The gates of the files that are being changed or waited for, by resolved path. An entry lives as long as a
/// [`FileLock`] or to a waiting call, so there are never more than running calls.
static GATES: LazyLock<Mutex<HashMap<PathBuf, Arc<Gate<()>>>>> = LazyLock::new(Mutex::default);

/// The right to change a file, until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    gate: Option<Arc<Gate<()>>>,
    held: Option<OwnedMutexGuard<()>>,
}

/// Waits until no other call of this process changes the file. Serves calls in order.
pub async fn lock(path: &Path) -> FileLock {
    let gate = gates().entry(path.to_owned()).or_default().clone();
    // Created before the wait, so that a cancelled wait leaves no entry behind.
    let mut lock = FileLock { path: path.to_owned(), gate: Some(gate.clone()), held: None };
    lock.held = Some(gate.lock_owned().await);
    lock
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.held = None;
        let mut gates = gates();
        self.gate = None;
        // The map's own is the last one.
        if gates.get(&self.path).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            gates.remove(&self.path);
        }
    }
}

fn gates() -> std::sync::MutexGuard<'static, HashMap<PathBuf, Arc<Gate<()>>>> {
    GATES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn file_lock_serves_in_order_and_leaves_no_entry() {
        let (path, other) = (Path::new("/lock-test/a"), Path::new("/lock-test/b"));
        let first = lock(path).await;
        let _other = lock(other).await;
        let mut second = Box::pin(lock(path));
        let mut third = Box::pin(lock(path));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "out of turn");
        // A cancelled wait makes room for the next.
        drop(second);
        let third = third.await;
        assert!(gates().contains_key(path));
        drop(third);
        assert!(!gates().contains_key(path));
        assert!(gates().contains_key(other));
    }
}
