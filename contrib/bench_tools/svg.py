"""Draws text, bars, lines and axes as SVG, with light and dark colours.

The result is an SVG without scripts or embedded fonts. The viewer chooses the
font, so text is measured with the character widths of a wide font. Text that
could extend beyond the drawing is an error.
"""
from xml.sax.saxutils import escape, quoteattr

# Widths of DejaVu Sans, one of the widest screen fonts, in 1/1000 of the font
# size, rounded up. All other characters count as wide as the widest letter.
WIDTHS = {**dict.fromkeys("ijlI'|", 360), **dict.fromkeys(' .,:;!()[]/ft-r', 445),
          **dict.fromkeys('0123456789', 640), **dict.fromkeys('mM', 980),
          **dict.fromkeys('wWQ%@', 1000),
          **dict.fromkeys('abcdeghknopqsuvxyzJLT', 640)}
WIDEST = 860
BOLD = 1.12

# class: (attributes, light colour, dark colour). The colour applies to the
# fill, or for classes of lines, to the stroke.
FILLS = {
    'text': ('#1f2328', '#f0f6fc'),
    'note': ('#59636e', '#9198a1'),
    'base': ('#8c959f', '#6e7681'),
    'base2': ('#57606a', '#9198a1'),
    'own': ('#0969da', '#4493f8'),
    'area': ('#dcdfe4', '#2d333b'),
    'series1': ('#c2571a', '#f0883e'),
    'series2': ('#1f5fa8', '#4493f8'),
    'series3': ('#2b7d4f', '#56d364'),
}
STROKES = {
    'mark': ('#cf222e', '#f85149', 2),
    'axis': ('#444444', '#9198a1', 1),
    'grid': ('#e9ebee', '#21262d', 1),
    'edge': ('#8a919c', '#6e7681', 1),
    'divide': ('#b3b8c0', '#484f58', 1),
    'line1': ('#c2571a', '#f0883e', 2),
    'line2': ('#1f5fa8', '#4493f8', 2),
    'line3': ('#2b7d4f', '#56d364', 2),
}
CARD = ('#ffffff', '#0d1117', '#d1d9e0', '#3d444d')
FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif'
SIZES = {'title': 19, 'head': 14, 'note': 12}
SIZE = 13


def text_width(words, size=SIZE, bold=False):
    """Returns an upper bound on the width of a text in pixels, assuming a wide
    font.

    size: font size in pixels.
    """
    total = sum(WIDTHS.get(letter, WIDEST) for letter in words)
    return total / 1000 * size * (BOLD if bold else 1)


def style():
    """Returns the style sheet, with light and dark colours."""
    def rules(scheme):
        lines = [f'  .{name} {{ fill: {colors[scheme]}; }}'
                 for name, colors in FILLS.items() if name != 'text']
        lines += [f'  .{name} {{ stroke: {colors[scheme]}; }}'
                  for name, colors in STROKES.items()]
        return [f'  text {{ fill: {FILLS["text"][scheme]}; }}', *lines,
                f'  .card {{ fill: {CARD[scheme]}; stroke: {CARD[2 + scheme]}; }}']
    shapes = [f'  text {{ font: {SIZE}px {FONT}; }}',
              '  .title { font-size: %dpx; font-weight: bold; }' % SIZES['title'],
              '  .head { font-size: %dpx; font-weight: bold; }' % SIZES['head'],
              '  .note { font-size: %dpx; }' % SIZES['note'],
              '  .strong { font-weight: bold; }',
              '  .divide { stroke-dasharray: 3 4; }']
    shapes += [f'  .{name} {{ fill: none; stroke-width: {colors[2]}; }}'
               for name, colors in STROKES.items()]
    dark = ['  @media (prefers-color-scheme: dark) {',
            *('  ' + rule for rule in rules(1)), '  }']
    return '\n'.join(shapes + rules(0) + dark)


def place(value):
    """Formats a coordinate with one digit after the decimal point, or as an
    integer if it is whole."""
    return f'{value:.1f}'.rstrip('0').rstrip('.') if value else '0'


class Scale:
    """Maps the interval [low, high] of the data linearly to the pixels [start,
    end]."""

    def __init__(self, low, high, start, end):
        if high <= low:
            raise ValueError(f'cannot scale from {low} to {high}')
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


class Drawing:
    """Elements of an SVG of a fixed width. Coordinates are pixels from the top
    left."""

    def __init__(self, width):
        self.width = width
        self.parts = []

    def text(self, x, y, words, classes='', anchor='start'):
        """Draws a line of text. Raises ValueError if it could extend beyond the
        drawing."""
        kinds = classes.split()
        size = next((SIZES[kind] for kind in kinds if kind in SIZES), SIZE)
        bold = bool({'title', 'head', 'strong'} & set(kinds))
        width = text_width(words, size, bold)
        left = {'start': x, 'middle': x - width / 2, 'end': x - width}[anchor]
        if left < 0 or left + width > self.width:
            raise ValueError(f"'{words}' may reach from {left:.0f} to "
                             f'{left + width:.0f} of {self.width} pixels')
        self.parts.append(
            f'<text x="{place(x)}" y="{place(y)}"'
            + (f' text-anchor="{anchor}"' if anchor != 'start' else '')
            + (f' class={quoteattr(classes)}' if classes else '')
            + f'>{escape(words)}</text>')

    def upright(self, x, y, words):
        """Draws a text centred at a point and rotated to read upwards."""
        self.parts.append(
            f'<text transform="translate({place(x)} {place(y)}) rotate(-90)" '
            f'text-anchor="middle">{escape(words)}</text>')

    def bar(self, x, y, length, kind, height=16):
        """Draws a horizontal bar, which stays visible even if it is shorter
        than a pixel."""
        self.parts.append(
            f'<rect x="{place(x)}" y="{place(y)}" rx="2" height="{place(height)}" '
            f'width="{place(max(length, 1))}" class="{kind}"/>')

    def line(self, points, kind):
        """Draws a line through [(x, y), ...]."""
        places = ' '.join(f'{place(x)},{place(y)}' for x, y in points)
        self.parts.append(f'<polyline points="{places}" class="{kind}"/>')

    def polygon(self, points, kind):
        places = ' '.join(f'{place(x)},{place(y)}' for x, y in points)
        self.parts.append(f'<polygon points="{places}" class="{kind}"/>')

    def dot(self, x, y, kind, radius=2.6):
        self.parts.append(f'<circle cx="{place(x)}" cy="{place(y)}" '
                          f'r="{place(radius)}" class="{kind}"/>')

    def triangle(self, x, y, kind):
        """Draws an upward triangle, for a value above the scale."""
        self.polygon([(x - 4.5, y + 5), (x, y - 4), (x + 4.5, y + 5)], kind)

    def axes(self, x_scale, y_scale, x_ticks, y_ticks, labels=True):
        """Draws axes, with a grid line for each y tick. labels: whether to
        label the x ticks as well."""
        left, right = x_scale.start, x_scale.end
        for value in y_ticks:
            y = y_scale(value)
            self.line([(left, y), (right, y)],
                      'axis' if value == y_scale.low else 'grid')
            self.text(left - 9, y + 4.5, f'{value:g}', anchor='end')
        self.line([(left, y_scale.start), (left, y_scale.end)], 'axis')
        for value in x_ticks:
            x = x_scale(value)
            self.line([(x, y_scale.start), (x, y_scale.start + 5)], 'axis')
            if labels:
                self.text(x, y_scale.start + 20, f'{value:g}', anchor='middle')

    def svg(self, height, title):
        """Returns the whole file as text. title: for readers who cannot see the
        drawing."""
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
                f'height="{place(height)}" viewBox="0 0 {self.width} '
                f'{place(height)}" role="img">\n'
                f'<title>{escape(title)}</title>\n<style>\n{style()}\n</style>\n'
                f'<rect x="0.5" y="0.5" width="{self.width - 1}" '
                f'height="{place(height - 1)}" rx="6" class="card"/>\n'
                + '\n'.join(self.parts) + '\n</svg>\n')
