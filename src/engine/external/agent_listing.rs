//! The agents of a folder for clients: configured, trusted, running or not. Starts none.

use std::path::Path;
use std::sync::Arc;

use super::agents::ExternalAgent;
use crate::agent::AgentSetup;
use crate::engine::handle::Handle;
use crate::engine::revision::ConfigRevision;
use crate::engine::trust_preview;
use crate::facts::agent::ListedAgent;
use crate::peer::Source;

/// Why an agent of a project is not started before the project is trusted.
const NOT_TRUSTED: &str = "The project is not trusted: /trust shows what it would start.";
/// Why an agent of a project is asked about.
const ANOTHER: &str = "It is another one than when it was last started. You are asked when it is used.";

impl ExternalAgent {
    /// The agents of a session's folder, by name. Reads the disk.
    pub fn listed(&self, session: &Handle) -> Vec<ListedAgent> {
        let cwd = session.snapshot().facts.cwd.clone();
        // The newest, which an idle session is about to have.
        let config = self.shared.configuration.for_folder(&cwd);
        let mut all: Vec<ListedAgent> =
            config.agents.agents.iter().map(|setup| self.seen(&config, &cwd, setup)).collect();
        // Those of a project that is not trusted are named, and that is all.
        let files = self.shared.configuration.files_of(&cwd);
        if !files.is_trusted() {
            for setup in trust_preview::agents_of_project(&files).agents {
                if !all.iter().any(|known| known.name == setup.name) {
                    let refused = ListedAgent {
                        state: "refused",
                        last_error: Some(NOT_TRUSTED.into()),
                        ..self.plain(&setup)
                    };
                    all.push(refused);
                }
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// What the configuration says of an agent.
    fn plain(&self, setup: &AgentSetup) -> ListedAgent {
        ListedAgent {
            name: setup.name.clone(),
            source: setup.source.as_str(),
            command: setup.shown().into(),
            trusted: false,
            sandbox: setup.sandbox,
            usual: self.shared.settings.agent.as_ref() == Some(&setup.name),
            ..ListedAgent::default()
        }
    }

    fn seen(&self, config: &ConfigRevision, cwd: &Arc<str>, setup: &AgentSetup) -> ListedAgent {
        let is_of = |handle: &&Handle| {
            let facts = &handle.snapshot().facts;
            facts.cwd == *cwd && facts.agent.as_ref().is_some_and(|agent| agent.name == setup.name)
        };
        let sessions = self.shared.tree.all().iter().filter(is_of).map(|handle| handle.id.clone()).collect();
        let plain = ListedAgent { sessions, ..self.plain(setup) };
        if self.is_another(cwd, setup) {
            return ListedAgent { state: "refused", last_error: Some(ANOTHER.into()), ..plain };
        }
        let look = self.pool.look(cwd, setup);
        // One that was never started says so itself if it cannot be.
        let missing = (look.state == "idle")
            .then(|| setup.missing(Path::new(&**cwd), &config.settings.environment))
            .flatten();
        match missing {
            Some(why) => ListedAgent {
                trusted: true,
                state: "failed",
                last_error: Some(format!("{why}.").into()),
                ..plain
            },
            None => ListedAgent {
                trusted: true,
                state: look.state,
                info: look.info,
                last_error: look.why.map(|why| sentence(&why)),
                ..plain
            },
        }
    }

    /// Whether a project's agent is another one than when it was last started: a person is asked about it first.
    fn is_another(&self, cwd: &str, setup: &AgentSetup) -> bool {
        if !matches!(setup.source, Source::Project(_)) {
            return false;
        }
        let known = self.shared.mcp.known().of(cwd);
        // Also where nobody can say what it was before.
        known.is_none_or(|known| {
            known.get(&format!("agent:{}", setup.name)).is_some_and(|before| *before != setup.digest())
        })
    }
}

/// A reason as a sentence.
fn sentence(why: &str) -> Arc<str> {
    let mut letters = why.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if why.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str()).into()
}
