"""Storage backends behind the bucket API."""
