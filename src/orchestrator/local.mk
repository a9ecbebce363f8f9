# src/orchestrator
