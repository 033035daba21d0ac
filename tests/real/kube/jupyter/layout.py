"""Makes images of one layer as an OCI image layout (https://github.com/opencontainers/image-spec, image-layout.md):

  layout.py LAYOUT ROOT CONFIG TAG[,TAG…]…

ROOT is the images' root folder, CONFIG the JSON object `config` of an image. Each further argument makes an image with
these tags. All have the same layer, and a digest of their own.
"""

import hashlib
import json
import pathlib
import subprocess
import sys

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
TAG = "org.opencontainers.image.ref.name"


def add(layout, media_type, content):
    """Writes a blob, and gives its descriptor."""
    text = json.dumps(content).encode()
    digest = hashlib.sha256(text).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(text)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(text)}


def add_layer(layout, root):
    """Packs a folder, and gives the layer's descriptor. It is not compressed: it travels inside of one machine."""
    packed = layout / "layer.tar"
    order = ["--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--mtime=@0"]
    subprocess.run(["tar", "-C", root, *order, "-cf", packed, "."], check=True)
    with packed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    packed.rename(layout / "blobs/sha256" / digest)
    size = (layout / "blobs/sha256" / digest).stat().st_size
    return {"mediaType": LAYER, "digest": f"sha256:{digest}", "size": size}


def main(layout, root, config, *images):
    (layout / "blobs/sha256").mkdir(parents=True)
    layer = add_layer(layout, root)
    listed = []
    for tags in images:
        of_image = add(layout, CONFIG, {
            "architecture": "amd64", "os": "linux", "config": json.loads(config),
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
            "history": [{"created_by": tags}],
        })
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": of_image, "layers": [layer]}
        descriptor = add(layout, MANIFEST, manifest)
        listed += [descriptor | {"annotations": {TAG: tag}} for tag in tags.split(",")]
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    (layout / "index.json").write_text(json.dumps(index, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
