"""The verdict on a resume: what changed between the frozen spec and the requested one, field by field, and what each
change does to this run: safe, a note, a warning to accept, or a refusal; and what comes of the remedies chosen. Pure.

Clients read the `verdict` and judge nothing: only who asks for `judge` loads it.
"""
