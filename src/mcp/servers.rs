//! The servers of a project folder.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use rmcp::model::{GetPromptRequestParams, Reference, Role};
use serde_json::Value as Json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Caller;
use super::convert;
use super::elicit::Answerer;
use super::error::McpError;
use super::facts::{Completion, Content, PromptMessage, PromptText, ServerFacts, State};
use super::oauth::Pending;
use super::server_context::ServerContext;
use super::settings::{Server, Settings};
use super::slot::Slot;
use super::template::{self, Typed};
use super::tool::ServerTool;
use crate::http::Url;
use crate::limits::{
    MCP_COMPLETIONS, MCP_LISTED, MCP_READY_WAIT, MCP_START_WAIT, MCP_TEMPLATES, MCP_TITLE_BYTES, MCP_TOOLS,
};
use crate::similar;
use crate::tool::Tool;

/// The servers of a project folder, shared by its sessions. Copies are the same servers. Needs a Tokio executor for
/// everything but [`Servers::new`] and what only reads.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    place: Arc<ServerContext>,
    slots: RwLock<Vec<Arc<Slot>>>,
    changes: Arc<watch::Sender<u64>>,
    tasks: TaskTracker,
    ended: CancellationToken,
    /// Logins that wait for their pages, by server.
    logins: Mutex<HashMap<String, Pending>>,
}

impl Servers {
    /// The servers of these settings. Starts none.
    pub fn new(place: ServerContext, settings: Settings) -> Self {
        let servers = Self(Arc::new(Inner {
            place: Arc::new(place),
            slots: RwLock::default(),
            changes: Arc::new(watch::channel(0).0),
            tasks: TaskTracker::new(),
            ended: CancellationToken::new(),
            logins: Mutex::default(),
        }));
        let slots = settings.servers.into_iter().map(|server| servers.slot_of(Arc::new(server))).collect();
        *servers.0.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
        servers
    }

    fn slot_of(&self, server: Arc<Server>) -> Arc<Slot> {
        Slot::new(server, self.0.place.clone(), self.0.changes.clone(), self.0.tasks.clone())
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        self.0.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn slot(&self, name: &str) -> Result<Arc<Slot>, McpError> {
        let slots = self.slots();
        let found = slots.iter().find(|slot| *slot.server().name == *name).cloned();
        found.ok_or_else(|| {
            let names: Vec<Arc<str>> = slots.iter().map(|slot| slot.server().name.clone()).collect();
            let near = similar::names(name, names.iter().map(AsRef::as_ref));
            let near = near.into_iter().map(str::to_owned).collect();
            McpError::Unknown { name: name.chars().take(80).collect(), near }
        })
    }

    /// Starts the servers that were never started, or have failed a while ago, and waits until all are ready or have
    /// failed, at most `wait` ([`MCP_READY_WAIT`] at most). Those that take longer go on and join later, which
    /// [`Servers::changes`] tells. A start is waited for once: nobody waits for one that began that long ago.
    pub async fn ready(&self, wait: Duration) {
        let wait = wait.min(MCP_READY_WAIT);
        let slots = self.slots().into_iter();
        let due: Vec<_> =
            slots.filter_map(|slot| slot.patience(wait).map(|patience| (slot, patience))).collect();
        if due.is_empty() || self.0.ended.is_cancelled() {
            return;
        }
        let all = due.iter().map(|(slot, patience)| tokio::time::timeout(*patience, slot.connection()));
        futures_util::future::join_all(all).await;
    }

    /// Whether these are the same servers, and not only such of the same names.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The servers as they are configured, with their secrets.
    pub fn configured(&self) -> Vec<Arc<Server>> {
        self.slots().iter().map(|slot| slot.server()).collect()
    }

    /// Whether a server is configured and switched on.
    pub fn are_there(&self) -> bool {
        self.slots().iter().any(|slot| slot.server().enabled)
    }

    /// What is known of every server, in the order of the configuration. Starts none; never waits.
    pub fn snapshot(&self) -> Vec<ServerFacts> {
        self.slots().iter().map(|slot| slot.facts()).collect()
    }

    /// The tools of all servers that have been ready, for a session: what a server asks in the course of a call goes to
    /// `answerer`. At most 128 of one server and 512 together, each name once. A call starts a server that has ended.
    /// Starts none itself.
    pub fn tools(&self, answerer: &Arc<dyn Answerer>) -> Vec<Arc<dyn Tool>> {
        let mut names = HashSet::new();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for slot in self.slots() {
            if slot.facts().state == State::Off {
                continue;
            }
            for facts in slot.tools().iter() {
                if tools.len() < MCP_TOOLS && names.insert(facts.name.clone()) {
                    let (slot, facts, answerer) = (slot.clone(), facts.clone(), answerer.clone());
                    tools.push(Arc::new(ServerTool { slot, facts, answerer }));
                }
            }
        }
        tools
    }

    /// Counts the changes of what [`Servers::snapshot`] and [`Servers::tools`] return.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// What a server's program wrote last to its standard error, at most 64 KiB, without the server's keys. For a person
    /// at this machine: never for a wire.
    ///
    /// # Errors
    /// [`McpError::Unknown`].
    pub fn stderr(&self, server: &str) -> Result<String, McpError> {
        self.slot(server).map(|slot| slot.stderr())
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
        let slot = self.slot(server)?;
        let (read, noted) = slot.read_resource(uri, caller(uri, answerer), stop).await?;
        let contents = read.contents.into_iter().take(MCP_LISTED);
        Ok(contents.map(|contents| convert::contents(contents, &noted)).collect())
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
        let slot = self.slot(server)?;
        let mut params = GetPromptRequestParams::new(prompt);
        if !arguments.is_empty() {
            let arguments = arguments.iter().map(|(name, value)| (name.clone(), Json::from(value.as_str())));
            params = params.with_arguments(arguments.collect());
        }
        let (filled, noted) = slot.get_prompt(params, caller(prompt, answerer), stop).await?;
        let description = filled.description.as_deref();
        Ok(PromptText {
            description: description.map(|text| crate::peer::cut(&noted.redact(text), MCP_TITLE_BYTES)),
            messages: filled
                .messages
                .into_iter()
                .take(MCP_LISTED)
                .map(|message| PromptMessage {
                    by_model: message.role == Role::Assistant,
                    content: convert::content(message.content, &noted),
                })
                .collect(),
        })
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
        self.slot(server)?.complete(Reference::for_prompt(prompt), (argument, typed), given).await
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
        self.slot(server)?.complete(Reference::for_resource(template), (variable, typed), given).await
    }

    /// The addresses that may follow what was typed of one, by a server's resources and by its templates, whose variables
    /// the server completes. A template that it cannot complete now is passed over.
    ///
    /// # Errors
    /// [`McpError::Unknown`].
    pub async fn complete_address(&self, server: &str, typed: &str) -> Result<Completion, McpError> {
        let facts = self.slot(server)?.facts();
        let listed = facts.resources.iter().map(|resource| resource.uri.to_string());
        let mut found: BTreeSet<String> = listed.filter(|uri| uri.starts_with(typed)).collect();
        let mut more = false;
        let mut variables = Vec::new();
        for template in facts.templates.iter() {
            match template::place(&template.uri, typed) {
                Some(Typed::Text(address)) => drop(found.insert(address)),
                Some(Typed::Variable(variable)) if variables.len() < MCP_TEMPLATES => {
                    variables.push((template.uri.clone(), variable));
                }
                Some(Typed::Variable(_)) => more = true,
                None => {}
            }
        }
        let asked = variables.iter().map(|(uri, variable)| {
            self.complete_template(server, uri, &variable.name, &variable.value, &variable.given)
        });
        let completed = futures_util::future::join_all(asked).await;
        for ((_, variable), completed) in variables.iter().zip(completed) {
            let Ok(completed) = completed else { continue };
            more |= completed.more;
            found.extend(completed.values.iter().map(|value| variable.with(value)));
        }
        more |= found.len() > MCP_COMPLETIONS;
        Ok(Completion { values: found.into_iter().take(MCP_COMPLETIONS).collect(), more })
    }

    /// Ends a server and starts it again, whatever happened to it before; returns when it is ready or has failed.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn restart(&self, server: &str) -> Result<(), McpError> {
        self.slot(server)?.restart().await
    }

    /// Begins a login at a server: returns its page, which sends the browser to `redirect` in the end. One that was begun
    /// before is given up.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn begin_login(&self, server: &str, redirect: &Url) -> Result<Url, McpError> {
        let pending = self.slot(server)?.begin_login(redirect).await?;
        let page = pending.page.clone();
        self.logins().insert(server.to_owned(), pending);
        Ok(page)
    }

    /// Completes the login that was begun at a server, with the whole address that its page sent the browser to, and
    /// connects to the server with it. The tokens are kept among the credentials.
    ///
    /// # Errors
    /// See [`McpError`]. The login is over then.
    pub async fn finish_login(&self, server: &str, callback: &str) -> Result<(), McpError> {
        let slot = self.slot(server)?;
        let pending = self.logins().remove(server);
        let why =
            || McpError::Failed { server: server.to_owned(), why: "no login was begun at it.".to_owned() };
        slot.finish_login(pending.ok_or_else(why)?, callback).await
    }

    /// Forgets the login at a server; returns whether there was one.
    ///
    /// # Errors
    /// See [`McpError`].
    pub async fn logout(&self, server: &str) -> Result<bool, McpError> {
        self.slot(server)?.logout().await
    }

    fn logins(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.0.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes new settings. A server whose settings are the same, or differ in nothing that its process sees, keeps its
    /// process; others are ended when no call uses them, and started at the next use.
    pub fn reload(&self, settings: Settings) {
        if self.0.ended.is_cancelled() {
            return;
        }
        let mut place = self.0.slots.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *place);
        for server in settings.servers {
            let server = Arc::new(server);
            let same = before.iter().position(|slot| slot.server().connects_as(&server));
            place.push(match same.map(|same| before.remove(same)) {
                Some(slot) => {
                    slot.adjust(server);
                    slot
                }
                None => self.slot_of(server),
            });
        }
        drop(place);
        before.iter().for_each(|slot| slot.retire());
        self.0.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Ends all servers, and waits for it. Later calls fail.
    pub async fn end(&self) {
        self.0.ended.cancel();
        futures_util::future::join_all(self.slots().iter().map(|slot| slot.end())).await;
        self.0.tasks.close();
        // What hangs all the same must not hold up the end of the process.
        let _ = tokio::time::timeout(MCP_START_WAIT, self.0.tasks.wait()).await;
    }
}

fn caller(subject: &str, answerer: &Arc<dyn Answerer>) -> Caller {
    let answerer = Some(answerer.clone());
    Caller { subject: crate::peer::cut(subject, MCP_TITLE_BYTES), call: None, answerer, progress: None }
}
