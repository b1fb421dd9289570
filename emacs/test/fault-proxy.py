#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A bad line between Emacs and the bridge, as a process of its own.

Runs the program that EDN_BRIDGE_FAULTS names with the arguments that it got itself, and passes on what
goes in and out. EDN_BRIDGE_FAULTS is a JSON object:

  program   what to run
  seed      of what is random here
  split     [least, most]: bytes arrive in pieces of so many, in both directions
  delay_ms  each piece comes up to so much later
  drop      lines from the program that this regular expression matches are lost
  keep      of those, every n-th arrives all the same
  tear      of lines that this matches the second half is lost, newline included
  noise     a line that comes after every line from the program
  stall     [regexp, seconds]: after the first line that it matches nothing comes for so long
  kill      [regexp, n]: at the n-th line that it matches, half of it arrives and the program is killed
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

FAULTS = json.loads(os.environ["EDN_BRIDGE_FAULTS"])
LUCK = random.Random(FAULTS.get("seed", 0))


def pattern(name, text=None):
    """Return the regular expression of the fault NAME, or one that matches nothing."""
    text = FAULTS.get(name) if text is None else text
    return re.compile(text.encode() if text else rb"(?!)", re.S)


def write(to, data):
    """Write DATA to the file descriptor TO, in pieces and late where that is asked for."""
    least, most = FAULTS.get("split", [len(data), len(data)])
    while data:
        size = max(1, LUCK.randint(least, most))
        piece, data = data[:size], data[size:]
        if "delay_ms" in FAULTS:
            time.sleep(LUCK.random() * FAULTS["delay_ms"] / 1000)
        while piece:
            piece = piece[os.write(to, piece):]


def forward(to):
    """Pass on what Emacs says."""
    try:
        while data := os.read(0, 65536):
            write(to.fileno(), data)
    except OSError:
        pass
    try:
        to.close()
    except OSError:
        pass


def answers(program):
    """Pass on what PROGRAM says, with the faults."""
    drop, tear = pattern("drop"), pattern("tear")
    stall, seconds = FAULTS.get("stall", [None, 0])
    kill, left = FAULTS.get("kill", [None, 0])
    stall, kill = pattern("stall", stall or ""), pattern("kill", kill or "")
    dropped, stalled = 0, False
    for line in program.stdout:
        if kill.search(line):
            left -= 1
            if left == 0:
                write(1, line[: len(line) // 2])
                sys.stderr.write("the line went dead\n")
                sys.stderr.flush()
                program.kill()
                program.wait()
                os.kill(os.getpid(), signal.SIGKILL)
        if drop.search(line):
            dropped += 1
            if not FAULTS.get("keep") or dropped % FAULTS["keep"]:
                continue
        write(1, line[: len(line) // 2] if tear.search(line) else line)
        if "noise" in FAULTS:
            write(1, FAULTS["noise"].encode() + b"\n")
        if not stalled and stall.search(line):
            stalled = True
            time.sleep(seconds)


def main():
    """Run the program behind the faults, and end as it ends."""
    program = subprocess.Popen(
        [FAULTS["program"], *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    program.stdout = os.fdopen(os.dup(program.stdout.fileno()), "rb", buffering=65536)
    threading.Thread(target=forward, args=(program.stdin,), daemon=True).start()
    try:
        answers(program)
    except BrokenPipeError:
        pass
    sys.stderr.flush()
    os._exit(program.wait() & 0xFF)


main()
