"""Sweeps over slabs: interfaces of operations, programs, and their execution along z."""
