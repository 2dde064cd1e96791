"""Replays the R2 observations of the Durable Object vectors on a backend.

The runtime's older column is compared: where a case has `observed_newer`, only the texts of JavaScript's own type
errors differ.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moorage.r2 import Bucket, R2Error, R2ObjectBody, RangeError, open_bucket
from moorage.r2.backends.common import wall_clock

from .r2_rules import Difference, rule_for
from .r2_values import Headers, JavaScriptOnly, ShownHeaders, decode, differences, encode, fold, members
from .result import CaseResult

AREAS = ("r2-objects", "r2-list-multipart")
FAMILY = "do"


def within_a_second() -> int:
    """The time, never a whole second: what is observed of `secondsGranularity` needs milliseconds to cut off."""
    now = wall_clock()
    return now if now % 1000 else now + 1


def run(folder: Path, areas: list[str], backend: str = "file") -> Iterator[CaseResult]:
    """The outcome of every case in `folder/<area>.json`, for the areas given (both when empty), on that backend."""
    loop = asyncio.new_event_loop()
    try:
        with tempfile.TemporaryDirectory(prefix="r2-replay-") as state:
            bucket = loop.run_until_complete(
                open_bucket(backend, name="replay", state_folder=Path(state), now=within_a_second)
            )
            try:
                for area in areas or AREAS:
                    path = folder / f"{area}.json"
                    if not path.exists():
                        continue
                    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
                        yield loop.run_until_complete(_judge(bucket, backend, area, case))
            finally:
                loop.run_until_complete(bucket.close())
    finally:
        loop.close()


async def _judge(bucket: Bucket, backend: str, area: str, case: dict[str, Any]) -> CaseResult:
    await _empty(bucket)
    allowed: set[str] = set()
    try:
        found = await _differences(bucket, backend, case)
    except JavaScriptOnly as value:
        return CaseResult(FAMILY, area, case["name"], "skipped", f"js-value: {value}")
    except Exception as error:  # a crash is a failed case like any other; the run goes on
        return CaseResult(FAMILY, area, case["name"], "failed", f"{type(error).__name__}: {error}")
    for difference in found:
        rule = rule_for(difference)
        if rule is None:
            detail = f"{difference.path}: expected {difference.expected!r}, got {difference.got!r}"
            return CaseResult(FAMILY, area, case["name"], "failed", detail)
        allowed.add(rule)
    if allowed:
        return CaseResult(FAMILY, area, case["name"], "skipped", ", ".join(sorted(allowed)))
    return CaseResult(FAMILY, area, case["name"], "passed")


async def _empty(bucket: Bucket) -> None:
    while (page := await bucket.list()).objects:
        await bucket.delete([item.key for item in page.objects])


async def _differences(bucket: Bucket, backend: str, case: dict[str, Any]) -> list[Difference]:
    variables: dict[str, Any] = {}
    found = []
    for number, (step, observed) in enumerate(zip(case["steps"], case["observed"], strict=True)):
        got = await _outcome(bucket, step, variables)
        for path, expected, actual in differences(fold(observed), got):
            found.append(Difference((number, *path), expected, actual, case, step, backend))
    return found


async def _outcome(bucket: Bucket, step: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": await _perform(bucket, step, variables)}
    except (R2Error, TypeError, ValueError) as error:
        names = {R2Error: "Error", RangeError: "RangeError", TypeError: "TypeError", ValueError: "SyntaxError"}
        name = next(name for kind, name in names.items() if isinstance(error, kind))
        return {"err": {"name": name, "message": str(error)}}


async def _perform(bucket: Bucket, step: dict[str, Any], variables: dict[str, Any]) -> Any:
    if "mp" in step:
        target, method = variables[step["of"]], step["mp"]
    elif "r2" in step:
        target, method = bucket, step["r2"]
    else:
        raise JavaScriptOnly(f"a step {sorted(step)}")
    arguments = [decode(argument, variables) for argument in step.get("args", ())]
    result = getattr(target, method)(*arguments)
    if method != "resumeMultipartUpload":
        result = await result
    if "as" in step:
        variables[step["as"]] = result
    if step.get("show") == "metadata":
        return _shown_metadata(result, step, variables)
    return await _read(result, step.get("read"))


def _shown_metadata(result: Any, step: dict[str, Any], variables: dict[str, Any]) -> Any:
    given = decode(step.get("headers", {}), variables)
    headers = given if isinstance(given, Headers) else Headers(given)
    result.writeHttpMetadata(headers)
    return ShownHeaders(headers.items())


async def _read(result: Any, how: str | None) -> Any:
    if how == "props":
        return members(result)
    if not isinstance(result, R2ObjectBody):
        return encode(result)
    match how:
        case None:
            shown = encode(result)
            text = await result.text()
            return {**shown, "body": text, "bodyUsed": result.bodyUsed}
        case "twice":
            await result.text()
            return await result.text()
        case "text" | "json" | "blob":
            return encode(await getattr(result, how)())
        case "bytes" | "arrayBuffer":
            kind = "Uint8Array" if how == "bytes" else "ArrayBuffer"
            return {**encode(await getattr(result, how)()), "type": kind}
    raise JavaScriptOnly(f"read {how}")


def main(arguments: list[str]) -> int:
    """`python -m tests.contract.r2 FOLDER [BACKEND]`: prints what did not pass and the counts."""
    results = list(run(Path(arguments[0]), [], *(arguments[1:2] or ["file"])))
    for result in results:
        if result.outcome != "passed":
            print(f"{result.outcome} {result.area} {result.name}: {result.detail}")
    counts = [sum(result.outcome == outcome for result in results) for outcome in ("passed", "failed", "skipped")]
    print(f"{FAMILY} r2: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
