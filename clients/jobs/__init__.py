"""The job queue on one SQLite file, for many processes, and its command line."""
