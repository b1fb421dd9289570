//! The front matter of a Markdown file: a YAML map between two lines of three hyphens.
//!
//! Knows only text. The YAML reader bounds the expansion of aliases.

use serde::Deserialize;

use super::skipped::SkippedError;

/// The known keys of front matter; others are ignored.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct FrontMatter {
    /// The name.
    pub name: Option<String>,
    /// Its purpose, and when to use it.
    pub description: Option<String>,
    /// The arguments of a template, for a person.
    pub argument_hint: Option<String>,
    /// Whether only a person may use it, not the model on its own.
    pub disable_model_invocation: bool,
}

/// The front matter of a file, if there is any, and the rest.
///
/// # Errors
/// If it does not end, or is no YAML map.
pub(super) fn split(text: &str) -> Result<(Option<FrontMatter>, &str), SkippedError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(inner) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok((None, text));
    };
    let mut at = 0usize;
    for line in inner.split_inclusive('\n') {
        let end = at.saturating_add(line.len());
        if line.trim_end() == "---" {
            let (yaml, body) = (inner.get(..at).unwrap_or_default(), inner.get(end..).unwrap_or_default());
            if yaml.trim().is_empty() {
                return Ok((Some(FrontMatter::default()), body));
            }
            let matter = serde_saphyr::from_str(yaml).map_err(|error| {
                let error = error.to_string();
                SkippedError::FrontMatter(error.lines().next().unwrap_or_default().to_owned())
            })?;
            return Ok((Some(matter), body));
        }
        at = end;
    }
    Err(SkippedError::OpenFrontMatter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_told_from_the_text() {
        let (matter, body) =
            split("---\nname: a\ndescription: \"b: c\"\nother: [1]\n---\n\nText\n---\n").unwrap();
        let matter = matter.unwrap();
        assert_eq!((matter.name.as_deref(), matter.description.as_deref()), (Some("a"), Some("b: c")));
        assert_eq!(body, "\nText\n---\n");
        assert_eq!(split("Text\n---\n").unwrap(), (None, "Text\n---\n"));
        assert_eq!(split("---\r\nname: a\r\n---\r\nT").unwrap().1, "T");
        assert_eq!(split("---\n---\nT").unwrap().1, "T");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in ["---\nname: a\n", "---\nname: [\n---\n", "---\n- a\n---\n", "---\nname: {}\n---\n"] {
            assert!(split(text).is_err(), "{text:?}");
        }
        let mut laughs = "---\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
            laughs.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        assert!(split(&format!("{laughs}---\n")).is_err(), "aliases unfold without a bound");
    }
}
