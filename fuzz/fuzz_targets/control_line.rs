//! A line of the control wire, and its answer.
#![no_main]

#[path = "../../tests/wire/control_wire/any_line.rs"]
mod any_line;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| any_line::check(line));
