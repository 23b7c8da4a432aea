"""Numbers as the screen writes them."""

from __future__ import annotations

import pytest

from mission_tui.present import numbers


def test_a_time_of_day_has_its_date_once_that_could_be_mistaken(utc: None) -> None:
    """Half a day away the hour alone would be read as today's."""
    assert numbers.clock(1_795_000_000.0, 1_795_000_000.0 + 43_000) == "11:06"
    assert numbers.clock(1_795_000_000.0, 1_795_000_000.0 + 43_300) == "18 Nov 11:06"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (numbers.count(None), "-"), (numbers.count(1204), "1,204"),
        (numbers.compact(None), "-"), (numbers.compact(960), "960"), (numbers.compact(11_493_376), "11.5M"),
        (numbers.compact(50_000_000), "50M"), (numbers.compact(999_600), "1M"), (numbers.compact(2.5e9), "2.5G"),
        (numbers.rate(None), "-"), (numbers.rate(1411.6), "1,412"), (numbers.rate(154_321.0), "154k"),
        (numbers.percent(None), "-"), (numbers.percent(0.999), "99%"), (numbers.percent(1.0), "100%"),
        (numbers.percent(0.0), "0%"), (numbers.percent(0.004), "<1%"),
        (numbers.size(None), "-"), (numbers.size(0), "0B"), (numbers.size(5_476_083_302), "5.1G"),
        (numbers.size(41 << 30), "41G"), (numbers.size(1_400_000), "1.3M"), (numbers.size(3 << 40), "3.0T"),
        (numbers.duration(None), "-"), (numbers.duration(42.4), "42s"), (numbers.duration(200), "3m20"),
        (numbers.duration(20_400), "5h40"), (numbers.duration(788_000), "9d02"), (numbers.duration(-5), "-"),
        (numbers.split_second(0.413), "0.41s"), (numbers.split_second(31), "31s"), (numbers.split_second(None), "-"),
        (numbers.ago(None, 100), "-"), (numbers.ago(95, 100), "5s ago"), (numbers.ago(0, 7300), "2h ago"),
        (numbers.ago(0, 99 * 86_400), "99d ago"), (numbers.ago(0, 530 * 86_400), "75w ago"),
        (numbers.ago(0, 800 * 86_400), "2y ago"),
        (numbers.reading(None), "-"), (numbers.reading(12.41), "12.4"), (numbers.reading(500.0), "500"),
        (numbers.reading(0.0312), "0.031"), (numbers.reading(3e-4), "3e-4"), (numbers.reading(2.5e-4), "2.5e-4"),
        (numbers.reading("nan"), "nan"), (numbers.reading("-inf"), "-inf"), (numbers.reading(0.0), "0"),
        (numbers.reading(1234.5), "1,234"), (numbers.reading(-3.14159), "-3.14"), (numbers.reading(1.5e9), "1.50e9"),
    ],
)  # fmt: skip
def test_a_number_is_short_and_unknown_is_a_dash(written: str, shown: str) -> None:
    """Units that matter, three digits, never a false 100 % and never a 0 for what nobody knows."""
    assert written == shown
