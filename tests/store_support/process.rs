//! A runtime inside the test or benchmark, with a client that wants no events.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use edn_bridge::clock::SystemClock;
use edn_bridge::config::Settings;
use edn_bridge::engine::{Engine, Providers};
use edn_bridge::event::Event;
use edn_bridge::message::SessionId;
use edn_bridge::session::{ApiError, Call, Client, Pressure, Reply};
use edn_bridge::store::Store;

/// How long anything that is awaited may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime on that state folder, and its executor.
pub fn process(state: &Path, store: Store, threads: usize) -> (Engine, tokio::runtime::Runtime) {
    let executor =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    let settings = Settings {
        state_dir: state.to_owned(),
        cwd: "/".into(),
        provider: Some("scripted".into()),
        model: Some("scripted".into()),
        ..Settings::default()
    };
    let (clock, providers) = (Arc::new(SystemClock), Providers::default());
    let engine = Engine::new(clock, settings, store, providers, executor.handle().clone()).unwrap();
    (engine, executor)
}

/// A request of the one connection.
pub fn call(session: &SessionId) -> Call {
    Call { connection: 1, request: "r".into(), session: session.clone() }
}

/// The future answer.
pub fn asked<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Receiver<Result<T, ApiError>> {
    let (sender, receiver) = channel();
    ask(Reply::new(move |result| {
        let _ = sender.send(result);
    }));
    receiver
}

/// The answer.
pub fn wait<T>(answer: Receiver<Result<T, ApiError>>) -> T {
    answer.recv_timeout(PATIENCE).unwrap().unwrap()
}

/// A client that wants no events.
pub struct Nobody;

impl Client for Nobody {
    fn watches(&self, _: Option<&SessionId>) -> bool {
        false
    }

    fn lists_sessions(&self) -> bool {
        false
    }
    fn deliver(&self, _: &Event) -> Pressure {
        Pressure::Fine
    }
    fn fall_behind(&self) {}
    fn is_behind(&self) -> bool {
        false
    }
    fn focus(&self, _: SessionId) {}
    fn focused(&self) -> SessionId {
        SessionId::from("")
    }
    fn is_interactor(&self) -> bool {
        false
    }
    fn close(&self) {}
}
