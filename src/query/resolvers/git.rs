//! `:git.repo/*` and `:git.worktree/*`: the repository of a session's folder.
//!
//! Reads the repository's own files; a query starts no process.

use std::path::{Path, PathBuf};

use crate::git::{self, Head};
use crate::query::graph::{Env, Input, Inputs, Resolver, ResolverResult};
use crate::query::plan::Cost;
use crate::query::table::{join, table, text};
use crate::query::world::ResolverFailure;
use crate::value::Value;

table! {
    WORKTREE of Worktree {
        "git.worktree/path" "The worktree's top folder." => |tree| shown(&tree.root);
        "git.worktree/branch" "Its checked out branch, or nil." => |tree| tree.head.branch.clone();
        "git.worktree/head" "Its checked out commit, or nil." => |tree| tree.head.commit.clone();
        "git.worktree/is-main" "Whether it is the main worktree." => |tree| tree.is_main;
        "git.worktree/is-current" "Whether the session works there." => |tree| tree.is_current;
    }
}

table! {
    REPO of Repo {
        "git.repo/git-dir" "The repository's own folder, shared by all its worktrees." => |repo| shown(&repo.shared);
        "git.worktree/root" "The top folder of the worktree that the session works in." => |repo| shown(&repo.root);
        "git.repo/branch" "The checked out branch, or nil." => |repo| repo.head.branch.clone();
        "git.repo/head" "The checked out commit, or nil before the first." => |repo| repo.head.commit.clone();
        "git.repo/is-detached" "Whether a commit is checked out instead of a branch." => |repo| repo.head.branch.is_none();
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "git.repo/of-folder",
        &[Input::Required("psi.agent-session/worktree-path")],
        REPO.outputs,
        |_, inputs| {
            let repo = Repo::read(inputs.text("psi.agent-session/worktree-path").unwrap_or_default())?;
            Ok(repo.map(|repo| REPO.answer(&repo)).unwrap_or_default())
        },
    )
    .costing(Cost::Slow),
    Resolver::one(
        "git.repo/worktrees",
        &[Input::Required("git.repo/git-dir"), Input::Optional("git.worktree/root")],
        &[join("git.repo/worktrees", "The repository's worktrees, the main one first.", WORKTREE.outputs)],
        worktrees,
    )
    .costing(Cost::Slow),
];

/// A repository, as the session's folder shows it.
struct Repo {
    shared: PathBuf,
    root: PathBuf,
    head: Head,
}

impl Repo {
    fn read(folder: &str) -> Result<Option<Self>, ResolverFailure> {
        let root = Path::new(folder).ancestors().find(|folder| folder.join(".git").exists());
        let Some((root, own)) = root.and_then(|root| Some((root, git::own_folder(root)?))) else {
            return Ok(None);
        };
        let shared = git::shared_folder(&own);
        Ok(Some(Self { head: git_head(&own, &shared)?, root: root.to_owned(), shared }))
    }
}

/// What is checked out, or why that is not known.
fn git_head(own: &Path, shared: &Path) -> Result<Head, ResolverFailure> {
    let unreadable = || ResolverFailure::new(format!("{} cannot be read.", own.join("HEAD").display()));
    Head::read(own, shared).ok_or_else(unreadable)
}

struct Worktree {
    root: PathBuf,
    head: Head,
    is_main: bool,
    is_current: bool,
}

fn worktrees(_: &Env<'_>, inputs: &Inputs<'_>) -> ResolverResult {
    let shared = PathBuf::from(inputs.text("git.repo/git-dir").unwrap_or_default());
    let current = inputs.text("git.worktree/root");
    let main = shared.parent().map(|root| (root.to_owned(), shared.clone(), true));
    let linked = std::fs::read_dir(shared.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.filter_map(|entry| {
        let gitdir = git::read(&entry.path().join("gitdir"))?;
        Some((Path::new(gitdir.trim()).parent()?.to_owned(), entry.path(), false))
    });
    let mut linked: Vec<_> = linked.collect();
    linked.sort();
    let worktree = |(root, own, is_main): (PathBuf, PathBuf, bool)| Worktree {
        head: Head::read(&own, &shared).unwrap_or_default(),
        is_current: current.is_some_and(|current| Path::new(current) == root),
        root,
        is_main,
    };
    WORKTREE.list("git.repo/worktrees", &main.into_iter().chain(linked).map(worktree).collect::<Vec<_>>())
}

fn shown(path: &Path) -> Value<'static> {
    text(&path.to_string_lossy())
}
