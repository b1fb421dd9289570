//! Commands that show what is in files that are no text, by their first bytes or the end of their name.

use std::path::Path;

/// A kind of file: how it begins, how its name ends, and the command, with `FILE` for the path.
struct Kind {
    start: &'static [u8],
    endings: &'static [&'static str],
    command: &'static str,
}

const KINDS: &[Kind] = &[
    Kind { start: b"%PDF", endings: &["pdf"], command: "pdftotext FILE -" },
    Kind {
        start: b"SQLite format 3\0",
        endings: &["sqlite", "sqlite3", "db"],
        command: "sqlite3 FILE .schema",
    },
    Kind { start: b"\x7fELF", endings: &["so", "o"], command: "objdump -p FILE" },
    Kind {
        start: b"\x1f\x8b",
        endings: &["gz", "tgz"],
        command: "gzip -dc FILE (an archive: tar -tzf FILE)",
    },
    Kind { start: b"\xfd7zXZ", endings: &["xz", "txz"], command: "xz -dc FILE (an archive: tar -tJf FILE)" },
    Kind { start: b"(\xb5/\xfd", endings: &["zst"], command: "zstd -dc FILE" },
    Kind { start: b"BZh", endings: &["bz2"], command: "bzip2 -dc FILE" },
    Kind { start: b"7z\xbc\xaf", endings: &["7z"], command: "7z l FILE" },
    Kind {
        start: b"PK\x03\x04",
        endings: &["zip", "jar", "whl", "docx", "xlsx", "pptx", "odt", "apk"],
        command: "unzip -l FILE",
    },
    Kind { start: b"\xca\xfe\xba\xbe", endings: &["class"], command: "javap -c FILE" },
    Kind { start: b"\0asm", endings: &["wasm"], command: "wasm-objdump -x FILE" },
    Kind { start: b"!<arch>", endings: &["a"], command: "ar t FILE" },
    Kind { start: b"\x89HDF", endings: &["h5", "hdf5"], command: "h5dump -H FILE" },
    Kind { start: b"\0", endings: &["tar"], command: "tar -tf FILE" },
    Kind {
        start: b"ID3",
        endings: &["mp3", "mp4", "wav", "mov", "mkv", "ogg", "flac"],
        command: "ffprobe FILE",
    },
    Kind {
        start: b"II*\0",
        endings: &["tif", "tiff", "bmp", "ico", "heic", "avif"],
        command: "identify FILE",
    },
];

/// The advice for a file that is no text, as the end of a sentence.
pub(super) fn of(path: &Path, start: &[u8]) -> String {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    let by_start = KINDS.iter().find(|kind| kind.start.len() > 1 && start.starts_with(kind.start));
    match by_start.or_else(|| KINDS.iter().find(|kind| kind.endings.contains(&ending.as_str()))) {
        Some(kind) => format!("look at it with {}", kind.command),
        None => "look at it with a command that knows its format, or with xxd FILE".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_goes_by_the_start_before_the_name() {
        for (name, start, expected) in [
            ("a.pdf", &b"%PDF-1.7"[..], "pdftotext"),
            ("a.txt", b"SQLite format 3\0x", "sqlite3"),
            ("a.JAR", b"PK\x03\x04", "unzip -l"),
            ("a.tar", b"name\0\0", "tar -tf"),
            ("a", b"\0\x01", "xxd"),
        ] {
            assert!(of(Path::new(name), start).contains(expected), "{name}");
        }
    }
}
