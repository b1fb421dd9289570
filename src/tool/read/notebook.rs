//! A notebook of Jupyter as its cells: numbered, with their outputs as text. Images are left out with their size. What is no
//! notebook is read as any text.

use crate::json;
use crate::limits::{NOTEBOOK_OUTPUT_BYTES, TOOL_RESULT_BYTES};
use crate::tool::cut;
use crate::value::Value;

/// The cells of a notebook, for a model; `None` for any other text.
pub(super) fn cells(text: &str) -> Option<String> {
    let notebook = json::read(text.as_bytes()).ok()?;
    let cells = get(&notebook, "cells")?.as_slice()?;
    let mut told = format!("[a notebook of {} cells; its own lines, for edit, with offset 1]\n", cells.len());
    for (number, cell) in (1usize..).zip(cells) {
        if told.len() >= TOOL_RESULT_BYTES {
            told.push_str(&format!(
                "[… cells {number} to {} are left out; read the file's own lines with offset …]\n",
                cells.len()
            ));
            break;
        }
        let kind = get(cell, "cell_type").and_then(Value::as_str).unwrap_or("?");
        let source = get(cell, "source").map(joined).unwrap_or_default();
        told.push_str(&format!("[cell {number}, {kind}]\n{}\n", cut(&source, TOOL_RESULT_BYTES)));
        for output in get(cell, "outputs").and_then(Value::as_slice).unwrap_or_default() {
            told.push_str(&format!(
                "[output of cell {number}]\n{}\n",
                cut(&shown(output), NOTEBOOK_OUTPUT_BYTES)
            ));
        }
    }
    Some(told)
}

fn get<'v, 'a>(value: &'v Value<'a>, key: &str) -> Option<&'v Value<'a>> {
    value.as_map()?.get(&Value::str(key))
}

/// A text, which a notebook may have as a list of its lines.
fn joined(text: &Value<'_>) -> String {
    let text = match text.as_slice() {
        Some(lines) => lines.iter().filter_map(Value::as_str).collect(),
        None => text.as_str().unwrap_or_default().to_owned(),
    };
    text.trim_end_matches('\n').to_owned()
}

/// An output as text.
fn shown(output: &Value<'_>) -> String {
    if let Some(text) = get(output, "text") {
        return joined(text);
    }
    if let Some(name) = get(output, "ename").and_then(Value::as_str) {
        return format!("{name}: {}", get(output, "evalue").and_then(Value::as_str).unwrap_or_default());
    }
    let Some(data) = get(output, "data").and_then(Value::as_map) else {
        return "[an output without text]".to_owned();
    };
    let mut told = Vec::new();
    for (kind, content) in data.iter() {
        let kind = kind.as_str().unwrap_or_default();
        if kind == "text/plain" || kind == "text/markdown" {
            told.push(joined(content));
        } else {
            told.push(format!("[{kind}, {} bytes, left out]", joined(content).len()));
        }
    }
    told.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbered_and_images_left_out() {
        let text = r##"{"cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "more"]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [
                {"output_type": "execute_result", "data": {"text/plain": ["2"], "image/png": "aGFsbG8="}},
                {"output_type": "stream", "text": ["out\n"]},
                {"output_type": "error", "ename": "E", "evalue": "bad"}]}], "nbformat": 4}"##;
        let told = cells(text).unwrap();
        let expected = "[a notebook of 2 cells; its own lines, for edit, with offset 1]\n[cell 1, markdown]\n# Title\nmore\n\
                        [cell 2, code]\n1 + 1\n[output of cell 2]\n2\n[image/png, 8 bytes, left out]\n[output of cell 2]\nout\n\
                        [output of cell 2]\nE: bad\n";
        assert_eq!(told, expected);
        assert_eq!(cells("{\"a\": 1}"), None);
        assert_eq!(cells("no JSON"), None);
    }
}
