//! Resources of servers that a message refers to, as text for the model.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::registry::McpDesk;
use crate::context::reference::{self, Attachment, ResourceReference};
use crate::engine::handle::Handle;
use crate::limits::REFERENCES_BYTES;
use crate::mcp::{Answerer, Content, Declines};
use crate::message::Block;

impl McpDesk {
    /// The servers of a session that a reference may name.
    pub fn names(&self, session: &Handle) -> Vec<Arc<str>> {
        self.listed(session).into_iter().map(|server| server.name).collect()
    }

    /// The resources of servers that a text refers to.
    pub fn wanted_resources(&self, session: &Handle, text: &str) -> Vec<ResourceReference> {
        if !reference::may_refer(text) {
            return Vec::new();
        }
        let names = self.names(session);
        reference::resources(text, &|name| names.iter().any(|known| **known == *name))
    }

    /// Reads resources, at most for the given time. One that cannot be read has the reason as its text. `None` if it is
    /// told to stop. Nobody is asked anything meanwhile.
    pub async fn referenced(
        self: &Arc<Self>,
        session: &Handle,
        wanted: Vec<ResourceReference>,
        wait: Duration,
        stop: &CancellationToken,
    ) -> Option<Vec<Attachment>> {
        if wanted.is_empty() {
            return Some(Vec::new());
        }
        // A token is about four bytes, so as many bytes as the window has tokens are a quarter of it.
        let room = usize::try_from(session.snapshot().facts.context_window).unwrap_or(usize::MAX);
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            read = self.read_resources(session, wanted, room, wait, stop) => Some(read),
        }
    }

    /// Reads resources, all at once.
    async fn read_resources(
        self: &Arc<Self>,
        session: &Handle,
        wanted: Vec<ResourceReference>,
        room: usize,
        wait: Duration,
        stop: &CancellationToken,
    ) -> Vec<Attachment> {
        let deadline = Instant::now() + wait;
        let _ = timeout_at(deadline, self.ready(session)).await;
        let used = self.used(session);
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
            match timeout_at(deadline, reading).await {
                Ok(Ok(contents)) => Ok(contents),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => {
                    Err(format!("The server {} did not answer within {} s.", server.name, wait.as_secs()))
                }
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
            Attachment { name, text, images, failed, server: Some(reference.server.into()), seen: None }
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
