"""Rules of the review queue: decisions, admission, leases, completion, dispatch. Spec state-plane-protocol 11."""
