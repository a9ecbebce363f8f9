"""Generates the rows of docs/versions.md, which show the versions of UCX and Open
MPI with which the tests have run. The functions convert texts, and access no files."""
import collections
import json
import re

KEY = ('ucx', 'ucx_build', 'ompi')
FIRST = '<!-- contrib/matrix --record writes the lines from here -->'
LAST = '<!-- to here -->'
HEAD = ('| UCX | configured for | Open MPI | date | passed | failed | skipped |\n'
        '|---|---|---|---|---|---|---|')


def ucx_of(text):
    """Returns (version, build) from the output of `ucx_info -v`. The build is
    "release" or "assertions", followed by the options that matter."""
    version = re.search(r'[Vv]ersion[=: ]+(\d+\.\d+\.\d+\w*)', text)
    if not version:
        raise ValueError('ucx_info -v names no version')
    options = re.search(r'[Cc]onfigured with: *(.*)', text)
    options = options.group(1).split() if options else []
    words = ['release' if '--disable-assertions' in options else 'assertions']
    words += ['threads'] * ('--enable-mt' in options)
    words += ['CUDA'] * any(re.match(r'--with-cuda(=(?!no)|$)', option)
                            for option in options)
    return version.group(1), ', '.join(words)


def ompi_of(text):
    """Returns the version from the output of `mpirun --version`."""
    version = re.search(r'Open MPI\)? v?(\d+\.\d+\.\d+\w*)', text)
    return version.group(1) if version else 'none'


def row_of(ucx, ompi, date, results):
    """Returns a row from build/check/results, whose lines are KIND, NAME and
    REASON, separated by tabs."""
    lines = [line.split('\t', 2) for line in results.splitlines() if line]
    count = collections.Counter(line[0] for line in lines)
    version, build = ucx
    return {'ucx': version, 'ucx_build': build, 'ompi': ompi, 'date': date,
            **{kind: count[kind] for kind in ('pass', 'fail', 'skip')},
            'reasons': [f'{name}: {reason}' for kind, name, reason in lines
                        if kind in ('fail', 'skip')]}


def number_of(version):
    return [int(part) for part in re.findall(r'\d+', version)]


def merged(rows, new):
    """Returns the rows with the new ones, which replace older rows of the same
    versions, in the order of versions."""
    found = {tuple(row[key] for key in KEY): row for row in [*rows, *new]}
    return sorted(found.values(), key=lambda row: (
        number_of(row['ucx']), row['ucx_build'], number_of(row['ompi'])))


def table(rows):
    lines = [HEAD]
    lines += [f"| {row['ucx']} | {row['ucx_build']} | {row['ompi']} | "
              f"{row['date']} | {row['pass']} | {row['fail']} | {row['skip']} |"
              for row in rows]
    reasons = [f"- UCX {row['ucx']}, {row['ucx_build']}, Open MPI "
               f"{row['ompi']}: {reason}"
               for row in rows for reason in row['reasons']]
    if reasons:
        lines += ['', 'Failed and skipped tests:', '', *reasons]
    return '\n'.join(lines)


def page(text, rows):
    """Returns the page with a new table."""
    before, rest = text.split(FIRST)
    after = rest.split(LAST)[1]
    return f'{before}{FIRST}\n\n{table(rows)}\n\n{LAST}{after}'


def as_json(rows):
    """Returns the rows as JSON, one on each line."""
    return '[\n' + ',\n'.join(map(json.dumps, rows)) + '\n]\n'
