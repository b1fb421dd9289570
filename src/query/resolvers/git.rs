//! `:git.repo/*` and `:git.worktree/*`: the repository of a session's folder.
//!
//! Reads the repository's own files; a query starts no process.

use std::path::{Path, PathBuf};

use crate::files;
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
use crate::value::{Map, Value};

/// The largest file that is read, such as `HEAD` or `packed-refs` (1 MiB).
const MOST_BYTES: u64 = 1024 * 1024;

const WORKTREE: &[&str] = &[
    "git.worktree/path",
    "git.worktree/branch",
    "git.worktree/head",
    "git.worktree/is-main",
    "git.worktree/is-current",
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("git.repo/git-dir", "The repository's own folder, shared by all its worktrees."),
        ("git.repo/branch", "The checked out branch, or nil."),
        ("git.repo/head", "The checked out commit, or nil before the first."),
        ("git.repo/is-detached", "Whether a commit is checked out instead of a branch."),
        ("git.repo/worktrees", "The repository's worktrees, the main one first."),
        ("git.worktree/root", "The top folder of the worktree that the session works in."),
        ("git.worktree/path", "The worktree's top folder."),
        ("git.worktree/branch", "Its checked out branch, or nil."),
        ("git.worktree/head", "Its checked out commit, or nil."),
        ("git.worktree/is-main", "Whether it is the main worktree."),
        ("git.worktree/is-current", "Whether the session works there."),
    ],
    resolvers: &[
        Resolver {
            name: "git.repo/of-folder",
            input: &[Input::Required("psi.agent-session/worktree-path")],
            output: &[
                out("git.repo/git-dir"),
                out("git.repo/branch"),
                out("git.repo/head"),
                out("git.repo/is-detached"),
                out("git.worktree/root"),
            ],
            cost: Cost::Slow,
            run: Run::One(repo),
        },
        Resolver {
            name: "git.repo/worktrees",
            input: &[Input::Required("git.repo/git-dir"), Input::Optional("git.worktree/root")],
            output: &[join("git.repo/worktrees", WORKTREE)],
            cost: Cost::Slow,
            run: Run::One(worktrees),
        },
    ],
    mutations: &[],
};

fn repo(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let folder = inputs.text("psi.agent-session/worktree-path").unwrap_or_default();
    let Some(root) = Path::new(folder).ancestors().find(|folder| folder.join(".git").exists()) else {
        return Ok(Vec::new());
    };
    let Some(own) = own_dir(root) else { return Ok(Vec::new()) };
    let shared = shared_dir(&own);
    let head = Head::read(&own, &shared)?;
    Ok(vec![
        ("git.repo/git-dir", text(&shared).into()),
        ("git.worktree/root", text(root).into()),
        ("git.repo/is-detached", head.branch.is_none().into()),
        ("git.repo/branch", Value::from(head.branch).into()),
        ("git.repo/head", Value::from(head.commit).into()),
    ])
}

fn worktrees(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let shared = PathBuf::from(inputs.text("git.repo/git-dir").unwrap_or_default());
    let current = inputs.text("git.worktree/root");
    let main = shared.parent().map(|root| (root.to_owned(), shared.clone(), true));
    let linked = std::fs::read_dir(shared.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.filter_map(|entry| {
        let gitdir = read(&entry.path().join("gitdir"))?;
        Some((Path::new(gitdir.trim()).parent()?.to_owned(), entry.path(), false))
    });
    let mut linked: Vec<_> = linked.collect();
    linked.sort();
    let mut all = Vec::new();
    for (root, own, is_main) in main.into_iter().chain(linked) {
        let head = Head::read(&own, &shared).unwrap_or_default();
        let mut map = Map::new();
        map.put("git.worktree/path", text(&root));
        map.put("git.worktree/branch", head.branch);
        map.put("git.worktree/head", head.commit);
        map.put("git.worktree/is-main", is_main);
        map.put("git.worktree/is-current", current.is_some_and(|current| Path::new(current) == root));
        all.push(Value::from(map));
    }
    Ok(vec![("git.repo/worktrees", Value::vector(all).into())])
}

/// What is checked out.
#[derive(Default)]
struct Head {
    branch: Option<String>,
    commit: Option<String>,
}

impl Head {
    fn read(own: &Path, shared: &Path) -> Result<Self, Failure> {
        let unreadable = || Failure::new(format!("{} cannot be read.", own.join("HEAD").display()));
        let head = read(&own.join("HEAD")).ok_or_else(unreadable)?;
        let head = head.trim();
        let Some(reference) = head.strip_prefix("ref:").map(str::trim) else {
            return Ok(Self { branch: None, commit: Some(head.to_owned()) });
        };
        let loose = read(&shared.join(reference)).map(|commit| commit.trim().to_owned());
        let commit = loose.or_else(|| {
            let packed = read(&shared.join("packed-refs"))?;
            let line =
                packed.lines().find(|line| line.strip_suffix(reference).is_some_and(|l| l.ends_with(' ')))?;
            line.split(' ').next().map(str::to_owned)
        });
        Ok(Self { branch: reference.strip_prefix("refs/heads/").map(str::to_owned), commit })
    }
}

/// The folder with the worktree's own `HEAD`: `.git`, or the target of a linked worktree's file.
fn own_dir(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    Some(root.join(read(&git)?.strip_prefix("gitdir:")?.trim()))
}

/// The folder that all worktrees share.
fn shared_dir(own: &Path) -> PathBuf {
    let Some(common) = read(&own.join("commondir")) else { return own.to_owned() };
    let shared = own.join(common.trim());
    shared.canonicalize().unwrap_or(shared)
}

fn read(path: &Path) -> Option<String> {
    Some(files::start(&path.canonicalize().ok()?, MOST_BYTES).ok()?.text)
}

fn text(path: &Path) -> Value<'static> {
    Value::from(path.to_string_lossy().into_owned())
}
