//! A tool of a server, as one of the session's.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde_json::Value as Json;

use super::calls::Caller;
use super::convert::{self, json_of, value_of};
use super::elicit::Answerer;
use super::error::McpError;
use super::facts::{Content, ToolFacts};
use super::slot::Slot;
use crate::edn;
use crate::limits::{MCP_DETAILS_BYTES, MCP_IMAGES, MCP_RESULT_BYTES};
use crate::message::Block;
use crate::peer::Redactor;
use crate::provider::ToolSpec;
use crate::tool::permission::Access;
use crate::tool::{CallError, CallFuture, Context, Outcome, Plan, Site, Tool, UNKNOWN};
use crate::value::{Map, Value};

/// A tool of a server, with who answers the server's questions.
pub(super) struct ServerTool {
    pub(super) slot: Arc<Slot>,
    pub(super) facts: ToolFacts,
    pub(super) answerer: Arc<dyn Answerer>,
}

impl Tool for ServerTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.facts.name.to_string(),
            description: self.facts.description.to_string(),
            parameters: self.facts.schema.as_ref().clone(),
        }
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        match arguments.as_map() {
            Some(arguments) if arguments.is_empty() => self.facts.name.to_string(),
            _ => format!("{} {}", self.facts.name, edn::to_string(arguments)),
        }
    }

    fn plan(&self, _: Site<'_>, _: &Value<'_>) -> Result<Plan, CallError> {
        let access = Access::Call {
            server: self.slot.server().name.to_string(),
            tool: self.facts.tool.to_string(),
            read_only: self.facts.read_only,
        };
        Ok(Plan { access, diff: None })
    }

    fn run<'a>(&'a self, context: &'a Context, _: &'a Plan, arguments: &'a Value<'static>) -> CallFuture<'a> {
        Box::pin(async move {
            let mut params = CallToolRequestParams::new(self.facts.tool.to_string());
            if let Json::Object(arguments) = json_of(arguments) {
                params = params.with_arguments(arguments);
            }
            let caller = Caller {
                subject: self.facts.tool.clone(),
                call: Some(context.call.id.clone()),
                answerer: Some(self.answerer.clone()),
                progress: Some(context.progress.clone()),
            };
            match self.slot.call_tool(params, &self.facts.digest, caller, &context.stop).await {
                Ok((result, noted)) => outcome(context, result, &noted).await,
                Err(McpError::Ended) => Outcome::failed(CallError::Ended),
                Err(error) => {
                    let is_unknown = error.may_have_run();
                    let mut outcome = Outcome::failed(error);
                    if is_unknown && !self.facts.read_only {
                        outcome.details.put(UNKNOWN, true);
                    }
                    outcome
                }
            }
        })
    }
}

/// A server's result as the outcome of a call: of a long text only the excerpt, the rest under a handle.
async fn outcome(context: &Context, result: CallToolResult, noted: &Redactor) -> Outcome {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    let mut left_out = 0usize;
    for block in result.content {
        match convert::content(block, noted) {
            Content::Text(text) => texts.push(text.to_string()),
            Content::Image { mime_type, data } if images.len() < MCP_IMAGES => {
                images.push(Block::Image { mime_type, data });
            }
            Content::Image { .. } => left_out = left_out.saturating_add(1),
        }
    }
    if left_out > 0 {
        texts.push(format!("[{left_out} more images: at most {MCP_IMAGES} of one result are shown]"));
    }
    let structured = result.structured_content.map(|json| noted.redact_json(json));
    // Servers repeat a structured result as text; where one does not, it is a text more.
    if let Some(structured) = &structured
        && !texts.iter().any(|text| serde_json::from_str::<Json>(text).is_ok_and(|json| json == *structured))
    {
        texts.push(serde_json::to_string_pretty(structured).unwrap_or_default());
    }
    let mut text = crate::peer::cut(&texts.join("\n\n"), MCP_RESULT_BYTES).to_string();
    if text.is_empty() && images.is_empty() {
        text.push_str("[the tool returned nothing]");
    }
    let (outputs, handle) = (context.outputs.clone(), context.handle.clone());
    let kept = tokio::task::spawn_blocking(move || outputs.keep(handle, &text)).await;
    let Ok(kept) = kept else { return Outcome::failed(CallError::Broken) };
    let mut outcome = Outcome::kept(kept);
    outcome.is_error = result.is_error.unwrap_or(false);
    outcome.images = images;
    if let Some(structured) = structured.map(value_of) {
        let mut server = Map::new();
        server.put("structured", structured);
        if edn::to_string(&Value::from(server.clone())).len() <= MCP_DETAILS_BYTES {
            outcome.details.put("server", Value::from(server));
        }
    }
    outcome
}
