//! The ACP wire's side of a connection: serves its lines. Knows neither what a method does nor how a session lives.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::clock::Clock;
use crate::event::Event;
use crate::limits::{ACP_LINE_BYTES, MAX_PENDING};
use crate::message::SessionId;
use crate::session::{Agreed, Pressure};
use crate::value::Value;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::connection_state::AcpState;
use crate::wire::acp::encoder::AcpEncoder;
use crate::wire::acp::engines::{Projects, ReachedEngines};
use crate::wire::acp::link::{Acp, Connection};
use crate::wire::acp::request::AcpRequest;
use crate::wire::acp::version::Version;
use crate::wire::acp::{methods, route};
use crate::wire::connection::{self, ConnectionEnd, Wire};
use crate::wire::jsonrpc::{self, RpcMessage};
use crate::wire::lines::Line;
use crate::wire::transport::Transport;

/// The id of an answer to a line whose id is not known.
const NO_ID: &str = "null";

/// Serves a connection; see [`connection::start`].
///
/// # Errors
/// If a thread cannot be started.
pub fn start(
    transport: Transport,
    projects: Arc<dyn Projects>,
    clock: Arc<dyn Clock>,
    on_end: Box<dyn Fn(ConnectionEnd) + Send + Sync>,
) -> std::io::Result<Arc<Connection>> {
    let (engines, desk) = (Arc::new(ReachedEngines::new(projects)), Arc::new(AcpState::default()));
    let wire = Acp { engines: engines.clone(), desk: desk.clone(), agreed: ArcSwapOption::empty() };
    connection::start(0, transport, wire, AcpEncoder::new(desk), engines, clock, on_end)
}

impl Wire for Acp {
    type Api = ReachedEngines;
    type Encoder = AcpEncoder;

    fn line_bytes() -> usize {
        ACP_LINE_BYTES
    }

    fn line(&self, connection: &Connection, line: &Line<'_>) {
        match jsonrpc::read_line(line, ACP_LINE_BYTES, |id| self.is_pending(connection, id)) {
            Ok(None) => {}
            Ok(Some(RpcMessage::Request { id, method, params })) => {
                self.request(connection, id, &method, &params);
            }
            Ok(Some(RpcMessage::Notification { method, params })) => {
                match self.version().notice(&method, &params) {
                    Some(notice) => route::notice(self, connection, notice),
                    // Also those of extensions, as the protocol wants it.
                    None => tracing::debug!("an unknown or malformed notification is ignored"),
                }
            }
            Ok(Some(RpcMessage::Response { id, result })) => {
                route::answered(self, connection, &id, result.map_err(|error| error.message));
            }
            Err((id, misread)) => {
                self.reject(connection, id.as_deref().unwrap_or(NO_ID), &Fault::from(misread));
            }
        }
    }

    /// The newest state of each session. What was left out of an answer is told with the whole answer.
    fn show_anew(&self, connection: &Connection, missed: u64) {
        tracing::debug!(missed, "a slow editor is shown its sessions again");
        route::show_states(self, connection);
    }

    /// The connection itself is no client of an engine: its sessions are.
    fn deliver(&self, _: &Connection, _: &Event) -> Pressure {
        Pressure::Fine
    }

    fn watches(&self, _: &Connection, _: Option<&SessionId>) -> bool {
        false
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn is_interactor(&self) -> bool {
        false
    }

    fn dialogs_only(&self) -> bool {
        false
    }

    fn topics(&self) -> Vec<&'static str> {
        methods::TO_EDITOR.to_vec()
    }

    fn agreed(&self) -> Option<Arc<Agreed>> {
        self.agreed.load_full()
    }
}

impl Acp {
    /// Whether a request with that id has no answer.
    fn is_pending(&self, connection: &Connection, id: &str) -> bool {
        connection.is_pending(id) || self.desk.lock().is_prompting(id)
    }

    /// Reads the params, then serves the request.
    fn request(&self, connection: &Connection, id: Arc<str>, method: &str, params: &Value<'_>) {
        if self.is_pending(connection, &id) {
            let fault = Fault::new(Code::InvalidRequest, "A request with this id has no answer yet.");
            return self.reject(connection, NO_ID, &fault);
        }
        if connection.is_crowded() {
            let message = format!("{MAX_PENDING} requests are pending; wait for an answer.");
            return self.reject(connection, &id, &Fault::new(Code::Internal, message));
        }
        let agreed = self.desk.lock().version;
        let request = match Version::read_request(agreed, method, params) {
            Ok(request) => request,
            Err(fault) => return self.reject(connection, &id, &fault),
        };
        if agreed.is_none() && !matches!(request, AcpRequest::Initialize { .. }) {
            let fault = Fault::new(Code::InvalidRequest, "The first request is initialize.");
            return self.reject(connection, &id, &fault);
        }
        let _span = tracing::debug_span!("request", method, id = &*id).entered();
        route::serve(self, connection, id, request);
    }
}
