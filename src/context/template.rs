//! Prompt templates: Markdown files that become slash commands. Knows no session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::front_matter;
use super::skip_reason::SkippedError;
use super::source_folder::{self, Author, Folder, Problem, names};
use crate::limits::{EXPANSION_BYTES, TEMPLATE_BYTES, TEMPLATES};
use crate::tool::one_line;

/// The folders of templates in a project; later ones replace earlier ones.
const IN_PROJECT: &[&str] = &[".claude/commands", ".agents/prompts", ".edn-bridge/prompts"];

/// A template and its arguments make a text of more than [`EXPANSION_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("/{0} with these arguments is longer than {EXPANSION_BYTES} bytes.")]
pub struct TooLong(String);

/// One template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its name: the file's, without its extension.
    pub name: String,
    /// What it does: from the front matter, or else its first line.
    pub description: String,
    /// Its arguments, for a person.
    pub hint: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// Its author.
    pub scope: Author,
    /// The text with its placeholders.
    pub body: String,
}

impl Template {
    /// Its syntax as a command.
    pub fn usage(&self) -> String {
        match &self.hint {
            Some(hint) => format!("/{} {hint}", self.name),
            None => format!("/{}", self.name),
        }
    }

    /// The text with the arguments. `$1` to `$9` are single arguments, `$ARGUMENTS` and `$@` are all of them,
    /// and `$$` is a dollar sign. A template without placeholders is followed by its arguments.
    ///
    /// # Errors
    /// If the text would be longer than [`EXPANSION_BYTES`].
    pub fn expand(&self, arguments: &str) -> Result<String, TooLong> {
        let arguments = arguments.trim();
        let too_long = || TooLong(self.name.clone());
        if arguments.len() > EXPANSION_BYTES {
            return Err(too_long());
        }
        let words = words(arguments);
        let mut text = String::new();
        let mut used = false;
        let mut rest = self.body.trim();
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            let digit = after.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
            let (value, length) = if after.starts_with("ARGUMENTS") {
                (Some(arguments), "ARGUMENTS".len())
            } else if after.starts_with('@') {
                (Some(arguments), 1)
            } else if let Some(place) = digit.and_then(|digit| usize::try_from(digit).ok()) {
                (Some(words.get(place.saturating_sub(1)).map_or("", String::as_str)), 1)
            } else {
                (None, usize::from(after.starts_with('$')))
            };
            used |= value.is_some();
            text.push_str(value.unwrap_or("$"));
            if text.len() > EXPANSION_BYTES {
                return Err(too_long());
            }
            rest = after.get(length..).unwrap_or_default();
        }
        text.push_str(rest);
        if !used && !arguments.is_empty() {
            text.push_str("\n\n");
            text.push_str(arguments);
        }
        if text.len() > EXPANSION_BYTES { Err(too_long()) } else { Ok(text) }
    }
}

/// The arguments one by one; a quoted text is one.
fn words(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in arguments.chars() {
        // There are no placeholders for more.
        if words.len() >= 9 {
            return words;
        }
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

pub(super) fn find(folder: &Folder, templates: &mut BTreeMap<String, Template>, problems: &mut Vec<Problem>) {
    let places: &[&str] = if folder.scope == Author::User { &["prompts"] } else { IN_PROJECT };
    for place in places {
        let all = folder.path.join(place);
        for file in names(&all, TEMPLATES) {
            let Some(name) = file.strip_suffix(".md") else { continue };
            let path = all.join(&file);
            match read(folder, name, path.clone()) {
                Ok(None) => {}
                Ok(Some(_)) if templates.len() >= TEMPLATES => {
                    let message = format!("There are more than {TEMPLATES} templates; it is left out.");
                    problems.push(Problem::new(&path, message));
                    return;
                }
                Ok(Some(template)) => {
                    templates.insert(name.to_owned(), template);
                }
                Err(error) => problems.push(Problem::new(&path, error)),
            }
        }
    }
}

fn read(folder: &Folder, name: &str, path: PathBuf) -> Result<Option<Template>, SkippedError> {
    let Some(start) = source_folder::start(folder, &path, TEMPLATE_BYTES)? else { return Ok(None) };
    if start.is_cut(TEMPLATE_BYTES) {
        return Err(SkippedError::Long { limit: TEMPLATE_BYTES, hint: "" });
    }
    // Matches the grammar of slash commands.
    let mut bytes = name.bytes();
    let fits = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if !fits {
        return Err(SkippedError::Name(format!(
            "/{name} is no command: a template's name has small letters and hyphens alone."
        )));
    }
    let (matter, body) = front_matter::split(&start.text)?;
    let matter = matter.unwrap_or_default();
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let description = one_line(matter.description.as_deref().unwrap_or(first), 200);
    let hint = matter.argument_hint.map(|hint| one_line(&hint, 100)).filter(|hint| !hint.is_empty());
    let (name, scope, body) = (name.to_owned(), folder.scope, body.to_owned());
    Ok(Some(Template { name, description, hint, path, scope, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(body: &str) -> Template {
        Template {
            name: "t".into(),
            description: String::new(),
            hint: None,
            path: PathBuf::new(),
            scope: Author::User,
            body: body.into(),
        }
    }

    #[test]
    fn placeholders_are_filled_in() {
        for (body, arguments, expected) in [
            ("Fix $1 in $2.", "it 'a b'", "Fix it in a b."),
            ("Fix $ARGUMENTS!", " a \"b c\" ", "Fix a \"b c\"!"),
            ("$@", "x y", "x y"),
            ("Costs $$5, $x and $", "", "Costs $5, $x and $"),
            ("No place.", "more", "No place.\n\nmore"),
            ("No place.", "", "No place."),
            ("$3|", "one two", "|"),
            // An argument's content is never a placeholder.
            ("$1 $2", "'$2' x", "$2 x"),
        ] {
            assert_eq!(template(body).expand(arguments).as_deref(), Ok(expected), "{body}");
        }
    }

    #[test]
    fn an_expansion_is_bounded() {
        let body = "$ARGUMENTS ".repeat(10_000);
        assert!(template(&body).expand(&"x".repeat(10_000)).is_err());
        assert!(template("$1").expand(&"x ".repeat(EXPANSION_BYTES)).is_err());
        assert_eq!(words(&"x ".repeat(20)).len(), 9);
    }
}
