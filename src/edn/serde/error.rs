//! Why data and a value do not fit each other, and where.

use std::fmt;

use crate::Error;

/// Why data and a value do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SerdeError {
    /// The text is no EDN.
    #[error(transparent)]
    Read(#[from] Error),
    /// The value is not what the type asks for.
    #[error("{}{message}", Path(path))]
    Data {
        /// The keys and positions that lead to the value, the innermost first.
        path: Vec<String>,
        /// What is wrong there.
        message: String,
    },
}

impl SerdeError {
    /// The keys and positions that lead to the value, as EDN, the outermost first: `:data :items 3`.
    pub fn path(&self) -> String {
        match self {
            SerdeError::Read(_) => String::new(),
            SerdeError::Data { path, .. } => {
                path.iter().rev().map(String::as_str).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The same error, seen from what holds the value at `key`.
    pub(super) fn below(mut self, key: impl FnOnce() -> String) -> Self {
        if let SerdeError::Data { path, .. } = &mut self {
            path.push(key());
        }
        self
    }
}

struct Path<'a>(&'a [String]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "at ";
        for segment in self.0.iter().rev() {
            write!(f, "{before}{segment}")?;
            before = " ";
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(": ") }
    }
}

impl serde::de::Error for SerdeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        SerdeError::Data { path: Vec::new(), message: message.to_string() }
    }
}

impl serde::ser::Error for SerdeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        serde::de::Error::custom(message)
    }
}
