"""The pretrained networks that torchaudio publishes, downloaded once to torch's own cache.

Invariant: the cache holds only complete networks. torchaudio publishes no checksums, so a file
enters the cache if its size is that announced by the server, the checksums of its records are
correct, and it has the bundle's layers with their shapes. Its SHA-256 is then stored next to it, in
the format of `sha256sum`, and verified at each use: about a second for XLS-R 300M. A download
resumes after a broken connection, and refuses a web page, which proxies and login pages of wireless
networks send instead.
"""

from __future__ import annotations

import http.client
import math
import shutil
from contextlib import suppress
from functools import partial
from glob import escape
from itertools import chain
from pathlib import Path
from pickle import UnpicklingError
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import torch
import torchaudio
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.checkpoint.base_weights import compare_layers
from asdf.checkpoint.weights_file import is_web_page, load_plain, state_dict_in
from asdf.errors import AsdfError, UsageError
from asdf.interchange.fairseq import torchaudio_names
from asdf.networks.front_ends.architectures import Architecture
from asdf.runs.files import one_at_a_time, sha256_of, write_text
from asdf.runs.log import LOG, track
from asdf.text import did_you_mean

TRIES = 3
# Timeout of an idle connection; a whole download takes longer.
_TIMEOUT_S = 60
_MEGABYTE = 1_000_000


class NotTheFileError(OSError):
    """The server sent something other than the file."""


class _BrokenOffError(OSError):
    """The connection ended before the file did."""


def receive(url: str, path: Path) -> None:
    """Download `url` to `path`, showing the progress.

    Raises:
        OSError: the download failed; `path` may contain a part of the file.
    """
    # A file left by an earlier command may be of another version.
    path.unlink(missing_ok=True)
    download = _Download(url, path)
    for attempt in range(1, TRIES + 1):
        try:
            download.go_on()
            return
        except HTTPError:
            # The server's answer would be the same again.
            raise
        except (_BrokenOffError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            if attempt == TRIES:
                raise OSError(f"the connection broke {TRIES} times: {error}") from error


class _Download:
    """A download in progress.

    Attributes:
        version: Server's identifier of this version of the file, for resuming.
    """

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.path = path
        self.version: str | None = None

    def go_on(self) -> None:
        """Append to the existing part, or start again if the server cannot send the rest."""
        done = self.path.stat().st_size if self.path.exists() else 0
        request = Request(self.url)
        if done and self.version:
            request.add_header("Range", f"bytes={done}-")
            # Otherwise the rest of a newer file might be appended to a part of an older one.
            request.add_header("If-Range", self.version)
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            headers = response.headers
            # A server may ignore Range and send the whole file, or another part.
            is_rest = headers.get("Content-Range", "").startswith(f"bytes {done}-")
            if response.status != http.client.PARTIAL_CONTENT or not is_rest:
                done = 0
            self.version = headers.get("ETag") or headers.get("Last-Modified")
            announced = headers.get("Content-Length", "")
            total = done + int(announced) if announced.isdecimal() else None
            self._write(response, done, total)
        size = self.path.stat().st_size
        if total is not None and size != total:
            raise _BrokenOffError(f"{size:,} of {total:,} bytes arrived")

    def _write(self, response: http.client.HTTPResponse, done: int, total: int | None) -> None:
        # Checked before the file is opened, so that a login page is never appended to a part.
        first = response.read(_MEGABYTE)
        if response.headers.get_content_type() == "text/html" or is_web_page(first):
            raise NotTheFileError("the server sent a web page")
        megabytes = math.ceil((total - done) / _MEGABYTE) if total else 0
        pieces = chain([first], iter(partial(response.read, _MEGABYTE), b""))
        with self.path.open("ab" if done else "wb") as file:
            for piece in track(pieces, megabytes, f"fetching {self.path.name}", unit="MB"):
                file.write(piece)


BASE_URL = "https://download.pytorch.org/torchaudio/models/"


def download_bundle(name: str) -> Path:
    """Return the path of the bundle `torchaudio.pipelines.NAME` in torch's cache.

    It is downloaded if it is missing there, or damaged.

    Raises:
        UsageError: there is no such bundle.
        AsdfError: it cannot be downloaded.
    """
    bundle = _find_bundle(name)
    url = BASE_URL + bundle._path
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(bundle._path).name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(path) as is_alone:
            if is_alone:
                # Remove files of killed processes, which may be as large as the bundle.
                for folder in path.parent.glob(f".{escape(path.name)}.*.part"):
                    shutil.rmtree(folder, ignore_errors=True)
            if not _is_usable(name, path):
                _fetch(name, url, path)
    except OSError as error:  # of the disk, and urllib's, which derive from it
        raise AsdfError(_advice(name, url, path, error)) from error
    return path


def bundle_architecture(name: str) -> Architecture:
    """Return the architecture of the bundle `torchaudio.pipelines.NAME`.

    Raises:
        UsageError: there is no such bundle.
    """
    bundle = _find_bundle(name)
    # torchaudio states these only in private attributes.
    sizes = bundle._params
    relative_positions = None
    if bundle._model_type == "WavLM":
        relative_positions = (sizes["encoder_num_buckets"], sizes["encoder_max_distance"])
    return Architecture(
        conv_layers=tuple(tuple(layer) for layer in sizes["extractor_conv_layer_config"]),
        extractor_mode=sizes["extractor_mode"],
        conv_bias=sizes["extractor_conv_bias"],
        dimension=sizes["encoder_embed_dim"],
        layers=sizes["encoder_num_layers"],
        heads=sizes["encoder_num_heads"],
        feed_forward=sizes["encoder_ff_interm_features"],
        layer_norm_first=sizes["encoder_layer_norm_first"],
        pos_conv_kernel=sizes["encoder_pos_conv_kernel"],
        pos_conv_groups=sizes["encoder_pos_conv_groups"],
        relative_positions=relative_positions,
    )


def bundle_normalizes(name: str) -> bool:
    """Whether the bundle's network expects waveforms of zero mean and unit variance.

    Raises:
        UsageError: there is no such bundle.
    """
    return bool(_find_bundle(name)._normalize_waveform)


def _find_bundle(name: str) -> Wav2Vec2Bundle:
    bundles = {}
    for key, value in vars(torchaudio.pipelines).items():
        if isinstance(value, Wav2Vec2Bundle):
            bundles[key] = value
    if name not in bundles:
        hint = did_you_mean(name, bundles, prefix="torchaudio:")
        raise UsageError(
            f"front_end.weights: 'torchaudio:{name}' is not known.{hint} Known are "
            f"{', '.join(sorted(bundles))}."
        )
    return bundles[name]


def _is_usable(name: str, path: Path) -> bool:
    """Whether the bundle's file is in the cache and undamaged; warn of a damaged one."""
    if not path.is_file():
        return False
    damage = _find_damage(name, path)
    if damage:
        LOG.warning(
            "%s, the download of torchaudio:%s, is damaged and is downloaded again: %s",
            path,
            name,
            damage,
        )
    return not damage


def _fetch(name: str, url: str, path: Path) -> None:
    """Store the file at its path, with its SHA-256 next to it, if it is the bundle's network."""
    LOG.info("downloading torchaudio:%s from %s to %s", name, url, path)
    # In the same folder, because a rename is atomic only within a file system.
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as folder:
        part = Path(folder) / path.name
        receive(url, part)
        fault = _find_fault(name, part)
        if fault:
            raise NotTheFileError(f"the server sent something other than this network: {fault}")
        # Remove the old digest first: a kill at this point leaves a file that is verified again.
        _digest_path(path).unlink(missing_ok=True)
        part.replace(path)
    _write_digest(path)


def _find_damage(name: str, path: Path) -> str:
    """Return the damage of the cached file of a bundle; '' if there is none."""
    noted = _digest_path(path)
    if noted.is_file():
        # An empty or damaged note fits no file.
        digest, *_ = noted.read_text(encoding="utf-8", errors="replace").split() or [""]
        if digest == sha256_of(path):
            return ""
        return f"its SHA-256 is not the one in {noted.name}"
    fault = _find_fault(name, path)
    if not fault:
        # The file was downloaded by torchaudio or an older ASDF. The cache may be read-only.
        with suppress(AsdfError):
            _write_digest(path)
    return fault


def _find_fault(name: str, path: Path) -> str:
    """Return why a file is not the network of a bundle; '' if it is."""
    try:
        # Mapped, since only names and shapes are compared, and a file may have gigabytes.
        content = load_plain(path, mapped=True)
        layers, _ = torchaudio_names(state_dict_in(content, path))
    except (UnpicklingError, ValueError, TypeError, AttributeError, AsdfError) as error:
        return str(error)
    # The names of layers do not suffice: another bundle's layers have the same names.
    shapes = bundle_architecture(name).shapes()
    # Additional layers, such as those of a fine-tuned head, do no harm.
    differences = compare_layers(shapes, layers, ignored=layers).describe()
    return f"its layers are not the bundle's: {differences}" if differences else ""


def _digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _write_digest(path: Path) -> None:
    """Write the file's SHA-256 in the format of `sha256sum`."""
    write_text(_digest_path(path), f"{sha256_of(path)}  {path.name}\n")


def _advice(name: str, url: str, path: Path, error: OSError) -> str:
    damaged = ""
    if path.is_file():
        damaged = " The file at that path is a damaged download."
    return (
        f"cannot download front_end.weights = 'torchaudio:{name}' from {url} to {path}: "
        f"{error}.{damaged} Compute nodes often have no internet access: run the following where "
        'there is, such as a login node, with the same home folder or TORCH_HOME: python -c "from '
        f"asdf.interchange import download_bundle; download_bundle('{name}')\""
    )
