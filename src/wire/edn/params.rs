//! Params with a shape of their own, as types: what an editor shows, and answers to questions. Decides nothing.

use std::time::Duration;

use base64::Engine as _;

use crate::facts::editor::{self, Editor, File, Position, Selection};
use crate::facts::rule::Rule;
use crate::files::FileStamp;
use crate::limits::{EDITOR_PATH_BYTES, ERROR_NAME_CHARS};
use crate::message::{EntryId, SessionId, TurnId};
use crate::secret::Secret;
use crate::session::{
    AnswerFields, ApiError, EditorDiagnostic, EditorText, FileAnswer, InAnswer, McpTyped, OfferedTool,
    OpenFile, OpenFilesOfClient, Severity, Since,
};
use crate::value::{Map, Value};

const RANGE: &str = "{:path string :range {:start {:line n :column n} :end {:line n :column n}}}";

/// The params of `context_update`. Ignores unknown keys.
///
/// # Errors
/// `request/invalid-params` for the first param with the wrong shape.
pub(super) fn editor(params: &Value<'_>) -> Result<Editor, ApiError> {
    let wrong = |key, expected| move || ApiError::invalid_param(key, expected);
    let folder = |key| {
        let folder = present(params.get(key)).map(|value| path(Some(value)));
        folder.map(|path| path.ok_or_else(wrong(key, "the path of a folder"))).transpose()
    };
    let active = present(params.get("active-file")).map(file);
    let selected = present(params.get("selection")).map(selection);
    Ok(Editor {
        cwd: folder("cwd")?,
        workspace_root: folder("workspace-root")?,
        active_file: active
            .map(|file| file.ok_or_else(wrong("active-file", "{:path string :language-id string?}")))
            .transpose()?,
        selection: selected.map(|selection| selection.ok_or_else(wrong("selection", RANGE))).transpose()?,
    })
}

const SINCE: &str =
    "{:session-id string :offset n :entry-id string? :at {:turn string :call n :chars n :thinking n?}?}";

/// The `:since` of `subscribe`.
///
/// # Errors
/// `request/invalid-params` if it has the wrong shape.
pub(super) fn since(params: &Value<'_>) -> Result<Option<Since>, ApiError> {
    let Some(since) = present(params.get("since")) else { return Ok(None) };
    let read = || {
        let count = |value: &Value<'_>, key| value.get(key).and_then(Value::as_i64)?.try_into().ok();
        let text =
            |value: &Value<'_>, key| present(value.get(key)).map(|text| text.as_str().map(str::to_owned));
        let in_answer = match present(since.get("at")) {
            None => None,
            Some(at) => Some(InAnswer {
                turn: TurnId::from(text(at, "turn")??),
                call: at.get("call").and_then(Value::as_i64)?.try_into().ok()?,
                chars: count(at, "chars")?,
                thinking: match present(at.get("thinking")) {
                    None => 0,
                    Some(_) => count(at, "thinking")?,
                },
            }),
        };
        Some(Since {
            session: SessionId::from(text(since, "session-id")??),
            offset: count(since, "offset")?,
            entry: match text(since, "entry-id") {
                None => None,
                Some(entry) => Some(EntryId::from(entry?)),
            },
            in_answer,
        })
    };
    read().map(Some).ok_or_else(|| ApiError::invalid_param("since", SINCE))
}

fn present<'v, 'a>(value: Option<&'v Value<'a>>) -> Option<&'v Value<'a>> {
    value.filter(|value| !value.is_nil())
}

fn path(value: Option<&Value<'_>>) -> Option<String> {
    value?.as_str().filter(|text| editor::is_path(text)).map(str::to_owned)
}

fn file(value: &Value<'_>) -> Option<File> {
    let language = match present(value.get("language-id")) {
        Some(language) => Some(language.as_str()?),
        None => None,
    };
    Some(File::new(path(value.get("path"))?, language))
}

fn selection(value: &Value<'_>) -> Option<Selection> {
    let count = |value: &Value<'_>, key| value.get(key).and_then(Value::as_i64)?.try_into().ok();
    let place = |key: &str| {
        let place = value.get("range")?.get(key)?;
        Some(Position { line: count(place, "line")?, column: count(place, "column")? })
    };
    let text = match present(value.get("selected-text")) {
        Some(text) => Some(text.as_str()?),
        None => None,
    };
    Some(Selection::new(path(value.get("path"))?, place("start")?, place("end")?, text))
}

/// The `:value` of an answer. The question's kind decides which keys count.
///
/// # Errors
/// `request/invalid-params` for a `:content` that is no string: without it, the answer would accept another text than
/// the person's.
pub(super) fn answer(value: &Map<'_>) -> Result<AnswerFields, ApiError> {
    let text = |key| value.get_keyword(key).and_then(Value::as_str).map(str::to_owned);
    let flag = |key| value.get_keyword(key).and_then(Value::as_bool);
    let content = match present(value.get_keyword("content")) {
        Some(content) => Some(
            content.as_str().ok_or_else(|| ApiError::invalid_param("value :content", "a string"))?.to_owned(),
        ),
        None => None,
    };
    Ok(AnswerFields {
        text: text("text"),
        secret: text("secret").map(Secret::new),
        ok: flag("ok"),
        done: flag("done"),
        index: value.get_keyword("index").and_then(Value::as_i64).and_then(|place| place.try_into().ok()),
        outcome: text("outcome"),
        scope: text("scope"),
        rule: value.get_keyword("rule").and_then(|rule| Rule::from_value(rule).ok()),
        content,
    })
}

const TOOL: &str = "a vector of {:name string :description string :parameters map? :read-only flag? :path string? \
                    :timeout-seconds n?}";

/// The `:tools` of `register_tools`. Ignores unknown keys.
///
/// # Errors
/// `request/invalid-params` for the first one with the wrong shape.
pub(super) fn offered_tools(tools: &Value<'_>) -> Result<Vec<OfferedTool>, ApiError> {
    let tools = tools.as_slice().unwrap_or_default().iter().map(offered_tool);
    tools.collect::<Option<_>>().ok_or_else(|| ApiError::invalid_param("tools", TOOL))
}

fn offered_tool(tool: &Value<'_>) -> Option<OfferedTool> {
    let optional = |key| present(tool.get(key));
    Some(OfferedTool {
        name: tool.get("name")?.as_str()?.to_owned(),
        description: tool.get("description")?.as_str()?.to_owned(),
        parameters: match optional("parameters") {
            Some(schema) => Value::from(schema.as_map()?.clone().into_owned()),
            None => Map::new().with("type", "object").with("properties", Map::new()).into(),
        },
        read_only: optional("read-only").map_or(Some(false), Value::as_bool)?,
        path: match optional("path") {
            Some(key) => Some(key.as_str()?.to_owned()),
            None => None,
        },
        timeout: match optional("timeout-seconds") {
            Some(seconds) => Some(Duration::from_secs(u64::try_from(seconds.as_i64()?).ok()?)),
            None => None,
        },
    })
}

/// What a person has typed, in the params of `complete_mcp`.
///
/// # Errors
/// `request/invalid-params` if it is neither an argument of a prompt nor a reference.
pub(super) fn mcp_typed(params: &Value<'_>) -> Result<McpTyped, ApiError> {
    let text = |key| present(params.get(key)).and_then(Value::as_str).map(str::to_owned);
    let named = |key: &Value<'_>| key.as_str().or_else(|| key.as_keyword()).map(str::to_owned);
    match (text("prompt"), text("argument"), text("reference")) {
        (Some(prompt), Some(argument), None) => {
            let before =
                present(params.get("before")).and_then(Value::as_map).into_iter().flat_map(Map::iter);
            let before: Option<_> =
                before.map(|(key, value)| Some((named(key)?, value.as_str()?.to_owned()))).collect();
            let before = before.ok_or_else(|| {
                ApiError::invalid_param("before", "a map of texts, by the arguments' names")
            })?;
            Ok(McpTyped::Argument { prompt, argument, value: text("value").unwrap_or_default(), before })
        }
        (None, None, Some(reference)) => Ok(McpTyped::Reference(reference)),
        (Some(_), None, _) => {
            Err(ApiError::invalid_param("argument", "the name of an argument of the prompt"))
        }
        _ => Err(ApiError::invalid_param("reference", "a text, where there is no :prompt with :argument")),
    }
}

const FILE: &str = "a vector of {:path string :real-path string? :modified flag? :encoding string? :visited {:device int :inode int \
                    :time int}? :diagnostics flag?}, each path absolute";

/// The params of `register_files`. Ignores unknown keys.
///
/// # Errors
/// `request/invalid-params` for the first one with the wrong shape.
pub(super) fn open_files(params: &Value<'_>) -> Result<OpenFilesOfClient, ApiError> {
    let read = |file: &Value<'_>| {
        let is_path = |path: &&str| path.starts_with('/') && path.len() <= EDITOR_PATH_BYTES;
        let path = |value: &Value<'_>| value.as_str().filter(is_path).map(str::to_owned);
        let name = |value: &Value<'_>| {
            value.as_str().filter(|name| name.len() <= ERROR_NAME_CHARS).map(str::to_owned)
        };
        Some(OpenFile {
            path: path(file.get("path")?)?,
            real_path: present(file.get("real-path")).map_or(Some(None), |value| path(value).map(Some))?,
            modified: present(file.get("modified")).map_or(Some(false), Value::as_bool)?,
            encoding: present(file.get("encoding")).map_or(Some(None), |value| name(value).map(Some))?,
            visited: present(file.get("visited")).map_or(Some(None), |value| stamp(value).map(Some))?,
            is_checked: present(file.get("diagnostics")).map_or(Some(false), Value::as_bool)?,
        })
    };
    let files = params.get("files").and_then(Value::as_slice).unwrap_or_default().iter().map(read);
    let files = files.collect::<Option<_>>().ok_or_else(|| ApiError::invalid_param("files", FILE))?;
    let lock = present(params.get("lock")).and_then(Value::as_str).filter(|lock| !lock.is_empty());
    Ok(OpenFilesOfClient { files, lock: lock.map(str::to_owned) })
}

/// A state of a file.
fn stamp(value: &Value<'_>) -> Option<FileStamp> {
    let number = |key| value.get(key).and_then(Value::as_i64);
    let natural = |key| number(key).map(i64::cast_unsigned);
    Some(FileStamp { device: natural("device")?, inode: natural("inode")?, time: number("time")? })
}

const DIAGNOSTICS: &str = "a vector of {:line int :column int? :severity \"error\", \"warning\" or \"note\" :message string \
                           :source string?}";

/// The diagnostics of a client's checkers. Ignores unknown keys.
fn diagnostics(params: &Value<'_>) -> Result<Vec<EditorDiagnostic>, ApiError> {
    let read = |found: &Value<'_>| {
        let natural = |key| {
            let number = present(found.get(key)).and_then(Value::as_i64);
            number.and_then(|number| u64::try_from(number).ok())
        };
        let text = |key| present(found.get(key)).and_then(Value::as_str);
        Some(EditorDiagnostic {
            line: natural("line")?,
            column: natural("column"),
            severity: Severity::parse(text("severity")?)?,
            message: text("message")?.to_owned(),
            source: text("source").map(str::to_owned),
        })
    };
    let found = params.get("diagnostics").and_then(Value::as_slice);
    let found = found.and_then(|found| found.iter().map(read).collect());
    found.ok_or_else(|| ApiError::invalid_param("diagnostics", DIAGNOSTICS))
}

/// The answer in the params of `file_result`.
///
/// # Errors
/// `request/invalid-params` for an answer that has neither a text nor `:saved`, and for diagnostics of a wrong shape.
pub(super) fn file_answer(params: &Value<'_>) -> Result<FileAnswer, ApiError> {
    let text = |key| present(params.get(key)).and_then(Value::as_str);
    Ok(match text("status").unwrap_or_default() {
        "changed" => FileAnswer::Changed,
        "closed" => FileAnswer::Closed,
        "failed" => FileAnswer::Failed(
            text("error-message").unwrap_or_default().chars().take(ERROR_NAME_CHARS).collect(),
        ),
        _ if present(params.get("diagnostics")).is_some() => FileAnswer::Diagnostics(diagnostics(params)?),
        _ => match text("text") {
            Some(found) => FileAnswer::Text(EditorText {
                text: found.into(),
                bytes: text("bytes")
                    .map(|bytes| base64::engine::general_purpose::STANDARD.decode(bytes))
                    .transpose()
                    .map_err(|_| {
                        ApiError::invalid_param("bytes", "the bytes of the text in the file, in base64")
                    })?,
                modified: present(params.get("modified")).and_then(Value::as_bool).unwrap_or_default(),
                base: text("base").map(str::to_owned),
                visited: present(params.get("visited")).and_then(stamp),
                is_final: present(params.get("final")).and_then(Value::as_bool).unwrap_or_default(),
            }),
            // A client of an earlier version has saved it itself, which nobody has judged.
            None if params.get("saved").is_some() => {
                FileAnswer::Failed("it answers as an earlier version; update its package".to_owned())
            }
            None => return Err(ApiError::invalid_param("text", "the file's text")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    fn read(text: &str) -> Result<Editor, ApiError> {
        editor(&edn::read_one(text.as_bytes()).unwrap())
    }

    const RANGE: &str = ":range {:start {:line 4 :column 0} :end {:line 2 :column 0}}";

    #[test]
    fn editor_context_is_read_and_laid_out_equal() {
        let shown = read(&format!(
            "{{:cwd \"/w\" :active-file {{:path \"a.rs\" :language-id \"rust\"}} :extensions {{:x 1}}
              :selection {{:path \"a.rs\" {RANGE} :selected-text \"a ``` b\"}}}}"
        ))
        .unwrap();
        assert_eq!(shown.selection.as_ref().map(|selection| selection.start.line), Some(2));
        assert_eq!(editor(&shown.to_value()).unwrap(), shown);
        assert!(read("{}").unwrap().is_empty());
        assert!(read("{:active-file nil :selection nil}").unwrap().is_empty());
        let long = "x".repeat(crate::limits::EDITOR_TEXT_BYTES * 2);
        let shown = read(&format!("{{:selection {{:path \"a\" {RANGE} :selected-text {long:?}}}}}")).unwrap();
        assert!(shown.selection.unwrap().cut);
    }

    #[test]
    fn editor_context_of_another_shape_names_its_key() {
        for (text, key) in [
            ("{:cwd 7}", ":cwd"),
            ("{:workspace-root \"\"}", ":workspace-root"),
            ("{:active-file {}}", ":active-file"),
            ("{:active-file {:path \"a\\nb\"}}", ":active-file"),
            ("{:selection {:path \"a\"}}", ":selection"),
            (
                "{:selection {:path \"a\" :range {:start {:line -1 :column 0} :end {:line 1 :column 0}}}}",
                ":selection",
            ),
        ] {
            let error = read(text).unwrap_err();
            let named = error.data.unwrap();
            assert_eq!(named.get_keyword("key").and_then(Value::as_str), Some(key), "{text}");
        }
    }
}
