"""nginx and the gate side by side, in front of the same app, with somebody who is signed in."""

import os
import subprocess
import time

import candidates
import machine
import people
from candidates import Candidate


def gate(app, more="", listen="", scheme="http", opens="team", admin=0, under=()):
    """The gate with a session of somebody who opened an app."""
    number = machine.port()
    issuer = people.provider(f"{scheme}://127.0.0.1:{number}/oauth2/callback")
    process = candidates.ludgate(app, issuer, number, more=more, listen=listen, scheme=scheme, admin=admin, under=under)
    machine.until_open(number)
    time.sleep(10 if under else 1)
    path = f"/apps/{opens}/x"
    return Candidate(process, number, path, people.signed_in(number, path, scheme))


def certificate():
    """A certificate for 127.0.0.1, and its key; P-256."""
    key, chain = (os.path.join(machine.folder.name, name) for name in ("tls.key", "tls.crt"))
    if not os.path.exists(key):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*command, *names, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return key, chain
