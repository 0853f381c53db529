"""Sequences made from others: products, blocks side by side, relabeling, networkx."""
