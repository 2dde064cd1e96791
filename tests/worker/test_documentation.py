"""The examples of the chapters work as they stand."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moorage.protocols.signatures import Request, body_hmac, verify_request

DOCS = Path(__file__).parents[2] / "docs"


def blocks(chapter: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / chapter).read_text(), re.DOTALL)


def test_the_python_example_signs() -> None:
    (example,) = [block for block in blocks("state-plane.md", "python") if "def sign(" in block]
    namespace: dict[str, Any] = {}
    exec(compile(example, "docs/state-plane.md", "exec"), namespace)
    now = namespace["time"].time()
    headers = namespace["sign"]("PUT", "/a/b", "x=1", b"{}", "secret")
    request = Request("PUT", b"/a/b", b"x=1", [(name.encode(), value.encode()) for name, value in headers.items()])
    assert verify_request(request, b"{}", {"webhook": [b"secret"]}, now).key_id == "webhook"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_shell_example_signs() -> None:
    (example,) = [block for block in blocks("state-plane.md", "sh") if "openssl dgst" in block]
    lines = example.splitlines()
    script = "\n".join([*lines[:2], 'printf %s "$signature"'])
    done = subprocess.run(
        ["sh", "-c", script],
        env={"CLAWSWEEPER_WEBHOOK_SECRET": "s", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == body_hmac.sign(b"s", b'{"next_cursor":7,"expected_revision":0}')


def test_named_operations_and_metrics_exist() -> None:
    from moorage.worker import metrics
    from moorage.worker.routes import blobs

    text = (DOCS / "state-plane.md").read_text()
    for route in blobs.routes:
        assert f"| `{route.path.removeprefix(blobs.PREFIX)}` |" in text
    for family in metrics.Collector().collect():
        assert family.name.removeprefix(metrics.PREFIX) in text


def test_every_reason_of_a_refusal_in_the_chapter_exists() -> None:
    from moorage.protocols.signatures import Reason

    pattern = r"`(component_\w+|content_digest_\w+|created_\w+|nonce_\w+|unknown_\w+|signature_mismatch)`"
    named = set(re.findall(pattern, (DOCS / "state-plane.md").read_text()))
    assert named
    assert named <= {reason.value for reason in Reason}
