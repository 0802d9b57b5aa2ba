"""Plain words: a table of expressions and the sentence each is shown as."""

import pytest
from qsched.triggers.cron import Cron

UNIX = """
* * * * *                | Every minute
*/5 * * * *              | Every 5 minutes
*/7 * * * *              | At minutes 0, 7, … 56 of every hour
0 * * * *                | Every hour, on the hour
@hourly                  | Every hour, on the hour
15 * * * *               | At minute 15 of every hour
5-10 * * * *             | At minutes 5 to 10 of every hour
0 2 * * *                | At 02:00, every day
0 2 * * 0                | At 02:00, only on Sunday
0 2 * * 7                | At 02:00, only on Sunday
0 2 * * MON              | At 02:00, only on Monday
0 0 * * 0,6              | At 00:00, only on Saturday and Sunday
0 0 * * FRI-SUN          | At 00:00, only on Friday to Sunday
0 0 * * MON,WED,FRI      | At 00:00, only on Monday, Wednesday and Friday
0 9-17 * * 1-5           | At minute 0 of the hours 9 to 17, only on Monday to Friday
*/10 9-17 * * 1-5        | Every 10 minutes, from 09:00 to 17:59, only on Monday to Friday
0 */2 * * *              | At minute 0 of every 2nd hour, from 0 on
*/15 */3 * * *           | Every 15 minutes, in every 3rd hour, from 0 on
0,30 8,18 * * *          | At 08:00, 08:30, 18:00 and 18:30, every day
* 2 * * *                | Every minute, from 02:00 to 02:59
0 22-23,0-5 * * *        | At minute 0, in the hours 0 to 5, 22 and 23
0 0 1 * *                | At 00:00, on day 1 of the month
0 0 31 * *               | At 00:00, on day 31 of the month (where a month has it)
0 0 31 1 *               | At 00:00, on day 31 of the month, in January
0 0 L * *                | At 00:00, on the last day of the month
0 0 1,15,L * *           | At 00:00, on days 1 and 15 and the last day of the month
0 0 * * 5#2              | At 00:00, on the second Friday of the month
0 0 * * 5L               | At 00:00, on the last Friday of the month
0 0 13 * 5               | At 00:00, on day 13 of the month or on Friday (either is enough)
0 0 */2 * 1              | At 00:00, on days 1, 3, … 31 of the month, if that is Monday
0 0 1 JUN-AUG *          | At 00:00, on day 1 of the month, in June to August
0 0 1 1,7 *              | At 00:00, on day 1 of the month, in January and July
"""
QUARTZ = """
* * * * * ?              | Every second
0/10 * * * * ?           | Every 10 seconds
5,10 * * * * ?           | At seconds 5 and 10 of every minute
30 10 10 * * ?           | At 10:10:30, every day
0 0/5 14,18 * * ?        | Every 5 minutes, in the hours 14 and 18
*/5 0-10 9-17 ? * 2-6    | Every 5 seconds, in minutes 0 to 10, from 09:00 to 17:59, only on Monday to Friday
* 30 * * * ?             | Every second, in minute 30 of every hour
0 0 2 ? * 1              | At 02:00, only on Sunday
0 0 2 ? * 7              | At 02:00, only on Saturday
0 15 10 ? * L            | At 10:15, only on Saturday
0 30 18 LW * ?           | At 18:30, on the last working day of the month
0 0 12 15W * ?           | At 12:00, on the working day nearest to day 15 of the month
0 0 12 L-3 * ?           | At 12:00, on the day 3 days before the last day of the month
0 0 12 L-1W * ?          | At 12:00, on the working day nearest to 1 day before the last day of the month
0 0 12 ? * 6L 2024-2030  | At 12:00, on the last Friday of the month, in 2024 to 2030
0 0 12 1 1 ? 2025,2027   | At 12:00, on day 1 of the month, in January, in 2025 and 2027
"""


def _rows(table: str) -> list[tuple[str, str]]:
    return [
        (expr.strip(), words.strip())
        for expr, words in (row.split("|") for row in table.strip().splitlines())
    ]


@pytest.mark.parametrize(("expr", "words"), _rows(UNIX))
def test_a_unix_expression_in_words(expr: str, words: str) -> None:
    assert Cron(expr).words() == words


@pytest.mark.parametrize(("expr", "words"), _rows(QUARTZ))
def test_a_quartz_expression_in_words(expr: str, words: str) -> None:
    assert Cron(expr, "quartz").words() == words


def test_two_dialects_of_one_schedule_are_said_alike() -> None:
    for unix, quartz in (
        ("0 2 * * 0", "0 0 2 ? * 1"),
        ("*/5 * * * *", "0 */5 * * * ?"),
        ("0 0 L * *", "0 0 0 L * ?"),
    ):
        assert Cron(unix).words() == Cron(quartz, "quartz").words()


def test_an_hour_without_minutes_is_not_lost_in_words() -> None:
    """Every field that restricts anything leaves a word in the sentence."""
    full = Cron("7/9 3-50/4 */5 ? 2-11/3 3-6 2024-2030/2", "quartz").words()
    for part in ("second", "minute", "hour", "February", "Tuesday to Friday", "2024"):
        assert part in full
