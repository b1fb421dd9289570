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

use edn_codec::{self as edn, ErrorKind, Stream};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grammar/corpus").join(folder);
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
    // These need an input of one form, or of megabytes: see below.
    seen.extend([ErrorKind::Empty, ErrorKind::ExtraForm, ErrorKind::TooManyValues].map(ErrorKind::code));
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
fn a_short_number_is_read_as_a_long_one_is() {
    let read = |text: &str, max_digits| {
        let options = edn::Options { max_digits, ..edn::Options::default() };
        edn::read_one_with(text.as_bytes(), options)
            .map(edn_codec::value::Value::into_owned)
            .map_err(|error| error.code())
    };
    let whole =
        ["0", "00", "07", "1", "12", "999999999999999999", "1000000000000000000", "123456789012345678"];
    for (whole, fraction) in whole.iter().flat_map(|whole| {
        ["", ".", ".0", ".5", ".50", ".000000000000000001", ".12345678901234567"]
            .map(|fraction| (whole, fraction))
    }) {
        for sign in ["", "-", "+"] {
            for suffix in ["N", "M", "N1", "M1", "NM", "x", "N#", "M\"", "e1M", "e2N"] {
                let text = format!("{sign}{whole}{fraction}{suffix}");
                // Where fewer digits may be taken than the short way needs, it is the long way that reads.
                let (short, long) = (read(&text, 8_000), read(&text, 17));
                if long.as_ref().is_err_and(|code| *code == "too-large") {
                    continue;
                }
                assert_eq!(short, long, "{text}");
                if let (Ok(short), Ok(long)) = (short, long) {
                    assert_eq!(format!("{short:?}"), format!("{long:?}"), "{text}");
                }
            }
        }
    }
}

#[test]
fn the_values_of_a_form_are_counted_whatever_they_stand_in() {
    let read = |text: &str, max_values| {
        let options = edn::Options { max_values, ..edn::Options::default() };
        // What is short is not counted, so that it is made longer than it has to be.
        edn::read_one_with(format!("{text}{}", " ".repeat(40)).as_bytes(), options)
            .map(|_| ())
            .map_err(|error| (error.code(), error.offset()))
    };
    for (text, count) in [
        ("1", 0),
        ("[1 2 3]", 3),
        ("[[] () #{} {}]", 4),
        ("[[1] [2 [3]]]", 6),
        ("{:a 1 :b {:c 2}}", 6),
        ("#:n{:a 1}", 2),
        ("[#_1 #_[1 2] 3]", 5),
        ("^:m [1]", 2),
        ("[#t [1] #t 2]", 3),
        ("#_[1 2 3] nil", 4),
    ] {
        assert_eq!(read(text, count), Ok(()), "{text} has {count}");
        if count > 0 {
            let (code, _) = read(text, count - 1).expect_err(text);
            assert_eq!(code, "too-many-values", "{text} has more than {}", count - 1);
        }
    }
    for text in ["[1 [2 3] 4]", "[1 [2 3] 4", "[1 [2 3] ]]"] {
        assert_eq!(read(text, 3), Err(("too-many-values", 8)), "{text} is refused where it is too much");
    }
    let two = ["[1 2 3]"; 2].join("          ");
    let mut reader =
        edn::Reader::with(two.as_bytes(), edn::Options { max_values: 3, ..edn::Options::default() });
    assert!(reader.all(|form| form.is_ok()), "each form has its own bound");
}

#[test]
fn what_stood_before_a_rejection_can_be_told() {
    let seen = |text: &str| {
        let mut reader =
            edn::Reader::with(text.as_bytes(), edn::Options { max_values: 7, ..edn::Options::default() });
        reader.one().expect_err(text);
        reader.before_rejection("id").map(ToString::to_string)
    };
    for (text, id) in [
        ("{:id 7 :a [1 2 3 4]}", Some("7")),
        ("{:id \"x\" :a {:id 8 :b [1 2", Some("\"x\"")),
        ("{:a [1 2 3 4 5] :id 7}", None),
        ("{:a {:id 7 :b [1 2 3 4 5", None),
        ("{:id", None),
        ("{:b :id :id 7", Some("7")),
        ("[:id 7", None),
        ("#{:id 7", None),
        ("#_ {:id 7", None),
        (":id 7", None),
    ] {
        assert_eq!(seen(text).as_deref(), id, "{text}");
    }
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
