"""Draw the executed graph as a document for Netron: edges, blocks, colours and texts."""
