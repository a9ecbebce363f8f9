"""Defines a figure of contrib/bench with its samples, JSON object and table row."""
import json
from typing import NamedTuple, Optional

from . import stats


class Sample(NamedTuple):
    """One measurement.

    value: in the unit of its figure. cpu_load: fraction of the machine's
    processor time that was busy, 0 to 1. p50, p99: percentiles of the
    individual measurements from which the value was computed, if they are
    known.
    """
    value: float
    cpu_load: float = 0.0
    p50: Optional[float] = None
    p99: Optional[float] = None


class Figure(NamedTuple):
    """A row of the table: the names of its samples, and its targets.

    better: 'more' or 'less'. own, other: names of the samples and of the
    baseline's samples; other is None if there is no baseline. ratio, value:
    targets, or None. planned: name of the samples that hold the fraction of
    planned bytes. wanted: the number of samples, or None for one per round.
    beside: triples (source, own, other) of values from other sources, such as a
    simulation or a paper, for comparison. Each of own and other is the name of
    samples, a number, or None.
    """
    what: str
    unit: str
    better: str
    own: str
    other: Optional[str] = None
    baseline: Optional[str] = None
    ratio: Optional[float] = None
    value: Optional[float] = None
    planned: Optional[str] = None
    wanted: Optional[int] = None
    section: Optional[str] = None
    beside: tuple = ()


# Two measurements that are limited by the same resource differ by less than a
# thousandth in either direction. A target of "as good as the baseline" allows
# for that.
LEVEL_SLACK = 0.001
# With this many pairs or fewer, no 95 % interval exists.
FEW_PAIRS = 5

HEADER = '%-44s %9s %-7s %9s %6s %6s  %s' % (
    'figure', 'value', 'unit', 'baseline', 'ratio', 'cpu', 'target')


def significant(value, digits=5):
    """Returns the value rounded to this many significant digits, as a number
    for JSON."""
    rounded = float(f'{value:.{digits}g}')
    return int(rounded) if rounded.is_integer() else rounded


def reaches(better, value, target):
    """Returns whether the value reaches the target: at least the target if
    `better` is 'more', at most the target if it is 'less'."""
    if better not in ('more', 'less'):
        raise ValueError(f"'{better}' is neither more nor less")
    return value <= target if better == 'less' else value >= target


def target_of(figure, value, ratio):
    """Returns (text, reached) for a figure's targets, or (None, None) if it has
    none.

    ratio: None if it could not be measured; a target for the ratio is then missed.
    """
    sign = '<=' if figure.better == 'less' else '>='
    words, reached = [], True
    if figure.ratio is not None:
        slack = LEVEL_SLACK if figure.ratio == 1 else 0
        bound = figure.ratio + (slack if figure.better == 'less' else -slack)
        words.append(f'{sign} {figure.ratio:.2f} x baseline')
        reached = ratio is not None and reaches(figure.better, ratio, bound)
    if figure.value is not None:
        words.append(f'{sign} {figure.value:g} {figure.unit}'.rstrip())
        reached = reached and reaches(figure.better, value, figure.value)
    return (', '.join(words), reached) if words else (None, None)


def compare(own, other):
    """Returns (keys, ratio): the keys that compare two lists of samples, and
    the ratio before rounding.

    Both lists are in the order of rounds. With enough pairs of runs, the ratio
    is the median of their ratios, with its 95 % interval. Otherwise it is the
    ratio of the medians. Raises ValueError if the median of the baseline, or with
    enough pairs any of its samples, is 0, and under the same conditions as
    stats.median().
    """
    values = [sample.value for sample in own]
    others = [sample.value for sample in other]
    baseline_value = stats.median(others)
    if baseline_value == 0:
        raise ValueError('the median of the baseline is 0')
    ratio = of_medians = stats.median(values) / baseline_value
    result = {'baseline_value': significant(baseline_value),
              'ratio': round(of_medians, 3)}
    if len(values) == len(others) and len(values) > FEW_PAIRS:
        ratios = stats.paired_ratios(values, others)
        low, high = stats.median_interval(ratios)
        ratio = stats.median(ratios)
        result['ratio'] = round(ratio, 3)
        result['ratio_low'] = round(low, 3)
        result['ratio_high'] = round(high, 3)
        result['ratio_of_medians'] = round(of_medians, 3)
    return result, ratio


def spread(own):
    """Returns p50 and p99 of the individual measurements, each as the median
    over the runs."""
    result = {}
    for name in ('p50', 'p99'):
        values = [getattr(sample, name) for sample in own]
        if values and None not in values:
            result[name] = significant(stats.median(values))
    return result


def values_beside(figure, samples):
    """Returns {source: [value, value of the baseline]} for figure.beside.

    samples: {name: {round: Sample}}. A value is the median of its samples, or
    None if there is none to compare with. Raises ValueError if samples are
    missing.
    """
    def value_of(item):
        if isinstance(item, str):
            if item not in samples:
                raise ValueError(f'{figure.what}: no measurement of {item}')
            item = stats.median([s.value for s in samples[item].values()])
        return None if item is None else significant(item)
    return {source: [value_of(own), value_of(other)]
            for source, own, other in figure.beside}


def evaluate(figure, own, other, wanted, planned=()):
    """Returns (object, error): the JSON object, and the reason if it is
    incomplete.

    own, other: samples; planned: fractions. wanted: required number of samples;
    with fewer samples, no target counts as reached. The error is None if
    nothing is missing. The object is None if there are no samples.
    """
    if not own:
        return None, f'{figure.what}: no measurement of {wanted}'
    error = None
    if len(own) < wanted or (figure.other and len(other) < wanted):
        error = (f'{figure.what}: {len(own)} and {len(other)} of {wanted} '
                     'measurements')
    value = stats.median([sample.value for sample in own])
    result = {'what': figure.what, 'value': significant(value),
              'unit': figure.unit, 'baseline': None, 'baseline_value': None,
              'ratio': None}
    ratio = None
    if other:
        result['baseline'] = figure.baseline
        try:
            keys, ratio = compare(own, other)
            result.update(keys)
        except ValueError as exc:
            error = f'{figure.what}: {exc}'
    text, reached = target_of(figure, value, ratio)
    result['target'] = text
    result['ok'] = None if text is None else reached and error is None
    result.update(spread(own))
    if planned:
        result['planned'] = round(sum(planned) / len(planned), 3)
    if figure.section is not None:
        result['section'] = figure.section
    loads = [sample.cpu_load for sample in own]
    result['cpu_load'] = round(stats.median(loads), 2)
    result['runs'] = [significant(sample.value) for sample in own]
    return result, error


def number(value, digits=None):
    """Formats a number for the table; '-' for None."""
    if value is None:
        return '-'
    if digits is not None:
        return f'{value:.{digits}f}'
    text = f'{value:.5g}'
    return f'{float(text):.0f}' if 'e+' in text else text


def row(figure):
    """Returns the table row of one JSON object."""
    words = []
    if figure['ok'] is not None:
        words.append('reached' if figure['ok'] else 'MISSED')
    if 'ratio_low' in figure:
        words.append(f"[{figure['ratio_low']:.3f}, {figure['ratio_high']:.3f}]")
    if 'p99' in figure:
        words.append(f"p50 {figure['p50']:g}, p99 {figure['p99']:g}")
    if 'planned' in figure:
        words.append(f"planned {figure['planned'] * 100:.0f} %")
    for source, values in figure.get('beside', {}).items():
        words.append(f'{source} {number(values[0])}, baseline {number(values[1])}')
    return '%-44s %9s %-7s %9s %6s %5.0f%%  %s %s' % (
        figure['what'], number(figure['value']), figure['unit'],
        number(figure['baseline_value']), number(figure['ratio'], 3),
        figure['cpu_load'] * 100, figure['target'] or '', ' '.join(words))


def as_list(figures):
    """Returns the JSON text of build/bench/AREA.json, with one object on each
    line."""
    lines = ',\n'.join('  ' + json.dumps(figure) for figure in figures)
    return f'[\n{lines}\n]\n' if figures else '[\n]\n'
