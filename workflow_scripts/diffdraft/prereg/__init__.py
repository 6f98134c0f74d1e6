"""Plans, their ledger, the verdict engine, promotion and the audit. Never imports MLX."""
