# src/uct
