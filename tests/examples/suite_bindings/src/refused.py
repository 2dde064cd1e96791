"""`refused(kind, call, text)`: the call must raise that."""


def refused(kind, call, text=""):
    try:
        value = call()
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
    else:
        raise AssertionError(f"returned {value!r}")


async def refused_later(kind, awaitable, text=""):
    try:
        value = await awaitable
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
    else:
        raise AssertionError(f"returned {value!r}")
