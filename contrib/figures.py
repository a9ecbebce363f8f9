#!/usr/bin/env python3
"""Draws the figure of results in README.md from recorded benchmark data.

Reads docs/results/data/readme-alltoallv.json (runs of `mrail bench alltoallv
--json`) and docs/results/data/readme-failover.json (the list that `contrib/bench
failover` writes as build/bench/failover.json), and writes an SVG.
"""
import argparse
import json
import os
import statistics
import sys
from xml.sax.saxutils import escape

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(TOP, 'docs', 'results', 'data')
WIDTH = 860
STYLE = """
  text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif;
         fill: #1f2328; }
  .head { font-weight: bold; font-size: 14px; }
  .note { font-size: 12px; fill: #59636e; }
  .card { fill: #ffffff; stroke: #d1d9e0; }
  .base { fill: #8c959f; } .base2 { fill: #57606a; } .own { fill: #0969da; }
  .mark { stroke: #cf222e; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .note { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .base { fill: #6e7681; } .base2 { fill: #9198a1; } .own { fill: #4493f8; }
    .mark { stroke: #f85149; }
  }"""


class Drawing:
    """Elements of an SVG, top to bottom."""

    def __init__(self):
        self.parts = []

    def text(self, x, y, words, style='', anchor='start'):
        self.parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
            + (f' class="{style}"' if style else '')
            + f'>{escape(words)}</text>')

    def bar(self, x, y, length, style):
        self.parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" rx="2" height="16" '
                          f'width="{max(length, 1):.1f}" class="{style}"/>')

    def mark(self, x, y):
        self.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 2:.0f}" '
                          f'y2="{y + 18:.0f}" class="mark"/>')

    def svg(self, height, title):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
                f'height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}" '
                f'role="img">\n<title>{escape(title)}</title>\n'
                f'<style>{STYLE}\n</style>\n<rect x="0.5" y="0.5" '
                f'width="{WIDTH - 1}" height="{height - 1:.0f}" rx="6" '
                f'class="card"/>\n' + '\n'.join(self.parts) + '\n</svg>\n')


def median_of(runs, kind, job, hotspot, field):
    """Median over the runs of one job; a run with wrong data is refused."""
    chosen = [run for run in runs if run['ranks_are'] == kind
              and run['job'] == job and run['hotspot'] == hotspot]
    if not chosen or not all(run['data_ok'] for run in chosen):
        sys.exit(f'figures.py: no valid run of {kind}, {job}, {hotspot}')
    return statistics.median(run[field] for run in chosen)


def draw_exchanges(drawing, x, y, head, kind, jobs, runs, scale):
    """Bars of all ranks' MB/s, even and skewed; returns the next free y."""
    drawing.text(x, y, head)
    y += 2
    for hotspot, words in ((0, 'evenly to all ranks'),
                           (0.7, '70 % of the bytes to rank 0')):
        y += 22
        drawing.text(x, y, words, 'note')
        y += 8
        for job, style in jobs:
            rate = median_of(runs, kind, job, hotspot, 'bytes_per_s') / 1e6
            drawing.text(x + 118, y + 13, job, 'note', 'end')
            drawing.bar(x + 126, y, rate * scale, style)
            drawing.text(x + 132 + rate * scale, y + 13, f'{rate:.0f} MB/s')
            y += 22
    return y


def pauses_of(figures):
    """(pattern, fault, ms, target ms) of each longest pause."""
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


def draw_pauses(drawing, x, y, figures):
    drawing.text(x, y, 'Longest pause of a running job when one of four rails '
                 'fails', 'head')
    y += 18
    for pattern, fault, value, target in pauses_of(figures):
        drawing.text(x + 218, y + 13, f'{pattern}, {fault}', 'note', 'end')
        drawing.bar(x + 226, y, value * 1.6, 'own')
        drawing.mark(x + 226 + target * 1.6, y)
        drawing.text(x + 234 + value * 1.6, y + 13, f'{value:.0f} ms')
        y += 22
    drawing.text(x + 226, y + 14, 'red: target. Stock UCX in the same stream: '
                 'the job aborts after 11 s.', 'note')
    return y + 22


def draw(exchanges, figures):
    drawing = Drawing()
    runs = exchanges['runs']
    drawing.text(20, 28, 'MPI_Alltoallv: bandwidth of all ranks together, '
                 'higher is better', 'head')
    bottom = draw_exchanges(
        drawing, 20, 56, 'Each rank may use all 4 rails (4 MiB per rank)',
        'multi-rail', (('stock, 1 rail', 'base'), ('stock, 4 rails', 'base2'),
                       ('mrail, 4 rails', 'own')),
        [dict(run, job=run['job'].replace(' UCX', '')) for run in runs], 0.26)
    right = draw_exchanges(
        drawing, 450, 56, 'Each rank has 1 rail (16 MiB per rank)',
        'single-rail', (('stock UCX', 'base2'), ('mrail, planned', 'own')),
        [dict(run, job=run['job'].replace('mrail', 'mrail, planned'))
         for run in runs], 0.16)
    drawing.text(450, right + 20, 'Inside an emulated node stock UCX sends '
                 'over the rails,', 'note')
    drawing.text(450, right + 36, 'mrail through memory: see docs/results/data.',
                 'note')
    bottom = draw_pauses(drawing, 20, bottom + 36, figures)
    drawing.text(20, bottom + 14, exchanges['setup'].split(';')[0]
                 + '; every byte checked.', 'note')
    return drawing.svg(bottom + 30, 'mrail and stock UCX: MPI_Alltoallv '
                       'bandwidth, and pauses when a rail fails')


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--alltoallv', metavar='FILE', default=os.path.join(
        DATA, 'readme-alltoallv.json'), help='runs of mrail bench')
    parser.add_argument('--failover', metavar='FILE', default=os.path.join(
        DATA, 'readme-failover.json'), help='list of contrib/bench failover')
    parser.add_argument('-o', '--output', metavar='FILE', default=os.path.join(
        TOP, 'docs', 'images', 'results.svg'), help='the SVG, - for stdout')
    options = parser.parse_args()
    picture = draw(load(options.alltoallv), load(options.failover))
    if options.output == '-':
        sys.stdout.write(picture)
        return
    with open(options.output, 'w', encoding='utf-8') as file:
        file.write(picture)


if __name__ == '__main__':
    main()
