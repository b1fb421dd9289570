//! The servers of a project folder.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ask::Answerer;
use super::error::McpError;
use super::facts::{Completion, Content, PromptText, ServerFacts};
use super::place::Place;
use super::settings::Settings;
use crate::tool::Tool;

/// The servers of a project folder, shared by its sessions. Copies are the same servers. Needs a Tokio executor for
/// everything but [`Servers::new`] and what only reads.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    #[expect(dead_code, reason = "used when servers are started")]
    place: Place,
    changes: watch::Sender<u64>,
}

impl Servers {
    /// The servers of these settings. Starts none.
    pub fn new(place: Place, settings: Settings) -> Self {
        let _ = settings;
        Self(Arc::new(Inner { place, changes: watch::channel(0).0 }))
    }

    /// Starts the servers that were never started or have failed since, and waits until all are ready or have failed, at
    /// most `wait` ([`crate::limits::MCP_READY_WAIT`] at most). Those that take longer go on and join later, which
    /// [`Servers::changes`] tells.
    pub async fn ready(&self, wait: Duration) {
        let _ = wait;
    }

    /// Whether a server is configured and switched on.
    pub fn are_there(&self) -> bool {
        false
    }

    /// What is known of every server, in the order of the configuration. Starts none; never waits.
    pub fn snapshot(&self) -> Vec<ServerFacts> {
        Vec::new()
    }

    /// The tools of all servers that have been ready, for a session: what a server asks in the course of a call goes to
    /// `answerer`. At most 128 of one server and 512 together. A call starts a server that has ended. Starts none itself.
    pub fn tools(&self, answerer: &Arc<dyn Answerer>) -> Vec<Arc<dyn Tool>> {
        let _ = answerer;
        Vec::new()
    }

    /// Counts the changes of what [`Servers::snapshot`] and [`Servers::tools`] return.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Reads a resource. What it contains is data of the server.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        answerer: &Arc<dyn Answerer>,
        stop: &CancellationToken,
    ) -> Result<Vec<Content>, McpError> {
        let _ = (uri, answerer, stop);
        Err(unknown(server))
    }

    /// Fills in a prompt, named as the server does.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: &[(String, String)],
        answerer: &Arc<dyn Answerer>,
        stop: &CancellationToken,
    ) -> Result<PromptText, McpError> {
        let _ = (prompt, arguments, answerer, stop);
        Err(unknown(server))
    }

    /// What may follow in an argument of a prompt; the arguments before it are `given`. Empty for a server that does not
    /// complete.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn complete_argument(
        &self,
        server: &str,
        prompt: &str,
        argument: &str,
        typed: &str,
        given: &[(String, String)],
    ) -> Result<Completion, McpError> {
        let _ = (prompt, argument, typed, given);
        Err(unknown(server))
    }

    /// What may follow in a variable of a template of resources.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn complete_template(
        &self,
        server: &str,
        template: &str,
        variable: &str,
        typed: &str,
        given: &[(String, String)],
    ) -> Result<Completion, McpError> {
        let _ = (template, variable, typed, given);
        Err(unknown(server))
    }

    /// Ends a server and starts it again, whatever happened to it before; returns when it is ready or has failed.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn restart(&self, server: &str) -> Result<(), McpError> {
        Err(unknown(server))
    }

    /// Takes new settings. A server whose settings are the same keeps its process; others are ended when no call uses
    /// them, and started at the next use.
    pub fn reload(&self, settings: Settings) {
        let _ = settings;
    }

    /// Ends all servers, and waits for it. Later calls fail.
    pub async fn end(&self) {}
}

fn unknown(server: &str) -> McpError {
    McpError::Unknown { name: server.chars().take(80).collect(), near: Vec::new() }
}
