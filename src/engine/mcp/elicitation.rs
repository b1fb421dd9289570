//! Answers what a server asks in the course of a call: a form by one question to the person after the other, a page by
//! their consent, a text of the model once they have approved it. Does not know the protocol.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::registry::server_origin;
use crate::engine::handle::Handle;
use crate::engine::long_text;
use crate::engine::services::Services;
use crate::event::Cause;
use crate::event::question::{self, Approval, QuestionContent};
use crate::http::{Url, host};
use crate::interaction::{Origin, Question, Resolution, warning};
use crate::limits::{APPROVAL_ARGUMENTS_BYTES, MAX_ANSWER_BYTES, MCP_FIELD_TRIES};
use crate::mcp::{self, Answerer, Answering, Ask, ElicitReply, Field, FieldKind, Sampled, Sampling};
use crate::message::{Block, EntryId, Message, Role, ThinkingLevel, TurnId};
use crate::provider::{AnswerEnd, Chunk, ModelRequest};
use crate::telemetry::Work;
use crate::tool;
use crate::value::{Map, Value};

/// Answers for a session, in one of its turns or outside of any.
pub struct SessionAnswerer {
    shared: Arc<Services>,
    session: Handle,
    turn: Option<TurnId>,
    cause: Option<Cause>,
    stop: CancellationToken,
    /// What asks: `server` or `agent`.
    asker: &'static str,
    /// The calls in which the person has said no. The room of servers bounds how often one may ask.
    declined: Mutex<HashSet<Arc<str>>>,
}

/// How a question to the person ended.
enum Elicited {
    Yes(question::Answer),
    /// They chose not to answer.
    No,
    /// Nobody answered.
    Nothing,
}

impl Answerer for SessionAnswerer {
    fn ask(&self, ask: Ask) -> Answering<'_> {
        Box::pin(self.answer(ask))
    }
}

impl SessionAnswerer {
    pub fn new(
        shared: Arc<Services>,
        session: Handle,
        turn: Option<TurnId>,
        cause: Option<Cause>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self { shared, session, turn, cause, stop, asker: "server", declined: Mutex::default() })
    }

    /// One that answers for an agent.
    pub fn of_agent(
        shared: Arc<Services>,
        session: Handle,
        turn: TurnId,
        cause: Option<Cause>,
        stop: CancellationToken,
    ) -> Self {
        Self { shared, session, turn: Some(turn), cause, stop, asker: "agent", declined: Mutex::default() }
    }

    async fn answer(&self, ask: Ask) -> ElicitReply {
        let call = ask.call.clone().unwrap_or_else(|| ask.subject.clone());
        if self.declined().contains(&call) {
            return ElicitReply::Declined;
        }
        let answer = match &ask.question {
            mcp::Question::Form { message, fields } => self.form(&ask, message, fields).await,
            mcp::Question::Page { message, url, is_first } => self.page(&ask, message, url, *is_first).await,
            mcp::Question::Sample(sampling) => self.sample(&ask, sampling).await,
        };
        if answer == ElicitReply::Declined {
            // Whoever says no once is not asked again in the same call.
            self.declined().insert(call);
        }
        answer
    }

    fn declined(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.declined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the person, one question at a time in a session, its parents and its children.
    async fn put(&self, ask: &Ask, content: QuestionContent, warnings: Vec<String>) -> Elicited {
        let origin = Origin {
            turn: self.turn.clone(),
            cause: self.cause.clone(),
            correlation: match &self.turn {
                Some(turn) => turn.as_str().into(),
                None => format!("mcp:{}", ask.server).into(),
            },
            ..server_origin(&self.session, &ask.server)
        };
        let question = Question {
            content: Arc::new(content),
            warnings: warnings.into(),
            origin,
            timeout: None,
            // Only a person can know.
            unattended: false,
            journalled: false,
        };
        // The call may end before the answer, and this with it: the question is taken back then, by a task of its own.
        let over = self.stop.child_token();
        let _over = over.clone().drop_guard();
        let (shared, session) = (self.shared.clone(), self.session.clone());
        let asked = self.shared.executor.spawn(async move {
            let _asking = tokio::select! {
                biased;
                () = over.cancelled() => return Resolution::Withdrawn,
                asking = session.asking.lock() => asking,
            };
            shared.questions.ask(question, &over).await
        });
        match asked.await.unwrap_or(Resolution::Withdrawn) {
            Resolution::Accepted { answer, .. } => Elicited::Yes(answer),
            Resolution::Cancelled { .. } => Elicited::No,
            Resolution::Headless | Resolution::TimedOut | Resolution::Withdrawn => Elicited::Nothing,
        }
    }

    /// Who asks, and what for.
    fn head(&self, ask: &Ask, message: &str) -> String {
        format!("The {} {} asks you, for {}:\n{}", self.asker, ask.server, ask.subject, message.trim())
    }

    async fn page(&self, ask: &Ask, message: &str, url: &str, is_first: bool) -> ElicitReply {
        let head = self.head(ask, message);
        // What a browser opens, with the host as the network has it.
        let Some(Page { host, address, warnings }) = Page::read(url) else { return ElicitReply::Declined };
        let prompt = match is_first {
            false => format!(
                "{head}\n\nIt wants you to open a page of this host:\n\n    {host}\n\n{address}\n\nDo you open it?"
            ),
            true => format!(
                "{head}\n\nIt wants you to open a page of this host first:\n\n    {host}\n\n{address}\n\nSay yes when you \
                 are done there: it is then asked again."
            ),
        };
        self.consent(ask, prompt, warnings).await
    }

    /// A yes or no to all that the server asks.
    async fn consent(&self, ask: &Ask, prompt: String, warnings: Vec<String>) -> ElicitReply {
        match self.put(ask, QuestionContent::Confirm { prompt, default: false }, warnings).await {
            Elicited::Yes(question::Answer::Confirm(true)) => ElicitReply::Agreed,
            Elicited::Yes(_) | Elicited::No => ElicitReply::Declined,
            Elicited::Nothing => ElicitReply::Cancelled,
        }
    }

    /// One question after the other. A no to the first is a no to the form; a later one cancels it.
    async fn form(&self, ask: &Ask, message: &str, fields: &[Field]) -> ElicitReply {
        let head = self.head(ask, message);
        if fields.is_empty() {
            return self.consent(ask, head, Vec::new()).await;
        }
        let mut values = Map::new();
        for (place, field) in fields.iter().enumerate() {
            let number = match fields.len() {
                1 => String::new(),
                count => format!("{} of {count}. ", place.saturating_add(1)),
            };
            let prompt = format!("{head}\n\n{number}{}", about(field));
            match self.field(ask, field, prompt).await {
                Ok(Some(value)) => {
                    values.insert(Value::from(field.key.to_string()), value);
                }
                Ok(None) => {}
                Err(Elicited::No) if place == 0 => return ElicitReply::Declined,
                Err(_) => return ElicitReply::Cancelled,
            }
        }
        ElicitReply::Form(values)
    }

    /// The value of a field; `None` for one that is left out.
    async fn field(
        &self,
        ask: &Ask,
        field: &Field,
        prompt: String,
    ) -> Result<Option<Value<'static>>, Elicited> {
        match &field.kind {
            FieldKind::Switch { default } => {
                let content = QuestionContent::Confirm { prompt, default: default.unwrap_or(false) };
                match self.put(ask, content, Vec::new()).await {
                    Elicited::Yes(question::Answer::Confirm(is_on)) => Ok(Some(Value::from(is_on))),
                    Elicited::Yes(_) => Err(Elicited::Nothing),
                    said => Err(said),
                }
            }
            FieldKind::Choice { options, many: false, .. } => {
                let mut shown: Vec<String> = options.iter().map(|option| option.title.to_string()).collect();
                if !field.required {
                    shown.push(LEFT_OUT.to_owned());
                }
                let chosen = self.chosen(ask, QuestionContent::Select { prompt, options: shown }).await?;
                Ok(options.get(chosen).map(|option| Value::from(option.value.to_string())))
            }
            FieldKind::Choice { options, most, .. } => self.several(ask, field, prompt, options, *most).await,
            FieldKind::Text { default, .. } => {
                self.typed(ask, field, prompt, default.as_deref().map(str::to_owned)).await
            }
            FieldKind::Number { default, .. } => {
                self.typed(ask, field, prompt, default.map(|number| number.to_string())).await
            }
        }
    }

    async fn chosen(&self, ask: &Ask, content: QuestionContent) -> Result<usize, Elicited> {
        match self.put(ask, content, Vec::new()).await {
            Elicited::Yes(question::Answer::Option(place)) => Ok(place),
            Elicited::Yes(_) => Err(Elicited::Nothing),
            said => Err(said),
        }
    }

    /// Several choices, one after the other until the person has all.
    async fn several(
        &self,
        ask: &Ask,
        field: &Field,
        prompt: String,
        options: &[mcp::Choice],
        most: Option<u64>,
    ) -> Result<Option<Value<'static>>, Elicited> {
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(options.len());
        let mut left: Vec<&mcp::Choice> = options.iter().collect();
        let mut chosen: Vec<&mcp::Choice> = Vec::new();
        let mut note = String::new();
        let mut tries = 0usize;
        while !left.is_empty() && chosen.len() < most {
            let titles: Vec<&str> = chosen.iter().map(|option| &*option.title).collect();
            let so_far =
                if titles.is_empty() { String::new() } else { format!("\nChosen: {}.", titles.join(", ")) };
            let mut shown: Vec<String> = left.iter().map(|option| option.title.to_string()).collect();
            shown.push("(that is all)".to_owned());
            let content =
                QuestionContent::Select { prompt: format!("{prompt}{so_far}{note}"), options: shown };
            let place = self.chosen(ask, content).await?;
            if place < left.len() {
                chosen.push(left.remove(place));
                continue;
            }
            let values = Value::vector(chosen.iter().map(|option| Value::from(option.value.to_string())));
            match field.check(&values) {
                Ok(_) => break,
                Err(_) if chosen.is_empty() && !field.required => return Ok(None),
                Err(wrong) if tries < MCP_FIELD_TRIES => note = format!("\n{} {wrong}.", field.title),
                Err(_) => return Err(Elicited::Nothing),
            }
            tries = tries.saturating_add(1);
        }
        Ok(Some(Value::vector(chosen.iter().map(|option| Value::from(option.value.to_string())))))
    }

    /// A text or a number, asked for again while it does not fit.
    async fn typed(
        &self,
        ask: &Ask,
        field: &Field,
        prompt: String,
        default: Option<String>,
    ) -> Result<Option<Value<'static>>, Elicited> {
        let mut note = String::new();
        for _ in 0..MCP_FIELD_TRIES {
            let content = QuestionContent::Ask { prompt: format!("{prompt}{note}") };
            let text = match self.put(ask, content, Vec::new()).await {
                Elicited::Yes(question::Answer::Text(text)) => text,
                Elicited::Yes(_) => return Err(Elicited::Nothing),
                said => return Err(said),
            };
            let text = match (text.trim().is_empty(), &default) {
                (true, Some(default)) => default.clone(),
                (true, None) if !field.required => return Ok(None),
                _ => text,
            };
            match field.check(&Value::from(text)) {
                Ok(value) => return Ok(Some(value)),
                Err(wrong) => note = format!("\n\n{} {wrong}. Try again.", field.title),
            }
        }
        Err(Elicited::Nothing)
    }

    /// An answer of the session's model, without tools, once the person has seen what it is asked.
    async fn sample(&self, ask: &Ask, sampling: &Sampling) -> ElicitReply {
        let facts = self.session.snapshot().facts.clone();
        let whole = shown(sampling);
        let start =
            long_text::start_of(&self.shared, &self.session.id, "text", &whole, APPROVAL_ARGUMENTS_BYTES)
                .await;
        let summary = format!(
            "The server {} asks your model {} {} for a text, for {}: {}",
            ask.server,
            facts.model_provider,
            facts.model_id,
            ask.subject,
            tool::one_line(&start.text, APPROVAL_ARGUMENTS_BYTES)
        );
        let mut warnings = start.warnings;
        warnings.extend(warning::of("The text for the model", &Value::from(whole.as_str())));
        let approval = Approval {
            tool: format!("mcp__{}__sampling", ask.server).into(),
            call: ask.call.clone().unwrap_or_default(),
            summary: summary.into(),
            ..Approval::default()
        };
        match self.put(ask, QuestionContent::Approve(approval), warnings).await {
            // However far the approval is to reach: each time is asked about.
            Elicited::Yes(question::Answer::Approve { .. }) => {}
            Elicited::Yes(_) | Elicited::No => return ElicitReply::Declined,
            Elicited::Nothing => return ElicitReply::Cancelled,
        }
        let config = self.session.config();
        let Some(provider) = config.providers.get(&facts.model_provider) else {
            return ElicitReply::Cancelled;
        };
        let model = config.models.describe(&facts.model_provider, &facts.model_id);
        let message = |role, text: &str| {
            Arc::new(Message::new(EntryId::from(""), role, vec![Block::Text(text.into())], Arc::from("")))
        };
        let messages = sampling
            .messages
            .iter()
            .map(|said| message(if said.by_model { Role::Assistant } else { Role::User }, &said.text));
        let most = model.max_output.map_or(sampling.most_tokens, |most| most.min(sampling.most_tokens));
        let work =
            Work::model_call(self.session.id.as_str(), provider.name(), &facts.model_id, Some(most.max(1)));
        let mut chunks = provider.stream(ModelRequest {
            model: facts.model_id.to_string(),
            session: Arc::from(""),
            system: sampling.system.as_deref().unwrap_or_default().to_owned(),
            messages: messages.collect(),
            withheld: Arc::from([]),
            tools: Vec::new(),
            web_search: false,
            thinking: ThinkingLevel::Off.within(&facts.thinking_levels),
            thinking_by: model.thinking_by,
            thinking_tags: model.thinking_tags,
            takes: model.takes.clone(),
            max_output_tokens: Some(most.max(1)),
            variables: self.session.control.load().as_ref().and_then(|control| control.variables()),
        });
        let (mut text, mut is_cut) = (String::new(), false);
        loop {
            let chunk = tokio::select! {
                biased;
                () = self.stop.cancelled() => return ElicitReply::Cancelled,
                chunk = chunks.next() => chunk,
            };
            match chunk {
                Some(Ok(Chunk::Text(piece))) => text.push_str(&piece),
                Some(Ok(Chunk::End(end))) => is_cut |= end == AnswerEnd::Limit,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    work.end(Some(error.kind.as_str()));
                    tracing::warn!(%error, server = &*ask.server, "the model gave no text for a server");
                    return ElicitReply::Cancelled;
                }
                None => break,
            }
            if text.len() > MAX_ANSWER_BYTES {
                is_cut = true;
                break;
            }
        }
        work.end(None);
        ElicitReply::Sampled(Sampled {
            model: format!("{}/{}", facts.model_provider, facts.model_id),
            text,
            is_cut,
        })
    }
}

/// A page as a person is shown it.
struct Page {
    host: String,
    address: String,
    warnings: Vec<String>,
}

impl Page {
    fn read(url: &str) -> Option<Self> {
        let parsed = Url::parse(url).ok()?;
        let host = parsed.host_str()?.to_owned();
        let mut warnings = Vec::new();
        if !parsed.username().is_empty() || parsed.password().is_some() {
            warnings.push(format!("What stands before the @ is no host: the page is one of {host}."));
        }
        if host.split('.').any(|label| label.starts_with("xn--")) {
            warnings.push(format!(
                "The host {host} is written with letters that may look like others: it is shown as the network has it."
            ));
        }
        if parsed.scheme() != "https" {
            warnings.push("The page is not encrypted (http).".to_owned());
        }
        if host::is_private(&parsed) {
            warnings.push(format!("The host {host} is on this machine or in a private network."));
        }
        Some(Self { host, address: parsed.to_string(), warnings })
    }
}

/// The choice of leaving a field out.
const LEFT_OUT: &str = "(leave out)";

/// What a person reads about a field.
fn about(field: &Field) -> String {
    let mut text = field.title.to_string();
    if let Some(description) = &field.description {
        text.push_str(&format!(" — {description}"));
    }
    let default = match &field.kind {
        FieldKind::Text { default, .. } => default.as_deref().map(str::to_owned),
        FieldKind::Number { default, .. } => default.map(|number| number.to_string()),
        FieldKind::Switch { .. } | FieldKind::Choice { .. } => None,
    };
    match (default, field.required, &field.kind) {
        (Some(default), ..) => text.push_str(&format!(" (nothing for {default:?})")),
        (None, false, FieldKind::Text { .. } | FieldKind::Number { .. }) => {
            text.push_str(" (nothing to leave it out)")
        }
        _ => {}
    }
    text
}

/// What a server wants the model to be told.
fn shown(sampling: &Sampling) -> String {
    let mut all = Vec::new();
    if let Some(system) = &sampling.system {
        all.push(format!("[system] {system}"));
    }
    for message in &sampling.messages {
        all.push(format!("[{}] {}", if message.by_model { "model" } else { "user" }, message.text));
    }
    all.push(format!("[at most {} tokens]", sampling.most_tokens));
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_shown_by_the_host_that_it_is_of() {
        for (url, host, warned) in [
            ("https://login.example/start?x=1", "login.example", ""),
            ("https://github.com@evil.example/", "evil.example", "before the @"),
            ("https://g\u{456}thub.com/login", "xn--gthub-n2e.com", "look like others"),
            ("http://a.example/", "a.example", "not encrypted"),
            ("https://127.1/", "127.0.0.1", "private network"),
        ] {
            let page = Page::read(url).unwrap();
            assert_eq!(page.host, host);
            assert!(!page.address.contains('\u{456}'), "{}", page.address);
            let warnings = page.warnings.join(" ");
            assert!(
                if warned.is_empty() { warnings.is_empty() } else { warnings.contains(warned) },
                "{warnings}"
            );
        }
    }
}
