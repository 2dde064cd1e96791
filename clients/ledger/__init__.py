"""The action ledger on a file system: recording, finalising, importing, reading, publishing.

The rules are in `moorage.protocols.ledger`; here is everything that touches files, clocks, processes or the network.
`recorder.Recorder` records, `finalise.finalise` turns a spool into shards, `importer.import_shards` copies shard
sets, `readers.iter_events` reads.
"""
