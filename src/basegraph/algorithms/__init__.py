"""Decentralized optimization methods, one per file, written once for both engines."""
