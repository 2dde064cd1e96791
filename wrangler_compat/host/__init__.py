"""Loads a Worker by its configuration, builds `env`, and serves it."""
