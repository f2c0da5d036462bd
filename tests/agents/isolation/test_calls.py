"""Numbers of the kernel's calls on other machines, held against the kernel's own headers."""

import re
from pathlib import Path

import pytest

from clvlab.agents.isolation import root, sandbox
from clvlab.agents.isolation.sandbox import can_lock_in

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="libseccomp is not here")
NUMBERS = {
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
    "x86_64": [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")],
}
NAMES = {
    *(sandbox._CALLS + sandbox._WRITING + sandbox._CONNECTING),
    *("mmap", "madvise", "fcntl", "ioctl", "prctl", "clone", "tgkill", "sched_getaffinity", "prlimit64"),
}
# aarch64 has no call that a newer one replaces (asm-generic/unistd.h).
REPLACED = {
    *("open", "stat", "lstat", "access", "getdents", "dup2", "pipe", "poll", "select", "epoll_create", "epoll_wait", "eventfd"),
    *("pause", "arch_prctl", "alarm", "time", "mkdir", "rmdir", "unlink", "rename", "readlink"),
}
MISSING = {"clone3": 435, "openat2": 437, "epoll_pwait2": 441, "futex_waitv": 449}


def number(machine, name):
    import pyseccomp

    return pyseccomp.resolve_syscall(getattr(pyseccomp.Arch, machine.upper()), name)


@pytest.fixture(params=NUMBERS)
def headers(request):
    """A machine, and the numbers of its calls by the headers of the kernel."""
    header = next((path for path in NUMBERS[request.param] if path.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed")
    defined = re.findall(r"^#define __NR(3264)?_(\w+)\s+(\w+)", header.read_text(), re.MULTILINE)
    literal = {(wide, name): int(value) for wide, name, value in defined if value.isdigit()}
    plain = {name: value for (wide, name), value in literal.items() if not wide}
    for wide, name, value in defined:
        if not wide and ("3264", value.removeprefix("__NR3264_")) in literal:  # of machines with words of 64 bits first
            plain.setdefault(name, literal["3264", value.removeprefix("__NR3264_")])
    return request.param, plain


def test_listed_calls_have_the_numbers_of_the_kernel(headers):
    machine, numbers = headers

    wrong = {name: (number(machine, name), numbers.get(name)) for name in NAMES if number(machine, name) != numbers.get(name)}

    lacking = REPLACED if machine == "aarch64" else set()
    assert {name for name, (resolved, stated) in wrong.items() if resolved >= 0 or stated is not None} == set()
    assert set(wrong) == lacking


def test_calls_that_are_named_by_number_have_it(headers):
    machine, numbers = headers

    assert {name: numbers[name] for name in MISSING if name in numbers} == {
        name: value for name, value in MISSING.items() if name in numbers
    }
    assert set(sandbox._MISSING) == set(MISSING.values())
    assert numbers["pivot_root"] == root._PIVOT_ROOT[machine]
    assert numbers["mount_setattr"] == root._MOUNT_SETATTR


@pytest.mark.parametrize(("name", "value"), [("openat", 56), ("read", 63), ("futex", 98), ("mmap", 222), ("newfstatat", 79)])
def test_numbers_of_aarch64_are_told_where_no_header_is(name, value):
    assert number("aarch64", name) == value
