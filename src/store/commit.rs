//! Group commit: one thread that writes and syncs for all sessions.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::limits::{COMMIT_BATCH, COMMIT_QUEUE};
use crate::store::StoreError;
use crate::store::journal::JournalFile;

/// Called when what was appended is on disk, or could not be put there.
pub type Done = Box<dyn FnOnce(Result<(), Arc<StoreError>>) + Send>;

/// One append.
pub(super) struct Job {
    pub(super) file: Arc<JournalFile>,
    pub(super) bytes: Vec<u8>,
    pub(super) done: Done,
}

/// The writing thread.
pub struct Committer {
    queue: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Committer")
    }
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start() -> io::Result<Self> {
        let (sender, receiver) = sync_channel(COMMIT_QUEUE);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || run(&receiver))?;
        Ok(Self { queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// Queues an append. Appends to one file are done in the order of their calls. Waits when the queue
    /// is full, which holds up who writes faster than the disk takes.
    pub(super) fn append(&self, job: Job) {
        let sender = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refused = match sender {
            Some(sender) => sender.send(job).err().map(|error| error.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            (job.done)(Err(Arc::new(StoreError::Closed)));
        }
    }
}

impl Drop for Committer {
    /// Writes what is queued, then ends the thread.
    fn drop(&mut self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The last owner may be a callback on the thread itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

fn run(queue: &Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut batch = VecDeque::from([first]);
        while batch.len() < COMMIT_BATCH {
            match queue.try_recv() {
                Ok(job) => batch.push_back(job),
                Err(_) => break,
            }
        }
        commit(batch);
    }
}

/// Writes a batch, syncs each file once, and says so to everyone in order.
fn commit(batch: VecDeque<Job>) {
    let mut files: Vec<(Arc<JournalFile>, Vec<u8>, Option<Arc<StoreError>>)> = Vec::new();
    let mut places = Vec::with_capacity(batch.len());
    for job in batch {
        let place = files.iter().position(|(file, ..)| Arc::ptr_eq(file, &job.file)).unwrap_or_else(|| {
            files.push((job.file.clone(), Vec::new(), None));
            files.len().saturating_sub(1)
        });
        if let Some((_, bytes, _)) = files.get_mut(place) {
            bytes.extend_from_slice(&job.bytes);
        }
        places.push((place, job.done));
    }
    for (file, bytes, failure) in &mut files {
        // What belongs together in one file is written with one call, and stands or falls as one.
        *failure = file.append(bytes).err().map(Arc::new);
    }
    for (place, done) in places {
        let failure = files.get(place).and_then(|(.., failure)| failure.clone());
        done(failure.map_or(Ok(()), Err));
    }
}
