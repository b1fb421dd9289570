//! The long texts of questions: a question has the start of one, a handle of the whole, and a warning that says so. Asks
//! nobody.

use crate::engine::services::Services;
use crate::interaction::warning;
use crate::message::SessionId;
use crate::tool::output::Outputs;
use crate::value::Value;

/// What a question shows of a text.
pub struct Start {
    /// The text, or its start.
    pub text: String,
    /// If the text is only the start: the stored output with the whole, which is `None` if it could not be stored.
    pub rest: Option<Option<String>>,
    /// What a person reads about the part that is not shown.
    pub warnings: Vec<String>,
}

/// The start of a text of a session's question, of at most so many bytes. `what` names it in the warning, such as `diff`.
pub async fn start_of(shared: &Services, session: &SessionId, what: &str, text: &str, most: usize) -> Start {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    let (shown, rest) = text.split_at(end.unwrap_or(0));
    if rest.is_empty() {
        return Start { text: text.to_owned(), rest: None, warnings: Vec::new() };
    }
    let handle = keep(shared, session, text).await;
    let place = match &handle {
        Some(handle) => format!("The rest can be read before the answer: output {handle}."),
        None => "The rest could not be kept: nobody can see it before the answer.".to_owned(),
    };
    let mut warnings =
        vec![format!("The {what} is cut: {} of {} bytes are shown. {place}", shown.len(), text.len())];
    warnings.extend(warning::of(&format!("The part of the {what} that is not shown"), &Value::from(rest)));
    Start { text: shown.to_owned(), rest: Some(handle), warnings }
}

/// Stores a text like a tool's output; `None` if the disk is full.
pub async fn keep(shared: &Services, session: &SessionId, text: &str) -> Option<String> {
    let outputs = Outputs::new(&shared.settings.state_dir, session.as_str());
    let (handle, text) = (shared.clock.id("o-"), text.to_owned());
    let kept = tokio::task::spawn_blocking(move || outputs.keep_whole(handle, &text)).await;
    kept.ok().flatten()
}
