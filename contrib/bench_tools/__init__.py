"""This package contains the parts of contrib/bench: statistics, runs, areas, pages and
drawings."""
