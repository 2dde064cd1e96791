"""Rules of the command intake: a comment version that asks for a new review, kept before anything acts on it."""
