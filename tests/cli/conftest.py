import numpy as np
import pytest
import tifffile

from beam_volumes.cli.main import main


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty folder to be in, with a small stack of slices."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    (tmp_path / "slices").mkdir()
    for z in range(12):
        tifffile.imwrite(tmp_path / "slices" / f"z{z}.tif", rng.integers(0, 255, (20, 30), "u1"))
    return tmp_path


@pytest.fixture
def command(capsys, monkeypatch):
    """Run the command line in this process: (exit code, standard output, standard error)."""
    monkeypatch.setattr("beam_volumes.cli.main.quiet", lambda: None)  # it is for the whole process

    def run(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as error:
            code = error.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
