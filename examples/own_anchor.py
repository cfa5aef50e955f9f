"""An anchor of one's own: where each log's head was is kept as objects in a bucket, out of reach of whoever has the store."""

import json
import shutil
import tempfile
from pathlib import Path

import lineal

folder = Path(tempfile.mkdtemp())


class Bucket:
    """Stands for an object store: S3, GCS, a table of another database. Here it is a folder on another disk, so to say."""

    def __init__(self, place):
        self.place = place
        place.mkdir()

    def put(self, key, data):
        (self.place / key).write_bytes(data)

    def objects(self):
        return {path.name: path.read_bytes() for path in self.place.iterdir()}


class BucketAnchor:
    """One object a session: two sessions never write the same one. Whatever `put` raises, the caller sees as `Unavailable`."""

    def __init__(self, bucket):
        self.bucket = bucket

    def read(self, session=None):
        heads = (json.loads(data) for data in self.bucket.objects().values())
        return {name: tuple(head) for name, head in heads if session in (None, name)}

    def write(self, session, head):
        self.bucket.put(session.encode("utf-8", "surrogatepass").hex(), json.dumps([session, head]).encode())


anchor = BucketAnchor(Bucket(folder / "bucket"))
with lineal.connect(folder / "agent.db", anchor=anchor) as store:
    store.session("agent").append({"role": "user", "content": "Never deploy on a Friday."}, id="u1")
shutil.copy(folder / "agent.db", folder / "backup.db")

with lineal.connect(folder / "agent.db", anchor=anchor) as store:
    store.session("agent").append({"role": "user", "content": "And never before lunch."}, id="u2")
print("anchored:", {name: head[0] for name, head in anchor.read().items()})

# Somebody puts the older copy back. Every row of it is sound; only the anchor knows that something is missing.
shutil.copy(folder / "backup.db", folder / "agent.db")
try:
    with lineal.connect(folder / "agent.db", anchor=anchor) as store:
        store.session("agent")
except lineal.Corrupt as damage:
    print("refused:", damage.what, "- expected", damage.expected)
shutil.rmtree(folder)
