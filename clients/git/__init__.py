"""What is left to Git: one fetch, one commit, one push of the retained paths, under the state-writer lease.

Seed "State storage": records, ledger, assets and artifacts have owners of their own and never go to Git.
"""
