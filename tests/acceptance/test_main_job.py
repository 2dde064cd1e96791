"""The main job: a publisher writes, the server is killed and started again, a second machine rebuilds the tree.

The publisher has nothing but HTTP and a secret; the second machine has the `moorage` command.
"""

import base64
import hashlib
import hmac
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.support.serving import ServedProcess

SECRET = "main-job-secret"
ENVIRON = {"CLAWSWEEPER_WEBHOOK_SECRET": SECRET, "EXACT_REVIEW_OPERATOR_SECRET": "operator"}


def call(client: httpx.Client, method: str, path: str, body: Any) -> httpx.Response:
    data = json.dumps(body).encode()
    mac = hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
    headers = {"x-clawsweeper-exact-review-signature": f"sha256={mac}"}
    return client.request(method, path, content=data, headers=headers)


def publish(url: str, tree: dict[str, bytes]) -> None:
    """Writes everything over plain signed HTTP."""
    rng = random.Random(5)
    with httpx.Client(base_url=url, timeout=30) as client:
        for number in range(1, 41):
            report = f"---\nstate: open\ntitle: Item {number}\n---\n\nBody é 漢 {rng.random()}\n".encode()
            plan = f"# Plan {number}\n".encode() if number % 3 else None
            closed = number % 7 == 0
            contents = {
                f"records/example-widgets/items/{number}.md": None if closed else report,
                f"records/example-widgets/closed/{number}.md": report if closed else None,
                f"records/example-widgets/plans/{number}.md": None if closed else plan,
                f"records/example-widgets/decision-packets/{number}.json": None,
            }
            operations = []
            for path, content in contents.items():
                operation: dict[str, Any] = {"path": path, "expectedDigest": None}
                if content is not None:
                    operation["contentBase64"] = base64.b64encode(content).decode()
                    tree[path] = content
                operations.append(operation)
            body = {"deliveryId": f"main-{number}", "key": f"example-widgets/{number}", "operations": operations}
            assert call(client, "POST", "/internal/state/records/tuples", body).status_code == 202
        sha, content = "a" * 40, b"# commit review\n"
        record = {"sha": sha, "content": content.decode(), "digest": hashlib.sha256(content).hexdigest()}
        body = {"repo_slug": "example-widgets", "records": [record]}
        assert call(client, "POST", "/internal/state/records/commits", body).status_code == 202
        tree[f"records/example-widgets/commits/{sha}.md"] = content
        cursor = {"next_cursor": 41, "expected_revision": 0}
        assert call(client, "PUT", "/internal/state/cursors/hot-intake", cursor).status_code == 202
        for name, size in (
            ("assets/logo.bin", 70_000),
            ("assets/deep/er/empty", 0),
            ("ledger/v1/events/one.jsonl", 500),
        ):
            data = rng.randbytes(size)
            body = {
                "path": name,
                "digest": hashlib.sha256(data).hexdigest(),
                "contentBase64": base64.b64encode(data).decode(),
            }
            assert call(client, "POST", "/internal/state/blobs/put", body).status_code == 201
            tree[name] = data


def moorage(url: str, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "MOORAGE_URL": url, "CLAWSWEEPER_RECORDS_SECRET": SECRET}
    command = [sys.executable, "-c", "from moorage.clients.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def test_publish_kill_restart_hydrate(tmp_path: Path) -> None:
    server_folder, second_machine = tmp_path / "server", tmp_path / "second"
    server_folder.mkdir()
    second_machine.mkdir()
    tree: dict[str, bytes] = {}
    server = ServedProcess(server_folder, ["--log-level", "error"], environ=ENVIRON).wait()
    try:
        publish(server.url, tree)
    finally:
        server.kill()
    server = ServedProcess(server_folder, ["--log-level", "error"], environ=ENVIRON).wait()
    try:
        done = moorage(server.url, "hydrate", "tree", folder=second_machine)
        assert done.returncode == 0, done.stderr
        assert files(second_machine / "tree") == tree
        checked = moorage(server.url, "hydrate", "tree", "--check", folder=second_machine)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        (second_machine / "tree" / "assets" / "logo.bin").write_bytes(b"spoilt")
        assert moorage(server.url, "hydrate", "tree", "--check", folder=second_machine).returncode != 0
        cursor = moorage(server.url, "cursor", "get", "hot-intake", "--json", folder=second_machine)
        assert json.loads(cursor.stdout)["next_cursor"] == 41
    finally:
        assert server.stop() == 0
