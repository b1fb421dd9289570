//! Has the linker pack the relocations of the program: they are 1 MB otherwise, which each start reads.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if understands_packed() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the program is for this system, and its loader understands them: glibc does from 2.36 on.
fn understands_packed() -> bool {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let is_glibc = variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_glibc || variable("TARGET") != variable("HOST") {
        return false;
    }
    // `glibc 2.36`.
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).and_then(|version| version.split_once('.'));
    let Some((Ok(major), Ok(minor))) =
        version.map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()))
    else {
        return false;
    };
    (major, minor) >= (2, 36)
}
