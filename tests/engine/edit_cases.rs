//! The cases of `tests/data/edit-cases.json`, over the real wire: each edit is right, or refused as the case says, and
//! none changes anything else. Once with the files on disk, once with a client that has them open.

use crate::support;

use base64::Engine as _;
use edn_bridge::value::{Map, Owned, Value};
use serde_json::Value as Json;
use support::{Bridge, Setup, at, data};

use crate::client_tools::serving;

/// A case, with the bytes of its file before and after.
struct Case {
    id: String,
    path: String,
    before: Option<Vec<u8>>,
    /// `None`: it is refused, and nothing changes.
    after: Option<Vec<u8>>,
    edits: Vec<Value<'static>>,
    tells: Vec<String>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/edit-cases.json")).unwrap();
    let all: Json = serde_json::from_slice(&text).unwrap();
    let bytes = |case: &Json, key: &str| {
        let text = |key: &str| case.get(key).and_then(Json::as_str);
        let coded = text(&format!("{key}_base64"))
            .map(|coded| base64::engine::general_purpose::STANDARD.decode(coded).unwrap());
        coded.or_else(|| text(key).map(|text| text.as_bytes().to_vec()))
    };
    let edit = |edit: &Json| {
        let text = |key: &str| edit.get(key).and_then(Json::as_str).unwrap().to_owned();
        let mut made = Map::new().with("old", text("old")).with("new", text("new"));
        if let Some(all) = edit.get("replace_all").and_then(Json::as_bool) {
            made.put("replace_all", all);
        }
        Value::from(made)
    };
    let list = |value: &Json, key: &str| value.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
    let case = |case: &Json| {
        let text = |key: &str| case.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let id = text("id");
        let name = if text("path").is_empty() { "file.txt".to_owned() } else { text("path") };
        let tells = list(case, "tells");
        let mut tells: Vec<String> =
            tells.iter().map(|words| words.as_str().unwrap().to_lowercase()).collect();
        let step = text("by").replace('-', " ");
        if !step.is_empty() && step != "exact" {
            tells.extend([step, "line".to_owned()]);
        }
        Case {
            path: format!("cases/{id}/{name}"),
            before: bytes(case, "file"),
            after: bytes(case, "expect"),
            edits: list(case, "edits").iter().map(edit).collect(),
            tells,
            id,
        }
    };
    list(&all, "cases").iter().map(case).collect()
}

/// A project with the files, and a bridge whose model makes the edits one after the other.
fn setup(cases: &[Case]) -> Setup {
    let steps: String = cases
        .iter()
        .map(|case| {
            let arguments = Map::new().with("path", case.path.clone());
            let arguments = arguments.with("edits", Value::vector(case.edits.iter().cloned()));
            let call = Map::new().with("name", "edit").with("arguments", Value::from(arguments));
            format!("{{:steps [{{:tool-call {}}}]}} ", Value::from(call))
        })
        .collect();
    let setup =
        Setup::new().script(&format!("{{:turns [{steps} {{:steps [{{:delta \"end\"}}]}}]}}")).arg("--yolo");
    for case in cases {
        let path = setup.project().join(&case.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(bytes) = &case.before {
            std::fs::write(path, bytes).unwrap();
        }
    }
    setup
}

/// What is wrong with the result of a case; empty if nothing is.
fn faults(setup: &Setup, case: &Case, result: &Owned) -> Vec<String> {
    let mut faults = Vec::new();
    let text = data(result, "result-text");
    let failed = at(result, &["data", "is-error"]).and_then(|value| value.as_bool()).unwrap();
    let there = std::fs::read(setup.project().join(&case.path)).ok();
    let expected = case.after.as_ref().or(case.before.as_ref());
    if failed != case.after.is_none() {
        faults.push(format!("{}: refused: {failed}: {text}", case.id));
    }
    if there.as_ref() != expected {
        let shown = |bytes: Option<&Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        faults.push(format!(
            "{}: {:?}, expected {:?}: {text}",
            case.id,
            shown(there.as_ref()),
            shown(expected)
        ));
    }
    for words in &case.tells {
        if !text.to_lowercase().contains(words) {
            faults.push(format!("{}: does not say {words:?}: {text}", case.id));
        }
    }
    faults
}

#[test]
fn edit_cases_on_disk_are_right_or_refused() {
    let cases = cases();
    assert_eq!(cases.len(), 80);
    let setup = setup(&cases);
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let mut found = Vec::new();
    for case in &cases {
        let result = bridge.event("tool/result");
        found.extend(faults(&setup, case, &result));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn edit_cases_open_in_a_client_are_right_or_refused() {
    // The text of such a file is the client's; these have none.
    let is_text = |case: &Case| case.before.as_ref().is_some_and(|bytes| std::str::from_utf8(bytes).is_ok());
    let cases: Vec<Case> = cases().into_iter().filter(is_text).filter(|case| case.id != "files-04").collect();
    assert!(cases.len() > 70);
    let setup = setup(&cases);
    let mut bridge: Bridge = setup.ready();
    let root = setup.project().canonicalize().unwrap();
    let file = |case: &Case| {
        let path = root.join(&case.path).to_str().unwrap().to_owned();
        Value::from(Map::new().with("path", path).with("modified", true))
    };
    let files = Map::new().with("files", Value::vector(cases.iter().map(file)));
    bridge.ask("r", "register_files", &Value::from(files).to_string());
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let mut found = Vec::new();
    for case in &cases {
        let disk = case.before.clone().unwrap();
        let mut buffer = String::from_utf8(disk.clone()).unwrap();
        let result = serving(&mut bridge, |action, text, _| {
            if action == "write" {
                buffer = text.to_owned();
            }
            let text = Value::from(buffer.clone());
            let base = edn_bridge::sha256::hex(&disk);
            format!(":status \"ok\" :text {text} :modified true :base {base:?}")
        });
        found.extend(faults(&setup, case, &result));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
