"""Interactive results: a widget with a kernel, a picture and a table without one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any

from clvlab.errors import MissingLibraryError
from clvlab.report.export import Exportable, optional
from clvlab.report.html import Html, render

# The still picture and the widget are two outputs of a cell, one after the other: a live widget hides the picture, and the
# picture hides a widget that is not live, such as that of a notebook which was opened and not run. A page without widgets
# does not have the first style, so the picture stays. The classes are those of Jupyter and of VS Code.
_CELLS = (".jp-OutputArea-child", ".output_container")
_ASIDE = "".join(f"{cell}:has(.clvlab-still):has(+ {cell} .clvlab-live){{display:none!important}}" for cell in _CELLS)
_ALONE = "".join(f"{cell}:has(.clvlab-still)+{cell}:not(:has(.clvlab-live)){{display:none}}" for cell in _CELLS)
_STYLE = f"""<style>{_ASIDE}
.clvlab-live :focus-visible{{outline:2px solid #3b82c4!important;outline-offset:1px}}
.clvlab-live button[data-pick]{{all:unset;cursor:pointer;text-decoration:underline;text-underline-offset:2px}}
.clvlab-live [data-pick]{{cursor:pointer}}
.clvlab-live tr:has([data-pick]):hover{{background:rgba(128,128,128,.15)}}
.clvlab-live tr.chosen{{box-shadow:inset 3px 0 #3b82c4;font-weight:600}}
</style>"""


class Interactive(Exportable):
    """A result that is also a widget.

    A cell has both: JupyterLab shows the widget, and a viewer without a kernel shows the HTML.
    """

    @cached_property
    def widget(self) -> Any:
        """The ipywidgets widget; each call returns the same one.

        Raises
        ------
        MissingLibraryError
            ipywidgets, or another library of the widget, is not installed.
        """
        return self._live()

    def _live(self) -> Any:
        box = self._build()
        box.children = (optional("ipywidgets", "a widget").HTML(_STYLE, layout={"display": "none"}), *box.children)
        box.add_class("clvlab-live")
        return box

    def _display_(self) -> Any:
        """Return the widget for marimo, or without its libraries the card; each display there is a widget of its own."""
        try:
            return optional("marimo", "a cell of marimo").ui.anywidget(single(self._live()))
        except MissingLibraryError:
            return super()._display_()

    @abstractmethod
    def _build(self) -> Any: ...

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002  IPython names them
        return self._view() | self._still()

    def _ipython_display_(self) -> None:
        """Show picture and widget one after the other: an export that runs the cells keeps only the widget of an output."""
        show = optional("IPython.display", "a notebook").publish_display_data
        show(self._still())
        if view := self._view():
            show(view)

    def _view(self) -> dict[str, Any]:
        try:
            view = self.widget._repr_mimebundle_()
        except MissingLibraryError:  # the HTML says what to install
            return {}
        return {**view, "text/plain": "Run this cell for the interactive view."}  # where there are no widgets

    def _still(self) -> dict[str, Any]:
        flat, alt = self._flat()
        still = render("still.html", card=self._repr_html_(), style=Html(_ALONE), flat=flat, alt=alt)
        return {"text/plain": repr(self), "text/html": still}

    def _flat(self) -> tuple[str, str]:
        """Return the picture of the card as PNG in base64, and its description, for pages that show no SVG; may be empty."""
        return "", ""


# A widget of HTML in which elements with a ``data-pick`` can be picked, by pointer and by keyboard.


# Arrow keys go from one element to the next, like Tab; the focus stays when the content is drawn again. JupyterLab's
# shortcuts are off here, because Enter would edit the cell.
_PICKER_ESM = """
export default {
  render({ model, el }) {
    el.addEventListener("focusin", event => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
    const picks = () => [...el.querySelectorAll("[data-pick]")];
    const draw = () => {
      const held = el.contains(document.activeElement) ? document.activeElement.dataset.pick : undefined;
      el.innerHTML = model.get("content");
      if (held !== undefined) (picks().find(p => p.dataset.pick === held) ?? picks()[0])?.focus();
    };
    const pick = target => { if (target) model.send({ pick: target.dataset.pick }); };
    el.addEventListener("click", event => {
      const row = event.target.closest("[data-pick]") ?? event.target.closest("tr")?.querySelector("[data-pick]");
      if (row && el.contains(row) && !String(getSelection())) { row.focus(); pick(row); }
    });
    el.addEventListener("keydown", event => {
      const all = picks(), at = all.indexOf(document.activeElement);
      if (at < 0) return;
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (step) all[Math.min(Math.max(at + step, 0), all.length - 1)].focus();
      else if ((event.key === "Enter" || event.key === " ") && all[at].tagName !== "BUTTON") pick(all[at]);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    model.on("change:content", draw);
    draw();
    return () => model.off("change:content", draw);
  },
};
"""


def picker(picked: Callable[[str], object]) -> Any:
    """Make the widget; its ``content`` is the HTML."""
    anywidget, traitlets = optional("anywidget", "this widget"), optional("traitlets", "this widget")
    content = traitlets.Unicode("").tag(sync=True)
    made = type("Picker", (anywidget.AnyWidget,), {"_esm": _PICKER_ESM, "content": content})(layout={"width": "100%"})
    made.on_msg(lambda _, message, buffers: picked(str(message.get("pick", ""))))  # noqa: ARG005  ipywidgets gives three
    return made


# A box of ipywidgets as one anywidget, for marimo, which shows anywidgets and no other widgets.


Parts = MutableMapping[str, Any]
"""The ipywidgets of a box by the name of their state."""
# The traits that a page shows, by class of ipywidgets. Each of them has a part in ``_SINGLE_ESM``.
_VISIBLE = {
    "BoundedIntText": ("value", "min", "max"),
    "Button": ("button_style",),
    "Dropdown": ("index", "_options_labels"),
    "HTML": ("value",),
    "IntSlider": ("value", "min", "max"),
    "Play": ("value", "max", "step", "interval", "playing"),
    "Text": ("value", "placeholder"),
    "Textarea": ("value",),
    "ToggleButton": ("value",),
}
_COMMON = ("description", "tooltip", "disabled")
_MOVED = {"BoundedIntText": "value", "Dropdown": "index", "IntSlider": "value", "Text": "value", "Textarea": "value"}
_MOVED |= {"Play": "value", "ToggleButton": "value"}

_SINGLE_ESM = r"""
const STYLE = `
.clvlab-single{color:inherit;font-family:system-ui,sans-serif;font-size:13px}
.clvlab-single .row{display:flex;flex-flow:row wrap;align-items:center;gap:.35rem .7rem;margin:.25rem 0}
.clvlab-single label{display:inline-flex;align-items:center;gap:.4rem;max-width:100%}
.clvlab-single label.tall{display:block}
.clvlab-single textarea{display:block;width:100%;height:7rem;box-sizing:border-box}
.clvlab-single :is(input,select,textarea,label button,.row>button){font:inherit;color:inherit;background:transparent;
 border:1px solid rgba(128,128,128,.7);border-radius:4px;padding:.2rem .5rem;max-width:100%;min-width:0}
.clvlab-single select option{color:CanvasText;background:Canvas}
.clvlab-single input[type=range]{padding:0;border:0;width:16rem}
.clvlab-single .row>button{cursor:pointer}.clvlab-single button[aria-pressed=true]{background:rgba(128,128,128,.3)}
.clvlab-single button.primary{border:2px solid currentColor;font-weight:600}
.clvlab-single button:disabled{opacity:.5;cursor:default}`;

const make = (tag, values = {}) => Object.assign(document.createElement(tag), values);
const labelled = (field, tall) => {
  const label = make("label", { className: tall ? "tall" : "" }), text = make("span");
  label.append(text, field);
  return [label, state => { text.textContent = state.description; field.title = state.tooltip ?? ""; }];
};

// Each part: the element, and what shows a new state in it. `move` sends what a person did.
const field = (type, values, on, tall) => move => {
  const input = make(type, values), [label, tell] = labelled(input, tall);
  input.addEventListener(on, () => move(input.type === "range" || input.type === "number" ? Number(input.value) : input.value));
  return [label, state => {
    tell(state);
    for (const name of ["min", "max", "placeholder"]) if (name in state) input[name] = state[name];
    if (!(input.type === "range" && input.matches(":active"))) input.value = state.value;
  }];
};
const button = act => (move, stop) => {
  const made = make("button", { type: "button" });
  let state = {};
  made.addEventListener("click", () => act(move, state));
  return [made, now => {
    state = now;
    made.textContent = now.description;
    made.title = now.tooltip ?? "";
    made.disabled = Boolean(now.disabled);
    made.className = now.button_style ?? "";
  }];
};
const PARTS = {
  Text: field("input", { type: "text" }, "change"),
  Textarea: field("textarea", {}, "change", true),
  BoundedIntText: field("input", { type: "number" }, "change"),
  IntSlider: field("input", { type: "range" }, "input"),
  Button: button(move => move(null)),
  ToggleButton: move => {
    const [made, tell] = button((_, state) => move(!state.value))(move);
    return [made, state => { tell(state); made.setAttribute("aria-pressed", String(state.value)); }];
  },
  HTML: () => { const made = make("div"); return [made, state => { made.innerHTML = state.value; }]; },
  Dropdown: move => {
    const select = make("select"), [label, tell] = labelled(select);
    let listed = null;
    select.addEventListener("change", () => move(select.selectedIndex));
    return [label, state => {
      tell(state);
      const texts = JSON.stringify(state._options_labels);
      if (texts !== listed) select.replaceChildren(...state._options_labels.map(text => make("option", { textContent: text })));
      listed = texts;
      select.selectedIndex = state.index ?? -1;
    }];
  },
  // A step is sent once the one before it has been drawn, so that a slow kernel is never flooded.
  Play: (move, stop) => {
    const made = make("button", { type: "button" });
    let state = {}, timer = null, sent = null;
    const step = () => {
      if (sent !== null && state.value !== sent) return;
      if (state.value >= state.max) return move(false, "playing");
      sent = Math.min(state.value + state.step, state.max);
      move(sent);
    };
    made.addEventListener("click", () => {
      if (!state.playing && state.value >= state.max) move(0);
      move(!state.playing, "playing");
    });
    stop(() => clearInterval(timer));
    return [made, now => {
      if (now.playing !== state.playing || now.interval !== state.interval) {
        clearInterval(timer);
        sent = null;
        if (now.playing) timer = setInterval(step, now.interval);
      }
      state = now;
      made.textContent = now.playing ? "⏸ Pause" : "▶ Play";
      made.setAttribute("aria-pressed", String(now.playing));
    }];
  },
};

export default {
  render({ model, el, host, signal }) {
    const ends = [], stop = end => ends.push(end);
    const draw = node => {
      let made;
      if (node.model) {
        made = make("div");
        host.getWidget(node.model).then(child => child.render({ el: made, signal }));
      } else if (node.children) {
        made = make("div", { className: node.kind === "HBox" ? "row" : "" });
        made.append(...node.children.map(draw));
      } else {
        const move = (value, trait) => model.send({ part: node.part, value, ...(trait ? { trait } : {}) });
        const [part, show] = PARTS[node.kind](move, stop), tell = () => show(model.get(node.part));
        model.on(`change:${node.part}`, tell);
        stop(() => model.off(`change:${node.part}`, tell));
        tell();
        made = part;
      }
      made.classList.add(...node.classes);
      return made;
    };
    const root = draw(model.get("tree"));
    root.classList.add("clvlab-single");
    el.replaceChildren(make("style", { textContent: STYLE }), root);
    return () => ends.forEach(end => end());
  },
};
"""


def single(box: Any) -> Any:
    """Return an anywidget that shows a box of ipywidgets, and moves its controls.

    Anywidgets in the box, such as a plotly figure, are shown as they are.
    """
    anywidget, traitlets = optional("anywidget", "this widget"), optional("traitlets", "this widget")
    parts: Parts = {}

    def node(widget: Any) -> Mapping[str, object]:
        classes = list(widget._dom_classes)  # noqa: SLF001  its only name
        if hasattr(widget, "children"):
            return {"kind": type(widget).__name__, "classes": classes, "children": [node(child) for child in widget.children]}
        if isinstance(widget, anywidget.AnyWidget):
            return {"model": f"anywidget:{widget.model_id}", "classes": classes}
        parts[name := f"part_{len(parts)}"] = widget
        return {"kind": type(widget).__name__, "classes": classes, "part": name}

    tree = node(box)
    traits = {name: traitlets.Dict(_state(widget)).tag(sync=True) for name, widget in parts.items()}
    whole = {"_esm": _SINGLE_ESM, "tree": traitlets.Dict(tree).tag(sync=True), **traits}
    made = type("Single", (anywidget.AnyWidget,), whole)()
    for name, widget in parts.items():
        update = lambda _, name=name, widget=widget: setattr(made, name, _state(widget))  # noqa: E731
        widget.observe(update, [*_traits(widget)])
    made.on_msg(lambda _, message, buffers: _move(parts, message))  # noqa: ARG005  ipywidgets gives three
    return made


def _traits(widget: Any) -> Iterator[str]:
    return (name for name in (*_VISIBLE[type(widget).__name__], *_COMMON) if widget.has_trait(name))


def _state(widget: Any) -> dict[str, object]:
    values = {name: getattr(widget, name) for name in _traits(widget)}
    return {name: str(value) if isinstance(value, str) else value for name, value in values.items()}  # marimo knows no Html


def _move(parts: Parts, message: Any) -> None:
    """Do what a person did on the page; a message about no part, and one of another shape, changes nothing."""
    widget = parts.get(str(message.get("part")))
    if widget is None:
        return
    kind, value = type(widget).__name__, message.get("value")
    if kind == "Button":
        widget.click()
    elif kind == "Play" and message.get("trait") == "playing":
        widget.playing = bool(value)
    elif kind in _MOVED:
        setattr(getattr(widget, "moves", widget), _MOVED[kind], value)
