"""The line that Python's fault handler blames."""

from __future__ import annotations

from mission_tui.fleet.history.classify import faulting_line

SAID = """warming up
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/ada/lab/my_env.py", line 3 in <module>
  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed

Extension modules: numpy (total: 1)
"""


def test_the_innermost_line_that_is_not_pythons_own_is_blamed() -> None:
    """A package is; the standard library is where nobody else is there."""
    assert faulting_line(SAID) == "/home/ada/lab/my_env.py:3"
    package = "/lab/.venv/lib/python3.11/site-packages/torch/cuda.py"
    assert faulting_line(SAID.replace("/usr/lib/python3.11/ctypes/__init__.py", package)) == f"{package}:519"
    alone = SAID.replace('"/home/ada/lab/my_env.py"', '"<frozen x>"')
    assert faulting_line(alone) == "/usr/lib/python3.11/ctypes/__init__.py:519"


def test_the_thread_that_was_hit_is_blamed() -> None:
    """Of a dump of all threads the current one, also where so many came before it that the head is cut off."""
    writer = '\n\nThread 0x01 (most recent call first):\n  File "/lab/tensorboard/writer.py", line 269 in _run\n'
    rest = '\n\nThread 0x02 (most recent call first):\n  File "/lab/tensorboard/other.py", line 7 in _run\n'
    dump = SAID.replace("fault\n", f"fault{writer}").replace("\nExtension", f"{rest}\nExtension")
    assert faulting_line(dump) == "/home/ada/lab/my_env.py:3"
    assert faulting_line(dump.partition("Thread 0x01")[2]) == "/home/ada/lab/my_env.py:3"
    idle = dump.replace('  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n', "")
    assert faulting_line(idle.replace("/home/ada/lab/my_env.py", "<string>")) is None


def test_what_says_nothing_blames_nothing() -> None:
    """An ordinary traceback has its own sentence."""
    assert faulting_line('Traceback:\n  File "/a.py", line 3, in <module>\nKeyError') is None
    assert faulting_line("Fatal Python error: Aborted\n") is None
