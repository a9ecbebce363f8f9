"""Provides what the tests of contrib/bench_tools share: search path, samples,
output."""
import io
import os
import pathlib
import sys
import traceback
import unittest

sys.dont_write_bytecode = True
TOP = pathlib.Path(os.environ.get('srcdir') or
                   pathlib.Path(__file__).resolve().parents[2]).resolve()
sys.path.insert(0, str(TOP / 'contrib'))

from bench_tools import figure, runner  # noqa: E402 (after the path)
from bench_tools.figure import Figure, Sample  # noqa: E402


def made(values, load=0.5):
    return [Sample(value, load) for value in values]


def evaluated(own, other=(), wanted=5, planned=(), **target):
    """Returns evaluate()'s result for samples with the values `own` and
    `other`."""
    spec = Figure('w', 'u', target.pop('better', 'more'), 'own',
                  'other' if other else None, 'p' if other else None, **target)
    return figure.evaluate(spec, made(own), made(other), wanted, planned)


def bench_in(folder):
    """Returns a Bench that keeps its files in `folder` and prints nothing."""
    bench = runner.Bench(5, out=io.StringIO())
    bench.area, bench.dir = 'area', pathlib.Path(folder)
    bench.progress = runner.Progress(out=io.StringIO())
    return bench


OWN = (5, 1, 4, 2, 3)
FULL = (2, 2, 2, 2, 2)
TWENTY = tuple(range(11, 31))


class Lines(unittest.TestResult):
    """Prints one line per test."""

    def addSuccess(self, test):
        print(f'ok - {test.shortDescription()}', flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        why = ' '.join(''.join(traceback.format_exception_only(*err[:2])).split())
        place = traceback.extract_tb(err[2])[-1]
        print(f'not ok - {test.shortDescription()}: {test.id()}, line '
              f'{place.lineno}: {why}', flush=True)

    addError = addFailure


def main(names):
    """Runs the named tests of the main module, or all of them."""
    loader = unittest.TestLoader()
    module = sys.modules['__main__']
    suite = (loader.loadTestsFromNames(names, module) if names
             else loader.loadTestsFromModule(module))
    result = Lines()
    suite.run(result)
    return 0 if result.wasSuccessful() and result.testsRun else 1
