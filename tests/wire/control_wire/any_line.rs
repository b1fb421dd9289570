//! What holds of any line of the control wire: it is read within its bounds or refused, its answer is one line of JSON
//! that quotes no long text, and a value that was read is written so that it is read again. The fuzz target
//! `control_line` uses it too.

use edn_bridge::json;
use edn_bridge::projection::control::{self, Spelling};
use edn_bridge::session::control::{ControlAck, ControlResult};
use edn_bridge::wire::control::message::{self, LineCommand, NAMES};

/// The longest answer that a line may cause, apart from what the runtime says: five names, each in its longest
/// spelling.
const LONGEST_ANSWER: usize = 5 * 6 * 256 + 1024;

/// Checks a line.
pub fn check(line: &[u8]) {
    if let Ok(value) = json::read(line) {
        let mut text = Vec::new();
        json::write(&value, &mut text);
        assert_eq!(json::read(&text).expect("what was written is JSON"), value);
    }
    let answer = match message::read(line) {
        Err(refusal) => refusal.line(),
        Ok(ask) => {
            assert!(NAMES.get(ask.command.place()).is_some());
            let LineCommand::Request(request) = &ask.command else { return };
            let mut ack =
                ControlAck::new(request, "2026-01-02T03:04:05.678Z".into(), ControlResult::Rejected);
            ack.detail = request.asked.as_ref().err().cloned();
            ask.form.line(control::ack(&ack, Spelling::Json).into())
        }
    };
    assert!(answer.len() < LONGEST_ANSWER, "{} bytes", answer.len());
    let (end, text) = answer.split_last().expect("an answer is not empty");
    assert!(*end == b'\n' && !text.contains(&b'\n'));
    json::read(text).expect("an answer is JSON");
}
