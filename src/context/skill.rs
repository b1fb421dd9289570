//! Skills: folders with a `SKILL.md`, whose front matter gives their purpose.
//!
//! The prompt contains names and descriptions; the model reads the file when it needs one. Knows no model.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::front_matter;
use super::reference;
use super::skip_reason::SkippedError;
use super::source_folder::{self, Author, Folder, Problem, names};
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
    pub scope: Author,
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

/// Whether a text may name a skill. Cheap, for the many texts that do not.
pub fn may_be_named(text: &str) -> bool {
    memchr::memchr(b'$', text.as_bytes()).is_some()
}

/// The skills that a text names as `$name`, each once, in order. In a block of code nothing is named. Any other word
/// is no name.
pub fn named<'p>(text: &str, skills: &'p BTreeMap<String, Skill>) -> Vec<&'p Skill> {
    let mut found: Vec<&Skill> = Vec::new();
    for line in reference::prose(text) {
        let mut before: Option<char> = None;
        for (place, part) in line.split('$').enumerate() {
            let starts = before.is_none_or(|c| c.is_whitespace() || "([{<\"'".contains(c));
            before = part.chars().next_back().or((place > 0).then_some('$'));
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let word = part.split(|c| !is_of_name(c)).next().unwrap_or_default();
            if let Some(skill) = skills.get(word).filter(|_| place > 0 && starts)
                && !found.iter().any(|known| known.name == skill.name)
            {
                found.push(skill);
            }
        }
    }
    found
}

/// The texts of the skills that a message names, at most `room` bytes, and what has no room, for the person.
pub fn expand_named(text: &str, skills: &BTreeMap<String, Skill>, room: usize) -> (String, Vec<Arc<str>>) {
    let (mut all, mut failures) = (String::new(), Vec::new());
    for skill in named(text, skills) {
        let expanded = skill.expand("");
        if all.len().saturating_add(expanded.len()) > room {
            failures.push(format!("The skill {} has no room in the model's window.", skill.name).into());
            continue;
        }
        all.push_str(&expanded);
        all.push('\n');
    }
    (all, failures)
}

pub(super) fn find(folder: &Folder, skills: &mut BTreeMap<String, Skill>, problems: &mut Vec<Problem>) {
    let places: &[&str] = if folder.scope == Author::User { &["skills"] } else { IN_PROJECT };
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
    let Some(start) = source_folder::start(folder, &path, SKILL_BYTES)? else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn skills() -> BTreeMap<String, Skill> {
        let skill = |name: &str| Skill {
            name: name.to_owned(),
            description: "d".to_owned(),
            path: format!("/s/{name}/SKILL.md").into(),
            folder: format!("/s/{name}").into(),
            scope: Author::User,
            for_model: true,
            body: format!("Steps of {name}."),
        };
        ["tidy", "tidy-up", "a"].map(|name| (name.to_owned(), skill(name))).into()
    }

    #[test]
    fn skill_is_named_by_a_word_of_its_own() {
        for (text, expected) in [
            ("$tidy", &["tidy"][..]),
            ("please ($tidy-up), then $a. And $tidy-up again", &["tidy-up", "a"]),
            ("line\n\t$tidy: now", &["tidy"]),
            ("$$tidy x$tidy $TIDY $tidy_up ${tidy} $tid $ tidy", &[]),
            ("```\n$tidy\n```\n$a", &["a"]),
            ("costs 5$a", &[]),
            ("", &[]),
        ] {
            let skills = skills();
            let found: Vec<_> = named(text, &skills).iter().map(|skill| skill.name.as_str()).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn skill_without_room_is_told_to_the_person() {
        let (text, failures) = expand_named("$tidy $a", &skills(), 75);
        assert!(text.contains("Steps of tidy.") && !text.contains("Steps of a."), "{text}");
        assert_eq!(failures.len(), 1);
        assert!(failures[0].contains("skill a "), "{failures:?}");
    }
}
