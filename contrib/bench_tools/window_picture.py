"""Draws the throughput window from the object that window_figure writes."""
from .svg import Drawing, Scale

WIDTH, HEIGHT = 900, 880
LEFT, RIGHT, TOP = 78, 872, 164
PANEL, PITCH = 190, 226         # height and spacing of the panels
MAX_GBPS = 800
REMARKS = {'1': 'each chunk separately: noise and bursts look alike',
           '8': "mrail's window: every burst is seen",
           '32': 'the bursts are gone: one step, late'}


def head(drawing, data):
    drawing.text(LEFT, 32, 'Throughput of one lane, measured over its last W '
                 'chunks', 'title')
    drawing.text(
        LEFT, 55, f"Virtual time, {data['rate_gbps']:g} Gb/s, chunks of "
        f"{data['segment_bytes'] // 1024} KiB posted back to back, sampled every "
        f"{data['sample_us']:g} µs, seed {data['seed']};", 'note')
    drawing.text(
        LEFT, 72, f"polls see completions and are {data['poll_min_us']:g} to "
        f"{data['poll_max_us']:g} µs apart.  After ICCL, figure 15.", 'note')


def legend(drawing, windows):
    x = LEFT
    drawing.polygon([(x, 90), (x + 26, 90), (x + 26, 102), (x, 102)], 'area')
    drawing.line([(x, 90), (x + 26, 90)], 'edge')
    drawing.text(x + 33, 101, 'true rate')
    x += 124
    for i, window in enumerate(windows, 1):
        drawing.line([(x, 96), (x + 26, 96)], f'line{i}')
        drawing.dot(x + 13, 96, f'series{i}')
        drawing.text(x + 33, 101, f'W = {window}')
        x += 110
    drawing.triangle(x + 10, 96, 'note')
    drawing.text(x + 22, 101, 'above the scale')


def truth(data, x_scale, y_scale):
    """Draws the outline of the true rate as a polygon."""
    ends = [start for start, _ in data['truth'][1:]] + [data['end_us']]
    points = [(x_scale(0), y_scale(0))]
    for (start, gbps), end in zip(data['truth'], ends):
        points += [(x_scale(start), y_scale(gbps)), (x_scale(end), y_scale(gbps))]
    return points + [(x_scale(data['end_us']), y_scale(0))]


def panel(drawing, data, window, i, top, is_last):
    x_scale = Scale(0, data['end_us'], LEFT, RIGHT)
    y_scale = Scale(0, MAX_GBPS, top + PANEL, top)
    outline = truth(data, x_scale, y_scale)
    drawing.axes(x_scale, y_scale, range(0, int(data['end_us']) + 1, 50),
                 range(0, MAX_GBPS + 1, 200), is_last)
    drawing.polygon(outline, 'area')
    drawing.line(outline, 'edge')
    drawing.upright(LEFT - 50, top + PANEL / 2, 'Gb/s')
    if is_last:
        drawing.text((LEFT + RIGHT) / 2, top + PANEL + 42, 'time (µs)',
                     anchor='middle')
    series = data['series'][window]
    drawing.line([(x_scale(at), y_scale(min(gbps, MAX_GBPS)))
                  for at, gbps in series], f'line{i}')
    for at, gbps in series:
        if gbps > MAX_GBPS:
            drawing.triangle(x_scale(at), top, f'series{i}')
        else:
            drawing.dot(x_scale(at), y_scale(gbps), f'series{i}')
    drawing.text(LEFT + 4, top - 9, f'W = {window}', f'strong series{i}')
    drawing.text(LEFT + 64, top - 9, REMARKS[window])


def phases(drawing, data):
    """Draws the labels of the phases above the first panel, and the boundaries
    between the phases in all panels."""
    x_scale = Scale(0, data['end_us'], LEFT, RIGHT)
    limits = [0, data['arrive_us'], data['stable_us'], data['leave_us'],
              data['end_us']]
    names = ('alone', 'another flow, in bursts', 'both have half', 'alone')
    for name, start, end in zip(names, limits, limits[1:]):
        drawing.text((x_scale(start) + x_scale(end)) / 2, TOP - 30, name, 'note',
                     'middle')
    for start in limits[1:-1]:
        for k in range(len(data['series'])):
            top = TOP + k * PITCH
            drawing.line([(x_scale(start), top), (x_scale(start), top + PANEL)],
                         'divide')


def draw(data):
    """Returns the SVG for one object of test/bench/window_figure.c."""
    drawing = Drawing(WIDTH)
    windows = list(data['series'])
    head(drawing, data)
    legend(drawing, windows)
    for k, window in enumerate(windows):
        panel(drawing, data, window, k + 1, TOP + k * PITCH,
              k == len(windows) - 1)
    phases(drawing, data)
    return drawing.svg(HEIGHT, 'Throughput of one lane, as windows of 1, 8 and '
                       '32 chunks measure it')
