//! Any text of a message: its references are found without a panic, few are looked up, and a text that refers to
//! nothing attaches nothing.
#![no_main]

use std::cell::Cell;
use std::path::Path;

use edn_bridge::context::reference::{Reader, attach, failures, may_refer, shown};
use edn_bridge::limits::{REFERENCE_BYTES, REFERENCE_LOOKUPS, REFERENCES};
use edn_bridge::tool::walk::DeniedPaths;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((times, text)) = input.split_first() else { return };
    // Often the same again, as a hostile text has it.
    let text = String::from_utf8_lossy(text).repeat(usize::from(*times / 8) + 1);
    let asked = Cell::new(0usize);
    let may_read = |_: &Path| {
        asked.set(asked.get() + 1);
        Err("not here".to_owned())
    };
    let reader = Reader { may_read: &may_read, barred: &DeniedPaths::default(), is_stopped: &|| false, is_elsewhere: &|_| false };
    let attached = attach(Path::new("/"), &text, usize::MAX, &reader);
    assert!(may_refer(&text) || attached.is_empty());
    assert!(asked.get() <= REFERENCE_LOOKUPS && attached.len() <= REFERENCES + 1);
    for attachment in &attached {
        assert!(attachment.failed && attachment.name.len() <= REFERENCE_BYTES);
        assert!(text.contains(&attachment.name));
    }
    assert_eq!(failures(&attached).len(), attached.len());
    let _ = shown(&attached);
});
