"""Mixing: applying a round to the nodes' vectors. The only place where execution differs."""
