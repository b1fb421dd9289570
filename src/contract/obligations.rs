//! The table that binds the obligations of the specs to checks, in EDN.
//!
//! `allium plan` derives the obligations with stable ids. The table binds each to a check or rule of this
//! runner or, after `test:`, to a test of the repository. A test compares the table with the specs and with
//! the checks.

use edn_codec::{self as edn, Value};

/// The table: `{check [obligation …]}`. An obligation is `file/id`; a waived one is `{:waived file/id :reason
/// "…"}`.
pub const TABLE: &str = include_str!("obligations.edn");

/// An obligation and its check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// `file/id`, from `allium plan spec/FILE.allium`.
    pub obligation: String,
    /// The check or rule, or `test:` and a test of the repository.
    pub check: String,
    /// Why it has no check, if it has none.
    pub waived: Option<String>,
}

/// An error in the table.
#[derive(Debug, thiserror::Error)]
pub enum BindingsError {
    /// It is not EDN.
    #[error("the table of obligations is not EDN: {0}")]
    Unreadable(#[from] edn::Error),
    /// It has the wrong shape.
    #[error("the table of obligations has an entry that is none: {0}")]
    Entry(String),
}

/// Reads the table.
///
/// # Errors
/// If it cannot be read. A test rules that out for the built-in table.
pub fn bindings() -> Result<Vec<Binding>, BindingsError> {
    read(TABLE)
}

fn read(table: &str) -> Result<Vec<Binding>, BindingsError> {
    let table = edn::read_one(table.as_bytes())?;
    let misplaced = |value: &Value<'_>| BindingsError::Entry(edn::to_string(value));
    let map = table.as_map().ok_or_else(|| misplaced(&table))?;
    let mut bindings = Vec::new();
    for (check, obligations) in map.iter() {
        let check = check.as_str().ok_or_else(|| misplaced(check))?;
        for entry in obligations.as_slice().ok_or_else(|| misplaced(obligations))? {
            let text = |key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            let (obligation, waived) = match (entry.as_str(), text("waived"), text("reason")) {
                (Some(id), _, _) => (id.to_owned(), None),
                (None, Some(id), Some(reason)) => (id, Some(reason)),
                _ => return Err(misplaced(entry)),
            };
            bindings.push(Binding { obligation, check: check.to_owned(), waived });
        }
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bound_or_waived_with_a_reason() {
        let table = "{\"a.check\" [\"file/one\" {:waived \"file/two\" :reason \"because\"}]}";
        let found = read(table).unwrap();
        let bound: Vec<_> = found.iter().map(|b| (b.obligation.as_str(), b.waived.as_deref())).collect();
        assert_eq!(bound, [("file/one", None), ("file/two", Some("because"))]);
        for wrong in ["[]", "{a [\"x\"]}", "{\"a\" [{:waived \"x\"}]}", "{\"a\" \"x\"}", "{"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_is_readable() {
        assert!(bindings().is_ok());
    }
}
