"""The review queue in the queue object: items, leases, dispatch, publication, dead letters; one module a subject."""
