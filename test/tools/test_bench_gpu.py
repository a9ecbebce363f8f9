"""Tests of contrib/bench_tools: the area gpu, and the part of contrib/try with
software GPUs.

    python3 test/tools/test_bench_gpu.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True

from bench_lines import bench_in, main  # noqa: E402
from bench_tools import gpu_area, record, samples, try_report


def gpu_answer(words):
    """Returns the output of a job in the gpu area that reaches all targets."""
    words = [str(word) for word in words]
    if 'run' in words:
        limit = 180 if '--to' in words else 120 * (int(words[3]) - 1)
        launches = 5 if 'kernel' in words else 0
        return f'ok - x\nrate {limit * 0.96:.2f} MB/s launches {launches}\n'

    def of(option):
        return words[words.index(option) + 1]
    if 'moe' in words:
        return '\n'.join(json.dumps({
            'plan': plan, 'skew': float(skew), 'planned': 0.5, 'data_ok': True,
            **{f'{phase}_speedup': 2 if plan else None
               for phase in gpu_area.PHASES}})
            for skew in of('--skew').split(',') for plan in (False, True))
    skews = of('--hotspot').split(',') if '--hotspot' in words else ['uniform']
    targets = ['single', 'shift'] if 'both' in words else [
        of('--dst') if '--dst' in words else 'shift']
    objects = []
    for size in of('--sizes').split(','):
        for skew in skews:
            for to in targets if skew != 'uniform' else ['uniform']:
                objects.append({
                    'size': samples.size_bytes(size), 'pattern': to,
                    'hotspot': 0 if skew == 'uniform' else float(skew),
                    'planned': 1, 'data_ok': True, 'bytes_per_s': 1e8,
                    'iterations': 1, 'median_s': 2.08, 'cpu_s': 3})
    return '\n'.join(map(json.dumps, objects))


class Gpu(unittest.TestCase):
    def measure(self, answer):
        """Returns the figures of the area if jobs print `answer`."""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            bench.run = lambda words, *_: answer(words)
            with unittest.mock.patch.object(gpu_area, 'bound_s',
                                            lambda *_: 2.0):
                blocks = gpu_area.blocks(bench)
            for block in blocks:
                bench.section = block.section
                bench.interleave(block.jobs, block.rounds)
                bench.show(*block.figures)
        self.assertFalse(bench.failed, bench.out.getvalue()[:500])
        return {item['what']: item for item in bench.figures}

    def test_figures(self):
        """gpu: each figure has samples of a job and a table"""
        found = self.measure(gpu_answer)
        for what, value, target in (
                ('within a node, 64m, two relays', 0.96, '>= 0.95 x 3 links'),
                ('between nodes, 128m', 0.96, '>= 0.95 x 4 rails'),
                ('kernels launched with copy engines', 0, '<= 0'),
                ('16m, 0.9 to rank 0', 1.04, '<= 1.05 x bound'),
                ('16m, 0.9 to rank 0, by a kernel', 1.04, '<= 1.05 x bound'),
                ('within a node, 64m, two relays, by a kernel', 0.96,
                 '>= 0.95 x 3 links'),
                ('16m, evenly', 100, '>= 0.98 x baseline'),
                ('1m, 0.5 to rank 0', 100, '>= 0.98 x baseline'),
                ('64m in all, 0.7 to rank + P/2', 3000, '<= 1.20 x baseline'),
                ('skew 0.9: all with compute', 2, None)):
            self.assertEqual((found[what]['value'], found[what]['target']),
                             (value, target), what)
            self.assertIn(found[what]['ok'], (True, None))
        self.assertEqual(found['skew 0.9: dispatch']['beside'],
                         {'NIMBLE, at most': [5.2, None]})
        template = (record.PAGES / 'gpu.md.in').read_text()
        text = record.page('gpu', {'area': 'gpu', 'command': 'c',
                                   'figures': list(found.values())},
                           template)
        self.assertNotIn('Not recorded.', text)
        self.assertIn('targets were reached.', text)

    def test_launch(self):
        """gpu: a single launch in a job with copy engines misses the target"""
        seen = []

        def answer(words):
            text = gpu_answer(words)
            seen.append(text)
            return text.replace('launches 0', f'launches {len(seen) % 2}')
        found = self.measure(answer)
        self.assertFalse(found['kernels launched with copy engines']['ok'])

    def test_pair(self):
        """gpu: the output of the pair has a rate and the launches"""
        self.assertEqual(samples.gpu_pair('ok - a\nrate 98.25 MB/s launches 7\n'
                                          'relayed 1 between 2 staged 3 bytes\n'),
                         (98.25, 7))
        self.assertRaises(ValueError, samples.gpu_pair, 'ok - a\n')


def try_object(transport='mrail', rate=2e8):
    return json.dumps({'transport': transport, 'size': 16 << 20,
                       'median_s': 0.01, 'first_s': 0.05, 'bytes_per_s': rate,
                       'cpu_load': 0.9, 'data_ok': True})


def status(rail_mb, **links_mb):
    """Returns the status of a session with one rail, and a GPU with these
    links."""
    links = {name: {'bytes': mb * 1e6} for name, mb in links_mb.items()}
    return {'devices': [{'node': 0, 'rail': 0, 'tx_bytes': rail_mb * 1e6,
                         'rx_bytes': 0}],
            'gpus': [{'node': 0, 'gpu': 1, 'links': links}]}


class Try(unittest.TestCase):
    def test_rows(self):
        """try: device memory, the ratio is to the exchange without a plan"""
        lines, ok = try_report.rows('t', {
            'unplanned': try_object(), 'planned': try_object(rate=5e8)},
            try_report.GPU_JOBS)
        self.assertTrue(ok)
        self.assertRegex(lines[1], r'^t +16384  GPUs, planned +10\.00 +500\.0 '
                         r'+2\.50 ')
        self.assertFalse(try_report.rows('t', {
            'unplanned': try_object(), 'planned': try_object('ompi:ob1')},
            try_report.GPU_JOBS)[1])

    def test_links(self):
        """try: busy links between GPUs have rows, and other links one line"""
        lines = try_report.links(
            2, ('no plan', status(40, pcie_in=99, to_0=4, to_2=0, to_3=2)),
            ('planned', status(20, pcie_in=99, to_0=44, to_2=3, to_3=0)))
        self.assertEqual([line.split()[:5] for line in lines[1:]], [
            ['node', '0', 'rail', '0', 'out'], ['node', '0', 'rail', '0', 'in'],
            ['node', '0', 'gpu', '1', 'to'],
            ['2', 'other', 'links', 'between', 'GPUs']])
        self.assertEqual(lines[3].split()[5:],
                         ['0', '2.0', '##', '22.0', '#' * 24])
        self.assertTrue(lines[4].endswith(' carry at most 1.5 MB'))
        self.assertTrue(all(len(line) <= 88 for line in lines))

    def test_links_differ(self):
        """try: jobs with different GPUs cannot be compared"""
        self.assertRaises(ValueError, try_report.links, 1,
                          ('a', status(1, to_0=1)), ('b', status(1, to_2=1)))

    def test_program(self):
        """try: the program reads the files of the GPU part"""
        with tempfile.TemporaryDirectory() as folder:
            paths = [f'{folder}/gpu.{name}' for name in try_report.GPU_JOBS]
            for path in paths:
                pathlib.Path(path).write_text(try_object())
            program = [sys.executable, try_report.__file__, 'rows', '--gpu', 't']
            for files, want in ((paths, 0), (paths[:1], 1)):
                done = subprocess.run([*program, *files], check=False,
                                      stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, want)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
