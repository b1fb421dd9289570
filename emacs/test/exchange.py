#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exchanges a file, its folder and links to others, until its standard input ends.

  exchange.py WORKSPACE OUTSIDE

WORKSPACE has the file sub/f, and OUTSIDE a file f. At any moment `sub/f` is the file or a link to the one
outside, and `sub` is the folder or a link to OUTSIDE; each exchange is one step of the kernel. The file outside
gets the time of the one inside, so that times do not tell them apart. At the end everything is back in its
place, and the number of exchanges is printed.
"""

import ctypes
import os
import random
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
RENAME_EXCHANGE = 2


def exchange(one, other):
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), one)


workspace, outside = sys.argv[1:3]
sub = os.path.join(workspace, "sub")
file = os.path.join(sub, "f")
link_to_folder = os.path.join(workspace, "link")
link_to_file = os.path.join(workspace, "file-link")
secret = os.path.join(outside, "f")
os.symlink(outside, link_to_folder)
os.symlink(secret, link_to_file)

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.buffer.read(), ended.set()), daemon=True).start()
count = 0
random.seed(41)
while not ended.is_set():
    one, other = random.choice([(sub, link_to_folder), (file, link_to_file)])
    try:
        time_inside = os.lstat(file).st_mtime_ns
        os.utime(secret, ns=(time_inside, time_inside))
        exchange(one, other)
        time.sleep(random.choice([0, 0.0001, 0.0005, 0.002]))
        exchange(one, other)
        count += 2
    except FileNotFoundError:
        # The file is being replaced.
        pass
    time.sleep(random.choice([0, 0.0005, 0.002, 0.01, 0.02]))
print(count)
