//! Bytes in pieces, cut anywhere, give the lines that the whole gives, and no line is longer than the bound.
#![no_main]

use edn_bridge::wire::lines::{Line, Splitter};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, PartialEq)]
enum Found {
    Whole(Vec<u8>),
    Oversize(usize),
    Unterminated(Vec<u8>),
}

fn drain(splitter: &mut Splitter, limit: usize, found: &mut Vec<Found>) {
    while let Some(line) = splitter.next_line() {
        found.push(match line {
            Line::Whole(line) => {
                assert!(line.len() <= limit && !line.contains(&b'\n'));
                Found::Whole(line.to_vec())
            }
            Line::Oversize(length, _) => {
                assert!(length > limit);
                Found::Oversize(length)
            }
            Line::Unterminated(rest) => {
                assert!(rest.len() <= limit && !rest.is_empty() && !rest.contains(&b'\n'));
                Found::Unterminated(rest.to_vec())
            }
        });
    }
}

/// The lines as they would be told with all the input at hand.
fn lines(input: &[u8], limit: usize) -> Vec<Found> {
    let mut parts: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let rest = parts.pop().unwrap_or_default();
    let mut found: Vec<Found> = parts
        .into_iter()
        .map(|line| match line.len() {
            length if length > limit => Found::Oversize(length),
            _ => Found::Whole(line.strip_suffix(b"\r").unwrap_or(line).to_vec()),
        })
        .collect();
    match rest.len() {
        0 => {}
        length if length > limit => found.push(Found::Oversize(length)),
        _ => found.push(Found::Unterminated(rest.to_vec())),
    }
    found
}

fuzz_target!(|input: &[u8]| {
    let [limit, size, input @ ..] = input else { return };
    let limit = usize::from(*limit);
    let pieces = input.chunks(usize::from(*size) + 1);
    let expected = lines(input, limit);

    let (mut pushed, mut found) = (Splitter::new(limit), Vec::new());
    for piece in pieces.clone() {
        pushed.push(piece);
        drain(&mut pushed, limit, &mut found);
    }
    pushed.end();
    drain(&mut pushed, limit, &mut found);
    assert_eq!(found, expected);

    let (mut filled, mut found) = (Splitter::new(limit), Vec::new());
    for mut piece in pieces {
        while !piece.is_empty() {
            filled.fill(&mut piece).expect("memory is read");
            drain(&mut filled, limit, &mut found);
        }
    }
    filled.fill(&mut std::io::empty()).expect("memory is read");
    drain(&mut filled, limit, &mut found);
    assert_eq!(found, expected);
});
