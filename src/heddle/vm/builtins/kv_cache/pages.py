"""Pages of the cache, and the blocks that own them.

A *page* holds `page_size` tokens of every layer. A *slot* is a place for a token, counted from the first page
of a block. A *block* is a run of a sequence's tokens in pages of its own:

    slots     0 ... sink-1 | sink ... window_start-1 | window_start ... num_slots-1
    tokens    kept         | dropped                 | kept

`sink == window_start == 0` unless a sliding window has dropped tokens. Blocks form a forest: a block's tokens
follow those of its parent. Invariants:
- each sequence owns one leaf, and only leaves grow, shrink and slide;
- inner blocks consist of full pages and have at least two children: a parent with one child is joined with
  it.
"""

from __future__ import annotations

from collections.abc import Callable

from heddle.support.diagnostics import Trap
from heddle.vm.codes import V0704

CopyPage = Callable[[int, int, int], None]
"""Copies the first tokens of a page. Arguments: source page, target page, number of tokens."""


class PagePool:
    """The free pages. Pages with low numbers are used first; a page that was returned is used next."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self._free = list(range(num_pages))[::-1]

    @property
    def num_free(self) -> int:
        """The number of free pages."""
        return len(self._free)

    def require(self, count: int) -> None:
        """Check that `count` pages are free. Raises: Trap V0704 if not."""
        if count > len(self._free):
            raise Trap(V0704, f"expected {count} free pages, got {len(self._free)} of {self.num_pages}")

    def take(self, count: int) -> list[int]:
        """Allocate pages and return their numbers. Raises: Trap V0704."""
        self.require(count)
        return [self._free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """Free pages."""
        self._free.extend(reversed(pages))


class TokenBlock:
    """A run of tokens; see the docstring of the module. `start` is the position of its first token in the
    sequence."""

    __slots__ = ("children", "num_slots", "pages", "parent", "sink", "start", "window_start")

    def __init__(self, parent: TokenBlock | None, start: int) -> None:
        self.parent = parent
        self.children: list[TokenBlock] = []
        self.start = start
        self.pages: list[int] = []
        self.num_slots = 0
        self.sink = 0
        self.window_start = 0
        if parent is not None:
            parent.children.append(self)

    @property
    def num_tokens(self) -> int:
        """The number of tokens in the block: slots without the dropped ones."""
        return self.num_slots - self.num_dropped

    @property
    def num_dropped(self) -> int:
        """The number of dropped slots, between sink and window."""
        return self.window_start - self.sink

    @property
    def end(self) -> int:
        """The position after the last token."""
        return self.start + self.num_tokens

    def shift_slots(self, by: int) -> None:
        """Adjust the slot numbers after `by` slots were inserted before the first one (negative: removed
        there)."""
        self.num_slots += by
        if self.num_dropped:
            self.sink += by
            self.window_start += by

    def path(self) -> list[TokenBlock]:
        """Return the blocks from the root to this one."""
        found, block = [self], self.parent
        while block is not None:
            found.append(block)
            block = block.parent
        return found[::-1]


class BlockForest:
    """The operations on blocks. `copy_page` copies a page's contents in all layers."""

    def __init__(self, num_pages: int, page_size: int, copy_page: CopyPage) -> None:
        self.pool = PagePool(num_pages)
        self.page_size = page_size
        self._copy_page = copy_page

    def pages_missing(self, leaf: TokenBlock, count: int) -> int:
        """Return how many additional pages are needed for `count` more tokens."""
        return max(0, -(-(leaf.num_slots + count) // self.page_size) - len(leaf.pages))

    def grow(self, leaf: TokenBlock, count: int) -> list[int]:
        """Allocate space for tokens at the end. Return the places of the new tokens: page * page_size +
        offset."""
        leaf.pages += self.pool.take(self.pages_missing(leaf, count))
        first, size = leaf.num_slots, self.page_size
        leaf.num_slots += count
        return [leaf.pages[s // size] * size + s % size for s in range(first, first + count)]

    def places(self, block: TokenBlock) -> list[int]:
        """Return the place of each token of the block: page * page_size + offset."""
        size, pages = self.page_size, block.pages
        slots = [*range(block.sink), *range(block.window_start, block.num_slots)]
        return [pages[s // size] * size + s % size for s in slots]

    def truncate(self, leaf: TokenBlock, num_tokens: int) -> None:
        """Keep only the first tokens of a leaf."""
        if num_tokens <= leaf.sink:
            leaf.num_slots, leaf.sink, leaf.window_start = num_tokens, 0, 0
        else:
            leaf.num_slots = num_tokens + leaf.num_dropped
        kept = -(-leaf.num_slots // self.page_size)
        self.pool.give_back(leaf.pages[kept:])
        del leaf.pages[kept:]

    def slide(self, leaf: TokenBlock, sink: int, count: int) -> None:
        """Drop `count` tokens after the first `sink` ones, and free the pages that become unused."""
        if not leaf.num_dropped:
            leaf.sink = leaf.window_start = sink
        leaf.window_start += count
        size = self.page_size
        first, last = -(-leaf.sink // size), leaf.window_start // size
        if last > first:
            self.pool.give_back(leaf.pages[first:last])
            del leaf.pages[first:last]
            leaf.window_start -= (last - first) * size
            leaf.num_slots -= (last - first) * size
        if not leaf.num_dropped:
            leaf.sink = leaf.window_start = 0

    def branch(self, block: TokenBlock, position: int) -> TokenBlock:
        """Return a new leaf whose path holds the tokens before `position` of `block`'s path.

        Full pages are shared: the block is split after them. A partially filled page is copied. If no page is
        free, nothing is changed (Trap V0704).
        """
        while block.parent is not None and position <= block.start:
            block = block.parent
        whole, rest = divmod(position - block.start, self.page_size)
        own = self.pool.take(1 if rest else 0)
        parent = self._split(block, whole) if whole else block.parent
        leaf = TokenBlock(parent, position - rest)
        if rest:
            # After a split, the block starts with the page that contains the position.
            self._copy_page(block.pages[0], own[0], rest)
            leaf.pages, leaf.num_slots = own, rest
        return leaf

    def _split(self, block: TokenBlock, num_pages: int) -> TokenBlock:
        """Split off the first pages as a new parent block; `block` keeps the others. If an inner block has
        exactly that many pages, it is returned unchanged."""
        if block.children and num_pages == len(block.pages):
            return block
        head = TokenBlock(None, block.start)
        head.parent = block.parent
        if head.parent is not None:
            _replace(head.parent.children, block, head)
        head.pages, head.num_slots = block.pages[:num_pages], num_pages * self.page_size
        head.children.append(block)
        block.parent, block.start = head, block.start + head.num_slots
        block.pages = block.pages[num_pages:]
        block.shift_slots(-head.num_slots)
        return head

    def release(self, leaf: TokenBlock) -> None:
        """Remove a leaf, and the inner blocks that become unused."""
        self.pool.give_back(leaf.pages)
        leaf.pages = []
        parent = leaf.parent
        if parent is None:
            return
        parent.children.remove(leaf)
        if len(parent.children) == 1:
            self._join(parent, parent.children[0])

    def _join(self, parent: TokenBlock, child: TokenBlock) -> None:
        """Join a parent with its only child."""
        child.pages = parent.pages + child.pages
        child.start = parent.start
        child.shift_slots(parent.num_slots)
        child.parent = parent.parent
        if parent.parent is not None:
            _replace(parent.parent.children, parent, child)


def _replace(blocks: list[TokenBlock], old: TokenBlock, new: TokenBlock) -> None:
    blocks[blocks.index(old)] = new
