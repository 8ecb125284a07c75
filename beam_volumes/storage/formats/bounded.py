"""Files for libraries that believe what a header says."""

from __future__ import annotations

import io
import os


class BoundedFile(io.BufferedReader):
    """A file of which no more is asked for than there is: a library that reads 2**40 bytes gets the rest.

    Examples
    --------
    >>> _ = open("a", "wb").write(b"four")
    >>> with BoundedFile("a") as file:
    ...     file.read(1 << 50)
    b'four'
    """

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path), 1 << 16)
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > 1 << 16:
            size = min(size, max(0, self.size - self.tell()))
        return super().read(size)
