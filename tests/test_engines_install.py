"""`make engines` keeps downloads and builds in its folder; Maven and Go are stand-ins here."""

import os
import shutil
import subprocess
from pathlib import Path

ENGINES = Path(__file__).parents[1] / "engines"

#: A tool that notes how it was called, and makes what Maven would.
TOOL = r"""#!/bin/bash
{ echo "$(basename "$0") $*"; env | grep -E '^(GO|XDG_CONFIG|TMPDIR|PIP_NO)'; } >>"$CALLS"
while [ $# -gt 0 ]; do
  if [ "$1" = --file ]; then
    made=$(dirname "$2")/target
    mkdir -p "$made"
    touch "$made"/{job-server,java-pipeline,sql-service}.jar
  fi
  shift
done
"""


def test_everything_that_is_downloaded_or_built_stays_in_the_folder(tmp_path):
    shutil.copytree(ENGINES, tmp_path / "engines")
    tools, home, calls = tmp_path / "tools", tmp_path / "home", tmp_path / "calls"
    for folder in (tools, home):
        folder.mkdir()
    for name in ("java", "mvn", "go", "slurmctld", "munged"):
        (tools / name).write_text(TOOL)
    (tools / "python").write_text("#!/bin/bash\necho 2.77.0\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    # What is not built is there already.
    installed = tmp_path / ".engines"
    installed.mkdir()
    script = (ENGINES / "install.sh").read_text()
    versions = dict(
        line.split("=") for line in script.splitlines() if line.startswith(("flink=", "moto="))
    )
    versions["operator-crd"] = next(
        line.split("=")[1] for line in script.splitlines() if line.startswith("operator=")
    )
    for name, version in versions.items():
        (installed / f".{name}").write_text(f"{version}\n")
    subprocess.run(
        ["bash", str(tmp_path / "engines" / "install.sh")],
        env={
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(home),
            "PYTHON": str(tools / "python"),
            "CALLS": str(calls),
        },
        check=True,
    )
    called = calls.read_text().splitlines()
    cache = f"{installed}/cache"
    assert any(
        line.startswith("mvn ") and f"-Dmaven.repo.local={cache}/" in line for line in called
    )
    assert [line.split()[0] for line in called].count("go") == 2
    for variable in ("GOPATH", "GOMODCACHE", "GOCACHE", "XDG_CONFIG_HOME", "TMPDIR"):
        values = {line.split("=")[1] for line in called if line.startswith(f"{variable}=")}
        assert values and all(value.startswith(cache) for value in values), variable
    assert f"GOENV={home}/.config/go/env" in called  # settings are still the user's
    assert list(home.iterdir()) == [] and not Path(cache).exists()
    for program in ("job-server", "java-pipeline", "sql-service"):
        assert (installed / f"{program}.jar").exists() and (installed / f".{program}").exists()
