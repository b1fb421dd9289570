//! Lines into an endpoint, frames out: each line answered once, events numbered without a gap, nothing
//! left pending.
#![no_main]

#[path = "../../tests/endpoint_support/mod.rs"]
mod endpoint_support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|choices: &[u8]| {
    let Some((piece, choices)) = choices.split_first() else { return };
    let Some((seed, choices)) = choices.split_first_chunk::<8>() else { return };
    // Half of the time the bytes are choices of the grammar, half of the time the input itself.
    let input = match piece & 1 {
        0 => endpoint_support::lines::input(choices),
        _ => choices.to_vec(),
    };
    endpoint_support::check(&input, usize::from(*piece).pow(2) + 1, u64::from_le_bytes(*seed));
});
