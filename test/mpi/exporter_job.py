#!/usr/bin/env python3
"""Scrapes a running job of four ranks with four rails each:
exporter_job.py MRAIL SESSION. Writes TAP."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
# pylint: disable=wrong-import-position
from prometheus import Scrape, decreased  # noqa: E402
from tap import check, eventually, finish  # noqa: E402

MRAIL, SESSION = sys.argv[1:3]
RANKS, RAILS = 4, 4


def start_exporter():
    process = subprocess.Popen(
        [MRAIL, "exporter", "--listen", "127.0.0.1:0", "--per-lane"],
        stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[-1]


class Watcher(threading.Thread):
    """Scrapes continuously. Counters of a process or rail must never decrease."""

    def __init__(self, url):
        super().__init__()
        self.url, self.last, self.scrapes = url, None, 0
        self.wrong, self.stop = [], threading.Event()

    def scrape(self):
        with urllib.request.urlopen(self.url, timeout=30) as answer:
            return Scrape(answer.read().decode())

    def run(self):
        while not self.stop.is_set():
            try:
                now = self.scrape()
                if self.last is not None:
                    # The counters of a lane restart with its queue pair.
                    self.wrong += [key for key in decreased(self.last, now)
                                   if not key[0].startswith("mrail_lane_bytes")
                                   and "lane" not in dict(key[1])]
                self.last = now
                self.scrapes += 1
            except Exception as error:  # any error is a failure of the test
                self.wrong.append(repr(error))
            time.sleep(0.1)


def ctl(*words):
    subprocess.run([MRAIL, "soft", "ctl", "--session", SESSION, *words],
                   check=True, capture_output=True)


def top():
    done = subprocess.run([MRAIL, "top", "--json", "--interval", "0.1",
                           "--count", "1"], check=True, capture_output=True)
    return [process for process in json.loads(done.stdout)["processes"]
            if process["program"] == "mpi_exchange"]


def differences(scrape, processes):
    """Compares a scrape with mrail top. Both must see the same pages."""
    compared, wrong = 0, []

    def same(name, value, **labels):
        nonlocal compared
        compared += 1
        found = scrape.value(name, **labels)
        if found is None or abs(found - value) > 1e-3:
            wrong.append((name, labels, found, value))

    for process in processes:
        labels = {"rank": str(process["rank"]), "pid": str(process["pid"]),
                  "mpi_job": process["job"]}
        for counter, metric in (("am_sent", "mrail_messages_sent_total"),
                                ("get_bytes", "mrail_get_bytes_total"),
                                ("put_bytes", "mrail_put_bytes_total"),
                                ("chunks", "mrail_chunks_total"),
                                ("ctl_sent", "mrail_control_sent_total"),
                                ("lanes_failed", "mrail_lane_failovers_total")):
            same(metric, process["counters"][counter], **labels)
        same("mrail_process_start_time_seconds", process["start_s"], **labels)
        same("mrail_process_update_time_seconds", process["update_s"], **labels)
        names = []
        for rail in process["rails"]:
            names.append("%s:%d" % (rail["device"], rail["port"]))
            at = dict(labels, rail=names[-1])
            same("mrail_rail_bytes_total", rail["bytes"], **at)
            same("mrail_rail_lanes", rail["lanes"], **at)
            same("mrail_rail_in_flight_bytes", rail["outstanding"], **at)
            same("mrail_rail_speed_bytes_per_second",
                 rail["nominal_bytes_per_s"], **at)
        for lane in process["lanes"]:
            at = dict(labels, rail=names[lane["rail"]], peer=lane["peer"],
                      lane=str(lane["lane"]))
            same("mrail_lane_bytes_total", lane["bytes"], **at)
            same("mrail_lane_in_flight_bytes", lane["outstanding"], **at)
            same("mrail_lane_stalled_seconds_total", lane["stalled_s"], **at)
            same("mrail_lane_source_port", lane["sport"], **at)
            same("mrail_lane_up", int(lane["state"] == "up"), **at)
    return compared, wrong


def test_values(watcher, pids):
    """Stopped processes do not change their pages."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.3)
    compared, wrong = differences(watcher.scrape(), top())
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    check("every value matches mrail top --json",
          not wrong and compared > RANKS * RAILS * 4, (compared, wrong[:5]))


def test_bytes(watcher):
    """The sum over the rails is at least the transport's own count."""
    scrape = watcher.scrape()
    for rank in range(RANKS):
        rails = sum(value for _, value in scrape.values(
            "mrail_rail_bytes_total", rank=str(rank)))
        counted = (scrape.value("mrail_get_bytes_total", rank=str(rank)) +
                   scrape.value("mrail_put_bytes_total", rank=str(rank)))
        if not 0 < counted * 0.9 <= rails:
            return (rank, rails, counted)
    return None


def test_failover(watcher):
    before = watcher.scrape()
    ctl("--rail", "1", "down")
    down = eventually(lambda: [
        labels for labels, value in watcher.scrape().values("mrail_rail_up")
        if value == 0])
    check("a port goes down: only its rail is down",
          down and {labels["rail"] for labels in down} == {"soft1:1"}, down)
    check("lanes fail over", eventually(lambda: sum(
        value for _, value in watcher.scrape().values(
            "mrail_lane_failovers_total")) > 0))
    check("the rail has no lanes", eventually(lambda: all(
        value == 0 for _, value in watcher.scrape().values(
            "mrail_rail_lanes", rail="soft1:1"))))
    after = watcher.scrape()
    check("its bytes remain, although its lanes are closed", all(
        after.value("mrail_rail_bytes_total", **labels) >= value
        for labels, value in before.values("mrail_rail_bytes_total")))
    ctl("--rail", "1", "up")
    check("the rail comes up again", eventually(lambda: all(
        value == 1 for _, value in watcher.scrape().values("mrail_rail_up"))))


def paths_not_up(watcher):
    return sum(value for _, value in watcher.scrape().values(
        "mrail_rail_paths_not_up", rail="soft2:1"))


def test_lost_paths(watcher):
    """The port is up, but nothing arrives, so the lanes are closed."""
    check("all paths are up", eventually(lambda: paths_not_up(watcher) == 0))
    ctl("--rail", "2", "loss=1000000")
    check("a rail loses all packets: its lanes are closed", eventually(
        lambda: all(value == 0 for _, value in watcher.scrape().values(
            "mrail_rail_lanes", rail="soft2:1"))))
    time.sleep(1)
    count = paths_not_up(watcher)
    check("its paths are still counted", count >= RANKS, count)
    ctl("--rail", "2", "loss=0")
    check("until they carry data again",
          eventually(lambda: paths_not_up(watcher) == 0, 30))


def test_stopped(watcher, pids):
    """The other ranks wait for the stopped rank."""
    os.kill(pids[2], signal.SIGSTOP)
    waits = eventually(lambda: [
        labels["rank"] for labels, value in
        watcher.scrape().values("mrail_process_mpi_call_seconds")
        if value > 2 and labels["rank"] != "2"])
    age = time.time() - watcher.scrape().value(
        "mrail_process_update_time_seconds", rank="2")
    os.kill(pids[2], signal.SIGCONT)
    check("a stopped rank: the other ranks are in a call", waits, waits)
    check("and its page is not updated", age > 1.5, age)
    check("afterwards, all ranks move again", eventually(lambda: all(
        value < 1 for _, value in watcher.scrape().values(
            "mrail_process_mpi_call_seconds"))))


def main():
    exporter, url = start_exporter()
    watcher = Watcher(url)
    ready = eventually(lambda: len(watcher.scrape().values(
        "mrail_rail_bytes_total")) == RANKS * RAILS)
    check("every rail of every rank is exported", ready)
    pids = [process["pid"] for process in
            sorted(top(), key=lambda process: process["rank"])]
    watcher.start()
    check("bandwidth is measured", eventually(lambda: watcher.scrape().values(
        "mrail_rail_receive_bandwidth_bytes_per_second")))
    check("busy time is counted", eventually(lambda: any(
        seconds > 0 for _, seconds in watcher.scrape().values(
            "mrail_rail_receive_busy_seconds_total"))))
    test_values(watcher, pids)
    # Some ranks may not have moved data yet.
    eventually(lambda: test_bytes(watcher) is None)
    why = test_bytes(watcher)
    check("the rails carry what the transport counts", why is None, why)
    test_failover(watcher)
    test_lost_paths(watcher)
    test_stopped(watcher, pids)
    check("when the job ends, its series end", eventually(
        lambda: not watcher.scrape().values("mrail_process_up"), 60))
    watcher.stop.set()
    watcher.join()
    check("no counter decreased, and every scrape was right",
          not watcher.wrong and watcher.scrapes > 20,
          (watcher.scrapes, watcher.wrong[:5]))
    exporter.send_signal(signal.SIGTERM)
    check("the exporter exits", exporter.wait(10) == 0)
    finish()


main()
