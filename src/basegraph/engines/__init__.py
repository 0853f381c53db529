"""Engines: the only place where execution differs."""
