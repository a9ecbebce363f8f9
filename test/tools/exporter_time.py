#!/usr/bin/env python3
"""Measures a scrape of 32 ranks with 4 rails and 4 lanes each:
exporter_time.py EXPORTER PAGES DIR [--json]. Writes TAP, or an object.

The calibration copies as many bytes as there are in the files, with read(2). On
a machine that is slower, both take longer."""

import json
import statistics
import subprocess
import sys
import time
import urllib.request

from page_files import Pages, read_all
from prometheus import Scrape

EXPORTER, PAGES, DIR = sys.argv[1:4]
RANKS, RAILS, LANES = 32, 4, 4
SCRAPES = 25
LIMIT_MS = 20
LIMIT_SHARE = 0.01
INTERVAL_S = 5


def measure(url):
    """Return the figures of the scrapes as a dictionary, times in seconds."""
    def scrape():
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()

    first = Scrape(scrape().decode())  # allocates its memory
    if len(first.values("mrail_lane_bytes_total")) != RANKS * RAILS * LANES:
        sys.exit("Bail out! lanes are missing")
    times, reads, text = [], [], b""
    before = Scrape(scrape().decode()).value("mrail_exporter_cpu_seconds_total")
    for _ in range(SCRAPES):
        reads.append(read_all(DIR))
        begin = time.perf_counter()
        text = scrape()
        times.append(time.perf_counter() - begin)
    last = Scrape(scrape().decode())
    cpu = (last.value("mrail_exporter_cpu_seconds_total") - before) / (
        SCRAPES + 1)
    return {"series": len(last.samples), "bytes": len(text),
            "scrape_s": statistics.median(times), "fastest_s": min(times),
            "read_s": statistics.median(reads), "cpu_s": cpu,
            "cpu_share": cpu / INTERVAL_S}


def print_results(found):
    # Other work on the machine makes the median longer, not the fastest.
    took, fastest, read = (1e3 * found[name] for name in
                           ("scrape_s", "fastest_s", "read_s"))
    print("# %d ranks, %d rails, %d lanes: %d series, %d bytes" % (
        RANKS, RAILS, LANES, found["series"], found["bytes"]))
    print("# scrape: median %.2f ms, fastest %.2f ms; median %.1f times the "
          "reading of the files (%.2f ms)" % (took, fastest, took / read, read))
    print("# CPU: %.2f ms a scrape, %.3f %% of a core at one in %d s" % (
        found["cpu_s"] * 1e3, 100 * found["cpu_share"], INTERVAL_S))
    ok = fastest <= LIMIT_MS
    print("%sok 1 - a scrape takes at most %d ms%s" % (
        "" if ok else "not ", LIMIT_MS, "" if ok else ": %.2f ms" % fastest))
    ok = found["cpu_share"] <= LIMIT_SHARE
    print("%sok 2 - scrapes take at most %g %% of a core%s" % (
        "" if ok else "not ", 100 * LIMIT_SHARE,
        "" if ok else ": %.2f ms each" % (found["cpu_s"] * 1e3)))
    print("1..2")


def main():
    with Pages(PAGES, DIR, RAILS, LANES, [(RANKS,)]):
        exporter = subprocess.Popen(
            [EXPORTER, "--listen", "127.0.0.1:0", "--dir", DIR, "--per-lane"],
            stdout=subprocess.PIPE, text=True)
        try:
            found = measure(exporter.stdout.readline().split()[-1])
        finally:
            exporter.kill()
            exporter.wait()
    if sys.argv[4:] == ["--json"]:
        print(json.dumps(found))
    else:
        print_results(found)


main()
