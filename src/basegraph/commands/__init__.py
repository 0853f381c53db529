"""The commands behind `basegraph ...`, one file each: parse, call, print."""
