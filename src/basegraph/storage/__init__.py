"""Files: written atomically, locked, read with limits, and where results come from."""
