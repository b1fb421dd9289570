#!/usr/bin/env python3
"""Measures programs beside each other: python3 benches/start.py [--starts N] PROGRAM…

For each: the size of its file, the time from spawn to the answer of the handshake (median and 99th percentile of
N starts, in turns), and what it has in memory then, by /proc: resident, and of that not pages of its file.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time

HELLO = (b'{:id "1" :kind :request :op "handshake" :params {:client-info '
         b'{:name "start" :version "1" :protocol-version "1.0"}}}\n')


def start(program, folder):
    """Seconds to the answer, and kilobytes of memory: resident, anonymous."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [program, "--provider", "scripted", "--script", os.path.join(folder, "script.edn"),
         "--state-dir", os.path.join(folder, "state"), "serve", "--no-daemon"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
    process.stdin.write(HELLO)
    process.stdin.flush()
    answer = process.stdout.readline()
    taken = time.perf_counter() - begun
    assert b":ok true" in answer, answer
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        memory = dict(line.split(":", 1) for line in status)
    process.stdin.close()
    process.wait()
    process.stdout.close()
    return taken, *(int(memory[key].split()[0]) for key in ("VmRSS", "RssAnon"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=60)
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "script.edn"), "w", encoding="ascii") as script:
            script.write("{:turns [{:steps []}]}")
        programs = [os.path.abspath(program) for program in arguments.programs]
        runs = {program: [] for program in programs}
        for turn in range(arguments.starts + 1):
            for program in programs:
                run = start(program, folder)
                # The first start reads the file from the disk.
                if turn:
                    runs[program].append(run)
    for program, all_runs in runs.items():
        times, resident, anonymous = zip(*all_runs)
        print(f"{program}: {os.path.getsize(program) / 1e6:.1f} MB; start {statistics.median(times) * 1e3:.2f} ms, "
              f"99 % {statistics.quantiles(times, n=100)[98] * 1e3:.2f} ms; resident {statistics.median(resident) * 1.024e-3:.1f} MB, "
              f"not of its file {statistics.median(anonymous) * 1.024e-3:.1f} MB")


if __name__ == "__main__":
    main()
