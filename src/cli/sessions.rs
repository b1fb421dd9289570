//! `edn-bridge sessions`: lists, shows, exports, verifies, renames, archives and deletes sessions. Runs none.

pub(super) mod admin;

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use edn_bridge::clock::{Clock as _, SystemClock, rfc3339};
use edn_bridge::export::{self, Format, Transcript};
use edn_bridge::interaction::audit;
use edn_bridge::message::{Role, SessionId};
use edn_bridge::store::{
    AllFiles, EntryBody, JournalContent, JournalFault, Journals as _, Repaired, Store, StoredSession,
};
use edn_bridge::value::{Map, Value};

use super::failure::{Exit, FAILED, Failure};
use super::options::Options;
use super::out;
use super::progress::Bar;
use super::realm;
use super::style::{Meaning, Painter};
use super::table::Table;

#[derive(Subcommand)]
pub(super) enum SessionsCommand {
    /// Lists the sessions of this folder, newest first.
    List {
        /// Only those with all these words in one message or in their name.
        words: Vec<String>,
        /// Those of all folders.
        #[arg(long)]
        all: bool,
        /// Archived ones too.
        #[arg(long)]
        archived: bool,
        /// Those of the realm, of all its hosts.
        #[arg(long, conflicts_with_all = ["all", "archived"])]
        realm: bool,
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// As JSON, whole.
        #[arg(long)]
        json: bool,
    },
    /// Goes on here with a session of the realm whose host is lost, by the bridge that runs here.
    Take {
        /// Its id.
        session: String,
        /// The folder of this machine that it goes on in; by default the current one.
        folder: Option<PathBuf>,
    },
    /// Prints a session as Markdown.
    Show {
        /// Its id, the beginning of its id, its name, or its file.
        session: String,
    },
    /// Writes a session to standard output or a file.
    Export {
        /// Its id, the beginning of its id, its name, or its file.
        session: String,
        /// html, markdown or edn; by default the file's extension, else html.
        #[arg(long, value_name = "FORMAT", value_parser = ["html", "markdown", "edn"])]
        format: Option<String>,
        /// The file. It must not be there yet, unless it is an earlier page.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Gives a session another name.
    Rename {
        /// Its id, the beginning of its id, or its name.
        session: String,
        /// The new name.
        name: String,
    },
    /// Archives sessions: lists leave them out.
    Archive {
        /// Their ids, the beginnings of their ids, or their names.
        #[arg(required = true)]
        sessions: Vec<String>,
        /// Take them out of the archive again.
        #[arg(long)]
        undo: bool,
    },
    /// Deletes sessions, with all that is kept of them. There is no way back.
    Delete {
        /// Their ids, the beginnings of their ids, or their names.
        #[arg(required = true)]
        sessions: Vec<String>,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Deletes the sessions of this folder that were not used for some time. Shows them and asks first.
    Prune {
        /// Those that were last used before that: 12h, 30d, 8w.
        #[arg(long, value_name = "AGE", value_parser = admin::age)]
        older_than: Duration,
        /// Those of all folders.
        #[arg(long)]
        all: bool,
        /// Only archived ones.
        #[arg(long)]
        archived: bool,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Checks the files of sessions; without names, all of them and the audit. Exit status 1 for any fault.
    Verify {
        /// Their ids, the beginnings of their ids, their names, or their files.
        sessions: Vec<String>,
        /// Repairs damaged files, and keeps each original next to the repaired one.
        #[arg(long)]
        repair: bool,
    },
}

pub(super) fn run(options: &Options, command: Option<SessionsCommand>) -> Exit {
    let settings = options.settings()?;
    let store = options.store(&settings)?;
    let cwd = settings.cwd.as_path();
    let default = SessionsCommand::List {
        words: Vec::new(),
        all: false,
        archived: false,
        realm: false,
        limit: 50,
        json: false,
    };
    match command.unwrap_or(default) {
        SessionsCommand::List { words, realm: true, limit, json, .. } => {
            realm::list(&settings, &words.join(" "), limit, json)
        }
        SessionsCommand::Take { session, folder } => {
            let folder = folder.map(|folder| folder.canonicalize().unwrap_or(folder));
            let folder = folder.unwrap_or_else(|| settings.cwd.clone());
            admin::take(options, &settings, &SessionId::from(session.as_str()), &folder)
        }
        SessionsCommand::List { words, all, archived, limit, json, .. } => {
            let cwd = (!all).then_some(cwd);
            for copy in store.stored(None)?.copies {
                let _ = writeln!(out::stderr(), "edn-bridge: {copy}");
            }
            list(&store, cwd, &words.join(" "), archived, limit, json)
        }
        SessionsCommand::Show { session } => {
            let content = read(&store, cwd, &session)?;
            warn(&content);
            out::print(&export::export(&transcript(&content), Format::Markdown))
        }
        SessionsCommand::Export { session, format, output } => {
            let content = read(&store, cwd, &session)?;
            warn(&content);
            let ending = output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
            let format = format.as_deref().or(ending).and_then(Format::parse).unwrap_or(Format::Html);
            let text = export::export(&transcript(&content), format);
            match output {
                None => out::print(&text),
                Some(path) => {
                    export::save(&path, &text).map_err(Failure::io(path.display().to_string()))?;
                    out::print(&format!("{}\n", path.display()))
                }
            }
        }
        SessionsCommand::Rename { session, name } => {
            let session = resolve(&store, cwd, &session)?;
            admin::rename(options, &settings, &session, &name)
        }
        SessionsCommand::Archive { sessions, undo } => {
            let sessions = resolve_all(&store, cwd, &sessions)?;
            admin::archive(options, &settings, &sessions, !undo)
        }
        SessionsCommand::Delete { sessions, yes } => {
            let wanted = resolve_all(&store, cwd, &sessions)?;
            let listed = store.list(None)?;
            let known = |id: &SessionId| listed.iter().find(|info| info.header.session == *id);
            let mut rows = table(false);
            for id in &wanted {
                match known(id) {
                    Some(info) => rows.row(cells(info, id.as_str(), false)),
                    None => rows.row([(id.as_str().to_owned(), Some(Meaning::Name))]),
                }
            }
            admin::delete(options, &settings, &wanted, &rows, yes)
        }
        SessionsCommand::Prune { older_than, all, archived, yes } => {
            let before = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
            let listed = store.list((!all).then_some(cwd))?;
            let old: Vec<_> =
                listed.iter().filter(|info| info.modified < before && (info.archived || !archived)).collect();
            if old.is_empty() {
                return out::note("There is no session that old.");
            }
            let mut rows = table(all);
            for info in &old {
                rows.row(cells(info, info.header.session.as_str(), all));
            }
            let wanted: Vec<SessionId> = old.iter().map(|info| info.header.session.clone()).collect();
            admin::delete(options, &settings, &wanted, &rows, yes)
        }
        SessionsCommand::Verify { sessions, repair } => {
            let checked = verify(&store, cwd, &sessions, repair)?;
            match sessions.is_empty() {
                true => verify_audit(&audit::path(&settings.state_dir), checked),
                false => Ok(checked),
            }
        }
    }
}

fn resolve_all(store: &Store, cwd: &Path, sessions: &[String]) -> Result<Vec<SessionId>, Failure> {
    sessions.iter().map(|session| resolve(store, cwd, session)).collect()
}

fn table(with_folder: bool) -> Table {
    match with_folder {
        false => Table::new(&["SESSION", "LAST USED (UTC)", "MESSAGES", "NAME", ""], 3, &[2])
            .keeping(&[0], &[2, 1]),
        true => Table::new(&["SESSION", "LAST USED (UTC)", "MESSAGES", "NAME", "FOLDER", ""], 3, &[2])
            .keeping(&[0], &[2, 1, 4]),
    }
}

/// When a session was last written to, RFC 3339.
fn modified(info: &StoredSession) -> String {
    jiff::Timestamp::try_from(info.modified).map(rfc3339).map(|ts| ts.to_string()).unwrap_or_default()
}

/// A row of the table.
fn cells(info: &StoredSession, id: &str, with_folder: bool) -> Vec<(String, Option<Meaning>)> {
    let used = modified(info).get(..16).unwrap_or_default().replace('T', " ");
    let messages = info.messages.map_or_else(|| "?".to_owned(), |messages| messages.to_string());
    let mut cells = vec![
        (id.to_owned(), Some(Meaning::Name)),
        (used, None),
        (messages, None),
        (info.display_name().to_owned(), None),
    ];
    if with_folder {
        cells.push((info.header.cwd.to_string(), Some(Meaning::Faint)));
    }
    cells.push((if info.archived { "archived" } else { "" }.to_owned(), Some(Meaning::Faint)));
    cells
}

/// The least characters of an id in a list on a terminal.
const SHORT_ID: usize = 14;

/// How many characters of the ids tell them apart. In a pipe they are whole.
pub(super) fn id_length(ids: &[&str]) -> usize {
    if !std::io::stdout().is_terminal() {
        return usize::MAX;
    }
    let differ = |length: usize| {
        let mut short: Vec<_> = ids.iter().map(|id| id.get(..length).unwrap_or(id)).collect();
        short.sort_unstable();
        short.windows(2).all(|pair| pair.first() != pair.last())
    };
    (SHORT_ID..64).find(|length| differ(*length)).unwrap_or(usize::MAX)
}

fn list(store: &Store, cwd: Option<&Path>, words: &str, archived: bool, limit: usize, as_json: bool) -> Exit {
    let is_wanted = |info: &StoredSession| archived || !info.archived;
    let found: Vec<(StoredSession, Option<String>)> = match words.is_empty() {
        true => {
            store.list(cwd)?.into_iter().filter(|info| is_wanted(info)).map(|info| (info, None)).collect()
        }
        false => {
            let hits = store.search(cwd, words, archived, limit.saturating_add(1))?.into_iter();
            hits.map(|hit| {
                for fault in &hit.faults {
                    let _ = writeln!(out::stderr(), "edn-bridge: {}: {fault}", hit.info.header.session);
                }
                (hit.info, Some(hit.excerpt))
            })
            .collect()
        }
    };
    let has_more = found.len() > limit;
    let found: Vec<_> = found.into_iter().take(limit).collect();
    if as_json {
        let all = found.iter().map(|(info, excerpt)| as_value(info, excerpt.as_deref()));
        let mut text = Vec::new();
        edn_bridge::json::write(&Value::vector(all), &mut text);
        out::print(&format!("{}\n", String::from_utf8_lossy(&text)))?;
        return Ok(ExitCode::from(if found.is_empty() && !words.is_empty() { FAILED } else { 0 }));
    }
    if found.is_empty() && !words.is_empty() {
        let place = if cwd.is_some() { " of this folder (--all looks in all folders)" } else { "" };
        return Err(Failure::NoSession(format!(
            "No session{place} has {words:?} in a message or in its name."
        )));
    }
    if found.is_empty() {
        let is_terminal = std::io::stdout().is_terminal();
        return if is_terminal {
            out::note("There are none. --all looks in all folders.")
        } else {
            out::print("")
        };
    }
    let ids: Vec<&str> = found.iter().map(|(info, _)| info.header.session.as_str()).collect();
    let length = id_length(&ids);
    let short = |info: &StoredSession| {
        let id = info.header.session.as_str();
        id.get(..length).unwrap_or(id).to_owned()
    };
    let mut rows = table(cwd.is_none());
    for (info, _) in &found {
        rows.row(cells(info, &short(info), cwd.is_none()));
    }
    let text = rows.text();
    // In a pipe rows are counted; what is said beside them would only be in the way.
    let ended = |shown: Exit| match has_more && std::io::stdout().is_terminal() {
        true => shown.and_then(|_| out::note(&format!("There are more than {limit}; --limit N shows more."))),
        false => shown,
    };
    if words.is_empty() {
        return ended(out::show(&text));
    }
    // Below each row, what was found in it.
    let painter = Painter::stdout();
    let headings = text.lines().count().saturating_sub(found.len());
    let mut all = String::new();
    for (at, line) in text.lines().enumerate() {
        let _ = writeln!(all, "{line}");
        let excerpt = at.checked_sub(headings).and_then(|at| found.get(at)?.1.as_deref());
        if let Some(excerpt) = excerpt {
            let _ = writeln!(all, "    {}", painter.plain(excerpt));
        }
    }
    ended(out::show(&all))
}

fn as_value(info: &StoredSession, excerpt: Option<&str>) -> Value<'static> {
    let mut map = Map::new();
    map.put("id", info.header.session.as_str().to_owned());
    map.put("name", info.display_name().to_owned());
    map.put("cwd", info.header.cwd.to_string());
    map.put("created-at", info.header.created_at.to_string());
    map.put("modified", modified(info));
    map.put("messages", info.messages.and_then(|count| i64::try_from(count).ok()));
    map.put("bytes", i64::try_from(info.bytes).unwrap_or(i64::MAX));
    map.put("archived", info.archived);
    map.put("file", info.location().into_owned());
    map.put_some("excerpt", excerpt.map(str::to_owned));
    Value::from(map)
}

/// A session as Markdown, after what is wrong with its file.
pub(super) fn markdown(store: &Store, session: &str) -> Result<String, Failure> {
    let content = store.read_file(&find(store, session)?)?;
    let mut text: String = content.faults.iter().map(|fault| format!("> {fault}\n")).collect();
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&export::export(&transcript(&content), Format::Markdown));
    Ok(text)
}

fn read(store: &Store, cwd: &Path, session: &str) -> Result<JournalContent, Failure> {
    Ok(store.read_file(&find_or_named(store, cwd, session)?)?)
}

fn unnamed() -> Failure {
    Failure::NoSession("The name of a session is empty.".to_owned())
}

/// A session's file by its path, its id, the beginning of its id, or its name.
fn find_or_named(store: &Store, cwd: &Path, session: &str) -> Result<PathBuf, Failure> {
    // The name of a session, which may be its first message, may have dots and slashes too.
    let path = Path::new(session);
    let is_path = session.contains('/') || path.extension().is_some_and(|ending| ending == "edn");
    if is_path && path.is_file() {
        return Ok(path.to_owned());
    }
    match find(store, session) {
        Err(Failure::NoSession(why)) => {
            let id = resolve(store, cwd, session)?;
            store.look_up(&id)?.ok_or(Failure::NoSession(why))
        }
        found => found,
    }
}

/// A session by its id, the beginning of its id, or its name or the beginning of that; of several with that name, the one
/// of this folder.
pub(super) fn resolve(store: &Store, cwd: &Path, session: &str) -> Result<SessionId, Failure> {
    if session.trim().is_empty() {
        return Err(unnamed());
    }
    let by_id = find(store, session);
    if let Ok(path) = &by_id
        && let Some(id) = path.file_stem().and_then(|stem| stem.to_str())
    {
        return Ok(SessionId::from(id));
    }
    // More than one begins so: the names of sessions are no help then.
    let Err(failure) = by_id else { return Err(Failure::NoSession(format!("{session:?} is no session."))) };
    let all = store.list(None)?;
    let wanted = session.to_lowercase();
    let named = |is_so: &dyn Fn(&str) -> bool| -> Vec<&StoredSession> {
        let named: Vec<_> = all.iter().filter(|info| is_so(&info.display_name().to_lowercase())).collect();
        let here: Vec<_> = named.iter().copied().filter(|info| Path::new(&*info.header.cwd) == cwd).collect();
        if here.is_empty() { named } else { here }
    };
    let exact = named(&|name| name == wanted);
    let found = if exact.is_empty() { named(&|name| name.starts_with(&wanted)) } else { exact };
    match found.as_slice() {
        [] => Err(failure),
        [one] => Ok(one.header.session.clone()),
        [one, other, ..] => Err(Failure::NoSession(format!(
            "{} sessions are named {session:?}, such as {} and {}. Give the beginning of an id.",
            found.len(),
            one.header.session,
            other.header.session
        ))),
    }
}

/// A session's file by its id, or the beginning of its id.
fn find(store: &Store, session: &str) -> Result<PathBuf, Failure> {
    // Everything begins with nothing, also where a script's variable is not set.
    if session.trim().is_empty() {
        return Err(unnamed());
    }
    if let Some(path) = store.look_up(&SessionId::from(session))? {
        return Ok(path);
    }
    let begins = |path: &PathBuf| {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().starts_with(session));
        path.extension().is_some_and(|ending| ending == "edn") && name == Some(true)
    };
    let all = store.all_files()?;
    let mut fitting: Vec<_> = all.paths.into_iter().filter(begins).collect();
    if fitting.len() > 1 {
        fitting.retain(|path| matches!(store.copy_of(path), Ok(None)));
    }
    let mut fitting = fitting.into_iter();
    match (fitting.next(), fitting.count()) {
        (Some(path), 0) => Ok(path),
        (Some(_), more) => {
            Err(Failure::NoSession(format!("{} sessions begin with {session:?}.", more.saturating_add(1))))
        }
        (None, _) => Err(Failure::NoSession(match all.closed.first() {
            Some(closed) => format!("No session {session:?} was found. {closed}"),
            None => format!("There is no session {session:?}."),
        })),
    }
}

fn transcript(content: &JournalContent) -> Transcript {
    let branch = content.branch();
    let messages: Vec<_> = branch
        .iter()
        .filter_map(|entry| match &entry.body {
            EntryBody::Message(message) => Some(message.clone()),
            _ => None,
        })
        .collect();
    let name = content.entries.iter().rev().find_map(|entry| match &entry.body {
        EntryBody::Name(name) => Some(name.to_string()),
        _ => None,
    });
    let first = || {
        let message = messages.iter().find(|message| message.role == Role::User)?;
        Some(message.text().lines().next()?.chars().take(80).collect())
    };
    let title = name.or_else(first).unwrap_or_else(|| "New session".to_owned());
    let header = &content.header;
    Transcript {
        session: header.session.clone(),
        title,
        created_at: header.created_at.clone(),
        cwd: header.cwd.clone(),
        messages,
        interrupted: branch.iter().filter_map(|entry| entry.body.interrupted().cloned()).collect(),
    }
}

fn warn(content: &JournalContent) {
    for fault in &content.faults {
        let _ = writeln!(out::stderr(), "edn-bridge: {fault}");
    }
}

fn verify(store: &Store, cwd: &Path, sessions: &[String], repair: bool) -> Exit {
    let AllFiles { paths, closed } = match sessions {
        [] => store.all_files()?,
        _ => AllFiles {
            paths: sessions
                .iter()
                .map(|session| find_or_named(store, cwd, session))
                .collect::<Result<_, _>>()?,
            closed: Vec::new(),
        },
    };
    let mut text = String::new();
    for folder in &closed {
        let _ = writeln!(text, "{folder}");
    }
    let (mut whole, mut faulty, mut left) = (0usize, 0usize, 0usize);
    let bar = Bar::new();
    for (at, path) in paths.iter().enumerate() {
        if bar.is_live() {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            bar.show("reading the sessions", count(at), count(paths.len()));
        }
        let report = match store.verify(path) {
            Ok(report) => report,
            Err(error) => {
                left = left.saturating_add(1);
                let _ = writeln!(text, "{error}");
                continue;
            }
        };
        if report.faults.is_empty() {
            whole = whole.saturating_add(1);
            continue;
        }
        faulty = faulty.saturating_add(1);
        let _ = writeln!(
            text,
            "{}: {} entries can be read, {} bytes",
            path.display(),
            report.entries,
            report.bytes
        );
        for fault in &report.faults {
            let _ = writeln!(text, "  {fault}");
        }
        if !repair {
            left = left.saturating_add(1);
            continue;
        }
        let is_copy = report.faults.iter().any(|fault| matches!(fault, JournalFault::Copy { .. }));
        let repaired = match is_copy {
            true => store.separate(path, SessionId::from(SystemClock.id("s-"))).map(Some),
            false => store.repair(path),
        };
        match repaired {
            Ok(Some(Repaired::Separated { session, copy })) => {
                let _ = writeln!(text, "  It is the session {session} now. As it was: {}", copy.display());
            }
            Ok(Some(Repaired::Rewritten { copy })) => {
                let _ = writeln!(text, "  Repaired. As it was: {}", copy.display());
            }
            Ok(Some(Repaired::SetAside { to })) => {
                let _ = writeln!(text, "  There was nothing to save in it. It is now {}", to.display());
            }
            // Somebody else repaired it meanwhile.
            Ok(None) => {}
            Err(error) => {
                left = left.saturating_add(1);
                let _ = writeln!(text, "  {error}");
            }
        }
    }
    bar.clear();
    let _ = writeln!(
        text,
        "{} files: {whole} whole, {faulty} with faults, {left} left as they are.",
        paths.len()
    );
    out::print(&text)?;
    Ok(if left == 0 && closed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Checks that no record of how questions ended was changed or removed.
fn verify_audit(path: &Path, checked: ExitCode) -> Exit {
    if !audit::is_there(path) {
        return Ok(checked);
    }
    match audit::verify(path) {
        Ok(records) => {
            out::print(&format!("{}: {records} records, whole.\n", path.display()))?;
            Ok(checked)
        }
        Err(error) => {
            out::print(&format!("{}: {error}\n", path.display()))?;
            Ok(ExitCode::from(FAILED))
        }
    }
}
