//! A connection to a server: its greeting in either era, requests with their time, and its end.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, CompleteRequest,
    CompleteRequestParams, CompletionInfo, ErrorCode, GetPromptRequest, GetPromptRequestParams,
    GetPromptResult, InputRequiredResult, InputResponses, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ListToolsRequest, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, ServerCapabilities, ServerResult,
    SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
    serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::IntoTransport;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::{Call, Caller, Calls};
use super::facts::Era;
use super::failure::{Failure, of_request, of_start};
use super::handler::Handler;
use super::lenient::{self, LeftOut};
use crate::limits::{
    MCP_CALL_LONGEST, MCP_INSTRUCTIONS_BYTES, MCP_LISTEN_LONGEST, MCP_LISTEN_PAUSE, MCP_OPEN_REQUESTS,
    MCP_PAGES, MCP_ROUNDS, MCP_START_WAIT, MCP_TITLE_BYTES,
};
use crate::peer::{Child, Stderr};
use crate::peer::{Redactor, cut};

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The caller has ended it.
    Ended,
    /// Nothing came for so long.
    TimedOut(Duration),
    /// It failed.
    Failed(Failure),
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The protocol's code for a call that needs a page to be seen first.
const PAGE_FIRST: ErrorCode = ErrorCode(-32042);

/// How long all pages of a list may take, and until when.
pub(super) type Span = (Duration, Instant);

/// A connection to a server that has greeted.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    handler: Handler,
    child: Option<Child>,
    /// What went wrong with it, without its secrets.
    pub(super) noted: Arc<Redactor>,
    /// The era that is spoken.
    pub(super) era: Era,
    /// The revision of the protocol.
    pub(super) revision: Arc<str>,
    /// What the server calls itself.
    pub(super) title: Option<Arc<str>>,
    /// What it says of its use.
    pub(super) instructions: Option<Arc<str>>,
    pub(super) capabilities: ServerCapabilities,
    open: Semaphore,
    used: Mutex<Instant>,
    /// Ends it.
    end: CancellationToken,
    /// It has ended.
    gone: CancellationToken,
}

/// Greets a server over a transport, in a time of ours.
///
/// # Errors
/// See [`Failure`].
pub(super) async fn greet<T, E, A>(
    transport: T,
    handler: Handler,
    mode: ClientLifecycleMode,
    end: CancellationToken,
) -> Result<RunningService<RoleClient, Handler>, Failure>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    // The greeting ends with the future, and with it the transport.
    let greeting = serve_client_with_lifecycle_and_ct(handler, transport, mode, end);
    match timeout(MCP_START_WAIT, greeting).await {
        Ok(greeted) => greeted.map_err(of_start),
        Err(_) => Err(Failure::Other(format!("it did not greet within {} s", MCP_START_WAIT.as_secs()))),
    }
}

/// How a server is greeted whose era is known, or is not.
pub(super) fn mode(era: Option<Era>) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match era {
        Some(Era::Handshake) => ClientLifecycleMode::Initialize,
        Some(Era::Discover) => ClientLifecycleMode::Discover { preferred_versions },
        None => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
    }
}

impl Connection {
    /// A connection that has greeted. Its waiting runs on `tasks`.
    pub(super) fn new(
        service: RunningService<RoleClient, Handler>,
        handler: Handler,
        child: Option<Child>,
        noted: Arc<Redactor>,
        end: CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let peer = service.peer().clone();
        let info = peer.peer_info();
        let revision =
            info.as_ref().map(|info| info.protocol_version.as_str().to_owned()).unwrap_or_default();
        let is_old = info.as_ref().is_none_or(|info| info.protocol_version.has_initialize());
        let title = info.as_ref().and_then(|info| info.server_info.as_ref()).map(|own| {
            let name = own.title.as_deref().unwrap_or(&own.name);
            cut(&noted.redact(&format!("{name} {}", own.version)), MCP_TITLE_BYTES)
        });
        let instructions = info.as_ref().and_then(|info| info.instructions.as_deref());
        let instructions = instructions.map(str::trim).filter(|text| !text.is_empty());
        let gone = CancellationToken::new();
        let ended = gone.clone();
        tasks.spawn(async move {
            let _ended = ended.drop_guard();
            let _ = service.waiting().await;
        });
        let connection = Self {
            peer,
            child,
            era: if is_old { Era::Handshake } else { Era::Discover },
            revision: cut(&noted.redact(&revision), MCP_TITLE_BYTES),
            title,
            instructions: instructions.map(|text| cut(&noted.redact(text), MCP_INSTRUCTIONS_BYTES)),
            capabilities: info.map(|info| info.capabilities.clone()).unwrap_or_default(),
            handler,
            noted,
            open: Semaphore::new(MCP_OPEN_REQUESTS),
            used: Mutex::new(Instant::now()),
            end,
            gone,
        };
        connection.listen(tasks);
        connection
    }

    /// Told when the server's lists may have changed.
    pub(super) fn changed(&self) -> &Arc<Notify> {
        &self.handler.changed
    }

    /// The calls that are under way.
    pub(super) fn calls(&self) -> &Arc<Calls> {
        &self.handler.calls
    }

    /// Told when it has ended.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.gone.is_cancelled() && !self.end.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// What its program wrote last to its standard error.
    pub(super) fn stderr(&self) -> Option<&Arc<Stderr>> {
        self.child.as_ref().map(Child::stderr)
    }

    /// When it was last used.
    pub(super) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What used it since was the program itself.
    pub(super) fn unused_since(&self, used: Instant) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = used;
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Ends it. Returns when nothing of it is left.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.gone.cancelled().await;
        if let Some(child) = &self.child {
            child.end().await;
        }
    }

    /// In the newer era a server tells of changes only who listens.
    fn listen(&self, tasks: &TaskTracker) {
        let ServerCapabilities { tools, prompts, resources, .. } = &self.capabilities;
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed =
            tools.as_ref().and_then(|tools| tools.list_changed).filter(|tells| *tells);
        filter.prompts_list_changed =
            prompts.as_ref().and_then(|prompts| prompts.list_changed).filter(|tells| *tells);
        filter.resources_list_changed =
            resources.as_ref().and_then(|resources| resources.list_changed).filter(|tells| *tells);
        if self.era != Era::Discover || filter == SubscriptionFilter::new() {
            return;
        }
        let (peer, changed, gone, end) =
            (self.peer.clone(), self.changed().clone(), self.gone.clone(), self.end.clone());
        tasks.spawn(async move {
            let listening = async {
                let mut pause = MCP_LISTEN_PAUSE;
                loop {
                    let begun = Instant::now();
                    match peer.listen(filter.clone()).await {
                        Ok(mut subscription) => {
                            while let Ok(Some(_)) = subscription.next().await {
                                changed.notify_one();
                            }
                        }
                        // It cannot do that, whatever it said.
                        Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => return,
                        Err(_) => {}
                    }
                    // One that never stays is listened to ever more seldom: each time, its lists are read again.
                    pause = match begun.elapsed() < pause {
                        true => pause.saturating_mul(2).min(MCP_LISTEN_LONGEST),
                        false => MCP_LISTEN_PAUSE,
                    };
                    sleep(pause).await;
                    // What happened meanwhile was not heard.
                    changed.notify_one();
                }
            };
            tokio::select! {
                () = listening => {}
                () = gone.cancelled() => {}
                () = end.cancelled() => {}
            }
        });
    }

    /// Sends one request and waits for its answer: `time` long without progress, an hour at most, and as long as a
    /// person is asked something.
    async fn request(
        &self,
        request: ClientRequest,
        call: &Arc<Call>,
        time: Duration,
        until: Instant,
        stop: &CancellationToken,
    ) -> Result<ServerResult, Unanswered> {
        self.touch();
        let _open = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(Unanswered::Ended),
            () = self.gone.cancelled() => return Err(Failure::Lost.into()),
            open = self.open.acquire() => open.map_err(|_| Failure::Lost)?,
        };
        let calls = &self.handler.calls;
        let sending = calls.sending.lock().await;
        let sent = self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let mut handle = sent.map_err(of_request)?;
        let _entered = calls.enter(handle.id.clone(), handle.progress_token.clone(), call.clone());
        drop(sending);
        let mut deadline = Instant::now() + time;
        let unanswered = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    self.touch();
                    return answer.unwrap_or(Err(ServiceError::TransportClosed)).map_err(|error| of_request(error).into());
                }
                () = stop.cancelled() => break Unanswered::Ended,
                () = self.gone.cancelled() => return Err(Failure::Lost.into()),
                () = call.beat.notified() => deadline = Instant::now() + time,
                () = sleep_until(deadline.min(until)) => {
                    if Instant::now() < until && call.waits_for_a_person() {
                        deadline = Instant::now() + time;
                        continue;
                    }
                    break Unanswered::TimedOut(time);
                }
            }
        };
        self.take_back(handle);
        Err(unanswered)
    }

    /// Tells the server that nobody waits for an answer any more.
    fn take_back(&self, handle: RequestHandle<RoleClient>) {
        let gone = self.gone.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                _ = timeout(MCP_LISTEN_PAUSE, handle.cancel(Some("nobody waits for it any more".to_owned()))) => {}
            }
        });
    }

    /// A request that may want input and be repeated.
    async fn rounds<T>(
        &self,
        make: impl Fn(Option<InputResponses>, Option<String>) -> ClientRequest,
        take: impl Fn(ServerResult) -> Option<T>,
        caller: Caller,
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<T, Unanswered> {
        let call = Call::new(caller);
        let _ended = call.ended.clone().drop_guard();
        let until = Instant::now() + MCP_CALL_LONGEST;
        let (mut responses, mut state) = (None, None);
        for _ in 0..MCP_ROUNDS {
            match self.request(make(responses.clone(), state.clone()), &call, time, until, stop).await {
                // A page must be seen first: the same request again, once the person has been there.
                Err(Unanswered::Failed(Failure::Refused(error))) if error.code == PAGE_FIRST => {
                    let seen = self.asking(until, stop, self.handler.pages(&call, &error)).await?;
                    if !seen {
                        return Err(Failure::Refused(error).into());
                    }
                }
                Err(unanswered) => return Err(unanswered),
                Ok(ServerResult::InputRequiredResult(required)) => {
                    let InputRequiredResult { input_requests, request_state, .. } = required;
                    let mut given = BTreeMap::new();
                    for (key, request) in input_requests.unwrap_or_default() {
                        let answer = self.asking(until, stop, self.handler.input(&call, &request)).await?;
                        given.insert(key, answer.map_err(Failure::Other)?);
                    }
                    responses = (!given.is_empty()).then_some(given);
                    state = request_state;
                }
                Ok(result) => {
                    return take(result).ok_or_else(|| Failure::Unreadable.into());
                }
            }
        }
        Err(Failure::Other(format!("it wanted input more than {MCP_ROUNDS} times")).into())
    }

    /// Waits for a person's answers between two rounds of a call, as long as the call and the server are there.
    async fn asking<T>(
        &self,
        until: Instant,
        stop: &CancellationToken,
        answers: impl Future<Output = T>,
    ) -> Result<T, Unanswered> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Unanswered::Ended),
            () = self.gone.cancelled() => Err(Failure::Lost.into()),
            () = sleep_until(until) => Err(Unanswered::TimedOut(MCP_CALL_LONGEST)),
            answers = answers => Ok(answers),
        }
    }

    /// Calls a tool.
    pub(super) async fn call_tool(
        &self,
        params: CallToolRequestParams,
        caller: Caller,
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<CallToolResult, Unanswered> {
        let make = |responses, state| {
            let mut params = params.clone();
            params.input_responses = responses;
            params.request_state = state;
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        let take = |result| match result {
            ServerResult::CallToolResult(result) => Some(result),
            // A result may lack what it contains, and then looks like another.
            ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => Some(CallToolResult::default()),
            _ => None,
        };
        self.rounds(make, take, caller, time, stop).await
    }

    /// Fills in a prompt.
    pub(super) async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        caller: Caller,
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<GetPromptResult, Unanswered> {
        let make = |responses, state| {
            let mut params = params.clone();
            params.input_responses = responses;
            params.request_state = state;
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        let take = |result| match result {
            ServerResult::GetPromptResult(result) => Some(result),
            _ => None,
        };
        self.rounds(make, take, caller, time, stop).await
    }

    /// Reads a resource.
    pub(super) async fn read_resource(
        &self,
        uri: &str,
        caller: Caller,
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<ReadResourceResult, Unanswered> {
        let make = |responses, state| {
            let mut params = ReadResourceRequestParams::new(uri);
            params.input_responses = responses;
            params.request_state = state;
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        let take = |result| match result {
            ServerResult::ReadResourceResult(result) => Some(result),
            _ => None,
        };
        self.rounds(make, take, caller, time, stop).await
    }

    /// Asks for what may follow.
    pub(super) async fn complete(
        &self,
        params: CompleteRequestParams,
        time: Duration,
    ) -> Result<CompletionInfo, Unanswered> {
        let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
        match self.own(request, time).await? {
            ServerResult::CompleteResult(result) => Ok(result.completion),
            _ => Err(Failure::Unreadable.into()),
        }
    }

    /// A request of the program itself.
    async fn own(&self, request: ClientRequest, time: Duration) -> Result<ServerResult, Unanswered> {
        let call = Call::new(Caller::own(""));
        let _ended = call.ended.clone().drop_guard();
        self.request(request, &call, time, Instant::now() + time, &CancellationToken::new()).await
    }

    /// Gives the pages of a list to `keep`, with what was left out of each, to a bound, until it wants no more. Returns why
    /// the rest is missing, where it is.
    async fn list<T>(
        &self,
        (time, until): Span,
        make: impl Fn(PaginatedRequestParams) -> ClientRequest,
        take: impl Fn(ServerResult) -> Option<(Vec<T>, Option<String>, Option<MetaObject>)>,
        mut keep: impl FnMut(Vec<T>, Vec<LeftOut>) -> bool,
    ) -> Result<Option<String>, Unanswered> {
        let call = Call::new(Caller::own(""));
        let _ended = call.ended.clone().drop_guard();
        let stop = CancellationToken::new();
        let mut cursors = HashSet::new();
        let mut cursor = None;
        for page in 0..MCP_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let result = self.request(make(params), &call, time, until, &stop).await;
            let taken = result.and_then(|result| take(result).ok_or_else(|| Failure::Unreadable.into()));
            let (items, next, meta) = match taken {
                Ok(taken) => taken,
                Err(unanswered) if page == 0 => return Err(unanswered),
                // What came before is of use.
                Err(Unanswered::TimedOut(_)) => {
                    return Ok(Some(format!("it took longer than {} s", time.as_secs_f64())));
                }
                Err(Unanswered::Failed(Failure::Refused(error))) => {
                    return Ok(Some(format!("it refused: {}", self.noted.words(error.message))));
                }
                Err(Unanswered::Failed(Failure::Unreadable)) => {
                    return Ok(Some("a page is none of the protocol's".to_owned()));
                }
                Err(unanswered) => return Err(unanswered),
            };
            let wants_more = keep(items, lenient::left_out(meta.as_ref()));
            let Some(next) = next.filter(|_| wants_more) else { return Ok(None) };
            // Pages that lead to each other have no end.
            if !cursors.insert(next.clone()) {
                return Ok(None);
            }
            cursor = Some(next);
        }
        Ok(Some(format!("it has more than {MCP_PAGES} pages")))
    }

    /// Its tools.
    pub(super) async fn tools(
        &self,
        span: Span,
        keep: impl FnMut(Vec<rmcp::model::Tool>, Vec<LeftOut>) -> bool,
    ) -> Result<Option<String>, Unanswered> {
        if self.capabilities.tools.is_none() {
            return Ok(None);
        }
        self.list(
            span,
            |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
            |result| match result {
                ServerResult::ListToolsResult(result) => {
                    Some((result.tools, result.next_cursor, result.meta))
                }
                _ => None,
            },
            keep,
        )
        .await
    }

    /// Its prompts.
    pub(super) async fn prompts(
        &self,
        span: Span,
        keep: impl FnMut(Vec<rmcp::model::Prompt>, Vec<LeftOut>) -> bool,
    ) -> Result<Option<String>, Unanswered> {
        if self.capabilities.prompts.is_none() {
            return Ok(None);
        }
        self.list(
            span,
            |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params)),
            |result| match result {
                ServerResult::ListPromptsResult(result) => {
                    Some((result.prompts, result.next_cursor, result.meta))
                }
                _ => None,
            },
            keep,
        )
        .await
    }

    /// Its resources.
    pub(super) async fn resources(
        &self,
        span: Span,
        keep: impl FnMut(Vec<rmcp::model::Resource>, Vec<LeftOut>) -> bool,
    ) -> Result<Option<String>, Unanswered> {
        if self.capabilities.resources.is_none() {
            return Ok(None);
        }
        self.list(
            span,
            |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
            |result| match result {
                ServerResult::ListResourcesResult(result) => {
                    Some((result.resources, result.next_cursor, result.meta))
                }
                _ => None,
            },
            keep,
        )
        .await
    }

    /// Its templates of resources.
    pub(super) async fn templates(
        &self,
        span: Span,
        keep: impl FnMut(Vec<rmcp::model::ResourceTemplate>, Vec<LeftOut>) -> bool,
    ) -> Result<Option<String>, Unanswered> {
        if self.capabilities.resources.is_none() {
            return Ok(None);
        }
        self.list(
            span,
            |params| {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params))
            },
            |result| match result {
                ServerResult::ListResourceTemplatesResult(result) => {
                    Some((result.resource_templates, result.next_cursor, result.meta))
                }
                _ => None,
            },
            keep,
        )
        .await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
