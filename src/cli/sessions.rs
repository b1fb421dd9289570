//! `edn-bridge sessions`: lists, shows, exports and verifies journals. Runs no session.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use edn_bridge::clock::rfc3339;
use edn_bridge::export::{self, Format, Transcript};
use edn_bridge::interaction::audit;
use edn_bridge::message::{Role, SessionId};
use edn_bridge::store::{AllFiles, EntryBody, JournalContent, Journals as _, Repaired, Store, StoredSession};
use edn_bridge::visible;

use super::{Exit, FAILED, Failure, Options, out};

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
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Prints a session as Markdown.
    Show {
        /// Its id, the beginning of its id, or its file.
        session: String,
    },
    /// Writes a session to standard output or a file.
    Export {
        /// Its id, the beginning of its id, or its file.
        session: String,
        /// html, markdown or edn; by default the file's extension, else html.
        #[arg(long, value_name = "FORMAT", value_parser = ["html", "markdown", "edn"])]
        format: Option<String>,
        /// The file. It must not be there yet, unless it is an earlier page.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Checks the files of sessions; without names, all of them and the audit. Exit status 1 for any fault.
    Verify {
        /// Their ids, the beginnings of their ids, or their files.
        sessions: Vec<String>,
        /// Repairs damaged files, and keeps each original next to the repaired one.
        #[arg(long)]
        repair: bool,
    },
}

pub(super) fn run(options: &Options, command: Option<SessionsCommand>) -> Exit {
    let settings = options.settings()?;
    let folder = settings.state_dir.display().to_string();
    let store = Store::new(&settings.state_dir, options.durability()).map_err(Failure::io(folder))?;
    let default = SessionsCommand::List { words: Vec::new(), all: false, archived: false, limit: 50 };
    match command.unwrap_or(default) {
        SessionsCommand::List { words, all, archived, limit } => {
            let cwd = (!all).then_some(settings.cwd.as_path());
            list(&store, cwd, &words.join(" "), archived, limit)
        }
        SessionsCommand::Show { session } => {
            let content = read(&store, &session)?;
            warn(&content);
            out::print(&export::export(&transcript(&content), Format::Markdown))
        }
        SessionsCommand::Export { session, format, output } => {
            let content = read(&store, &session)?;
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
        SessionsCommand::Verify { sessions, repair } => {
            let checked = verify(&store, &sessions, repair)?;
            match sessions.is_empty() {
                true => verify_audit(&audit::path(&settings.state_dir), checked),
                false => Ok(checked),
            }
        }
    }
}

fn list(store: &Store, cwd: Option<&Path>, words: &str, archived: bool, limit: usize) -> Exit {
    let mut text = String::new();
    let is_wanted = |info: &StoredSession| archived || !info.archived;
    let line = |info: &StoredSession, more: &str, text: &mut String| {
        let modified = jiff::Timestamp::try_from(info.modified).map(rfc3339);
        let modified =
            modified.as_deref().ok().and_then(|ts| ts.get(..16)).unwrap_or_default().replace('T', " ");
        let messages = info.messages.map_or_else(|| "?".to_owned(), |messages| messages.to_string());
        let name = row(info.display_name());
        let _ = write!(text, "{}  {modified}  {messages:>5}  {name}", info.header.session);
        if cwd.is_none() {
            let _ = write!(text, "  ({})", row(&info.header.cwd));
        }
        let mark = if info.archived { "  archived" } else { "" };
        let _ = writeln!(text, "{mark}{more}");
    };
    if words.is_empty() {
        for info in store.list(cwd)?.iter().filter(|info| is_wanted(info)).take(limit) {
            line(info, "", &mut text);
        }
    } else {
        for hit in store.search(cwd, words, limit)?.into_iter().filter(|hit| is_wanted(&hit.info)) {
            line(&hit.info, &format!("\n    {}", hit.excerpt), &mut text);
        }
    }
    if text.is_empty() && std::io::stdout().is_terminal() {
        text.push_str("There are none. --all looks in all folders.\n");
    }
    out::print(&text)
}

/// A text that must stay in its row on a terminal.
fn row(text: &str) -> Cow<'_, str> {
    if std::io::stdout().is_terminal() { visible::line(text) } else { Cow::Borrowed(text) }
}

/// A session as Markdown.
pub(super) fn markdown(store: &Store, session: &str) -> Result<String, Failure> {
    Ok(export::export(&transcript(&read(store, session)?), Format::Markdown))
}

fn read(store: &Store, session: &str) -> Result<JournalContent, Failure> {
    Ok(store.read_file(&find(store, session)?)?)
}

/// A session's file by its path, its id, or the beginning of its id.
fn find(store: &Store, session: &str) -> Result<PathBuf, Failure> {
    if session.contains('/') || Path::new(session).extension().is_some() {
        return Ok(PathBuf::from(session));
    }
    if let Some(path) = store.look_up(&SessionId::from(session))? {
        return Ok(path);
    }
    let begins = |path: &PathBuf| {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().starts_with(session));
        path.extension().is_some_and(|ending| ending == "edn") && name == Some(true)
    };
    let all = store.all_files()?;
    let mut fitting = all.paths.into_iter().filter(begins);
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

fn verify(store: &Store, sessions: &[String], repair: bool) -> Exit {
    let AllFiles { paths, closed } = match sessions {
        [] => store.all_files()?,
        _ => AllFiles {
            paths: sessions.iter().map(|session| find(store, session)).collect::<Result<_, _>>()?,
            closed: Vec::new(),
        },
    };
    let mut text = String::new();
    for folder in &closed {
        let _ = writeln!(text, "{folder}");
    }
    let (mut whole, mut faulty, mut left) = (0usize, 0usize, 0usize);
    for path in &paths {
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
        match store.repair(path) {
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
