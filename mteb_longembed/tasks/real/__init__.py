"""The four tasks with real documents, from the hub or a folder of the same layout."""
