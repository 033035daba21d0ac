"""The name server of a cluster: the names of Services, NAME.NAMESPACE.svc.cluster.local, and none beside them.

  dns.py ADDRESS SERVER CERTIFICATE TOKENS

It listens at ADDRESS on port 53 of UDP, and asks the API server for each name. SERVER is that server's URL, CERTIFICATE
the file with its certificate, and TOKENS its file of tokens, of which the first one is used. The answers live for a
second (RFC 1035).
"""

import http.client
import json
import pathlib
import re
import socket
import ssl
import struct
import sys
import urllib.parse

ADDRESS, SERVER, CERTIFICATE, TOKENS = sys.argv[1:]
TOKEN = pathlib.Path(TOKENS).read_text(encoding="utf-8").split(",")[0]
TLS = ssl.create_default_context(cafile=CERTIFICATE)
SERVICE = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc\.cluster\.local")
HEADER = struct.Struct("!6H")
QUESTION = struct.Struct("!2H")
TYPE_A, CLASS_IN = 1, 1
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_NAME = 0, 1, 2, 3
# An answer, authoritative, with recursion desired and available.
ANSWER = 0x8580
# The question's name, by its place.
SAME_NAME = 0xC000 | HEADER.size
SECONDS = 1


class Services:
    """The addresses of Services."""

    def __init__(self):
        url = urllib.parse.urlsplit(SERVER)
        self._api = http.client.HTTPSConnection(url.hostname, url.port, context=TLS, timeout=5)

    def find(self, namespace, name):
        """The status of the API server, and the Service's address if it has one."""
        path = f"/api/v1/namespaces/{namespace}/services/{name}"
        try:
            self._api.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = self._api.getresponse()
            status, body = answer.status, answer.read()
            address = json.loads(body)["spec"].get("clusterIP", "") if status == 200 else ""
            return status, address if address != "None" else ""
        except (OSError, http.client.HTTPException):
            self._api.close()
            raise


def question(packet):
    """The name and type that are asked for, and the question's bytes. Raises on anything else than one question."""
    _, _, questions, _, _, _ = HEADER.unpack_from(packet)
    if questions != 1:
        raise ValueError("not one question")
    at, labels = HEADER.size, []
    while length := packet[at]:
        if length > 63:
            raise ValueError("a question has no pointers")
        labels.append(packet[at + 1:at + 1 + length].decode("ascii").lower())
        at += 1 + length
    kind, in_class = QUESTION.unpack_from(packet, at + 1)
    if in_class != CLASS_IN:
        raise ValueError("no question of the Internet")
    return ".".join(labels), kind, packet[HEADER.size:at + 1 + QUESTION.size]


def resolve(services, name):
    """The code of the answer, and the address of a name if it has one."""
    found = SERVICE.fullmatch(name)
    if not found:
        return NO_NAME, ""
    service, namespace = found.groups()
    # The API server closes a connection that was idle for long.
    for is_last in (False, True):
        try:
            status, address = services.find(namespace, service)
        except (OSError, http.client.HTTPException):
            if is_last:
                return SERVER_FAILURE, ""
            continue
        return {200: NO_ERROR, 404: NO_NAME}.get(status, SERVER_FAILURE), address


def answer(services, packet):
    (number,) = struct.unpack_from("!H", packet)
    try:
        name, kind, asked = question(packet)
    except (ValueError, IndexError, struct.error):
        return HEADER.pack(number, ANSWER | FORMAT_ERROR, 0, 0, 0, 0)
    code, address = resolve(services, name)
    records = b""
    if kind == TYPE_A and address:
        records = struct.pack("!HHHIH", SAME_NAME, TYPE_A, CLASS_IN, SECONDS, 4) + socket.inet_aton(address)
    return HEADER.pack(number, ANSWER | code, 1, 1 if records else 0, 0, 0) + asked + records


def main():
    services = Services()
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((ADDRESS, 53))
    while True:
        packet, client = listener.recvfrom(4096)
        if len(packet) >= HEADER.size:
            listener.sendto(answer(services, packet), client)


if __name__ == "__main__":
    main()
