"""Pages and the blocks that own them.

A *page* holds `page_size` tokens of every layer. A *slot* is a place for a token, counted from the first page
of a block. A *block* is a run of a sequence's tokens in pages of its own:

    slots     0 ... sink-1 | sink ... window_start-1 | window_start ... num_slots-1
    tokens    kept         | dropped                 | kept

`sink == window_start == 0` unless a sliding window has dropped tokens. Blocks form a forest: a block's tokens
follow its parent's. Invariants:
- each sequence owns one leaf, and only leaves grow, shrink and slide;
- inner blocks consist of full pages and have at least two children: a parent with one child is joined to it.
"""

from __future__ import annotations

from collections.abc import Callable

from heddle.support.diagnostics import Trap
from heddle.vm.codes import V0704

CopyPage = Callable[[int, int, int], None]
"""Copies the first tokens of a page: source page, target page, number of tokens."""


class PagePool:
    """Free pages. Low numbers go first; a page given back is the next to go."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self._free = list(range(num_pages))[::-1]

    @property
    def num_free(self) -> int:
        """How many pages are free."""
        return len(self._free)

    def require(self, count: int) -> None:
        """Raises: Trap V0704."""
        if count > len(self._free):
            raise Trap(V0704, f"expected {count} free pages, got {len(self._free)} of {self.num_pages}")

    def take(self, count: int) -> list[int]:
        """Numbers of so many free pages, which are in use from now on. Raises: Trap V0704."""
        self.require(count)
        return [self._free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """The pages are free again."""
        self._free.extend(reversed(pages))


class TokenBlock:
    """A run of tokens; see above. `start` is the position in the sequence of its first token."""

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
        """Tokens in the block: its slots without the dropped ones."""
        return self.num_slots - self.num_dropped

    @property
    def num_dropped(self) -> int:
        """Slots between sink and window."""
        return self.window_start - self.sink

    @property
    def end(self) -> int:
        """The position after the last token."""
        return self.start + self.num_tokens

    def shift_slots(self, by: int) -> None:
        """Account for `by` slots that were put before the first one, or taken away from there."""
        self.num_slots += by
        if self.num_dropped:
            self.sink += by
            self.window_start += by

    def path(self) -> list[TokenBlock]:
        """The blocks from the root to this one."""
        found, block = [self], self.parent
        while block is not None:
            found.append(block)
            block = block.parent
        return found[::-1]


class BlockForest:
    """The operations on blocks. `copy_page` moves a page's contents, in all layers."""

    def __init__(self, num_pages: int, page_size: int, copy_page: CopyPage) -> None:
        self.pool = PagePool(num_pages)
        self.page_size = page_size
        self._copy_page = copy_page

    def pages_missing(self, leaf: TokenBlock, count: int) -> int:
        """How many more pages `count` more tokens need."""
        return max(0, -(-(leaf.num_slots + count) // self.page_size) - len(leaf.pages))

    def grow(self, leaf: TokenBlock, count: int) -> list[int]:
        """Make room for tokens at the end. The new tokens' places: page * page_size + offset."""
        leaf.pages += self.pool.take(self.pages_missing(leaf, count))
        first, size = leaf.num_slots, self.page_size
        leaf.num_slots += count
        return [leaf.pages[s // size] * size + s % size for s in range(first, first + count)]

    def places(self, block: TokenBlock) -> list[int]:
        """Where the block's tokens are: page * page_size + offset of each."""
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
        """Drop `count` tokens after the first `sink` ones, and the pages that become unused."""
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
        """A new leaf whose path holds the tokens before `position` of `block`'s path.

        Whole pages are shared: the block is split after them. A part-filled page is copied. Nothing is
        changed where no page is free (Trap V0704).
        """
        while block.parent is not None and position <= block.start:
            block = block.parent
        whole, rest = divmod(position - block.start, self.page_size)
        own = self.pool.take(1 if rest else 0)
        parent = self._split(block, whole) if whole else block.parent
        leaf = TokenBlock(parent, position - rest)
        if rest:
            # After a split the block starts with the page in question.
            self._copy_page(block.pages[0], own[0], rest)
            leaf.pages, leaf.num_slots = own, rest
        return leaf

    def _split(self, block: TokenBlock, num_pages: int) -> TokenBlock:
        """The block of the first pages; `block` keeps the others. An inner block of just so many stays."""
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
        """Take a leaf away, and inner blocks that nobody needs then."""
        self.pool.give_back(leaf.pages)
        leaf.pages = []
        parent = leaf.parent
        if parent is None:
            return
        parent.children.remove(leaf)
        if len(parent.children) == 1:
            self._join(parent, parent.children[0])

    def _join(self, parent: TokenBlock, child: TokenBlock) -> None:
        """Make one block of a parent and its only child."""
        child.pages = parent.pages + child.pages
        child.start = parent.start
        child.shift_slots(parent.num_slots)
        child.parent = parent.parent
        if parent.parent is not None:
            _replace(parent.parent.children, parent, child)


def _replace(blocks: list[TokenBlock], old: TokenBlock, new: TokenBlock) -> None:
    blocks[blocks.index(old)] = new
