"""A server for viewers: chunks, layers and Neuroglancer's client."""
