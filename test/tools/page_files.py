"""Telemetry files of a job that does not exist, for tests and benchmarks."""

import os
import subprocess
import time


class Pages:
    """Runs exporter_pages for each of `groups`: its arguments RANKS and FIRST."""

    def __init__(self, program, directory, rails, lanes, groups):
        self.processes = []
        try:
            for ranks, *first in groups:
                self.processes.append(subprocess.Popen(
                    [program, directory, "timed", str(ranks), str(rails),
                     str(lanes), *map(str, first)], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, text=True))
            for process in self.processes:
                if process.stdout.readline() != "ready\n":
                    raise RuntimeError("exporter_pages does not start")
        except BaseException:
            self.end()
            raise

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def read_all(directory):
    """Reads all files once with read(2), and returns the time in seconds.

    This is the calibration: on a machine that is slower, a reader of these files
    takes longer as well.
    """
    begin = time.perf_counter()
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb", buffering=0) as stream:
            stream.read()
    return time.perf_counter() - begin
