import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]


def test_notebooks_are_found():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
class TestNotebook:
    def test_was_executed_from_top_to_bottom(self, path):
        counts = [cell["execution_count"] for cell in code_cells(path)]

        assert counts == list(range(1, len(counts) + 1))

    def test_has_outputs_and_no_error(self, path):
        outputs = [output for cell in code_cells(path) for output in cell["outputs"]]

        assert outputs
        assert [output["evalue"] for output in outputs if output["output_type"] == "error"] == []
        assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []

    def test_shows_no_path_of_the_machine_it_ran_on(self, path):
        outputs = json.dumps([cell["outputs"] for cell in code_cells(path)])

        assert re.findall(r"(?<![\w./:<])/(?:home|root|tmp|usr|var|work|Users)\b[^\s\"]*", outputs) == []

    def test_runs_on_the_kernel_that_everyone_has(self, path):
        assert json.loads(path.read_text(encoding="utf-8"))["metadata"]["kernelspec"]["name"] == "python3"
