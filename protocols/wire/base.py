"""The base of every wire error, and the form in which an object's answer crosses to its route."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NotRequired, TypedDict, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_catalogue: dict[tuple[str, int], type["WireError"]] = {}


class WireError(Exception):
    """A refusal that the wire protocol names.

    A subclass sets `code` and `status`; its docstring is its default message, for logs and people, never sent.
    `retryable` is true where the same request may succeed later: by default 429 and every 5xx.
    Keyword arguments are the members that follow `error` in the body, in the order given; `headers` are sent with it.
    Two classes may share a code when their status differs; the pair is unique (TypeError at import otherwise).
    """

    code: ClassVar[str]
    status: ClassVar[int]
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" not in cls.__dict__ and not hasattr(cls, "code"):
            raise TypeError(f"{cls.__name__} has no code")
        if "retryable" not in cls.__dict__:
            cls.retryable = cls.status == 429 or cls.status >= 500
        if not cls.__doc__:
            raise TypeError(f"{cls.__name__} has no docstring, which is its message")
        key = (cls.code, cls.status)
        if _catalogue.setdefault(key, cls).__qualname__ != cls.__qualname__:
            raise TypeError(f"{cls.__name__}: {key} is already {_catalogue[key].__name__}")

    def __init__(self, *, headers: dict[str, str] | None = None, **fields: Any) -> None:
        super().__init__(f"{self.code}: {inspect.cleandoc(self.__doc__ or '').splitlines()[0]}")
        self.fields = fields
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """The JSON body: `{"error": code}` and the fields."""
        return {"error": self.code, **self.fields}


def catalogue() -> tuple[type[WireError], ...]:
    """Every wire error that is imported, by code and status."""
    return tuple(_catalogue[key] for key in sorted(_catalogue))


class Reply(TypedDict):
    """An answer that a Durable Object method hands to its route: plain data, so that it crosses the boundary."""

    status: int
    value: Any
    headers: NotRequired[dict[str, str]]


def reply(value: Any, status: int = 200) -> Reply:
    """The answer `value` with `status`."""
    return {"status": status, "value": value}


def _refusal(error: WireError) -> Reply:
    answer: Reply = {"status": error.status, "value": error.body()}
    if error.headers:
        answer["headers"] = error.headers
    return answer


def wire_method(method: F) -> F:
    """Makes a Durable Object method return its `WireError` as a `Reply` in place of raising it.

    An exception class does not survive the call boundary of an object (spec durable-object-semantics 11), its status
    and fields do. Works on plain and on coroutine functions; other exceptions pass. The method's own writes are *not*
    undone: raise before writing, or write inside `transactionSync`.
    """
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def later(*args: Any, **kwargs: Any) -> Any:
            try:
                return await method(*args, **kwargs)
            except WireError as error:
                return _refusal(error)

        return cast(F, later)

    @functools.wraps(method)
    def now(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except WireError as error:
            return _refusal(error)

    return cast(F, now)
