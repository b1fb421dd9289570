//! Arguments, wiring and exit codes.

fn main() {}
