"""The state plane: a Worker like any other, reached over signed HTTP.

`moorage.worker.app.StatePlane` is the ASGI application, `moorage.worker.bundle` the folder that `moorage serve`
loads.
"""

if not __name__.startswith("moorage."):
    raise ImportError(f"import moorage.{__name__}, not {__name__}: the folder is mapped into the namespace")
