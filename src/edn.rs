//! The codec: bytes into [`Value`]s and back. Pure; it knows no frame, no stream and no session.
//!
//! The oracle for what is EDN is Clojure's own `clojure.edn` reader; the grammar stands in
//! `grammar/edn.ebnf`. What the oracle leaves to its host is decided here:
//!
//! - Metadata is checked and then left out: it is no part of a value.
//! - Half of a surrogate pair in a string is rejected: Rust's strings hold characters only.
//! - Points in time count days by the Gregorian calendar in every year.
//! - Depth, length, digits, elements and values are bounded ([`Options`]).
//!
//! Ways in: [`read_one`] and [`read_all`] for what is in memory, [`Reader`] form by form, [`Stream`] for what
//! arrives in pieces, [`from_slice`] for types of one's own, which are read without a [`Value`] in between. Ways
//! out: [`write_compact`], [`write_pretty`] for people, [`write_canonical`] for digests, [`write_wire`] for what
//! the wire contract allows, and [`to_vec`] for types of one's own. There is no `unsafe` code here.

pub use error::{Error, ErrorKind};
pub use interop::InteropError;
pub use read::{Options, Reader, read_all, read_one, read_one_with};
pub use serde::{SerdeError, borrowed, from_slice, from_value, to_value, to_vec};
pub use stream::Stream;
pub use write::{to_string, write_canonical, write_compact, write_pretty, write_wire};

#[cfg(doc)]
use crate::value::Value;

pub mod cli;
mod error;
mod interop;
mod read;
mod serde;
mod stream;
mod write;

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
