from __future__ import annotations

from wardround.cli.exit_codes import ExitCode


def test_every_code_is_a_number_with_a_meaning() -> None:
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 130, 143]
    assert all(code.meaning.endswith(".") for code in ExitCode)
    assert f"{ExitCode.TERMINATED:d}" == "143"  # 128 and the number of the signal
