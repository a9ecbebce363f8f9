# softroce: unit, property and simulation tests
