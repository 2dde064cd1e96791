"""What makes a Worker run: its configuration, the modules it imports, and its host."""

if not __name__.startswith("moorage."):
    raise ImportError(f"import moorage.{__name__}, not {__name__}: the folder is mapped into the namespace")
