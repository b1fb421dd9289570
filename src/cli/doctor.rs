//! `edn-bridge doctor`: checks the installation and advises on what is missing.
//!
//! Changes nothing, except for a file that it writes to the state folder and removes again. Asks the server that new
//! sessions would ask for its models, with its key; reports the names of variables with keys, and never their values.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::config::{KeptFiles, Layers, ProjectFiles, Settings, Takeover, unwatched};
use edn_bridge::context::{Places, Project};
use edn_bridge::edn;
use edn_bridge::engine::{self, Providers};
use edn_bridge::http;
use edn_bridge::limits::LISTING_BYTES;
use edn_bridge::mcp::ServerTransport;
use edn_bridge::peer::missing;
use edn_bridge::private;
use edn_bridge::provider::choice::ModelChoice;
use edn_bridge::provider::embedded::{self, ModelFile};
use edn_bridge::provider::{Provider, scripted};
use edn_bridge::runner::{Program, sandbox};
use edn_bridge::similar;
use edn_bridge::store::{Durability, FORMAT, Header, Store, weak_locks};
use edn_bridge::value::{Map, Value};
use edn_bridge::wire::transport::socket::{self, Purpose};

use super::config_command::{Mistake, Setting, hooks_of, mistakes, servers_of, values};
use super::default_model::DefaultModel;
use super::failure::{Exit, FAILED};
use super::options::Options;
use super::style::{Meaning, Painter};
use super::{daemon, out, realm};

/// How long a program that is asked for its version may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// As it should be.
    Well,
    /// It works, but something is absent or less than it could be.
    Note,
    /// It does not work.
    Broken,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Well => "ok",
            Self::Note => "note",
            Self::Broken => "broken",
        }
    }
}

/// One thing that was found.
struct Finding {
    area: &'static str,
    severity: Severity,
    what: String,
    /// What to do about it.
    advice: Option<String>,
}

/// All that was found.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn well(&mut self, area: &'static str, what: impl Into<String>) {
        self.0.push(Finding { area, severity: Severity::Well, what: what.into(), advice: None });
    }

    fn note(&mut self, area: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding {
            area,
            severity: Severity::Note,
            what: what.into(),
            advice: Some(advice.into()),
        });
    }

    fn broken(&mut self, area: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding {
            area,
            severity: Severity::Broken,
            what: what.into(),
            advice: Some(advice.into()),
        });
    }
}

pub(super) fn run(options: &Options, as_edn: bool) -> Exit {
    let mut found = Findings::default();
    let mut in_force = Vec::new();
    match options.settings_that_can_be() {
        Ok((settings, layers, wrong)) => {
            let chosen = DefaultModel::find(&settings);
            in_force = values(options, &settings, &chosen);
            let is_read = wrong.is_empty();
            for error in wrong {
                let advice = "Correct it; the rest is looked at without it.";
                found.broken("configuration", error.to_string(), advice);
            }
            configuration(&mut found, &settings, &layers, is_read);
            agents(&mut found, &settings, &layers);
            hooks(&mut found, &settings, &layers);
            mcp_servers(&mut found, &settings, &layers);
            state(&mut found, &settings.state_dir);
            sessions(&mut found, options, &settings);
            models(&mut found, &settings, &chosen, is_read);
            servers(&mut found, &settings, &chosen);
            realm(&mut found, &settings);
            socket(&mut found, &settings);
            daemon(&mut found, options, &settings);
            context(&mut found, &settings);
            workspace(&mut found, &settings);
        }
        Err(error) => {
            found.broken("configuration", error.to_string(), "Correct it; nothing else could be looked at.")
        }
    }
    kernel(&mut found);
    emacs(&mut found);
    let well = found.0.iter().all(|finding| finding.severity != Severity::Broken);
    match as_edn {
        true => out::print(&as_value(&in_force, &found, well))?,
        false => out::show(&as_text(&in_force, &found, well))?,
    };
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn configuration(found: &mut Findings, settings: &Settings, layers: &Layers, is_read: bool) {
    let user = settings.files.user.as_ref().filter(|_| is_read);
    for (whose, file) in [("The user's", user), ("The project's", settings.files.project.as_ref())] {
        let Some(path) = file else { continue };
        let there = if path.exists() { "is read" } else { "is not there, which is fine" };
        found.well("configuration", format!("{whose} configuration {} {there}.", path.display()));
    }
    if settings.files.is_trusted() {
        found.well("trust", "The user trusts this folder: its configuration holds in full.");
    } else if settings.files.project.as_deref().is_some_and(Path::exists) {
        found.note(
            "trust",
            "This folder is not trusted: its configuration may only narrow what is allowed.",
            "If you know where it comes from, trust it with /trust in a session.",
        );
    } else {
        found.well("trust", "This folder is not trusted; it has no configuration that would need it.");
    }
    if let Some(ProjectFiles { root, configuration: Some(bytes), .. }) = settings.files.content()
        && let Ok(value) = edn::read_one(&bytes)
    {
        for what in unwatched(&root, &value) {
            found.note(
                "trust",
                format!("Of the project's configuration, {what}."),
                "Name its files at :watch.",
            );
        }
    }
    for Mistake { is_own, text } in mistakes(layers) {
        let what = format!("Passed over: {}", text.trim_end_matches('.'));
        match is_own {
            true => found.broken("configuration", what, "Correct it, or take it out."),
            false => found.note("configuration", what, "Correct it, or trust the folder."),
        }
    }
}

/// The daemon, and whether it is of this version.
fn daemon(found: &mut Findings, options: &Options, settings: &Settings) {
    if settings.daemon.is_never {
        return found.well("daemon", "The configuration uses no daemon: what runs ends with its editor.");
    }
    match daemon::seen(options) {
        Ok(None) => found.well("daemon", "No daemon runs; the first editor starts it."),
        Ok(Some(seen)) if seen.build != env!("CARGO_PKG_VERSION") => found.note(
            "daemon",
            format!("The daemon runs: process {}, version {}, not this one.", seen.pid, seen.build),
            "`edn-bridge daemon restart` lets this version take over; turns go on.",
        ),
        Ok(Some(seen)) => found.well(
            "daemon",
            format!("The daemon runs: process {}; {} at work.", seen.pid, counted(seen.at_work, "session")),
        ),
        Err(error) => found.broken(
            "daemon",
            format!("The daemon cannot be asked: {error}."),
            "See `edn-bridge daemon log`; `edn-bridge daemon stop --now` ends it.",
        ),
    }
}

fn is_or_are(sessions: usize) -> String {
    format!("{} {}", counted(sessions, "session"), if sessions == 1 { "is" } else { "are" })
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The external agents: whether each can be started, and with whose rights.
fn agents(found: &mut Findings, settings: &Settings, layers: &Layers) {
    let setups = engine::agents_of(layers);
    for problem in &setups.problems {
        found.note("agents", format!("{problem}."), "Correct it under :agents of the configuration.");
    }
    let is_usual = |name: &str| settings.agent.as_deref() == Some(name);
    for setup in &setups.agents {
        let name = &setup.name;
        match setup.missing(&settings.cwd, &settings.environment) {
            None => {
                found.well("agents", format!("The agent {name} can be started: {}", setup.shown()));
            }
            Some(why) => {
                let what = format!("The agent {name} cannot be started: {why}.");
                let advice = "Install it, or correct its :command under :agents.";
                match is_usual(name) {
                    true => found.broken("agents", what, advice),
                    false => found.note("agents", what, advice),
                }
            }
        }
        if !setup.sandbox {
            found.note(
                "agents",
                format!("The agent {name} runs with your rights: it can write wherever you can."),
                "Take :sandbox false out, and name the folders that it needs under :writable.",
            );
        }
    }
    let theirs = match settings.files.is_trusted() {
        true => Vec::new(),
        false => engine::agents_of_project(&settings.files).agents,
    };
    for setup in theirs.iter().filter(|setup| setups.get(&setup.name).is_none()) {
        let what = format!("The agent {} of the project is not started: it is not trusted.", setup.name);
        found.note("agents", what, "Look at it with /trust in a session, and trust it there.");
    }
    if let Some(name) = settings.agent.as_deref()
        && setups.get(name).is_none()
    {
        found.broken(
            "agents",
            format!("New sessions are to have the agent {name}, which is not configured."),
            "Name it under :agents of the configuration, or leave --agent out.",
        );
    }
}

/// The programs of the hooks. A guard whose program is missing denies each of its calls.
fn hooks(found: &mut Findings, settings: &Settings, layers: &Layers) {
    // A file that cannot be read is told with the configuration.
    let Ok(hooks) = hooks_of(layers) else { return };
    for hook in hooks.iter() {
        match missing(&hook.command, &settings.cwd, &settings.environment) {
            Some(why) => found.broken(
                "hooks",
                format!("The hook {} cannot run: {why}.", hook.id),
                "Install it, or correct its :command under :hooks; a guard that cannot run denies each call.",
            ),
            None => found.well("hooks", format!("The program of the hook {} is there.", hook.id)),
        }
    }
}

/// The programs of the MCP servers. No server is started or asked.
fn mcp_servers(found: &mut Findings, settings: &Settings, layers: &Layers) {
    for server in servers_of(layers).servers.iter().filter(|server| server.enabled) {
        let ServerTransport::Command(command) = &server.way else { continue };
        let folder = server.cwd.as_deref().unwrap_or(&settings.cwd);
        match missing(command, folder, &settings.environment) {
            Some(why) => found.broken(
                "mcp",
                format!("The MCP server {} cannot be started: {why}.", server.name),
                "Install it, correct its :command or :cwd under :mcp, or write :enabled false.",
            ),
            None => found.well("mcp", format!("The program of the MCP server {} is there.", server.name)),
        }
    }
}

fn state(found: &mut Findings, state_dir: &Path) {
    let shown = state_dir.display();
    let folder = match std::fs::metadata(state_dir) {
        Ok(folder) => folder,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let existing = state_dir.ancestors().find(|folder| folder.exists());
            let what = format!("The state folder {shown} is not there yet; it is made when it is needed.");
            return match existing.map(writes) {
                Some(Ok(_)) => found.well("state", what),
                Some(Err(error)) => found.broken(
                    "state",
                    format!("The state folder {shown} is not there, and cannot be made: {error}."),
                    "Make it, or name another with --state-dir DIR.",
                ),
                None => found.broken("state", what, "Name one with --state-dir DIR."),
            };
        }
        Err(error) => {
            let what = format!("The state folder {shown} cannot be looked at: {error}.");
            return found.broken("state", what, "Name another with --state-dir DIR.");
        }
    };
    if !folder.is_dir() {
        let what = format!("The state folder {shown} is no folder.");
        return found.broken("state", what, "Remove what is there, or name another with --state-dir DIR.");
    }
    match writes(state_dir) {
        Ok(took) => found.well(
            "state",
            format!(
                "The state folder {shown} can be written; a sync to its disk takes {:.1} ms.",
                millis(took)
            ),
        ),
        Err(error) => found.broken(
            "state",
            format!("The state folder {shown} cannot be written: {error}."),
            "Give yourself the right to, make room on the disk, or name another with --state-dir DIR.",
        ),
    }
    if let Some(kind) = weak_locks(state_dir) {
        found.note(
            "state",
            format!("The state folder {shown} is on {kind}, where locks may not hold between hosts."),
            "Open a session in one process at a time, or name a folder on a disk of this machine with --state-dir DIR.",
        );
    }
    if let Some(problem) = private::exposure(state_dir, &folder) {
        found.note("state", problem, "Until then, what is kept there may have been exchanged.");
    } else if folder.permissions().mode() & 0o077 != 0 {
        found.note(
            "state",
            "Other users can look into the state folder.",
            format!("Sessions in it are for you alone; still better: chmod 700 {shown}"),
        );
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Writes a file there, waits until it is on the disk, and removes it: how long that took.
fn writes(folder: &Path) -> std::io::Result<Duration> {
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    let begun = Instant::now();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = file.write_all(b"?").and_then(|()| file.sync_all());
    let took = begun.elapsed();
    std::fs::remove_file(&path)?;
    written.map(|()| took)
}

fn sessions(found: &mut Findings, options: &Options, settings: &Settings) {
    let durability = options.durability();
    match durability {
        Durability::Full => {
            found.well("durability", "Durability is full: what is acknowledged is on the disk.");
        }
        Durability::Relaxed => found.note(
            "durability",
            "Durability is relaxed: a power failure may cost the last second of what was said.",
            "Leave --durability out, or give full.",
        ),
    }
    let store = match Store::new(&settings.state_dir, durability) {
        Ok(store) => store,
        Err(error) => return found.broken("sessions", error.to_string(), "Look at the system's limits."),
    };
    let files = match store.all_files() {
        Ok(files) => files,
        Err(error) => {
            return found.broken("sessions", error.to_string(), "Make it possible to read there.");
        }
    };
    for folder in &files.closed {
        found.broken("sessions", folder.to_string(), "Make it possible to read there.");
    }
    let faults: Vec<_> = files.paths.iter().filter_map(|path| Some((path, fault(path)?))).collect();
    if faults.is_empty() && files.closed.is_empty() {
        let count = files.paths.len();
        found.well("sessions", format!("{} on disk, in the journal's format {FORMAT}.", is_or_are(count)));
    }
    for (path, why) in faults {
        let what = format!("{} cannot be opened: {why}", path.display());
        found.broken("sessions", what, "Look closer with `edn-bridge sessions verify`.");
    }
    let index = settings.state_dir.join("sessions-index.db");
    match (cfg!(feature = "index"), std::fs::metadata(&index)) {
        (false, _) => found.note(
            "index",
            "This build has no index: sessions are listed and searched by reading their files.",
            "Build with the feature `index` for many sessions.",
        ),
        (true, Ok(file)) => found.well("index", format!("The index of sessions has {} bytes.", file.len())),
        (true, Err(_)) => {
            found.well("index", "There is no index of sessions yet; it is made when it is needed.")
        }
    }
}

/// Why a session's file cannot be opened, as far as its first line tells.
fn fault(path: &Path) -> Option<String> {
    let mut line = Vec::new();
    let read = private::open_to_read(path)
        .and_then(|file| BufReader::new(file.take(LISTING_BYTES)).read_until(b'\n', &mut line));
    match (read, Header::read(line.trim_ascii_end())) {
        (Err(error), _) => Some(format!("{error}.")),
        (Ok(_), Ok(_)) => None,
        (Ok(_), Err(error)) => Some(format!("{error}.")),
    }
}

/// The model of new sessions, and the embedded one: nothing else is needed for a turn with that.
fn models(found: &mut Findings, settings: &Settings, chosen: &DefaultModel, is_read: bool) {
    if !is_read && settings.provider.is_none() {
        return found.note(
            "model",
            "Which model new sessions are to ask is not known: the configuration cannot be read.",
            "Correct it first.",
        );
    }
    let choice = match &chosen.choice {
        Ok(choice) => choice,
        Err(none) => {
            let advice = "`edn-bridge models list` lists the models with their providers.";
            return found.broken("model", none.to_string(), advice);
        }
    };
    let is_wanted = &*choice.provider == embedded::NAME;
    if !is_wanted {
        let reason = choice.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let ModelChoice { provider, model, .. } = choice;
        found.well(
            "model",
            format!("New sessions ask the provider {provider} for the model {model}{reason}."),
        );
    }
    if !embedded::COMPILED_IN {
        let what = "This build has no embedded model.";
        return match is_wanted {
            true => found.broken(
                "model",
                "This build has no embedded model, which new sessions are to ask.",
                "Choose another provider with --provider or in the configuration, or build with `embedded-model`.",
            ),
            false => found.well("model", what),
        };
    }
    match ModelFile::choose(settings.model_file.clone(), &settings.state_dir).check() {
        Ok(path) => found.well("model", format!("The embedded model's file is {}.", path.display())),
        Err(error) if settings.model_file.is_some() => {
            found.broken("model", error.to_string(), "Name another file with --model-file FILE.");
        }
        Err(error) if is_wanted => {
            found.broken(
                "model",
                error.to_string(),
                "Run `edn-bridge models fetch` once, or choose another provider.",
            );
        }
        Err(_) => found.well("model", "The embedded model is not there; new sessions do not ask it."),
    }
}

/// The servers of models, and what a turn of a new session would need of the one that it asks.
fn servers(found: &mut Findings, settings: &Settings, chosen: &DefaultModel) {
    let providers = &chosen.providers;
    let is_server = |choice: &&ModelChoice| {
        settings.script.is_none() && ![scripted::NAME, embedded::NAME].contains(&&*choice.provider)
    };
    let choice = chosen.choice.as_ref().ok().filter(is_server);
    let server_of = |choice: &ModelChoice| {
        providers.get(&choice.provider).ok_or_else(|| providers.why_none(&choice.provider))
    };
    let asked = choice.map(|choice| (choice, server_of(choice)));
    // What keeps the chosen provider from being known is told as what is broken.
    let broken = asked.as_ref().and_then(|(_, server)| server.as_ref().err());
    for problem in providers.problems() {
        if broken.is_none_or(|broken| !broken.ends_with(problem)) {
            found.note(
                "providers",
                format!("{problem}."),
                "Correct it under :providers of the configuration.",
            );
        }
    }
    match asked {
        Some((_, Err(broken))) => found.broken(
            "providers",
            format!("New sessions have nobody to ask. {broken}"),
            "Name another under :provider, or correct this one under :providers.",
        ),
        Some((choice, Ok(known))) if !known.is_ready() => found.broken(
            "providers",
            format!("There is no key for the provider {}, which new sessions are to ask.", choice.provider),
            format!("Set its key's variable, or run `edn-bridge login {}`.", choice.provider),
        ),
        Some((choice, Ok(known))) => server(found, &*known, &choice.model),
        None => {}
    }
    keys(found, providers);
}

/// Whether a server answers, takes the key, and has the model.
fn server(found: &mut Findings, provider: &dyn Provider, model: &str) {
    let name = provider.name();
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let listed = match executor {
        Ok(executor) => executor.block_on(provider.listed()),
        Err(error) => return found.broken("server", error.to_string(), "Look at the system's limits."),
    };
    let models = match listed {
        Ok(Some(models)) => models,
        Ok(None) => {
            return found.note(
                "server",
                format!("{name} answers, and lists no models: whether it has {model} is not known."),
                "If prompts fail, check the provider's :base-url and the model's id.",
            );
        }
        Err(error) => {
            // The message ends with the advice of its cause.
            let (what, advice) = match error.advice {
                Some(advice) => (error.message.trim_end_matches(advice), advice),
                None => (error.message.as_str(), "Correct its :base-url or its key under :providers."),
            };
            let what = format!("{}.", what.trim_end().trim_end_matches('.'));
            return found.broken("server", what, advice);
        }
    };
    // Ollama's names may end with a tag that is left out.
    if models.iter().any(|known| known == model || known.strip_suffix(":latest") == Some(model)) {
        return found.well("server", format!("{name} answers, and has the model {model}."));
    }
    let is_here = provider.facts().base_url.and_then(|url| url.parse().ok());
    if let ([only], true) = (models.as_slice(), is_here.is_some_and(|url| http::is_loopback(&url))) {
        return found.note(
            "server",
            format!("{name} answers, and has one model, {only}, not {model}."),
            "A server on this machine may answer for any name; else name its model under :model.",
        );
    }
    let near = similar::names(model, models.iter().map(String::as_str)).into_iter().next();
    let near = near.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
    found.broken(
        "server",
        format!("{name} answers, and does not list the model {model} among its {}.{near}", models.len()),
        "Name another under :model, or with --model.",
    );
}

fn keys(found: &mut Findings, providers: &Providers) {
    let known = providers.key_variables();
    let is_set = |name: &&String| std::env::var_os(name.as_str()).is_some_and(|value| !value.is_empty());
    let set: Vec<&str> = known.iter().filter(is_set).map(String::as_str).collect();
    let ready = providers.ready().join(", ");
    match set.is_empty() {
        true => found.note(
            "keys",
            format!("The environment has no key of a hosted provider. Providers that can be asked: {ready}."),
            format!(
                "For a hosted model, log in with edn-bridge login NAME, or set one of {}.",
                known.join(", ")
            ),
        ),
        false => found.well(
            "keys",
            format!("The environment has keys: {}. Providers that can be asked: {ready}.", set.join(", ")),
        ),
    }
}

/// The engine of the realm: whether it can be used, and how long it takes.
fn realm(found: &mut Findings, settings: &Settings) {
    let Some(policy) = &settings.realm else { return };
    match realm::check(settings, policy) {
        Ok(check) => {
            let takes = match policy.takeover {
                Takeover::Ask => "",
                Takeover::Auto => ", and takes sessions of lost machines by itself",
            };
            let share = policy.share.as_str();
            let about = format!("This machine is {} in the realm, shares {share}{takes}", policy.host);
            found.well("realm", format!("{about}. {}.", realm::facts(&check).join("; ")));
            for note in check.notes {
                found.note("realm", note.what, note.advice);
            }
        }
        Err(failure) => found.broken("realm", failure.to_string(), "`edn-bridge realm check` says more."),
    }
}

fn socket(found: &mut Findings, settings: &Settings) {
    let running = socket::connect(Purpose::Clients, &settings.state_dir, Some(&settings.cwd)).len();
    match running {
        0 => found.well("socket", "No bridge runs for this folder."),
        1 => found.well("socket", "A bridge runs for this folder; `query` and `repl` ask it."),
        more => found.well("socket", format!("{more} bridges run for this folder; the newest is asked.")),
    }
}

/// Landlock can only add rights, so a protected file inside the workspace has a cost.
fn workspace(found: &mut Findings, settings: &Settings) {
    let KeptFiles { guarded, hidden } = settings.kept();
    // As the sandbox finds them: the file that --config names may be told in any way.
    let resolved = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let inside = hidden.iter().chain(&guarded).map(resolved).find(|path| path.starts_with(&settings.cwd));
    if let Some(path) = inside.filter(|_| sandbox::state() == sandbox::SandboxState::Enforced) {
        found.note(
            "sandbox",
            format!(
                "The workspace contains {}, which is kept from commands: they cannot make new entries directly in {}, \
                 nor in the folders between the two.",
                path.display(),
                settings.cwd.display()
            ),
            "Work in a folder of the project's own.",
        );
    }
}

fn kernel(found: &mut Findings) {
    match sandbox::state() {
        sandbox::SandboxState::Enforced => found.well(
            "sandbox",
            "The kernel (Landlock) keeps commands from writing outside the workspace and the temporary folder.",
        ),
        sandbox::SandboxState::Unavailable => found.note(
            "sandbox",
            "The kernel has no Landlock that can be used: commands that are allowed can write wherever you can.",
            "Use Linux 6.2 or later with Landlock switched on (lsm=landlock,…), and read commands before you allow \
             them.",
        ),
    }
}

fn emacs(found: &mut Findings) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = std::env::split_paths(&path).map(|dir| dir.join("emacs")).find(|file| file.is_file())
    else {
        return found.note(
            "emacs",
            "Emacs was not found.",
            "Install it for the Emacs frontend (28.1 or later); nothing else needs it.",
        );
    };
    match version(&program) {
        Some(version) => {
            let number =
                |at: usize| version.split(['.', ' ']).filter_map(|part| part.parse::<u32>().ok()).nth(at);
            match (number(0), number(1)) {
                (Some(major), Some(minor)) if (major, minor) < (28, 1) => found.note(
                    "emacs",
                    format!("{version} ({}) is too old for the package.", program.display()),
                    "Install Emacs 28.1 or later.",
                ),
                _ => found.well("emacs", format!("{version} ({}).", program.display())),
            }
        }
        None => found.note(
            "emacs",
            format!("{} does not tell its version.", program.display()),
            "Try `emacs --version`.",
        ),
    }
}

/// The first line that a program says of its version.
fn version(program: &Path) -> Option<String> {
    let started = Program::new(program).args(["--version"]).start_blocking(Stdio::piped(), Stdio::null());
    let mut running = started.ok()?;
    let deadline = Instant::now().checked_add(PATIENCE)?;
    while running.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    running.stdout()?.take(LISTING_BYTES).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

fn context(found: &mut Findings, settings: &Settings) {
    let files = &settings.files;
    let places =
        Places { user: files.folder.clone(), cwd: settings.cwd.clone(), trusted: files.is_trusted() };
    let project = Project::discover(&places);
    found.well(
        "context",
        format!(
            "The model is told {} files of instructions and {} skills; there are {} prompt templates.",
            project.instructions.len(),
            project.skills.values().filter(|skill| skill.for_model).count(),
            project.templates.len()
        ),
    );
    for problem in &project.problems {
        let what = format!("{} is left out: {}", problem.path.display(), problem.message);
        found.note("context", what, "Correct the file, or remove it.");
    }
}

fn as_text(settings: &[Setting], found: &Findings, well: bool) -> String {
    let painter = Painter::stdout();
    let mut text = String::new();
    if !settings.is_empty() {
        let _ = writeln!(text, "{}", painter.paint(Meaning::Heading, "Configuration:"));
        let width = settings.iter().map(|(key, ..)| key.len()).max().unwrap_or_default();
        for (key, value, origin) in settings {
            let shown = match value {
                Value::Nil => "none".to_owned(),
                value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            };
            let (shown, origin) = (painter.plain(&shown), painter.plain(origin));
            let _ = writeln!(text, "  {key:width$}  {shown}  ({origin})");
        }
        let _ = writeln!(text);
    }
    for finding in &found.0 {
        let meaning = match finding.severity {
            Severity::Well => Meaning::Well,
            Severity::Note => Meaning::Note,
            Severity::Broken => Meaning::Bad,
        };
        let word = painter.paint(meaning, finding.severity.as_str());
        let room = 6usize.saturating_sub(finding.severity.as_str().len());
        let what = painter.plain(&finding.what);
        let _ = writeln!(text, "{word}{:room$}  {}: {what}", "", finding.area);
        if let Some(advice) = &finding.advice {
            let _ = writeln!(text, "        → {}", painter.plain(advice));
        }
    }
    let last = match well {
        true => painter.paint(Meaning::Well, "Nothing is broken."),
        false => painter.paint(Meaning::Bad, "Something is broken."),
    };
    let _ = writeln!(text, "\n{last}");
    text
}

fn as_value(settings: &[Setting], found: &Findings, well: bool) -> String {
    let value = |(key, value, origin): &Setting| {
        let mut map = Map::new();
        map.put("key", Value::keyword(*key));
        map.put("value", value.clone());
        map.put("source", origin.clone());
        Value::from(map)
    };
    let finding = |finding: &Finding| {
        let mut map = Map::new();
        map.put("area", Value::keyword(finding.area));
        map.put("state", Value::keyword(finding.severity.as_str()));
        map.put("message", finding.what.clone());
        map.put_some("advice", finding.advice.clone());
        Value::from(map)
    };
    let mut report = Map::new();
    report.put("healthy", well);
    report.put("configuration", Value::vector(settings.iter().map(value)));
    report.put("findings", Value::vector(found.0.iter().map(finding)));
    let mut text = Vec::new();
    edn::write_pretty(&Value::from(report), 100, &mut text);
    text.push(b'\n');
    String::from_utf8_lossy(&text).into_owned()
}
