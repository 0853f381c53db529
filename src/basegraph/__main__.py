"""`python -m basegraph` is `basegraph`."""

from basegraph.cli import main

if __name__ == "__main__":
    main()
