"""Tests of contrib/matrix and bench_tools/versions.py, with a program in place of
contrib/check.

    python3 test/tools/test_matrix.py [CLASS.test_NAME ...]

Prints one line "ok - NAME" or "not ok - NAME: WHY" per test. The name of a
test is the first line of its docstring.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from bench_lines import main  # noqa: E402
from bench_tools import versions

TOP = pathlib.Path(__file__).resolve().parent.parent.parent

DEBUG = '''# Version 1.13.1
# configured with: --enable-mt --enable-devel-headers --with-cuda=no
'''
RELEASE = '''# Library version: 1.18.1
# Git branch '', revision d9aa565
# Configured with: --disable-logging --disable-assertions --enable-mt --with-cuda
'''


def row(ucx, ompi, date='2030-01-01', failed=()):
    return {'ucx': ucx, 'ucx_build': 'release', 'ompi': ompi, 'date': date,
            'pass': 7, 'fail': len(failed), 'skip': 0,
            'reasons': [f'{name}: why' for name in failed]}


class Rows(unittest.TestCase):
    def test_ucx(self):
        """versions: the version and the build of a UCX"""
        self.assertEqual(versions.ucx_of(DEBUG),
                         ('1.13.1', 'assertions, threads'))
        self.assertEqual(versions.ucx_of(RELEASE),
                         ('1.18.1', 'release, threads, CUDA'))
        self.assertRaises(ValueError, versions.ucx_of, 'not found')

    def test_ompi(self):
        """versions: the version of an Open MPI, and of none"""
        self.assertEqual(versions.ompi_of('mpirun (Open MPI) 5.0.7rc1\n'),
                         '5.0.7rc1')
        self.assertEqual(versions.ompi_of('HYDRA 4.2\n'), 'none')

    def test_row(self):
        """versions: a row counts results and keeps reasons"""
        found = versions.row_of(('1.18.1', 'release'), '4.1.4', '2030-01-01',
                                'pass\ta\t\npass\tb\t\nskip\tc\tno x\n'
                                'fail\td\tlost\n')
        self.assertEqual((found['pass'], found['fail'], found['skip']), (2, 1, 1))
        self.assertEqual(found['reasons'], ['c: no x', 'd: lost'])

    def test_merged(self):
        """versions: a newer row replaces the older one; versions are numbers"""
        old = [row('1.9.0', '4.1.4'), row('1.18.1', '4.1.4')]
        new = [row('1.18.1', '4.1.4', '2031-01-01'), row('1.18.1', '5.0.7')]
        self.assertEqual(
            [(each['ucx'], each['ompi'], each['date'])
             for each in versions.merged(old, new)],
            [('1.9.0', '4.1.4', '2030-01-01'),
             ('1.18.1', '4.1.4', '2031-01-01'),
             ('1.18.1', '5.0.7', '2030-01-01')])

    def test_page(self):
        """versions: a page keeps its text and gets the table once"""
        text = f'# Versions\n{versions.FIRST}\nold\n{versions.LAST}\nEnd.\n'
        rows = [row('1.18.1', '4.1.4', failed=['test/x.sh'])]
        once = versions.page(text, rows)
        self.assertEqual(versions.page(once, rows), once)
        self.assertTrue(once.startswith('# Versions\n'))
        self.assertTrue(once.endswith('\nEnd.\n'))
        self.assertNotIn('old', once)
        self.assertIn('| 1.18.1 | release | 4.1.4 | 2030-01-01 | 7 | 1 | 0 |',
                      once)
        self.assertIn('test/x.sh: why', once)


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.tree = self.dir / 'tree'
        for name in ('contrib/matrix', 'contrib/bench_tools/__init__.py',
                     'contrib/bench_tools/versions.py'):
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((TOP / name).read_bytes())
        self.program('tree/contrib/check', f'''
            mkdir -p {self.tree}/build/check
            echo "$@" >>{self.dir}/calls
            printf 'pass\\tother-ucx/a\\t\\n' >{self.tree}/build/check/results
            [ ! -e {self.dir}/lost ] ||
                printf 'fail\\tother-ucx/b\\tlost\\n' \\
                    >>{self.tree}/build/check/results''')
        for name in ('source', 'other'):
            header = self.dir / name / 'src/uct/api/uct.h'
            header.parent.mkdir(parents=True)
            header.write_text('')
        self.program('prefix/bin/ucx_info',
                     'echo "# Library version: 1.18.1"\n'
                     'echo "# Configured with: --disable-assertions"')
        self.program('ompi/bin/mpirun', 'echo "mpirun (Open MPI) 9.8.7"')

    def program(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n{text}\n', encoding='utf-8')
        path.chmod(0o755)

    def matrix(self, *words):
        """Returns (exit status, output) of contrib/matrix."""
        done = subprocess.run(
            [sys.executable, self.tree / 'contrib' / 'matrix', *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            universal_newlines=True, env={**os.environ, 'LD_LIBRARY_PATH': ''})
        return done.returncode, done.stdout

    def pair(self):
        return f'{self.dir}/prefix:{self.dir}/source'

    def test_pair(self):
        """matrix: a pair of versions is checked and has a row"""
        status, text = self.matrix('--ompi', f'{self.dir}/ompi', self.pair())
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r'\| 1\.18\.1 \| release \| 9\.8\.7 \| \S+ \| 1 \| 0')
        self.assertIn(f'--other-ucx={self.dir}/prefix',
                      (self.dir / 'calls').read_text())

    def test_failed(self):
        """matrix: a failed test causes exit status 1 and is named"""
        (self.dir / 'lost').touch()
        status, text = self.matrix(self.pair())
        self.assertEqual(status, 1)
        self.assertIn('other-ucx/b: lost', text)

    def test_record(self):
        """matrix: --record writes the page and its data"""
        page = self.tree / 'docs' / 'versions.md'
        (self.tree / 'docs/results/data').mkdir(parents=True)
        page.write_text(f'# V\n{versions.FIRST}\n{versions.LAST}\n')
        for _ in range(2):
            self.assertEqual(self.matrix('--record', self.pair())[0], 0)
        self.assertEqual(page.read_text().count('| 1.18.1 |'), 1)
        self.assertTrue(
            (self.tree / 'docs/results/data/versions.json').exists())

    def test_broken_ucx(self):
        """matrix: an installation that does not run is named"""
        self.program('prefix/bin/ucx_info', 'exit 127')
        status, text = self.matrix(self.pair())
        self.assertEqual(status, 1)
        self.assertIn(f'{self.dir}/prefix: ucx_info -v names no version', text)
        self.assertNotIn('Traceback', text)

    def test_no_result(self):
        """matrix: a run without a result is no row"""
        self.program('tree/contrib/check', 'exit 1')
        page = self.tree / 'docs' / 'versions.md'
        (self.tree / 'docs/results/data').mkdir(parents=True)
        page.write_text(f'# V\n{versions.FIRST}\n{versions.LAST}\n')
        status, text = self.matrix('--record', self.pair())
        self.assertEqual(status, 1)
        self.assertIn('ended without a result', text)
        self.assertNotIn('| 1.18.1 |', page.read_text())

    def test_builds(self):
        """matrix: sources without an installation are built for release"""
        self.program('source/contrib/configure-release', '''
            prefix=${1#--prefix=}
            printf 'all:\\ninstall:\\n\\tmkdir -p %s/bin\\n\\tcp %s %s/bin\\n' \\
                "$prefix" ''' + f'{self.dir}/prefix/bin/ucx_info' + ''' "$prefix" \\
                >Makefile''')
        status, text = self.matrix(f'{self.dir}/source')
        self.assertEqual(status, 0, text)
        self.assertIn('build it for release', text)
        self.program('other/contrib/configure-release', 'exit 3')
        status, text = self.matrix(f'{self.dir}/other', self.pair())
        self.assertEqual(status, 1)
        self.assertIn('other: ', text)
        self.assertIn('| 1.18.1 |', text)

    def test_usage(self):
        """matrix: bad arguments have a message and exit status 2"""
        for words, said in (((), 'UCX'), (('/nowhere',), 'no sources of UCX'),
                            ((f'/nowhere:{self.dir}/source',), 'ucx_info'),
                            (('--ompi', '/nowhere', self.pair()), 'mpirun')):
            status, text = self.matrix(*words)
            self.assertEqual(status, 2, text)
            self.assertIn(said, text)


class Page(unittest.TestCase):
    def test_current(self):
        """docs/versions.md has the rows of its data"""
        rows = json.loads((TOP / 'docs/results/data/versions.json').read_text())
        text = (TOP / 'docs/versions.md').read_text()
        self.assertEqual(versions.page(text, rows), text)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
