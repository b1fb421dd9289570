//! Resources of servers that a message refers to, as text for the model.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::answerer::Declines;
use crate::context::reference::{self, Attachment, ResourceReference};
use crate::engine::handle::Handle;
use crate::engine::services::Services;
use crate::limits::{MCP_RESOURCE_WAIT, REFERENCES_BYTES};
use crate::mcp::{Answerer, Content};
use crate::message::Block;

impl Services {
    /// The servers of a session that a reference may name.
    pub fn server_names(&self, session: &Handle) -> Vec<Arc<str>> {
        self.listed_servers(session).into_iter().map(|server| server.name).collect()
    }

    /// The resources of servers, by these names, that a text refers to: at most `room` bytes, and none if the message is
    /// aborted. Nobody is asked anything meanwhile, and a server that does not answer holds nobody up for long.
    pub async fn referenced(
        self: &Arc<Self>,
        session: &Handle,
        text: &str,
        names: &[Arc<str>],
        room: usize,
    ) -> Vec<Attachment> {
        let is_server = |name: &str| names.iter().any(|known| **known == *name);
        let wanted = if names.is_empty() { Vec::new() } else { reference::resources(text, &is_server) };
        if wanted.is_empty() {
            return Vec::new();
        }
        let stop = session.stoppable();
        tokio::select! {
            biased;
            () = stop.cancelled() => Vec::new(),
            read = self.read_resources(session, wanted, room, &stop) => read,
        }
    }

    /// Reads resources, all at once. One that cannot be read has the reason as its text.
    async fn read_resources(
        self: &Arc<Self>,
        session: &Handle,
        wanted: Vec<ResourceReference>,
        room: usize,
        stop: &CancellationToken,
    ) -> Vec<Attachment> {
        self.servers_ready(session).await;
        let used = self.used_servers(session);
        // It waits for the message, so that nobody can be asked.
        let answerer: Arc<dyn Answerer> = Arc::new(Declines);
        let read = wanted.iter().map(|reference| async {
            let of = used.iter().find(|(_, server)| *server.name == *reference.server);
            let Some((set, server)) = of else {
                return Err(format!(
                    "The server {} is switched off for this session (/mcp).",
                    reference.server
                ));
            };
            let reading = set.read_resource(&server.name, &reference.uri, &answerer, stop);
            match tokio::time::timeout(MCP_RESOURCE_WAIT, reading).await {
                Ok(Ok(contents)) => Ok(contents),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!(
                    "The server {} did not answer within {} s.",
                    server.name,
                    MCP_RESOURCE_WAIT.as_secs()
                )),
            }
        });
        let read = futures_util::future::join_all(read).await;
        let mut left = room.min(REFERENCES_BYTES);
        let attachments = wanted.into_iter().zip(read).map(|(reference, read)| {
            let (text, images, failed) = match read {
                Err(why) => (why, Vec::new(), true),
                Ok(contents) => {
                    let (text, images) = attached(contents);
                    match text.len() <= left {
                        true => {
                            left = left.saturating_sub(text.len());
                            (text, images, false)
                        }
                        false => {
                            let why = "There is no room for it; it was left out. Ask the model to read a part of it.";
                            (why.to_owned(), Vec::new(), true)
                        }
                    }
                }
            };
            let name = format!("{}:{}", reference.server, reference.uri);
            Attachment { name, text, images, failed, server: Some(reference.server.into()) }
        });
        attachments.collect()
    }
}

/// The text of a resource, and its images.
fn attached(contents: Vec<Content>) -> (String, Vec<Block>) {
    let (mut text, mut images) = (String::new(), Vec::new());
    for content in contents {
        match content {
            Content::Text(piece) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&piece);
            }
            Content::Image { mime_type, data } => images.push(Block::Image { mime_type, data }),
        }
    }
    (text, images)
}
