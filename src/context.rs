//! The context of a folder and its user for a model: instructions (`AGENTS.md`), skills (`SKILL.md` folders),
//! prompt templates, attached files, and what the editor shows.
//!
//! Finds files, reads them within bounds, and turns them into text. Knows the path rules of the tools; knows
//! neither sessions nor its callers. The result is text for the model and grants no tool permissions. A file
//! behind a link out of the project is skipped until the user trusts the folder, so that a strange repository
//! cannot send a secret to a model through a link.

pub mod delimiters;
pub mod editor;
mod front_matter;
pub mod instructions;
pub mod reference;
pub mod skill;
mod skip_reason;
mod source_folder;
pub mod template;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::CONTEXT_PROJECTS;
use crate::tool::path::within;

pub use source_folder::{Author, Problem};

use instructions::Instructions;
use skill::Skill;
use source_folder::Folder;
use template::Template;

/// The places to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The user's own folder, such as `~/.config/edn-bridge`.
    pub user: Option<PathBuf>,
    /// The session's working folder.
    pub cwd: PathBuf,
    /// Whether the user trusts the project.
    pub trusted: bool,
}

/// The results for a folder.
#[derive(Debug, Clone, Default)]
pub struct Project {
    /// The instructions: the user's first, then from the project's root to the session's folder.
    pub instructions: Vec<Instructions>,
    /// The skills by name.
    pub skills: BTreeMap<String, Skill>,
    /// The prompt templates by name.
    pub templates: BTreeMap<String, Template>,
    /// The unusable files.
    pub problems: Vec<Problem>,
}

impl Project {
    /// Searches the user's folder, then the project's folders from its root to the session's. A nearer file
    /// replaces a more distant one of the same name.
    pub fn discover(places: &Places) -> Self {
        let mut project = Self::default();
        for folder in folders(places) {
            instructions::find(&folder, &mut project.instructions, &mut project.problems);
            skill::find(&folder, &mut project.skills, &mut project.problems);
            template::find(&folder, &mut project.templates, &mut project.problems);
        }
        for problem in &project.problems {
            tracing::debug!(path = %problem.path.display(), "{}", problem.message);
        }
        project
    }
}

/// The instructions of the folders below the session's that hold a file, outermost first: with the trust of the session's own.
pub fn nested_instructions(places: &Places, file: &Path) -> Vec<Instructions> {
    let cwd = places.cwd.canonicalize().unwrap_or_else(|_| places.cwd.clone());
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let below = file.parent().into_iter().flat_map(Path::ancestors);
    let mut below: Vec<&Path> = below.take_while(|folder| *folder != cwd && within(folder, &cwd)).collect();
    below.reverse();
    for folder in below {
        let folder = Folder {
            path: folder.to_owned(),
            scope: Author::Project,
            confined_to: (!places.trusted).then(|| root(&cwd).to_owned()),
        };
        instructions::find(&folder, &mut found, &mut problems);
    }
    for problem in &problems {
        tracing::debug!(path = %problem.path.display(), "{}", problem.message);
    }
    found
}

/// The root of the folder's repository, or else the folder itself.
pub fn root(cwd: &Path) -> &Path {
    cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd)
}

fn folders(places: &Places) -> Vec<Folder> {
    let mut folders = Vec::new();
    if let Some(user) = &places.user {
        folders.push(Folder { path: user.clone(), scope: Author::User, confined_to: None });
    }
    let cwd = places.cwd.canonicalize().unwrap_or_else(|_| places.cwd.clone());
    let root = root(&cwd);
    let mut inwards: Vec<&Path> = cwd.ancestors().take_while(|folder| within(folder, root)).collect();
    inwards.reverse();
    folders.extend(inwards.into_iter().map(|folder| Folder {
        path: folder.to_owned(),
        scope: Author::Project,
        confined_to: (!places.trusted).then(|| root.to_owned()),
    }));
    folders
}

/// The results for each folder, kept until the next search.
#[derive(Debug, Default)]
pub struct Library(Mutex<HashMap<PathBuf, Arc<Project>>>);

impl Library {
    /// The latest results, or a first search. Reads the disk then.
    pub fn get(&self, places: &Places) -> Arc<Project> {
        let known = self.known().get(&places.cwd).cloned();
        known.unwrap_or_else(|| self.refresh(places))
    }

    /// Searches again. Reads the disk.
    pub fn refresh(&self, places: &Places) -> Arc<Project> {
        let project = Arc::new(Project::discover(places));
        let mut known = self.known();
        if known.len() >= CONTEXT_PROJECTS {
            // A dropped folder is searched again on demand.
            known.clear();
        }
        known.insert(places.cwd.clone(), project.clone());
        project
    }

    /// The latest results for a folder. Never reads the disk.
    pub fn known_for(&self, cwd: &Path) -> Option<Arc<Project>> {
        self.known().get(cwd).cloned()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Project>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
    }

    impl World {
        fn new(files: &[(&str, &str)]) -> Self {
            let world = Self { dir: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                let path = world.dir.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            world
        }

        fn look(&self, trusted: bool) -> Project {
            Project::discover(&Places {
                user: Some(self.dir.path().join("user")),
                cwd: self.dir.path().join("repo/inner"),
                trusted,
            })
        }
    }

    fn texts(project: &Project) -> Vec<&str> {
        project.instructions.iter().map(|found| found.text.as_str()).collect()
    }

    #[test]
    fn instructions_come_from_user_folder_then_root_inwards() {
        let world = World::new(&[
            ("AGENTS.md", "outside"),
            ("repo/.git/HEAD", ""),
            ("repo/AGENTS.md", "root"),
            ("repo/CLAUDE.md", "second choice"),
            ("repo/inner/CLAUDE.md", "inner"),
            ("repo/inner/deeper/AGENTS.md", "deeper"),
            ("user/AGENTS.md", "mine"),
        ]);
        assert_eq!(texts(&world.look(false)), ["mine", "root", "inner"]);
    }

    #[test]
    fn without_a_repository_only_the_folder_itself_is_looked_into() {
        let world = World::new(&[("repo/AGENTS.md", "above"), ("repo/inner/AGENTS.md", "here")]);
        assert_eq!(texts(&world.look(false)), ["here"]);
    }

    #[test]
    fn link_out_of_project_is_followed_only_if_trusted() {
        let world = World::new(&[
            ("repo/.git/HEAD", ""),
            ("repo/docs/rules.md", "rules"),
            ("repo/inner/x", ""),
            ("secret", "key"),
        ]);
        let root = world.dir.path();
        symlink(root.join("secret"), root.join("repo/AGENTS.md")).unwrap();
        symlink("../docs/rules.md", root.join("repo/inner/AGENTS.md")).unwrap();
        let project = world.look(false);
        assert_eq!(texts(&project), ["rules"]);
        assert!(project.problems[0].message.contains("trust"), "{:?}", project.problems);
        assert_eq!(texts(&world.look(true)), ["key", "rules"]);
    }

    #[test]
    fn nearer_skills_and_templates_replace_others() {
        let skill = |text: &str| {
            format!("---\nname: tidy\ndescription: >\n  Tidies\n  {text}\n---\nBody of {text}\n")
        };
        let (mine, theirs) = (skill("mine"), skill("theirs"));
        let world = World::new(&[
            ("repo/.git/HEAD", ""),
            ("repo/inner/x", ""),
            ("user/skills/tidy/SKILL.md", &mine),
            ("user/prompts/fix.md", "Fix it."),
            ("repo/.agents/skills/tidy/SKILL.md", &theirs),
            ("repo/.edn-bridge/skills/nameless/SKILL.md", "no front matter"),
            ("repo/.edn-bridge/skills/broken/SKILL.md", "---\nname: [\n---\n"),
            ("repo/.edn-bridge/prompts/fix.md", "---\ndescription: Fixes\nargument-hint: what\n---\nFix $1."),
            ("repo/.edn-bridge/prompts/help.md", "Mine."),
            ("repo/.edn-bridge/prompts/fix2.md", "No such name."),
            ("repo/.edn-bridge/prompts/notes.txt", "no template"),
        ]);
        let project = world.look(false);
        let tidy = &project.skills["tidy"];
        assert_eq!((tidy.description.as_str(), tidy.scope), ("Tidies theirs", Author::Project));
        assert_eq!(project.skills.len(), 1);
        let fix = &project.templates["fix"];
        assert_eq!((fix.description.as_str(), fix.hint.as_deref()), ("Fixes", Some("what")));
        assert_eq!(project.templates.len(), 2, "{:?}", project.templates);
        let messages: Vec<&str> = project.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages.len(), 3, "{messages:?}");
    }
}
