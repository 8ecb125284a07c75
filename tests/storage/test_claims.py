"""Documents about the ownership of outputs."""

from beam_volumes.storage.places.claims import Document
from beam_volumes.storage.places.place import kvstore_spec


def test_a_document_is_what_it_was_where_a_server_sends_it_all_the_same(tmp_path, monkeypatch):
    """Not every one knows reads on condition."""
    monkeypatch.setattr(Document, "ask", lambda self, generation=None: self._store.read(self.key))
    document = Document(kvstore_spec(str(tmp_path)), "whose")
    written = document.replace(b"one", document.read()[1])
    assert written is not None and document.is_still(written)
    assert document.replace(b"two", written) is not None
    assert not document.is_still(written)
