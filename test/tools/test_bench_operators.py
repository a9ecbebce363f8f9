"""Tests of the area operators of contrib/bench, and of the planted faults that it
counts (test/mpi/planted_faults.py).

    python3 test/tools/test_bench_operators.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True

from bench_lines import TOP, bench_in, main  # noqa: E402
from bench_tools import operators_area, record

import planted_faults  # noqa: E402 (operators_area adds the path)
from planted_faults import CASES, COLUMNS, Choice


def answer(cause=None, subject=None, culprit='none', waits=(0, 0, 0, 0)):
    """Returns an object of mrail diagnose --json with at most one finding."""
    findings = [{'cause': cause, 'subject': subject}] if cause else []
    return {'culprit': culprit, 'findings': findings,
            'ranks': [{'rank': i, 'waits': wait} for i, wait in enumerate(waits)]}


def outcome(name, found, seed=1):
    return planted_faults.outcome(name, seed, Choice(name, seed), found, 0.8)


def right_answer(name, seed):
    """Returns the object of diagnose_cases.py --json for a right answer."""
    case, choice = CASES[name], Choice(name, seed)
    found = answer(case.cause, choice.subject, case.culprit)
    return outcome(name, found, seed)._asdict()


class Planted(unittest.TestCase):
    def test_cases(self):
        """planted faults: each case has a right answer that can be given"""
        causes = set(re.findall(r'= \{"([a-z-]+)",', (
            TOP / 'src' / 'tools' / 'diagnose_check.c').read_text()))
        programs = set(re.findall(r'^    \{"([a-z]+)", ', (
            TOP / 'test' / 'mpi' / 'mpi_diagnose.c').read_text(), re.M))
        self.assertIn('stopped', causes & programs)
        for name, case in CASES.items():
            self.assertIn(case.culprit, COLUMNS, name)
            self.assertEqual(case.cause is None, case.culprit == 'none', name)
            self.assertIn(case.cause, causes | {None}, name)
            self.assertIn(case.program, programs, name)
            self.assertNotIn(': ', case.title)
        self.assertEqual(len({case.title for case in CASES.values()}), len(CASES))

    def test_seeds(self):
        """planted faults: a seed is repeatable, and seeds differ"""
        for name in CASES:
            self.assertEqual(Choice(name, 7).words(), Choice(name, 7).words())
            self.assertGreater(len({Choice(name, seed).words()
                                    for seed in range(20)}), 10)
        self.assertEqual({Choice('stopped', seed).subject for seed in range(40)},
                         {f'rank {rank}' for rank in range(4)})
        self.assertEqual({Choice('slow-rail', seed).subject for seed in range(20)},
                         {'rail soft0:1', 'rail soft1:1'})

    def test_right(self):
        """planted faults: cause and subject of the first finding count"""
        rank = Choice('compute', 1).rank
        self.assertTrue(outcome('compute', answer('compute', f'rank {rank}',
                                                  'compute')).right)
        other = outcome('compute', answer('compute', f'rank {rank ^ 1}', 'compute'))
        self.assertFalse(other.right)
        self.assertEqual(other.accused, 'compute')
        self.assertFalse(outcome('compute', answer('cores', f'rank {rank}',
                                                   'compute')).right)
        self.assertFalse(outcome('compute', answer()).right)
        self.assertTrue(outcome('healthy', answer()).right)
        self.assertFalse(outcome('healthy', answer('path', 'rail soft0:1',
                                                   'path')).right)
        self.assertTrue(outcome('crossed', answer('mismatch', 'rank 0',
                                                  'rank')).right)

    def test_busy(self):
        """planted faults: a core that is taken from another rank is noticed"""
        rank = Choice('cores', 1).rank
        waits = [0.9 if i == rank else 0.1 for i in range(2)]
        self.assertFalse(outcome('cores', answer(waits=waits)).is_busy)
        self.assertTrue(outcome('cores', answer(waits=waits[::-1])).is_busy)
        self.assertTrue(outcome('compute', answer(waits=(0, None, 0.4, 0))).is_busy)

    def test_fabric(self):
        """planted faults: exactly the planted uplink of a lab is slow"""
        tools = planted_faults.Tools('mrail', 'build')
        for name, slow in (('uplink', 1), ('healthy-lab', 0)):
            choice = Choice(name, 5)
            with planted_faults.LabJob(tools, name, 5, choice) as job:
                text = job.fabric()
            self.assertEqual(len(re.findall(r'^link l', text, re.M)), 8)
            self.assertEqual(text.count(f' {planted_faults.SLOW_UPLINK_MB}MB'),
                             slow)
        self.assertIn(f'link l{choice.leaf} s{choice.uplink + 1} ', text)


class Operators(unittest.TestCase):
    def run_faults(self, bench, wrong=(), absent=()):
        """Runs the block of planted faults. wrong: answers by case and seed.
        absent: cases and seeds of jobs that do not start."""
        def run(command, *_):
            words = [str(word) for word in command]
            name = words[words.index('--case') + 1]
            seed = int(words[words.index('--first') + 1])
            if (name, seed) in absent:
                raise ValueError('exit status 1: diagnose_cases.py')
            return json.dumps(wrong.get((name, seed), right_answer(name, seed)))
        bench.run = run
        with unittest.mock.patch.object(planted_faults, 'can_run_labs',
                                        lambda _: True):
            block, = operators_area.fault_blocks(bench)
        bench.section = block.section
        bench.interleave(block.jobs, block.rounds)
        bench.show(*block.figures(bench))

    def test_right(self):
        """operators: all answers are right; the targets are reached"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            self.run_faults(bench, {})
        self.assertFalse(bench.failed, bench.out.getvalue())
        found = {item['what']: item for item in bench.figures}
        planted = 20 * len([c for c in CASES.values() if c.cause])
        item = found[f'{planted} planted faults, named with the right rank or rail']
        self.assertEqual((item['value'], item['ok']), (100, True))
        item = found['accusations in 100 of them under load']
        self.assertEqual((item['value'], item['target'], item['ok']),
                         (0, '<= 0', True))
        self.assertEqual(found['stopped rank: rank']['value'], 20)
        self.assertEqual(found['stopped rank: none']['value'], 0)

    def test_wrong(self):
        """operators: a wrong accusation is counted, and misses its target"""
        wrong = {('loaded', 3): outcome('loaded', answer(
            'compute', 'rank 1', 'compute'), 3)._asdict()}
        for seed in range(1, 16):
            wrong[('slow-rail', seed)] = outcome('slow-rail', answer(),
                                                 seed)._asdict()
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            self.run_faults(bench, wrong)
        found = {item['what']: item for item in bench.figures}
        planted = 20 * len([c for c in CASES.values() if c.cause])
        self.assertEqual(
            (found['accusations in 100 of them under load']['value'],
             found['accusations in 100 of them under load']['ok']), (1, False))
        item = found[f'{planted} planted faults, named with the right rank or rail']
        self.assertAlmostEqual(item['value'], 100 * (planted - 15) / planted, 2)
        self.assertIs(item['ok'], item['value'] >= 95)
        self.assertEqual(found['slow rail: none']['value'], 15)
        self.assertEqual(found['slow rail: all right']['value'], 5)
        self.assertIn('wrong: loaded, seed 3: planted nothing', bench.out.getvalue())
        self.assertRegex(bench.out.getvalue(), r'slow rail +\. +\. +5 .* 15 +5/20')

    def test_absent(self):
        """operators: a job that does not start is named; many void the figures"""
        for seeds, failed in ((1, False), (20, True)):
            absent = {('compute', seed) for seed in range(1, 1 + seeds)}
            with tempfile.TemporaryDirectory() as folder:
                bench = bench_in(folder)
                self.run_faults(bench, {}, absent)
            self.assertIs(bench.failed, failed)
            planted = 20 * len([c for c in CASES.values() if c.cause]) - seeds
            self.assertIn(f'{planted} planted faults, named with the right rank or '
                          'rail', {item['what'] for item in bench.figures})
            self.assertEqual(len(bench.observations), seeds)
            self.assertIn('long computation" with seed 1 did not start',
                          bench.observations[0])

    def test_no_answer(self):
        """planted faults: a failed mrail diagnose is wrong, also in a healthy job"""
        for name in ('healthy', 'compute'):
            found = planted_faults.no_answer(name, 2)
            self.assertFalse(found.right)
            self.assertIn(found.accused, COLUMNS)
            self.assertIn('(failed)', operators_area.wrong_words(found._asdict()))

    def test_page(self):
        """operators: the page has all figures and the confusion table"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            self.run_faults(bench, {})
        data = {'area': 'operators', 'command': 'contrib/bench operators',
                'runs': '5', 'figures': bench.figures,
                'observations': ['The job did not start.']}
        template = (record.PAGES / 'operators.md.in').read_text()
        text = record.page('operators', data, template)
        self.assertIn('| stopped rank | 0 | 20 | 0 | 0 | 0 | 0 | 20 |', text)
        self.assertEqual(text.count('Not recorded.'), 3)
        self.assertIn('- The job did not start.', text)

    def test_timed(self):
        """operators: scrapes and answers next to their calibration"""
        objects = {'exporter_time.py': {'scrape_s': 0.004, 'read_s': 0.002,
                                        'cpu_share': 0.0005},
                   'diagnose_time.py': {'answer_s': 0.9, 'read_s': 0.003}}
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            bench.run = lambda command, *_: json.dumps(objects[command[1].name])
            libexec = pathlib.Path(folder)
            (libexec / 'mrail-exporter').touch()
            with unittest.mock.patch.object(operators_area, 'LIBEXEC', libexec):
                blocks = (operators_area.exporter_block(bench),
                          operators_area.answer_block(bench))
            for block in blocks:
                bench.interleave(block.jobs, 5)
                bench.show(*block.figures)
        self.assertEqual([(item['value'], item['ratio'], item['ok'])
                          for item in bench.figures],
                         [(4, 2, True), (0.05, None, True), (0.9, 300, True)])

    def test_drawn(self):
        """operators: the time of the page is the shortest of three"""
        with tempfile.TemporaryDirectory() as folder:
            browser = pathlib.Path(folder, 'chromium')
            browser.write_text(
                '#!/bin/sh\n'
                f'echo >>{folder}/count\n'
                f'set -- x 450 99 1200\nshift $(wc -l <{folder}/count)\n'
                'echo "<html data-drawn=\\"$1\\">"\n', encoding='ascii')
            browser.chmod(0o755)
            done = subprocess.run(
                ['sh', '-c', operators_area.OPEN, 'sh',
                 TOP / 'test' / 'browser' / 'lib.sh', folder, 'page.html'],
                env=dict(os.environ, PATH=f'{folder}:{os.environ["PATH"]}'),
                stdout=subprocess.PIPE, check=True, universal_newlines=True)
        self.assertEqual(done.stdout, '99\n')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
