"""The command line: thin commands that parse, call the library and print.

`main` runs a command line (`app.py`) and is the only place that knows exit codes: 0 for success, 2
for a user's mistake, 1 for what failed otherwise, each with one line on standard error. Every
command is a file of its name. `arguments.py` reads what several commands share, `output.py` prints
tables, JSON and progress. (Bandwidths and times are read by `basegraph.units`.)

>>> from basegraph.cli import main
>>> try:
...     main(["verify", "base", "--nodes", "25", "--degree", "1"])
... except SystemExit as done:
...     print("exit code", done.code)
proved: base:k=1, n=25: 9 rounds of degree ≤ 1 multiply to J/n (exact integer product)
exit code 0
"""

from basegraph.cli.app import main

__all__ = ["main"]
