"""The text formats of Prometheus, for tests of mrail exporter."""

import re

LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9.eE+-]+)$')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def labels_of(text):
    """Returns the labels as a dictionary."""
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise ValueError("labels: " + text[at:])
        value = re.sub(r'\\[\\"n]', lambda m: ESCAPES[m.group(0)], match.group(2))
        labels[match.group(1)] = value
        at = match.end()
    return labels


class Scrape:
    """The parsed text of one scrape."""

    def __init__(self, text):
        self.types, self.helps, self.samples = {}, {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line[7:].split(" ", 1)
                self.types[name] = kind
            elif line.startswith("# HELP "):
                name, text = line[7:].split(" ", 1)
                self.helps[name] = text
            elif not line.startswith("#"):
                self.add(line)

    def add(self, line):
        match = SAMPLE.match(line)
        if not match:
            raise ValueError("not a sample: " + line)
        labels = labels_of(match.group(2) or "")
        key = (match.group(1), tuple(sorted(labels.items())))
        if key in self.samples:
            raise ValueError("twice: " + line)
        self.samples[key] = float(match.group(3))

    def values(self, name, **wanted):
        """Returns [(labels, value)] of the samples with these labels."""
        return [(dict(labels), value)
                for (sample, labels), value in self.samples.items()
                if sample == name and
                all(dict(labels).get(k) == v for k, v in wanted.items())]

    def value(self, name, **wanted):
        """Returns the only value, or None if there is none."""
        found = self.values(name, **wanted)
        if len(found) > 1:
            raise ValueError("%d samples of %s" % (len(found), name))
        return found[0][1] if found else None

    def counters(self):
        return {key: value for key, value in self.samples.items()
                if key[0].endswith("_total")}


def decreased(before, after):
    """Returns the counters of `before` that are smaller in `after`."""
    later = after.counters()
    return [key for key, value in before.counters().items()
            if key in later and later[key] < value]
