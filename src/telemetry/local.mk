# src/telemetry
