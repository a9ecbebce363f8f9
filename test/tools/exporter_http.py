#!/usr/bin/env python3
"""Tests the HTTP server of mrail exporter with telemetry of jobs that do not
exist: exporter_http.py EXPORTER PAGES DIR. Writes TAP."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from prometheus import Scrape, decreased
from tap import check, eventually, finish

EXPORTER, PAGES, DIR = sys.argv[1:4]
RANKS, RAILS, LANES = 3, 2, 2
UID = os.geteuid()
PAGE_ANY = os.path.join(DIR, "mrail-telemetry.%d.%%d.%%x" % UID)
STARTED = []


def start(*words, **options):
    """Starts a program. Returns it with its first line of output."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **options)
    STARTED.append(process)
    return process, process.stdout.readline()


def pages(job, ranks=RANKS):
    process, line = start(PAGES, DIR, job, str(ranks), str(RAILS), str(LANES))
    if line != "ready\n":
        sys.exit("Bail out! exporter_pages: %s" % process.stderr.read())
    return process


def end(process):
    process.stdin.close()
    process.wait(10)


def exporter(*words, **options):
    """Starts an exporter on a free port. Returns it and the port."""
    process, line = start(EXPORTER, "--listen", "127.0.0.1:0", "--dir", DIR,
                          *words, **options)
    if not line.startswith("mrail exporter: http://127.0.0.1:"):
        sys.exit("Bail out! mrail exporter: %s%s" % (
            line, process.stderr.read()))
    return process, int(line.rsplit(":", 1)[1].split("/")[0])


def request(port, method="GET", path="/metrics", headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def scrape(port):
    status, _, text = request(port)
    if status != 200:
        raise ValueError("status %d" % status)
    return Scrape(text)


def raw(port, data):
    """Sends bytes. Returns the server's complete answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        answer = b""
        try:
            client.sendall(data)
            while True:
                part = client.recv(65536)
                if not part:
                    break
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        return answer


def test_requests(port):
    status, headers, text = request(port)
    check("GET /metrics", status == 200, status)
    check("the content type is that of the text format",
          headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8",
          headers)
    parsed = Scrape(text)
    check("every process is exported",
          len(parsed.values("mrail_process_up")) == RANKS, text[:2000])
    check("every rail is exported",
          len(parsed.values("mrail_rail_bytes_total")) == RANKS * RAILS)
    calls = parsed.values("mrail_process_mpi_call_seconds")
    check("ranks that wait in a collective, and ranks that do not",
          [v > 0 for _, v in sorted(calls, key=lambda s: s[0]["rank"])] ==
          [True, False, False], calls)
    status, headers, text = request(port, "HEAD")
    check("HEAD /metrics has a length and no body",
          status == 200 and int(headers["Content-Length"]) > 1000 and
          text == "", headers)
    status, headers, text = request(
        port, headers={"Accept": "application/openmetrics-text;version=1.0.0,"
                                 "text/plain;q=0.5"})
    check("OpenMetrics on request",
          headers["Content-Type"].startswith(
              "application/openmetrics-text; version=1.0.0") and
          text.endswith("# EOF\n") and
          "# TYPE mrail_rail_bytes counter" in text, headers)
    status, headers, text = request(port, path="/")
    check("/ has a link to the metrics",
          status == 200 and 'href="/metrics"' in text, status)
    check("an unknown path", request(port, path="/none")[0] == 404)
    status, headers, _ = request(port, "DELETE")
    check("an unknown method",
          status == 405 and headers["Allow"] == "GET, HEAD", status)
    check("a query is ignored", request(port, path="/metrics?a=b")[0] == 200)


def test_bad_requests(port):
    answer = raw(port, b"\0\1\2\3 nonsense\r\n\r\n")
    check("an invalid request returns no metrics", b"mrail_" not in answer, answer[:80])
    answer = raw(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\nLong: " +
                 b"x" * 100000 + b"\r\n\r\n")
    check("a header that is too long is rejected",
          b" 200 " not in answer[:20], answer[:80])
    answer = raw(port, b"POST /metrics HTTP/1.1\r\nHost: x\r\n"
                 b"Content-Length: 4000000000\r\n\r\n" + b"x" * 1000000)
    check("a body is rejected", b" 200 " not in answer[:20], answer[:80])
    check("the exporter still answers", request(port)[0] == 200)


def test_counters(port):
    before = scrape(port)
    moved = eventually(lambda: scrape(port).value(
        "mrail_rail_bytes_total", rank="0", rail="mlx5_0:1") > before.value(
            "mrail_rail_bytes_total", rank="0", rail="mlx5_0:1"))
    check("counters grow", moved)
    check("no counter decreases", decreased(before, scrape(port)) == [])
    check("scrapes are counted",
          scrape(port).value("mrail_exporter_scrapes_total") >= 3)


def test_lanes():
    process, port = exporter("--per-lane")
    lanes = scrape(port).values("mrail_lane_bytes_total")
    check("--per-lane exports every lane",
          len(lanes) == RANKS * RAILS * LANES, len(lanes))
    terminate(process, "SIGTERM: the exporter exits with status 0")


def terminate(process, name):
    process.send_signal(signal.SIGTERM)
    try:
        status = process.wait(5)
    except subprocess.TimeoutExpired:
        status = "none after 5 s"
    check(name, status == 0, status)


def test_port_in_use(port):
    done = subprocess.run(
        [EXPORTER, "--listen", "127.0.0.1:%d" % port, "--dir", DIR],
        capture_output=True, text=True, timeout=10)
    check("a port in use: a message and status 1",
          done.returncode == 1 and done.stdout == "" and done.stderr ==
          "mrail exporter: another program listens on 127.0.0.1:%d; choose "
          "another port with --listen\n" % port, done)


def test_other_files(port):
    names = [PAGE_ANY % (1, 1), PAGE_ANY % (1, 2), PAGE_ANY % (1, 3),
             os.path.join(DIR, "mrail-telemetry.%d.1.1" % (UID + 1)),
             os.path.join(DIR, "mrail-telemetry.%d.1.1.calls" % (UID + 1))]
    for name in names:
        with open(name, "wb") as stream:
            stream.write(b"not a telemetry page")
    with open(names[1], "wb") as stream:  # the magic number, another version
        stream.write(b"\x6e\x69\x52\x6d\xff\xff\xff\xff" + bytes(100))
    os.remove(names[2])
    os.symlink("/etc/passwd", names[2])
    os.mkfifo(PAGE_ANY % (1, 4))
    found = {labels["reason"]: value for labels, value in
             scrape(port).values("mrail_exporter_refused_files")}
    check("files that are not read are counted",
          found == {"other_user": 1, "other_version": 1, "broken": 2}, found)
    for name in names + [PAGE_ANY % (1, 4)]:
        os.remove(name)


def test_other_user():
    if UID != 0:
        print("# not root: cannot write another user's pages")
        return
    nobody = 65534
    process, port = exporter(user=nobody, group=nobody, extra_groups=[])
    parsed = scrape(port)
    check("another user's pages are counted but not shown",
          parsed.value("mrail_exporter_refused_files", reason="other_user") ==
          RANKS and not parsed.values("mrail_process_up") and
          "fixture" not in str(parsed.samples), parsed.samples)
    terminate(process, "another user's exporter exits")


def test_killed():
    job = pages("killed", 1)
    process, port = exporter("--keep", "2")
    job.kill()
    job.wait()
    check("a killed process is shown as ended", eventually(
        lambda: scrape(port).value("mrail_process_up", mpi_job="killed") == 0))
    parsed = scrape(port)
    check("the counters of a killed process remain", parsed.value(
        "mrail_rail_bytes_total", mpi_job="killed", rail="mlx5_0:1") > 0)
    check("the rails of a killed process do not remain",
          not parsed.values("mrail_rail_up", mpi_job="killed"))
    check("a killed process is left out after --keep", eventually(
        lambda: not scrape(port).values("mrail_process_up", mpi_job="killed")))
    check("and is counted", scrape(port).value(
        "mrail_exporter_left_out_processes", reason="ended") == 1)
    for name in os.listdir(DIR):
        if ".%d." % job.pid in name:
            os.remove(os.path.join(DIR, name))
    terminate(process, "the exporter exits")


def test_many_ended(port):
    """The files have the header and the size of a killed process's files."""
    source = [name for name in os.listdir(DIR) if not name.endswith(".calls")][0]
    with open(os.path.join(DIR, source), "rb") as stream:
        head = stream.read(64)
        size = os.fstat(stream.fileno()).st_size
    for i in range(1000):
        with open(PAGE_ANY % (5, i), "wb") as stream:
            stream.write(head)
            stream.truncate(size)
        os.utime(PAGE_ANY % (5, i), (1, 1))
    parsed = scrape(port)
    check("1000 processes that ended long ago are only counted",
          parsed.value("mrail_exporter_left_out_processes",
                       reason="ended") >= 1000 and
          parsed.value("mrail_exporter_processes") == RANKS,
          parsed.values("mrail_exporter_left_out_processes"))
    for i in range(1000):
        os.remove(PAGE_ANY % (5, i))


def test_limits():
    others = [pages("job%d" % i, 2) for i in range(3)]
    process, port = exporter("--max-jobs", "2", "--max-ranks", "1")
    parsed = scrape(port)
    check("--max-jobs and --max-ranks",
          parsed.value("mrail_exporter_jobs") == 2 and
          parsed.value("mrail_exporter_processes") == 2 and
          parsed.value("mrail_exporter_left_out_jobs") == 2 and
          parsed.value("mrail_exporter_left_out_processes",
                       reason="limit") == RANKS + 6 - 2,
          {k: v for k, v in parsed.samples.items() if "exporter" in k[0]})
    terminate(process, "the exporter exits")
    for other in others:
        end(other)


def test_vanishing(port):
    """Files appear and vanish during scrapes, even in the middle of one."""
    names = [PAGE_ANY % (9, i) for i in range(40)]
    source = [name for name in os.listdir(DIR) if not name.endswith(".calls")][0]
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for name in names:
                os.link(os.path.join(DIR, source), name)
            for name in names:
                os.remove(name)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        parsed = [scrape(port) for _ in range(30)]
    finally:
        stop.set()
        thread.join()
    check("files that vanish during a scrape are tolerated", all(
        len(s.values("mrail_process_up")) == RANKS for s in parsed))


def test_directory():
    directory = os.path.join(DIR, "absent")
    done = subprocess.run([EXPORTER, "--dir", directory], capture_output=True,
                          text=True, timeout=10)
    check("a directory that does not exist: a message and status 1",
          done.returncode == 1 and done.stderr ==
          "mrail exporter: cannot read %s: No such file or directory\n" %
          directory, done)
    os.mkdir(directory)
    process, line = start(EXPORTER, "--listen", "0", "--dir", directory)
    port = int(line.rsplit(":", 1)[1].split("/")[0])
    os.rmdir(directory)
    status, _, text = request(port)
    check("a directory that is removed later: 503",
          status == 503 and text == "the telemetry pages cannot be read\n",
          (status, text))
    os.mkdir(directory)
    check("a directory that is restored: 200", request(port)[0] == 200)
    os.rmdir(directory)
    terminate(process, "the exporter exits")


def test_slow_clients(port):
    """More clients than connections, which send nothing."""
    clients = []
    for _ in range(50):
        clients.append(socket.create_connection(("127.0.0.1", port)))
        time.sleep(0.01)
    check("slow clients do not block other clients", request(port)[0] == 200)
    for client in clients:
        client.close()
    idle = socket.create_connection(("127.0.0.1", port), timeout=30)
    begun = time.monotonic()
    while time.monotonic() < begun + 30:
        try:
            idle.send(b"G")
            idle.settimeout(0.5)
            if idle.recv(1) == b"":
                break
        except TimeoutError:
            pass
        except OSError:
            break
    took = time.monotonic() - begun
    check("a slow client is disconnected after ten seconds", 9 < took < 20, took)
    idle.close()


def test_end_during_scrapes():
    """Every answer must be complete or absent."""
    process, port = exporter()
    partial, complete = [], []
    stop = threading.Event()

    def client():
        while not stop.is_set():
            try:
                _, _, text = request(port)
                Scrape(text)
                complete.append(1)
            except (ConnectionError, TimeoutError):
                pass
            except Exception as error:  # an answer that is not complete
                partial.append(error)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(complete) > 8)
    terminate(process, "SIGTERM during scrapes: the exporter exits with status 0")
    stop.set()
    for thread in threads:
        thread.join()
    check("every answer was complete", not partial and len(complete) > 8,
          (partial[:3], len(complete)))


def main():
    job = pages("fixture")
    process, port = exporter()
    test_requests(port)
    test_bad_requests(port)
    test_counters(port)
    test_lanes()
    test_port_in_use(port)
    test_other_files(port)
    test_other_user()
    test_killed()
    test_many_ended(port)
    test_limits()
    test_vanishing(port)
    test_directory()
    test_end_during_scrapes()
    test_slow_clients(port)
    end(job)
    check("a job that ends disappears", eventually(
        lambda: not scrape(port).values("mrail_process_up",
                                        mpi_job="fixture")))
    terminate(process, "SIGTERM: the exporter exits with status 0")
    finish()


try:
    main()
finally:
    for child in STARTED:
        if child.poll() is None:
            child.kill()
