"""Paired timing: does a drafted decoder give the same tokens, and is it faster?"""
