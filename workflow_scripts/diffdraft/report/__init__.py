"""Figures, tables, the HTML page and its Markdown summary.

The report computes no statistic. It reads what the analysis and the verdict engine wrote, and
shows it; a file that is missing is an error that names it, never a hole in the page.
"""
