//! The context of a user's message: the skills that it names, attached files, and what the editor shows.
//!
//! The context is a separate entry before the message. The model's input thus stays known, whatever happens
//! to the files, and the message stays verbatim. Does not know models.

use std::path::Path;
use std::sync::Arc;

use super::durable::DurableState;
use super::state::user_message;
use crate::catalogue::tools::READ;
use crate::context::reference::{self, Reader};
use crate::context::skill;
use crate::engine::incoming::Ahead;
use crate::engine::queue;
use crate::limits::EDITOR_TEXT_BYTES;
use crate::message::{Block, TurnId};
use crate::store::EntryBody;
use crate::store::record::{ContextFile, MessageContext};
use crate::tool::permission::{self, Access, Act, Verdict};
use crate::tool::walk::DeniedPaths;

/// The entries of a user's message, and the failed attachments, for the person.
pub(super) struct PreparedMessage {
    pub bodies: Vec<EntryBody>,
    pub failures: Vec<Arc<str>>,
}

impl DurableState {
    /// The entries of a message: the configuration if it is new, the context if there is any, and the
    /// message.
    pub(super) async fn gather(
        &mut self,
        content: Vec<Block>,
        ahead: Ahead,
        turn: &TurnId,
    ) -> PreparedMessage {
        let text = ahead.typed.unwrap_or_else(|| queue::text(&content));
        let message = user_message(content, turn);
        let editor = self.state.editor.to_send();
        let may_name_skill = skill::may_be_named(&text);
        if editor.is_none() && !may_name_skill && !reference::may_refer(&text) {
            return PreparedMessage { bodies: self.with_adopted(vec![message]), failures: Vec::new() };
        }
        let (shared, session) = (self.shared.clone(), self.handle.clone());
        let names = shared.mcp.names(&session);
        // A token is about four bytes, so as many bytes as the window has tokens are a quarter of it.
        let window = usize::try_from(self.state.facts.context_window).unwrap_or(usize::MAX);
        // Servers are asked beside the session's task, never here: others wait for it.
        let resources = ahead.resources.unwrap_or_default();
        let (facts, rules) =
            (self.state.facts.clone(), self.shared.rules_for(&self.handle.config(), &self.handle));
        let (stop, roots) = (self.handle.stoppable(), self.handle.roots());
        let looked = tokio::task::spawn_blocking(move || {
            let cwd = Path::new(&*facts.cwd);
            let ground = shared.configuration.ground(cwd, &roots);
            let (mode, damage) = (shared.mode(&facts), shared.kept_rules.damage(cwd));
            let may_read = |path: &Path| {
                let act = Act::of(READ, Access::Read(path.to_owned()));
                match permission::judge(mode, &rules, &ground, &act) {
                    Verdict::Allow => Ok(()),
                    Verdict::Deny(reason) => Err(reason),
                    Verdict::Ask(_) => Err(damage.clone().unwrap_or_else(|| {
                        "It stands outside the workspace, or belongs to this program: ask the model to read it, \
                         so that you are asked, or allow it by a rule."
                            .to_owned()
                    })),
                }
            };
            let editor = editor.map(|mut editor| {
                let sent = editor.to_value();
                editor.read_selection(cwd, &may_read);
                (sent, editor.shown(EDITOR_TEXT_BYTES.min(window / 4)))
            });
            let reader = Reader {
                may_read: &may_read,
                barred: &DeniedPaths::new(&rules, &ground, READ),
                is_stopped: &|| stop.is_cancelled(),
                is_elsewhere: &|mention| {
                    mention
                        .split_once(':')
                        .is_some_and(|(server, _)| names.iter().any(|name| **name == *server))
                },
            };
            let skills = may_name_skill.then(|| {
                let project = shared.library.get(&shared.configuration.places(&facts.cwd));
                skill::expand_named(&text, &project.skills, window)
            });
            let taken = resources.iter().map(|resource| resource.text.len()).fold(0, usize::saturating_add);
            let mut attachments = reference::attach(cwd, &text, window.saturating_sub(taken), &reader);
            attachments.extend(resources);
            (attachments, editor, skills.unwrap_or_default())
        });
        let Ok((attachments, editor, (skills, mut failures))) = looked.await else {
            return PreparedMessage { bodies: self.with_adopted(vec![message]), failures: Vec::new() };
        };
        for (path, seen) in attachments.iter().filter_map(|attachment| attachment.seen.as_ref()) {
            self.handle.known.shown(path, seen.clone());
        }
        failures.extend(reference::failures(&attachments));
        let mut context =
            MessageContext { text: skills + &reference::shown(&attachments), ..MessageContext::default() };
        context.images = reference::images(&attachments).collect();
        context.files = attachments
            .iter()
            .map(|one| ContextFile { path: one.name.clone(), failed: one.failed })
            .collect();
        if let Some((editor, shown)) = editor {
            context.text.push_str(&shown);
            context.editor = Some(editor);
        }
        let bodies = if context.text.is_empty() {
            vec![message]
        } else {
            vec![EntryBody::Context(Box::new(context)), message]
        };
        PreparedMessage { bodies: self.with_adopted(bodies), failures }
    }
}
