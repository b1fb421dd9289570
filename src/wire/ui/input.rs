//! Reads what the interface gives a run: the message with its images, the tools that it brings, and what it shows.
//!
//! The table has checked the shapes. Decides nothing.

use std::time::Duration;

use crate::facts::editor::{Editor, File, Position, Selection, is_path};
use crate::message::image::Image;
use crate::session::{OfferedTool, Prompt};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, text};
use crate::wire::ui::codes::{Code, Fault};

/// The message of a run: its text and its images.
///
/// # Errors
/// For an input without content, or an image that cannot be used.
pub fn prompt(params: &Value<'_>) -> Result<Prompt, Fault> {
    let Some(input) = at(params, "input") else {
        return Err(Fault::param("input", "{type: text, text} or {type: parts, parts}"));
    };
    let mut prompt = Prompt::default();
    if text(input, "type") == Some("text") {
        prompt.message = text(input, "text").unwrap_or_default().to_owned();
    } else {
        let list = at(input, "parts").and_then(Value::as_slice).unwrap_or_default();
        (prompt.message, prompt.images) = parts(list, "input.parts")?;
    }
    if prompt.message.trim().is_empty() && prompt.images.is_empty() {
        return Err(Fault::param("input", "a text that is not empty, or an image"));
    }
    Ok(prompt)
}

/// The texts of a list of parts, each on lines of its own, and the images. `key` names the list.
///
/// # Errors
/// For an image that cannot be used.
pub fn parts(parts: &[Value<'_>], key: &str) -> Result<(String, Vec<Image>), Fault> {
    let (mut all, mut images) = (String::new(), Vec::new());
    for part in parts {
        match at(part, "image_url") {
            Some(found) => images.push(image(found, key)?),
            None => {
                if !all.is_empty() {
                    all.push('\n');
                }
                all.push_str(text(part, "text").unwrap_or_default());
            }
        }
    }
    Ok((all, images))
}

/// An image in the address itself. Nothing is fetched.
fn image(image: &Value<'_>, key: &str) -> Result<Image, Fault> {
    let wrong = || Fault::param(&format!("{key}.image_url.url"), "data:image/TYPE;base64,…");
    let address = text(image, "url").unwrap_or_default();
    let (head, data) =
        address.strip_prefix("data:").and_then(|rest| rest.split_once(',')).ok_or_else(wrong)?;
    let mime = head.strip_suffix(";base64").ok_or_else(wrong)?;
    if text(image, "media_type").is_some_and(|named| named != mime) {
        return Err(Fault::param(&format!("{key}.image_url.media_type"), "that of the address"));
    }
    Image::from_base64(mime, data).map_err(|error| {
        Fault::new(Code::InvalidParams, format!("params.{key}: an image is refused: {error}."))
    })
}

/// The tools that the interface brings for a run. That it wants no question about one does not count: the mode, the
/// rules and the hooks decide.
pub fn tools(params: &Value<'_>) -> Vec<OfferedTool> {
    let tool = |tool: &Value<'_>| {
        let owned = |key| text(tool, key).unwrap_or_default().to_owned();
        let limit = at(tool, "timeout_ms").and_then(Value::as_i64);
        OfferedTool {
            name: owned("name"),
            description: owned("description"),
            parameters: at(tool, "parameters")
                .map_or(Value::from(Map::new()), |schema| schema.clone().into_owned()),
            read_only: false,
            path: None,
            timeout: limit.map(|limit| Duration::from_millis(u64::try_from(limit).unwrap_or(0))),
        }
    };
    at(params, "tools").and_then(Value::as_slice).unwrap_or_default().iter().map(tool).collect()
}

/// What the interface shows; `None` if a path is none.
pub fn editor(params: &Value<'_>) -> Option<Editor> {
    let path = |value: Option<&str>| match value {
        None | Some("") => Some(None),
        Some(path) => is_path(path).then(|| Some(path.to_owned())),
    };
    let needed = |value: &Value<'_>| text(value, "path").filter(|path| is_path(path)).map(str::to_owned);
    let active_file = match at(params, "active_file") {
        None => None,
        Some(file) => Some(File::new(needed(file)?, text(file, "language_id"))),
    };
    let selection = match at(params, "selection") {
        None => None,
        Some(selection) => {
            let position = |key: &str| {
                let place = at(at(selection, "range")?, key)?;
                let count = |key| at(place, key).and_then(Value::as_i64)?.try_into().ok();
                Some(Position { line: count("line")?, column: count("column")? })
            };
            let (start, end) = (position("start")?, position("end")?);
            Some(Selection::new(needed(selection)?, start, end, text(selection, "selected_text")))
        }
    };
    Some(Editor {
        cwd: path(text(params, "cwd"))?,
        workspace_root: path(text(params, "workspace_root"))?,
        active_file,
        selection,
    })
}
