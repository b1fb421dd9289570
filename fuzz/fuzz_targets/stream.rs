//! Bytes in pieces, cut anywhere, give what the whole gives.
#![no_main]

use edn_bridge::edn::{self, Stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((size, input)) = input.split_first() else { return };
    let mut whole = Vec::new();
    let mut rejected = None;
    for form in edn::Reader::new(input) {
        match form {
            Ok(form) => whole.push(form.into_owned()),
            Err(error) => rejected = Some(error),
        }
    }
    let mut stream = Stream::new();
    let mut pieces = Vec::new();
    let mut failed = None;
    'pieces: for piece in input.chunks(usize::from(size % 16) + 1).map(Some).chain([None]) {
        if let Some(piece) = piece {
            stream.push(piece);
        }
        loop {
            match if piece.is_some() { stream.next_form() } else { stream.finish() } {
                Ok(Some(form)) => pieces.push(form),
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break 'pieces;
                }
            }
        }
    }
    assert_eq!(pieces, whole);
    // Bytes that are not UTF-8 are found where the piece is read, which may be before or after another fault.
    if std::str::from_utf8(input).is_ok() {
        assert_eq!(failed, rejected);
    } else {
        assert_eq!(failed.is_some(), rejected.is_some());
    }
});
