# src/softroce
