# src/rail: the engine.  libibverbs only.
