//! Any bytes: read or rejected, never a panic, and a rejection points into the input.
#![no_main]

use edn_bridge::edn;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut reader = edn::Reader::new(input);
    for form in &mut reader {
        if let Err(error) = form {
            assert!(error.offset() <= input.len());
            assert!(error.line() >= 1 && error.column() >= 1);
            assert!(!error.expected().is_empty());
        }
    }
    assert!(reader.offset() <= input.len());
    let _ = edn::read_one(input);
});
