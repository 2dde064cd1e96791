"""Rules of publication: batches, direct publication and what acknowledges it. Spec state-plane-protocol 11.8,
11.9."""
