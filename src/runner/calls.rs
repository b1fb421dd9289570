//! System calls that a sandboxed command is refused (seccomp), beside what Landlock keeps it from.
//!
//! Landlock knows no limits of processes: with `prlimit` a command could take the right to open files from the bridge,
//! which runs as the same user.

use seccompiler::{BpfProgram, sock_filter};

/// Refuses the calling thread, and all that it starts, to change another process's resource limits. Its own may be
/// lowered as ever, and those of others be read. A kernel without seccomp refuses nothing.
pub(super) fn restrict() {
    let _ = seccompiler::apply_filter(&filter());
}

/// Offsets in what the kernel tells a filter (`struct seccomp_data`): the call, the architecture, and of the arguments
/// the process, of which the low half counts, and the address of the new limits.
const CALL: u32 = 0;
const ARCHITECTURE: u32 = 4;
const PROCESS: u32 = if cfg!(target_endian = "big") { 20 } else { 16 };
const NEW_LIMITS: u32 = 32;

/// The number of `prlimit64` on each architecture whose programs run here (`AUDIT_ARCH_*`, linux/audit.h): a program of
/// 32 bits must not get around it.
const CALLS: [(u32, u32); 6] = [
    (0xc000_003e, 302),               // x86-64
    (0xc000_003e, 0x4000_0000 | 302), // x32, which has the same architecture
    (0x4000_0003, 340),               // i386
    (0xc000_00b7, 261),               // aarch64
    (0x4000_0028, 369),               // arm
    (0xc000_00f3, 261),               // riscv64
];

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const ALLOW: u32 = 0x7fff_0000; // SECCOMP_RET_ALLOW
const REFUSE: u32 = 0x0005_0001; // SECCOMP_RET_ERRNO | EPERM

/// For each architecture: other ones and other calls go on to the next; the caller's own process (0) and a call without
/// new limits, which reads the old ones, are allowed.
fn filter() -> BpfProgram {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let of = |(architecture, call)| {
        [
            step(LOAD, 0, 0, ARCHITECTURE),
            step(IF_EQUAL, 0, 10, architecture),
            step(LOAD, 0, 0, CALL),
            step(IF_EQUAL, 0, 8, call),
            step(LOAD, 0, 0, PROCESS),
            step(IF_EQUAL, 5, 0, 0),
            step(LOAD, 0, 0, NEW_LIMITS),
            step(IF_EQUAL, 0, 2, 0),
            step(LOAD, 0, 0, NEW_LIMITS + 4),
            step(IF_EQUAL, 1, 0, 0),
            step(RETURN, 0, 0, REFUSE),
            step(RETURN, 0, 0, ALLOW),
        ]
    };
    CALLS.into_iter().flat_map(of).chain([step(RETURN, 0, 0, ALLOW)]).collect()
}
