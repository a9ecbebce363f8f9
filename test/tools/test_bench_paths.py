"""Tests contrib/bench_tools: the area paths.

    python3 test/tools/test_bench_paths.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.dont_write_bytecode = True

from bench_lines import bench_in, main  # noqa: E402
from bench_tools import (lab_areas, lab_simulated, path_areas,
                         paths_picture)


def simulated(_, *options):
    """Replaces lab_simulated.simulate()."""
    methods = options[options.index('--method') + 1].split(',')
    load = {'cv': 0.5, 'mean': 0.8, 'variance_percent2': 7, 'least': 0.7,
            'most': 0.9}
    return {(name, 1): {'uplinks': load, 'uplinks_after_failure': load,
                        'over_bound': 2, 'time_s': 6, 'min_time_s': 3}
            for name in methods}


def hosts_of(pattern):
    """Returns the hosts of a pattern such as 'alltoall@2-5' on lab-8."""
    first, last = pattern.split('@')[1].split('-')
    return ','.join(f'h{i + 1}' for i in range(int(first), int(last) + 1))


class Paths(unittest.TestCase):
    def test_lab_least(self):
        """paths: the lower bound of an exchange in the lab"""
        # Each of 4 ranks sends 4/7 of 70 MB over 80 MB/s of uplinks in total.
        self.assertAlmostEqual(lab_areas.bound_s(8, 'alltoallv', 70e6), 2)
        self.assertAlmostEqual(lab_areas.bound_s(8, 'ring', 70e6), 3.5)
        self.assertAlmostEqual(lab_areas.bound_s(2, 'alltoallv', 80e6), 1)

    def test_lab_rate(self):
        """paths: slow processors are given slower links"""
        self.assertEqual(lab_areas.scaled('link h1 l1 100MB\nlink l1 s1 10MB x4',
                                          0.25),
                         'link h1 l1 25MB\nlink l1 s1 2.5MB x4')
        with tempfile.TemporaryDirectory() as folder:
            lab = lab_areas.Lab(bench_in(folder))
            lab.divisor = 4
            self.assertAlmostEqual(lab.bound_s(8, 'ring'),
                                   4 * lab_areas.bound_s(8, 'ring'))
            for loads, rate in (((90,), 10), ((60, 84, 88), 2.5),
                                ((60, 70, 80), 2.5), ((70, 86), 5)):
                self.calibrate(lab, iter(loads))
                self.assertAlmostEqual(
                    lab.bench.samples['lab.rate'].pop(0).value, rate)
                self.assertAlmostEqual(
                    lab.bench.samples['lab.load'].pop(0).value, loads[-1])

    @staticmethod
    def calibrate(lab, loads):
        """Calibrates a lab whose uplinks have these mean loads, in per cent,
        at one rate after another."""
        def during(*_):
            return json.dumps({'links': [{
                'link': 'l1-s1.0', 'up': {'utilisation': next(loads) / 100}}]})

        with unittest.mock.patch.object(lab, 'during', during), \
                unittest.mock.patch.object(lab, 'iterations', return_value=5):
            lab.calibrate(0)

    def test_lab_loads(self):
        """paths: uplink loads from the status of a lab"""
        def link(name, use):
            return {'link': name, 'up': {'utilisation': use}}

        text = json.dumps({'links': [
            link('h1-l1.0', 0.9), link('l1-s1.0', 0.5), link('l1-s1.1', 0.25),
            link('l2-s1.0', 0.75)]})
        self.assertEqual(lab_areas.loads_of(text), [50, 25, 75])
        self.assertEqual(lab_areas.loads_of(text, 'l1-', {'l1-s1.0'}), [25])

    def test_idle_lab(self):
        """paths: idle uplinks are a failure, not a perfect balance"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            lab = lab_areas.Lab(bench)
            with self.assertRaises(ValueError):
                lab.add_loads('x', [0.1, 0.1], 0)
            lab.add_loads('x', [40, 60], 0)
            got = {key: values[0].value for key, values in bench.samples.items()}
            self.assertEqual(got, {'x.cv': 20, 'x.mean': 50, 'x.variance': 100,
                                   'x.spread': 20})

    def test_paths_picture(self):
        """paths: the picture needs all exchanges of the lab"""
        figures = []
        for pattern, _ in paths_picture.PATTERNS:
            for row in paths_picture.ROWS:
                figures += [
                    {'what': paths_picture.TIME.format(pattern), 'value': 1.02,
                     'baseline': row, 'baseline_value': 1.5},
                    {'what': paths_picture.VARIATION, 'value': 0.25,
                     'baseline': row, 'baseline_value': 30}]
        self.assertTrue(paths_picture.is_possible(figures))
        measured = {figure.what for pattern, _ in paths_picture.PATTERNS
                    for figure in lab_areas.load_figures(
                        f'{pattern}, 8 lanes, rules', pattern, 'ecmp')}
        self.assertLessEqual({item['what'] for item in figures}, measured)
        self.assertFalse(paths_picture.is_possible(figures[2:]))
        drawn = paths_picture.draw(figures)
        xml.etree.ElementTree.fromstring(drawn)
        self.assertIn('1.02 x', drawn)

    def test_simulated(self):
        """paths: each exchange of the lab is also simulated, on its fabric"""
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(lab_simulated, 'simulate',
                                           side_effect=simulated) as called:
            bench = bench_in(folder)
            blocks = lab_areas.lab_blocks(bench)
            for block in blocks:
                for job in block.jobs:
                    if job.name == 'simulation':
                        job.measure(0)
        self.assertEqual({call.args[1] for call in called.call_args_list},
                         {lab_areas.FABRIC})
        for block in blocks[:3]:
            for item in block.figures:
                if item.own in ('lab.rate', 'lab.load'):
                    continue  # of the lab itself
                source, *names = item.beside[0]
                self.assertEqual(source, 'simulated', item.what)
                self.assertEqual(names[0], item.own.replace('lab.', 'sim.'))
                if item.other and '.moves.' not in item.other:
                    self.assertEqual(names[1], item.other.replace('lab.', 'sim.'))
                for name in names:
                    self.assertTrue(name is None or name in bench.samples, name)
        # The least time is half the mean time, which is the lower bound.
        lab = lab_areas.Lab(bench)
        self.assertEqual(lab.iterations('ring', 'moves', 7, 0.1), 100)
        self.assertRaises(ValueError, lab.iterations, 'other', 'rules', 5, 0.1)
        got = {key: samples[0].value for key, samples in bench.samples.items()}
        self.assertEqual(got['sim.ring.rules.cv'], 50)
        self.assertEqual(got['sim.ring.stock.mean'], 80)
        self.assertEqual(got['sim.ring.ecmp.variance'], 7)
        self.assertAlmostEqual(got['sim.fail.drop.spread'], 20)
        self.assertEqual(got['sim.fail.drop.time'], 1.75)

    def test_same_hosts(self):
        """paths: the simulated exchanges have the hosts of those in the lab"""
        for nodes, hosts in lab_areas.NODES:
            pattern, _ = lab_simulated.CASES[f'nodes.{nodes}']
            self.assertEqual(hosts_of(pattern), hosts)
        across, inside = lab_simulated.CASES['two'][0].split(',')
        self.assertEqual(hosts_of(across), lab_areas.ACROSS)
        self.assertEqual(hosts_of(inside), lab_areas.INSIDE)

    def test_lanes_and_nodes(self):
        """paths: 1 to 32 lanes and 2, 4 and 8 nodes, all with four figures"""
        with tempfile.TemporaryDirectory() as folder:
            block = lab_areas.lab_blocks(bench_in(folder))[1]
        titles = [item.what.split(':')[0] for item in block.figures
                  if not item.what.startswith('...')]
        self.assertEqual(titles, [
            *(f'8 nodes, {n} lane{"s" if n > 1 else ""}, rules'
              for n in (1, 2, 4, 8, 16, 32)),
            '2 nodes, 8 lanes, rules', '4 nodes, 8 lanes, rules'])
        self.assertEqual(len(block.figures), 4 * len(titles))

    def test_two_jobs(self):
        """paths: two jobs have the figures of the other exchanges"""
        with tempfile.TemporaryDirectory() as folder:
            block = lab_areas.lab_blocks(bench_in(folder))[0]
        keys = [item.own.rsplit('.')[-1] for item in block.figures
                if item.own.startswith('lab.two.')
                and item.other.startswith('lab.two.ecmp.')]
        self.assertEqual(keys, ['time', 'cv', 'variance', 'mean'])

    def test_one_run(self):
        """paths: a deterministic figure is computed once"""
        with tempfile.TemporaryDirectory() as folder:
            blocks = path_areas.path_blocks(bench_in(folder))
        for block in blocks:
            if not block.section.startswith('Lab'):
                self.assertEqual(block.rounds, 1, block.section)
            for job in block.jobs:
                if job.name == 'simulation':
                    self.assertEqual(job.rounds, 1)

    def test_ended_too_early(self):
        """paths: a job that ends before the interval does is a failure"""
        with tempfile.TemporaryDirectory() as folder:
            mrail = pathlib.Path(folder, 'mrail')
            mrail.write_text('#!/bin/sh\n'
                             'until [ -z "$late" ] || [ -e "$dir/$late" ]; do\n'
                             '    sleep 0.02\n'
                             'done\n'
                             'echo l1-s1.0 l1 up 10MB 20000000\n')
            mrail.chmod(0o755)

            def run(late, *jobs):
                """late: a file that must exist when the interval ends."""
                return subprocess.run(
                    ['sh', '-c', lab_areas.RUN, 'sh', '1s', '0', *jobs],
                    env=dict(os.environ, dir=folder, mrail=str(mrail), late=late),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                    timeout=60, universal_newlines=True)

            done = run('', 'sleep 2; echo times', 'sleep 3')
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            for name, text in (('during', 'l1-s1.0 l1 up 10MB 20000000\n'),
                               ('job1', 'times\n')):
                self.assertEqual(pathlib.Path(folder, name).read_text(), text)
            done = run('ended2', 'sleep 0.5', 'echo bad option >&2; exit 2')
            self.assertEqual(done.returncode, 1)
            self.assertIn('job 2 ended too early: bad option', done.stderr)
            self.assertEqual(run('', 'sleep 1; exit 3').returncode, 1)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
