//! EDN, the data notation of Clojure: bytes into [`Value`]s or Rust types, and back.
//!
//! ```
//! use edn_codec::{Value, read_one};
//!
//! let value = read_one(br#"{:name "edn" :tags #{:data :text} :since #inst "2012-09-06"}"#)?;
//! assert_eq!(value.get("name").and_then(Value::as_str), Some("edn"));
//! assert_eq!(value.to_string(), r#"{:name "edn" :tags #{:data :text} :since #inst "2012-09-06T00:00:00Z"}"#);
//! # Ok::<(), edn_codec::Error>(())
//! ```
//!
//! | to do | use |
//! |---|---|
//! | read what is in memory | [`read_one`], [`read_all`], [`Reader`] form by form |
//! | read what arrives in pieces | [`Stream`] |
//! | read into a Rust type | [`from_slice`], [`from_value`] |
//! | write on one line | [`write_compact`], [`to_string`], `Display` of [`Value`] |
//! | write for people | [`write_pretty`] |
//! | write one spelling for all equal values, for digests | [`write_canonical`] |
//! | write for readers that know less than EDN | [`write_wire`] |
//! | write a Rust type | [`to_vec`], [`to_value`] |
//! | build and inspect values | [`value`] |
//!
//! # What is EDN
//!
//! Clojure's own reader, `clojure.edn`, decides: the tests give both the same texts and compare what they accept
//! and the values. It leaves some points open or to Java. This package decides them:
//!
//! - Metadata is checked and then left out: it is not part of a value.
//! - Half of a surrogate pair in a string is rejected, because a Rust string holds characters only.
//! - Points in time count days by the Gregorian calendar in every year.
//! - Depth, length, digits, elements and values are bounded (see below).
//!
//! Tags other than `#inst` and `#uuid` are kept as [`Value::Tagged`].
//!
//! # Errors
//!
//! An [`Error`] has a stable code, the line, the column, the offset in bytes, and what was expected there:
//!
//! ```
//! let error = edn_codec::read_one(b"{:a 1\n :b [2 3}").unwrap_err();
//! assert_eq!((error.line(), error.column(), error.offset()), (2, 9, 14));
//! assert_eq!(error.to_string(), "2:9 unmatched-delimiter: expected `]` or a form");
//! ```
//!
//! # Bounds
//!
//! Every read is bounded, so that an input cannot take more stack, memory or time than its length and the bounds
//! allow. The numbers of [`limits`] hold unless the caller gives [`Options`]. The time to read grows linearly with
//! the input.
//!
//! # No panic, no unsafe code
//!
//! No input makes this package panic: lints refuse `unwrap`, indexing and narrowing casts, and fuzzers look for the
//! rest. It has no `unsafe` code of its own.
//!
//! # Features
//!
//! - `serde` (on by default): Rust types from EDN and into it, and `Serialize` and `Deserialize` for [`Value`].
//! - `edn-rs`: conversion from and to `edn_rs::Edn`, the type of the crate `edn-rs`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Without its features the crate's page still names what they add.
#![cfg_attr(not(feature = "serde"), allow(rustdoc::broken_intra_doc_links, reason = "see above"))]

pub use bigdecimal;
pub use uuid;

#[cfg(feature = "serde")]
pub use self::serde::{SerdeError, borrowed, from_slice, from_value, to_value, to_vec};
pub use error::{Error, ErrorKind};
#[cfg(feature = "edn-rs")]
pub use interop::InteropError;
pub use read::{Options, Reader, read_all, read_one, read_one_with};
pub use stream::Stream;
pub use value::Value;
pub use write::{to_string, write_canonical, write_compact, write_pretty, write_wire};

mod error;
#[cfg(feature = "edn-rs")]
mod interop;
pub mod limits;
mod read;
#[cfg(feature = "serde")]
mod serde;
mod stream;
pub mod value;
mod write;

/// The examples of the README are tests as well.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn forms_read_and_write() {
        for text in [
            "nil",
            "{:a 1 :b [true nil \"x\\ny\"]}",
            "#{1 2}",
            "(a/b \\c 1.5 22/7 1N)",
            "#foo/bar {}",
            "#uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"",
            "##NaN",
            "\"\\u0001é\"",
            "#:/{:01b 1}",
            "{://b 1}",
        ] {
            let value = read_one(text.as_bytes()).unwrap();
            let written = to_string(&value);
            assert_eq!(written, text);
            assert_eq!(read_one(written.as_bytes()).unwrap(), value);
        }
        let value = read_one(b"#inst \"2020-01-01T00:00:00.000-00:00\"").unwrap();
        assert_eq!(read_one(to_string(&value).as_bytes()).unwrap(), value);
        let value = read_one(b"#:a{:b 1 :_/c 2 \"\\101\" #_ x 3}").unwrap();
        assert_eq!(to_string(&value), "{:a/b 1 :c 2 \"A\" 3}");
        for (text, code) in [
            ("", "empty"),
            ("1 2", "extra-form"),
            ("[", "unexpected-end"),
            ("{:a}", "odd-map"),
            ("#{1 1}", "duplicate-element"),
            ("{:a 1 :a 2}", "duplicate-key"),
            ("08", "invalid-number"),
            (")", "unmatched-delimiter"),
            ("::a", "invalid-token"),
        ] {
            assert_eq!(read_one(text.as_bytes()).unwrap_err().code(), code, "{text}");
        }
    }
}
