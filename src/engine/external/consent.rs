//! Whether an agent of a project may be started: the person is asked once about one whose command line is another than before.

use std::collections::BTreeMap;

use super::agents::ExternalAgent;
use super::start_reason::Occasion;
use crate::agent::AgentSetup;
use crate::engine::mcp::server_origin;
use crate::event::question::{Answer, QuestionContent};
use crate::interaction::{Origin, Question, Resolution};
use crate::peer::Source;

impl ExternalAgent {
    /// Whether an agent may be started as it is configured.
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    pub(super) async fn may_start(&self, occasion: &Occasion, setup: &AgentSetup) -> Result<(), String> {
        if !matches!(setup.source, Source::Project(_)) {
            return Ok(());
        }
        let facts = occasion.session.snapshot().facts.clone();
        let (key, digest) = (format!("agent:{}", setup.name), setup.digest());
        let (services, cwd) = (self.shared.clone(), facts.cwd.clone());
        let known = tokio::task::spawn_blocking(move || services.mcp.known().of(&cwd)).await;
        let before = known.ok().flatten().map(|known| known.get(&key).cloned());
        match before {
            Some(Some(before)) if before == digest => return Ok(()),
            // The project was trusted with it.
            Some(None) => {}
            // Also where nobody can say what it was before.
            None | Some(Some(_)) => {
                let prompt = format!(
                    "The project in {} starts its agent {} in another way than before:\n\n{}\n\nMay it be started?",
                    facts.cwd,
                    setup.name,
                    setup.described()
                );
                let question = Question {
                    content: std::sync::Arc::new(QuestionContent::Confirm { prompt, default: false }),
                    warnings: std::sync::Arc::new([]),
                    origin: Origin {
                        turn: occasion.turn.clone(),
                        cause: occasion.cause.clone(),
                        correlation: match &occasion.turn {
                            Some(turn) => turn.as_str().into(),
                            None => key.as_str().into(),
                        },
                        ..server_origin(&occasion.session, &setup.name)
                    },
                    timeout: None,
                    unattended: false,
                    journalled: false,
                };
                match self.shared.questions.ask(question, &occasion.stop).await {
                    Resolution::Accepted { answer: Answer::Confirm(true), .. } => {}
                    Resolution::Headless => {
                        let why =
                            "its command line is another one than before, and nobody is there to look at it";
                        return Err(why.to_owned());
                    }
                    _ => return Err("you did not agree to its command line as it is now".to_owned()),
                }
            }
        }
        let (services, cwd) = (self.shared.clone(), facts.cwd.clone());
        let digests = BTreeMap::from([(format!("agent:{}", setup.name), digest)]);
        let added = tokio::task::spawn_blocking(move || services.mcp.known().add(&cwd, digests)).await;
        if let Ok(Err(error)) = added {
            tracing::warn!(%error, "the command line of an agent could not be written down");
        }
        Ok(())
    }
}
