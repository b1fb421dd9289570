//! The gate for calls: the name and the arguments of a call as the tool's schema wants them.
//!
//! Repairs only what has one meaning, and says so; refuses the rest with what came. Knows a name, arguments and a schema
//! (`type`, `properties`, `required`, `items`, `enum`, `minimum`, `additionalProperties`); what a schema has beyond that
//! passes as it came. Does not know the tools.

use super::cut;
use crate::catalogue::tools::TOOLS;
use crate::json;
use crate::limits::{ARGUMENT_DEPTH, QUOTED_ARGUMENTS};
use crate::similar;
use crate::value::{Map, Value};

/// Keys of other programs for keys of this one's tools. None names two.
const KEYS: &[(&str, &[&str])] = &[
    (
        "path",
        &["file_path", "filename", "file", "absolute_path", "target_file", "directory", "dir", "folder"],
    ),
    ("old", &["old_string", "old_str", "old_text"]),
    ("new", &["new_string", "new_str", "new_text", "replacement"]),
    ("replace_all", &["replace_all_occurrences", "all"]),
    ("content", &["contents", "file_text", "file_content"]),
    ("command", &["cmd", "script"]),
    ("background", &["run_in_background", "is_background"]),
    ("pattern", &["regex", "query"]),
    ("glob", &["include", "pattern", "glob_pattern"]),
];

/// The tool that a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeantName {
    /// It is offered under this name.
    Known(String),
    /// No tool is meant. These are similar.
    Unknown(Vec<String>),
}

/// Which of the offered tools a name means.
pub fn meant<'o>(came: &str, offered: impl IntoIterator<Item = &'o str>) -> MeantName {
    let offered: Vec<&str> = offered.into_iter().collect();
    if offered.contains(&came) {
        return MeantName::Known(came.to_owned());
    }
    let name = came.trim();
    let name = name.strip_prefix("functions.").unwrap_or(name);
    let end = name
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'))
        .unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default();
    let wanted = folded(name);
    let same = offered.iter().find(|other| **other == name || folded(other) == wanted);
    let by_alias = || {
        let row = TOOLS.iter().find(|row| row.aliases.iter().any(|alias| folded(alias) == wanted))?;
        offered.iter().find(|other| **other == row.name)
    };
    match same.or_else(by_alias).filter(|_| !wanted.is_empty()) {
        Some(known) => MeantName::Known((*known).to_owned()),
        None => MeantName::Unknown(similar::names(name, offered).into_iter().map(str::to_owned).collect()),
    }
}

/// A name without case, `-` and `_`.
fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Arguments that fit, and what was repaired in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The arguments.
    pub arguments: Value<'static>,
    /// One sentence for each repair.
    pub repairs: Vec<String>,
}

/// The arguments of a call as the schema wants them.
///
/// # Errors
/// A sentence about the first part that does not fit, and what came.
pub fn fit(schema: &Value<'_>, arguments: &Value<'_>) -> Result<Fitted, String> {
    let mut repairs = Vec::new();
    match fitted(schema, arguments.clone().into_owned(), "", &mut repairs, 0) {
        Ok(arguments) => Ok(Fitted { arguments, repairs }),
        Err(why) => Err(format!("{why} You sent: {}", quoted(&arguments.to_string()))),
    }
}

/// The start and the end of a text that came.
fn quoted(text: &str) -> String {
    let (head, tail) = QUOTED_ARGUMENTS;
    if text.len() <= head.saturating_add(tail) {
        return text.to_owned();
    }
    let end = (text.len().saturating_sub(tail)..text.len()).find(|at| text.is_char_boundary(*at));
    format!("{} {}", cut(text, head), end.and_then(|end| text.get(end..)).unwrap_or_default())
}

/// The value of a schema's key, which may be a keyword or a string.
fn part<'s, 'v>(schema: &'s Value<'v>, key: &str) -> Option<&'s Value<'v>> {
    let map = schema.as_map()?;
    map.get_keyword(key).or_else(|| map.get(&Value::str(key)))
}

fn name_of<'s>(key: &'s Value<'_>) -> Option<&'s str> {
    key.as_keyword().or_else(|| key.as_str())
}

/// The name of a value's kind, for a model.
fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Nil => "null",
        Value::Bool(_) => "a truth value",
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Decimal(_) | Value::Ratio(_) => {
            "a number"
        }
        Value::Str(_) | Value::Keyword(_) | Value::Symbol(_) | Value::Char(_) => "a string",
        Value::Map(_) => "an object",
        _ => "a list",
    }
}

/// Whether a value is of a type of JSON Schema.
fn is_of(value: &Value<'_>, wanted: &str) -> bool {
    match wanted {
        "integer" => matches!(value, Value::Int(_) | Value::BigInt(_)),
        "number" => kind(value) == "a number",
        "boolean" => matches!(value, Value::Bool(_)),
        "string" => kind(value) == "a string",
        "array" => kind(value) == "a list",
        "object" => matches!(value, Value::Map(_)),
        "null" => value.is_nil(),
        _ => true,
    }
}

fn wanted_as(wanted: &str) -> &'static str {
    match wanted {
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        "null" => "null",
        _ => "another value",
    }
}

/// How an argument is called; the whole has no name.
fn called(at: &str) -> &str {
    if at.is_empty() { "The arguments" } else { at }
}

fn fitted(
    schema: &Value<'_>,
    value: Value<'static>,
    at: &str,
    repairs: &mut Vec<String>,
    depth: usize,
) -> Result<Value<'static>, String> {
    let is_beyond =
        ["$ref", "anyOf", "oneOf", "allOf", "not", "if"].iter().any(|key| part(schema, key).is_some());
    let types: Vec<&str> = match part(schema, "type") {
        Some(one) if one.as_str().is_some() => one.as_str().into_iter().collect(),
        Some(several) => several.as_slice().unwrap_or_default().iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    if is_beyond || types.is_empty() || depth > ARGUMENT_DEPTH {
        return Ok(value);
    }
    let is_fit = types.iter().any(|wanted| is_of(&value, wanted));
    let value = match &types[..] {
        _ if is_fit => value,
        [wanted] => repaired(schema, wanted, &value, at, repairs).ok_or_else(|| {
            format!("{} must be {}; you sent {}.", called(at), wanted_as(wanted), kind(&value))
        })?,
        _ => {
            let wanted: Vec<&str> = types.iter().map(|wanted| wanted_as(wanted)).collect();
            return Err(format!(
                "{} must be {}; you sent {}.",
                called(at),
                wanted.join(" or "),
                kind(&value)
            ));
        }
    };
    if let Some(allowed) = part(schema, "enum").and_then(Value::as_slice)
        && !allowed.contains(&value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(format!("{} must be one of {}; you sent {value}.", called(at), allowed.join(", ")));
    }
    let is_less = match (part(schema, "minimum"), &value) {
        (Some(Value::Int(least)), Value::Int(number)) => number < least,
        (Some(least), number) => {
            least.as_f64().zip(number.as_f64()).is_some_and(|(least, number)| number < least)
        }
        (None, _) => false,
    };
    if let Some(least) = part(schema, "minimum").filter(|_| is_less) {
        return Err(format!("{} must be {least} or more; you sent {value}.", called(at)));
    }
    match value {
        Value::Map(map) => fitted_object(schema, map, at, repairs, depth),
        Value::Vector(items) | Value::List(items) => {
            let Some(of) = part(schema, "items") else { return Ok(Value::Vector(items)) };
            let items = items.into_vec().into_iter().enumerate().map(|(number, item)| {
                fitted(of, item, &format!("{at}[{number}]"), repairs, depth.saturating_add(1))
            });
            Ok(Value::Vector(items.collect::<Result<Vec<_>, _>>()?.into()))
        }
        value => Ok(value),
    }
}

/// A value of another type that can mean only one of the wanted type.
fn repaired(
    schema: &Value<'_>,
    wanted: &str,
    value: &Value<'static>,
    at: &str,
    repairs: &mut Vec<String>,
) -> Option<Value<'static>> {
    let text = value.as_str().map(str::trim);
    let made = match wanted {
        "integer" => match value {
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                format!("{number:.0}").parse().ok().map(Value::Int)
            }
            _ => text.and_then(|text| text.parse().ok()).map(Value::Int),
        },
        "number" => {
            let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
            number.map(|number| {
                text.and_then(|text| text.parse().ok()).map_or(Value::Float(number), Value::Int)
            })
        }
        "boolean" => match text.map(str::to_ascii_lowercase).as_deref() {
            Some("true") => Some(Value::Bool(true)),
            Some("false") => Some(Value::Bool(false)),
            _ => None,
        },
        "object" | "array" => text.and_then(of_json).filter(|made| is_of(made, wanted)),
        _ => None,
    };
    if let Some(made) = made {
        let came = if text.is_some() { "text".to_owned() } else { value.to_string() };
        let taken = if kind(&made) == "a number" || kind(&made) == "a truth value" {
            made.to_string()
        } else {
            kind(&made).to_owned()
        };
        repairs.push(format!("{} was {came}; taken as {taken}.", called(at)));
        return Some(made);
    }
    // One for a list of one.
    let of = part(schema, "items").filter(|_| wanted == "array")?;
    let is_item = part(of, "type")
        .and_then(Value::as_str)
        .is_some_and(|wanted| matches!(wanted, "object" | "string") && is_of(value, wanted));
    // A string that begins as a list does was meant as one, and is broken.
    let is_broken = text.is_some_and(|text| text.starts_with(['[', '{']));
    (is_item && !is_broken).then(|| {
        repairs.push(format!("{} was {}; taken as a list of one.", called(at), kind(value)));
        Value::vector([value.clone()])
    })
}

/// A text that is JSON, whole.
fn of_json(text: &str) -> Option<Value<'static>> {
    let json = serde_json::from_str(text).ok()?;
    Some(json::keyed(json))
}

fn fitted_object(
    schema: &Value<'_>,
    came: Map<'static>,
    at: &str,
    repairs: &mut Vec<String>,
    depth: usize,
) -> Result<Value<'static>, String> {
    let Some(properties) = part(schema, "properties").and_then(Value::as_map) else {
        return Ok(Value::from(came));
    };
    let names: Vec<&str> = properties.iter().filter_map(|(key, _)| name_of(key)).collect();
    let required: Vec<&str> = part(schema, "required")
        .and_then(Value::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_closed = part(schema, "additionalProperties").and_then(Value::as_bool) == Some(false);
    let full = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    let mut made = Map::new();
    let mut gathered = Map::new();
    let list = list_of_objects(properties);
    for (key, value) in came.iter() {
        let Some(name) = name_of(key) else {
            made.insert(key.clone(), value.clone());
            continue;
        };
        let is_there =
            |other: &str| came.get_keyword(other).is_some() || came.get(&Value::str(other)).is_some();
        let is_meant = |other: &&str| !is_there(other) && (is_closed || required.contains(other));
        let meant = match names.contains(&name) {
            true => Some(name),
            false => names
                .iter()
                .copied()
                .find(|other| folded(other) == folded(name) && is_meant(other))
                .or_else(|| alias(name, &names).filter(is_meant)),
        };
        match meant {
            Some(meant) => {
                if meant != name {
                    repairs.push(format!("{} was taken as {meant}.", full(name)));
                }
                let of = properties.iter().find(|(key, _)| name_of(key) == Some(meant)).map(|(_, of)| of);
                if value.is_nil() && !required.contains(&meant) && of.is_some_and(|of| !takes_null(of)) {
                    repairs.push(format!("{} was null; left out.", full(meant)));
                    continue;
                }
                let value = match of {
                    Some(of) => fitted(of, value.clone(), &full(meant), repairs, depth.saturating_add(1))?,
                    None => value.clone(),
                };
                made.insert(key_like(key, meant), value);
            }
            // A key of the one item of a list that is not there.
            None if is_closed
                && list.as_ref().is_some_and(|(list, keys)| {
                    !is_there(list)
                        && (keys.iter().any(|key| folded(key) == folded(name)) || alias(name, keys).is_some())
                }) =>
            {
                gathered.insert(key.clone(), value.clone());
            }
            None if is_closed => return Err(unknown(name, &names, &full(name))),
            None => {
                made.insert(key.clone(), value.clone());
            }
        }
    }
    if let Some((list, _)) = list.filter(|_| !gathered.is_empty()) {
        repairs.push(format!(
            "{} was beside the other arguments; taken as one of {}.",
            keys_of(&gathered),
            full(list)
        ));
        let of = properties.iter().find(|(key, _)| name_of(key) == Some(list)).map(|(_, of)| of);
        let items = Value::vector([Value::from(gathered)]);
        let items = match of {
            Some(of) => fitted(of, items, &full(list), repairs, depth.saturating_add(1))?,
            None => items,
        };
        made.insert(Value::keyword(list.to_owned()), items);
    }
    for name in required {
        if made.get_keyword(name).is_none() && made.get(&Value::str(name)).is_none() {
            let of = properties.iter().find(|(key, _)| name_of(key) == Some(name)).map(|(_, of)| of);
            let wanted =
                of.and_then(|of| part(of, "type")).and_then(Value::as_str).map_or("there", wanted_as);
            return Err(format!("{} is missing; it must be {wanted}.", full(name)));
        }
    }
    Ok(Value::from(made))
}

/// Whether null is a value of a schema, as far as that is known.
fn takes_null(schema: &Value<'_>) -> bool {
    match part(schema, "type") {
        Some(Value::Str(one)) => one.as_str() == "null",
        Some(several) => {
            several.as_slice().unwrap_or_default().iter().any(|one| one.as_str() == Some("null"))
        }
        None => true,
    }
}

fn key_like(key: &Value<'static>, name: &str) -> Value<'static> {
    match key {
        Value::Str(_) => Value::str(name.to_owned()),
        _ => Value::keyword(name.to_owned()),
    }
}

fn keys_of(map: &Map<'_>) -> String {
    map.iter().filter_map(|(key, _)| name_of(key)).collect::<Vec<_>>().join(", ")
}

/// The key that another program's key means, if it is one of these.
fn alias<'n>(came: &str, names: &[&'n str]) -> Option<&'n str> {
    let wanted = folded(came);
    let (of, _) = KEYS
        .iter()
        .find(|(of, aliases)| names.contains(of) && aliases.iter().any(|alias| folded(alias) == wanted))?;
    names.iter().copied().find(|name| name == of)
}

/// The one property that is a list of objects, with the keys of these.
fn list_of_objects<'p>(properties: &'p Map<'_>) -> Option<(&'p str, Vec<&'p str>)> {
    let mut lists = properties.iter().filter_map(|(key, of)| {
        let items = part(part(of, "items")?, "properties")?.as_map()?;
        Some((name_of(key)?, items.iter().filter_map(|(key, _)| name_of(key)).collect()))
    });
    lists.next().filter(|_| lists.next().is_none())
}

fn unknown(name: &str, names: &[&str], full: &str) -> String {
    let begins = names.iter().copied().find(|other| folded(other).starts_with(&folded(name)));
    let near = alias(name, names)
        .or(begins)
        .or_else(|| similar::names(name, names.iter().copied()).first().copied());
    match near {
        // Other programs count milliseconds.
        Some(near) if near.ends_with("seconds") => format!("{full}: did you mean {near}, in seconds?"),
        Some(near) => format!("{full}: did you mean {near}?"),
        None => format!("{full} is no argument of this tool; it has {}.", names.join(", ")),
    }
}

/// Arguments from a text that is no JSON as it stands, but for a fence around it, raw control characters in strings, a
/// comma before a bracket, or being a JSON string itself. A text that ends too early is never completed.
pub fn reread(text: &str) -> Option<(Value<'static>, &'static str)> {
    let object = |text: &str| {
        let json = serde_json::from_str::<serde_json::Value>(text).ok().filter(serde_json::Value::is_object);
        json.map(json::keyed)
    };
    let bare = text.trim();
    if let Ok(serde_json::Value::String(inner)) = serde_json::from_str(bare) {
        return object(inner.trim()).map(|made| (made, "The arguments were JSON in a string."));
    }
    let inner = without_fence(bare);
    if let Some(made) = inner.and_then(object) {
        return Some((made, "The arguments stood in a code fence."));
    }
    let repaired = repaired_text(inner.unwrap_or(bare))?;
    object(&repaired).map(|made| {
        (made, "The arguments had raw control characters, or a comma before a bracket; taken without.")
    })
}

/// The fields of an object that are complete in a text which ends before it does, for the history alone: such a call is
/// never run.
pub fn whole_fields(text: &str) -> Value<'static> {
    let (mut depth, mut in_string, mut is_escaped, mut last) = (0usize, false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => last = Some(at),
            _ => {}
        }
    }
    let whole = last.and_then(|end| text.get(..end)).and_then(|text| of_json(&format!("{text}}}")));
    whole.filter(|whole| whole.as_map().is_some()).unwrap_or_else(|| Value::from(Map::new()))
}

fn without_fence(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('\n')?;
    let inner = rest.trim_end().strip_suffix("```")?;
    first.starts_with("```").then(|| inner.trim())
}

/// The text with control characters in strings escaped, and without commas before brackets; `None` if it has neither.
fn repaired_text(text: &str) -> Option<String> {
    let mut made = String::with_capacity(text.len());
    let (mut in_string, mut is_escaped, mut is_changed) = (false, false, false);
    for c in text.chars() {
        if in_string {
            let was_escaped = is_escaped;
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            if c < ' ' {
                // Behind a backslash it may be meant as the one or as the other.
                if was_escaped {
                    return None;
                }
                is_changed = true;
                match c {
                    '\n' => made.push_str("\\n"),
                    '\t' => made.push_str("\\t"),
                    '\r' => made.push_str("\\r"),
                    c => made.push_str(&format!("\\u{:04x}", u32::from(c))),
                }
                continue;
            }
        } else if c == '"' {
            in_string = true;
        } else if matches!(c, '}' | ']') {
            let kept = made.trim_end();
            if kept.ends_with(',') {
                made.truncate(kept.len().saturating_sub(1));
                is_changed = true;
            }
        }
        made.push(c);
    }
    (is_changed && !in_string).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;
    use crate::tool::toolbox::Toolbox;
    use proptest::prelude::*;

    fn value(text: &str) -> Value<'static> {
        edn::read_one(text.as_bytes()).unwrap().into_owned()
    }

    fn schema_of(tool: &str) -> Value<'static> {
        let toolbox = Toolbox::builtin();
        toolbox.specs().into_iter().find(|spec| spec.name == tool).unwrap().parameters
    }

    /// Arguments for tools of this program: the value that they get, or the sentence of the refusal.
    #[test]
    fn arguments_are_repaired_or_refused_by_the_schema() {
        let rows: &[(&str, &str, Result<&str, &str>)] = &[
            // Arguments that fit are never changed.
            ("read", r#"{:path "a"}"#, Ok(r#"{:path "a"}"#)),
            ("read", r#"{:path "a" :offset 2 :limit 3}"#, Ok(r#"{:path "a" :offset 2 :limit 3}"#)),
            ("read", r#"{:path ""}"#, Ok(r#"{:path ""}"#)),
            ("read", r#"{:path "[1]"}"#, Ok(r#"{:path "[1]"}"#)),
            ("write", r#"{:path "a" :content "{\"a\": 1}"}"#, Ok(r#"{:path "a" :content "{\"a\": 1}"}"#)),
            ("write", r#"{:path "a" :content "true"}"#, Ok(r#"{:path "a" :content "true"}"#)),
            ("bash", r#"{:command "ls" :background false}"#, Ok(r#"{:command "ls" :background false}"#)),
            (
                "edit",
                r#"{:path "a" :edits [{:old "b" :new "c"}]}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#),
            ),
            (
                "edit",
                r#"{:path "a" :edits [{:old "b" :new "" :replace_all true}]}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "" :replace_all true}]}"#),
            ),
            // Numbers.
            ("read", r#"{:path "a" :offset "2"}"#, Ok(r#"{:path "a" :offset 2}"#)),
            ("read", r#"{:path "a" :offset " 2 "}"#, Ok(r#"{:path "a" :offset 2}"#)),
            ("read", r#"{:path "a" :offset 2.0}"#, Ok(r#"{:path "a" :offset 2}"#)),
            ("read", r#"{:path "a" :offset 2.5}"#, Err("offset must be an integer; you sent a number.")),
            ("read", r#"{:path "a" :offset "2.5"}"#, Err("offset must be an integer; you sent a string.")),
            ("read", r#"{:path "a" :offset "two"}"#, Err("offset must be an integer; you sent a string.")),
            ("read", r#"{:path "a" :offset ""}"#, Err("offset must be an integer; you sent a string.")),
            (
                "read",
                r#"{:path "a" :offset true}"#,
                Err("offset must be an integer; you sent a truth value."),
            ),
            ("read", r#"{:path "a" :offset [2]}"#, Err("offset must be an integer; you sent a list.")),
            ("read", r#"{:path "a" :offset -1}"#, Err("offset must be 0 or more; you sent -1.")),
            ("read", r#"{:path "a" :offset "-1"}"#, Err("offset must be 0 or more; you sent -1.")),
            (
                "bash",
                r#"{:command "ls" :timeout-seconds "30"}"#,
                Ok(r#"{:command "ls" :timeout-seconds 30}"#),
            ),
            ("bash", r#"{:command "ls" :timeout-seconds 0}"#, Ok(r#"{:command "ls" :timeout-seconds 0}"#)),
            ("bash", r#"{:command "ls" :timeout-seconds -5}"#, Ok(r#"{:command "ls" :timeout-seconds -5}"#)),
            // Truth values.
            ("bash", r#"{:command "ls" :background "true"}"#, Ok(r#"{:command "ls" :background true}"#)),
            ("bash", r#"{:command "ls" :background "False"}"#, Ok(r#"{:command "ls" :background false}"#)),
            (
                "bash",
                r#"{:command "ls" :background "yes"}"#,
                Err("background must be true or false; you sent a string."),
            ),
            (
                "bash",
                r#"{:command "ls" :background 1}"#,
                Err("background must be true or false; you sent a number."),
            ),
            // Texts are not made of other things.
            ("bash", r#"{:command ["ls" "-l"]}"#, Err("command must be a string; you sent a list.")),
            ("bash", r#"{:command 5}"#, Err("command must be a string; you sent a number.")),
            ("bash", r#"{:command nil}"#, Err("command must be a string; you sent null.")),
            ("bash", r#"{:command {:line "ls"}}"#, Err("command must be a string; you sent an object.")),
            ("bash", "{}", Err("command is missing; it must be a string.")),
            ("read", "{}", Err("path is missing; it must be a string.")),
            ("write", r#"{:path "a"}"#, Err("content is missing; it must be a string.")),
            ("edit", r#"{:path "a"}"#, Err("edits is missing; it must be a list.")),
            (
                "edit",
                r#"{:path "a" :edits [{:old "b"}]}"#,
                Err("edits[0].new is missing; it must be a string."),
            ),
            (
                "edit",
                r#"{:path "a" :edits [{:old "b" :new "c"} {:old ["b"] :new "c"}]}"#,
                Err("edits[1].old must be a string; you sent a list."),
            ),
            ("edit", r#"{:path "a" :edits [5]}"#, Err("edits[0] must be an object; you sent a number.")),
            // Null for what may be left out.
            ("read", r#"{:path "a" :offset nil}"#, Ok(r#"{:path "a"}"#)),
            ("bash", r#"{:command "ls" :background nil :timeout-seconds nil}"#, Ok(r#"{:command "ls"}"#)),
            // Lists and objects as text, and one for a list of one.
            (
                "edit",
                r#"{:path "a" :edits "[{\"old\": \"b\", \"new\": \"c\"}]"}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#),
            ),
            (
                "edit",
                r#"{:path "a" :edits "[{\"old\": \"b\", \"new\": "}"#,
                Err("edits must be a list; you sent a string."),
            ),
            ("edit", r#"{:path "a" :edits ""}"#, Err("edits must be a list; you sent a string.")),
            (
                "edit",
                r#"{:path "a" :edits {:old "b" :new "c"}}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#),
            ),
            (
                "edit",
                r#"{:path "a" :edits ["{\"old\": \"b\", \"new\": \"c\"}"]}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#),
            ),
            ("edit", r#"{:path "a" :old "b" :new "c"}"#, Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#)),
            (
                "edit",
                r#"{:file_path "a" :old_string "b" :new_string "c" :replaceAll "true"}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c" :replace_all true}]}"#),
            ),
            ("edit", r#"{:path "a" :old "b"}"#, Err("edits[0].new is missing; it must be a string.")),
            (
                "edit",
                r#"{:path "a" :edits [{:old "b" :new "c"}] :old "d"}"#,
                Err("old is no argument of this tool; it has path, edits."),
            ),
            ("delegate", r#"{:task "t" :tools "read"}"#, Ok(r#"{:task "t" :tools ["read"]}"#)),
            (
                "delegate",
                r#"{:task "t" :tools "[\"read\", \"edit\"]"}"#,
                Ok(r#"{:task "t" :tools ["read" "edit"]}"#),
            ),
            (
                "delegate",
                r#"{:task "t" :tools "[\"read\""}"#,
                Err("tools must be a list; you sent a string."),
            ),
            ("delegate", r#"{:task "t" :tools [1]}"#, Err("tools[0] must be a string; you sent a number.")),
            ("ask-user", r#"{:question "q" :options nil}"#, Ok(r#"{:question "q"}"#)),
            // Keys of other programs, and in other letters.
            ("read", r#"{:file_path "a"}"#, Ok(r#"{:path "a"}"#)),
            ("read", r#"{:filePath "a"}"#, Ok(r#"{:path "a"}"#)),
            ("read", r#"{:Path "a"}"#, Ok(r#"{:path "a"}"#)),
            ("read", r#"{:path "a" :file_path "b"}"#, Err("file_path: did you mean path?")),
            ("write", r#"{:filename "a" :contents "b"}"#, Ok(r#"{:path "a" :content "b"}"#)),
            ("bash", r#"{:cmd "ls"}"#, Ok(r#"{:command "ls"}"#)),
            ("bash", r#"{:command "ls" :timeout_seconds 5}"#, Ok(r#"{:command "ls" :timeout-seconds 5}"#)),
            ("bash", r#"{:command "ls" :run_in_background true}"#, Ok(r#"{:command "ls" :background true}"#)),
            (
                "bash",
                r#"{:command "ls" :timeout 5000}"#,
                Err("timeout: did you mean timeout-seconds, in seconds?"),
            ),
            ("bash", r#"{:command "ls" :timeout_ms 5000}"#, Err("timeout_ms")),
            ("find", r#"{:pattern "*.rs"}"#, Ok(r#"{:glob "*.rs"}"#)),
            ("search", r#"{:pattern "x" :include "*.rs"}"#, Ok(r#"{:pattern "x" :glob "*.rs"}"#)),
            ("search", r#"{:query "x" :directory "src"}"#, Ok(r#"{:pattern "x" :path "src"}"#)),
            ("search", r#"{:pattern "x" :regex "y"}"#, Err("regex")),
            (
                "edit",
                r#"{:path "a" :edits [{:oldText "b" :newText "c"}]}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#),
            ),
            (
                "edit",
                r#"{:path "a" :edits [{:old_str "b" :new_str "c"}]}"#,
                Ok(r#"{:path "a" :edits [{:old "b" :new "c"}]}"#),
            ),
            ("edit", r#"{:path "a" :edits [{:old "b" :new "c" :line 3}]}"#, Err("edits[0].line")),
            ("read", r#"{:path "a" :offse 3}"#, Err("offse: did you mean offset?")),
            (
                "read",
                r#"{:path "a" :encoding "x"}"#,
                Err("encoding is no argument of this tool; it has path, offset, limit."),
            ),
            // Choices.
            ("search", r#"{:pattern "x" :mode "files"}"#, Ok(r#"{:pattern "x" :mode "files"}"#)),
            ("search", r#"{:pattern "x" :mode "content"}"#, Err("mode must be one of")),
        ];
        for (tool, came, expected) in rows {
            let fitted = fit(&schema_of(tool), &value(came));
            match (&fitted, expected) {
                (Ok(fitted), Ok(expected)) => {
                    assert_eq!(fitted.arguments, value(expected), "{tool} {came}");
                    assert_eq!(
                        fitted.repairs.is_empty(),
                        came == expected,
                        "{tool} {came}: {:?}",
                        fitted.repairs
                    );
                }
                (Err(why), Err(expected)) => {
                    assert!(why.starts_with(expected) && why.contains("You sent: {"), "{tool} {came}: {why}");
                }
                _ => panic!("{tool} {came}: {fitted:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn repair_is_told_in_a_sentence() {
        let told = |tool: &str, came: &str| fit(&schema_of(tool), &value(came)).unwrap().repairs.join(" ");
        assert_eq!(told("read", r#"{:path "a" :offset "2"}"#), "offset was text; taken as 2.");
        assert_eq!(
            told("read", r#"{:file_path "a" :limit 2.0}"#),
            "file_path was taken as path. limit was 2.0; taken as 2."
        );
        assert_eq!(
            told("edit", r#"{:path "a" :old "b" :new "c"}"#),
            "old, new was beside the other arguments; taken as one of edits."
        );
    }

    #[test]
    fn schema_of_a_server_passes_what_it_does_not_cover() {
        let schema = value(
            r#"{"type" "object" "properties" {"n" {"type" "integer" "minimum" 1} "any" {"anyOf" [{"type" "string"}]}
                "two" {"type" ["string" "null"]} "free" {}} "required" ["n"]}"#,
        );
        for (came, expected) in [
            (r#"{:n 1 :any 5 :free [1] :more {:x 1}}"#, Ok(r#"{:n 1 :any 5 :free [1] :more {:x 1}}"#)),
            (r#"{:n "1" :two nil}"#, Ok(r#"{:n 1 :two nil}"#)),
            (r#"{:n 0}"#, Err("n must be 1 or more; you sent 0.")),
            (r#"{:n 1 :two 3}"#, Err("two must be a string or null; you sent a number.")),
            (r#"{:N 1}"#, Ok(r#"{:n 1}"#)),
        ] {
            let fitted = fit(&schema, &value(came)).map(|fitted| fitted.arguments);
            match expected {
                Ok(expected) => assert_eq!(fitted, Ok(value(expected)), "{came}"),
                Err(why) => assert!(fitted.as_ref().is_err_and(|error| error.starts_with(why)), "{fitted:?}"),
            }
        }
        let long = format!(r#"{{:n "{}"}}"#, "x".repeat(1000));
        let why = fit(&schema, &value(&long)).unwrap_err();
        assert!(why.len() < 500 && why.contains('…'), "{why}");
    }

    #[test]
    fn names_are_understood_or_near_ones_told() {
        let offered =
            ["read", "write", "edit", "bash", "search", "find", "ask-user", "delegate", "mcp__s__Save"];
        for (came, expected) in [
            ("read", "read"),
            ("Read", "read"),
            (" read\n", "read"),
            ("functions.read", "read"),
            ("read<|channel|>commentary", "read"),
            ("Ask_User", "ask-user"),
            ("Grep", "search"),
            ("Glob", "find"),
            ("str_replace", "edit"),
            ("shell", "bash"),
            ("ReadFile", "read"),
            ("mcp__s__Save", "mcp__s__Save"),
            ("mcp__s__save", "mcp__s__Save"),
        ] {
            assert_eq!(meant(came, offered), MeantName::Known(expected.to_owned()), "{came:?}");
        }
        assert_eq!(meant("Reed", offered), MeantName::Unknown(vec!["read".to_owned()]));
        assert_eq!(meant("", offered), MeantName::Unknown(vec![]));
        // A tool that is offered comes before an alias.
        assert_eq!(meant("grep", ["search", "grep"]), MeantName::Known("grep".to_owned()));
        assert_eq!(meant("grep", ["read"]), MeantName::Unknown(vec![]));
    }

    #[test]
    fn no_alias_names_two() {
        let tools: Vec<&str> = TOOLS.iter().flat_map(|row| row.aliases).copied().collect();
        let keys: Vec<&str> = KEYS.iter().flat_map(|(_, names)| names.iter()).copied().collect();
        for names in [tools, keys] {
            let mut all: Vec<String> = names.into_iter().map(folded).collect();
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count);
        }
    }

    #[test]
    fn text_is_reread_only_where_it_is_whole() {
        for (text, expected) in [
            ("\"{\\\"a\\\": 1}\"", Some("{:a 1}")),
            ("```json\n{\"a\": 1}\n```", Some("{:a 1}")),
            ("{\"a\": \"x\ny\t\"}", Some("{:a \"x\\ny\\t\"}")),
            ("{\"a\": [1, 2,], }", Some("{:a [1 2]}")),
            ("{\"a\": \",}\", }", Some("{:a \",}\"}")),
            ("{\"a\": \"x\ny", None),
            ("{\"a\": 1, ", None),
            ("{\"a\": [1,", None),
            ("```json\n{\"a\": 1}", None),
            ("[1,]", None),
            ("\"touch\"", None),
            ("{\"a\": \"x\\\ny\"}", None),
            ("{\"a\": 1}{\"a\": 1,}", None),
        ] {
            let found = reread(text).map(|(value, _)| value.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn whole_fields_of_truncated_object_are_kept() {
        for (text, fields) in [
            (r#"{"path":"a,b.rs","edits":[{"old":"x","new":"#, r#"{:path "a,b.rs"}"#),
            (r#"{"path":"say \",","content":"hal"#, r#"{:path "say \","}"#),
            (r#"{"path":"a","all":[1,2],"n":{"x":1,"#, r#"{:path "a" :all [1 2]}"#),
            (r#"{"content":"half"#, "{}"),
            ("[1,2", "{}"),
            ("", "{}"),
        ] {
            assert_eq!(whole_fields(text).to_string(), fields, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A text without an end never yields a value.
        #[test]
        fn truncated_text_never_yields_arguments(text in "[ab\n,:\\[\\]{}\"\\\\ 1]{0,30}", cut in 0usize..60) {
            let whole = format!("{{\"a\": {}, \"b\": [1, {{\"c\": 2}}]}}", serde_json::Value::String(text));
            let cut = (0..=cut.min(whole.len() - 1)).rev().find(|at| whole.is_char_boundary(*at)).unwrap();
            prop_assert_eq!(reread(&whole[..cut]).map(|(value, _)| value), None);
        }
    }
}
