"""The manifests for Flink's Kubernetes operator, held against its schema as it is published."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.engines.conftest import installed

FOLDER = Path(__file__).parents[2] / "templates" / "flink-operator"


def strict(schema):
    """The schema as Kubernetes takes it: unknown names are errors."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = bool(found.get("x-kubernetes-preserve-unknown-fields"))
    if found.pop("x-kubernetes-int-or-string", False):
        found = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    return found


def test_flink_is_what_the_operator_takes():
    crd = yaml.safe_load(Path(installed("flinkdeployments.yml")).read_text())["spec"]
    manifest = yaml.safe_load((FOLDER / "flink.yaml").read_text())
    (version,) = (v for v in crd["versions"] if v["name"] == "v1beta1")
    assert manifest["apiVersion"] == f"{crd['group']}/{version['name']}"
    assert manifest["kind"] == crd["names"]["kind"]
    schema = strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    check = jsonschema.Draft7Validator(schema)
    assert not [f"{list(e.path)}: {e.message}" for e in check.iter_errors(manifest["spec"])]
    pod = manifest["spec"]["taskManager"]["podTemplate"]
    pod["spec"]["containers"][1]["arguments"] = ["x"]
    with pytest.raises(jsonschema.ValidationError, match="'arguments' was unexpected"):
        check.validate(manifest["spec"])
    del pod["spec"]["containers"][1]["arguments"]
    manifest["spec"]["flinkVersion"] = "v1_12"
    with pytest.raises(jsonschema.ValidationError, match="v1_12"):
        check.validate(manifest["spec"])
