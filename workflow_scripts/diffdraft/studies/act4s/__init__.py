"""Act IV-S: which width of a drafted block pays, and does choosing it pay?"""
