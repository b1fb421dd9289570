//! Undoes what a turn's tools did to files, and does it again. What commands changed is not known and stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::durable::DurableState;
use super::state::SessionState;
use crate::catalogue::ErrorCode;
use crate::catalogue::tools::{self, ToolKind, ToolRow};
use crate::event::{Body, FilesUndone};
use crate::limits::UNDO_TURNS;
use crate::message::TurnId;
use crate::session::{ApiError, Call, Undo, Undone, UndoneFile};
use crate::store::EntryBody;
use crate::tool::output::Outputs;
use crate::tool::permission::{self, Access, Act, Verdict};
use crate::tool::undo::{self, Action, Exchange, Exchanged, Texts};
use crate::value::Value;
use crate::visible;

/// The files that a message names at most.
const NAMED: usize = 20;

/// Undoes or redoes the changes of the last turns, one turn after the other. A turn whose files stand in the way ends
/// that; if it is the first one, nothing is changed.
///
/// # Errors
/// If the first turn cannot be undone.
pub(super) async fn undo(durable: &mut DurableState, call: &Call, wish: &Undo) -> Result<Undone, ApiError> {
    let mut done = Undone::default();
    let mut notes = Vec::new();
    for _ in 0..wish.steps.min(UNDO_TURNS) {
        let Some((turn, files)) = durable.state.changes.next(wish.undoes) else { break };
        match undo_turn(durable, call, wish, files).await {
            Ok(files) => {
                done.steps = done.steps.saturating_add(1);
                done.files.extend(files);
                notes.extend(ran(&durable.state, &turn));
            }
            Err(error) if done.steps == 0 => return Err(error),
            Err(error) => {
                notes.push(error.message);
                break;
            }
        }
    }
    done.message = told(&done, wish.undoes, &durable.state.facts.cwd);
    notes.dedup();
    for note in notes {
        done.message.push(' ');
        done.message.push_str(&note);
    }
    Ok(done)
}

/// Undoes or redoes the next turn.
async fn undo_turn(
    durable: &mut DurableState,
    call: &Call,
    wish: &Undo,
    files: Vec<Exchange>,
) -> Result<Vec<UndoneFile>, ApiError> {
    let cwd = PathBuf::from(&*durable.state.facts.cwd);
    let mut denied = Vec::new();
    let mut allowed = Vec::new();
    for file in files {
        match why_denied(durable, &file.path) {
            None => allowed.push(file),
            Some(reason) => denied.push((file.path, reason)),
        }
    }
    if let Some((path, reason)) = denied.first()
        && (!wish.skips_changed || allowed.is_empty())
    {
        let path = visible::line(&path.to_string_lossy()).into_owned();
        return Err(ApiError::failed(format!("{path} may not be changed. {reason}")));
    }
    let outputs = Outputs::new(&durable.shared.settings.state_dir, durable.handle.id.as_str());
    let wanted = allowed.len();
    let exchanged = undo::exchange(Texts::beside(&outputs), cwd.clone(), allowed, wish.skips_changed).await;
    let mut actions = exchanged.map_err(|paths| in_the_way(&paths, wanted, &cwd))?;
    let skipped = denied.into_iter();
    actions.extend(skipped.map(|(path, _)| Exchanged { path, action: Action::Skipped, mode: None }));
    if let Some(record) = durable.state.changes.record(&durable.handle.id, wish.undoes, &actions) {
        durable.append(vec![EntryBody::Files(Box::new(record))]).await?;
    }
    let told = |file: Exchanged| (file.path.to_string_lossy().into_owned(), file.action.as_str());
    let files: Vec<(String, &'static str)> = actions.into_iter().map(told).collect();
    let undone =
        files.iter().map(|(path, action)| UndoneFile { path: path.clone(), action: (*action).into() });
    let undone = undone.collect();
    let body = Body::FilesUndone(Arc::new(FilesUndone { undone: wish.undoes, files }));
    let event = durable.handle.event(body.clone(), Some(call.cause()));
    durable.show(body, Some(call.cause()));
    durable.handle.followed_by_editors(&durable.shared.client_files, None, event).await;
    durable.look_at_branch();
    durable.changed(Some(call.cause()));
    Ok(undone)
}

/// Why the rules and the mode do not let a file be written, if so. What they would ask a person, a person has asked
/// for.
fn why_denied(durable: &DurableState, path: &Path) -> Option<String> {
    let rules = durable.shared.rules_for(&durable.handle.config(), &durable.handle);
    let (cwd, roots) = (Path::new(&*durable.state.facts.cwd), durable.handle.roots());
    let ground = durable.shared.configuration.ground(cwd, &roots);
    ToolRow::names_of(ToolKind::Edit).find_map(|tool| {
        let act = Act::of(tool, Access::Write(path.to_owned()));
        match permission::judge(durable.shared.mode(&durable.state.facts), &rules, &ground, &act) {
            Verdict::Deny(reason) => Some(reason),
            Verdict::Allow | Verdict::Ask(_) => None,
        }
    })
}

/// What else ran since a turn began that may have changed files.
fn ran(state: &SessionState, turn: &TurnId) -> Option<String> {
    let messages = state.entries.all().iter().filter_map(|entry| entry.body.message());
    let since = messages.skip_while(|message| message.turn_id.as_ref() != Some(turn));
    let stays = |name: &str| ToolRow::of(name).is_some_and(|row| row.undo == tools::Undo::Stay);
    let ran = since.into_iter().any(|message| message.tool_name.as_deref().is_some_and(stays));
    ran.then(|| {
        "That turn, or one after it, ran commands or subagents; what those changed stays as it is.".to_owned()
    })
}

/// The names of files for a person, below the session's folder where they are.
fn names<'p>(paths: impl ExactSizeIterator<Item = &'p Path>, cwd: &Path) -> String {
    let more = paths.len().saturating_sub(NAMED);
    let mut names: Vec<String> = paths
        .take(NAMED)
        .map(|path| visible::line(&path.strip_prefix(cwd).unwrap_or(path).to_string_lossy()).into_owned())
        .collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// The refusal where somebody else has changed some of the `wanted` files.
fn in_the_way(paths: &[PathBuf], wanted: usize, cwd: &Path) -> ApiError {
    let message = format!(
        "Nothing of the turn was changed, because these files are not as it left them, what they were is no longer \
         kept, or something changes them now: {}.",
        names(paths.iter().map(PathBuf::as_path), cwd)
    );
    let others = i64::try_from(wanted.saturating_sub(paths.len())).unwrap_or(i64::MAX);
    let paths = Value::vector(paths.iter().map(|path| Value::from(path.to_string_lossy().into_owned())));
    ApiError::new(ErrorCode::FileChanged, message).with("changed", paths).with("others", Value::from(others))
}

/// What was done, for a person.
fn told(done: &Undone, undoes: bool, cwd: &str) -> String {
    let verb = if undoes { "undone" } else { "redone" };
    if done.steps == 0 {
        let verb = if undoes { "undo" } else { "redo" };
        return format!(
            "There is nothing to {verb}: no tool of a turn changed files. What commands and subagents changed is not \
             known."
        );
    }
    let of = |skipped: bool| -> Vec<&Path> {
        let files = done.files.iter().filter(|file| (file.action == Action::Skipped.as_str()) == skipped);
        files.map(|file| Path::new(file.path.as_str())).collect()
    };
    let (changed, skipped) = (of(false), of(true));
    let mut text = match changed.len() {
        0 => format!("Nothing was {verb}."),
        _ => format!("Changes {verb}: {}.", names(changed.into_iter(), Path::new(cwd))),
    };
    if !skipped.is_empty() {
        text.push_str(&format!(" Left as they are: {}.", names(skipped.into_iter(), Path::new(cwd))));
    }
    text
}
