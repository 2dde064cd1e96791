"""Makes `.types/moorage/`, the link folder through which type checkers see the namespace.

Checkers resolve imports on disk and know nothing of setuptools' `package-dir`; the links give them
`moorage.<part>` without moving a folder. Run before a checker: `python tests/support/typelinks.py`.
"""

from pathlib import Path

PARTS = ("clients", "durable_objects", "protocols", "r2", "worker", "wrangler_compat")


def make_links(root: Path) -> Path:
    """Creates or completes the links below `root` and returns the folder that holds them."""
    folder = root / ".types" / "moorage"
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        link = folder / part
        if not link.is_symlink():
            link.symlink_to(Path("..") / ".." / part, target_is_directory=True)
    return folder


if __name__ == "__main__":
    print(make_links(Path(__file__).resolve().parents[2]))
