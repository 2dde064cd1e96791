"""Reads and validates wrangler configuration, migrations and variables."""
