//! The front matter of a Markdown file: a YAML map between two lines of three hyphens.
//!
//! Knows only text. Reads YAML as a stream of events: aliases are not expanded and nested values are passed over, so
//! time and memory are linear in the text.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle};

use super::skip_reason::SkippedError;

/// The known keys of front matter; others are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
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

/// A value of a map: a scalar, or `None` for an alias and for a value with parts.
type Scalar<'y> = Option<(Cow<'y, str>, ScalarStyle)>;

impl FrontMatter {
    /// Reads it. The error completes [`SkippedError::FrontMatter`], which is told to the author of the file.
    fn read(yaml: &str) -> Result<Self, String> {
        const NO_MAP: &str = "it is another value";
        let mut matter = Self::default();
        let mut key: Option<Scalar<'_>> = None;
        let mut depth = 0usize;
        for event in Parser::new_from_str(yaml) {
            let (event, _) = event.map_err(|error| error.to_string())?;
            let node = match event {
                Event::MappingStart(..) => {
                    depth = depth.saturating_add(1);
                    continue;
                }
                Event::SequenceStart(..) if depth == 0 => return Err(NO_MAP.to_owned()),
                Event::SequenceStart(..) => {
                    depth = depth.saturating_add(1);
                    continue;
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    depth = depth.saturating_sub(1);
                    None
                }
                Event::Scalar(text, style, ..) if depth == 0 && !is_null(&text, style) => {
                    return Err(NO_MAP.to_owned());
                }
                Event::Scalar(text, style, ..) => Some((text, style)),
                Event::Alias(_) => None,
                _ => continue,
            };
            // Here a node is complete.
            match (depth, key.take()) {
                (1, None) => key = Some(node),
                (1, Some(Some((key, _)))) => matter.put(&key, node)?,
                (1, Some(None)) => {}
                (_, pending) => key = pending,
            }
        }
        Ok(matter)
    }

    fn put(&mut self, key: &str, value: Scalar<'_>) -> Result<(), String> {
        let place = match key {
            "name" => &mut self.name,
            "description" => &mut self.description,
            "argument-hint" => &mut self.argument_hint,
            "disable-model-invocation" => {
                self.disable_model_invocation = match value.map(|(text, _)| text.to_lowercase()).as_deref() {
                    Some("true" | "yes" | "y" | "on") => true,
                    Some("false" | "no" | "n" | "off") => false,
                    _ => return Err(format!("{key} must be true or false")),
                };
                return Ok(());
            }
            _ => return Ok(()),
        };
        if place.is_some() {
            return Err(format!("{key} occurs twice"));
        }
        let (text, style) = value.ok_or_else(|| format!("{key} must be a text"))?;
        *place = (!is_null(&text, style)).then(|| text.into_owned());
        Ok(())
    }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
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
            let matter = FrontMatter::read(yaml).map_err(SkippedError::FrontMatter)?;
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
    fn unusable_front_matter_is_an_error() {
        for (text, expected) in [
            ("---\nname: a\n", "does not end"),
            ("---\nname: [\n---\n", "no YAML map"),
            ("---\n- a\n---\n", "another value"),
            ("---\ntext\n---\n", "another value"),
            ("---\nname: {}\n---\n", "name must be a text"),
            ("---\na: &a x\nname: *a\n---\n", "name must be a text"),
            ("---\nname: a\nname: b\n---\n", "name occurs twice"),
            ("---\ndisable-model-invocation: perhaps\n---\n", "must be true or false"),
        ] {
            let error = split(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn values_of_other_keys_are_passed_over() {
        let text = "---\nallowed-tools: [a, {name: b}]\nhooks:\n  name: c\n  more: [[d]]\n? [x]\n: y\nname: ~\n\
                    description: >\n  two\n  lines\nargument-hint: 7 # comment\ndisable-model-invocation: Yes\n---\n";
        let expected = FrontMatter {
            name: None,
            description: Some("two lines\n".to_owned()),
            argument_hint: Some("7".to_owned()),
            disable_model_invocation: true,
        };
        assert_eq!(split(text).unwrap().0, Some(expected));
        assert_eq!(split("---\n# nothing\n---\n").unwrap().0, Some(FrontMatter::default()));
    }

    #[test]
    fn hostile_yaml_ends_in_linear_time() {
        // Expanded, the aliases have 9^9 values.
        let mut laughs = "---\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
            laughs.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        assert!(split(&format!("{laughs}---\n")).is_ok());
        for unit in ["[", "{", "- ", "? ", "a: [", "&a ", "!t "] {
            let _ = split(&format!("---\nx: {}\n---\n", unit.repeat(60_000 / unit.len())));
        }
    }
}
