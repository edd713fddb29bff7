from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "write_constraints.py"


def test_pins_are_sorted_and_have_no_paths_no_local_versions_and_no_project() -> None:
    spec = spec_from_file_location("write_constraints", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    frozen = [
        "torch==2.13.0+cpu",
        "# Editable Git install with no remote (wardround==0.2.0.dev0)",
        "-e /home/someone/wardround",
        "wardround==0.2.0",
        "other @ file:///home/someone/other-1.0-py3-none-any.whl",
        "Jinja2==3.1.6",
        "anyio==4.16.0",
    ]
    assert script.pins(frozen) == ["anyio==4.16.0", "Jinja2==3.1.6", "torch==2.13.0"]
