//! This program as a server of the protocol: what [`Offers`] has, as tools and resources, in both eras. Knows neither
//! sessions nor queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::{QuitReason, RequestContext};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::json;
use crate::limits::{MCP_LINE_BYTES, MCP_SERVED_CALLS};
use crate::value::{Map, Value};

/// What this program offers to clients of the protocol. Each call is on a thread that may block.
pub trait Offers: Send + Sync + 'static {
    /// How a model may use it.
    fn instructions(&self) -> String;

    /// The tools, the same for as long as it serves.
    fn tools(&self) -> Vec<OfferedTool>;

    /// Calls a tool. `call` names the call for [`Offers::cancel`].
    ///
    /// # Errors
    /// A sentence for the model.
    fn call(&self, tool: &str, arguments: &Map<'_>, call: u64) -> Result<ToolResponse, String>;

    /// Ends a call, if it runs: nobody waits for it.
    fn cancel(&self, call: u64);

    /// The resources, the newest first.
    ///
    /// # Errors
    /// A sentence for a person.
    fn resources(&self) -> Result<Vec<OfferedResource>, String>;

    /// The template of the addresses of all resources, and what they are.
    fn template(&self) -> OfferedResource;

    /// The text of a resource; `None` if there is no such one.
    ///
    /// # Errors
    /// A sentence for a person.
    fn read(&self, uri: &str) -> Result<Option<String>, String>;
}

/// A tool that is offered.
#[derive(Debug, Clone)]
pub struct OfferedTool {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// Its parameters, as a JSON schema.
    pub schema: Map<'static>,
    /// Whether it changes nothing.
    pub read_only: bool,
}

/// A resource that is offered.
#[derive(Debug, Clone)]
pub struct OfferedResource {
    /// Its address, or a template (RFC 6570).
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Its type.
    pub mime_type: &'static str,
}

/// What a tool returns.
#[derive(Debug, Clone)]
pub enum ToolResponse {
    /// A text.
    Text(String),
    /// Data, which a client may take apart.
    Data(Map<'static>),
}

/// Serves a client over a stream of lines, until it closes its side or `stop` is cancelled.
///
/// # Errors
/// If what comes first is no message of the protocol, or serving failed.
pub async fn serve(
    offers: Arc<dyn Offers>,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), String> {
    let handler =
        Handler { offers, calls: AtomicU64::new(0), room: Arc::new(Semaphore::new(MCP_SERVED_CALLS)) };
    let transport =
        AsyncRwTransport::new_server(read, write).with_max_line_length(MCP_LINE_BYTES.saturating_add(1));
    let running = match handler.serve_with_ct(transport, stop).await {
        Ok(running) => running,
        // A client that leaves before it has said anything wanted nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) => Err(error.to_string()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The answer to a line that is no JSON (JSON-RPC 2.0, 5.1), which the crate passes over; `None` for any other line.
pub fn unparsable(line: &[u8]) -> Option<String> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    let error = serde_json::from_slice::<serde_json::Value>(line).err()?;
    let error = serde_json::json!({ "code": -32700, "message": format!("The line is no JSON: {error}.") });
    Some(format!("{}\n", serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error })))
}

/// The answer to a line that is longer than a line may be, whose request nobody can read.
pub fn too_long() -> String {
    let message = format!("The line is longer than {MCP_LINE_BYTES} bytes.");
    let error = serde_json::json!({ "code": -32600, "message": message });
    format!("{}\n", serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error }))
}

/// The first argument that a tool does not have, as a sentence for the model: its schema permits no others.
fn unknown(tool: &OfferedTool, arguments: &Map<'_>) -> Option<String> {
    let known = tool.schema.get_keyword("properties").and_then(Value::as_map)?;
    let is_known = |key: &Value<'_>| known.get(key).is_some();
    let (key, _) = arguments.iter().find(|(key, _)| !is_known(key))?;
    let name: String = key.as_str().unwrap_or_default().chars().take(100).collect();
    let names: Vec<&str> = known.iter().filter_map(|(key, _)| key.as_str()).collect();
    Some(format!("{} has no argument {name:?}; it has {}.", tool.name, names.join(", ")))
}

struct Handler {
    offers: Arc<dyn Offers>,
    calls: AtomicU64,
    /// Calls that run at once.
    room: Arc<Semaphore>,
}

impl Handler {
    /// Asks on a thread that may block, until the client gives it up.
    async fn ask<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&dyn Offers, u64) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let failed = || ErrorData::internal_error("The call broke off.", None);
        let room = self.room.clone().acquire_owned().await.map_err(|_| failed())?;
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let offers = self.offers.clone();
        let running = tokio::task::spawn_blocking(move || {
            let _room = room;
            work(offers.as_ref(), call)
        });
        tokio::select! {
            done = running => done.map_err(|_| failed()),
            () = context.ct.cancelled() => {
                self.offers.cancel(call);
                Err(ErrorData::internal_error("The call was cancelled.", None))
            }
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_resources().build())
            .with_server_info(Implementation::new("edn-bridge", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.offers.instructions())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offers.tools().into_iter().map(|tool| {
            let hints = ToolAnnotations::from_raw(
                None,
                Some(tool.read_only),
                Some(!tool.read_only),
                None,
                Some(false),
            );
            rmcp::model::Tool::new(tool.name, tool.description, object(&tool.schema))
                .with_title(tool.title)
                .with_annotations(hints)
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.offers.tools().into_iter().find(|tool| *tool.name == *request.name) else {
            let name: String = request.name.chars().take(100).collect();
            return Err(ErrorData::invalid_params(format!("There is no tool {name:?}."), None));
        };
        let arguments = serde_json::to_vec(&request.arguments.unwrap_or_default()).unwrap_or_default();
        let answered = self.ask(&context, move |offers, call| {
            let read =
                json::read(&arguments).map_err(|error| format!("The arguments cannot be read: {error}."))?;
            let empty = Map::new();
            let arguments = read.as_map().unwrap_or(&empty);
            match unknown(&tool, arguments) {
                Some(why) => Err(why),
                None => offers.call(tool.name, arguments, call),
            }
        });
        let result = match answered.await? {
            Ok(ToolResponse::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Ok(ToolResponse::Data(data)) => {
                CallToolResult::structured(serde_json::Value::Object(object(&data)))
            }
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let found = self.ask(&context, |offers, _| offers.resources()).await?;
        let found = found.map_err(|why| ErrorData::internal_error(why, None))?;
        let resources = found.into_iter().map(|resource| {
            rmcp::model::Resource::new(resource.uri, resource.name)
                .with_description(resource.description)
                .with_mime_type(resource.mime_type)
        });
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = self.offers.template();
        let template = rmcp::model::ResourceTemplate::new(template.uri, template.name)
            .with_description(template.description)
            .with_mime_type(template.mime_type);
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let found = self.ask(&context, move |offers, _| offers.read(&uri)).await?;
        let found = found.map_err(|why| ErrorData::internal_error(why, None))?;
        let Some(text) = found else {
            let uri: String = request.uri.chars().take(200).collect();
            let data = serde_json::json!({ "uri": uri });
            return Err(ErrorData::resource_not_found(format!("There is no resource {uri:?}."), Some(data)));
        };
        let mime_type = self.offers.template().mime_type;
        let contents = ResourceContents::text(text, request.uri).with_mime_type(mime_type);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// Plain data as the crate has it.
fn object(map: &Map<'_>) -> JsonObject {
    let mut text = Vec::new();
    json::object(map, &mut text);
    serde_json::from_slice(&text).unwrap_or_default()
}
