"""Faults that are planted in MPI jobs, and the answers of mrail diagnose to them.

CASES has a row for each fault. run() starts a job, plants the fault, and compares
the answer with the right one. A seed chooses the rank or rail, the size of the
messages, and the times of the fault and of the answer.

test/mpi/diagnose_cases.py runs the cases as a test. The area operators of
contrib/bench counts the answers.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
from typing import NamedTuple, Optional, Tuple

# The answers of mrail diagnose: the member "culprit" of its JSON.
COLUMNS = ('compute', 'rank', 'rail', 'path', 'uplink', 'none')
RANKS = 4
RAILS = 2
UPLINKS = 4
START_LIMIT_S = 60
LAB_LIMIT_S = 150
# Messages of at least 64 KiB are chunks, which telemetry records one by one.
SIZES = (1 << 10, 64 << 10, 256 << 10, 1 << 20)
CHUNKS = (256 << 10, 512 << 10, 1 << 20)
# A rank has no core of its own if it waits for one for more than this share of the
# time.
BUSY = 0.3


class Case(NamedTuple):
    """A fault, and the right answer.

    title: a row of the table. culprit: one of COLUMNS. cause: the cause of the
    finding, or None if there must be no finding. subject: 'rank', 'rail' or
    'uplink' if only the planted one is right; None if any is. program: the case
    of mpi_diagnose. setting: of mrail soft ctl, for the planted rail. sizes:
    bytes of a message. rounds: the fault begins in one of these rounds of the
    job. wait_s: from the fault to the answer. has_load: other processes
    compute on all cores. in_lab: the job runs in a lab with UPLINKS uplinks.
    needs_idle: if other processes use the cores, these limit the job, and the
    fault does not delay it.
    """
    title: str
    culprit: str = 'none'
    cause: Optional[str] = None
    subject: Optional[str] = None
    program: str = 'healthy'
    ranks: int = RANKS
    setting: Optional[str] = None
    sizes: Tuple = SIZES
    rounds: Tuple = (20, 120)
    wait_s: Tuple = (5, 7)
    has_load: bool = False
    in_lab: bool = False
    needs_idle: bool = False


def rank_case(title, program, cause='compute', subject='rank', **others):
    culprit = 'compute' if cause in ('compute', 'cores') else 'rank'
    return Case(title, culprit, cause, subject, program, **others)


def rail_case(title, setting, cause, culprit='rail', **others):
    return Case(title, culprit, cause, 'rail', setting=setting, sizes=CHUNKS,
                **others)


LAB = {'sizes': CHUNKS[:-1], 'rounds': (10, 30), 'in_lab': True}
CASES = {
    'healthy': Case('healthy job', wait_s=(1, 5)),
    'loaded': Case('healthy job, cores oversubscribed', wait_s=(1, 5),
                   has_load=True),
    'healthy-lab': Case('healthy job over uplinks', wait_s=(4, 6), **LAB),
    'stopped': rank_case('stopped rank', 'stopped', 'stopped'),
    'compute': rank_case('rank in a long computation', 'compute'),
    'late': rank_case('rank that computes longer in each round', 'late', ranks=2,
                      sizes=SIZES[:-1]),
    'message': rank_case('rank that others await for a message', 'message'),
    'posted': rank_case('rank missing in a nonblocking call', 'posted'),
    'mismatch': rank_case('rank that calls another collective', 'mismatch',
                          'mismatch'),
    'crossed': rank_case('communicators used in another order', 'crossed',
                         'mismatch', None),
    'cores': rank_case('rank that shares its core', 'cores', 'cores', ranks=2),
    'slow-rail': rail_case('slow rail', 'rate=8M', 'rail-slow'),
    'port-down': rail_case('port that is down', 'down', 'rail-down',
                           wait_s=(2, 4)),
    'blackhole': rail_case('path without packets', 'blackhole=both', 'path',
                           'path'),
    'uplink': Case('slow uplink', 'uplink', 'uplink-slow', 'uplink', needs_idle=True,
                   **LAB),
}


class Tools(NamedTuple):
    """mrail: the command. build: directory of the test programs. tmp: where
    jobs keep their files; None for the usual place."""
    mrail: str
    build: str
    tmp: Optional[str] = None


class Choice:
    """The choices of a seed, and the subject that is right with them."""

    def __init__(self, name, seed):
        case = CASES[name]
        choose = random.Random(f'{name} {seed}')
        self.rank = choose.randrange(case.ranks)
        self.rail = choose.randrange(RAILS)
        self.node = choose.randrange(2)
        self.leaf = choose.randrange(1, 3)
        self.uplink = choose.randrange(UPLINKS)
        self.size = choose.choice(case.sizes)
        self.round = choose.randrange(*case.rounds)
        self.wait_s = round(choose.uniform(*case.wait_s), 1)
        self.load = (choose.randint(1, 2 * os.cpu_count()) if case.has_load
                     else 0)
        self.subject = {'rank': f'rank {self.rank}',
                        'rail': f'rail soft{self.rail}:1',
                        'uplink': f'uplink {self.uplink} of rail soft0:1',
                        None: None}[case.subject]

    def words(self):
        return (f'{self.size} bytes, round {self.round}, answer after '
                f'{self.wait_s} s, {self.load} other processes')


class Outcome(NamedTuple):
    """An answer, as a dictionary for --json.

    accused: one of COLUMNS, from the first finding. cause: of this finding;
    "failed" without an answer. right: cause and subject are right. is_busy: other processes used the cores of the job, so that its
    ranks really waited for a core. seconds: time to the answer.
    """
    case: str
    seed: int
    planted: Optional[str]
    accused: str
    cause: Optional[str]
    subject: Optional[str]
    right: bool
    is_busy: bool
    seconds: float
    answer: dict


def outcome(name, seed, choice, answer, seconds):
    """Compares an answer, the object of mrail diagnose --json, with the planted
    fault. Pure."""
    case, findings = CASES[name], answer['findings']
    first = findings[0] if findings else {'cause': None, 'subject': None}
    right = first['cause'] == case.cause and (
        choice.subject is None or first['subject'] == choice.subject)
    return Outcome(name, seed, choice.subject, answer['culprit'],
                   first['cause'], first['subject'], right,
                   is_busy(case, choice, answer), round(seconds, 2), answer)


def no_answer(name, seed):
    """Returns the Outcome if mrail diagnose fails, which is never right. Pure."""
    return Outcome(name, seed, Choice(name, seed).subject, 'none', 'failed', None,
                   False, False, 0.0, {'findings': [], 'ranks': []})


def is_busy(case, choice, answer):
    """Returns whether a rank waited for a core that nothing planted took."""
    return any(rank['waits'] is not None and rank['waits'] > BUSY and
               not (case.cause == 'cores' and rank['rank'] == choice.rank)
               for rank in answer['ranks'])


class JobError(Exception):
    """The job does not start."""


class AnswerError(Exception):
    """mrail diagnose fails."""


class Load:
    """Other processes that compute while a job runs."""

    def __init__(self, number):
        self.processes = [subprocess.Popen(
            ['timeout', '300', 'sh', '-c', 'while :; do :; done'])
            for _ in range(number)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
            process.wait()


class Job:
    """A job in a directory of its own. The command and its output are those of
    a subclass."""

    def __init__(self, tools, name, seed, choice):
        self.tools, self.case, self.choice = tools, CASES[name], choice
        self.dir = tempfile.mkdtemp(prefix='diagnose-', dir=tools.tmp)
        self.session = f'd{os.getpid()}-{name}-{seed}'
        self.log = pathlib.Path(self.dir, 'out')
        self.output = open(self.log, 'w', encoding='utf-8')
        self.process, self.pids = None, []

    def start(self, command, **variables):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1',
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
        environment.pop('UCX_MRAIL_TELEMETRY_DIR', None)
        environment.update(variables)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=self.output,
                                        stderr=subprocess.STDOUT, env=environment)

    def program(self):
        return [os.path.join(self.tools.build, 'mpi_diagnose'),
                self.case.program, str(self.choice.rank), str(self.choice.round),
                str(self.choice.size)]

    def error(self, kind, why):
        text = self.log.read_text(encoding='utf-8', errors='replace')
        return kind(f'{why}\n{text}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the processes of this job, stopped ones included."""
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.process is not None:
            self.end_launcher()
        self.output.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def end_launcher(self):
        """Ends mpirun or the lab. mpirun ends by itself after its ranks."""
        try:
            self.process.wait(20 if self.pids else 0.1)
            return
        except subprocess.TimeoutExpired:
            self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class SoftJob(Job):
    """A job on the software rails of two nodes."""

    def begin(self):
        self.start([self.tools.mrail, 'run', '-np', str(self.case.ranks), '--soft',
                    f'2x{RAILS}', '--session', self.session, '--rate', '100M',
                    '-x', 'UCX_MRAIL_TELEMETRY_DIR', '--', *self.program()],
                   UCX_MRAIL_TELEMETRY_DIR=self.dir)
        end = time.monotonic() + START_LIMIT_S
        while 'under way' not in self.log.read_text(encoding='utf-8'):
            if time.monotonic() > end or self.process.poll() is not None:
                raise self.error(JobError, 'the job does not start')
            time.sleep(0.1)

    def plant(self):
        """Changes the planted rail."""
        if self.case.setting:
            subprocess.run(
                [self.tools.mrail, 'soft', 'ctl', '--session', self.session,
                 '--node', str(self.choice.node), '--rail', str(self.choice.rail),
                 self.case.setting], check=True, stdin=subprocess.DEVNULL)

    def answer(self):
        """Returns the object of mrail diagnose, and the seconds that it took."""
        self.begin()
        self.plant()
        time.sleep(self.choice.wait_s)
        begun = time.monotonic()
        done = subprocess.run([self.tools.mrail, 'diagnose', '--json', '--dir',
                               self.dir], check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=self.output)
        seconds = time.monotonic() - begun
        if done.returncode != 0:
            raise self.error(AnswerError, 'mrail diagnose fails')
        answer = json.loads(done.stdout)
        self.pids = [rank['pid'] for rank in answer['ranks'] if rank['alive']]
        return answer, seconds


# Two leaves and four spines. The NICs and uplinks are slow, so that the links
# limit the job, and not the cores of this machine.
FABRIC = '''host h[1-4]
leaf l[1-2]
spine s[1-4]
link h[1-2] l1 10MB
link h[3-4] l2 10MB
'''
UPLINK_MB, SLOW_UPLINK_MB = 5, 1
NO_ANSWER = 3  # exit status of LAB_SCRIPT
# The lab has its own /dev/shm, and the job ends with the lab.
LAB_SCRIPT = '''
dir=$1 wait=$2 ranks=$3
shift 3
: >"$dir/job"
"$mrail" run -np "$ranks" --soft lab -- "$@" >"$dir/job" 2>&1 &
while ! grep -q 'under way' "$dir/job"; do
    kill -0 $! 2>/dev/null || { cat "$dir/job"; exit 1; }
    sleep 0.1
done
sleep "$wait"
begun=$(date +%s.%N)
"$mrail" diagnose --json --dir /dev/shm >"$dir/answer" || exit 3
echo "$begun $(date +%s.%N)" >"$dir/times"
'''


class LabJob(Job):
    """A job in a lab, with a rank on each of four hosts."""

    def fabric(self):
        """Returns the text of the fabric. Only the planted uplink is slow."""
        slow = ((self.choice.leaf, self.choice.uplink)
                if self.case.cause == 'uplink-slow' else None)
        return FABRIC + ''.join(
            f'link l{leaf} s{uplink + 1} '
            f'{SLOW_UPLINK_MB if (leaf, uplink) == slow else UPLINK_MB}MB\n'
            for leaf in (1, 2) for uplink in range(UPLINKS))

    def answer(self):
        directory = pathlib.Path(self.dir)
        (directory / 'fabric').write_text(self.fabric(), encoding='ascii')
        self.start([self.tools.mrail, 'lab', str(directory / 'fabric'), '--quiet',
                    '--routing', 'rules', '--', 'sh', '-c', LAB_SCRIPT, 'sh',
                    self.dir, str(self.choice.wait_s), str(self.case.ranks),
                    *self.program()], mrail=self.tools.mrail)
        try:
            status = self.process.wait(LAB_LIMIT_S)
        except subprocess.TimeoutExpired as exc:
            raise self.error(JobError, 'the lab does not end') from exc
        if status != 0:
            raise self.error(AnswerError if status == NO_ANSWER else JobError,
                             f'exit status {status} of the lab')
        begun, ended = (directory / 'times').read_text(encoding='ascii').split()
        answer = json.loads((directory / 'answer').read_text(encoding='utf-8'))
        return answer, float(ended) - float(begun)


def can_run_labs(tools):
    """Returns whether this machine can build a lab."""
    with tempfile.TemporaryDirectory(dir=tools.tmp) as directory:
        fabric = pathlib.Path(directory, 'fabric')
        fabric.write_text('host h1\nleaf l1\nlink h1 l1 100MB\n', encoding='ascii')
        done = subprocess.run([tools.mrail, 'lab', str(fabric), '--quiet', '--',
                               'true'], check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def run(tools, name, seed):
    """Plants a fault. Returns an Outcome. Raises JobError or AnswerError."""
    choice = Choice(name, seed)
    kind = LabJob if CASES[name].in_lab else SoftJob
    with Load(choice.load), kind(tools, name, seed, choice) as job:
        answer, seconds = job.answer()
    return outcome(name, seed, choice, answer, seconds)


def table(titles, outcomes):
    """Returns the lines of the confusion table: a row for each case, a column
    for each of COLUMNS, and the number of right answers.

    titles: {case: title of its row}. outcomes: dictionaries as of --json.
    """
    width = max(map(len, titles.values()))
    lines = ['planted'.ljust(width) + ''.join(c.rjust(9) for c in COLUMNS)
             + '    right']
    for case, title in titles.items():
        rows = [item for item in outcomes if item['case'] == case]
        if rows:
            cells = [sum(item['accused'] == column for item in rows)
                     for column in COLUMNS]
            lines.append(title.ljust(width) +
                         ''.join(str(cell or '.').rjust(9) for cell in cells) +
                         f"{sum(item['right'] for item in rows):>5}/{len(rows)}")
    return lines
