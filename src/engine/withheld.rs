//! Parts of a conversation that a model's server refused, as the journal has them. Decides nothing.

use std::sync::Arc;

use crate::message::WithheldPart;
use crate::store::record::Withheld;
use crate::store::{Entry, EntryBody};

/// The journal's records of the refusals of a model's server, oldest first.
fn records<'b>(
    branch: &'b imbl::Vector<Arc<Entry>>,
    provider: &'b str,
    model: &'b str,
) -> impl DoubleEndedIterator<Item = &'b Withheld> {
    branch.iter().filter_map(move |entry| match &entry.body {
        EntryBody::Withheld(record) if *record.provider == *provider && *record.model_id == *model => {
            Some(&**record)
        }
        _ => None,
    })
}

/// The parts that requests to a model leave out.
pub fn parts(branch: &imbl::Vector<Arc<Entry>>, provider: &str, model: &str) -> Arc<[WithheldPart]> {
    let left_out = records(branch, provider, model).filter(|record| record.left_out);
    let parts = left_out.map(|record| WithheldPart {
        entry: record.entry_id.clone(),
        block: record.part.and_then(|part| usize::try_from(part).ok()),
        why: record.why.clone(),
    });
    parts.collect()
}

/// The last message that a model's server refused and that is not left out yet.
pub fn open<'b>(
    branch: &'b imbl::Vector<Arc<Entry>>,
    provider: &'b str,
    model: &'b str,
) -> Option<&'b Withheld> {
    let last = records(branch, provider, model).next_back()?;
    (!last.left_out).then_some(last)
}

/// The number of a message among those of the conversation, from 1, and the start of its text, for a person.
pub fn described(branch: &imbl::Vector<Arc<Entry>>, record: &Withheld) -> String {
    const SHOWN: usize = 60;
    let messages = branch.iter().filter_map(|entry| entry.body.message()).enumerate();
    let found = messages.into_iter().find(|(_, message)| message.id == record.entry_id);
    let Some((place, message)) = found else { return "a message".to_owned() };
    let text = message.text();
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let start: String = line.chars().take(SHOWN).collect();
    let cut = if line.chars().nth(SHOWN).is_some() { "…" } else { "" };
    let number = place.saturating_add(1);
    let role = message.role.as_str();
    if start.is_empty() {
        format!("message {number} ({role})")
    } else {
        format!("message {number} ({role}: {start}{cut})")
    }
}
