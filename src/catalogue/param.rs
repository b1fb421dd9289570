//! The params of an op: their keys, and the shapes of their values. Does not know which op has which.

use std::fmt;

/// The shape of a param's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A string, possibly empty.
    Text,
    /// A string that is not blank.
    Filled,
    /// An integer, zero or more.
    Count,
    /// `true` or `false`.
    Flag,
    /// A map.
    Map,
    /// Any value.
    Any,
    /// A string, a boolean or nil.
    DialogResult,
    /// A list or vector of strings.
    Texts,
    /// A list or vector of maps.
    Maps,
    /// A string or a keyword.
    Name,
    /// A thinking level: its name as a string or keyword, or its place in the list, 0 to 5.
    Level,
    /// One of these strings.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a string"),
            Self::Filled => f.write_str("a string that is not blank"),
            Self::Count => f.write_str("an integer of 0 or more"),
            Self::Flag => f.write_str("true or false"),
            Self::Map => f.write_str("a map"),
            Self::Any => f.write_str("any value"),
            Self::DialogResult => f.write_str("a string, true, false or nil"),
            Self::Texts => f.write_str("a vector of strings"),
            Self::Maps => f.write_str("a vector of maps"),
            Self::Name => f.write_str("a string that is not blank, or a keyword"),
            Self::Level => f.write_str("off, minimal, low, medium, high, xhigh or an integer from 0 to 5"),
            Self::OneOf(names) => {
                f.write_str("one of ")?;
                for (place, name) in names.iter().enumerate() {
                    if place > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{name:?}")?;
                }
                Ok(())
            }
        }
    }
}

/// One key of an op's params.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The key, without its colon.
    pub key: &'static str,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether it is required.
    pub required: bool,
}
