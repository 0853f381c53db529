"""Sequences made from others: products, blocks side by side, relabelling, networkx."""
