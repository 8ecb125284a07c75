#!/usr/bin/env bash
# Installs the engines and object stores that `make test-engines` runs on, each once, into .engines:
#
#   flink/           Flink as it is distributed; templates/flink/cluster.sh starts it
#   job-server.jar   Beam's job server for Flink, assembled by Maven from flink/pom.xml
#   java-pipeline.jar   a pipeline in Java with our transforms, from java/
#   sql-service.jar  Beam SQL for pipelines in Python, from sql/
#   flinkdeployments.yml   what Flink's Kubernetes operator takes, as it is published
#   bin/prism        Beam's Prism, of the version of the Beam installed
#   bin/fake-gcs-server
#   moto/            a Python environment with moto's S3 server
#   .slurm           the version of Slurm, whose programs and plugins have fixed paths: a package of the system
#
# Nothing else outside that folder is written: what Go, Maven and pip download and build is in .engines/cache, which
# is removed once everything is installed. Their settings (~/.m2/settings.xml, `go env -w`, pip.conf) are read.
#
# Needs Java 11 or 17, Maven and Go. PYTHON names a Python with apache-beam: by default that of .venv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$here/../.engines
mkdir -p "$to" && to=$(cd "$to" && pwd -P)
python=${PYTHON:-$here/../.venv/bin/python}

flink=1.19.3
fake_gcs=v1.56.1
moto=5.2.5
operator=1.10.0

missing=
for tool in java:Java mvn:Maven go:Go; do
  command -v "${tool%:*}" >/dev/null || missing+=" ${tool#*:}"
done
if [ -n "$missing" ]; then
  echo "make engines: missing on this machine:$missing. The engines are built by Java 11 or 17, Maven" \
    "and Go (e.g. apt-get install openjdk-17-jdk-headless maven golang). 'make test' needs none of them." >&2
  exit 1
fi
cache=$to/cache
mkdir -p "$cache/tmp"
export TMPDIR=$cache/tmp PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
mvn() {
  command mvn --batch-mode --quiet -Dmaven.repo.local="$cache/maven" -Djava.io.tmpdir="$TMPDIR" "$@"
}
# Go counts its own use in the folder that its settings are in by default. It makes modules read-only by default.
export GOENV=${GOENV:-${XDG_CONFIG_HOME:-${HOME:-}/.config}/go/env}
go() {
  XDG_CONFIG_HOME=$cache/config GOPATH=$cache/go GOMODCACHE=$cache/go/modules GOCACHE=$cache/go/build \
    GOFLAGS="-mod=mod -modcacherw" GOBIN=$to/bin command go "$@"
}
beam=$("$python" -c 'from importlib.metadata import version; print(version("apache-beam"))')

# install NAME VERSION COMMAND: what is there in this version stays; what fails leaves no mark.
install() {
  local mark=$to/.$1
  if [ "$(cat "$mark" 2>/dev/null)" = "$2" ]; then return; fi
  echo "installing $1 $2 ..."
  rm -f "$mark"
  work=$to/work.$1
  rm -rf "$work" && mkdir "$work"
  "$3"
  rm -rf "$work"
  echo "$2" >"$mark"
}

# sources FOLDER: a checksum of what a program is built from.
sources() { find "$here/$1/pom.xml" "$here/$1/src" -type f | LC_ALL=C sort | tr '\n' '\0' | xargs -0 cat | cksum | tr ' ' -; }

# PyPI has the whole of Flink: jars in one package, scripts in the other, the same for every platform.
# Neither is installed as a Python package: that would bring an old Beam.
get_flink() {
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps -d "$work" \
    --only-binary :all: --python-version 3.11 --platform manylinux2014_x86_64 "apache-flink==$flink"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps -d "$work" \
    --no-binary :all: "apache-flink-libraries==$flink"
  "$python" -m zipfile -e "$work"/apache_flink-*.whl "$work/scripts"
  tar xzf "$work"/apache?flink?libraries-*.tar.gz -C "$work"
  rm -rf "$to/flink" && mkdir -p "$to/flink/log"
  cp -r "$work"/apache?flink?libraries-*/deps/* "$to/flink"
  cp -r "$work"/scripts/pyflink/bin "$work"/scripts/pyflink/conf "$to/flink"
  chmod +x "$to"/flink/bin/*
}

get_job_server() {
  cp "$here/flink/pom.xml" "$work"
  mvn --file "$work/pom.xml" package
  mv "$work"/target/job-server.jar "$to/job-server.jar"
}

get_java() {
  cp -r "$here/$1/pom.xml" "$here/$1/src" "$work"
  mvn --file "$work/pom.xml" package
  mv "$work/target/$2.jar" "$to/$2.jar"
}

get_java_pipeline() { get_java java java-pipeline; }
get_sql_service() { get_java sql sql-service; }

get_operator_crd() {
  local artifact=org.apache.flink:flink-kubernetes-operator-api:$operator
  mvn org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="$artifact" -DoutputDirectory="$work" -Dmdep.useBaseVersion=true
  "$python" -m zipfile -e "$work"/flink-kubernetes-operator-api-*.jar "$work/api"
  mv "$work/api/META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml" "$to/flinkdeployments.yml"
}

get_prism() { go install "github.com/apache/beam/sdks/v2/go/cmd/prism@v$beam"; }
get_fake_gcs_server() { go install "github.com/fsouza/fake-gcs-server@$fake_gcs"; }

get_moto() {
  rm -rf "$to/moto"
  "$python" -m venv "$to/moto"
  # uv is much faster. pip is the fallback, as in the Makefile.
  "$python" -m uv pip install --quiet --no-cache --python "$to/moto/bin/python" "moto[server]==$moto" ||
    "$to/moto/bin/python" -m pip install --quiet --disable-pip-version-check "moto[server]==$moto"
}

# The cache of engines may outlive the machine with the package: each time, the programs are looked for.
get_slurm() {
  PATH=$PATH:/usr/sbin
  if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
      echo "make engines: missing on this machine: Slurm and munge (e.g. apt-get install slurm-wlm munge)" >&2
      exit 1
    fi
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends)
    echo "installing slurm ..."
    # Only the download can wait for ever: whoever stops apt-get later leaves what it refuses to go on from.
    timeout 120 apt-get -qq update || true
    timeout 600 "${install[@]}" --download-only slurm-wlm munge >/dev/null
    "${install[@]}" slurm-wlm munge >/dev/null
  fi
  slurmctld -V >"$to/.slurm"
}

cd "$here" # Go and Maven look around in the folder they are started in: it is ours
install flink "$flink" get_flink
install job-server "$(cksum <"$here/flink/pom.xml" | tr ' ' -)" get_job_server
install java-pipeline "$(sources java)" get_java_pipeline
install sql-service "$(sources sql)" get_sql_service
install operator-crd "$operator" get_operator_crd
install prism "$beam" get_prism
install fake-gcs-server "$fake_gcs" get_fake_gcs_server
install moto "$moto" get_moto
get_slurm
rm -rf "$cache"
