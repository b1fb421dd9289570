//! This process in a realm, and `edn-bridge realm`. One process of a state folder speaks for its host: the one that holds
//! `run/realm.lock`. Engines of one process share its part.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Subcommand;
#[cfg(feature = "realm")]
use edn_bridge::config::EngineAddress;
use edn_bridge::config::{RealmPolicy, Settings};
use edn_bridge::federation::Federation;
#[cfg(feature = "realm")]
use edn_bridge::files::Seal;
use edn_bridge::realm::RealmCheck;
#[cfg(feature = "realm")]
use edn_bridge::{
    auth,
    federation::Terms,
    private,
    realm::{
        self, Host, HostId, HostName, Incarnation, Realm, RealmError, RealmFilter, RealmNote, RealmSlot,
        rules::LeaseTerms,
    },
    secret::Secret,
    wire::transport::socket,
};

use super::failure::{Exit, Failure};
#[cfg(feature = "realm")]
use super::lock::Lock;
use super::options::Options;
#[cfg(feature = "realm")]
use super::out;

#[derive(Subcommand)]
pub(super) enum RealmCommand {
    /// Makes the realm's tables in the database of the configuration, or brings them up to date.
    Init {
        /// Further roles of the database that may use the realm, each for its own sessions.
        #[arg(long, value_name = "ROLE")]
        grant: Vec<String>,
    },
    /// Looks whether the engine keeps what it promises, and measures it.
    Check,
    /// Lists the hosts of the realm.
    Hosts,
}

/// What is told where the configuration names a realm that this program cannot reach.
#[cfg(not(feature = "realm"))]
pub(super) const NOT_BUILT: &str = "The configuration names a realm, and this program was built without it (the \
                                    features `postgres` and `nats`): it sees no session of other hosts, and shares none.";

#[cfg(not(feature = "realm"))]
pub(super) fn check(_: &Settings, _: &RealmPolicy) -> Result<RealmCheck, Failure> {
    Err(Failure::Failed(NOT_BUILT.to_owned()))
}

/// How long a process waits for one that speaks for this host and is about to end.
#[cfg(feature = "realm")]
const PATIENCE: Duration = Duration::from_secs(3);

/// The part of this process in a realm, with the number of engines that use it.
static PART: Mutex<Option<Part>> = Mutex::new(None);

struct Part {
    federation: Arc<Federation>,
    users: usize,
    #[cfg(feature = "realm")]
    _lock: Lock,
}

/// One that uses this process's part. When the last one goes, the process leaves the realm.
pub(super) struct Member(Arc<Federation>);

impl Member {
    /// The part.
    pub(super) fn federation(&self) -> &Arc<Federation> {
        &self.0
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut part = PART.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = part.as_mut() {
            known.users = known.users.saturating_sub(1);
            if known.users == 0 {
                known.federation.leave();
                *part = None;
            }
        }
    }
}

/// Enters the realm of the configuration, if it names one. `None` too where another process speaks for this host: then
/// this one has no shared sessions.
///
/// # Errors
/// If the configuration cannot be used, or the realm refuses this host.
pub(super) fn join(settings: &Settings) -> Result<Option<Member>, Failure> {
    let Some(policy) = &settings.realm else { return Ok(None) };
    let mut part = PART.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = part.as_mut() {
        known.users = known.users.saturating_add(1);
        return Ok(Some(Member(known.federation.clone())));
    }
    enter(settings, policy, &mut part)
}

#[cfg(not(feature = "realm"))]
fn enter(_: &Settings, _: &RealmPolicy, _: &mut Option<Part>) -> Result<Option<Member>, Failure> {
    tracing::warn!("{NOT_BUILT}");
    Ok(None)
}

#[cfg(feature = "realm")]
fn enter(
    settings: &Settings,
    policy: &RealmPolicy,
    part: &mut Option<Part>,
) -> Result<Option<Member>, Failure> {
    let folder = socket::folder(&settings.state_dir);
    let failed = |error| Failure::io(folder.display().to_string())(error);
    private::make_folder(&folder).map_err(failed)?;
    let Some(lock) = Lock::take(&folder.join("realm.lock"), PATIENCE).map_err(failed)? else {
        tracing::warn!("another process speaks for this host in the realm: this one has no shared sessions");
        return Ok(None);
    };
    let url = address(policy, settings)?;
    let me = host_id(settings, policy, true)?;
    let terms = Terms {
        share: policy.share,
        takeover: policy.takeover,
        workspace: policy.workspace,
        lease: LeaseTerms::new(policy.lease),
        state_dir: settings.state_dir.clone(),
    };
    let connect = move |executor: &tokio::runtime::Handle, lease| {
        let _executor = executor.enter();
        realm::connect(&url, me, env!("CARGO_PKG_VERSION"), lease)
    };
    let federation = Federation::enter(connect, terms).map_err(|error| Failure::Failed(error.to_string()))?;
    *part = Some(Part { federation: federation.clone(), users: 1, _lock: lock });
    Ok(Some(Member(federation)))
}

/// Who this process is. `realm-key` in the state folder has the folder's own key, made once, and the number of the last run
/// that entered the realm; who enters counts it up, with `run/realm.lock`.
#[cfg(feature = "realm")]
fn host_id(settings: &Settings, policy: &RealmPolicy, enters: bool) -> Result<HostId, Failure> {
    let path = settings.state_dir.join("realm-key");
    let failed = |error| Failure::io(path.display().to_string())(error);
    let kept = match private::open_to_read(&path).and_then(std::io::read_to_string) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut words = kept.split_whitespace();
    let key = words.next().map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    let mut run: u64 = words.next().and_then(|run| run.parse().ok()).unwrap_or(0);
    if enters {
        run = run.saturating_add(1);
        private::replace(&path, format!("{key} {run}\n").as_bytes()).map_err(failed)?;
    }
    let name = HostName::parse(&policy.host);
    let name = name.ok_or_else(|| Failure::Failed("The :host of the realm is no name.".to_owned()))?;
    let incarnation = Incarnation { run, id: uuid::Uuid::new_v4().to_string().into() };
    Ok(HostId { name, key: key.into(), incarnation })
}

/// The URL of the engine.
#[cfg(feature = "realm")]
fn address(policy: &RealmPolicy, settings: &Settings) -> Result<Secret, Failure> {
    match &policy.engine {
        EngineAddress::Url(url) => Ok(url.clone()),
        EngineAddress::Command(command) => {
            let printed = wait_for(auth::printed_by(
                command,
                &Seal::default(),
                ":engine-command of the realm",
                &settings.environment,
            ))?;
            printed.map_err(|error| Failure::Failed(error.to_string()))
        }
    }
}

/// Runs a call on a runtime of its own.
#[cfg(feature = "realm")]
fn wait_for<T>(call: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::start)?;
    Ok(runtime.block_on(call))
}

#[cfg(not(feature = "realm"))]
pub(super) fn run(_: &Options, _: RealmCommand) -> Exit {
    Err(Failure::Failed(
        "This program was built without a realm: build it with the feature `postgres` or `nats`.".to_owned(),
    ))
}

#[cfg(feature = "realm")]
pub(super) fn run(options: &Options, command: RealmCommand) -> Exit {
    let settings = options.settings()?;
    let Some(policy) = &settings.realm else {
        let message =
            "There is no realm in your configuration: {:realm {:engine \"postgres://…\" :host \"name\"}}.";
        return Err(Failure::Failed(message.to_owned()));
    };
    match command {
        RealmCommand::Init { grant } => {
            let url = address(policy, &settings)?;
            let grant: Vec<&str> = grant.iter().map(String::as_str).collect();
            told(wait_for(realm::init(&url, &grant))?)?;
            out::print("The realm is ready.\n")
        }
        RealmCommand::Check => {
            let check = check(&settings, policy)?;
            let notes = check.notes.iter().map(|note| format!("{} {}\n", note.what, note.advice));
            out::print(&format!("{}\n{}", facts(&check).join("\n"), notes.collect::<String>()))
        }
        RealmCommand::Hosts => {
            let (hosts, me) = hosts(&settings, policy, &address(policy, &settings)?)?;
            let line = |host: &Host| {
                let state = if host.is_alive { "there".to_owned() } else { lost(host.lost_ms) };
                let here = match host.name == me.name {
                    true if host.has_name_of(&me) => " (not this one)",
                    true => " (this one)",
                    false => "",
                };
                format!("{}{here}: {state}, sessions: {}, build {}\n", host.name, host.sessions, host.build)
            };
            out::print(&hosts.iter().map(line).collect::<String>())
        }
    }
}

#[cfg(feature = "realm")]
fn lost(millis: i64) -> String {
    format!("lost for {} s", millis / 1000)
}

/// What an engine is, and how long it takes.
pub(super) fn facts(check: &RealmCheck) -> [String; 2] {
    let crypt = if check.is_encrypted { "encrypted" } else { "not encrypted, on this machine" };
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    [
        format!("{} {} at {}, {crypt}", check.engine, check.version, check.place),
        format!("a round trip takes {}, an append {}", millis(check.round_trip), millis(check.append)),
    ]
}

/// What is told where two state folders have one name.
#[cfg(feature = "realm")]
const NAMESAKE: RealmNote = RealmNote {
    what: "Another state folder, of this machine or another, is in the realm under this one's name: while it is \
           there, this one shares nothing.",
    advice: "Give one of the two another :host in its configuration.",
};

/// Looks at the engine of the configuration, and whether another state folder has this one's name there.
#[cfg(feature = "realm")]
pub(super) fn check(settings: &Settings, policy: &RealmPolicy) -> Result<RealmCheck, Failure> {
    let url = address(policy, settings)?;
    let mut check = told(wait_for(realm::check(&url))?)?;
    let (hosts, me) = hosts(settings, policy, &url)?;
    if hosts.iter().any(|host| host.has_name_of(&me)) {
        check.notes.push(NAMESAKE);
    }
    Ok(check)
}

/// The hosts of the realm, and who asks.
#[cfg(feature = "realm")]
fn hosts(settings: &Settings, policy: &RealmPolicy, url: &Secret) -> Result<(Vec<Host>, HostId), Failure> {
    ask(settings, policy, url, |realm| {
        Box::pin(async move { Ok((realm.hosts().await?, realm.me().clone())) })
    })
}

#[cfg(feature = "realm")]
fn told<T>(result: Result<T, RealmError>) -> Result<T, Failure> {
    result.map_err(|error| Failure::Failed(error.to_string()))
}

/// Asks the realm something without being one of its hosts.
#[cfg(feature = "realm")]
fn ask<T>(
    settings: &Settings,
    policy: &RealmPolicy,
    url: &Secret,
    call: impl FnOnce(&dyn Realm) -> edn_bridge::realm::RealmCall<'_, T>,
) -> Result<T, Failure> {
    let me = host_id(settings, policy, false)?;
    let asked = async {
        let realm = realm::connect(url, me, env!("CARGO_PKG_VERSION"), LeaseTerms::new(policy.lease))?;
        call(&*realm).await
    };
    told(wait_for(asked)?)
}

/// The sessions of the realm, the last changed first; with words, those that have them, each with an excerpt.
#[cfg(feature = "realm")]
fn sessions(
    settings: &Settings,
    words: &str,
    limit: usize,
) -> Result<Vec<(RealmSlot, Option<String>)>, Failure> {
    let Some(policy) = &settings.realm else {
        return Err(Failure::Failed("There is no realm in your configuration.".to_owned()));
    };
    let url = address(policy, settings)?;
    if words.is_empty() {
        let listed = ask(settings, policy, &url, |realm| {
            Box::pin(async move { realm.list(&RealmFilter::default(), limit).await })
        });
        return Ok(listed?.into_iter().map(|slot| (slot, None)).collect());
    }
    let hits = ask(settings, policy, &url, |realm| {
        let words = words.to_owned();
        Box::pin(async move { realm.find(&words, None, limit).await })
    });
    Ok(hits?.into_iter().map(|hit| (hit.slot, Some(hit.excerpt))).collect())
}

/// Lists the sessions of the realm, or those with all the words.
#[cfg(feature = "realm")]
pub(super) fn list(settings: &Settings, words: &str, limit: usize, as_json: bool) -> Exit {
    use edn_bridge::federation::SlotText;
    use edn_bridge::value::{Map, Value};

    let mut text = String::new();
    let found = sessions(settings, words, limit)?;
    if found.is_empty() && !words.is_empty() {
        let why = format!("No session of the realm has {words:?} in a message or in its name.");
        return Err(Failure::NoSession(why));
    }
    for (slot, excerpt) in found {
        let shown = SlotText::read(&slot.text);
        let (host, is_lost) = match &slot.owner {
            Some(owner) => (owner.host.to_string(), owner.is_lost),
            None => (String::new(), true),
        };
        let name = shown.name.or(shown.first_message).unwrap_or_default();
        if as_json {
            let mut row = Map::new()
                .with("id", slot.header.session.as_str().to_owned())
                .with("host", host)
                .with("owner_lost", is_lost)
                .with("cwd", slot.cwd.to_string())
                .with("name", name.to_string())
                .with("entries", Value::int(i64::try_from(slot.tail).unwrap_or(i64::MAX)));
            row.put_some("excerpt", excerpt);
            let mut line = Vec::new();
            edn_bridge::json::write(&Value::from(row), &mut line);
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
            continue;
        }
        let state = if is_lost { " (lost)" } else { "" };
        let name = edn_bridge::visible::line(&name);
        let session = &slot.header.session;
        text.push_str(&format!(
            "{session}  {host}{state}  {}  {name}\n",
            edn_bridge::visible::line(&slot.cwd)
        ));
        if let Some(excerpt) = excerpt {
            text.push_str(&format!("    {}\n", edn_bridge::visible::line(&excerpt)));
        }
    }
    out::print(&text)
}

#[cfg(not(feature = "realm"))]
pub(super) fn list(_: &Settings, _: &str, _: usize, _: bool) -> Exit {
    Err(Failure::Failed(NOT_BUILT.to_owned()))
}
