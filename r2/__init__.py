"""Object storage with the platform's bucket API over several backends."""

if not __name__.startswith("moorage."):
    raise ImportError(f"import moorage.{__name__}, not {__name__}: the folder is mapped into the namespace")
