"""Tests contrib/bench_tools (jobs, areas, pages, drawings) and contrib/try.

    python3 test/tools/test_bench_tools.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.dont_write_bytecode = True

from bench_lines import (FULL, OWN, TOP, TWENTY, bench_in,  # noqa: E402
                         evaluated, main)
from bench_tools import (against, cli, exchange_areas, multirail_area,
                         orchestrator_area, osu_area, other_areas, record, runner,
                         samples, svg, try_report, window_picture)
from bench_tools.figure import Figure, Sample


class Runs(unittest.TestCase):
    def test_interleaved(self):
        """rounds: every second round runs in reverse order"""
        jobs = [runner.Job(name, None) for name in 'abc']
        order = [job.name for _, job in runner.interleaved(jobs, 3)]
        self.assertEqual(''.join(order), 'abccbaabc')

    def test_limited_turn(self):
        """rounds: a job can be limited to the first rounds"""
        jobs = [runner.Job('a', None), runner.Job('b', None, 2)]
        order = [(at, job.name) for at, job in runner.interleaved(jobs, 4)]
        self.assertEqual(order, [(0, 'a'), (0, 'b'), (1, 'b'), (1, 'a'),
                                 (2, 'a'), (3, 'a')])
        self.assertEqual(runner.Block(jobs).num_jobs(4), 6)

    def test_pairs_by_round(self):
        """a job that fails once invalidates only its own pair"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)

            def own(at):
                if at == 2:
                    raise ValueError('it broke')
                bench.add('own', Sample(10 * at), at)

            def other(at):
                if at == 4:
                    raise OSError('so did this')
                bench.add('other', Sample(at), at)
            bench.interleave([runner.Job('own', own),
                              runner.Job('other', other)], 6)
            own_samples, others = bench.paired('own', 'other')
        self.assertTrue(bench.failed)
        self.assertIn('it broke', bench.out.getvalue())
        self.assertEqual([sample.value for sample in own_samples],
                         [0, 10, 30, 50])
        self.assertEqual([sample.value for sample in others], [0, 1, 3, 5])

    def test_failing_baseline(self):
        """a baseline that fails once is repeated, and the page mentions it"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            tries = []

            def stock(at):
                tries.append(at)
                if tries.count(1) == 1 and at == 1:
                    raise ValueError('exit status 1: mrail lab ...\nno route')
                bench.add('stock', Sample(at), at)
            bench.interleave([runner.Job('stock', stock, is_baseline=True)], 3)
            self.assertFalse(bench.failed)
            self.assertEqual(tries, [0, 1, 1, 2])
            self.assertEqual(bench.observations, [
                'Run 2 of stock, a baseline, failed (exit status 1) and was '
                'repeated.'])

            def broken(at):
                raise OSError('no such file')
            bench.interleave([runner.Job('stock', broken, is_baseline=True)], 1)
        self.assertTrue(bench.failed)

    def test_too_few_fail(self):
        """a figure with too few measurements causes exit status 1"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            for at in range(4):
                bench.add('own', Sample(1), at)
            bench.show(Figure('w', 'u', 'more', 'own', value=1))
        self.assertTrue(bench.failed)
        self.assertIs(bench.figures[0]['ok'], False)

    def test_limit(self):
        """a time limit ends a job and the processes that it started"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            script = 'sleep 60 & echo $!; wait'
            with self.assertRaisesRegex(ValueError, 'still running after 1 s'):
                bench.run(['sh', '-c', script], limit_s=1)
            child = int(bench.text('out'))
        # A zombie counts as exited.
        state = pathlib.Path(f'/proc/{child}/stat')
        if state.exists():
            self.assertIn(') Z', state.read_text())

    def test_status(self):
        """a failing job raises an error with its first lines of output"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            with self.assertRaisesRegex(ValueError, 'exit status 3.*\nno rail'):
                bench.run(['sh', '-c', 'echo no rail >&2; exit 3'])
            self.assertEqual(bench.run(['echo', 'fine']), 'fine\n')

    def test_wrong_pick(self):
        """a wrong result in one case does not affect other cases"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            found = [{'size': 1, 'pattern': 'uniform', 'median_s': 2,
                      'data_ok': True}]
            bench.pick('a', 0, found, 'median_s', 1, size='1', hotspot=0)
            bench.pick('b', 0, found, 'median_s', 1, size='64k', hotspot=0)
        self.assertEqual(list(bench.samples), ['a'])
        self.assertTrue(bench.failed)

    def test_time_left(self):
        """progress: the time left is based on the mean time per job"""
        clock = iter([0, 0, 10, 40, 45])
        out = io.StringIO()
        progress = runner.Progress(out, lambda: next(clock))
        progress.begin('p2p', 10)
        progress.step()
        self.assertEqual(out.getvalue(), '')
        progress.step()
        self.assertEqual(out.getvalue(), 'p2p: 2 of 10 jobs, about 3 min left\n')
        progress.step()
        self.assertEqual(len(out.getvalue().splitlines()), 1)
        self.assertEqual([runner.in_words(s) for s in (0.2, 89, 90, 600)],
                         ['1 s', '89 s', '2 min', '10 min'])

    def test_processors(self):
        """the load of this machine is from 0 to 1"""
        before = runner.processors()
        self.assertLessEqual(before[0], before[1])
        self.assertTrue(0 <= runner.load_since(before) <= 1)


class Areas(unittest.TestCase):
    def test_cases(self):
        """alltoallv: an even exchange has no target rank and only one row"""
        cases = exchange_areas.cases((0, 0.5), ('1k', '4m'))
        self.assertEqual([case.name for case in cases], [
            '0,shift,1k', '0,shift,4m', '0.5,shift,1k', '0.5,shift,4m',
            '0.5,single,1k', '0.5,single,4m'])
        self.assertEqual([case.title for case in cases[1:5:3]],
                         ['evenly', '0.5 to rank 0'])

    def test_patterns(self):
        """alltoallv: the bound is that of the exchange that is measured"""
        self.assertEqual([exchange_areas.pattern_of(case) for case
                          in exchange_areas.cases((0, 0.5), ('4m',))], [
            'uniform:size=4m', 'hotspot:fraction=0.5,to=shift,size=4m',
            'hotspot:fraction=0.5,to=single,size=4m'])

    def test_better(self):
        """alltoallv: the baseline is the algorithm with the higher median"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            for at, rate in enumerate((1, 5, 9)):
                bench.add('x.linear', Sample(rate), at)
            for at, rate in enumerate((6, 7)):
                bench.add('x.pairwise', Sample(rate), at)
            self.assertEqual(exchange_areas.better_algorithm(bench, 'x'),
                             'pairwise')
            self.assertEqual(exchange_areas.better_algorithm(bench, 'y'),
                             'linear')

    def test_least(self):
        """alltoallv: the lower bound of a pair and the other ranks"""
        self.assertEqual(exchange_areas.bound_s_of(200, 200), 1)
        self.assertEqual(exchange_areas.bound_s_of(0, 400), 2)

    def test_growth(self):
        """planner: time per demand, if both values are known"""
        got = other_areas.per_demand({
            'a.cold': 6, 'a.slowest': 9, 'a.demands': 3, 'b.demands': 3})
        self.assertEqual(got, {'a.cold.each': 2000, 'a.slowest.each': 3000})

    def test_arms(self):
        """orchestrator: all arms, and grids of their ratios and bytes"""
        plan = {'congestion_s': 2.02, 'congestion_bound_s': 2,
                'planned_bytes': 200, 'relayed_bytes': 20, 'comparison': [
                    {'method': arm, 'time_s': 3,
                     'relayed_bytes': None if arm == 'SABRE' else 50}
                    for arm in orchestrator_area.ARMS[1:]]}
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            for skew in orchestrator_area.SKEWS:
                for name, value in orchestrator_area.values_of(plan).items():
                    bench.add(f's.{skew}.{name}', Sample(value), 0)
            orchestrator_area.shown('s')(bench)
        self.assertFalse(bench.failed)
        times, relayed = bench.figures[:63], bench.figures[63:]
        self.assertEqual(len(relayed), 9 * 6)
        self.assertEqual(times[0]['ratio'], 1.01)
        self.assertTrue(times[0]['ok'])
        lines = orchestrator_area.grid('x', times)
        self.assertEqual(lines[0].split()[:3], ['x', 'plan', 'direct'])
        self.assertEqual(lines[9].split()[:4], ['skew', '0.9', '1.010', '1.500'])
        lines = orchestrator_area.grid('x', relayed)
        self.assertEqual(lines[1].split()[2:],
                         ['10.0', '25.0', '25.0', '25.0', '-', '25.0', '25.0'])
        page = record.grid(times)
        self.assertEqual(len(page), 2 + 9)
        self.assertTrue(page[2].startswith('| skew 0.1 | 1.010 | 1.500 |'))
        self.assertTrue(record.grid(relayed)[2].startswith(
            '| skew 0.1 | 10 % | 25 % |'))
        plan['comparison'][2] = {'method': 'RailS', 'not_served': 'uplinks'}
        with self.assertRaisesRegex(ValueError, 'RailS: uplinks'):
            orchestrator_area.values_of(plan)

    def test_multirail(self):
        """multirail: uplinks in both files, arms, and targets"""
        setting = multirail_area.SETTINGS['half']
        self.assertIn('link l1 s[1-2] 8MB\n', setting.fabric)
        self.assertIn('link l4 s[3-4] 17MB\n', setting.fabric)
        self.assertIn('uplink 0 0 16MB\n', setting.topology)
        self.assertIn('uplink 1 1 34MB\n', setting.topology)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            words = multirail_area.words_of(
                setting, multirail_area.cases_of('half'), folder)
            self.assertEqual((folder / 'fabric').read_text(encoding='ascii'),
                             setting.fabric)
            self.assertIn(folder / 'topology', words)
        for name in multirail_area.SETTINGS:
            figures = multirail_area.figures_of(
                name, multirail_area.cases_of(name))
            self.assertEqual(len(figures), 8 if name == 'equal' else 4)
            first = figures[0]
            self.assertEqual(first.ratio is None, name != 'equal')
            self.assertEqual(first.value, None if name == 'equal' else 1.05)

    def test_names(self):
        """areas: the help text lists every area, and each has a page"""
        for name in cli.AREAS:
            self.assertRegex(cli.HELP, rf'\b{name}\b')
        self.assertEqual(sorted(cli.AREAS), [
            'alltoallv', 'failover', 'gpu', 'multirail', 'operators', 'orchestrator',
            'osu', 'overhead', 'p2p', 'paths', 'planner', 'readme', 'scale', 'softroce',
            'vm', 'window'])
        for name in set(cli.AREAS) - {'readme'}:
            self.assertTrue((record.PAGES / f'{name}.md.in').exists(), name)


def command(*arguments):
    """Runs contrib/bench with arguments that do not measure anything."""
    return subprocess.run(
        [sys.executable, str(TOP / 'contrib' / 'bench'), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
        universal_newlines=True)


class Command(unittest.TestCase):
    def test_help(self):
        """contrib/bench --help: usage and exit status 0"""
        for option in ('--help', '-h'):
            done = command(option)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout.startswith('Usage: contrib/bench'))

    def test_usage(self):
        """contrib/bench: a wrong argument causes status 2 and a message"""
        for arguments, why in (
                (('--runs', '4'), 'at least 5'), (('--runs', 'x'), 'expected a number'),
                (('--runs',), '--runs'), (('nowhere',), "'nowhere'"),
                (('--nothing',), '--nothing'), (('--check',), '--render'),
                (('--render', 'p2p'), 'cannot be given with areas'),
                (('--render', '--record'), 'does not measure'),
                (('--quick', '--record', 'osu'), '--quick'),
                (('--against',), '--against'),
                (('--against', 'HEAD', '--runs', '5'), 'at least 6'),
                (('--against', 'HEAD', 'window'), "'window'"),
                (('--against', 'HEAD', '--record'), 'cannot be combined with --record'),
                (('--against', 'no-such-commit'), "'no-such-commit'")):
            done = command(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(why, done.stderr)
            self.assertEqual(done.stdout, '')

    def test_default(self):
        """contrib/bench: default areas, and several areas as arguments"""
        self.assertEqual(cli.parse([]).areas, ['softroce', 'p2p', 'alltoallv'])
        options = cli.parse(['window', '--runs', '9', 'planner'])
        self.assertEqual((options.areas, options.runs),
                         (['window', 'planner'], 9))

    def test_against(self):
        """contrib/bench --against: its areas and runs, and a full commit"""
        with unittest.mock.patch.object(against, 'commit_id',
                                        lambda name: f'id of {name}'):
            options = cli.parse(['--against', 'HEAD~3'])
            self.assertEqual(
                (options.areas, options.runs, options.against),
                (['p2p', 'alltoallv'], 9, 'id of HEAD~3'))
            options = cli.parse(['--against', 'x', '--runs', '6', 'osu'])
        self.assertEqual((options.areas, options.runs), (['osu'], 6))
        self.assertLessEqual(set(against.AREAS), set(cli.AREAS))


def compared_block(bench, folder):
    """Returns a block with a job, its baseline and a figure, for a comparison
    with `folder`."""
    def measure(at):
        stage = bench.installation.stage
        bench.add('own', Sample(6 if stage == folder else 3 + at), at)
        bench.share('own', [{'size': 1, 'data_ok': True, 'planned': 0.5}])
        bench.order.append((at, stage == folder))

    def never(at):
        raise ValueError('a baseline ran')
    bench.order = []
    bench.against = runner.Installation(folder, against.SUFFIX, False)
    return against.compared(bench, runner.Block(
        [runner.Job('own', measure),
         runner.Job('stock', never, is_baseline=True)],
        lambda bench: [Figure('w', 'u', 'less', 'own', 'stock', 'stock UCX',
                              1.0, 5, 'own', 99)], section='S'))


class Against(unittest.TestCase):
    def test_compared(self):
        """against: jobs of both builds, interleaved; now over then"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            block = compared_block(bench, pathlib.Path(folder))
            self.assertEqual(block.num_jobs(6), 12)
            bench.interleave(block.jobs, 6)
            bench.show(*block.figures(bench))
        self.assertFalse(bench.failed, bench.out.getvalue())
        self.assertEqual(bench.order[:4], [(0, False), (0, True), (1, True),
                                           (1, False)])
        got = bench.figures[0]
        self.assertEqual((got['value'], got['baseline_value'], got['baseline']),
                         (5.5, 6, 'then'))
        self.assertEqual((got['ratio'], got['ratio_low'], got['ratio_high']),
                         (0.917, 0.5, 1.333))
        self.assertEqual((got['target'], got['ok'], got['planned']),
                         (None, None, 0.5))
        self.assertEqual(bench.better, {'w': 'less'})

    def test_failed(self):
        """against: a job that fails then leaves the installation unchanged"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            block = compared_block(bench, pathlib.Path(folder))
            now = bench.installation

            def broken(at):
                if bench.installation != now._replace(runs_own_bench=False):
                    raise ValueError('it broke then')
                bench.add('own', Sample(1), at)
            jobs = against.both_jobs(bench, runner.Job('own', broken))
            bench.interleave(jobs, 6)
            bench.show(*block.figures(bench))
        self.assertEqual(bench.installation, now)
        self.assertTrue(bench.failed)
        self.assertIn('it broke then', bench.out.getvalue())

    def test_current_bench(self):
        """against: the current mrail bench runs on the installation"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            seen = []
            bench.run = lambda command: seen.append(
                [str(word) for word in command]) or ''
            words = ['-np', '2', '--soft', '2x1', '--sizes', '8', '--rate', 'max']
            bench.objects('p2p', *words)
            old = runner.Installation(pathlib.Path('/old'), '@then', False)
            with bench.using(old):
                bench.objects('p2p', *words)
        self.assertEqual(seen, [
            [str(runner.MRAIL), 'bench', 'p2p', *words, '--json'],
            ['/old/bin/mrail', 'run', '-np', '2', '--soft', '2x1', '--rate',
             'max', '--', str(runner.BENCH), 'p2p', '--sizes', '8', '--json']])

    def test_changes(self):
        """against: figures whose interval excludes 1, and their direction"""
        def item(what, low, high):
            return {'what': what, 'ratio': (low + high) / 2, 'ratio_low': low,
                    'ratio_high': high}
        figures = [item('time', 1.1, 1.3), item('rate', 1.1, 1.3),
                   item('slow', 0.5, 0.7), item('same', 0.9, 1.1),
                   {'what': 'few', 'ratio': 3}]
        lines = against.changes(figures, {'time': 'less', 'rate': 'more',
                                          'slow': 'more', 'same': 'more'})
        self.assertEqual(lines, ['WORSE: time: 1.200 [1.100, 1.300]',
                                 'better: rate: 1.200 [1.100, 1.300]',
                                 'WORSE: slow: 0.600 [0.500, 0.700]'])

    def test_commit(self):
        """against: a name that is not a commit is rejected"""
        with tempfile.TemporaryDirectory() as folder:
            git = ['git', '-C', folder]
            subprocess.run([*git, 'init', '-q'], check=True)
            subprocess.run([*git, '-c', 'user.name=x', '-c', 'user.email=x',
                            'commit', '-q', '--allow-empty', '-m', 'x'],
                           check=True)
            self.assertRegex(against.commit_id('HEAD', folder), r'^[0-9a-f]{40}$')
            for name in ('HEAD~1', 'nothing', '--all', ''):
                self.assertRaises(ValueError, against.commit_id, name, folder)

    def test_build_failure(self):
        """against: a commit that cannot be built is an error with its log"""
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            with unittest.mock.patch.multiple(against, TOP=top, BUILD=top):
                with self.assertRaisesRegex(ValueError, 'cannot be built'):
                    against.install('0' * 40, lambda words: None)


class Osu(unittest.TestCase):
    def test_sizes(self):
        """osu: all powers of two from 1 byte to 4 MiB, as parsable names"""
        self.assertEqual((len(osu_area.SIZES), osu_area.SIZES[-1]), (23, 4 << 20))
        for size in osu_area.SIZES:
            self.assertEqual(samples.size_bytes(osu_area.size_name(size)), size)
        self.assertLess(set(osu_area.QUICK_SIZES), set(osu_area.SIZES))

    def test_figures(self):
        """osu: each figure has samples of a job, a direction and a table"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            names = {test.name for _, tests in osu_area.JOBS for test in tests}
            objects = [{'test': name, 'size': size, 'seconds': 2e-6,
                        'messages_per_s': 3e3, 'bytes_per_s': 4e6,
                        'data_ok': True} for name in names
                       for size in osu_area.SIZES]
            bench.run = lambda *_: '\n'.join(map(json.dumps, objects))
            with unittest.mock.patch.object(osu_area.counts, 'can_count',
                                            lambda: False):
                blocks = osu_area.osu_blocks(bench)
            for block in blocks:
                bench.interleave(block.jobs, 5)
                bench.show(*block.figures)
        self.assertFalse(bench.failed, bench.out.getvalue()[:300])
        self.assertEqual(len(bench.figures), 2 * 10 * 23)
        found = {item['what']: item for item in bench.figures}
        for what, value, target in (
                ('latency, 1 rail, 8', 2, '<= 1.00 x baseline'),
                ('message rate, 4 pairs, 4 rails, 2k', 3, '>= 1.00 x baseline'),
                ('put bandwidth, 4 rails, 4m', 4, '>= 1.00 x baseline')):
            self.assertEqual((found[what]['value'], found[what]['target']),
                             (value, target))
        template = (record.PAGES / 'osu.md.in').read_text()
        text = record.page('osu', recorded(figures=bench.figures), template)
        self.assertEqual(text.count('Not recorded.'), 1)  # instructions


def recorded(**changes):
    data = {'area': 'x', 'command': 'contrib/bench x', 'date': '2026-01-02',
            'commit': 'abc', 'machine': 'm', 'versions': {'UCX': '1.13.1'},
            'runs': '5', 'figures': [
                evaluated(OWN, FULL, ratio=1.6), evaluated(TWENTY, [10] * 20)]}
    data['figures'] = [item for item, _ in data['figures']]
    return {**data, **changes}


TEMPLATE = '# X\n\nText.\n\n@recorded@\n\n@figures@\n\n@missed@\n'


class Pages(unittest.TestCase):
    def test_page(self):
        """pages: circumstances, absolute values, ratio, interval and result"""
        text = record.page('x', recorded(), TEMPLATE)
        for words in ('2026-01-02', 'abc', 'UCX 1.13.1', '| w | 3 u | p | 2 u | '
                      '1.500 |  | >= 1.60 x baseline | **missed** |',
                      '| w | 20.5 u | p | 10 u | 2.050 | 1.600 to 2.500 |'):
            self.assertIn(words, text)
        self.assertTrue(text.startswith('# X\n\n<!-- Generated'))

    def test_missed(self):
        """pages: a missed target is listed in words"""
        text = record.page('x', recorded(), TEMPLATE)
        self.assertIn('Missed: 1 of 1 targets.', text)
        self.assertIn('- w: 3 u, 1.500 x baseline; the target is >= 1.60 x '
                      'baseline.', text)
        reached = [evaluated(OWN, FULL, ratio=1)[0]]
        text = record.page('x', recorded(figures=reached), TEMPLATE)
        self.assertIn('The only target was reached.', text)

    def test_names(self):
        """pages: a missed target of a row that continues another has a name"""
        figures = [evaluated(OWN)[0], dict(evaluated(OWN, value=9)[0],
                                           what='... again')]
        self.assertIn('- w: again: 3 u', '\n'.join(record.missed(figures)))

    def test_sections(self):
        """pages: each section has its table, and no section is lost"""
        figures = [dict(evaluated(OWN)[0], section='One')]
        self.assertRaises(ValueError, record.page, 'x',
                          recorded(figures=figures), TEMPLATE)
        text = record.page('x', recorded(figures=figures),
                           '# X\n\n@figures One@\n\n@figures Two@\n')
        self.assertIn('| w | 3 u |', text)
        self.assertIn('Not recorded.', text)

    def test_missing_section(self):
        """pages: a section without a table is found before the measurements"""
        record.check_sections('alltoallv', {'Other exchanges'})
        record.check_sections('readme', {'any'})
        with self.assertRaisesRegex(ValueError, 'no table in alltoallv.md.in for .*Nothing'):
            record.check_sections('alltoallv', {'Nothing'})

    def test_unknown_line(self):
        """pages: an unknown line of a template is rejected"""
        self.assertRaises(ValueError, record.page, 'x', recorded(),
                          '# X\n\n@figure@\n')

    def test_columns(self):
        """pages: an empty column is omitted"""
        head = record.table([evaluated(OWN)[0]])[0]
        self.assertEqual(head, '| figure | value |')

    def test_columns_beside(self):
        """pages: values from other sources are next to the measured ones"""
        figures = [dict(evaluated(OWN, FULL)[0],
                        beside={'simulated': [4, 7], 'paper': [0.06, None]}),
                   evaluated(OWN, FULL)[0]]
        lines = record.table(figures)
        self.assertEqual(lines[0], '| figure | value | simulated | paper | '
                         'baseline | its value | baseline simulated | ratio |')
        self.assertEqual(lines[2], '| w | 3 u | 4 u | 0.06 u | p | 2 u | 7 u | '
                         '1.500 |')
        self.assertEqual(lines[3], '| w | 3 u |  |  | p | 2 u |  | 1.500 |')

    def test_shown_beside(self):
        """a figure whose simulation is missing is a failure"""
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(folder)
            bench.add('own', Sample(1), 0)
            bench.rounds = 1
            item = Figure('w', 'u', 'less', 'own', beside=(('simulated', 'x', None),))
            bench.show(item)
            self.assertTrue(bench.failed)
            bench.failed = False
            bench.add('x', Sample(2), 0)
            bench.show(item)
        self.assertFalse(bench.failed)
        self.assertEqual(bench.figures[-1]['beside'], {'simulated': [2, None]})

    def test_data(self):
        """data: writing and reading it back preserves it"""
        data = recorded()
        self.assertEqual(json.loads(record.as_json(data)), data)
        self.assertEqual(len(record.as_json(data).splitlines()),
                         len(data) - 1 + len(data['figures']) + 4)

    def test_record(self):
        """record: an area's data states where, when and what was measured"""
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            (results / 'data').mkdir()
            bench = bench_in(folder)
            bench.figures = recorded()['figures']
            bench.observe('the baseline hangs')
            cli.record_area(bench, 'softroce', 7, results)
            data = json.loads((results / 'data' / 'softroce.json').read_text())
            pages = record.render(results)
        for key in ('date', 'commit', 'machine', 'system', 'versions'):
            self.assertTrue(data[key], key)
        self.assertEqual(data['command'], 'contrib/bench --runs 7 softroce')
        self.assertEqual(data['runs'], '5 to 20')
        self.assertEqual(data['observations'], ['the baseline hangs'])
        self.assertEqual(sorted(data['versions']), ['Open MPI', 'UCX'])
        self.assertEqual([path.name for path in pages], ['softroce.md'])

    def test_commit(self):
        """record: the commit of a modified tree ends with a plus sign"""
        for status, want in ((' M README.md\n', 'abc123+'), ('', 'abc123')):
            def run(command, status=status, **_):
                said = status if 'status' in command else 'abc123\n'
                return subprocess.CompletedProcess(command, 0, said)
            with unittest.mock.patch.object(record.subprocess, 'run', run):
                self.assertEqual(record.commit_of(TOP), want)

    def test_current(self):
        """record: committed pages and pictures match the committed data"""
        done = command('--render', '--check')
        self.assertEqual((done.returncode, done.stdout), (0, ''))

    def test_stale(self):
        """record: a page that was edited by hand is reported"""
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / 'test').mkdir()
            for name in ('contrib', 'docs', 'test/mpi'):
                subprocess.run(['cp', '-R', str(TOP / name), str(tree / name)],
                               check=True)
            page = tree / 'docs' / 'results' / 'planner.md'
            subprocess.run(['chmod', '-R', 'u+w', folder], check=True)
            page.write_text(page.read_text() + 'more\n')
            check = [sys.executable, str(tree / 'contrib' / 'bench'), '--render']
            done = subprocess.run([*check, '--check'], stdout=subprocess.PIPE,
                                  check=False, universal_newlines=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn('docs/results/planner.md is not current', done.stdout)
            subprocess.run(check, stdout=subprocess.PIPE, check=True)
            self.assertEqual(page.read_text(), (
                TOP / 'docs' / 'results' / 'planner.md').read_text())


WINDOW = {
    'seed': 1, 'rate_gbps': 400, 'segment_bytes': 65536, 'sample_us': 10,
    'poll_min_us': 0.2, 'poll_max_us': 1, 'arrive_us': 100, 'stable_us': 260,
    'leave_us': 400, 'end_us': 500, 'truth': [[0, 400], [100, 100], [260, 200]],
    'series': {'1': [[10, 900.5], [20, 300]], '8': [[10, 400]], '32': [[10, 400]]}}


class Drawings(unittest.TestCase):
    def test_well_formed(self):
        """drawing: special characters result in well-formed XML"""
        drawing = svg.Drawing(400)
        drawing.text(10, 20, 'a < b & "c"', 'note')
        drawing.bar(10, 30, 0, 'own')
        root = xml.etree.ElementTree.fromstring(drawing.svg(50, 'x > y & z'))
        texts = [item.text for item in root.iter() if item.tag.endswith('text')]
        self.assertEqual(texts, ['a < b & "c"'])

    def test_width(self):
        """drawing: text that crosses the left or right edge is an error"""
        drawing = svg.Drawing(100)
        drawing.text(0, 10, 'short')
        self.assertRaises(ValueError, drawing.text, 0, 10, 'w' * 20)
        self.assertRaises(ValueError, drawing.text, 80, 10, 'short')
        self.assertRaises(ValueError, drawing.text, 20, 10, 'short', '', 'end')
        self.assertRaises(ValueError, drawing.text, 5, 10, 'short', '', 'middle')

    def test_measure(self):
        """drawing: text width depends on letters, weight and size"""
        self.assertAlmostEqual(svg.text_width('mm', 10), 19.6)
        self.assertEqual(svg.text_width(''), 0)
        self.assertGreater(svg.text_width('a', bold=True), svg.text_width('a'))
        self.assertGreaterEqual(svg.text_width('ß'), svg.text_width('a'))

    def test_colors(self):
        """drawing: each colour has a dark variant in a media query"""
        sheet = svg.style()
        light, dark = sheet.split('@media (prefers-color-scheme: dark)')
        for name in [*svg.STROKES, *(set(svg.FILLS) - {'text'}), 'card']:
            self.assertRegex(light, rf'\.{name} {{ (fill|stroke)')
            self.assertRegex(dark, rf'\.{name} {{ (fill|stroke)')
        self.assertEqual(sheet.count('{'), sheet.count('}'))

    def test_scale(self):
        """drawing: a scale maps values within and beyond its ends"""
        scale = svg.Scale(0, 10, 100, 0)
        self.assertEqual([scale(value) for value in (0, 5, 10, 20)],
                         [100, 50, 0, -100])
        self.assertRaises(ValueError, svg.Scale, 1, 1, 0, 10)

    def test_window(self):
        """window: a sample above the scale is drawn as a triangle"""
        text = window_picture.draw(WINDOW)
        xml.etree.ElementTree.fromstring(text)
        panels = text[text.index('W = 32'):]
        self.assertEqual(len(re.findall('<polygon[^>]*series1', panels)), 1)
        self.assertEqual(len(re.findall('<circle[^>]*series1', panels)), 1)


def try_object(transport='mrail', data_ok=True, size=65536, rate=4e8):
    return json.dumps({'transport': transport, 'size': size, 'median_s': 0.01,
                       'first_s': 0.05, 'bytes_per_s': rate, 'cpu_load': 0.9,
                       'data_ok': data_ok})


def try_rows(mrail, **others):
    texts = {'stock1': try_object('ucx:rc_v,self', rate=1e8),
             'stock4': try_object('ucx:rc_v,self', rate=2e8), 'mrail': mrail}
    return try_report.rows('t', {**texts, **others}, try_report.JOBS)


def status(node_bytes):
    return {'devices': [{'node': node, 'rail': 0, 'tx_bytes': tx, 'rx_bytes': rx}
                      for node, (tx, rx) in enumerate(node_bytes)]}


class Try(unittest.TestCase):
    def test_ok(self):
        """try: all results are ok"""
        lines, ok = try_rows(try_object())
        self.assertTrue(ok)
        self.assertEqual(len(lines), 4)
        self.assertTrue(lines[3].endswith('stock UCX, 4 rails 50 ms; mrail, 4 rails '
                                          '50 ms'))
        self.assertRegex(lines[2], r'^t +64  mrail, 4 rails +10\.00 +400\.0 +2\.00 '
                         r'+90 %  data ok$')

    def test_wrong(self):
        """try: wrong data is reported"""
        lines, ok = try_rows(try_object(data_ok=False))
        self.assertFalse(ok)
        self.assertIn('WRONG DATA', lines[2])

    def test_carrier(self):
        """try: a result carried by another transport is rejected"""
        lines, ok = try_rows(try_object('ompi:^ucx'))
        self.assertFalse(ok)
        self.assertIn('this was carried by ompi:^ucx, not by mrail', lines[3])

    def test_none(self):
        """try: a missing result is reported"""
        lines, ok = try_rows('')
        self.assertFalse(ok)
        self.assertTrue(lines[2].endswith('no result'))
        self.assertFalse(try_rows('', stock1='', stock4='')[1])

    def test_other_size(self):
        """try: a size without a result from every transport is a failure"""
        both = try_object() + '\n' + try_object(size=1048576)
        lines, ok = try_rows(both)
        self.assertFalse(ok)
        self.assertEqual(len(lines), 7)

    def test_links(self):
        """try: traffic of each rail in each exchange"""
        lines = try_report.links(2, ('a', status([(4e6, 2e6), (0, 0)])),
                                 ('b', status([(2e6, 2e6), (2e6, 2e6)])))
        self.assertEqual(len(lines), 5)
        self.assertEqual(lines[1].split(), ['node', '0', 'rail', '0', 'out', '2.0',
                                            '#' * 24, '1.0', '#' * 12])
        self.assertEqual(lines[2].split()[5:], ['0.0', '1.0', '#' * 12])

    def test_links_differ(self):
        """try: jobs with different rails or none cannot be compared"""
        for left, right in (([], []), ([(1, 1)], [(1, 1), (1, 1)])):
            self.assertRaises(ValueError, try_report.links, 1,
                              ('a', status(left)), ('b', status(right)))

    def test_program(self):
        """try: the program's exit status reflects the results"""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (('x.stock', try_object('ucx:rc_v')),
                               ('x.mrail', try_object())):
                (pathlib.Path(folder) / name).write_text(text)
            program = [sys.executable, try_report.__file__, 'rows',
                       '--single-rail', 't', f'{folder}/x.stock']
            for path, want in (('x.mrail', 0), ('x.stock', 1), ('absent', 1)):
                done = subprocess.run([*program, f'{folder}/{path}'], check=False,
                                      stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, want, path)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
