"""The audit: run twice, record every operator, name the line at which the runs part."""

from .api import audit
from .diagnose import compare
from .hooks import StopRecording
from .recorder import Recorder
from .result import AuditResult

__all__ = ["AuditResult", "Recorder", "StopRecording", "audit", "compare"]
