//! The running bridges, and what their graphs say. Keeps a connection to each; does not know what becomes of the facts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use edn_bridge::client::Client;
use edn_bridge::limits::{TOP_PATIENCE, TOP_PAUSE};
use edn_bridge::value::{Map, Owned, Value};
use edn_bridge::wire::transport::socket::{self, Purpose};

use crate::cli::engine_client::hello;

/// What every bridge is asked: facts that it has at hand, and none that it would have to read or count.
const QUERY: &str = "[:psi.process/pid :psi.process/version :psi.process/now :psi.process/uptime-ms \
    :psi.process/resident-bytes :psi.process/cpu-ms :psi.process/thread-count :psi.process/task-count \
    :psi.process/event-count :psi.process/outlives-clients \
    {:psi.connection/list [:psi.connection/id :psi.connection/client-name :psi.connection/transport \
      :psi.connection/connected-at :psi.connection/is-asking :psi.connection/is-interactor :psi.connection/pending \
      :psi.connection/outbox-waiting :psi.connection/outbox-bytes :psi.agent-session/session-id]} \
    {:psi.interaction/list [:psi.interaction/kind :psi.agent-session/session-id]} \
    {:psi.session/live [:psi.agent-session/session-id :psi.agent-session/session-display-name \
      :psi.agent-session/phase :psi.agent-session/worktree-path :psi.agent-session/model-id \
      :psi.agent-session/turn-started-at :psi.agent-session/pending-message-count \
      :psi.agent-session/message-count :psi.agent-session/usage-input :psi.agent-session/usage-output \
      :psi.agent-session/usage-cache-read :psi.agent-session/usage-cache-write \
      :psi.agent-session/usage-cost-total :psi.agent-session/context-fraction :psi.agent-session/depth \
      :psi.agent-session/offset]}]";

/// Where bridges are looked for.
pub(super) enum BridgeFolder {
    /// In a state folder.
    Folder(PathBuf),
    /// At one socket.
    Socket(PathBuf),
}

/// What a bridge has told.
pub(super) struct BridgeState {
    /// Its socket.
    pub(super) socket: PathBuf,
    /// The answer to the query, or why there is none.
    pub(super) facts: Result<Owned, String>,
}

/// The bridges and the connections to them.
pub(super) struct Bridges {
    place: BridgeFolder,
    /// How long a connection may be silent: between two looks it is as well. One that is silent for longer is opened anew.
    patience: Duration,
    open: Vec<(PathBuf, Client)>,
}

impl Bridges {
    pub(super) fn new(place: BridgeFolder, every: Duration) -> Self {
        Self { place, patience: every.min(TOP_PAUSE).saturating_add(TOP_PATIENCE), open: Vec::new() }
    }

    /// Asks all that run now.
    pub(super) fn ask(&mut self) -> Vec<BridgeState> {
        let sockets = match &self.place {
            BridgeFolder::Folder(folder) => socket::listening(Purpose::Clients, folder),
            BridgeFolder::Socket(socket) => vec![socket.clone()],
        };
        let is_named = matches!(self.place, BridgeFolder::Socket(_));
        let mut open = std::mem::take(&mut self.open);
        let mut all = Vec::new();
        for socket in sockets {
            let at = open.iter().position(|(known, _)| *known == socket);
            let known = at.map(|at| open.swap_remove(at).1);
            let facts = match known.and_then(|client| Some((facts(&client).ok()?, client))) {
                Some(known) => Ok(known),
                None => self.connect(&socket),
            };
            let facts = match facts {
                Ok((facts, client)) => {
                    self.open.push((socket.clone(), client));
                    Ok(facts)
                }
                // Nobody listens: its process has ended, and left its socket.
                Err(None) if !is_named => continue,
                Err(error) => {
                    let error = error.unwrap_or_else(|| "no bridge listens there".to_owned());
                    Err(format!("{}: {error}", socket.display()))
                }
            };
            all.push(BridgeState { socket, facts });
        }
        all
    }

    /// Connects to a bridge, and asks it. `None` if nobody listens.
    fn connect(&self, socket: &Path) -> Result<(Owned, Client), Option<String>> {
        let stream = socket::connect_at(socket).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => None,
            _ => Some(error.to_string()),
        })?;
        // A stopped process must not stop the view.
        stream.set_read_timeout(Some(self.patience)).map_err(|error| Some(error.to_string()))?;
        // It subscribes to nothing.
        let client = Client::connect(stream, &hello("edn-bridge top"));
        let (client, _) = client.map_err(|refused| Some(refused.to_string()))?;
        let facts = facts(&client).map_err(Some)?;
        Ok((facts, client))
    }
}

fn facts(client: &Client) -> Result<Owned, String> {
    let params = Map::new().with("query", QUERY);
    let answer = client.ask("query_eql", Value::from(params)).map_err(|refused| refused.to_string())?;
    let facts = answer.get("result").cloned().ok_or("its answer has no result")?;
    Ok(without_asker(facts))
}

/// The facts without the connection that asks, and without the session that it was given and never used.
fn without_asker(facts: Owned) -> Owned {
    let list = |key: &str| facts.get(key).and_then(Value::as_slice).unwrap_or_default().to_vec();
    let (mut connections, mut sessions) = (list("psi.connection/list"), list("psi.session/live"));
    let asks = |one: &Owned| one.get("psi.connection/is-asking").and_then(Value::as_bool) == Some(true);
    let session = |one: &Owned| one.get("psi.agent-session/session-id").cloned();
    let own = connections.iter().find(|one| asks(one)).and_then(session);
    connections.retain(|one| !asks(one));
    sessions.retain(|one| {
        let is_used = one.get("psi.agent-session/offset").and_then(Value::as_i64) != Some(0);
        is_used || session(one) != own || connections.iter().any(|other| session(other) == own)
    });
    let Value::Map(map) = facts else { return facts };
    let kept = map.into_iter().map(|(key, value)| match key.as_keyword() {
        Some("psi.connection/list") => (key, Value::vector(std::mem::take(&mut connections))),
        Some("psi.session/live") => (key, Value::vector(std::mem::take(&mut sessions))),
        _ => (key, value),
    });
    Value::from(kept.collect::<Map<'static>>())
}
