//! Parts of the conversation that a model's server refused: kept in the journal, so that the next request does without them
//! at once, and told to the person. Sends nothing.

use crate::engine::native::answer::ModelAnswer;
use crate::engine::native::turn::Turn;
use crate::engine::progress::notification;
use crate::engine::withheld;
use crate::event::{Body, NoticeLevel};
use crate::message::{EntryId, WithheldPart};
use crate::session::ApiError;
use crate::store::EntryBody;
use crate::store::record::Withheld;

/// The refusals of a turn's model calls.
pub struct Refusals<'t>(pub &'t Turn);

impl Refusals<'_> {
    /// Keeps the refusals of one model call, and adds to its error how a person can leave out the refused message.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn note(&self, answer: &mut ModelAnswer) -> Result<(), ApiError> {
        let withheld = std::mem::take(&mut answer.withheld);
        let refused = answer.failure.as_ref().and_then(|failure| failure.refused.clone());
        if withheld.is_empty() && refused.is_none() {
            return Ok(());
        }
        let mut records: Vec<Withheld> = withheld.iter().map(|part| self.record(part, true)).collect();
        if let (Some(entry), Some(failure)) = (refused, &mut answer.failure) {
            let record = self.record(&whole(entry, &failure.message), false);
            let about = withheld::described(&self.0.session.snapshot().branch, &record);
            failure.message = format!(
                "{} This is about {about}. /leave-out sends the conversation without it; /compact and /model may help too.",
                failure.message
            );
            records.push(record);
        }
        if let Some(notice) = self.notice(&withheld) {
            let id = self.0.shared.clock.id("n-");
            self.0.publish(Body::Notification(notification(id, NoticeLevel::Warning, &notice))).await;
        }
        let entries = records.into_iter().map(|record| EntryBody::Withheld(Box::new(record)));
        self.0.write(entries.collect()).await.map(drop)
    }

    fn notice(&self, withheld: &[WithheldPart]) -> Option<String> {
        let first = withheld.first()?;
        let snapshot = self.0.session.snapshot();
        let about = withheld::described(&snapshot.branch, &self.record(first, true));
        let what = match withheld.len() {
            1 => format!("An image of {about}"),
            count => format!("{count} images, the first of {about},"),
        };
        Some(format!(
            "{what} is not sent to {} any more, because its server refused it: {}",
            snapshot.facts.model_id, first.why
        ))
    }

    fn record(&self, part: &WithheldPart, left_out: bool) -> Withheld {
        let facts = &self.0.session.snapshot().facts;
        Withheld {
            entry_id: part.entry.clone(),
            part: part.block.and_then(|block| u64::try_from(block).ok()),
            provider: facts.model_provider.clone(),
            model_id: facts.model_id.clone(),
            why: part.why.clone(),
            left_out,
        }
    }
}

fn whole(entry: EntryId, why: &str) -> WithheldPart {
    WithheldPart { entry, block: None, why: why.into() }
}
