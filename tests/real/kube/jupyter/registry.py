"""Serves an OCI image layout as a registry, for reading, on a free port of loopback:

  registry.py LAYOUT

The first line of standard output is its address. Each repository has all tags of the layout. See
https://github.com/opencontainers/distribution-spec.
"""

import http.server
import json
import pathlib
import re
import shutil
import sys
import urllib.parse

LAYOUT = pathlib.Path(sys.argv[1])
TAG = "org.opencontainers.image.ref.name"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
PAGE = 100
INDEX = json.loads((LAYOUT / "index.json").read_text(encoding="utf-8"))["manifests"]
BY_TAG = {manifest["annotations"][TAG]: manifest for manifest in INDEX}
BY_DIGEST = {manifest["digest"]: manifest for manifest in INDEX}


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        found = re.fullmatch(r"/v2/(?:(?P<name>.+)/(?P<kind>tags|manifests|blobs)/(?P<what>[^/]+))?", url.path)
        kind, what = (found["kind"], found["what"]) if found else ("", "")
        if found and not kind:
            self.send_json({})
        elif kind == "tags" and what == "list":
            self.send_tags(found["name"], url)
        elif kind == "manifests" and (manifest := BY_TAG.get(what) or BY_DIGEST.get(what)):
            self.send_blob(manifest["digest"], manifest["mediaType"])
        elif kind == "blobs" and DIGEST.fullmatch(what):
            self.send_blob(what, "application/octet-stream")
        else:
            self.send_json({"errors": [{"code": "NOT_FOUND"}]}, 404)

    def send_tags(self, name, url):
        """A page of the tags, with a link to the next one."""
        query = dict(urllib.parse.parse_qsl(url.query))
        number = query.get("n", "")
        count = max(1, min(int(number), PAGE)) if number.isdecimal() else PAGE
        after = [tag for tag in sorted(BY_TAG) if tag > query.get("last", "")]
        tags, headers = after[:count], {}
        if len(after) > count:
            more = urllib.parse.urlencode({"n": count, "last": tags[-1]})
            headers["Link"] = f'<{url.path}?{more}>; rel="next"'
        self.send_json({"name": name, "tags": tags}, 200, headers)

    def send_blob(self, digest, media_type):
        path = LAYOUT / "blobs" / digest.replace(":", "/")
        if not path.is_file():
            self.send_json({"errors": [{"code": "BLOB_UNKNOWN"}]}, 404)
            return
        self.send_head(200, media_type, path.stat().st_size, {"Docker-Content-Digest": digest})
        if self.command == "GET":
            with path.open("rb") as file:
                shutil.copyfileobj(file, self.wfile, 1024 * 1024)

    def send_json(self, value, status=200, headers=None):
        text = json.dumps(value).encode()
        self.send_head(status, "application/json", len(text), headers or {})
        if self.command == "GET":
            self.wfile.write(text)

    def send_head(self, status, media_type, length, headers):
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.daemon_threads = True
    print(f"127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
