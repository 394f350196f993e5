"""Studies: declared experiments over grids of parameters, run, resumed, compared and reported."""
