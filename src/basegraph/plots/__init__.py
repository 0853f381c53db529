"""Figures, made with matplotlib and written atomically."""
