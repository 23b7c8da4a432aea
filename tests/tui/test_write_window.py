"""What may be written to a terminal that is quick, slow, stalled, or answers nothing."""

from __future__ import annotations

from mission_tui.tui.terminal.driver import WriteWindow


class Line:
    """A terminal at the end of a line that carries `rate` characters a second and has a delay of `trip_s`."""

    def __init__(self, rate: float, trip_s: float = 0.05) -> None:
        self.window = WriteWindow()
        self.now = 0.0
        self.sent = 0
        self._rate, self._trip_s = rate, trip_s
        self._free_t = 0.0
        self._marks: list[float] = []

    @property
    def queued_s(self) -> float:
        """How long a key's picture would now lie behind others."""
        return max(0.0, self._free_t - self.now)

    def pass_time(self, seconds: float) -> None:
        """Let the line carry, and the terminal answer."""
        self.now += seconds
        while self._marks and self._marks[0] <= self.now:
            self.window.answered(self._marks.pop(0))

    def write(self, size: int) -> None:
        """A picture."""
        self.sent += size
        self._free_t = max(self.now, self._free_t) + size / self._rate
        self.window.wrote(size)
        if self.window.wants_mark(self.now):
            self.window.marked(self.now)
            self._marks.append(self._free_t + self._trip_s)

    def play(self, seconds: float, size: int = 700, pace_s: float = 0.25) -> float:
        """Pictures that nobody asked for, at the usual pace; the longest that a key would have waited."""
        worst, end = 0.0, self.now + seconds
        while self.now < end:
            if self.window.rest_s(self.now) == 0:
                self.write(size)
            worst = max(worst, self.queued_s)
            self.pass_time(pace_s)
        return worst


def test_a_quick_line_gets_every_picture() -> None:
    """Also one with a long way: a delay of half a second holds nothing back."""
    for trip_s in (0.001, 0.5):
        line = Line(1e6, trip_s)
        line.write(12_000)
        line.play(60)
        assert line.sent == 12_000 + 240 * 700


def test_a_slow_line_never_has_much_on_its_way() -> None:
    """Offered 2.8 KB a second, a line of 1 KB/s gets what it carries, and a key waits for no long queue."""
    line = Line(1000)
    line.write(12_000)
    line.pass_time(13.0)
    line.play(20)
    before = line.sent
    assert line.play(100) < 1.0
    assert line.sent - before > 0.6 * 100 * 1000


def test_a_stalled_line_gets_no_more_than_a_window() -> None:
    """A minute of silence: a little is on its way, not a minute of pictures; then all goes on as before."""
    line = Line(1e6)
    line.play(10)
    before, line._rate = line.sent, 1e-3
    line.play(60)
    assert line.sent - before < 40 * 700
    line._rate, line._free_t, line._marks = 1e6, line.now, []
    line.play(15)
    before = line.sent
    line.play(10)
    assert line.sent - before >= 30 * 700


def test_a_key_is_answered_while_pictures_rest() -> None:
    """What nobody asked for waits sooner than what a key brings."""
    window = WriteWindow()
    window.wrote(100)
    window.marked(0.0)
    window.answered(0.1)
    window.wrote(100)
    window.marked(2.0)
    assert window.rest_s(3.5) > 0
    assert not window.full(3.5)
    window.wrote(window.window)
    assert window.full(3.5)


def test_a_terminal_that_answers_nothing_is_not_asked_for_ever() -> None:
    """And nothing is ever held back from it."""
    window = WriteWindow()
    asked = 0
    for second in range(600):
        window.wrote(5000)
        assert not window.full(float(second))
        assert window.rest_s(float(second)) == 0
        if window.wants_mark(float(second)):
            window.marked(float(second))
            asked += 1
    assert 1 < asked <= 5


def test_an_answer_that_was_lost_holds_pictures_back_for_a_moment_only() -> None:
    """After ten seconds it is no longer waited for."""
    window = WriteWindow()
    window.wrote(100)
    window.marked(0.0)
    window.answered(0.1)
    window.wrote(window.window)
    window.marked(5.0)
    assert window.full(6.0)
    assert not window.full(15.5)
    assert window.rest_s(15.5) == 0
