"""Live delivery over a real socket: HTTPS on loopback, with a certificate of its own."""

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from moorage.clients.ledger.delivery import ProjectionQueue, https_sender
from moorage.clients.ledger.recorder import Recorder
from moorage.clients.ledger.spool import read_spool

from .support import ENVIRONMENT, NOW_MS, real, record_item


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[str, ssl.SSLContext, list[dict[str, Any]]]]:
    """Base address, a context that trusts it, and what it was sent. It refuses every third event."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append({"path": self.path, "token": self.headers["authorization"], "body": json.loads(body)})
            self.send_response(500 if len(received) % 3 == 0 else 202)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments: Any) -> None:
            pass

    certificate, key = _certificate(tmp_path)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", ssl.create_default_context(cafile=str(certificate)), received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_events_reach_an_https_endpoint(
    tmp_path: Path, fleet: tuple[str, ssl.SSLContext, list[dict[str, Any]]]
) -> None:
    base, trusted, received = fleet
    environment = {
        **ENVIRONMENT,
        "CLAWSWEEPER_CRABFLEET_SESSION_ID": "s 1",
        "CLAWSWEEPER_CRABFLEET_AGENT_TOKEN": "tok",
        "CLAWSWEEPER_CRABFLEET_URL": f"{base}/fleet/",
        "CLAWSWEEPER_CRABFLEET_WORK_STATE_URL": f"{base}/fleet/api/agent/interactive-sessions/s%201/work-state",
    }
    (tmp_path / "root").mkdir()
    queue = ProjectionQueue(https_sender(trusted))
    recorder = Recorder(real(tmp_path / "root"), environment=environment, now_ms=lambda: NOW_MS, projections=queue)
    recorded = [record_item(recorder, index) for index in range(1, 7)]
    queue.drain(recorder.root.path, 60_000)
    assert {entry["path"] for entry in received} == {"/fleet/api/agent/interactive-sessions/s%201/events"}
    assert {entry["token"] for entry in received} == {"Bearer tok"}
    assert sorted(entry["body"]["payload"]["event"]["event_id"] for entry in received) == sorted(
        event.event_id for event in recorded
    )
    failed = {
        event.parent for event in read_spool(recorder.root) if event.record["event_type"] == "projection.failed"
    }
    assert len(failed) == 2
