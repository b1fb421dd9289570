//! Every file of `grammar/corpus` is read as its neighbour says: a value in `accept`, an error in `reject`.
//!
//! `accept/name.edn` goes with `accept/name.value`, the compact spelling of each form on a line;
//! `reject/name.edn` with `reject/name.error`: code, line, column, offset and what was expected.
//! `EDN_BLESS=1` writes what the codec does, to be reviewed like code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use edn_bridge::edn::{self, ErrorKind, Stream, cli};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("grammar/corpus").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "edn"));
    files.sort();
    assert!(files.len() > 20, "a corpus");
    files
}

fn check(path: &Path, extension: &str, actual: &str) {
    let expected = path.with_extension(extension);
    if std::env::var_os("EDN_BLESS").is_some() {
        fs::write(&expected, actual).unwrap();
    }
    let expected =
        fs::read_to_string(&expected).unwrap_or_else(|_| panic!("{} is missing", expected.display()));
    assert_eq!(actual, expected, "{}", path.display());
}

#[test]
fn accepted_files_have_the_values_beside_them() {
    for path in files("accept") {
        let input = fs::read(&path).unwrap();
        let forms = edn::read_all(&input).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines: String = forms.iter().map(|form| format!("{form}\n")).collect();
        check(&path, "value", &lines);
        // What is written reads back equal, in every spelling.
        for form in &forms {
            for width in [0, 20, 80] {
                let mut out = Vec::new();
                edn::write_pretty(form, width, &mut out);
                assert_eq!(&edn::read_one(&out).unwrap(), form, "{}", String::from_utf8_lossy(&out));
            }
            let mut out = Vec::new();
            edn::write_canonical(form, &mut out);
            assert_eq!(&edn::read_one(&out).unwrap(), form, "{}", String::from_utf8_lossy(&out));
        }
    }
}

#[test]
fn rejected_files_have_the_errors_beside_them() {
    let mut seen = BTreeSet::new();
    for path in files("reject") {
        let input = fs::read(&path).unwrap();
        let error = edn::read_all(&input).expect_err(&path.display().to_string());
        seen.insert(error.code());
        let line = format!(
            "{} line {} column {} offset {} expected {}\n",
            error.code(),
            error.line(),
            error.column(),
            error.offset(),
            error.expected()
        );
        check(&path, "error", &line);
    }
    // One form is asked for elsewhere.
    seen.extend([ErrorKind::Empty.code(), ErrorKind::ExtraForm.code()]);
    let all: BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(seen, all, "a file for every code");
}

#[test]
fn one_form_is_one_form() {
    fn read(text: &str, options: edn::Options) -> Result<String, (&'static str, usize)> {
        let value = edn::read_one_with(text.as_bytes(), options);
        value.map(|value| value.to_string()).map_err(|error| (error.code(), error.offset()))
    }
    let code = |text: &str| read(text, edn::Options::default());
    assert!(code(" 1 ; one\n").is_ok());
    assert_eq!(code(" ; none").unwrap_err(), ("empty", 7));
    assert_eq!(code("1 ,2").unwrap_err(), ("extra-form", 3));
    assert_eq!(code("1 ]").unwrap_err(), ("unmatched-delimiter", 2));
    let small = edn::Options { max_bytes: 4, max_elements: 1, ..edn::Options::default() };
    let bounded = |text: &str| read(text, small);
    assert_eq!(bounded("[1 2]").unwrap_err(), ("too-large", 4));
    assert_eq!(bounded("[11]"), Ok("[11]".into()));
    assert_eq!(bounded("[1 2").unwrap_err().0, "unexpected-end");
    assert_eq!(bounded("[ []").unwrap_err().0, "unexpected-end");
    assert_eq!(bounded("[1,").unwrap_err().0, "unexpected-end");
}

#[test]
fn pieces_give_what_the_whole_gives() {
    for path in files("accept").into_iter().chain(files("reject")) {
        let input = fs::read(&path).unwrap();
        let mut whole = Vec::new();
        let mut rejected = None;
        for form in edn::Reader::new(&input) {
            match form {
                Ok(form) => whole.push(form.into_owned()),
                Err(error) => rejected = Some(error),
            }
        }
        for size in [1, 2, 3, 7, 64, input.len() + 1] {
            let mut stream = Stream::new();
            let mut forms = Vec::new();
            let mut failed = None;
            'pieces: for piece in input.chunks(size).map(Some).chain([None]) {
                if let Some(piece) = piece {
                    stream.push(piece);
                }
                loop {
                    match if piece.is_some() { stream.next_form() } else { stream.finish() } {
                        Ok(Some(form)) => forms.push(form),
                        Ok(None) => break,
                        Err(error) => {
                            failed = Some(error);
                            break 'pieces;
                        }
                    }
                }
            }
            assert_eq!((forms, failed), (whole.clone(), rejected.clone()), "{} by {size}", path.display());
        }
    }
}

#[test]
fn a_stream_holds_one_form() {
    let mut stream = Stream::with(edn::Options { max_bytes: 100, ..edn::Options::default() });
    for at in 0..10_000_i64 {
        stream.push(format!("[{at}]; {}\n", "-".repeat(200)).as_bytes());
        assert_eq!(stream.next_form().unwrap().map(|form| form.to_string()), Some(format!("[{at}]")));
        assert_eq!(stream.next_form(), Ok(None));
    }
    stream.push(b"[\"");
    let error = loop {
        stream.push(&[b'a'; 30]);
        if let Err(error) = stream.next_form() {
            break error;
        }
    };
    assert_eq!((error.code(), error.line(), error.column()), ("too-large", 10_001, 1));
    assert!(stream.next_form().is_err(), "a rejection stays");
}

#[test]
fn the_command_prints_canonical_forms_and_points_at_what_is_wrong() {
    let run = |input: &str| {
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let outcome = cli::canonical_forms(input.as_bytes(), &mut out, &mut errors).unwrap();
        (outcome.exit_status(), String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
    };
    let good = run("{:b 1 :a (1 2)} ; note\n#{3 1N} 1.50M");
    assert_eq!(good, (0, "{:a [1 2] :b 1}\n#{1 3}\n1.5M\n".into(), String::new()));
    let bad = run(":fine\n{:a 1\n  :b \"x\\q\"}\n:more");
    assert_eq!(bad.0, 65);
    assert_eq!(bad.1, ":fine\n");
    assert_eq!(
        bad.2,
        "3:8 invalid-escape: expected an escape: \\t \\r \\n \\b \\f \\\\ \\\" \\uXXXX or \\NNN\n  :b \"x\\q\"}\n       ^\n"
    );
    assert_eq!(run("").0, 0);
}

#[test]
fn the_wire_spelling_is_what_a_lisp_reader_takes() {
    let check = |text: &str, expected: &str| {
        let mut out = Vec::new();
        edn::write_wire(&edn::read_one(text.as_bytes()).unwrap(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
    };
    check("\"a\nb\\u0001\"", r#""a\nb\u0001""#);
    check("#inst \"2020-01-01T00:00:00.5+01:00\"", "\"2019-12-31T23:00:00.500Z\"");
    check("#uuid \"1-2-3-4-5\"", "\"00000001-0002-0003-0004-000000000005\"");
    check("#foo/bar [#baz 1]", "[1]");
    check("[1/3 \\a \\newline 7N 1.5M 1E10M]", r#"["1/3" "a" "\n" 7 1.5 1E10]"#);
    check("[##Inf ##-Inf ##NaN 1e300]", "[nil nil nil 1e+300]");
    check("#:a{:b 1 :c/d #{2}}", "{:a/b 1 :c/d #{2}}");
}

#[test]
fn equal_values_have_one_canonical_spelling() {
    let spell = |text: &str| {
        let mut out = Vec::new();
        edn::write_canonical(&edn::read_one(text.as_bytes()).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    };
    for (one, other) in [
        ("[1 2]", "(1 2N)"),
        ("{:a 1 :b #{3 2}}", "{:b #{2 3} :a 1}"),
        ("[0.0 1.0M 100M]", "[-0.0 1.00M 1E2M]"),
        ("#inst \"2020\"", "#inst \"2020-01-01T01:00:00.0009+01:00\""),
        ("2/4", "1/2"),
    ] {
        assert_eq!(spell(one), spell(other));
    }
}
