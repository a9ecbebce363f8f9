#!/usr/bin/env python3
"""Usage: top_screen.py MRAIL

Runs `mrail top` on a pseudoterminal of 14 lines while a job runs, presses keys
and prints a result line for each expectation. The exit status is 0 if all
expectations hold, and 1 otherwise.
"""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

CLEAR = "\x1b[H\x1b[2J"
failed = 0


def result(name, holds, why):
    global failed
    if holds:
        print(f"ok - {name}")
    else:
        reason = str(why).replace("\n", " | ")
        print(f"not ok - {name}: {reason}")
        failed = 1


def last_screen(fd, seconds):
    """Returns the last complete screen that arrives within this many
    seconds."""
    data = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.05)[0]:
            try:
                data += os.read(fd, 65536)
            except OSError:
                break
    screens = data.decode(errors="replace").replace("\r", "").split(CLEAR)
    # The last screen may still be incomplete.
    whole = [screen for screen in screens if screen.endswith("q: quit")]
    return whole[-1] if whole else ""


def settings(fd):
    return termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO)


def main():
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 14, 120, 0, 0))
    before = settings(terminal)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(terminal, fd)
        os.execvp(sys.argv[1], [sys.argv[1], "top", "--interval", "300ms"])
    first = last_screen(reader, 1.5)
    page = re.search(r"page 1 of (\d+), by rank; space: next page", first)
    result("a terminal shows one page", page and int(page.group(1)) > 1, first)
    result("a page fits the terminal", first.count("\n") < 14, first)
    result("keys take effect without Enter", settings(terminal) == 0, settings(terminal))
    os.write(reader, b" ")
    second = last_screen(reader, 1)
    result("space shows the next page", "\npage 2 of " in second, second)
    os.write(reader, b"b")
    back = last_screen(reader, 1)
    result("b returns to the previous page", "\npage 1 of " in back, back)
    os.write(reader, b"s")
    sorted_screen = last_screen(reader, 1)
    rates = [float(r) for r in
             re.findall(r"soft\d:1 +\d+ +([0-9.]+) ", sorted_screen)]
    result("s sorts by rate",
           ", by rate;" in sorted_screen and len(rates) > 2
           and rates == sorted(rates, reverse=True), sorted_screen)
    os.write(reader, b"q")
    last_screen(reader, 1)
    status = os.waitpid(pid, 0)[1]
    result("q quits", status == 0, status)
    result("the terminal's settings are restored", settings(terminal) == before,
           settings(terminal))
    return failed


sys.exit(main())
