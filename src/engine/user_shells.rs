//! The commands that people run with their outputs apart. They end with the process, or when someone ends them.
//! Knows no session and no turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::facts::{JobStatus, ShellFacts};
use crate::limits::{ENDED_JOBS, RUNNING_JOBS};
use crate::session::{ApiError, Waited};

/// All of them, oldest first.
#[derive(Default)]
pub struct Shells(Mutex<VecDeque<Shell>>);

struct Shell {
    facts: Arc<ShellFacts>,
    stop: CancellationToken,
    /// Whether it has ended, and how often somebody has detached from it.
    news: watch::Sender<(bool, u64)>,
}

impl Shells {
    fn all(&self) -> MutexGuard<'_, VecDeque<Shell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts, newest first.
    pub fn list(&self) -> Vec<Arc<ShellFacts>> {
        self.all().iter().rev().map(|shell| shell.facts.clone()).collect()
    }

    /// Ends all.
    pub fn stop_all(&self) {
        self.all().iter().for_each(|shell| shell.stop.cancel());
    }

    /// The facts of one.
    ///
    /// # Errors
    /// If there is none with that id.
    pub fn get(&self, id: &str) -> Result<Arc<ShellFacts>, ApiError> {
        let all = self.all();
        let found = all.iter().find(|shell| *shell.facts.id == *id);
        found.map(|shell| shell.facts.clone()).ok_or_else(|| ApiError::not_found("task", id))
    }

    /// Ends the waits for one, which goes on.
    ///
    /// # Errors
    /// If there is none with that id.
    pub fn detach(&self, id: &str) -> Result<Arc<ShellFacts>, ApiError> {
        let facts = self.get(id)?;
        if let Some(shell) = self.all().iter().find(|shell| *shell.facts.id == *id) {
            shell.news.send_modify(|(_, times)| *times = times.saturating_add(1));
        }
        Ok(facts)
    }

    /// Asks one to end.
    ///
    /// # Errors
    /// If there is none with that id.
    pub fn stop(&self, id: &str) -> Result<(), ApiError> {
        self.get(id)?;
        self.all().iter().filter(|shell| *shell.facts.id == *id).for_each(|shell| shell.stop.cancel());
        Ok(())
    }

    /// Watches one from now on; with `detachable`, until somebody detaches from it.
    ///
    /// # Errors
    /// If there is none with that id.
    pub fn watch(&self, id: &str, detachable: bool) -> Result<Watch, ApiError> {
        let all = self.all();
        let found = all.iter().find(|shell| *shell.facts.id == *id);
        let news = found.ok_or_else(|| ApiError::not_found("task", id))?.news.subscribe();
        let before = news.borrow().1;
        Ok(Watch { news, before, detachable })
    }

    /// Adds one that starts now. The oldest of those that have ended leaves.
    ///
    /// # Errors
    /// If too many run.
    pub fn add(&self, facts: ShellFacts, stop: CancellationToken) -> Result<Arc<ShellFacts>, ApiError> {
        let mut all = self.all();
        let running = all.iter().filter(|shell| shell.facts.status == JobStatus::Running).count();
        if running >= RUNNING_JOBS {
            return Err(ApiError::failed(format!("{RUNNING_JOBS} commands run already; end one first.")));
        }
        let facts = Arc::new(facts);
        all.push_back(Shell { facts: facts.clone(), stop, news: watch::Sender::new((false, 0)) });
        if all.len() > ENDED_JOBS.saturating_add(RUNNING_JOBS)
            && let Some(oldest) = all.iter().position(|shell| shell.facts.status != JobStatus::Running)
        {
            all.remove(oldest);
        }
        Ok(facts)
    }

    /// One has ended: notes how.
    pub fn end(&self, id: &str, change: impl FnOnce(&mut ShellFacts)) {
        let mut all = self.all();
        let Some(shell) = all.iter_mut().find(|shell| *shell.facts.id == *id) else { return };
        change(Arc::make_mut(&mut shell.facts));
        shell.news.send_modify(|(ended, _)| *ended = true);
    }
}

/// A command that is watched.
pub struct Watch {
    news: watch::Receiver<(bool, u64)>,
    /// How often somebody had detached from it before.
    before: u64,
    detachable: bool,
}

impl Watch {
    /// Waits until it is over, at most `patience`.
    pub async fn over(mut self, patience: Option<Duration>) -> Waited {
        let (before, detachable) = (self.before, self.detachable);
        let is_over = |(ended, times): &(bool, u64)| *ended || (detachable && *times > before);
        let over = async {
            match self.news.wait_for(is_over).await {
                Ok(news) if !news.0 => Waited::Detached,
                _ => Waited::Ended,
            }
        };
        match patience {
            None => over.await,
            Some(patience) => tokio::time::timeout(patience, over).await.unwrap_or(Waited::StillRunning),
        }
    }
}
