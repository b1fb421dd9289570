//! Goes on with a newer configuration, at a boundary or between turns. Reads no file itself.

use std::path::Path;

use super::SessionActor;

impl SessionActor {
    /// Switches to the newest configuration, unless a turn runs, which does that itself.
    pub(super) async fn adopt_between_turns(&mut self) {
        if !self.is_running() && self.handle.parent.is_none() {
            self.adopt().await;
        }
    }

    /// Switches to the newest configuration, and to the folder's current context.
    pub(super) async fn adopt(&mut self) {
        if self.shared.configuration.revision() == self.handle.config().revision {
            return;
        }
        let (shared, cwd) = (self.shared.clone(), self.facts.cwd.clone());
        let newest = tokio::task::spawn_blocking(move || shared.configuration.for_folder(&cwd)).await;
        let Ok(newest) = newest else { return };
        let known = self.shared.library.known_for(Path::new(&*self.facts.cwd));
        let project = match known {
            Some(project) => project,
            None => {
                let (shared, places) =
                    (self.shared.clone(), self.shared.configuration.places(&self.facts.cwd));
                tokio::task::spawn_blocking(move || shared.library.get(&places)).await.unwrap_or_default()
            }
        };
        if self.entries.offset() > 0 {
            self.goes_on_with(newest.entry(&project)).await;
        }
        self.handle.set_config(newest);
        self.know_model();
        self.found(&project);
    }
}
