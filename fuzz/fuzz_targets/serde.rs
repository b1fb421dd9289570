//! Any value goes through serde's data model and comes back as it was; any type rejects without a panic.
#![no_main]

use edn_bridge::edn;
use edn_bridge::value::Owned;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(value) = edn::read_one(input) else { return };
    let written = edn::to_value(&value).expect("a value is data");
    assert_eq!(written, value);
    let read: Owned = edn::from_value(value.clone()).expect("a value is any value");
    assert_eq!(read, value);
    assert_eq!(edn::to_string(&read), edn::to_string(&value));
    let _ = edn::from_value::<std::collections::BTreeMap<String, Option<Vec<(i8, f64)>>>>(value.clone());
    let _ = edn::from_value::<(u64, char, Result<String, bool>)>(value);
});
