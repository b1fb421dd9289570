//! Group commit: one thread writes and syncs for all sessions. Does not know what an entry means.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::limits::{COMMIT_BATCH, COMMIT_QUEUE, RELAXED_SYNC};
use crate::store::error::StoreError;
use crate::store::files::size;
use crate::store::journal_file::JournalFile;

/// When an append is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once it is on the disk. It survives a power failure.
    #[default]
    Full,
    /// Once the system has it. It survives the process; a power failure loses at most a second.
    Relaxed,
}

impl Durability {
    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }

    /// The durability with that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Full, Self::Relaxed].into_iter().find(|durability| durability.as_str() == name)
    }
}

/// Called once the append is on disk or has failed.
pub type Done = Box<dyn FnOnce(Result<(), Arc<StoreError>>) + Send>;

/// One append. Without bytes it asks for a sync, after which this thread closes the file.
pub(super) struct Append {
    pub(super) file: Arc<JournalFile>,
    pub(super) bytes: Vec<u8>,
    pub(super) done: Done,
}

/// Counts of the writing thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitCounters {
    /// Acknowledged appends.
    pub appends: u64,
    /// Failed appends.
    pub failures: u64,
    /// Acknowledged bytes.
    pub bytes: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Total time of all syncs.
    pub sync_time: Duration,
    /// Time of the slowest sync.
    pub slowest_sync: Duration,
}

/// The writing thread.
pub struct Committer {
    counters: Arc<Mutex<CommitCounters>>,
    queue: Mutex<Option<SyncSender<Append>>>,
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
    /// If the system refuses a thread.
    pub fn start(durability: Durability) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(COMMIT_QUEUE);
        let counters: Arc<Mutex<CommitCounters>> = Arc::default();
        let writer = Writer { counters: counters.clone(), done: CommitCounters::default() };
        let thread =
            std::thread::Builder::new().name("journal".to_owned()).spawn(move || match durability {
                Durability::Full => run_full(&receiver, writer),
                Durability::Relaxed => run_relaxed(&receiver, writer),
            })?;
        Ok(Self { counters, queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// The counts as of the last batch.
    pub fn counters(&self) -> CommitCounters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an append. Appends to one file keep the order of their calls. Waits while the queue is full,
    /// which slows down callers that write faster than the disk.
    pub(super) fn append(&self, job: Append) {
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
    /// Writes the queued appends, then ends the thread.
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

/// Acknowledges an append once it is on disk.
fn run_full(queue: &Receiver<Append>, mut writer: Writer) {
    while let Ok(first) = queue.recv() {
        writer.write(batch(first, queue), |writer, part| match part.bytes.is_empty() {
            // Everything was synced before.
            true => Ok(()),
            false => writer.sync(&part.file, &part.bytes),
        });
    }
}

/// Acknowledges an append once the system has it; the disk follows within [`RELAXED_SYNC`].
fn run_relaxed(queue: &Receiver<Append>, mut writer: Writer) {
    let mut behind: Vec<Arc<JournalFile>> = Vec::new();
    // The deadline for syncing the last unsynced write. Steady writing must not postpone it.
    let mut due: Option<Instant> = None;
    loop {
        let first = match due {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => match due.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Err(RecvTimeoutError::Timeout),
                left => queue.recv_timeout(left),
            },
        };
        if first.is_ok() && due.is_none() {
            due = Instant::now().checked_add(RELAXED_SYNC);
        }
        match first {
            Ok(first) => writer.write(batch(first, queue), |writer, part| {
                part.file.take_as_good(&part.bytes)?;
                let known = behind.iter().position(|known| Arc::ptr_eq(known, &part.file));
                match (part.settles, known) {
                    (false, None) => behind.push(part.file.clone()),
                    (false, Some(_)) => {}
                    (true, known) => {
                        if let Some(known) = known {
                            behind.swap_remove(known);
                        }
                        return writer.sync(&part.file, &[]);
                    }
                }
                Ok(())
            }),
            Err(end) => {
                due = None;
                for file in behind.drain(..) {
                    if let Err(error) = writer.sync(&file, &[]) {
                        tracing::error!(%error, "what was acknowledged may not outlive a power failure");
                    }
                }
                writer.publish();
                if end == RecvTimeoutError::Disconnected {
                    return;
                }
            }
        }
    }
}

/// The first append, and those that arrived while the last batch was written.
fn batch(first: Append, queue: &Receiver<Append>) -> VecDeque<Append> {
    let mut batch = VecDeque::from([first]);
    while batch.len() < COMMIT_BATCH {
        match queue.try_recv() {
            Ok(job) => batch.push_back(job),
            Err(_) => break,
        }
    }
    batch
}

/// The appends of one file in a batch.
struct FileBatch {
    file: Arc<JournalFile>,
    bytes: Vec<u8>,
    /// Whether to close the file afterwards.
    settles: bool,
    failure: Option<Arc<StoreError>>,
}

/// Writes batches and counts them.
struct Writer {
    counters: Arc<Mutex<CommitCounters>>,
    done: CommitCounters,
}

impl Writer {
    fn sync(&mut self, file: &Arc<JournalFile>, written: &[u8]) -> Result<(), StoreError> {
        let begun = Instant::now();
        let synced = file.sync(written);
        let took = begun.elapsed();
        self.done.syncs = self.done.syncs.saturating_add(1);
        self.done.sync_time = self.done.sync_time.saturating_add(took);
        self.done.slowest_sync = self.done.slowest_sync.max(took);
        synced
    }

    /// Publishes the counts.
    fn publish(&self) {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.done;
    }

    /// Writes a batch, calls `finish` for each file, and reports the results in order.
    fn write(
        &mut self,
        batch: VecDeque<Append>,
        mut finish: impl FnMut(&mut Self, &FileBatch) -> Result<(), StoreError>,
    ) {
        let mut parts: Vec<FileBatch> = Vec::new();
        let mut places = Vec::with_capacity(batch.len());
        for job in batch {
            let known = parts.iter_mut().position(|part| Arc::ptr_eq(&part.file, &job.file));
            let place = known.unwrap_or_else(|| {
                let file = job.file.clone();
                parts.push(FileBatch { file, bytes: Vec::new(), settles: false, failure: None });
                parts.len().saturating_sub(1)
            });
            if let Some(part) = parts.get_mut(place) {
                part.bytes.extend_from_slice(&job.bytes);
                part.settles |= job.bytes.is_empty();
            }
            places.push((place, !job.bytes.is_empty(), job.done));
        }
        // Writes all files first, because the first sync then carries much of the others' data to disk. The
        // appends of one file go out in one call and succeed or fail together.
        for part in &mut parts {
            part.failure = part.file.write(&part.bytes).err().map(Arc::new);
        }
        for part in parts.iter_mut().filter(|part| part.failure.is_none()) {
            part.failure = finish(self, part).err().map(Arc::new);
        }
        for part in parts.iter().filter(|part| part.failure.is_none()) {
            self.done.bytes = self.done.bytes.saturating_add(size(&part.bytes));
        }
        // Releases the files first: a callback may close its session and thereby release the lock.
        let failures: Vec<_> = parts.into_iter().map(|part| part.failure).collect();
        for (place, ..) in places.iter().filter(|(_, appends, _)| *appends) {
            let count = match failures.get(*place) {
                Some(Some(_)) => &mut self.done.failures,
                _ => &mut self.done.appends,
            };
            *count = count.saturating_add(1);
        }
        self.publish();
        for (place, _, done) in places {
            let failure = failures.get(place).cloned().flatten();
            done(failure.map_or(Ok(()), Err));
        }
    }
}
