"""Tests of contrib/bench_tools: the area gpu.

    python3 test/tools/test_bench_gpu.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import json
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True

from bench_lines import bench_in, main  # noqa: E402
from bench_tools import gpu_area, record, samples


def gpu_answer(words):
    """Returns the output of a job of the area gpu that reaches all targets."""
    words = [str(word) for word in words]
    if 'run' in words:
        limit = 180 if '--to' in words else 120 * (int(words[3]) - 1)
        return f'ok - x\nrate {limit * 0.96:.2f} MB/s launches 0\n'

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
                ('kernels launched in all of these', 0, '<= 0'),
                ('16m, 0.9 to rank 0', 1.04, '<= 1.05 x bound'),
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
        """gpu: a single launch in any job misses its target"""
        seen = []

        def answer(words):
            text = gpu_answer(words)
            seen.append(text)
            return text.replace('launches 0', f'launches {len(seen) % 2}')
        found = self.measure(answer)
        self.assertFalse(found['kernels launched in all of these']['ok'])

    def test_pair(self):
        """gpu: the output of the pair has a rate and the launches"""
        self.assertEqual(samples.gpu_pair('ok - a\nrate 98.25 MB/s launches 7\n'
                                          'relayed 1 between 2 staged 3 bytes\n'),
                         (98.25, 7))
        self.assertRaises(ValueError, samples.gpu_pair, 'ok - a\n')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
