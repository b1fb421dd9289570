//! Rust types into values and back, by their `serde` derives.
//!
//! How each kind of type is spelled stands at [`from_slice`]. Knows serde's data model; knows no text but that of
//! names.

use serde::{Deserialize, Serialize};

use super::{read_one, write_compact};
use crate::value::Value;

pub use error::SerdeError;
pub use exact::borrowed;

mod de;
mod error;
mod exact;
mod names;
mod ser;
mod text;

/// `data` as a value.
///
/// # Errors
/// What a `Serialize` of one's own fails with.
pub fn to_value<T: Serialize + ?Sized>(data: &T) -> Result<Value<'static>, SerdeError> {
    data.serialize(ser::Serializer)
}

/// `data` as compact EDN.
///
/// # Errors
/// As [`to_value`].
pub fn to_vec<T: Serialize + ?Sized>(data: &T) -> Result<Vec<u8>, SerdeError> {
    let mut out = Vec::new();
    write_compact(&to_value(data)?, &mut out);
    Ok(out)
}

/// The data that `value` holds. Text that `value` borrows is borrowed by it.
///
/// # Errors
/// A value that does not fit, with the path of keys to it.
pub fn from_value<'de, T: Deserialize<'de>>(value: Value<'de>) -> Result<T, SerdeError> {
    T::deserialize(de::Deserializer(value))
}

/// The data in the one form that `input` holds. Text without an escape is borrowed by it.
///
/// An input that does not fit is read twice: the second time says what is wrong.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Job<'a> {
///     job_id: u32,
///     state: State,
///     note: Option<&'a str>,
/// }
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// enum State {
///     InQueue,
///     Failed { exit_code: i32 },
/// }
///
/// let job: Job<'_> = edn_codec::from_slice(br#"{:job-id 7 :state {:failed {:exit-code 2}} :note nil}"#)?;
/// assert_eq!(job, Job { job_id: 7, state: State::Failed { exit_code: 2 }, note: None });
/// assert_eq!(edn_codec::to_vec(&State::InQueue)?, b":in-queue");
///
/// let error = edn_codec::from_slice::<Job<'_>>(b"{:job-id 7 :state {:failed {:exit-code :x}}}").unwrap_err();
/// assert_eq!(error.path(), ":state :failed :exit-code");
/// # Ok::<(), edn_codec::SerdeError>(())
/// ```
///
/// | Rust | EDN |
/// |---|---|
/// | a struct | a map with keyword keys; `_` in a field's name is written as `-` |
/// | a variant without content | a keyword in kebab case: `ReadOnly` is `:read-only` |
/// | a variant with content | a map of that keyword and the content |
/// | `None`, `()` | `nil` |
/// | a map | a map with any keys; keywords are read as text where the type asks for text |
/// | sequences, tuples, bytes | a vector; lists and sets are read as well |
/// | integers of any width | an integer |
/// | a newtype named with a number sign, `#[serde(rename = "#geo/point")]` | the element with that tag |
/// | [`Value`] | itself |
///
/// # Errors
/// An input that is no EDN, or a value that does not fit, with the path of keys to it.
pub fn from_slice<'de, T: Deserialize<'de>>(input: &'de [u8]) -> Result<T, SerdeError> {
    match text::read(input) {
        Some(data) => Ok(data),
        None => from_value(read_one(input)?),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Mode {
        ReadOnly,
        Limit(u8),
        Rule { tool_name: String },
        Pair(i8, i8),
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename = "#geo/point")]
    struct Point((f64, f64));

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct All {
        session_id: String,
        mode: Vec<Mode>,
        maybe: Option<u32>,
        nothing: Option<u32>,
        big: u128,
        small: i128,
        by_number: BTreeMap<i64, char>,
        by_pair: BTreeMap<(u8, bool), ()>,
        at: Point,
        #[serde(with = "serde_bytes_like")]
        bytes: Vec<u8>,
        any: Value<'static>,
    }

    mod serde_bytes_like {
        pub(super) fn serialize<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
            to.serialize_bytes(bytes)
        }
        pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
            serde::Deserialize::deserialize(from)
        }
    }

    /// The data, written, read and given back by serde.
    fn there_and_back<T: Serialize + DeserializeOwned>(data: &T) -> T {
        let text = to_vec(data).unwrap();
        T::deserialize(de::Deserializer(read_one(&text).unwrap().into_owned())).unwrap()
    }

    #[test]
    fn what_a_type_holds_comes_back() {
        let any = "[nil :k/w sym \\c (1 2) #{1} {1 [2.5]} 1N 1.50M 1/2 #inst \"2020-01-01T00:00:00Z\" #uuid \"1-2-3-4-5\" #a/b :c]";
        let all = All {
            session_id: "s".into(),
            mode: vec![
                Mode::ReadOnly,
                Mode::Limit(3),
                Mode::Rule { tool_name: "t".into() },
                Mode::Pair(1, -1),
            ],
            maybe: Some(1),
            nothing: None,
            big: u128::MAX,
            small: i128::MIN,
            by_number: [(1, 'a'), (-2, 'b')].into(),
            by_pair: [((1, true), ())].into(),
            at: Point((1.0, -2.5)),
            bytes: vec![0, 255],
            any: read_one(any.as_bytes()).unwrap().into_owned(),
        };
        assert_eq!(there_and_back(&all), all);
        let text = String::from_utf8(to_vec(&all).unwrap()).unwrap();
        assert!(text.starts_with("{:session-id \"s\" :mode [:read-only {:limit 3} {:rule {:tool-name \"t\"}} {:pair [1 -1]}] :maybe 1 :nothing nil"), "{text}");
        assert!(text.contains(":at #geo/point [1.0 -2.5] :bytes [0 255]"), "{text}");
        let Value::Vector(written) = to_value(&all.any).unwrap() else { panic!("not a vector") };
        let Value::Vector(given) = &all.any else { panic!("not a vector") };
        for (written, given) in written.iter().zip(given) {
            assert_eq!((written.kind_name(), written), (given.kind_name(), given));
        }
    }

    #[test]
    fn text_without_an_escape_is_borrowed() {
        #[derive(Deserialize)]
        struct Borrowing<'a> {
            plain: &'a str,
        }
        let read: Borrowing<'_> = from_slice(b"{:plain \"text\"}").unwrap();
        assert_eq!(read.plain, "text");
        assert!(from_slice::<Borrowing<'_>>(b"{:plain \"te\\nxt\"}").is_err());
    }

    #[test]
    fn an_error_names_the_path_to_the_value() {
        let check = |text: &str, path: &str, message: &str| {
            let error = from_slice::<All>(text.as_bytes()).unwrap_err();
            assert_eq!(error.path(), path, "{error}");
            assert!(error.to_string().contains(message), "{error}");
        };
        check("{:session-id 1}", ":session-id", "invalid type: integer `1`, expected a string");
        check("{:mode [:read-only {:limit :x}]}", ":mode 1 :limit", "expected u8");
        check("{:mode [{:rule {:tool-name nil}}]}", ":mode 0 :rule :tool-name", "expected a string");
        check("{:mode [:other]}", ":mode 0", "unknown variant `other`");
        check("{:at [1 2]}", ":at", "expected an element with the tag #geo/point");
        check("{}", "", "missing field `session_id`");
        check("[1", "", "1:3 unexpected-end");
    }
}
