"""Tests contrib/bench_tools: statistics, figures and output parsers.

    python3 test/tools/test_bench_figures.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import itertools
import json
import random
import sys
import unittest

sys.dont_write_bytecode = True

from bench_lines import FULL, OWN, TWENTY, evaluated, made, main  # noqa: E402
from bench_tools import figure, runner, samples, stats
from bench_tools.figure import Figure, Sample

SEEDS = range(1, 21)


class Statistics(unittest.TestCase):
    def test_median(self):
        """median: odd and even numbers of values, in any order"""
        self.assertEqual(stats.median([5, 1, 4, 2, 3]), 3)
        self.assertEqual(stats.median([40, 10, 30, 20]), 25)
        self.assertEqual(stats.median([7]), 7)

    def test_mean(self):
        """mean and deviation of all values"""
        self.assertEqual(stats.mean([1, 2, 6]), 3)
        self.assertEqual(stats.deviation([2, 4, 4, 4, 5, 5, 7, 9]), 2)
        self.assertEqual(stats.deviation([7]), 0)

    def test_no_values(self):
        """statistics: an empty list or a non-finite value is rejected"""
        for function in (stats.median, stats.median_interval, stats.mean,
                         stats.deviation,
                         lambda values: stats.percentile(values, 50)):
            for values in ([], [1, float('nan')], [float('inf')]):
                self.assertRaises(ValueError, function, values)

    def test_percentile(self):
        """percentile: the smallest value with enough values at or below it"""
        values = list(range(1, 101))
        self.assertEqual(stats.percentile(values, 50), 50)
        self.assertEqual(stats.percentile(values, 99), 99)
        self.assertEqual(stats.percentile(values, 100), 100)
        self.assertEqual(stats.percentile([3, 1, 2], 99), 3)
        self.assertEqual(stats.percentile([3, 1, 2], 1), 1)
        for percent in (0, -1, 101):
            self.assertRaises(ValueError, stats.percentile, values, percent)

    def test_percentile_seeds(self):
        """percentile: random values match the definition"""
        for seed in SEEDS:
            rng = random.Random(seed)
            values = [rng.choice((rng.random(), 1, 2))
                      for _ in range(rng.randint(1, 60))]
            percent = rng.uniform(0.1, 100)
            got = stats.percentile(values, percent)
            share = sum(value <= got for value in values) / len(values) * 100
            below = [value for value in values if value < got]
            self.assertGreaterEqual(share + 1e-9, percent, f'seed {seed}')
            if below:
                less = sum(v <= max(below) for v in values) / len(values) * 100
                self.assertLess(less, percent, f'seed {seed}')

    def test_rank_table(self):
        """interval: ranks match the published table of the sign test"""
        for count, rank in ((5, 0), (6, 1), (8, 1), (9, 2), (10, 2), (15, 4),
                            (20, 6), (25, 8), (50, 18), (100, 40)):
            self.assertEqual(stats.interval_rank(count), rank, count)

    def test_rank_is_largest(self):
        """interval: the largest rank with 95 % coverage, for 6 to 300 values"""
        for count in range(6, 301):
            rank = stats.interval_rank(count)
            self.assertGreaterEqual(stats.coverage(count, rank), 0.95, count)
            self.assertLess(stats.coverage(count, rank + 1), 0.95, count)

    def test_confidence(self):
        """interval: higher confidence never narrows it"""
        ranks = [stats.interval_rank(40, c) for c in (0.5, 0.9, 0.95, 0.99)]
        self.assertEqual(ranks, sorted(ranks, reverse=True))
        for wrong in (0, 1, -0.5, 2):
            self.assertRaises(ValueError, stats.interval_rank, 40, wrong)

    def test_coverage(self):
        """interval: contains the true median as often as stated"""
        draws = {'normal': (lambda rng: rng.gauss(3, 1), 3),
                 'skewed': (lambda rng: rng.expovariate(1), 0.6931),
                 'two speeds': (lambda rng: rng.choice((1, 2))
                                + rng.uniform(-0.5, 0.5), 1.5)}
        trials = 4000
        for (name, (draw, true)), count in itertools.product(
                draws.items(), (6, 9, 20)):
            rng = random.Random(f'{name} {count}')
            hits = 0
            for _ in range(trials):
                low, high = stats.median_interval(
                    [draw(rng) for _ in range(count)])
                hits += low <= true <= high
            want = stats.coverage(count, stats.interval_rank(count))
            # Four standard deviations of a binomial proportion.
            slack = 4 * (want * (1 - want) / trials) ** 0.5
            self.assertAlmostEqual(hits / trials, want, delta=slack,
                                   msg=f'{name}, {count} values')

    def test_interval_seeds(self):
        """interval: with random values, its ends enclose the median"""
        for seed in SEEDS:
            rng = random.Random(seed)
            values = [rng.random() for _ in range(rng.randint(6, 80))]
            low, high = stats.median_interval(values)
            self.assertIn(low, values)
            self.assertLessEqual(low, stats.median(values), f'seed {seed}')
            self.assertLessEqual(stats.median(values), high, f'seed {seed}')
            rng.shuffle(values)
            self.assertEqual(stats.median_interval(values), (low, high))
            scaled = [3 * value for value in values]
            self.assertEqual(stats.median_interval(scaled), (3 * low, 3 * high))

    def test_pairs(self):
        """pairs: ratios are in round order; an incomplete pair is rejected"""
        self.assertEqual(stats.paired_ratios([2, 9], [1, 3]), [2, 3])
        self.assertRaises(ValueError, stats.paired_ratios, [1, 2], [1])
        self.assertRaises(ValueError, stats.paired_ratios, [1], [0])


class Figures(unittest.TestCase):
    def test_odd(self):
        """median of an odd number of values"""
        self.assertEqual(evaluated(OWN, FULL)[0]['value'], 3)

    def test_beside(self):
        """values from other sources: medians of samples, numbers, or none"""
        samples_ = {'own': {0: Sample(3), 2: Sample(5), 1: Sample(9)}}
        item = Figure('w', 'u', 'less', 'x',
                      beside=(('simulated', 'own', None), ('paper', 0.06, 92.22)))
        self.assertEqual(figure.values_beside(item, samples_),
                         {'simulated': [5, None], 'paper': [0.06, 92.22]})
        with self.assertRaisesRegex(ValueError, 'w: no measurement of own'):
            figure.values_beside(item, {})
        text = figure.row(dict(evaluated(OWN)[0], beside={'paper': [0.06, None]}))
        self.assertIn('paper 0.06, baseline -', text)

    def test_ratio(self):
        """ratio to the baseline"""
        self.assertEqual(evaluated(OWN, FULL)[0]['ratio'], 1.5)

    def test_more_reached(self):
        """more is better: reached"""
        self.assertIs(evaluated(OWN, FULL, ratio=1.00)[0]['ok'], True)

    def test_load(self):
        """processor load"""
        self.assertEqual(evaluated(OWN, FULL)[0]['cpu_load'], 0.5)

    def test_runs(self):
        """single measurements"""
        self.assertEqual(evaluated(OWN, FULL)[0]['runs'], [5, 1, 4, 2, 3])

    def test_more_missed(self):
        """more is better: missed"""
        self.assertIs(evaluated(OWN, FULL, ratio=1.60)[0]['ok'], False)

    def test_less_missed(self):
        """less is better: missed"""
        got = evaluated(OWN, FULL, better='less', ratio=1.00)[0]
        self.assertIs(got['ok'], False)

    def test_less_reached(self):
        """less is better: reached"""
        got = evaluated(OWN, FULL, better='less', ratio=1.50)[0]
        self.assertIs(got['ok'], True)

    def test_both_targets(self):
        """both targets are needed"""
        got = evaluated(OWN, FULL, ratio=1.00, value=3.5)[0]
        self.assertIs(got['ok'], False)
        self.assertEqual(got['target'], '>= 1.00 x baseline, >= 3.5 u')
        got = evaluated(OWN, FULL, ratio=1.60, value=2)[0]
        self.assertIs(got['ok'], False)

    def test_no_baseline(self):
        """no baseline"""
        got = evaluated(OWN, value=3)[0]
        self.assertEqual([got[key] for key in
                          ('baseline', 'baseline_value', 'ratio')], [None] * 3)

    def test_no_baseline_value(self):
        """no baseline: an absolute target"""
        self.assertIs(evaluated(OWN, value=3)[0]['ok'], True)
        self.assertIs(evaluated(OWN, value=3.1)[0]['ok'], False)

    def test_no_target(self):
        """no target, no result"""
        got = evaluated(OWN, FULL)[0]
        self.assertEqual((got['target'], got['ok']), (None, None))

    def test_even(self):
        """median of an even number of values"""
        got = evaluated(OWN, (40, 10, 30, 20))[0]
        self.assertEqual(got['baseline_value'], 25)

    def test_planned(self):
        """planned share: mean of all samples"""
        got = evaluated(OWN, FULL, planned=(0.98, 0.99))[0]
        self.assertEqual(got['planned'], 0.985)
        # A call without a plan has a planned share of 0 rather than no share.
        self.assertEqual(evaluated(OWN, FULL, planned=(0, 0))[0]['planned'], 0)

    def test_planned_row(self):
        """planned share: shown in the table"""
        got = evaluated(OWN, FULL, planned=(0.985,))[0]
        self.assertRegex(figure.row(got), 'planned 98 %$')

    def test_few(self):
        """too few measurements: the target is not reached"""
        got, _ = evaluated(OWN, (40, 10, 30, 20), ratio=0.01)
        self.assertIs(got['ok'], False)
        self.assertIs(evaluated(OWN[:4], FULL, ratio=0.01)[0]['ok'], False)

    def test_few_complaint(self):
        """too few measurements: a failure is reported"""
        _, error = evaluated(OWN, (40, 10, 30, 20), ratio=0.01)
        self.assertIn('5 and 4 of 5', error)

    def test_five_pairs(self):
        """five pairs have no interval"""
        got = evaluated(OWN, FULL)[0]
        self.assertNotIn('ratio_low', got)
        self.assertEqual(got['ratio'], 1.5)

    def test_twenty_pairs(self):
        """ratio of twenty pairs"""
        self.assertEqual(evaluated(TWENTY, [10] * 20)[0]['ratio'], 2.05)

    def test_two_speeds(self):
        """pairs cancel the effect of two machine speeds"""
        other = [10] * 9 + [20] * 11
        own = [11] * 9 + [22] * 9 + [11] * 2
        got = evaluated(own, other)[0]
        self.assertEqual((got['ratio'], got['ratio_of_medians']), (1.1, 0.55))

    def test_interval(self):
        """interval of twenty pairs: the sixth ratio from either end"""
        got = evaluated(TWENTY, [10] * 20)[0]
        self.assertEqual((got['ratio_low'], got['ratio_high']), (1.6, 2.5))

    def test_nothing(self):
        """no measurement: a failure, and no result object"""
        got, error = evaluated((), FULL, ratio=1)
        self.assertIsNone(got)
        self.assertIn('no measurement', error)

    def test_zero_baseline(self):
        """a baseline of 0: a failure, and no ratio"""
        got, error = evaluated(OWN, [0] * 5, better='less', ratio=1)
        self.assertIn('baseline is 0', error)
        self.assertIs(got['ok'], False)
        self.assertIsNone(got['ratio'])

    def test_level(self):
        """a target of 1 has a tolerance of 0.1 %, other targets have none"""
        self.assertIs(evaluated([999.2] * 5, [1000] * 5, ratio=1)[0]['ok'], True)
        self.assertIs(evaluated([998.8] * 5, [1000] * 5, ratio=1)[0]['ok'], False)
        got = evaluated([1049.6] * 5, [1000] * 5, better='less', ratio=1.0495)
        self.assertIs(got[0]['ok'], False)
        got = evaluated([1000.8] * 5, [1000] * 5, better='less', ratio=1)
        self.assertIs(got[0]['ok'], True)

    def test_spread(self):
        """p50 and p99 exist only if all runs have them"""
        own = [Sample(i, 0, i / 2, 2 * i) for i in range(1, 6)]
        spec = Figure('w', 'us', 'less', 'own')
        got = figure.evaluate(spec, own, [], 5)[0]
        self.assertEqual((got['p50'], got['p99']), (1.5, 6))
        self.assertIn('p50 1.5, p99 6', figure.row(got))
        got = figure.evaluate(spec, own[:4] + made([5]), [], 5)[0]
        self.assertNotIn('p99', got)

    def test_keys(self):
        """the keys of an object are in the documented order"""
        got = evaluated(TWENTY, [10] * 20, ratio=1)[0]
        self.assertEqual(list(got), [
            'what', 'value', 'unit', 'baseline', 'baseline_value', 'ratio',
            'ratio_low', 'ratio_high', 'ratio_of_medians', 'target', 'ok',
            'cpu_load', 'runs'])

    def test_list(self):
        """the list of objects is JSON with one object per line"""
        objects = [evaluated(OWN, FULL)[0], evaluated(OWN)[0]]
        text = figure.as_list(objects)
        self.assertEqual(json.loads(text), objects)
        self.assertEqual(len(text.splitlines()), 4)
        self.assertEqual(json.loads(figure.as_list([])), [])

    def test_words_with_commas(self):
        """quotes and commas in a name are preserved"""
        spec = Figure('a "b", {c}', 'u', 'more', 'own', value=1)
        got = figure.evaluate(spec, made(OWN), [], 5)[0]
        again = json.loads(figure.as_list([got]))[0]
        self.assertEqual(again['what'], 'a "b", {c}')
        self.assertTrue(figure.row(again).startswith('a "b", {c} '))

    def test_large_number(self):
        """a large number of the table has no exponent"""
        self.assertEqual([figure.number(value) for value in (146000.4, 0.25, 1e9)],
                         ['146000', '0.25', '1000000000'])

    def test_significant(self):
        """numbers keep five significant digits"""
        for value, want in ((123456.7, 123460), (0.00123456, 0.0012346), (5, 5),
                            (0, 0), (1e-9, 1e-9)):
            self.assertEqual(figure.significant(value), want)


def skewed(size, hotspot, pattern, seconds, **more):
    return json.dumps({'size': size, 'hotspot': hotspot, 'pattern': pattern,
                       'median_s': seconds, 'cpu_load': 0.5, 'data_ok': True,
                       **more})


ALL = '\n'.join([skewed(1, 0, 'uniform', 0.001), skewed(1, 0.5, 'shift', 0.002),
                 skewed(1, 0.5, 'single', 0.003), skewed(1, 0.9, 'single', 0.004),
                 skewed(1024, 0.9, 'single', 0.005), 'a line of another program'])


def picked(size, hotspot, to):
    objects = samples.bench_objects(ALL)
    return samples.sample_of(samples.pick_object(objects, size, hotspot, to),
                             'median_s', 1000)[:2]


def profile(own, device):
    """Returns a callgrind file with the costs of a library, a device and a
    call."""
    return (f'ob=(1) lib.so\nfn=(1) f\n1 {own}\ncob=(2) dev.so\ncfn=(2) g\n'
            f'calls=1 1\n1 {device}\n\nob=(2)\nfn=(2)\n1 {device}\n')


class Options(unittest.TestCase):
    def test_split(self):
        """options: those of mrail bench, and those of mrail run"""
        self.assertEqual(
            runner.split_options('-np 8 --soft 2x4 --sizes 1m,4m --bind-rails '
                                 '--hotspot 0.7 --mca coll ^mrail'.split()),
            ('-np 8 --soft 2x4 --bind-rails --mca coll ^mrail'.split(),
             '--sizes 1m,4m --hotspot 0.7'.split()))


class Samples(unittest.TestCase):
    def test_skew(self):
        """select a sample by skew"""
        self.assertEqual(picked('1', 0.5, 'single'), (3, 0.5))

    def test_size(self):
        """select a sample by size"""
        self.assertEqual(picked('1k', 0.9, 'single'), (5, 0.5))

    def test_even(self):
        """select a sample without skew"""
        self.assertEqual(picked('1', 0, 'shift'), (1, 0.5))

    def test_absent(self):
        """a skew that was not measured is rejected"""
        self.assertRaises(ValueError, picked, '1', 0.1, 'single')

    def test_ambiguous(self):
        """an ambiguous selection is rejected"""
        self.assertRaises(ValueError, picked, '1', None, None)

    def test_wrong_data(self):
        """a sample with wrong or unverified data is rejected"""
        for data_ok in (False, None, 'true'):
            objects = samples.bench_objects(
                skewed(1, 0, 'uniform', 1, data_ok=data_ok))
            self.assertRaises(ValueError, samples.pick_object, objects)

    def test_null(self):
        """a field that is null or absent is rejected"""
        item = json.loads(skewed(1, 0, 'uniform', 1, planned=None))
        self.assertRaises(ValueError, samples.sample_of, item, 'planned')
        self.assertRaises(ValueError, samples.sample_of, item, 'bytes_per_s')

    def test_cut(self):
        """a truncated line is rejected"""
        self.assertRaises(ValueError, samples.bench_objects, ALL[:40])

    def test_spread(self):
        """p50 and p99 have the unit of the time; p99 needs 100 iterations"""
        item = json.loads(skewed(1, 0, 'uniform', 3e-6, p50_s=2e-6, p99_s=9e-6,
                                 bytes_per_s=5, iterations=100))
        sample = samples.sample_of(item, 'median_s', 1e6)
        self.assertAlmostEqual(sample.p50, 2)
        self.assertAlmostEqual(sample.p99, 9)
        self.assertIsNone(samples.sample_of(item, 'bytes_per_s').p99)
        item['iterations'] = 99
        self.assertIsNone(samples.sample_of(item, 'median_s').p99)

    def test_sizes(self):
        """sizes in the notation of mrail bench"""
        self.assertEqual([samples.size_bytes(text) for text in
                          ('8', '64k', '16m', '2G')],
                         [8, 65536, 16 << 20, 2 << 30])
        for wrong in ('', 'k', '1.5k', '-1', '1kk'):
            self.assertRaises(ValueError, samples.size_bytes, wrong)

    def test_two_profiles(self):
        """instructions per message from two runs"""
        self.assertEqual(samples.instructions(
            [profile(100, 30), profile(500, 130)], 'dev', 10), (40, 50))

    def test_one_profile(self):
        """instructions per message from one run"""
        self.assertEqual(samples.instructions([profile(500, 130)], 'dev', 10),
                         (50, 63))

    def test_no_profile(self):
        """instructions: a run that counted nothing is rejected"""
        self.assertRaises(ValueError, samples.instructions, [''], 'dev', 10)
        self.assertRaises(ValueError, samples.instructions,
                          [profile(5, 5), profile(5, 5)], 'dev', 10)

    def test_perftest(self):
        """perftest: GB/s from the line for 64 KB"""
        text = ' #bytes iterations BW\n 65536 1000 0.00 24.80 0.0473\n'
        self.assertAlmostEqual(samples.perftest_rate(text), 3.1)
        self.assertRaises(ValueError, samples.perftest_rate, 'no such device')

    def test_values(self):
        """lines of names and values"""
        self.assertEqual(samples.named_values('2x4.cold 1.5\nnoise 8 3\n'),
                         {'2x4.cold': 1.5, 'noise.8': 3})
        self.assertRaises(ValueError, samples.named_values, 'a word')

    def test_pair(self):
        """times of a pair and of the other ranks"""
        self.assertEqual(samples.pair_seconds(
            'head\nsecond 0: 100.0 50.5\nsecond 1: 90 60\n'),
            [(100, 50.5), (90, 60)])
        self.assertRaises(ValueError, samples.pair_seconds, '')


def steady(until_s, step_s=0.01, size=1000, gaps=()):
    """Returns one point per step, with no points inside the gaps (start,
    end)."""
    points, count = [], round(until_s / step_s)
    for i in range(1, count + 1):
        at_s = i * step_s
        if not any(start < at_s < end for start, end in gaps):
            points.append((at_s, size))
    return points


class Streams(unittest.TestCase):
    def test_pause(self):
        """stream: the longest pause and the rates after a disturbance"""
        points = steady(5, gaps=[(1.0, 1.2), (3.5, 3.8)])
        pause, after, back = samples.disturbed(points, 1.0, 2.2)
        self.assertAlmostEqual(pause.value, 200, delta=0.01)
        self.assertAlmostEqual(pause.p50, 10, delta=0.01)
        self.assertAlmostEqual(after.value, 0.1, delta=0.002)
        # Messages arrive from 3.2 s on, except in a gap of 0.3 s.
        self.assertAlmostEqual(back.value, 0.1 * 1.5 / 1.79, delta=0.002)

    def test_earlier_pause(self):
        """stream: pauses before or long after the disturbance do not count"""
        points = steady(5, gaps=[(0.2, 0.8), (2.5, 2.9)])
        pause, _, _ = samples.disturbed(points, 1.0, 2.2)
        self.assertAlmostEqual(pause.value, 10, delta=0.01)

    def test_across(self):
        """stream: a pause that began before the disturbance counts in full"""
        points = steady(5, gaps=[(0.9, 1.1)])
        self.assertAlmostEqual(
            samples.disturbed(points, 1.0, 2.2)[0].value, 200, delta=0.01)

    def test_ended(self):
        """stream: a stream that ended too early is rejected"""
        for points in ([], steady(1.5), steady(3.3), steady(5)[:1]):
            self.assertRaises(ValueError, samples.disturbed, points, 1.0, 2.2)

    def test_end_rate(self):
        """stream: the rate of its last part"""
        points = steady(2, size=500) + [(2 + i * 0.01, 2000)
                                        for i in range(1, 201)]
        self.assertAlmostEqual(samples.rate_at_end(points), 0.2, delta=1e-3)
        for few in ([], [(1.0, 5)], steady(0.5)):
            self.assertRaises(ValueError, samples.rate_at_end, few)

    def test_text(self):
        """stream: points from mpi_stream's file"""
        self.assertEqual(samples.stream_points('1.5 10\n2.5 10\n'),
                         [(1.5, 10), (2.5, 10)])
        self.assertRaises(ValueError, samples.stream_points, '1.5\n')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
