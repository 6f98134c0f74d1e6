"""Targets and texts of the hub: fetched, checked to be the pinned ones, linked. Runs no model."""
