"""Telling a person who may look elsewhere: toasts on the screen, the bell, and the terminal's own notification.

What is written beside the picture goes through Textual's driver, whose one writing thread keeps sequences whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.app import App

from mission_tui.tui.app_context import AppContext
from mission_tui.tui.news.critical_findings import News, desktop_note, sentences

__all__ = ["alert_user"]


def alert_user(app_context: AppContext, app: App[Any], news: Sequence[News]) -> None:
    """Tell of `news`; the terminal stays quiet where it was asked to, and where there is none."""
    for sentence in sentences(news):
        app_context.toast(sentence, "error")
    if news and not app_context.alarm.muted:
        app.bell()
        if app._driver is not None and not app.is_headless:
            app._driver.write(desktop_note(news))
