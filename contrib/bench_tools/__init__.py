"""The parts of contrib/bench: statistics, runs, areas, pages and drawings."""
