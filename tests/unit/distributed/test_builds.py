"""Whether the installed torch has kernels for a GPU, and which build has them."""

import pytest
import torch

from asdf.distributed.devices import (
    Build,
    check_kernels,
    fitting_cuda,
    has_kernels,
    install_line,
    installed_torch,
    read_build,
)
from asdf.errors import UsageError

CUDA_126 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
CUDA_130 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]


@pytest.mark.parametrize(
    ("capability", "kernels", "has"),
    [
        ((7, 0), CUDA_126, True),
        ((7, 0), CUDA_130, False),
        ((7, 5), CUDA_130, True),
        ((6, 1), CUDA_126, True),  # code for 6.0
        ((8, 9), CUDA_130, True),  # code for 8.6
        ((10, 0), CUDA_126, False),
        ((12, 1), CUDA_130, True),
        ((13, 0), CUDA_130, True),  # from the virtual code for 12.0
        ((11, 0), CUDA_130, False),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_90a"], True),
        ((9, 1), ["sm_90a", "compute_90a"], False),
        ((10, 3), ["sm_100f"], True),
        ((9, 0), ["gfx90a", "gfx942"], True),  # AMD's
        ((7, 0), [], True),  # nothing is known
    ],
)
def test_which_gpus_a_build_serves(capability, kernels, has):
    assert has_kernels(capability, kernels) is has


@pytest.mark.parametrize(
    ("capability", "kernels", "platform", "advice"),
    [
        (
            (7, 0),
            CUDA_130,
            "CUDA 13.0",
            f"The builds for CUDA 12.6 have them: {install_line('cu126')}",
        ),
        (
            (12, 0),
            CUDA_126,
            "CUDA 12.6",
            f"The builds for CUDA 13.0 have them: {install_line('cu130')}",
        ),
        ((3, 7), CUDA_126, "CUDA 12.6", "No build of torch 2.9 or newer has them"),
    ],
)
def test_a_gpu_without_kernels_is_refused_with_the_build_that_has_them(
    capability, kernels, platform, advice
):
    with pytest.raises(UsageError) as caught:
        check_kernels("Tesla X", capability, kernels, Build("2.14.1", platform))
    assert str(caught.value) == (
        f"Tesla X has compute capability {capability[0]}.{capability[1]}, and the installed torch "
        f"2.14.1 ({platform}) has kernels for {', '.join(kernels)} only. {advice}; or compute on "
        "the CPU with computing.use_gpu=False."
    )


def test_the_line_that_installs_another_build():
    assert install_line("cu126") == (
        "pip install --force-reinstall 'torch>=2.11,<2.15' 'torchaudio==2.11.*' "
        "--index-url https://download.pytorch.org/whl/cu126"
    )
    drivers = ("580.65.06", "575.57", "525.60.13", "470.82.01", "")
    assert [fitting_cuda(driver) for driver in drivers] == ["cu130", "cu126", "cu126", "", "cu130"]


@pytest.mark.parametrize(
    ("cuda", "hip", "build"),
    [
        ("'13.0'", "None", Build("2.14.1+x", "CUDA 13.0")),
        ("None", "'6.4.4'", Build("2.14.1+x", "ROCm 6.4.4")),
        ("None", "None", Build("2.14.1+x", "")),
    ],
)
def test_the_build_is_read_from_the_installed_files(cuda, hip, build):
    text = (
        "from typing import Optional\n"
        "__all__ = ['__version__', 'cuda', 'hip']\n"
        "__version__ = '2.14.1+x'\n"
        "debug = False\n"
        f"cuda: Optional[str] = {cuda}\n"
        "git_version = '5c48'\n"
        f"hip: Optional[str] = {hip}\n"
    )
    assert read_build(text) == build


def test_the_installed_build_is_the_one_that_is_imported():
    build = installed_torch()
    assert build.version == torch.__version__
    assert build.platform.partition(" ")[2] == (torch.version.cuda or torch.version.hip or "")
