"""Draws the lab's exchanges from the figures of the area named paths."""
from .svg import Drawing, Scale

WIDTH, HEIGHT = 860, 352
BAR, PITCH = 200, 22
PATTERNS = (('alltoallv', 'MPI_Alltoallv, equal flows'),
            ('ring', 'ring of equal flows'))
# The baselines of the figures. The figure itself holds the value with port
# rules.
ROWS = ('ECMP, ports of mrail', 'ECMP, lanes move', 'ECMP, stock UCX')
TIME = '{}, 8 lanes, rules: time over the bound'
VARIATION = '... variation of uplink loads'


def pairs_of(figures, pattern):
    """Returns {row: (time relative to the lower bound, variation in %)} for a
    pattern. The rows include 'port rules'."""
    found = {}
    for item, after in zip(figures, figures[1:]):
        if (item['what'] == TIME.format(pattern)
                and after['what'] == VARIATION):
            found['port rules'] = (item['value'], after['value'])
            found[item['baseline']] = (item['baseline_value'],
                                       after['baseline_value'])
    return found


def is_possible(figures):
    """Returns whether the figures include the lab's exchanges, which the
    drawing needs."""
    return all(set(pairs_of(figures, pattern)) >= {'port rules', *ROWS}
               for pattern, _ in PATTERNS)


def draw(figures):
    """Returns the SVG. figures: objects of the area paths, as in paths.json."""
    values = {pattern: pairs_of(figures, pattern) for pattern, _ in PATTERNS}
    every = [pair for rows in values.values() for pair in rows.values()]
    times = Scale(0, max(time for time, _ in every), 0, BAR)
    spreads = Scale(0, max(spread for _, spread in every), 0, BAR)
    drawing = Drawing(WIDTH)
    drawing.text(24, 34, 'Eight hosts, eight uplinks per leaf: effect of port '
                 'rules', 'title')
    drawing.text(24, 56, 'mrail lab, software rails, 8 lanes per rail, 16 MiB per '
                 'rank; medians', 'note')
    drawing.text(216, 86, 'time, as a multiple of the bound', 'head')
    drawing.text(536, 86, 'variation of uplink loads', 'head')
    y = 98
    for pattern, words in PATTERNS:
        drawing.text(24, y + 13, words, 'strong')
        y += PITCH
        for row in ('port rules', *ROWS):
            time, spread = values[pattern][row]
            kind = 'own' if row == 'port rules' else 'base'
            drawing.text(206, y + 13, row, 'note', 'end')
            drawing.bar(216, y, times(time), kind)
            drawing.text(222 + times(time), y + 13, f'{time:.2f} x')
            drawing.bar(536, y, spreads(spread), kind)
            drawing.text(542 + spreads(spread), y + 13, f'{spread:.0f} %' if spread >= 10
                         else f'{spread:.2g} %')
            y += PITCH
        y += 8
    return drawing.svg(HEIGHT, 'Times of exchanges and variation of uplink loads '
                       'with port rules and with ECMP')
