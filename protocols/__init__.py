"""Pure rules: values in, decisions out. No clock, no input or output, no logging."""

if not __name__.startswith("moorage."):
    raise ImportError(f"import moorage.{__name__}, not {__name__}: the folder is mapped into the namespace")
