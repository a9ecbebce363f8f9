"""The parts of contrib/bench: statistics, runs, areas, pages, drawings."""
