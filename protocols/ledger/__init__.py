"""The pure rules of the action ledger: canonical text, identities, events, shards, readers, import, projections.

Nothing here reads a clock, a file, the environment or a random source: the clock's text, the environment mapping
and file contents are arguments. `moorage.clients.ledger` does the reading and writing.
"""
