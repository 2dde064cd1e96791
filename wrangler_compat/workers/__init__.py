"""What user code imports as `workers`."""
