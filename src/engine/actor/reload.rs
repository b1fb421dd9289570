//! Continues with a newer configuration, and with what the session's folder holds now. Reads no file of the configuration
//! itself.

use std::path::Path;
use std::sync::Arc;

use super::durable::DurableState;
use crate::context::Project;
use crate::facts::{SessionFacts, TemplateFacts};
use crate::git;
use crate::store::EntryBody;

impl DurableState {
    /// Switches to the newest configuration, and to the folder's current context.
    pub(super) async fn adopt(&mut self, is_running: bool) {
        if self.shared.configuration.revision() == self.handle.config().revision {
            return;
        }
        let (shared, cwd) = (self.shared.clone(), self.state.facts.cwd.clone());
        let newest = tokio::task::spawn_blocking(move || shared.configuration.for_folder(&cwd)).await;
        let Ok(newest) = newest else { return };
        let known = self.shared.library.known_for(Path::new(&*self.state.facts.cwd));
        let project = match known {
            Some(project) => project,
            None => {
                let (shared, places) =
                    (self.shared.clone(), self.shared.configuration.places(&self.state.facts.cwd));
                tokio::task::spawn_blocking(move || shared.library.get(&places)).await.unwrap_or_default()
            }
        };
        if self.state.entries.offset() > 0 {
            self.go_on_with(newest.entry(&project), is_running).await;
        }
        self.handle.set_config(newest);
        self.know_model();
        self.found(&project);
    }

    /// Records the session's new configuration: at once in a turn, otherwise with the next message. An unused
    /// session thus stays unchanged on disk, however often the configuration is reloaded.
    async fn go_on_with(&mut self, entry: EntryBody, is_running: bool) {
        if !is_running {
            self.adopted = Some(entry);
        } else if let Err(error) = self.append(vec![entry]).await {
            tracing::warn!(%error, "the journal does not say that the configuration was read again");
        }
    }

    /// The entries to write, after the entry of the configuration.
    pub(super) fn with_adopted(&mut self, mut bodies: Vec<EntryBody>) -> Vec<EntryBody> {
        bodies.splice(0..0, self.adopted.take());
        bodies
    }

    /// Looks again for what is known of the session's model, and tells everyone where that is something new.
    pub(super) fn know_model(&mut self) {
        let mut facts = self.state.facts.clone();
        self.handle.config().describe_model(&mut facts);
        let known = |facts: &SessionFacts| {
            (facts.context_window, facts.model_reasoning, facts.thinking_levels.clone())
        };
        if known(&facts) != known(&self.state.facts) {
            self.state.facts = facts;
            self.changed(None);
        }
    }

    /// Looks at the branch again, and records the prompt templates; notifies frontends if these have changed.
    pub(super) fn found(&mut self, project: &Project) {
        self.look_at_branch();
        let templates: Arc<[TemplateFacts]> = project.templates.values().map(described).collect();
        if self.state.facts.prompt_templates != templates {
            self.state.facts.prompt_templates = templates;
            self.changed(None);
        }
    }

    /// Looks at the branch again.
    pub(super) fn look_at_branch(&mut self) {
        self.state.facts.git_branch = git::branch(Path::new(&*self.state.facts.cwd));
    }
}

/// A template, for frontends.
fn described(template: &crate::context::template::Template) -> TemplateFacts {
    TemplateFacts {
        name: template.name.clone(),
        usage: template.usage(),
        description: template.description.clone(),
        hint: template.hint.clone(),
        scope: template.scope.as_str(),
        path: template.path.to_string_lossy().into_owned(),
    }
}
