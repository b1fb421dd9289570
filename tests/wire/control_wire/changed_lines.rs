//! Good lines with random changes.

use proptest::prelude::*;
use serde_json::json;

use super::any_line::check;
use super::lines::stdin;

/// A change of a line, at a place of it.
#[derive(Debug, Clone)]
enum Change {
    Put(usize, Vec<u8>),
    Cut(usize, usize),
    /// A part of the line again, at another place.
    Copy(usize, usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let pieces = prop::sample::select(vec![
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "-1e9",
        "\\ud800",
        "\"request_id\":",
        "\"type\":",
        "\u{0}",
        "\u{e4}",
        "\"command\":\"control\",\"payload\":{",
        "\"content_ref\":{\"path\":\"/\"},",
    ]);
    let piece =
        prop_oneof![pieces.prop_map(|text| text.as_bytes().to_vec()), any::<[u8; 1]>().prop_map(Vec::from)];
    prop_oneof![
        (any::<usize>(), piece).prop_map(|(at, piece)| Change::Put(at, piece)),
        (any::<usize>(), 0usize..20).prop_map(|(at, count)| Change::Cut(at, count)),
        (any::<usize>(), any::<usize>(), 0usize..400)
            .prop_map(|(at, from, count)| Change::Copy(at, from, count)),
    ]
}

fn changed(line: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut line = line.to_vec();
    for change in changes {
        let place = |at: usize| at % (line.len() + 1);
        match change {
            Change::Put(at, piece) => drop(line.splice(place(*at)..place(*at), piece.iter().copied())),
            Change::Cut(at, count) => {
                let from = place(*at);
                line.drain(from..line.len().min(from + count));
            }
            Change::Copy(at, from, count) => {
                let (at, from) = (place(*at), place(*from));
                let part = line[from..line.len().min(from + count)].to_vec();
                line.splice(at..at, part);
            }
        }
    }
    line
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn changed_line_is_read_or_refused(
        which in 0usize..4,
        changes in prop::collection::vec(change(), 0..8),
    ) {
        let mut reference = stdin("r", "");
        reference["content_ref"] = json!({
            "path": "/in/x", "size_bytes": 1, "sha256": "0".repeat(64), "mime": "text/plain", "expires_at": null
        });
        let lines = [
            stdin("r", "a \"text\"").to_string(),
            json!({ "version": 1, "request_id": "e", "command": "control", "payload": stdin("r", "x") }).to_string(),
            json!({ "version": 1, "request_id": "e", "command": "agent-state", "payload": { "agent": "a" } }).to_string(),
            reference.to_string(),
        ];
        check(&changed(lines[which].as_bytes(), &changes));
    }
}

#[test]
fn long_names_are_not_sent_back() {
    let long = "x".repeat(1_000_000);
    for key in
        ["type", "request_id", "team", "session_id", "agent_id", "sender", "action", "content_encoding", "v"]
    {
        let mut line = stdin("r", "x");
        line[key] = long.clone().into();
        check(line.to_string().as_bytes());
        check(
            json!({ "version": 1, "request_id": long, "command": "control", "payload": line })
                .to_string()
                .as_bytes(),
        );
        check(
            json!({ "version": 1, "request_id": "e", "command": long, "payload": line })
                .to_string()
                .as_bytes(),
        );
    }
}
