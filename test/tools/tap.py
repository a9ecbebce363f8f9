"""Results of a test in Python, as TAP on stdout."""

import sys
import time

COUNT = 0


def check(name, condition, why=""):
    global COUNT
    COUNT += 1
    print("%sok %d - %s%s" % ("" if condition else "not ", COUNT, name,
                              "" if condition else ": %s" % (why,)))
    sys.stdout.flush()


def finish():
    print("1..%d" % COUNT)


def eventually(condition, seconds=40):
    """Returns the first true result of condition(), or None if the time is over."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    return None
