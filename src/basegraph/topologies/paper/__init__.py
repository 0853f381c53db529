"""The constructions of the paper: hyper-hypercube, Simple Base-(k+1) Graph, Base-(k+1) Graph."""
