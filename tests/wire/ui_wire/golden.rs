//! The examples of the protocol's document (section 10), word by word, as a golden transcript.
//!
//! `UPDATE_TRANSCRIPTS=1` records the answers again.

use serde_json::json;

use crate::peer::Peer;
use crate::support::Setup;

/// The document's lines of the interface, but for `ui_capabilities`: without them nobody can be asked.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocol_version":"0","client":{"name":"codelia-tui","version":"0.0.0"},"ui_capabilities":{"supports_confirm":true}}}"#;
const START: &str = r#"{"jsonrpc":"2.0","id":"2","method":"run.start","params":{"input":{"type":"text","text":"List TypeScript files"}}}"#;
const SCRIPT: &str = r#"{:turns [{:steps [{:thinking "..."} {:tool-call {:id "call_1" :name "bash" :arguments {:command "rg -n \"AgentEvent\" -S packages"}}}]}
                                 {:steps [{:delta "None."}]}]}"#;

#[test]
fn examples_of_the_document_have_their_transcript() {
    let setup = Setup::new().script(SCRIPT).fixed();
    let mut peer = Peer::start(&setup);
    peer.send_raw(INITIALIZE.as_bytes());
    peer.answer("1");
    peer.send_raw(START.as_bytes());
    let question = peer.question();
    peer.reply(&question, json!({"ok": true}));
    let folder = setup.dir.path().canonicalize().unwrap();
    let transcript = peer.transcript.join("\n") + "\n";
    let transcript = transcript.replace(setup.dir.path().to_str().unwrap(), "DIR");
    let transcript = transcript.replace(folder.to_str().unwrap(), "DIR");
    // The name of the session's folder has a digest of the project's place.
    let transcript = match transcript.split_once("/sessions/") {
        Some((before, rest)) => format!("{before}/sessions/…{}", rest.trim_start_matches(|c| c != '"')),
        None => transcript,
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/ui_wire/examples.txt");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(path, &transcript).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == transcript, "{path} differs:\n{transcript}");
}
