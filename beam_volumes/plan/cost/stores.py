"""Stores of objects: the rate, the latency and the price of requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from beam_volumes.base.text import nearest


@dataclass(frozen=True)
class Store:
    """A store of objects, by the numbers that its provider publishes.

    >>> Store.of("s3").writes, Store.of("s3,prefixes=10").writes_per_second
    (3500.0, 35000.0)
    """

    name: str
    reads: float  #: Requests per second that read, for each prefix.
    writes: float  #: Requests per second that write, for each prefix.
    latency: float  #: Seconds until a request is answered.
    read_price: float  #: Of one request that reads, in US dollars.
    write_price: float  #: Of one request that writes.
    gib_month: float  #: Price of one GiB stored for a month.
    doubling: float = math.inf  #: Seconds in which the rates double under load.
    prefixes: float = 1  #: Over how many prefixes the requests of a run are spread.

    @classmethod
    def of(cls, given: Any) -> Store:
        """Return a store by name, with other numbers: ``"s3,prefixes=10"`` or a mapping."""
        if isinstance(given, Store):
            return given
        try:
            if isinstance(given, str):
                name, *parts = given.split(",")
                options: dict[str, Any] = dict(part.split("=") for part in parts)
            else:
                options = dict(given)
                name = options.pop("name")
            known = STORES[str(name).strip()]
        except (TypeError, ValueError, KeyError):
            raise ValueError(
                f"store={given!r} is not a store; give {', '.join(map(repr, STORES))}, with other numbers as "
                "'s3,prefixes=10,latency=0.05' or {'name': 's3', 'prefixes': 10}"
            ) from None
        names = [f.name for f in fields(cls) if f.name != "name"]
        for option, value in options.items():
            if option not in names:
                hint = nearest(option, names)
                raise ValueError(
                    f"store={given!r} has no {option!r}{hint}; known are {', '.join(names)}"
                )
            try:
                options[option] = float(value)
            except (TypeError, ValueError):
                options[option] = math.nan
            minimum = 0.0 if option == "latency" or "price" in option or "month" in option else 1e-9
            if not options[option] >= minimum:
                raise ValueError(f"store={given!r}: {option}={value!r} is not a number above 0")
        return replace(known, **options)

    @property
    def reads_per_second(self) -> float:
        """Requests per second that read, of all prefixes, at first."""
        return self.reads * self.prefixes

    @property
    def writes_per_second(self) -> float:
        """Requests per second that write, of all prefixes, at first."""
        return self.writes * self.prefixes

    def seconds(self, reads: int, writes: int) -> float:
        """Seconds in which a store takes so many requests; reads and writes have rates of their own."""
        return max(
            self._ramped(reads / self.reads_per_second),
            self._ramped(writes / self.writes_per_second),
        )

    def _ramped(self, seconds: float) -> float:
        """Seconds at rates that double again and again, instead of those at the first rate.

        >>> round(STORES["gcs"].seconds(0, 1_200_000), 1)
        911.6
        """
        if math.isinf(self.doubling):
            return seconds
        return self.doubling * math.log2(1 + seconds * math.log(2) / self.doubling)

    def cost(self, reads: int, writes: int) -> float:
        """Price of so many requests."""
        return reads * self.read_price + writes * self.write_price


#: By name: what providers document, of standard storage in their first regions (November 2026).
STORES = {
    # At least 3,500 writes and 5,500 reads per second for each prefix, and 100 to 200 ms for the first byte
    # (docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html); prices: aws.amazon.com/s3.
    "s3": Store("s3", 5500.0, 3500.0, 0.1, 0.4e-6, 5e-6, 0.023),
    # A bucket begins with 1,000 writes and 5,000 reads per second; load may double every 20 minutes
    # (cloud.google.com/storage/docs/request-rate); prices: cloud.google.com/storage/pricing.
    "gcs": Store("gcs", 5000.0, 1000.0, 0.1, 0.4e-6, 5e-6, 0.020, doubling=1200.0),
    # A disk of the machine: nothing limits or prices requests.
    "disk": Store("disk", math.inf, math.inf, 0.0, 0.0, 0.0, 0.0),
}
