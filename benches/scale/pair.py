"""Starts Ludgate with a signed-in user, for comparison with nginx in front of the same app."""

import os
import subprocess
import time

import candidates
import machine
import people
from candidates import Candidate


def gateway(app, log=False, more="", listen="", scheme="http", opens="team", admin=0, wrapper=()):
    """Starts Ludgate and signs a user in, who opens the app `opens`."""
    number = machine.port()
    issuer = people.provider(f"{scheme}://127.0.0.1:{number}/oauth2/callback")
    process = candidates.ludgate(app, issuer, number, log, more=more, listen=listen, scheme=scheme, admin=admin, wrapper=wrapper)
    machine.until_open(number)
    time.sleep(10 if wrapper else 1)
    path = f"/apps/{opens}/x"
    return Candidate(process, number, path, people.signed_in(number, path, scheme))


def certificate():
    """A self-signed P-256 certificate for 127.0.0.1. Returns the paths of key and certificate."""
    key, chain = (os.path.join(machine.folder.name, name) for name in ("tls.key", "tls.crt"))
    if not os.path.exists(key):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*command, *names, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return key, chain
