from __future__ import annotations

import ast
import inspect
import re
import shlex
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import Row, codes, commands, output_of, plain_commands, rows, section

from wardround.errors import WardroundError
from wardround.privacy.acceptance import Acceptance
from wardround.privacy.differential_privacy import DifferentialPrivacy
from wardround.privacy.robust import RobustAggregation
from wardround.studies import study_file as files
from wardround.studies import study_run as run
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.study_notes import public_set
from wardround.text.phi_tag_sets import I2B2_2014

PAGE = "studies.md"
ALONE = {
    "`[study]`": files.StudySection,
    "`[task]`": files.TaskSection,
    "`[public]`": files.PublicSection,
    "`[model]`": files.ModelSection,
    "`[privacy]`": files.PrivacySection,
    "`[privacy.differential_privacy]`": DifferentialPrivacy,
    "`[privacy.robust]`": RobustAggregation,
    "`[privacy.acceptance]`": Acceptance,
    "`[evaluation]`": files.EvaluationSection,
    "`[federation]`": files.FederationSection,
    "`[sites.NAME]`": files.SiteSection,
}
# Two tiny sites, for what must be run.
SMALL = """
[study]
name = "small"
[model]
word_dimension = 4
word_buckets = 16
character_dimension = 4
character_width = 4
word_cnn = 4
lstm = 4
[algorithm]
rounds = 1
[sites.harbour]
built_in = "harbour-0000"
[sites.hillside]
built_in = "hillside-0001"
"""


def table(heading: str) -> dict[str, Row]:
    """The settings of a section of the study file, by name."""
    found = {codes(row["setting"])[0]: row for row in rows(section(PAGE, f"### {heading}")) if "setting" in row}
    assert all(row["meaning"] for row in found.values())
    return found


def value(cell: str) -> Any:
    """A default as TOML would read it."""
    return tomllib.loads(f"value = {codes(cell)[0]}")["value"]


def plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def default_of(setting: Any) -> Any:
    if setting.default is not MISSING:
        return setting.default
    return MISSING if setting.default_factory is MISSING else setting.default_factory()


def test_every_section_of_the_file_has_its_place() -> None:
    said = {heading.strip("`[]").partition(".")[0] for heading in [*ALONE, "[algorithm]", "[training]"]}
    assert said == {part.name for part in fields(files.Study)} - {"old_names"}


@pytest.mark.parametrize("heading", ALONE)
def test_every_setting_has_a_line_and_its_default(heading: str) -> None:
    settings = {setting.name: default_of(setting) for setting in fields(ALONE[heading])}
    if heading == "`[model]`":
        del settings["options"]  # every further key, as the page says below the table
    said = table(heading)
    assert list(said) == list(settings)
    for name, default in settings.items():
        cell = said[name]["default"]
        if default is MISSING or default is None:
            assert cell == ("needed" if default is MISSING else "unset"), name
        else:
            assert value(cell) == plain(default), name


@pytest.mark.parametrize(("heading", "part"), [("`[algorithm]`", "config"), ("`[training]`", "training")])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_of_an_algorithm_has_a_line_and_its_default(heading: str, part: str, name: str) -> None:
    config = getattr(ALGORITHMS[name], part)
    said = {}
    for setting, row in table(heading).items():
        (column,) = [head for head in row if name in head.split(", ")]
        if row[column] != "–":
            said[setting] = value(row[column])
    assert said == {setting.name: getattr(config, setting.name) for setting in fields(config)}


def test_every_algorithm_is_named() -> None:
    named = codes(section(PAGE, "### `[algorithm]`").partition("\n|")[0])
    assert [name for name in named if name != "name"] == list(ALGORITHMS)


def test_every_event_has_a_line() -> None:
    beside = Path(inspect.getfile(run)).with_name("networked.py").read_text(encoding="utf-8")
    source = inspect.getsource(run) + beside.replace("from __future__ import annotations", "")
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    logged = [call.args[0] for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "log"]
    constants = [part for argument in logged for part in ast.walk(argument) if isinstance(part, ast.Constant)]
    said = [name for row in rows(section(PAGE, "## The run folder")) if "event" in row for name in codes(row["event"])]
    assert sorted(said) == sorted({str(part.value) for part in constants})


SITE = '[study]\nname = "s"\n[sites.a]\ntypes = ["Drug"]\n'
OTHERS = '[sites.b]\ntypes = ["Drug"]\n[sites.c]\ntypes = ["Drug"]\n'
BARE = '[study]\nname = "s"\n[sites.a]\n'
RELATIONS = '[task]\nkind = "relations"\n[task.relations]\nADE = []\n'
PUBLIC = '[public]\nbuilt_in = "harbour-0000"\n'
MASKED = '[privacy]\nmechanism = "masked"\nminimum_sites = 3\n'
REFUSED = [
    SITE + "[algorithm]\nroudns = 3\n",
    SITE + "[algorithm]\nrounds = 0\n",
    SITE + '[algorithm]\nname = "fednr"\n',
    '[study]\nname = "s"\n',
    SITE + "[sites.b]\n[algorithm]\nparticipation = 0.5\n[privacy]\nminimum_sites = 2\n",
    SITE + "[privacy]\nlargest_share = 2.0\n",
    SITE + 'data = "notes"\n',
    SITE + '[algorithm]\nname = "single"\n[model]\nshared = ["words"]\n',
    SITE + '[sites.b]\ntypes = ["Drug"]\nscheme = "BIOES"\n[model]\nshared = ["all"]\n',
    SITE + "[model]\nshared = []\n",
    SITE + '[task]\nkind = "joint"\n',
    SITE + '[algorithm]\nname = "feded"\n',
    SITE + PUBLIC,
    SITE + "[public]\nlabelled = false\n",
    SITE + RELATIONS,
    BARE + RELATIONS + '[model]\npreset = "transfer"\n',
    SITE + 'scored = ["Drug", "Ade"]\n[sites.b]\ntypes = ["ADE"]\n',
    SITE + 'scored = ["ADE"]\n[sites.b]\ntypes = ["ADE"]\n',
    BARE + 'scored = ["Drug"]\n',
    SITE + 'scored = ["Drug"]\n' + RELATIONS.replace("relations", "joint", 1),
    SITE.replace('["Drug"]', '["Drug", "Drug"]'),
    SITE + RELATIONS.replace("relations", "joint", 1) + '[algorithm]\nname = "tagsets"\n',
    SITE + 'encoder = "minilm"\n',
    SITE + OTHERS + MASKED + '[privacy.robust]\nrule = "median"\n',
    SITE + OTHERS + '[privacy]\nminimum_sites = 3\n[privacy.robust]\nrule = "multi_krum"\n',
    SITE + OTHERS + "[privacy.acceptance]\n",
    SITE + OTHERS + '[privacy.robust]\nrule = "median"\n[algorithm]\nname = "fedatt"\n',
    SITE + OTHERS + PUBLIC + MASKED + '[algorithm]\nname = "feded"\nprecision = "float16"\n',
    SITE + OTHERS + PUBLIC + MASKED + 'value_bounds = { tags = 0.5 }\n[algorithm]\nname = "feded"\n',
    SITE + OTHERS + PUBLIC + MASKED.replace("masked", "sealed") + 'scheme = "ckks"\n[algorithm]\nname = "feded"\n',
    SITE + PUBLIC + '[algorithm]\nname = "feded"\n',
    SITE + OTHERS + 'scheme = "BIOES"\n' + PUBLIC + '[algorithm]\nname = "feded"\nsite_models = "own"\n',
    SITE + '[task]\ntag_set = "hipaa"\n',
    SITE.replace("Drug", "FECHA") + '[task]\nkind = "deidentify"\ntag_set = "meddocan"\n',
    SITE + '[model]\nstart = "runs/earlier"\n[algorithm]\nname = "single"\n',
    SITE + '[algorithm]\nname = "pooled"\n',
    SITE + '[model]\nencoder = "/models/tiny"\n',
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused_is_refused_in_these_words(number: int) -> None:
    said = [codes(row["what is said"])[0] for row in rows(section(PAGE, "## What is refused before round 1"))]
    assert len(said) == len(REFUSED)
    with pytest.raises(WardroundError, match=re.escape(said[number])):
        study = files.parse_study(REFUSED[number])
        files.study_for_kits(study)
        task = common_task(study)
        coordinator_of(study, task, public_set(study, task))


def test_the_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown in commands(PAGE):
        # Rich fills the line of a table's title with blanks, which no editor leaves in a page.
        assert [line.rstrip() for line in output_of(shlex.split(command)[1:], capsys).splitlines()] == shown


def test_the_run_folder_holds_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(SMALL)
    assert "wardround run study.toml --out runs/study" in plain_commands(PAGE)
    output_of(["run", "study.toml", "--out", "runs/study", "--ledgers"], capsys)
    files_of = [row for row in rows(section(PAGE, "## The run folder")) if "file" in row]
    said = {codes(row["file"])[0].replace("NAME", "harbour") for row in files_of if "; only " not in row["what it is"]}
    folder = Path("runs/study")
    assert [name for name in said if not (folder / name).exists()] == []
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    mine = [name.removesuffix(".head") for name in found if not name.startswith("sites/hillside")]
    assert [name for name in mine if not any(name == place or name.startswith(place) for place in said)] == []


def test_the_study_of_deidentification_is_one() -> None:
    (text,) = re.findall(r"```\n(\[study\].*?)```", section(PAGE, "## De-identification"), re.DOTALL)
    study = files.parse_study(text)
    assert (study.task.kind, set(study.types)) == ("deidentify", set(I2B2_2014.types))
    common_task(study)
