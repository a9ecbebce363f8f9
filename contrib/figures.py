#!/usr/bin/env python3
"""Draws the results figure of README.md from recorded benchmark data.

Reads docs/results/data/readme-alltoallv.json and failover.json, which
`contrib/bench --record readme failover` writes, and writes an SVG.
"""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True

from bench_tools import stats  # noqa: E402 (the line above comes first)
from bench_tools.svg import Drawing, Scale  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(TOP, 'docs', 'results', 'data')
WIDTH = 860


def median_of(runs, kind, job, hotspot, field):
    """Returns the median of a field over the runs of one job. Rejects runs
    with wrong data."""
    chosen = [run for run in runs if run['ranks_are'] == kind
              and run['job'] == job and run['hotspot'] == hotspot]
    if not chosen or not all(run['data_ok'] for run in chosen):
        sys.exit(f'figures.py: no valid run of {kind}, {job}, {hotspot}')
    return stats.median([run[field] for run in chosen])


SKEWS = ((0, 'evenly to all ranks'), (0.7, '70 % of the bytes to rank 0'))
BAR = 190  # length of an exchange's longest bar; a pause may be twice as long


def draw_exchanges(drawing, x, y, head, kind, jobs, runs):
    """Draws bars of all ranks' MB/s, even and skewed. Returns the next free
    y."""
    rates = {(job, hotspot):
             median_of(runs, kind, job, hotspot, 'bytes_per_s') / 1e6
             for job, _ in jobs for hotspot, _ in SKEWS}
    scale = Scale(0, max(rates.values()), 0, BAR)
    drawing.text(x, y, head)
    y += 2
    for hotspot, words in SKEWS:
        y += 22
        drawing.text(x, y, words, 'note')
        y += 8
        for job, style in jobs:
            rate = rates[job, hotspot]
            drawing.text(x + 118, y + 13, job, 'note', 'end')
            drawing.bar(x + 126, y, scale(rate), style)
            drawing.text(x + 132 + scale(rate), y + 13, f'{rate:.0f} MB/s')
            y += 22
    return y


def pauses_of(figures):
    """Returns (pattern, fault, ms, target ms) for each figure of a longest
    pause."""
    found = []
    for figure in figures:
        what = figure['what']
        if what.endswith(': longest pause'):
            pattern, fault = what[:-len(': longest pause')].split(', ')
            found.append((pattern, fault, figure['value'],
                          float(figure['target'].split()[1])))
    if not found:
        sys.exit('figures.py: the failover data has no pause')
    return found


def draw_pauses(drawing, x, y, failover):
    pauses = pauses_of(figures_of(failover))
    scale = Scale(0, max(max(value, target) for _, _, value, target in pauses),
                  0, 2 * BAR)
    drawing.text(x, y, 'Longest pause of a running job when one of four rails '
                 'fails', 'head')
    y += 18
    for pattern, fault, value, target in pauses:
        drawing.text(x + 218, y + 13, f'{pattern}, {fault}', 'note', 'end')
        drawing.bar(x + 226, y, scale(value), 'own')
        at = x + 226 + scale(target)
        drawing.line([(at, y - 2), (at, y + 18)], 'mark')
        drawing.text(x + 234 + scale(value), y + 13, f'{value:.0f} ms')
        y += 22
    drawing.text(x + 226, y + 14, 'red: target', 'note')
    for words in observations_of(failover)[:1]:
        y += 18
        drawing.text(x, y + 14, words, 'note')
    return y + 22


def draw(exchanges, failover):
    drawing = Drawing(WIDTH)
    runs = exchanges['runs']
    drawing.text(20, 28, 'MPI_Alltoallv: bandwidth of all ranks together, '
                 'higher is better', 'head')
    bottom = draw_exchanges(
        drawing, 20, 56, 'Each rank may use all 4 rails (4 MiB per rank)',
        'multi-rail', (('stock, 1 rail', 'base'), ('stock, 4 rails', 'base2'),
                       ('mrail, 4 rails', 'own')),
        [dict(run, job=run['job'].replace(' UCX', '')) for run in runs])
    right = draw_exchanges(
        drawing, 450, 56, 'Each rank has 1 rail (16 MiB per rank)',
        'single-rail', (('stock UCX', 'base2'), ('mrail, planned', 'own')),
        [dict(run, job=run['job'].replace('mrail', 'mrail, planned'))
         for run in runs])
    drawing.text(450, right + 20, 'Inside an emulated node stock UCX sends '
                 'over the rails,', 'note')
    drawing.text(450, right + 36, 'mrail through memory: see docs/results/data.',
                 'note')
    bottom = draw_pauses(drawing, 20, bottom + 36, failover)
    drawing.text(20, bottom + 14, exchanges['setup'].split(';')[0]
                 + '; every byte checked.', 'note')
    return drawing.svg(round(bottom) + 30, 'mrail and stock UCX: MPI_Alltoallv '
                       'bandwidth, and pauses when a rail fails')


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def figures_of(data):
    """Returns the figures from a recorded area or from a list that
    contrib/bench wrote."""
    return data if isinstance(data, list) else data['figures']


def observations_of(data):
    """Returns the recorded sentences about the baseline of an area."""
    return [] if isinstance(data, list) else data.get('observations', [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--alltoallv', metavar='FILE', default=os.path.join(
        DATA, 'readme-alltoallv.json'), help='runs of mrail bench')
    parser.add_argument('--failover', metavar='FILE', default=os.path.join(
        DATA, 'failover.json'), help='recorded data, or the list of contrib/bench')
    parser.add_argument('-o', '--output', metavar='FILE', default=os.path.join(
        TOP, 'docs', 'images', 'results.svg'), help='the SVG, or - for stdout')
    options = parser.parse_args()
    picture = draw(load(options.alltoallv), load(options.failover))
    if options.output == '-':
        sys.stdout.write(picture)
        return
    with open(options.output, 'w', encoding='utf-8') as file:
        file.write(picture)


if __name__ == '__main__':
    main()
