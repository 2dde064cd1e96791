"""The state plane's wrangler configuration and entry module, shipped as package data."""
