"""Ending a node in time when it is asked to stop."""
