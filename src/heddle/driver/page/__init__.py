"""One page that shows a model from graph to machine code, and a run of it: `heddle inspect --html`."""

from heddle.driver.page.collect import PageOptions, collect
from heddle.driver.page.render import Page, render

__all__ = ["Page", "PageOptions", "collect", "render"]
