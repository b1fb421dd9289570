//! Any glob is used or refused, for paths, for a searching tool and as a line of an ignore file: never a panic or an
//! overflow of the stack. An escaped path matches itself, and who may not see what is in a folder may not list it.
#![no_main]

use std::path::Path;

use edn_bridge::limits::{GLOB_BYTES, GLOB_GROUPS};
use edn_bridge::meter::Meter;
use edn_bridge::glob::{FileGlob, PathGlob, PathGlobs, escape, ignored};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (glob, path) = text.split_once('\n').unwrap_or((&text, "src/a.rs"));
    let workspace = Path::new("/w");
    let read = PathGlob::new(glob);
    if glob.len() > GLOB_BYTES || glob.matches('{').count() > GLOB_GROUPS {
        assert!(read.is_err() && FileGlob::new(workspace, glob).is_err());
    }
    if let (Ok(read), Ok(all)) = (read, PathGlob::new(&format!("{glob}/**"))) {
        assert!(!read.is_match(Path::new(path)) || glob.is_empty() || all.is_match(Path::new(path)));
    }
    if let Ok(alone) = PathGlob::new(glob) {
        let mut meter = Meter::new(usize::MAX, usize::MAX);
        let together = PathGlobs::compiled(vec!["other/**".to_owned(), glob.to_owned()]);
        let matches = together.matches(Path::new(path), &mut meter).unwrap();
        assert_eq!(matches.contains(&1), alone.is_match(Path::new(path)), "{glob:?} {path:?}");
        assert_eq!(together.is_match(Path::new(path), &mut meter), Ok(!matches.is_empty()));
        assert!(meter.steps() <= 4 * (path.len() + 1), "{}", meter.steps());
    }
    if let Ok(escaped) = PathGlob::new(&escape(path)) {
        assert!(escaped.is_match(Path::new(path)), "{path:?}");
    }
    if let Ok(file_glob) = FileGlob::new(workspace, glob) {
        let _ = file_glob.is_match(Path::new(path));
        let _ = file_glob.means_hidden(Path::new(path));
    }
    let _ = ignored(workspace, &text).matched(workspace.join(path), true);
});
