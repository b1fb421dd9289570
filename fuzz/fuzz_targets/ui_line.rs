//! A line of the UI wire, as it is read and checked.
#![no_main]

#[path = "../../tests/wire/ui_wire/any_line.rs"]
mod any_line;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| any_line::check(line));
