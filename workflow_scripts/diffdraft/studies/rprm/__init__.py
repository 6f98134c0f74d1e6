"""RPRM stage 1: does drafter entropy tell acceptance beyond the distance ahead?"""
