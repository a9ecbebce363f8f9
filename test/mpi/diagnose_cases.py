#!/usr/bin/env python3
"""Plants faults in jobs on software rails, and compares the output of mrail diagnose.

Each case runs with several seeds, which choose the rank, the rail and the round of
the fault. The confusion table has a row for each case and a column for each answer.
With --tap, there is also a result for each case, as a test writes it.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
RAILS = 2

# case: ranks, the cause that is right, the subject that is right, rail setting
CASES = {
    'healthy': (RANKS, 'none', None, None),
    'stopped': (RANKS, 'stopped', 'rank', None),
    'compute': (RANKS, 'compute', 'rank', None),
    'late': (2, 'compute', 'rank', None),
    'mismatch': (RANKS, 'mismatch', 'rank', None),
    'crossed': (RANKS, 'mismatch', None, None),
    'message': (RANKS, 'compute', 'rank', None),
    'posted': (RANKS, 'compute', 'rank', None),
    'cores': (2, 'cores', 'rank', None),
    'slow-rail': (RANKS, 'rail-slow', 'rail', 'rate=8M'),
    'port-down': (RANKS, 'rail-down', 'rail', 'down'),
    'blackhole': (RANKS, 'path', 'rail', 'blackhole=both'),
}
# Time from the fault to the diagnosis.
TRIES = 3  # while other processes use the cores
WAIT_S = {'port-down': 2}


class Job:
    """A job on software rails, in a directory of its own."""

    def __init__(self, options, case, seed):
        self.mrail = options.mrail
        self.dir = tempfile.mkdtemp(prefix='diagnose-', dir=options.tmp)
        self.session = f'd{os.getpid()}-{case}-{seed}'
        choice = random.Random(seed)
        ranks, self.cause, subject, self.setting = CASES[case]
        self.rank = choice.randrange(ranks)
        self.rail = choice.randrange(RAILS)
        self.node = choice.randrange(2)
        subjects = {'rank': f'rank {self.rank}', 'rail': f'rail soft{self.rail}:1'}
        self.subject = subjects.get(subject)
        program = 'healthy' if self.setting else case
        environment = dict(os.environ, UCX_MRAIL_TELEMETRY_DIR=self.dir,
                           OMPI_ALLOW_RUN_AS_ROOT='1',
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
        command = [self.mrail, 'run', '-np', str(ranks), '--soft', f'2x{RAILS}',
                   '--session', self.session, '--rate', '100M',
                   '-x', 'UCX_MRAIL_TELEMETRY_DIR', '--',
                   os.path.join(options.build, 'mpi_diagnose'), program,
                   str(self.rank), str(choice.randrange(30, 60))]
        self.output = open(os.path.join(self.dir, 'out'), 'w+', encoding='utf-8')
        self.process = subprocess.Popen(command, stdout=self.output,
                                        stderr=subprocess.STDOUT, env=environment)

    def await_under_way(self):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.output.name, encoding='utf-8') as stream:
                if 'under way' in stream.read():
                    return True
            time.sleep(0.1)
        return False

    def plant(self):
        """Changes the rail."""
        if self.setting:
            subprocess.run([self.mrail, 'soft', 'ctl', '--session', self.session,
                            '--node', str(self.node), '--rail', str(self.rail),
                            self.setting], check=True)

    def diagnose(self):
        """Returns the output of mrail diagnose, and the seconds that it took."""
        start = time.monotonic()
        text = subprocess.run([self.mrail, 'diagnose', '--json', '--dir', self.dir],
                              check=True, stdout=subprocess.PIPE).stdout
        return json.loads(text), time.monotonic() - start

    def end(self, pids):
        """Ends the processes of this job, stopped ones included."""
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        shutil.rmtree(self.dir)


def run(options, case, seed):
    """Returns the answer, whether it is right, and the seconds that it took.

    It is neither right nor wrong (None) if the machine cannot show the fault.
    """
    job = Job(options, case, seed)
    pids = []
    try:
        if not job.await_under_way():
            with open(job.output.name, encoding='utf-8') as stream:
                print(stream.read(), file=sys.stderr)
            return 'no job', False, 0
        job.plant()
        time.sleep(WAIT_S.get(case, 5))
        answer, seconds = job.diagnose()
        pids = [rank['pid'] for rank in answer['ranks'] if rank['alive']]
    finally:
        job.end(pids)
    if case == 'cores' and is_busy(answer, job.rank):
        return 'busy', None, seconds
    findings = answer['findings']
    first = findings[0] if findings else {'cause': 'none', 'subject': None}
    if case != 'cores' and first['cause'] == 'cores' and is_busy(answer, None):
        return 'busy', None, seconds  # true, but not what was planted
    right = first['cause'] == job.cause and (
        job.subject is None or first['subject'] == job.subject)
    if options.verbose or not right:
        print(f'# {case}, seed {seed}: planted {job.cause} {job.subject}, found '
              f'{json.dumps(findings)}')
        if not right:
            for rank in answer['ranks']:
                print(f'#   {json.dumps(rank)[:400]}')
    cause = first['cause']
    return cause if right or cause != job.cause else 'other ' + cause, right, seconds


def is_busy(answer, rank):
    """Returns whether other processes use the core of a rank other than this.

    Nobody can then say that this rank has no core because of the planted ones.
    """
    return any(other['rank'] != rank and other['waits'] > 0.3
               for other in answer['ranks'])


def print_table(answers):
    columns = sorted({answer for row in answers.values() for answer in row})
    print('# ' + 'planted'.ljust(12) + ''.join(c.rjust(max(11, len(c) + 2))
                                               for c in columns))
    for case, row in answers.items():
        print('# ' + case.ljust(12) + ''.join(
            str(row[c] or '.').rjust(max(11, len(c) + 2)) for c in columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seeds', type=int, default=20)
    parser.add_argument('--first', type=int, default=1, help='first seed')
    parser.add_argument('--case', action='append', choices=CASES)
    parser.add_argument('--tap', action='store_true')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('--mrail', default='build/stage/bin/mrail')
    parser.add_argument('--build', default='build')
    parser.add_argument('--tmp', default=None)
    options = parser.parse_args()
    answers, longest, wrong = {}, 0, 0
    for case in options.case or CASES:
        row = answers[case] = collections.Counter()
        failed = 0
        for seed in range(options.first, options.first + options.seeds):
            for _ in range(TRIES):
                answer, right, seconds = run(options, case, seed)
                if answer != 'busy':
                    break
            row[answer] += 1
            failed += right is False
            longest = max(longest, seconds)
        wrong += failed
        if options.tap:
            reason = (': see above' if failed else
                      ' # SKIP other processes use the cores' if row['busy'] else '')
            print(f'{"not " if failed else ""}ok - {case}: mrail diagnose is right'
                  f'{reason}', flush=True)
    print_table(answers)
    print(f'# longest answer: {longest:.2f} s')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
