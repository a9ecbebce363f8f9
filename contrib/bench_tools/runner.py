"""Runs programs for contrib/bench, with time limits, interleaving and progress."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Callable, NamedTuple, Optional

from . import figure, record, samples

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / 'build'
STAGE = BUILD / 'stage'
MRAIL = STAGE / 'bin' / 'mrail'
BENCH = STAGE / 'libexec' / 'mrail' / 'mrail-bench'
GRACE_S = 10        # seconds from SIGTERM to SIGKILL
QUIET_S = 30        # seconds between progress lines
# A job with stock UCX frees more than a GB. A virtual machine returns that
# memory to its host 2 s later, and then stalls for 30 ms out of every 100 for
# half a second.
MEMORY_WAIT_S = 3


class Installation(NamedTuple):
    """An mrail installation in a directory.

    suffix: appended to the names of its samples. runs_own_bench: jobs use the
    `mrail bench` of this installation instead of the one in this tree.
    """
    stage: pathlib.Path
    suffix: str = ''
    runs_own_bench: bool = True

    @property
    def mrail(self):
        return self.stage / 'bin' / 'mrail'

    @property
    def version_shim(self):
        """Returns the path of the library that loads the transport."""
        return next(self.stage.rglob('libuct_mrail.so.0'))


class Job(NamedTuple):
    """One job of a round: its name, and measure(round), which adds samples.

    rounds: the number of rounds in which the job takes part; None means all.
    is_baseline: the job serves only as a comparison with mrail as built now.
    """
    name: str
    measure: Callable[[int], None]
    rounds: Optional[int] = None
    is_baseline: bool = False


def interleaved(jobs, rounds):
    """Yields (round, job), with the jobs in reverse order in every other round.

    The two runs of a pair are therefore close in time, no job always runs
    first, and most neighbouring runs are of the same kind.
    """
    for i in range(rounds):
        for job in reversed(jobs) if i % 2 else jobs:
            if job.rounds is None or i < job.rounds:
                yield i, job


def in_words(seconds):
    """Formats a duration: '40 s', '3 min'."""
    if seconds < 90:
        return f'{max(seconds, 1):.0f} s'
    return f'{seconds / 60:.0f} min'


class Block(NamedTuple):
    """Interleaved jobs, and the figures computed from them.

    rounds: None means the number from --runs. figures: a list, or a function of
    the Bench that returns one after the jobs have run. section: the part of the
    page to which the figures belong. note: printed before the jobs start.
    """
    jobs: list
    figures: object = ()
    rounds: Optional[int] = None
    section: Optional[str] = None
    note: Optional[str] = None

    def num_jobs(self, runs):
        return sum(1 for _ in interleaved(
            self.jobs, runs if self.rounds is None else self.rounds))


# Options of `mrail bench`. All other options belong to `mrail run`.
BENCH_OPTIONS = {'--sizes', '--iterations', '--small-iterations', '--warmup', '--warmup-time',
                 '--window', '--hotspot', '--dst'}


def split_options(words):
    """Returns (options of `mrail run`, options of `mrail bench` for a rank)."""
    run, own = [], []
    words = iter(words)
    for word in words:
        if word in BENCH_OPTIONS:
            own += [word, next(words)]
        else:
            run.append(word)
    return run, own


class Area(NamedTuple):
    """An area: its title, and blocks(bench), which prepares its blocks.

    least_runs: the minimum number of runs. Some areas need more than five.
    """
    name: str
    title: str
    blocks: Callable
    notes: tuple = ()
    least_runs: int = 5


class Progress:
    """Counts finished jobs, and estimates the time left.

    The output goes to stderr, so that the table stays clean.
    """

    def __init__(self, out=sys.stderr, clock=time.monotonic):
        self.out, self.clock = out, clock
        self.start = self.shown = clock()
        self.done = self.total = 0
        self.area = ''

    def begin(self, area, total):
        self.area, self.total, self.done = area, total, 0
        self.start = self.shown = self.clock()

    def step(self):
        """Counts a finished job. Prints a progress line if the previous line was
        printed some time ago."""
        self.done += 1
        now = self.clock()
        if self.done < self.total and now - self.shown >= QUIET_S:
            self.shown = now
            print(self.line(now), file=self.out, flush=True)

    def line(self, now):
        """Returns a line with the number of finished jobs and the time left,
        estimated from the mean time per job."""
        each = (now - self.start) / max(self.done, 1)
        left = in_words(each * (self.total - self.done))
        return f'{self.area}: {self.done} of {self.total} jobs, about {left} left'


def end(process):
    """Terminates a process and all other processes of its process group."""
    try:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(process.pid, sign)
            limit = time.monotonic() + GRACE_S
            while time.monotonic() < limit:
                process.poll()
                os.killpg(process.pid, 0)  # raises if no process is left
                time.sleep(0.01)
    except ProcessLookupError:
        pass
    process.wait()


def processors():
    """Returns (busy, all): the processor time of this machine in jiffies.
    Source: proc(5)."""
    with open('/proc/stat', encoding='ascii') as file:
        user, nice, system, idle, iowait, irq, softirq = map(
            int, file.readline().split()[1:8])
    busy = user + nice + system + irq + softirq
    return busy, busy + idle + iowait


def load_since(before):
    """Returns the busy fraction of the time since an earlier result of
    processors()."""
    busy, total = (b - a for a, b in zip(before, processors()))
    return busy / total if total else 0.0


class Bench:
    """The state that areas share: samples, figures, failures, and jobs with a
    time limit."""

    def __init__(self, runs, out=sys.stdout, quick=False):
        self.runs = self.requested_runs = runs
        self.quick = quick
        self.installation = Installation(STAGE)
        self.against = None  # an Installation to use instead of baselines
        self.better = {}     # with it: 'more' or 'less' for each figure
        self.out = out
        self.id = os.getpid()
        self.failed = False
        self.progress = Progress()
        self.was_stock = False
        self.area, self.dir = None, None
        self.samples, self.shares, self.figures = {}, {}, []
        self.observations = []
        self.section = None
        self.rounds = runs

    def say(self, words=''):
        print(words, file=self.out, flush=True)

    def fail(self, why, detail=''):
        """Prints a failure, and makes the exit status 1."""
        self.failed = True
        self.say(f'failed: {why}')
        for line in detail.splitlines():
            self.say(line)

    def begin(self, area):
        """Starts an area, with no samples and no figures yet."""
        self.area, self.dir = area, BUILD / 'bench' / area
        self.dir.mkdir(parents=True, exist_ok=True)
        for old in self.dir.iterdir():
            if old.is_file():
                old.unlink()
        self.samples, self.shares, self.figures = {}, {}, []
        self.observations = []
        self.section = None

    def measure(self, area):
        """Measures an area, prints its table, and writes its JSON list."""
        self.begin(area.name)
        self.say(f'{area.name}: {area.title}')
        for note in area.notes:
            self.say(note)
        self.runs = max(self.requested_runs, area.least_runs)
        try:
            blocks = area.blocks(self)
            record.check_sections(area.name, {block.section for block in blocks
                                              if block.section})
        except (ValueError, OSError) as error:
            self.fail(f'{area.name}: {error}')
            return
        self.progress.begin(area.name,
                            sum(block.num_jobs(self.runs) for block in blocks))
        self.say(figure.HEADER)
        for block in blocks:
            self.section = block.section
            if block.note:
                self.say(block.note)
            self.interleave(block.jobs, block.rounds)
            made = block.figures
            self.show(*(made(self) if callable(made) else made))
        self.finish()

    def add(self, name, sample, at):
        """Adds one sample to a name, for round `at`."""
        self.samples.setdefault(name + self.installation.suffix, {})[at] = sample

    @contextlib.contextmanager
    def using(self, installation):
        """Makes the jobs inside a `with` statement run this installation."""
        before, self.installation = self.installation, installation
        try:
            yield
        finally:
            self.installation = before

    def interleave(self, jobs, rounds=None):
        """Runs the jobs in all rounds. The figures computed from them are shown
        later."""
        self.rounds = self.runs if rounds is None else rounds
        for at, job in interleaved(jobs, self.rounds):
            self.attempt(job, at)
            self.progress.step()

    def attempt(self, job, at):
        """Runs a job. If a baseline fails, it runs once more, so that a defect of
        the baseline does not void the area; the page then mentions it."""
        try:
            try:
                job.measure(at)
            except (ValueError, OSError) as error:
                if not job.is_baseline:
                    raise
                reason = str(error).splitlines()[0].split(':')[0]
                self.observe(f'Run {at + 1} of {job.name}, a baseline, failed '
                             f'({reason}) and was repeated.')
                job.measure(at)
        except (ValueError, OSError) as error:
            self.fail(f'{self.area}, {job.name}: {error}')

    def paired(self, own, other):
        """Returns the samples stored under two names, in the order of rounds.

        A round in which only one of the two was measured is omitted, so that
        the values remain paired.
        """
        own = self.samples.get(own, {})
        if other is None:
            return [own[at] for at in sorted(own)], []
        other = self.samples.get(other, {})
        both = sorted(set(own) & set(other))
        return [own[at] for at in both], [other[at] for at in both]

    def show(self, *figures):
        """Evaluates figures, and prints a table row for each."""
        for item in figures:
            if item.section is None:
                item = item._replace(section=self.section)
            own, other = self.paired(item.own, item.other)
            wanted = self.rounds if item.wanted is None else item.wanted
            result, error = figure.evaluate(
                item, own, other, wanted, self.shares.get(item.planned, ()))
            if error is not None:
                self.fail(error)
            if result is not None:
                try:
                    if item.beside:
                        result['beside'] = figure.values_beside(item,
                                                                self.samples)
                except ValueError as exc:
                    self.fail(str(exc))
                self.figures.append(result)
                self.say(figure.row(result))

    def observe(self, words):
        """Adds a sentence about an observation that is not a figure. --record
        stores the sentence."""
        self.observations.append(words)
        self.say(words)

    def finish(self):
        """Writes the area's JSON list."""
        kind = '' if self.against is None else '-against'
        path = BUILD / 'bench' / f'{self.area}{kind}.json'
        path.write_text(figure.as_list(self.figures), encoding='utf-8')
        self.say(f'written: {path.relative_to(TOP)}')
        self.say()

    def wait_for_memory(self, command):
        """Waits until the memory of a job with stock UCX has been returned."""
        is_stock = any(str(word).startswith('--stock') for word in command)
        if self.was_stock and not is_stock:
            time.sleep(MEMORY_WAIT_S)
        self.was_stock = is_stock

    def start(self, command, out='out', err='err', env=None):
        """Starts a process whose output goes to files of the area.

        err: name of the file for stderr, or None to write it to `out`.
        """
        with contextlib.ExitStack() as files:
            stdout = files.enter_context(open(self.dir / out, 'wb'))
            stderr = subprocess.STDOUT
            if err is not None:
                stderr = files.enter_context(open(self.dir / err, 'wb'))
            return subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr,
                env=dict(os.environ, **(env or {})), start_new_session=True,
                close_fds=False)

    def wait(self, process, limit_s):
        """Returns the exit status, or None if the job exceeded the time limit
        and was terminated."""
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            end(process)
            return None
        except BaseException:
            end(process)
            raise

    def text(self, name):
        return (self.dir / name).read_text(encoding='utf-8', errors='replace')

    def run(self, command, limit_s=120, env=None, err='err'):
        """Returns the output of a command. Raises ValueError if it failed."""
        self.wait_for_memory(command)
        process = self.start(command, err=err, env=env)
        status = self.wait(process, limit_s)
        if status != 0:
            why = f'still running after {limit_s} s' if status is None \
                else f'exit status {status}'
            said = self.text(err or 'out').splitlines()[:10]
            line = ' '.join(map(str, command))
            raise ValueError('\n'.join([f'{why}: {line}'] + said))
        return self.text('out')

    def pick(self, name, at, objects, field, scale=1.0, **skew):
        """Adds a sample taken from the objects of `mrail bench`; see
        samples.pick_object()."""
        try:
            item = samples.pick_object(objects, **skew)
            self.add(name, samples.sample_of(item, field, scale), at)
        except ValueError as error:
            self.fail(f'{name}: {error}')

    def share(self, name, objects, **skew):
        """Adds the planned fraction of an exchange. Fractions are averaged, not
        paired. Another commit does not have a fraction, because it may name its
        counters differently."""
        if self.installation.suffix:
            return
        try:
            item = samples.pick_object(objects, **skew)
            sample = samples.sample_of(item, 'planned')
            self.shares.setdefault(name + self.installation.suffix, []).append(
                sample.value)
        except ValueError as error:
            self.fail(f'{name}: {error}')

    def objects(self, area, *options):
        """Runs `mrail bench AREA ... --json`, and returns its objects."""
        used = self.installation
        command = [used.mrail, 'bench', area, *options, '--json']
        if not used.runs_own_bench:
            run, own = split_options(options)
            command = [used.mrail, 'run', *run, '--', BENCH, area, *own,
                       '--json']
        return samples.bench_objects(self.run(command))


def cpu_model():
    """Returns the name of the processor from /proc/cpuinfo."""
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        match = re.search(r'^model name\s*: (.+)$', file.read(), re.M)
    return match.group(1) if match else 'unknown processor'
