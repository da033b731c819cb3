"""The executed graph as a document for Netron: wiring, blocks, colours, words."""
