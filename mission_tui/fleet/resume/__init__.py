"""The verdict on a resume: what changed between the frozen spec and the requested one, field by field, and what each
change does to this run: safe, a note, a warning to accept, or a refusal; and what comes of the remedies chosen. Pure.
"""

from mission_tui.fleet.resume.choosing import as_chosen
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts

__all__ = ["ResumeFacts", "as_chosen", "judge_resume"]
