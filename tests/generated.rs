//! What is generated from the catalogue is what stands in the repository.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use edn_bridge::catalogue;

#[test]
fn generated_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, expected) in [
        ("spec/reference.md", catalogue::reference_page()),
        ("emacs/edn-bridge-constants.el", catalogue::emacs_constants()),
    ] {
        let found = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        assert!(found == expected, "{path} is not what the catalogue says; run `make generate`");
    }
}
