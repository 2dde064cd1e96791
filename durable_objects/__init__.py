"""The Durable Object runtime and Moorage's own Durable Object classes."""

if not __name__.startswith("moorage."):
    raise ImportError(f"import moorage.{__name__}, not {__name__}: the folder is mapped into the namespace")
