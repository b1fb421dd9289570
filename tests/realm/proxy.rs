//! A network that misbehaves: bytes that are held and let go later, answers that never come, silence without an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::promises::poll;

/// What the network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// What the client sends is held.
    pub holds_questions: bool,
    /// What the server sends is held.
    pub holds_answers: bool,
    /// What the server sends is swallowed.
    pub swallows_answers: bool,
}

pub const FAIR: Weather = Weather { holds_questions: false, holds_answers: false, swallows_answers: false };

/// A way to a server.
pub struct Proxy {
    pub port: u16,
    weather: Arc<watch::Sender<Weather>>,
    /// The weather from where the client sends this text.
    turn: watch::Sender<Option<(&'static str, Weather)>>,
    /// Connections of which something was held, and those of them on which the server has said something since, or has
    /// closed them.
    held: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Proxy {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (weather, seen) = watch::channel(FAIR);
        let (turn, turns) = watch::channel(None);
        let (weather, held, answered) = (Arc::new(weather), Arc::<AtomicU64>::default(), Arc::default());
        let here = listener.local_addr().unwrap().port();
        let proxy = Self {
            port: here,
            weather: weather.clone(),
            turn,
            held: held.clone(),
            answered: Arc::clone(&answered),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let (turns, turned) = (turns.clone(), weather.clone());
                let (mut weather, held) = (seen.clone(), held.clone());
                let (late, answered) = (Arc::new(AtomicBool::new(false)), answered.clone());
                let is_late = late.clone();
                tokio::spawn(async move {
                    let (mut bytes, mut was_held) = (vec![0; 65_536], false);
                    // Also after the client has gone: what it sent is still on its way.
                    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                        let turn = *turns.borrow();
                        if let Some((text, weather)) = turn
                            && String::from_utf8_lossy(&bytes[..count]).contains(text)
                        {
                            turned.send_replace(weather);
                        }
                        // What answers a server itself gets no answer.
                        let is_question = bytes[..count] != *b"PONG\r\n";
                        let is_first = is_question && weather.borrow().holds_questions && !was_held;
                        if is_first {
                            was_held = true;
                            held.fetch_add(1, Ordering::SeqCst);
                        }
                        let is_fair = weather.wait_for(|it| !it.holds_questions).await.is_ok();
                        if is_first {
                            late.store(true, Ordering::SeqCst);
                        }
                        if !is_fair || to_server.write_all(&bytes[..count]).await.is_err() {
                            return;
                        }
                    }
                    let _ = weather.wait_for(|it| !it.holds_questions).await;
                    let _ = to_server.shutdown().await;
                });
                let mut weather = seen.clone();
                tokio::spawn(async move {
                    let mut bytes = vec![0; 65_536];
                    loop {
                        let read = from_server.read(&mut bytes).await;
                        if is_late.swap(false, Ordering::SeqCst) {
                            answered.fetch_add(1, Ordering::SeqCst);
                        }
                        let Ok(count @ 1..) = read else { return };
                        if weather.wait_for(|it| !it.holds_answers).await.is_err() {
                            return;
                        }
                        if !weather.borrow().swallows_answers {
                            // A client that has gone does not end the server's side.
                            let _ = to_client.write_all(&bytes[..count]).await;
                        }
                    }
                });
            }
        });
        proxy
    }

    pub fn set(&self, weather: Weather) {
        self.turn.send_replace(None);
        self.weather.send_replace(weather);
    }

    /// The weather from where the client sends a text, until it is set again.
    pub fn set_from(&self, text: &'static str, weather: Weather) {
        self.turn.send_replace(Some((text, weather)));
    }

    /// Waits until the server has carried out what was held.
    pub async fn until_answered(&self) {
        poll("the server answers what came late", async || {
            (self.answered.load(Ordering::SeqCst) == self.held.load(Ordering::SeqCst)).then_some(())
        })
        .await;
    }

    /// Waits until something of a client is held.
    pub async fn until_held(&self) {
        while self.held.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }
}
