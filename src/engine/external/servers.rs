//! The MCP servers that an agent is given: those of its session that it may have, with their own keys. It starts and asks
//! them itself, in its sandbox. Starts none.

use std::path::Path;
use std::sync::Arc;

use super::agents::ExternalAgent;
use crate::agent::{AgentCan, AgentPlace, AgentServer, AgentServerWay, AgentSetup};
use crate::engine::handle::Handle;
use crate::mcp::{Server, ServerTransport, tools_begin};
use crate::peer::{self, Source, Variable};
use crate::secret::Secret;

/// Moves into the folder of its first argument, and becomes the program of the others.
const IN_FOLDER: [&str; 4] = ["sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh"];

impl ExternalAgent {
    /// The servers for an agent, and why others of the session are not given to it.
    pub(super) async fn servers(
        &self,
        session: &Handle,
        setup: &AgentSetup,
        can: &AgentCan,
    ) -> (Vec<AgentServer>, Vec<String>) {
        let place = self.place(session);
        let off = session.snapshot().facts.mcp_off.clone();
        let (mut given, mut left_out) = (Vec::new(), Vec::new());
        for server in self.shared.mcp.given(session).await {
            if setup.servers.as_ref().is_some_and(|names| !names.iter().any(|name| **name == *server.name)) {
                continue;
            }
            let begin = tools_begin(&server.name);
            let is_less = server.only.is_some()
                || !server.without.is_empty()
                || off.iter().any(|tool| tool.starts_with(&begin));
            let unfit = match (&server.source, &server.way) {
                // What the project starts gets nothing of the user's.
                (Source::User(_), _) if matches!(setup.source, Source::Project(_)) => {
                    Some("it is your own, and the agent is the project's".to_owned())
                }
                _ if is_less => {
                    Some("the agent would have all of its tools, and not all are offered".to_owned())
                }
                (_, ServerTransport::Http(_)) if !can.http => {
                    Some("the agent does not ask servers over HTTP".to_owned())
                }
                _ => None,
            };
            let read = match unfit {
                Some(why) => Err(why),
                None => read(&server, &place).await,
            };
            match read {
                Ok(server) => given.push(server),
                Err(why) => left_out.push(format!("{} ({why})", server.name)),
            }
        }
        (given, left_out)
    }
}

/// A server with its values.
///
/// # Errors
/// Why it cannot be given.
async fn read(server: &Arc<Server>, place: &AgentPlace) -> Result<AgentServer, String> {
    server.seal.verify().await.map_err(|broken| broken.to_string())?;
    let way = match &server.way {
        ServerTransport::Http(url) => {
            AgentServerWay::Url(url.to_string(), values(&server.headers, place).await?)
        }
        ServerTransport::Command(command) => {
            let command = at_home(command, server.cwd.as_deref(), &place.root);
            AgentServerWay::Command(command, values(&server.environment, place).await?)
        }
    };
    Ok(AgentServer { name: server.name.clone(), way })
}

async fn values(
    variables: &[(String, Variable)],
    place: &AgentPlace,
) -> Result<Vec<(String, Secret)>, String> {
    let mut values = Vec::new();
    for (name, variable) in variables {
        let value = peer::value(name, variable, &place.environment, &*place.keys).await?;
        values.push((name.clone(), value));
    }
    Ok(values)
}

/// A command line that means the same wherever it is started.
fn at_home(command: &[String], cwd: Option<&Path>, root: &Path) -> Vec<String> {
    let folder = cwd.map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
    let mut words = command.to_vec();
    if let Some(program) = words.first_mut()
        && program.contains('/')
    {
        *program = folder.join(&*program).to_string_lossy().into_owned();
    }
    if cwd.is_some() {
        let before = IN_FOLDER.iter().map(|word| (*word).to_owned());
        words = before.chain([folder.to_string_lossy().into_owned()]).chain(words).collect();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_means_the_same_in_another_folder() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let root = Path::new("/p");
        assert_eq!(at_home(&words(&["npx", "x"]), None, root), ["npx", "x"]);
        assert_eq!(at_home(&words(&["./s", "x"]), None, root), ["/p/./s", "x"]);
        let moved = at_home(&words(&["npx", "x"]), Some(Path::new("sub")), root);
        assert_eq!(moved[4..], ["/p/sub", "npx", "x"]);
    }
}
