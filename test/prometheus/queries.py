#!/usr/bin/env python3
"""Plants faults in two jobs and asks Prometheus about them:
queries.py URL MRAIL SESSION DASHBOARD. The jobs run in the sessions SESSION-get
and SESSION-put. Writes TAP."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
# pylint: disable=wrong-import-position
from tap import check, eventually, finish  # noqa: E402

URL, MRAIL, SESSION, DASHBOARD = sys.argv[1:5]


def get(path, **words):
    url = "%s/api/v1/%s?%s" % (URL, path, urllib.parse.urlencode(words))
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())["data"]


def query(text):
    return get("query", query=text)["result"]


def number(text):
    result = query(text)
    return float(result[0]["value"][1]) if result else None


def firing():
    return [alert["labels"] for alert in get("alerts")["alerts"]
            if alert["state"] == "firing"]


def names():
    return sorted({labels["alertname"] for labels in firing()})


def fires(name, **wanted):
    """Waits until an alert with these labels fires. Returns its labels."""
    return eventually(lambda: [
        labels for labels in firing() if labels["alertname"] == name and
        all(labels.get(key) == value for key, value in wanted.items())])


def ctl(job, *words):
    subprocess.run([MRAIL, "soft", "ctl", "--session", "%s-%s" % (
        SESSION, job), *words], check=True, capture_output=True)


def processes():
    """Returns {job: [pid of rank 0, pid of rank 1]}, in the jobs' order."""
    done = subprocess.run([MRAIL, "top", "--json", "--interval", "0.1",
                           "--count", "1"], check=True, capture_output=True)
    found = {}
    for process in json.loads(done.stdout)["processes"]:
        found.setdefault(process["job"], {})[process["rank"]] = process["pid"]
    return {job: [pids[rank] for rank in sorted(pids)]
            for job, pids in found.items()}


def kinds():
    """Returns the names of the jobs that do GETs and PUTs."""
    bytes_ = {}
    for kind in ("get", "put"):
        for sample in query("sum by (mpi_job) (mrail_%s_bytes_total)" % kind):
            bytes_[kind, sample["metric"]["mpi_job"]] = float(
                sample["value"][1])
    jobs = {job for _, job in bytes_}
    gets = max(jobs, key=lambda job: bytes_["get", job] - bytes_["put", job])
    puts = max(jobs, key=lambda job: bytes_["put", job] - bytes_["get", job])
    return gets, puts


def test_healthy():
    check("the target is up", eventually(lambda: number("up") == 1))
    check("four processes with four rails", eventually(
        lambda: number("count(mrail_rail_bytes_total)") == 16))
    check("the traffic is recorded", eventually(lambda: (number(
        "min(rate(mrail_rail_bytes_total[5s]))") or 0) > 1e6))
    time.sleep(8)
    check("no alert fires for healthy jobs", names() == [], firing())


def test_dashboard():
    panels = json.loads(pathlib.Path(DASHBOARD).read_text())["panels"]
    queries = [(panel["title"], target["expr"])
               for panel in panels for target in panel["targets"]]
    empty = []
    for title, text in queries:
        for variable, value in (("$instance", ".*"), ("$mpi_job", ".*"),
                                ("$__rate_interval", "5s"),
                                ("$__range", "30s")):
            text = text.replace(variable, value)
        # A rail is not always the bottleneck.
        if not eventually(lambda text=text: query(text), 15):
            empty.append((title, text))
    check("each of %d queries of the dashboard returns data" % len(queries),
          len(queries) > 15 and not empty, empty)


def test_rail_down(job):
    before = number("sum(mrail_rail_bytes_total)")
    ctl("get", "--rail", "1", "down")
    found = fires("MrailRailDown", mpi_job=job, rail="soft1:1")
    check("MrailRailDown fires", found, firing())
    check("MrailLaneFailovers fires",
          fires("MrailLaneFailovers", mpi_job=job), firing())
    check("the job continues", eventually(
        lambda: number("sum(mrail_rail_bytes_total)") > before + 1e6))
    check("no alert concerns another rail or the other job", all(
        labels["mpi_job"] == job and labels.get("rail", "soft1:1") == "soft1:1"
        for labels in firing()), firing())
    ctl("get", "--rail", "1", "up")
    check("the alerts end when the rail is up", eventually(
        lambda: names() == []), firing())


def test_rail_slow(job):
    ctl("get", "--rail", "2", "rate=5M")
    found = fires("MrailRailSlow", mpi_job=job, rail="soft2:1")
    check("MrailRailSlow fires", found, query(
        "mrail_rail_receive_bandwidth_bytes_per_second"))
    ctl("get", "--rail", "2", "rate=50M")
    check("the alert ends when the rail is fast again", eventually(
        lambda: "MrailRailSlow" not in names()), firing())


def test_stopped(job, pid):
    os.kill(pid, signal.SIGSTOP)
    check("MrailProcessStopped fires", fires(
        "MrailProcessStopped", mpi_job=job, pid=str(pid)), firing())
    check("MrailJobHung fires",
          fires("MrailJobHung", mpi_job=job), firing())
    check("the other job has no alert",
          {labels["mpi_job"] for labels in firing()} == {job}, firing())
    os.kill(pid, signal.SIGCONT)
    check("the alerts end when the process continues", eventually(
        lambda: not {"MrailProcessStopped", "MrailJobHung"} & set(names())),
          firing())


def test_killed(job, pid):
    os.kill(pid, signal.SIGKILL)
    check("MrailProcessEnded fires", fires(
        "MrailProcessEnded", mpi_job=job, pid=str(pid)), firing())
    check("the counters of the killed process remain", number(
        'mrail_messages_sent_total{pid="%d"}' % pid) > 0)


def main():
    test_healthy()
    gets, puts = kinds()
    check("one job does GETs and one does PUTs", gets != puts, (gets, puts))
    pids = processes()
    test_dashboard()
    test_rail_down(gets)
    test_rail_slow(gets)
    test_stopped(gets, pids[gets][1])
    test_killed(puts, pids[puts][0])
    failed = number("sum(max_over_time(mrail_lane_failovers_total[10m]))")
    decreased = number("sum(resets(mrail_rail_bytes_total[10m]))")
    check("no counter was reset, and failovers were counted",
          failed > 0 and decreased == 0, (failed, decreased))
    finish()


main()
