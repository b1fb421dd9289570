//! What a server asks and tells on its own: questions, the project's root, progress, changes of its lists.

#![expect(deprecated, reason = "servers in the field ask for roots and for answers of a model")]

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability,
    Implementation, InputRequest, ListRootsResult, ProgressNotificationParam, ProtocolVersion, RequestId,
    Root, RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde_json::Value as Json;
use tokio::sync::Notify;

use super::calls::{Call, Calls};
use super::elicit::ElicitReply;
use super::questions::{elicitation, elicited, pages_first, sampled, sampling};

/// One connection's side of what a server asks.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) calls: Arc<Calls>,
    /// The address of the project's folder.
    pub(super) root: Arc<str>,
    pub(super) may_sample: bool,
    /// Told when a list of the server has changed.
    pub(super) changed: Arc<Notify>,
}

impl Handler {
    fn capabilities(&self) -> ClientCapabilities {
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::default());
        elicitation.url = Some(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = Some(elicitation);
        capabilities.sampling = self.may_sample.then(SamplingCapability::default);
        capabilities
    }

    fn roots(&self) -> ListRootsResult {
        ListRootsResult::new(vec![Root::new(self.root.to_string())])
    }

    /// Answers the questions of a result that says which input is required.
    ///
    /// # Errors
    /// Why one cannot be answered, which ends the call.
    pub(super) async fn input(&self, call: &Arc<Call>, request: &InputRequest) -> Result<Json, String> {
        let answer = match request {
            InputRequest::Elicitation(request) => {
                let question = elicitation(&request.params, &self.calls.noted)?;
                let answer = self.calls.ask(call, question.clone()).await;
                serde_json::to_value(elicited(&question, answer))
            }
            InputRequest::CreateMessage(request) => {
                let answer =
                    self.sample(call, &request.params).await.map_err(|error| error.message.to_string())?;
                serde_json::to_value(answer)
            }
            InputRequest::ListRoots(_) => serde_json::to_value(self.roots()),
            _ => return Err("it wants an input of a kind that is not known".to_owned()),
        };
        answer.map_err(|error| error.to_string())
    }

    /// Asks the person to open the pages that an error names, one after the other. Returns whether they have seen all of
    /// them.
    pub(super) async fn pages(&self, call: &Arc<Call>, error: &ErrorData) -> bool {
        let pages = match pages_first(error, &self.calls.noted) {
            Ok(pages) => pages,
            Err(_) => return false,
        };
        for page in pages {
            if self.calls.ask(call, page).await != ElicitReply::Agreed {
                return false;
            }
        }
        true
    }

    async fn sample(
        &self,
        call: &Arc<Call>,
        params: &CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |why: &str| ErrorData::new(ErrorCode::INVALID_REQUEST, why.to_owned(), None);
        if !self.may_sample {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "sampling is not switched on here",
                None,
            ));
        }
        let question = sampling(params, &self.calls.noted).map_err(|why| refused(&why))?;
        // The protocol's code for a person who said no.
        let rejected = || ErrorData::new(ErrorCode(-1), "the user rejected the request", None);
        sampled(self.calls.ask(call, question).await).ok_or_else(rejected)
    }

    async fn call_of(&self, context: &RequestContext<RoleClient>) -> Option<Arc<Call>> {
        match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => self.calls.asked_in(Some(id)).await,
            Some(InboundStreamOrigin::Unassociated) | None => self.calls.asked_in(None::<&RequestId>).await,
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("edn-bridge", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let invalid = |why: String| ErrorData::new(ErrorCode::INVALID_PARAMS, why, None);
        let question = elicitation(&params, &self.calls.noted).map_err(invalid)?;
        // Outside of a call there is nobody whom it would concern.
        let Some(call) = self.call_of(&context).await else {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        };
        let answer = tokio::select! {
            answer = self.calls.ask(&call, question.clone()) => answer,
            () = context.ct.cancelled() => ElicitReply::Cancelled,
        };
        Ok(elicited(&question, answer))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(call) = self.call_of(&context).await else {
            return Err(ErrorData::new(
                ErrorCode::INVALID_REQUEST,
                "there is no call that this is part of",
                None,
            ));
        };
        tokio::select! {
            answer = self.sample(&call, &params) => answer,
            () = context.ct.cancelled() => Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "cancelled", None)),
        }
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let ProgressNotificationParam { progress_token, progress, total, message, .. } = params;
        self.calls.progress(&progress_token, progress, total, message.as_deref()).await;
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
