"""A simulated S3 server as a process: prints its address and serves until its standard input ends."""

import sys

from moorage.r2.backends.moto import acquire_server, release_server

if __name__ == "__main__":
    print(acquire_server().url, flush=True)
    sys.stdin.read()
    release_server()
