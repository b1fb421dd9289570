//! Skills: folders with a `SKILL.md`, whose front matter gives their purpose.
//!
//! The prompt contains names and descriptions; the model reads the file when it needs one. Knows no model.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::file::{self, Folder, Problem, Scope, names};
use super::front_matter;
use super::skipped::SkippedError;
use crate::limits::{SKILL_BYTES, SKILL_DESCRIPTION_BYTES, SKILLS};
use crate::tool::one_line;

/// The folders of skills in a project; later ones replace earlier ones.
const IN_PROJECT: &[&str] = &[".claude/skills", ".agents/skills", ".edn-bridge/skills"];

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name: lower-case letters, digits and hyphens.
    pub name: String,
    /// What it does, and when to use it.
    pub description: String,
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// Its folder.
    pub folder: PathBuf,
    /// Its author.
    pub scope: Scope,
    /// Whether the prompt names it to the model.
    pub for_model: bool,
    /// The text after the front matter.
    pub body: String,
}

impl Skill {
    /// The text for the model when a person uses the skill by name.
    pub fn expand(&self, arguments: &str) -> String {
        let mut text = format!(
            "Use the skill {}; its files stand in {}.\n\n{}",
            self.name,
            self.folder.display(),
            self.body.trim()
        );
        if !arguments.is_empty() {
            text.push_str("\n\n");
            text.push_str(arguments);
        }
        text
    }
}

pub(super) fn find(folder: &Folder, skills: &mut BTreeMap<String, Skill>, problems: &mut Vec<Problem>) {
    let places: &[&str] = if folder.scope == Scope::User { &["skills"] } else { IN_PROJECT };
    for place in places {
        let all = folder.path.join(place);
        for name in names(&all, SKILLS) {
            let own = all.join(&name);
            let path = own.join("SKILL.md");
            match read(folder, &name, own, path.clone()) {
                Ok(None) => {}
                Ok(Some(_)) if skills.len() >= SKILLS => {
                    problems.push(Problem::new(
                        &path,
                        format!("There are more than {SKILLS} skills; it is left out."),
                    ));
                    return;
                }
                Ok(Some(skill)) => {
                    skills.insert(skill.name.clone(), skill);
                }
                Err(error) => problems.push(Problem::new(&path, error)),
            }
        }
    }
}

fn read(folder: &Folder, name: &str, own: PathBuf, path: PathBuf) -> Result<Option<Skill>, SkippedError> {
    let Some(start) = file::start(folder, &path, SKILL_BYTES)? else { return Ok(None) };
    if start.is_cut(SKILL_BYTES) {
        let hint = ": put the long part into a file beside it";
        return Err(SkippedError::Long { limit: SKILL_BYTES, hint });
    }
    let (matter, body) = front_matter::split(&start.text)?;
    let missing = SkippedError::Missing("It has no front matter with a name and a description.");
    let matter = matter.ok_or(missing)?;
    let name = matter.name.unwrap_or_else(|| name.to_owned());
    if !(1..=64).contains(&name.len())
        || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        return Err(SkippedError::Name(format!(
            "{name:?} is no name of a skill: small letters, digits and hyphens, at most 64."
        )));
    }
    let description = one_line(matter.description.as_deref().unwrap_or_default(), SKILL_DESCRIPTION_BYTES);
    if description.is_empty() {
        let missing = "Its front matter has no description: the model could not know when to use it.";
        return Err(SkippedError::Missing(missing));
    }
    // Rules apply to the real path.
    let own = own.canonicalize().unwrap_or(own);
    let (scope, for_model, body) = (folder.scope, !matter.disable_model_invocation, body.to_owned());
    Ok(Some(Skill { name, description, path, folder: own, scope, for_model, body }))
}
