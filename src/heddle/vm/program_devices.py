"""The devices that a program was compiled for, as its metadata tells them.

    devices             "cpu:0 cpu:1"      number k of them is the machine's devices[k]
    param_devices.main  "[1, 0, [0, 1]]"   the number of each parameter's device, or those of a tuple's fields

A program that uses the machine's first device alone has neither entry, and runs on any device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from heddle.runtime.device import Device, cpu, device
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.vm.codes import V0303

DEVICES = "devices"
"""The metadata entry that lists devices."""
PARAM_DEVICES_PREFIX = "param_devices."
"""Prefix of metadata entries that map a function's name to the devices of its parameters."""
PARAM_DEVICES = "param_devices"
"""The attribute of graph functions with the numbers of devices for parameters whose types do not say them, by
name."""
Place = int | list["Place"]
"""A device by its number, or those of the fields of a tuple."""


def device_entries(devices: Sequence[Device], params: Mapping[str, Sequence[Place]]) -> dict[str, str]:
    """The metadata of a program for several devices; `params` are those of the parameters of functions. None
    where all is on the first."""
    if len(devices) < 2:
        return {}
    entries = {PARAM_DEVICES_PREFIX + name: json.dumps(list(places)) for name, places in params.items()}
    return {DEVICES: " ".join(map(str, devices)), **entries}


def devices_listed(metadata: Mapping[str, str]) -> list[Device]:
    """The devices of a program; none where it uses one alone. Raises: UsageError V0303 for a malformed
    entry."""
    text = metadata.get(DEVICES, "")
    try:
        return [device(word) for word in text.split()]
    except HeddleError as error:
        raise UsageError(V0303, f"the program's devices are malformed: {text[:40]!r}") from error


def machine_devices(metadata: Mapping[str, str], first: Device = cpu(0)) -> list[Device]:  # noqa: B008
    """The devices for a machine that runs a program: `first`, and the others that the program lists."""
    return [first, *devices_listed(metadata)[1:]]


def check_devices(metadata: Mapping[str, str], given: Sequence[Device]) -> None:
    """Raises: UsageError V0303 where a program for several devices gets fewer, or ones of another type."""
    wanted = devices_listed(metadata)
    types = [each.device_type for each in wanted]
    if types == [each.device_type for each in given[: len(wanted)]]:
        return
    shown = [", ".join(f"{each.type}({each.index})" for each in devices) for devices in (wanted, given)]
    raise UsageError(
        V0303,
        f"the program is for {len(wanted)} devices: expected {shown[0]}, got {shown[1]}",
        help=f"VirtualMachine(executable, [{shown[0]}])",
    )


def param_places(metadata: Mapping[str, str], name: str, count: int) -> list[Place]:
    """The device of each of a function's parameters. Raises: UsageError V0303 for a malformed entry."""
    text = metadata.get(PARAM_DEVICES_PREFIX + name)
    if text is None:
        return [0] * count
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if (
        not isinstance(found, list)
        or len(found) != count
        or not _is_place(found, len(devices_listed(metadata)))
    ):
        raise UsageError(V0303, f"the devices of the parameters of {name!r} are malformed: {text[:40]!r}")
    return found


def whole_places(metadata: Mapping[str, str], name: str, count: int) -> list[int]:
    """One device for each of a function's parameters.

    Raises: UsageError V0303 where the fields of a tuple are on several.
    """
    found = []
    for place in param_places(metadata, name, count):
        numbers = set(_numbers(place))
        if len(numbers) > 1:
            raise UsageError(V0303, f"a parameter of {name!r} is a tuple whose fields are on several devices")
        found.append(next(iter(numbers), 0))
    return found


def _numbers(place: Place) -> list[int]:
    return [place] if isinstance(place, int) else [number for item in place for number in _numbers(item)]


def _is_place(found: Any, count: int) -> bool:
    if isinstance(found, list):
        return all(_is_place(item, count) for item in found)
    return type(found) is int and 0 <= found < count
