"""One ranking of what matters in terminal, browser, report and API: same order, same numbers."""

import json
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from assistant import load_session
from assistant.presentation.tables.effects import amount, effects_ranking, interval_text
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import SqliteStore
from assistant.ui.pages import effects, overview
from tests.service.housed import housed
from tests.story.conftest import Told
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

SWEEP = """runs = 30
seed = 1

[application]
function = "tune:loss"
noisy = true

[objective]
minimise = "value"

[[parameters]]
name = "batch"
levels = [0, 1, 2]

[[parameters]]
name = "dropout"
levels = [0, 1, 2]

[[parameters]]
name = "lr"
levels = [0, 1, 2]
"""
PROGRAM = """import random

def loss(batch, dropout, lr, seed):
    return 0.3 + 0.225 * lr + 0.15 * abs(dropout - 1) + random.Random(seed).gauss(0, 0.03)
"""


def test_terminal_browser_report_and_api_agree(
    cli: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "tune.py").write_text(PROGRAM)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    store = tmp_path / "copperline-out" / "experiments.db"
    code, summary, errors = cli("sweep", "sweep.toml")
    assert code == 0, errors
    session = load_session(SqliteStore(store), SqliteStore(store).experiments()[0].id)
    ranking = effects_ranking(session.experiment)
    order = [entry.parameter for entry in ranking.parameters]
    assert order == ["lr", "dropout", "batch"], "the true order"
    assert ranking.sentence.startswith("lr matters most: its levels differ by 0.4")
    rows = [
        (entry.parameter, amount(entry.value, ""), interval_text(entry, ""))
        for entry in ranking.parameters
    ]

    # terminal: the end of a sweep, its JSON object, and `copperline effects`
    assert f"  {ranking.sentence}\n" in summary
    printed = cli("effects")[1]
    assert ranking.sentence in printed
    lines = printed.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("parameter "))
    for line, (name, size, interval) in zip(lines[header + 1 :], rows, strict=False):
        assert line.split()[:2] == [name, size]
        assert interval in line
    stored = json.loads(cli("effects", "--json")[1])
    assert stored["ranking"] == json.loads(json.dumps(asdict(ranking)))
    assert [effect["parameter"] for effect in stored["main"]] == order
    # interactions in the model change the tests, not what matters
    with_pair = json.loads(cli("effects", "--json", "--pair", "lr,dropout")[1])
    assert with_pair["ranking"]["parameters"] == stored["ranking"]["parameters"]
    reported = json.loads(cli("report", "--json")[1])
    assert reported["effects"] == stored["ranking"]

    # report: the sentence, the table and the charts below it
    page = Path(reported["report"]).read_text()
    assert f"<strong>{ranking.sentence}</strong>" in page
    section = page[page.index('id="effects"') :]
    for name, size, interval in rows:
        assert f'<td>{name}</td><td class="n">{size}</td><td class="n">{interval}</td>' in section
    captions = [section.index(f"<figcaption><b>{name}</b>: levels differ by") for name in order]
    assert captions == sorted(captions)

    # browser: Overview, the headline of Effects, its table and its charts
    said = " ".join(block.value for block in staged(overview.page, session).markdown)
    assert f"**What matters**: {ranking.headline}" in said
    drawn = staged(effects.page, session)
    blocks = [block.value for block in drawn.markdown]
    assert blocks[0] == f"**{ranking.headline}**"
    charts = [block for block in blocks if "** · " in block]
    assert charts == [f"**{name}** · {size}" for name, size, _ in rows]
    table = drawn.dataframe[0].value
    assert list(table[["parameter", "range", "95 % interval"]].itertuples(index=False)) == rows
    shares = next(frame.value for frame in drawn.dataframe if "explains" in frame.value)
    assert list(shares["term"])[:3] == order

    # API
    with housed(store, executes=False):
        endpoint = find_endpoint(store)
        assert endpoint is not None
        answer = httpx.get(
            f"{endpoint.url}/v1/experiments/{session.id}/effects",
            headers={"Authorization": f"Bearer {endpoint.token}"},
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        assert answer.json() == stored["ranking"]
