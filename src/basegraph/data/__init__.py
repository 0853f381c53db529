"""Datasets in their official files, Dirichlet partition, and what every node sees when."""
