//! The tools that clients offer: checked when they come, put into the session's toolbox, and carried out by a request
//! to their client. Knows no wire, and runs no tool itself.

use std::sync::Arc;
use std::time::Duration;

use crate::edn;
use crate::engine::client_requests::{ClientRequests, RequestFailure};
use crate::engine::execution;
use crate::event::{Body, ToolRequest};
use crate::limits::{
    CLIENT_DETAILS_BYTES, CLIENT_TOOL_DESCRIPTION_BYTES, CLIENT_TOOL_LONGEST, CLIENT_TOOL_NAME_BYTES,
    CLIENT_TOOL_SCHEMA_BYTES, CLIENT_TOOL_TIME, CLIENT_TOOLS, TOOL_EXCERPT_BYTES,
};
use crate::message::Block;
use crate::provider::ToolSpec;
use crate::session::{OfferedTool, ToolAnswer};
use crate::tool::permission::Access;
use crate::tool::toolbox::{BringError, Source, Toolbox};
use crate::tool::{self, CallError, CallFuture, Context, Outcome, Plan, Site, Tool, path};
use crate::value::{Map, Value};

/// Why a client's tools are not taken. The text ends a sentence that says what they are for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// They are too many.
    #[error("at most {CLIENT_TOOLS} tools")]
    TooMany,
    /// One of them has a wrong shape.
    #[error("the tool {name:?}: {wrong}")]
    Unfit { name: String, wrong: String },
    /// They do not fit to the session's other tools.
    #[error("that {0}")]
    Session(#[from] BringError),
}

/// Puts a connection's tools into a toolbox, in place of its earlier ones. Returns the names that others offer too.
///
/// # Errors
/// See [`OfferError`]; nothing has changed then.
pub fn offer(
    toolbox: &Toolbox,
    requests: &Arc<ClientRequests<ToolAnswer>>,
    connection: u64,
    tools: Vec<OfferedTool>,
) -> Result<Vec<String>, OfferError> {
    if tools.len() > CLIENT_TOOLS {
        return Err(OfferError::TooMany);
    }
    let offered: Result<Vec<Arc<dyn Tool>>, OfferError> = tools
        .into_iter()
        .map(|tool| {
            check(&tool)
                .map_err(|wrong| OfferError::Unfit { name: tool::one_line(&tool.name, 100), wrong })?;
            Ok(Arc::new(ClientTool { tool, connection, requests: requests.clone() }) as Arc<dyn Tool>)
        })
        .collect();
    Ok(toolbox.bring(&Source::Client(connection), offered?)?)
}

/// What is wrong with a tool, if anything.
fn check(tool: &OfferedTool) -> Result<(), String> {
    let mut letters = tool.name.chars();
    let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    let goes_on = letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'));
    if !(begins && goes_on && tool.name.len() <= CLIENT_TOOL_NAME_BYTES) {
        return Err(format!(
            "its name must be a letter and letters, digits, - and _, at most {CLIENT_TOOL_NAME_BYTES}"
        ));
    }
    if tool.name == execution::COMPLETE {
        return Err("its name is taken".to_owned());
    }
    if tool.description.trim().is_empty() || tool.description.len() > CLIENT_TOOL_DESCRIPTION_BYTES {
        return Err(format!(
            "its description must be a text of at most {CLIENT_TOOL_DESCRIPTION_BYTES} bytes"
        ));
    }
    let is_object = tool.parameters.as_map().is_some() && text_of(&tool.parameters, "type") == Some("object");
    if !is_object || edn::to_string(&tool.parameters).len() > CLIENT_TOOL_SCHEMA_BYTES {
        return Err(format!(
            "its parameters must be a JSON schema of an object, at most {CLIENT_TOOL_SCHEMA_BYTES} bytes"
        ));
    }
    if tool.timeout.is_some_and(|time| time.is_zero() || time > CLIENT_TOOL_LONGEST) {
        let most = CLIENT_TOOL_LONGEST.as_secs();
        return Err(format!("its time-out must be 1 to {most} seconds"));
    }
    Ok(())
}

/// A text in data whose keys are keywords or strings.
fn text_of<'v>(value: &'v Value<'_>, key: &str) -> Option<&'v str> {
    let found = value.get(key).or_else(|| value.as_map()?.get(&Value::from(key.to_owned())));
    found.and_then(Value::as_str)
}

/// A tool that a client carries out.
struct ClientTool {
    tool: OfferedTool,
    connection: u64,
    requests: Arc<ClientRequests<ToolAnswer>>,
}

impl ClientTool {
    fn timeout(&self) -> Duration {
        self.tool.timeout.unwrap_or(CLIENT_TOOL_TIME)
    }
}

impl Tool for ClientTool {
    fn spec(&self) -> ToolSpec {
        let OfferedTool { name, description, parameters, .. } = &self.tool;
        ToolSpec { name: name.clone(), description: description.clone(), parameters: parameters.clone() }
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        match arguments.as_map() {
            Some(arguments) if arguments.is_empty() => self.tool.name.clone(),
            _ => format!("{} {}", self.tool.name, edn::to_string(arguments)),
        }
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        let read_only = self.tool.read_only;
        let named = self.tool.path.as_deref().and_then(|key| Some((key, arguments.get(key)?)));
        let access = match named {
            None | Some((_, Value::Nil)) => Access::AtClient { read_only },
            Some((key, path)) => {
                let path = path.as_str().ok_or_else(|| {
                    CallError::Unfit(format!("The argument {key} must be the path of a file or folder."))
                })?;
                let path = path::resolve(site.cwd, path)?;
                if read_only { Access::Read(path) } else { Access::Write(path) }
            }
        };
        Ok(Plan { access, diff: None })
    }

    fn run<'a>(&'a self, context: &'a Context, _: &'a Plan, _: &'a Value<'static>) -> CallFuture<'a> {
        Box::pin(async move {
            let (timeout, name) = (self.timeout(), &self.tool.name);
            let request = |request| {
                Body::ToolRequested(Arc::new(ToolRequest { request, call: context.call.clone(), timeout }))
            };
            let progress = {
                let shown = context.progress.clone();
                Arc::new(move |newest: &str| shown(end_of(newest, TOOL_EXCERPT_BYTES)))
            };
            let answer = self
                .requests
                .ask(self.connection, request, context.event.as_ref(), progress, &context.stop, timeout)
                .await;
            match answer {
                Ok(answer) => outcome(context, answer).await,
                Err(RequestFailure::Left) => Outcome::failed(format!(
                    "The client that offers the tool {name} left before it answered. What it has done is not known."
                )),
                Err(RequestFailure::Ended) => Outcome::failed(CallError::Ended),
                Err(RequestFailure::TimedOut) => Outcome::failed(format!(
                    "The tool {name} did not answer in {} s. What it has done is not known.",
                    timeout.as_secs()
                )),
            }
        })
    }
}

/// A client's answer as the outcome of a call: of a long text only the excerpt, the rest under a handle.
async fn outcome(context: &Context, answer: ToolAnswer) -> Outcome {
    let ToolAnswer { text, is_error, images, details } = answer;
    let (outputs, handle) = (context.outputs.clone(), context.handle.clone());
    let kept = tokio::task::spawn_blocking(move || outputs.keep(handle, &text)).await;
    let Ok(kept) = kept else { return Outcome::failed(CallError::Broken) };
    let mut outcome = Outcome::kept(kept);
    outcome.is_error = is_error;
    outcome.images = images
        .into_iter()
        .map(|image| {
            let (mime_type, data) = image.into_parts();
            Block::Image { mime_type, data }
        })
        .collect();
    if !details.is_empty() {
        outcome.details.put("client", Value::from(details));
    }
    outcome
}

/// Whether a client's further facts are few enough to be passed on.
pub fn is_bounded(details: &Map<'static>) -> bool {
    edn::to_string(&Value::from(details.clone())).len() <= CLIENT_DETAILS_BYTES
}

/// The end of a text, at most that many bytes.
fn end_of(text: &str, most: usize) -> &str {
    let start = text.len().saturating_sub(most);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(start..).unwrap_or_default()
}
