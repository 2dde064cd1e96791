"""Clients of this Worker's own."""
