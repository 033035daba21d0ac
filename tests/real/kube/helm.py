"""Helm as a library. As a program it installs the chart of the project:

  helm.py NAMESPACE RELEASE VALUES      # VALUES is JSON
"""

import ctypes
import json
import os
import pathlib
import sys
import tempfile


class Helm:
    """The functions of Helm's library that the tests need."""

    class Refused(Exception):
        pass

    def __init__(self, folder, namespace):
        # Helm must not read or write the user's own configuration.
        for part in ("CACHE", "CONFIG", "DATA"):
            os.environ[f"HELM_{part}_HOME"] = str(folder / part.lower())
        found = list(pathlib.Path(sys.prefix).glob("lib/*/site-packages/helm_sdkpy/_lib/*/libhelm_sdkpy.so"))
        self.library = ctypes.CDLL(str(found[0]))
        self.library.helm_sdkpy_last_error.restype = ctypes.c_char_p
        self.library.helm_sdkpy_version_string.restype = ctypes.c_char_p
        self.library.helm_sdkpy_free.argtypes = [ctypes.c_void_p]
        self.handle = ctypes.c_ulonglong()
        kubeconfig = os.environ["KUBECONFIG"].encode()
        self._check(self.library.helm_sdkpy_config_create(
            namespace.encode(), kubeconfig, None, b"{}", ctypes.byref(self.handle)))

    def version(self):
        return self.library.helm_sdkpy_version_string().decode()

    def _check(self, code):
        if code != 0:
            raise Helm.Refused(self.library.helm_sdkpy_last_error().decode())

    def _call(self, function, *arguments):
        result = ctypes.c_void_p()
        self._check(function(self.handle, *arguments, ctypes.byref(result)))
        text = ctypes.string_at(result).decode()
        self.library.helm_sdkpy_free(result)
        return json.loads(text)

    def install(self, release, chart, values):
        options = json.dumps({"wait": False, "timeout_seconds": 60, "server_side_apply": "false"})
        return self._call(self.library.helm_sdkpy_install, release.encode(), str(chart).encode(),
                          json.dumps(values).encode(), b"", options.encode())

    def uninstall(self, release):
        self._call(self.library.helm_sdkpy_uninstall, release.encode(), 0, 60)

    def lint(self, chart):
        return self._call(self.library.helm_sdkpy_lint, str(chart).encode())


if __name__ == "__main__":
    namespace, release, values = sys.argv[1:]
    chart = pathlib.Path(__file__).resolve().parents[3] / "config/chart"
    with tempfile.TemporaryDirectory() as folder:
        Helm(pathlib.Path(folder), namespace).install(release, chart, json.loads(values))
