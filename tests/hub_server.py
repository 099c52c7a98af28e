"""A hub on this machine: it speaks the protocol of huggingface.co as far as its library needs it.

A repository is a list of commits, each a dictionary of files. Files of more than LARGE_BYTES are
large ones, as with Git LFS: their addresses lead on to another one, which sends parts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

LARGE_BYTES = 1000


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_digest(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """A repository: files by commit, and the commits of its branches and tags."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    gated: bool = False
    private: bool = False

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Add a commit with exactly these files to a branch; return its name."""
        digests = sorted((name, sha256(content)) for name, content in files.items())
        seed = json.dumps([digests, len(self.commits)]).encode()
        commit = hashlib.sha1(seed).hexdigest()
        self.commits[commit] = dict(files)
        self.refs[branch] = commit
        return commit

    def find(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.refs.get(revision)


class HubServer(ThreadingHTTPServer):
    """The server with its repositories, the requests that it got, and its faults.

    Attributes:
        requests: (method, path, Range or None) of each request.
        breaks: after how many bytes the next answers with a large content end, one for each.
        damaged: digests of large files of which other bytes are sent.
        status: answers every request with this status, if it is not 0.
        tokens: what each token may do: 'read' or 'write'.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.breaks: list[int] = []
        self.damaged: set[str] = set()
        self.status = 0
        self.tokens: dict[str, str] = {}
        self.large: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def repository(self, name: str) -> Repository:
        return self.repositories.setdefault(name, Repository())

    def contents(self) -> list[tuple[str, str, str | None]]:
        """The requests that were answered with a content."""
        return [r for r in self.requests if r[0] == "GET" and not r[1].startswith("/api/")]

    def __enter__(self) -> HubServer:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self.server_close()


def describe_file(path: str, content: bytes) -> dict[str, object]:
    entry = {"type": "file", "path": path, "size": len(content), "oid": git_digest(content)}
    if len(content) > LARGE_BYTES:
        entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 130}
    return entry


class Refusal(Exception):
    """An answer with a status and one of the hub's own codes for what is wrong."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: HubServer

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(self.read)

    def do_GET(self) -> None:
        self.answer(self.read)

    def do_POST(self) -> None:
        # A question that is too long for an address.
        self.answer(self.read if "/paths-info/" in self.path else self.write)

    def do_PUT(self) -> None:
        self.answer(self.write)

    def answer(self, act) -> None:
        # Read in any case: what is left in the connection would be taken for a request.
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        self.query = parse_qs(address.query)
        self.path = unquote(address.path)
        self.server.requests.append((self.command, self.path, self.headers.get("Range")))
        try:
            if self.server.status:
                raise Refusal(self.server.status, "", "the test wants it")
            act()
        except Refusal as refusal:
            headers = {"X-Error-Message": str(refusal)}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self.send(refusal.status, json.dumps({"error": str(refusal)}).encode(), headers)

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_json(self, content: object, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send(status, body, {"Content-Type": "application/json"})

    def read(self) -> None:
        kinds = r"/api/(?:models|datasets)"
        if match := re.fullmatch(kinds + r"/([^/]+/[^/]+)(?:/revision/(.+))?", self.path):
            self.send_information(match[1], match[2] or "main")
        elif match := re.fullmatch(kinds + r"/([^/]+/[^/]+)/tree/([^/]+)(?:/(.+))?", self.path):
            self.send_tree(match[1], match[2], match[3] or "")
        elif match := re.fullmatch(kinds + r"/([^/]+/[^/]+)/paths-info/(.+)", self.path):
            self.send_paths(match[1], match[2])
        elif match := re.fullmatch(r"(?:/datasets)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path):
            self.send_file(*match.groups())
        elif match := re.fullmatch(r"/large/([0-9a-f]{64})", self.path):
            self.send_large(match[1])
        else:
            raise Refusal(404, "", f"this hub has no {self.path}")

    def write(self) -> None:
        # An address for an upload holds its own right, as those of the real hub's storage do.
        if self.path.startswith("/upload/"):
            self.take_large(self.path.removeprefix("/upload/"))
            return
        if self.right() == "":
            raise Refusal(401, "", "Invalid username or password.")
        if self.right() != "write":
            raise Refusal(403, "", "You don't have the rights to do this")
        if self.path == "/api/repos/create":
            self.create_repository()
        elif self.path == "/api/validate-yaml":
            self.validate_card()
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/branch/(.+)", self.path):
            self.create_branch(match[1], match[2])
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/(.+)", self.path):
            self.say_what_is_large()
        elif match := re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.path):
            self.say_where_to_upload()
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", self.path):
            self.take_commit(match[1], match[2])
        else:
            raise Refusal(404, "", f"this hub has no {self.path}")

    def create_repository(self) -> None:
        wanted = json.loads(self.body)
        name = f"{wanted['organization']}/{wanted['name']}"
        if name in self.server.repositories:
            answer = {
                "error": "You already created this model repo",
                "url": f"{self.server.url}/{name}",
            }
            self.send_json(answer, 409)
            return
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        repository = self.server.repository(name)
        repository.private = private
        # A new repository has a first commit.
        repository.commit({".gitattributes": b"*.safetensors filter=lfs"})
        self.send_json({"url": f"{self.server.url}/{name}", "name": name, "id": name})

    def validate_card(self) -> None:
        content = json.loads(self.body)["content"]
        match = re.match(r"---\n(.*?)\n---\n", content, re.DOTALL)
        licence = re.search(r"^license: (.*)$", match[1] if match else "", re.MULTILINE)
        if licence and licence[1] not in ("mit", "cc-by-4.0", "other"):
            error = {"message": '"license" must be one of [mit, cc-by-4.0, other]'}
            self.send_json({"errors": [error], "warnings": []}, 400)
            return
        self.send_json({"errors": [], "warnings": []})

    def create_branch(self, name: str, branch: str) -> None:
        repository, commit = self.find(name, "main")
        if branch in repository.refs:
            raise Refusal(409, "", "Reference already exists")
        repository.refs[branch] = commit
        self.send_json({})

    def say_what_is_large(self) -> None:
        files = []
        for file in json.loads(self.body)["files"]:
            mode = "lfs" if file["size"] > LARGE_BYTES else "regular"
            files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False})
        self.send_json({"files": files})

    def say_where_to_upload(self) -> None:
        objects = []
        for wanted in json.loads(self.body)["objects"]:
            entry = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.server.large:
                address = f"{self.server.url}/upload/{wanted['oid']}"
                entry["actions"] = {"upload": {"href": address, "header": {}}}
            objects.append(entry)
        self.send_json({"transfer": "basic", "objects": objects})

    def take_large(self, digest: str) -> None:
        if sha256(self.body) != digest:
            raise Refusal(400, "", "the content is not what was announced")
        self.server.large[digest] = self.body
        self.send_json({})

    def take_commit(self, name: str, branch: str) -> None:
        repository, before = self.find(name, branch)
        files = dict(repository.commits[before])
        for line in self.body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
            else:
                repository.messages.append(value["summary"])
        commit = repository.commit(files, branch)
        address = f"{self.server.url}/{name}/commit/{commit}"
        self.send_json({"success": True, "commitOid": commit, "commitUrl": address})

    def right(self) -> str:
        """What the sender may do: '', 'read' or 'write'."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.server.tokens.get(token, "")

    def find(self, name: str, revision: str) -> tuple[Repository, str]:
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self.right()):
            raise Refusal(404 if self.right() else 401, "RepoNotFound", "Repository not found")
        commit = repository.find(revision)
        if commit is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository, commit

    def send_information(self, name: str, revision: str) -> None:
        repository, commit = self.find(name, revision)
        siblings = []
        for path, content in repository.commits[commit].items():
            entry = {"rfilename": path, "size": len(content), "blobId": git_digest(content)}
            if len(content) > LARGE_BYTES:
                entry["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 130}
            siblings.append(entry)
        self.send_json(
            {
                "id": name,
                "modelId": name,
                "sha": commit,
                "private": repository.private,
                "gated": "manual" if repository.gated else False,
                "siblings": siblings,
            }
        )

    def send_tree(self, name: str, revision: str, folder: str) -> None:
        repository, commit = self.find(name, revision)
        above = f"{folder}/" if folder else ""
        entries = {}
        for path, content in repository.commits[commit].items():
            inner = path.removeprefix(above)
            if not path.startswith(above):
                continue
            if self.query.get("recursive") not in (["True"], ["true"]) and "/" in inner:
                child = above + inner.partition("/")[0]
                digest = git_digest(child.encode())
                entries[child] = {"type": "directory", "path": child, "size": 0, "oid": digest}
            else:
                entries[path] = describe_file(path, content)
        self.send_json(list(entries.values()))

    def send_paths(self, name: str, revision: str) -> None:
        repository, commit = self.find(name, revision)
        files = repository.commits[commit]
        wanted = parse_qs(self.body.decode())["paths"]
        self.send_json([describe_file(path, files[path]) for path in wanted if path in files])

    def send_file(self, name: str, revision: str, path: str) -> None:
        repository, commit = self.find(name, revision)
        if repository.gated and not self.right():
            raise Refusal(401, "GatedRepo", f"Access to model {name} is restricted.")
        content = repository.commits[commit].get(path)
        if content is None:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{git_digest(content)}"'}
        if len(content) <= LARGE_BYTES:
            self.send(200, content, headers)
            return
        digest = sha256(content)
        self.server.large[digest] = content
        headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        # Another host, as on the real hub: the library follows the hub's own redirects only.
        elsewhere = f"http://localhost:{self.server.server_port}/large/{digest}"
        self.send(302, b"", {**headers, "Location": elsewhere})

    def send_large(self, digest: str) -> None:
        content = self.server.large[digest]
        if digest in self.server.damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        first = 0
        headers = {"ETag": f'"{digest}"', "Accept-Ranges": "bytes"}
        last = len(content) - 1
        wanted = self.headers.get("Range", "")
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", wanted):
            first = int(match[1])
            last = min(last, int(match[2] or last))
            if first >= len(content):
                raise Refusal(416, "", "Requested Range Not Satisfiable")
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        body = content[first : last + 1]
        if self.command == "GET" and self.server.breaks:
            # The announced length and then the end of the connection.
            headers["Content-Length"] = str(len(body))
            body = body[: self.server.breaks.pop(0)]
            self.close_connection = True
        self.send(206 if wanted else 200, body, headers)
