"""The verdict on a resume: what changed between the frozen spec and the requested one, field by field, and what each
change does to this run: safe, a note, a warning to accept, or a refusal. Pure.
"""

from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts

__all__ = ["ResumeFacts", "judge_resume"]
