//! Prompts of servers as slash commands: what is listed of them, and the text of one with its arguments.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::registry::McpDesk;
use crate::catalogue::ErrorCode;
use crate::context::delimiters::marked;
use crate::engine::handle::Handle;
use crate::facts::CommandFacts;
use crate::limits::{EXPANSION_BYTES, MCP_LISTED_TEXT_BYTES};
use crate::mcp::{Answerer, Argument, Content, Prompt, PromptText, ServerFacts, Servers};
use crate::message::image::Image;
use crate::session::{self, ApiError};
use crate::similar;
use crate::tool::one_line;
use crate::value::Value;

/// The prompts of servers as slash commands, for completion.
pub fn commands(used: &[(Servers, ServerFacts)]) -> Vec<CommandFacts> {
    let of_server = |server: &ServerFacts| {
        let server = server.clone();
        let prompts = server.prompts.clone();
        prompts.iter().map(|prompt| command(&server, prompt)).collect::<Vec<_>>()
    };
    used.iter().flat_map(|(_, server)| of_server(server)).collect()
}

fn command(server: &ServerFacts, prompt: &Prompt) -> CommandFacts {
    CommandFacts {
        name: prompt.command.to_string(),
        usage: usage(prompt),
        description: one_line(&format!("{}: {}", server.name, prompt.description), MCP_LISTED_TEXT_BYTES),
        source: "mcp",
        server: Some(server.name.clone()),
    }
}

/// The syntax of a prompt as a command.
fn usage(prompt: &Prompt) -> String {
    let mut usage = format!("/{}", prompt.command);
    for argument in &prompt.arguments {
        match argument.required {
            true => usage.push_str(&format!(" {}", argument.name)),
            false => usage.push_str(&format!(" [{}]", argument.name)),
        }
    }
    usage
}

/// The arguments of a prompt, out of what was typed: `name=value`, or one after the other. The last one takes what is left.
///
/// # Errors
/// The syntax, if a required one is missing.
fn arguments(prompt: &Prompt, typed: &str) -> Result<Vec<(String, String)>, String> {
    let is_named = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let argument = prompt.arguments.iter().find(|argument| *argument.name == *name)?;
        Some((argument.name.to_string(), value.to_owned()))
    };
    let mut given: Vec<(String, String)> = Vec::new();
    let mut free = Vec::new();
    let whole = typed.trim();
    if let [argument] = prompt.arguments.as_slice()
        && !whole.is_empty()
        && is_named(whole).is_none()
    {
        given.push((argument.name.to_string(), unquoted(whole)));
    } else {
        for word in words(whole) {
            match is_named(&word) {
                Some(named) if !given.iter().any(|(known, _)| *known == named.0) => given.push(named),
                _ => free.push(word),
            }
        }
    }
    let is_given = |given: &[(String, String)], argument: &Argument| {
        given.iter().any(|(known, _)| *known == *argument.name)
    };
    let open: Vec<&Argument> =
        prompt.arguments.iter().filter(|argument| !is_given(&given, argument)).collect();
    let mut free = free.into_iter();
    for (place, argument) in open.iter().enumerate() {
        let value = match place.saturating_add(1) == open.len() {
            true => free.by_ref().collect::<Vec<_>>().join(" "),
            false => free.next().unwrap_or_default(),
        };
        if !value.is_empty() {
            given.push((argument.name.to_string(), value));
        }
    }
    match free.next().is_some()
        || prompt.arguments.iter().any(|argument| argument.required && !is_given(&given, argument))
    {
        true => Err(format!("Usage: {}", usage(prompt))),
        false => Ok(given),
    }
}

fn unquoted(text: &str) -> String {
    let inner =
        text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(|text| !text.contains('"'));
    inner.unwrap_or(text).to_owned()
}

/// The words of a text; what stands in quotes, also after a `=`, belongs to one.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

impl McpDesk {
    /// A message of the user: the prompt of a server with its arguments, between marks. Starts the servers if need be. What
    /// the server asks meanwhile goes to `answerer`.
    ///
    /// # Errors
    /// If there is no such prompt, arguments are missing, the server does not answer, or it is told to stop.
    pub async fn fill_in_prompt(
        self: &Arc<Self>,
        session: &Handle,
        name: &str,
        typed: &str,
        answerer: Arc<dyn Answerer>,
        stop: &CancellationToken,
    ) -> Result<session::Prompt, ApiError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(aborted(name)),
            filled = self.filled_in(session, name, typed, &answerer, stop) => filled,
        }
    }

    async fn filled_in(
        self: &Arc<Self>,
        session: &Handle,
        name: &str,
        typed: &str,
        answerer: &Arc<dyn Answerer>,
        stop: &CancellationToken,
    ) -> Result<session::Prompt, ApiError> {
        self.ready(session).await;
        let used = self.used(session);
        let known = used.iter().find_map(|(set, server)| {
            let prompt = server.prompts.iter().find(|prompt| *prompt.command == *name)?;
            Some((set, server, prompt))
        });
        let (set, server, prompt) = known.ok_or_else(|| unknown(name, &used))?;
        let given = arguments(prompt, typed).map_err(ApiError::failed)?;
        let filled = set.prompt(&server.name, &prompt.name, &given, answerer, stop).await;
        let filled = filled.map_err(|error| match stop.is_cancelled() {
            true => aborted(name),
            false => ApiError::failed(error.to_string()),
        })?;
        let (text, images) = text(&filled);
        if text.len() > EXPANSION_BYTES {
            let message = format!("/{name} with these arguments is longer than {EXPANSION_BYTES} bytes.");
            return Err(ApiError::failed(message));
        }
        let attributes = [("server", &*server.name), ("prompt", &*prompt.name)];
        let message = marked("server-prompt", &attributes, &text);
        Ok(session::Prompt { message, images, idempotency_key: None })
    }
}

/// The text of a prompt, and its images.
fn text(filled: &PromptText) -> (String, Vec<Image>) {
    let (mut text, mut images) = (String::new(), Vec::new());
    let mut add = |piece: &str| {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(piece);
    };
    for message in &filled.messages {
        match &message.content {
            Content::Text(piece) if message.by_model => add(&format!("Assistant: {piece}")),
            Content::Text(piece) => add(piece),
            Content::Image { mime_type, data } => match Image::from_base64(mime_type, data) {
                Ok(image) => images.push(image),
                Err(_) => add(&format!("[an image of the type {mime_type}, which cannot be shown]")),
            },
        }
    }
    (text, images)
}

fn aborted(name: &str) -> ApiError {
    ApiError::failed(format!("/{name} was aborted before its server had answered."))
}

/// `request/unknown-command`, with the most similar names.
fn unknown(name: &str, used: &[(Servers, ServerFacts)]) -> ApiError {
    let names = used.iter().flat_map(|(_, server)| server.prompts.iter().map(|prompt| &*prompt.command));
    let nearest = similar::names(name, names);
    let hint = match nearest.first() {
        Some(near) => format!(" Did you mean /{near}?"),
        None => " /mcp lists the servers and what they have.".to_owned(),
    };
    let listed = Value::vector(nearest.iter().map(|name| Value::from((*name).to_owned())));
    ApiError::new(ErrorCode::UnknownCommand, format!("There is no command /{name}.{hint}"))
        .with("nearest", listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> Prompt {
        let argument = |(name, required): &(&str, bool)| Argument {
            name: (*name).into(),
            description: "".into(),
            required: *required,
        };
        Prompt {
            name: "p".into(),
            command: "mcp__s__p".into(),
            title: None,
            description: "".into(),
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    #[test]
    fn arguments_are_given_in_order_or_by_name() {
        let two = [("a", true), ("b", false)];
        for (known, typed, expected) in [
            (&two[..], "x y z", Some(vec![("a", "x"), ("b", "y z")])),
            (&two, "\"x y\" z", Some(vec![("a", "x y"), ("b", "z")])),
            (&two, "b=1 x", Some(vec![("b", "1"), ("a", "x")])),
            (&two, "b=\"1 2\" a=3", Some(vec![("b", "1 2"), ("a", "3")])),
            (&two, "x c=1", Some(vec![("a", "x"), ("b", "c=1")])),
            (&two, "b=1", None),
            (&two, "", None),
            (&[("a", true)], " all of it ", Some(vec![("a", "all of it")])),
            (&[("a", true)], "a=all", Some(vec![("a", "all")])),
            (&[("a", false)], "", Some(vec![])),
            (&[], "", Some(vec![])),
            (&[], "x", None),
        ] {
            let read = arguments(&prompt(known), typed).ok();
            let expected = expected.map(|all| {
                all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
            });
            assert_eq!(read, expected, "{typed:?}");
        }
        assert_eq!(arguments(&prompt(&two), "").unwrap_err(), "Usage: /mcp__s__p a [b]");
    }
}
