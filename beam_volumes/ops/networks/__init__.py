"""Networks over volumes: patches of a grid of the volume, whatever the slabs."""
