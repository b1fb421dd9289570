//! Diagnostics of an attached editor for a file that a call has changed, as a short list in the call's result. Starts
//! no checker: editors have them.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::{Batch, telling};
use crate::event::ToolCall;
use crate::limits::{DIAGNOSTIC_BYTES, DIAGNOSTICS};
use crate::session::EditorDiagnostic;
use crate::tool::permission::Access;
use crate::tool::{Outcome, Plan, Writer, one_line};

impl Batch<'_> {
    /// Adds what is new to the result of a model's change of a file.
    pub(super) async fn add_diagnostics(&self, call: &Arc<ToolCall>, plan: &Plan, outcome: &mut Outcome) {
        if let Access::Write(path) = &plan.access
            && self.writer == Writer::Model
            && !outcome.is_error
            && outcome.edit.is_some()
        {
            let found = self.diagnostics(call, path).await;
            if !found.is_empty() {
                outcome.add_line(&listed(found));
            }
        }
    }

    /// Those that are new. Takes its time from that of the answer.
    async fn diagnostics(&self, call: &Arc<ToolCall>, path: &Path) -> Vec<EditorDiagnostic> {
        let left = || self.diagnostics_time.lock().unwrap_or_else(PoisonError::into_inner);
        let (turn, patience) = (self.turn, *left());
        let (since, event) = (turn.shared.clock.passed(), telling(turn, call));
        let files = &turn.shared.client_files;
        let found = files.diagnostics(path, event.as_ref(), &turn.stop, patience).await;
        let mut left = left();
        *left = left.saturating_sub(turn.shared.clock.passed().saturating_sub(since));
        found
    }
}

/// The list for the model: errors first.
fn listed(mut found: Vec<EditorDiagnostic>) -> String {
    found.sort_by_key(|found| (found.severity, found.line, found.column));
    let mut list = "Diagnostics in the user's editor that are new:".to_owned();
    for EditorDiagnostic { line, column, severity, message, source } in found.iter().take(DIAGNOSTICS) {
        let column = column.map(|column| format!(":{column}")).unwrap_or_default();
        let source = source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
        let message = format!("{line}{column} {}: {message}{source}", severity.as_str());
        list.push('\n');
        list.push_str(&one_line(&message, DIAGNOSTIC_BYTES));
    }
    match found.len().saturating_sub(DIAGNOSTICS) {
        0 => {}
        more => list.push_str(&format!("\n[… {more} more]")),
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Severity;

    fn found(line: u64, severity: Severity, message: &str) -> EditorDiagnostic {
        EditorDiagnostic { line, column: None, severity, message: message.to_owned(), source: None }
    }

    #[test]
    fn list_has_errors_first_on_one_line_each() {
        let error = EditorDiagnostic {
            column: Some(5),
            source: Some("rustc".to_owned()),
            ..found(9, Severity::Error, "mismatched types\n  expected `u8`")
        };
        let list = listed(vec![found(1, Severity::Note, "n"), error, found(2, Severity::Warning, "unused")]);
        assert_eq!(
            list,
            "Diagnostics in the user's editor that are new:\n9:5 error: mismatched types expected `u8` (rustc)\n\
             2 warning: unused\n1 note: n"
        );
    }

    #[test]
    fn list_is_bounded_in_lines_and_bytes() {
        let many = (0..1000).map(|line| found(line, Severity::Error, &"x".repeat(10_000))).collect();
        let list = listed(many);
        assert_eq!(list.lines().count(), DIAGNOSTICS + 2);
        assert!(list.len() < (DIAGNOSTICS + 2) * (DIAGNOSTIC_BYTES + 10), "{}", list.len());
        assert!(list.ends_with("\n[… 980 more]"), "{list}");
    }
}
