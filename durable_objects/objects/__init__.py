"""The state plane's Durable Object classes: load, ask a rule, store."""
