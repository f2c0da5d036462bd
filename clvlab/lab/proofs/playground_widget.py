"""The playground as a widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clvlab.drawing import html
from clvlab.drawing.showing import optional
from clvlab.errors import ClvlabError
from clvlab.lab.proofs.attacks import FILES
from clvlab.lab.proofs.lines import Lines
from clvlab.lab.proofs.tampering import Tampering


class PlaygroundWidget:
    """Controls of a playground; ``box`` is what is displayed."""

    def __init__(self, playground: Tampering) -> None:
        self.playground = playground
        make = optional("ipywidgets", "the playground")
        auto = {"width": "auto", "max_width": "100%"}
        self.attack = make.Dropdown(options=playground.attacks, description="Attack", layout=auto)
        self.file = make.Dropdown(options=FILES, description="File", layout=auto)
        self.number = make.BoundedIntText(min=0, max=0, description="Line", layout={"width": "11rem"})
        self.text = make.Textarea(description="Its text", layout={"width": "100%", "height": "7rem"})
        self.result = make.HTML()
        self.file.observe(self._read, "value")
        self.number.observe(self._read, "value")

        def button(text: str, act: Callable[[], object], style: str = "") -> Any:
            made = make.Button(description=text, button_style=style, layout={"width": "auto"})
            made.on_click(lambda _: self._do(act))
            return made

        row = {"flex_flow": "row wrap", "align_items": "center", "width": "100%"}
        self.try_it = button("Try it", lambda: playground.attack(self.attack.value), "warning")
        self.write = button(
            "Write the line", lambda: playground.write_line(self.file.value, self.number.value, self.text.value)
        )
        self.flip = button("Flip a bit of it", lambda: playground.flip_in_line(self.file.value, self.number.value))
        self.close = button("Close the seal again", playground.close_seal)
        self.restore = button("Restore", playground.restore, "success")
        parts = [
            make.HBox([self.attack, self.try_it, self.close, self.restore], layout=row),
            make.HBox([self.file, self.number, self.write, self.flip], layout=row),
            self.text,
            self.result,
        ]
        self.box = make.VBox(parts, layout={"width": "100%"})
        self.box.add_class("clvlab-playground")
        self._turn_to_change()
        self._show()

    def _do(self, act: Callable[[], object]) -> None:
        """Act, then show the copy as it stands; a refusal is shown as well."""
        refused = ""
        try:
            act()
        except ClvlabError as error:
            refused = f'<p class="fail">{html.escape(str(error))}</p>'
        self._turn_to_change()
        self._show(refused)

    def _turn_to_change(self) -> None:
        """Read the first line that is not as sealed; the one that is read already while there is none."""
        if changed := self.playground.first_change:
            self.file.value = changed[0]
            self._read()
            self.number.value = min(changed[1], self.number.max)
        self._read()

    def _read(self, _: Any = None) -> None:
        lines = Lines(self.playground.copy.read(self.file.value))
        self.number.max = max(len(lines) - 1, 0)
        self.text.value = self.playground.line(self.file.value, self.number.value) if len(lines) else ""

    def _show(self, refused: str = "") -> None:
        title = f"A copy of {self.playground.source.run_id}, to tamper with"
        self.result.value = html.block(title, refused, self.playground.shown())
