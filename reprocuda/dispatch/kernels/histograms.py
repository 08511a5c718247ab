"""What replaces aten's counting by value."""

from __future__ import annotations

from collections.abc import Callable

from ... import ops
from ...arguments.irregular import write_resized
from ...families import histograms as h
from ..overrides import Override, Slot
from .support import ERRORS

_CPU = {"cpu": "CPU"}


def _bincount(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, weights=None, minlength=0):
        try:
            result = None
            if switch.on and weights is not None:
                result = h.weighted_counts(self, weights, minlength)
            return slot.native(keys, self, weights, minlength) if result is None else result
        except ERRORS as error:
            return slot.failed(error, self, weights, minlength)

    return kernel


def _histc(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins=100, min=0, max=0):
        try:
            result = h.histc_counts(self, bins, min, max) if switch.on else None
            return slot.native(keys, self, bins, min, max) if result is None else result
        except ERRORS as error:
            return slot.failed(error, self, bins, min, max)

    return kernel


def _histc_out(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins=100, min=0, max=0, *, out):
        try:
            usable = switch.on and out.dtype == self.dtype and out.device == self.device
            result = h.histc_counts(self, bins, min, max) if usable else None
            if result is None:
                return slot.native(keys, self, bins, min, max, out=out)
            return write_resized(out, result)
        except ERRORS as error:
            return slot.failed(error, self, bins, min, max, out=out)

    return kernel


def _by_count(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins=100, *, range=None, weight=None, density=False):
        try:
            result = h.one_dimension(self, bins, range, weight, density) if switch.on else None
            if result is None:
                return slot.native(keys, self, bins, range=range, weight=weight, density=density)
            return result
        except ERRORS as error:
            return slot.failed(error, self, bins, range=range, weight=weight, density=density)

    return kernel


def _by_edges(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins, *, weight=None, density=False):
        try:
            result = h.one_dimension(self, bins, None, weight, density) if switch.on else None
            return slot.native(keys, self, bins, weight=weight, density=density) if result is None else result
        except ERRORS as error:
            return slot.failed(error, self, bins, weight=weight, density=density)

    return kernel


def _histogram_out(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins=100, *, weight=None, density=False, hist, bin_edges, **bounds):
        out = (hist, bin_edges)
        try:
            result = None
            if switch.on and h.can_take(out, self):
                result = h.one_dimension(self, bins, bounds.get("range"), weight, density)
            if result is None:
                options = {"weight": weight, "density": density, "hist": hist, "bin_edges": bin_edges}
                return slot.native(keys, self, bins, **options, **bounds)
            return tuple(write_resized(*pair) for pair in zip(out, result, strict=True))
        except ERRORS as error:
            options = {"weight": weight, "density": density, "hist": hist, "bin_edges": bin_edges}
            return slot.failed(error, self, bins, **options, **bounds)

    return kernel


def _dd_by_count(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins, *, range=None, weight=None, density=False):
        try:
            result = h.by_counts(self, bins, range, weight, density) if switch.on else None
            if result is None:
                return slot.native(keys, self, bins, range=range, weight=weight, density=density)
            return result[0]
        except ERRORS as error:
            return slot.failed(error, self, bins, range=range, weight=weight, density=density)

    return kernel


def _dd_by_edges(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins, *, weight=None, density=False):
        try:
            result = h.by_edges(self, bins, weight, density) if switch.on else None
            return slot.native(keys, self, bins, weight=weight, density=density) if result is None else result
        except ERRORS as error:
            return slot.failed(error, self, bins, weight=weight, density=density)

    return kernel


BINCOUNT = (Override("bincount", ops.embedding_dense_backward, _bincount),)
HISTC = (
    Override("histc", ops.histogram_counts, _histc),
    Override("histc.out", ops.histogram_counts, _histc_out),
)
HISTOGRAM = (
    Override("histogram.bin_ct", ops.histogram_counts, _by_count, keys=_CPU),
    Override("histogram.bins_tensor", ops.histogram_counts, _by_edges, keys=_CPU),
    Override("histogram.bin_ct_out", ops.histogram_counts, _histogram_out, keys=_CPU),
    Override("histogram.bins_tensor_out", ops.histogram_counts, _histogram_out, keys=_CPU),
)
HISTOGRAMDD = (
    Override("_histogramdd_from_bin_cts", ops.histogram_counts, _dd_by_count, keys=_CPU),
    Override("_histogramdd_from_bin_tensors", ops.histogram_counts, _dd_by_edges, keys=_CPU),
)
