"""What replaces aten's counting by value."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import histograms as h
from .. import ops
from ..irregular import write_resized
from ..overrides import Override, Slot
from .support import ERRORS

_CPU = {"cpu": "CPU"}
_aten = torch.ops.aten


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


def _one_row(self, weight):
    """As points of one dimension, or None if torch is to judge them."""
    if weight is not None and weight.shape != self.shape:
        return None
    return self.reshape(-1, 1), None if weight is None else weight.reshape(-1)


def _by_count(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins=100, *, range=None, weight=None, density=False):
        try:
            flat = _one_row(self, weight) if switch.on else None
            if flat is None or not h.serves(*flat):
                return slot.native(keys, self, bins, range=range, weight=weight, density=density)
            edges = _aten._histogramdd_bin_edges(flat[0], [bins], range=range)
            return h.fill(flat[0], edges, "nearby", flat[1], density), edges[0]
        except ERRORS as error:
            return slot.failed(error, self, bins, range=range, weight=weight, density=density)

    return kernel


def _by_edges(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins, *, weight=None, density=False):
        try:
            flat = _one_row(self, weight) if switch.on else None
            if flat is None or not h.serves(*flat, [bins]):
                return slot.native(keys, self, bins, weight=weight, density=density)
            return h.fill(flat[0], [bins], "bisect", flat[1], density), bins.clone()
        except ERRORS as error:
            return slot.failed(error, self, bins, weight=weight, density=density)

    return kernel


def _points(self, weight, num_dims):
    if self.dim() < 2 or self.shape[-1] != num_dims or (weight is not None and weight.shape != self.shape[:-1]):
        return None
    return self.reshape(-1, num_dims), None if weight is None else weight.reshape(-1)


def _dd_by_count(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins, *, range=None, weight=None, density=False):
        try:
            flat = _points(self, weight, len(bins)) if switch.on else None
            if flat is None or not h.serves(*flat):
                return slot.native(keys, self, bins, range=range, weight=weight, density=density)
            edges = _aten._histogramdd_bin_edges(self, bins, range=range)
            return h.fill(flat[0], edges, "nearby", flat[1], density)
        except ERRORS as error:
            return slot.failed(error, self, bins, range=range, weight=weight, density=density)

    return kernel


def _dd_by_edges(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, bins, *, weight=None, density=False):
        try:
            flat = _points(self, weight, len(bins)) if switch.on else None
            if flat is None or not h.serves(*flat, bins):
                return slot.native(keys, self, bins, weight=weight, density=density)
            return h.fill(flat[0], bins, "bisect", flat[1], density)
        except ERRORS as error:
            return slot.failed(error, self, bins, weight=weight, density=density)

    return kernel


BINCOUNT = (Override("bincount", ops.embedding_dense_backward, _bincount),)
HISTC = (
    Override("histc", ops.histogram_counts, _histc, keys=_CPU),
    Override("histc.out", ops.histogram_counts, _histc_out, keys=_CPU),
)
HISTOGRAM = (
    Override("histogram.bin_ct", ops.histogram_counts, _by_count, keys=_CPU),
    Override("histogram.bins_tensor", ops.histogram_counts, _by_edges, keys=_CPU),
)
HISTOGRAMDD = (
    Override("_histogramdd_from_bin_cts", ops.histogram_counts, _dd_by_count, keys=_CPU),
    Override("_histogramdd_from_bin_tensors", ops.histogram_counts, _dd_by_edges, keys=_CPU),
)
