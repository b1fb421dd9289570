//! A session of a realm goes from one host to another, and what an engine does at the notices of its realm. Does not know
//! how a realm keeps a session.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::time::{sleep, timeout};

use crate::engine::actions::PendingActions;
use crate::engine::actor::no_realm;
use crate::engine::agent::Agent;
use crate::engine::change::{Change, Unload};
use crate::engine::external::ExternalAgent;
use crate::engine::follower::{FOLLOW_AGAIN, Followers};
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::hub::Hub;
use crate::engine::live_forward::{Word, heard};
use crate::engine::open::Opener;
use crate::engine::remote::{follow_owner, take_request};
use crate::engine::served_requests::ServedRequests;
use crate::engine::services::{Services, refused};
use crate::engine::takeover::take_over;
use crate::event::{Event, Piece};
use crate::facts::HostFacts;
use crate::federation::{Federation, Heard, Notice};
use crate::limits::{REALM_SAY, REALM_WATCH};
use crate::message::SessionId;
use crate::session::{ApiError, Call, Reply, SwitchTarget};

/// The engine is one of a realm from now on.
pub fn federate(engine: &Engine, federation: Arc<Federation>) {
    if engine.shared.federation.set(federation.clone()).is_err() {
        return;
    }
    let (shared, weak) = (Arc::downgrade(&engine.shared), WeakEngine::of(engine));
    federation.listen(move |notice| {
        let Some(shared) = shared.upgrade() else { return Heard::Gone };
        match notice {
            Notice::Sessions => shared.tree.announce(None),
            Notice::LeaseOver => {
                for handle in shared.tree.all() {
                    if handle.snapshot().facts.host.is_some() {
                        // What runs ends now; the session's task is told by its journal.
                        handle.abort();
                        handle.tell(Change::EndWork);
                    }
                }
            }
            Notice::Posted(posted, opens) => {
                let taken = weak.upgrade().is_some_and(|engine| take_request(&engine, posted, *opens));
                return if taken { Heard::Taken } else { Heard::Passed };
            }
            Notice::LetGo(session) => {
                if let Some(engine) = weak.upgrade() {
                    engine.followers.leave(&shared, session);
                }
                if let Ok(handle) = shared.tree.get(session) {
                    shared.tree.begin_elsewhere(session);
                    handle.tell(Change::Unload(Unload { lookup: handle.last_used(), waiting: None }));
                }
            }
            Notice::Lost(lost, opens) => {
                let taken = weak.upgrade().is_some_and(|engine| take_over(&engine, lost, *opens));
                return if taken { Heard::Taken } else { Heard::Passed };
            }
        }
        Heard::Passed
    });
    let opener = engine.opener.clone();
    let in_part = federation.shared_in_part(&engine.shared.settings.cwd.to_string_lossy());
    let complete = async move {
        for session in in_part {
            // Its journal continues with sharing it when it is opened.
            if let Ok(handle) = opener.open(SwitchTarget::Id(session)).await {
                handle.tell(Change::Unload(Unload { lookup: handle.last_used(), waiting: None }));
            }
        }
    };
    engine.shared.tasks.spawn_on(complete, &engine.shared.executor);
    let weak = WeakEngine::of(engine);
    let _ = engine.shared.follow_owner.set(Box::new(move |handle| {
        if let Some(engine) = weak.upgrade() {
            follow(&engine, handle);
        }
    }));
}

/// Follows the owner of a session that is another host's: tells it so now and then, and shows what it says. One that is
/// followed already is asked at once what is new.
fn follow(engine: &Engine, handle: &Handle) {
    handle.follow_now.notify_one();
    if handle.is_following.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(federation) = engine.shared.federation.get().cloned() else { return };
    let weak = WeakEngine::of(engine);
    let (hub, handle) = (engine.shared.hub.clone(), handle.clone());
    let following = async move {
        loop {
            let asking = async {
                while is_elsewhere(&handle) {
                    let is_asked = timeout(FOLLOW_AGAIN, handle.follow_now.notified()).await.is_ok();
                    let Some(engine) = weak.upgrade() else { return };
                    // Taken meanwhile, it has its own questions, which nobody else asks here.
                    if !is_elsewhere(&handle) {
                        return;
                    }
                    if is_asked || engine.shared.tree.is_viewed(&handle.id, None) {
                        follow_owner(&engine, &handle).await;
                    }
                }
            };
            tokio::select! {
                () = asking => {}
                () = show_words(&federation, &hub, &handle) => {}
            }
            handle.is_following.store(false, Ordering::Release);
            // It may be another host's again meanwhile.
            if !is_elsewhere(&handle) || handle.is_following.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    };
    engine.shared.tasks.spawn_on(following, &engine.shared.executor);
}

fn is_elsewhere(handle: &Handle) -> bool {
    !handle.is_gone() && handle.snapshot().facts.is_elsewhere
}

/// Shows what the owner of a session says, without an end.
async fn show_words(federation: &Federation, hub: &Hub, handle: &Handle) {
    loop {
        if let Ok(mut words) = federation.hear(&handle.id).await {
            while let Some(said) = words.recv().await {
                if let Some(Word { offset, turn, piece, said }) =
                    heard(&said).filter(|_| is_elsewhere(handle))
                {
                    wait_for_entries(federation, handle, offset).await;
                    let piece = piece.map(|(call, at)| Piece { call, at });
                    let event = Event { turn, piece, ..handle.event(said.body(), None) };
                    handle.show_said(hub, event, offset);
                }
            }
        }
        sleep(REALM_WATCH).await;
    }
}

/// Waits, not for long, until as many entries are here as the owner had when it said something.
async fn wait_for_entries(federation: &Federation, handle: &Handle, offset: u64) {
    let are_here = || handle.snapshot().offset >= offset;
    if are_here() {
        return;
    }
    federation.poke(&handle.id);
    let waiting = async {
        while !are_here() {
            sleep(REALM_SAY).await;
        }
    };
    let _ = timeout(REALM_WATCH, waiting).await;
}

/// An engine, for what must not keep it.
struct WeakEngine {
    shared: Weak<Services>,
    agent: Weak<dyn Agent>,
    foreign: Weak<ExternalAgent>,
    actions: Arc<PendingActions>,
    remote: Arc<ServedRequests>,
    followers: Arc<Followers>,
}

impl WeakEngine {
    fn of(engine: &Engine) -> Self {
        let Engine { shared, opener, foreign, actions, remote, followers } = engine;
        Self {
            shared: Arc::downgrade(shared),
            agent: Arc::downgrade(&opener.agent),
            foreign: Arc::downgrade(foreign),
            actions: actions.clone(),
            remote: remote.clone(),
            followers: followers.clone(),
        }
    }

    fn upgrade(&self) -> Option<Engine> {
        let shared = self.shared.upgrade()?;
        Some(Engine {
            opener: Opener { shared: shared.clone(), agent: self.agent.upgrade()? },
            shared,
            foreign: self.foreign.upgrade()?,
            actions: self.actions.clone(),
            remote: self.remote.clone(),
            followers: self.followers.clone(),
        })
    }
}

impl Opener {
    /// Makes this host the owner of a session, in a folder of this host.
    pub(super) fn take(&self, call: &Call, session: SessionId, cwd: Option<PathBuf>, reply: Reply<String>) {
        // The folder of another host's session is one of that host's.
        let focus = self.shared.tree.get(&call.session).ok().map(|handle| handle.snapshot().facts.clone());
        let focus = focus.filter(|facts| !facts.is_elsewhere);
        let is_given = cwd.is_some();
        let cwd = cwd.or_else(|| focus.map(|facts| facts.cwd.to_string().into()));
        let cwd = cwd.unwrap_or_else(|| self.shared.settings.cwd.clone());
        let opener = self.clone();
        let taking = async move {
            reply.send(match opener.folder_for(&session, cwd, is_given).await {
                Ok(folder) => opener.take_now(session, folder).await,
                Err(error) => Err(error),
            });
        };
        self.shared.tasks.spawn_on(taking, &self.shared.executor);
    }

    pub(super) async fn take_now(&self, session: SessionId, cwd: PathBuf) -> Result<String, ApiError> {
        let federation = self.shared.federation.get().cloned().ok_or_else(no_realm)?;
        let folder = cwd.canonicalize().ok().filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| {
            let expected = format!("a folder of this host; {} is not there", cwd.display());
            ApiError::invalid_param("cwd", &expected)
        })?;
        let handle = self.open(SwitchTarget::Id(session)).await?;
        let facts = handle.snapshot().facts.clone();
        match (&facts.host, facts.is_elsewhere) {
            (None, _) => {
                return Err(ApiError::failed("The session is this machine's alone: it need not be taken."));
            }
            (Some(_), false) => return Ok(facts.cwd.to_string()),
            (Some(_), true) => {}
        }
        federation.take(&handle.id, &folder).await.map_err(|error| refused(&error))?;
        handle.ask(|ack| Change::Taken { ack }).await?;
        Ok(folder.to_string_lossy().into_owned())
    }

    /// Makes another host the owner of a session of this host.
    pub(super) fn give(&self, call: &Call, host: String, reply: Reply<String>) {
        let handle = match self.shared.tree.get(&call.session) {
            Ok(handle) => handle,
            Err(error) => return reply.fail(error),
        };
        handle.tell(Change::Give { host, reply });
    }

    /// The hosts of the realm.
    pub(super) fn hosts(&self, reply: Reply<Vec<HostFacts>>) {
        let federation = self.shared.federation.get().cloned();
        let listing = async move {
            let Some(federation) = federation else { return reply.fail(no_realm()) };
            let hosts = federation.hosts().await.map_err(|error| refused(&error));
            let facts = |host: crate::realm::Host| HostFacts {
                is_here: host.name == *federation.host(),
                name: host.name.as_str().into(),
                build: host.build,
                is_alive: host.is_alive,
                lost_ms: u64::try_from(host.lost_ms).unwrap_or(0),
                sessions: host.sessions,
            };
            reply.send(hosts.map(|hosts| hosts.into_iter().map(facts).collect()));
        };
        self.shared.tasks.spawn_on(listing, &self.shared.executor);
    }
}
