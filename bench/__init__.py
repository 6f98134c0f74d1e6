"""Speed ratios against their bars, each measured against its own baseline in one run.

One module a bar; each has `NAME`, `BAR` (how many times faster at least) and `ratio()`,
which is None where the comparison does not exist on this platform.
"""
