"""The paper's experiments: every figure and table as a function that writes files."""
